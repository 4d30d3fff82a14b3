/* Messages: rows of an edge for a slot, or their gradient, to or from another rank. */
#ifndef CS_WORKER_EXEC_MESSAGES_H
#define CS_WORKER_EXEC_MESSAGES_H

#include "worker/exec/state.h"

/* Where the rows of a message lie on this rank. Zero rows have no place and are not sent. */
struct cs_message {
    void *data; /* (rows, width of the edge) acts, in the memory of the device; NULL: no rows */
    size_t bytes;
};

/* This rank makes the rows of the message, and takes their gradients. */
bool cs_exec_is_at_producer(const struct cs_action *action);
/* Rows that ranks which share matrices all have: each rank there has them from one here, the k-th from
 * the k-th in turn. How many of those there this rank sends to, or has them from (0 or 1); they follow
 * the one that stands where this one stands in steps of the ranks here. */
int32_t cs_exec_opposites(const struct cs_exec *exec, const struct cs_action *action,
                          int32_t *step);
/* The transfers of a message on a host: one; or, of rows of an encoder that ranks share or that go to ranks
 * which split the rows of the LLM, the pieces of each of them. *out is to be freed; NULL and 0: no rows. */
enum cs_status cs_exec_transfers(const struct cs_exec *exec, const struct cs_action *action,
                                 const struct cs_message *message, struct cs_xfer **out, int *n,
                                 struct cs_err *err) CS_NODISCARD;
/* A message begins: rows to send are where a stage left them, rows to receive get a place. */
struct cs_message cs_exec_open_message(struct cs_exec *exec, const struct cs_action *action);
/* A message is over: what was sent may be overwritten. */
void cs_exec_close_message(struct cs_exec *exec, const struct cs_action *action);
/* Devices with streams: the whole message, enqueued on its channels. */
enum cs_status cs_exec_enqueue_message(struct cs_exec *exec, const struct cs_action *action,
                                       struct cs_err *err) CS_NODISCARD;

#endif
