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
/* Where the rows of a message go, part by part; NULL: all of them to the rank that stands where this one
 * stands. */
const struct cs_row_map *cs_exec_row_map(const struct cs_exec *exec,
                                         const struct cs_action *action);
struct cs_row_end cs_exec_row_end(const struct cs_exec *exec, const struct cs_action *action);
/* The pieces that a message has on this rank: with whom which of its rows are exchanged. *out is to be
 * freed, also where there are none. */
enum cs_status cs_exec_pieces(const struct cs_exec *exec, const struct cs_action *action,
                              const struct cs_message *message, struct cs_row_piece **out,
                              int32_t *n, struct cs_err *err) CS_NODISCARD;
/* The rank of all at the other end of a piece. */
int cs_exec_piece_rank(const struct cs_exec *exec, const struct cs_action *action,
                       const struct cs_row_piece *piece);
/* The same as transfers, and what else goes with them. *out is to be freed. */
enum cs_status cs_exec_transfers(const struct cs_exec *exec, const struct cs_action *action,
                                 const struct cs_message *message, struct cs_xfer **out, int *n,
                                 struct cs_err *err) CS_NODISCARD;
/* A message begins: rows to send are where a stage left them, rows to receive get a place. */
struct cs_message cs_exec_open_message(struct cs_exec *exec, const struct cs_action *action);
/* A message is over: what was sent may be overwritten. */
void cs_exec_close_message(struct cs_exec *exec, const struct cs_action *action);
/* Devices with streams: the whole message, enqueued on its channel. */
enum cs_status cs_exec_enqueue_message(struct cs_exec *exec, const struct cs_action *action,
                                       struct cs_err *err) CS_NODISCARD;

#endif
