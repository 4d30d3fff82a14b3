/* Exchanges in the middle of a stage's work between the GPUs that it is spread over: rows of a slot in a
 * context (worker/model/halves/context.h), sums of those that share matrices (worker/layer/tensors.h), rows on their way
 * to experts (worker/layer/spread.h); and at its end the sums of copies of encoders (copies.h). Each has
 * an NCCL communicator of its ranks on a stream of its own, so that some of it travels while the rest
 * is computed. Calls enqueue only; exchanges run in the order of their starts, which is the same on all ranks. Used by
 * one thread; abort may come from another. */
#ifndef CS_WORKER_COMM_CONTEXT_COMM_H
#define CS_WORKER_COMM_CONTEXT_COMM_H

#include "core/plan/groups.h"
#include "core/plan/plan.h"
#include "kernels/comm.h"
#include "worker/device/device.h"

struct cs_context_comm;

/* kind: CS_GROUP_CP, CS_GROUP_TP, CS_GROUP_EP, CS_GROUP_ITEMS or CS_GROUP_COPIES (whose groups of all branches
 * have the same members). rank: of all. comm: the sockets of all ranks, borrowed for the call.
 * *out is NULL on the host and where this rank is in no such group. CS_UNSUPPORTED: no NCCL. */
enum cs_status cs_context_comm_new(struct cs_device *device, const struct cs_plan *plan,
                                   enum cs_group_kind kind, int rank, struct cs_comm *comm,
                                   int deadline_ms, struct cs_context_comm **out,
                                   struct cs_err *err) CS_NODISCARD;
/* Accepts NULL; all ranks together. After an abort, or when a peer is gone, nobody is waited for. */
void cs_context_comm_free(struct cs_context_comm *context);

/* Exchange number `which` (0 ..) of those that are under way together: after what is on the device's
 * stream. moves (n): peers are places in the group. */
enum cs_status cs_context_comm_start(struct cs_context_comm *context, int which,
                                     const struct cs_device_move *moves, int n,
                                     struct cs_err *err) CS_NODISCARD;
/* The same of a sum: data (n) of all ranks, in place (cs_device_comm_ops.all_reduce). */
enum cs_status cs_context_comm_sum(struct cs_context_comm *context, int which, void *data, size_t n,
                                   enum cs_grad_type type, struct cs_err *err) CS_NODISCARD;
/* The device's stream goes on when it is complete; then its number is free. */
enum cs_status cs_context_comm_finish(struct cs_context_comm *context, int which,
                                      struct cs_err *err) CS_NODISCARD;
/* Both on the device's own stream, behind all that are under way: where nothing is computed beside them. */
enum cs_status cs_context_comm_move(struct cs_context_comm *context,
                                    const struct cs_device_move *moves, int n,
                                    struct cs_err *err) CS_NODISCARD;
enum cs_status cs_context_comm_sum_now(struct cs_context_comm *context, void *data, size_t n,
                                       enum cs_grad_type type, struct cs_err *err) CS_NODISCARD;
/* It has failed: CS_PEER_GONE, or what this host lacks. Accepts NULL. Does not wait. */
enum cs_status cs_context_comm_check(struct cs_context_comm *context,
                                     struct cs_err *err) CS_NODISCARD;
void cs_context_comm_abort(struct cs_context_comm *context); /* accepts NULL */

#endif
