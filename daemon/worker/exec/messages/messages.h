/* Messages: rows of an edge for a slot, or their gradient, to or from another rank. */
#ifndef CS_WORKER_EXEC_MESSAGES_H
#define CS_WORKER_EXEC_MESSAGES_H

#include "core/plan/tokens/row_map.h"
#include "worker/exec/state/state.h"

/* Where the rows of a message lie on this rank. Zero rows have no place and are not sent. */
struct cs_message {
    void *data; /* (rows, width of the edge) acts, in the memory of the device; NULL: no rows */
    size_t bytes;
    void
        *loads; /* of experts, behind the rows, (load_bytes of the edge); NULL: none go with them */
};

/* This rank makes the rows of the message, and takes their gradients. */
bool cs_exec_is_at_producer(const struct cs_action *action);
enum cs_edge_flow cs_exec_flow(const struct cs_action *action);

/* Where the rows of a message go, part by part, and which end of that this rank is. */
struct cs_exec_way {
    const struct cs_row_map *map;
    struct cs_row_end end;
    int32_t
        opposite; /* between stages of one branch: the only part of the other end; -1: as the map says */
    int32_t rows; /* and its map */
    struct cs_row_interval all;
    struct cs_row_map whole;
};

/* rows: of the message here. *way points into itself. */
void cs_exec_find_way(const struct cs_exec *exec, const struct cs_action *action, int32_t rows,
                      struct cs_exec_way *way);
/* The rank of all that is a sharer of a part of the other end. */
int cs_exec_way_rank(const struct cs_exec *exec, const struct cs_action *action,
                     const struct cs_exec_way *way, int32_t part, int32_t sharer);
/* The pieces that a message has on this rank, with whom which of its rows are exchanged, and what else goes
 * with them. *out is to be freed, also where there are none. */
enum cs_status cs_exec_transfers(const struct cs_exec *exec, const struct cs_action *action,
                                 const struct cs_message *message, struct cs_xfer **out, int *n,
                                 struct cs_err *err) CS_NODISCARD;
/* Bytes that leave this rank, to every rank that gets some. */
void cs_exec_count_sent(struct cs_exec *exec, const struct cs_xfer *xfer, int n);
/* A message begins: rows to send are where a stage left them, rows to receive get a place. */
struct cs_message cs_exec_open_message(struct cs_exec *exec, const struct cs_action *action);
/* A message is over: what was sent may be overwritten. */
void cs_exec_close_message(struct cs_exec *exec, const struct cs_action *action);
/* Devices with streams: the whole message, enqueued on its channel. */
enum cs_status cs_exec_enqueue_message(struct cs_exec *exec, const struct cs_action *action,
                                       struct cs_err *err) CS_NODISCARD;

#endif
