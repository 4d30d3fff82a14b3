/* Exchanges of a group of ranks as a rank of it runs them: what links.c times. */
#ifndef CS_WORKER_MEASURE_EXCHANGES_H
#define CS_WORKER_MEASURE_EXCHANGES_H

#include "core/plan/cluster.h"
#include "kernels/comm.h"
#include "worker/device/device.h"

enum { CS_LINK_RANKS = 8, CS_LINK_DEADLINE_MS = 60000 };

struct cs_link_rank {
    struct cs_comm *comm;     /* sockets of the group, borrowed */
    struct cs_device *device; /* borrowed; NULL: the host */
    void *group[CS_LINK_OPS];
    size_t bytes;                   /* of the largest exchange */
    float *mine, *all;              /* (bytes) each */
    float *worked;                  /* of a host: what it computes between exchanges */
    struct cs_messenger *messenger; /* ... and who moves its messages */
    void *side;         /* of a device: the stream of exchanges, beside the device's own */
    void *on;           /* ... that one or the device's own, where the next exchange runs */
    void *asked, *over; /* events of both */
};

struct cs_exchange_kind {
    int counts; /* exchanges that one call makes */
    /* of bytes; on devices enqueued */
    enum cs_status (*run)(struct cs_link_rank *rank, size_t bytes, struct cs_err *err);
};

struct cs_exchanges {
    struct cs_exchange_kind kind[CS_LINK_OPS]; /* a message is between two ranks */
    /* of what is enqueued: in turn with what computes, as layers wait for exchanges, or beside it; NULL: nothing is
     * enqueued */
    enum cs_status (*before)(struct cs_link_rank *rank, int kind, bool is_beside,
                             struct cs_err *err);
    enum cs_status (*after)(struct cs_link_rank *rank, struct cs_err *err);
    /* Of a host: computes as layers do between two exchanges. Who comes first waits: what is timed is what both take
     * together beyond the work alone. NULL: devices wait for each other on their own. */
    void (*work)(struct cs_link_rank *rank);
    size_t small, large; /* bytes that are measured */
    int repeats;         /* in one sample */
    bool (*by_copy_engines)(const struct cs_link_rank *rank,
                            int kind); /* of a rank that is open; NULL: none are */
    /* All ranks of the group call open. Close waits for the others; abort, before it, where one of them may not come.
     * Both accept what was opened in part. */
    enum cs_status (*open)(struct cs_link_rank *rank, struct cs_err *err);
    void (*abort)(struct cs_link_rank *rank);
    void (*close)(struct cs_link_rank *rank);
    enum cs_status (*settle)(struct cs_link_rank *rank,
                             struct cs_err *err); /* until all have run */
};

extern const struct cs_exchanges cs_host_exchanges, cs_device_exchanges;

#endif
