/* The transport table: point-to-point and small collectives between the ranks of one job.
 *
 * Implementations: comm/socket.c (AF_UNIX stream pairs on a node), later NCCL and simulated.
 * Semantics follow NCCL: messages between two ranks in one direction are a FIFO, both sides know
 * every size. One thread uses a cs_comm at a time. A dead peer ends every
 * call with CS_PEER_GONE naming the rank; nobody waits for ever (deadline in milliseconds, <= 0:
 * none). */
#ifndef CS_KERNELS_COMM_H
#define CS_KERNELS_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

struct cs_comm;

struct cs_xfer {
    int peer; /* rank */
    void *data;
    size_t bytes;
    int is_send;
    int is_done;          /* set by progress/exchange */
    size_t moved;         /* private to the transport */
    struct cs_xfer *next; /* private to the transport */
};

struct cs_comm_table {
    const char *name;
    /* Another communicator over the same connections, for a second thread; at no time do both have something queued for
     * one peer. What ends one ends both. The first one closes the connections and is freed last. */
    enum cs_status (*share)(struct cs_comm *comm, struct cs_comm **out, struct cs_err *err);
    /* Queue one transfer (the struct and its data stay alive until is_done). Transfers complete in
     * FIFO order per (peer, direction); different peers and directions progress independently. Zero
     * bytes: done at once. */
    enum cs_status (*post)(struct cs_comm *comm, struct cs_xfer *xfer, struct cs_err *err);
    /* Move what can be moved at once; waits for nothing. */
    enum cs_status (*push)(struct cs_comm *comm, struct cs_err *err);
    /* Move bytes of everything queued. Returns when at least one transfer completed, when wake_fd
     * (-1: none) is readable (the caller drains it), or CS_TIMEOUT after deadline_ms. A dead peer
     * is noticed only when something is queued for it or arrives from it. Without a wake_fd it looks for a
     * while before it sleeps. */
    enum cs_status (*progress)(struct cs_comm *comm, int wake_fd, int deadline_ms,
                               struct cs_err *err);
    /* post all, progress until all are done. All transfers of one call progress together (as inside
     * ncclGroupStart/End): no order between peers can dead-lock. Returns when all are complete.
     * Zero bytes are legal and send nothing. */
    enum cs_status (*exchange)(struct cs_comm *comm, struct cs_xfer *xfer, int n, int deadline_ms,
                               struct cs_err *err);
    /* every rank contributes bytes[rank]; all (sum of bytes) is filled in rank order on every rank.
     * Own part is copied from mine. */
    enum cs_status (*allgather)(struct cs_comm *comm, const void *mine, void *all,
                                const size_t *bytes, int deadline_ms, struct cs_err *err);
    /* close every connection so that peers blocked on us wake up; callable from another thread */
    void (*abort)(struct cs_comm *comm);
    void (*free)(struct cs_comm *comm);
};

struct cs_comm {
    const struct cs_comm_table *table;
    int rank, n_ranks;
};

/* fds[peer]: a connected stream socket to every other rank, -1 for the own rank or where no message
 * ever flows. Takes ownership of the descriptors. */
enum cs_status cs_comm_socket_new(int rank, int n_ranks, const int *fds, struct cs_comm **out,
                                  struct cs_err *err) CS_NODISCARD;

#endif
