/* Copies of an encoder on several ranks of a replica, each of which runs some of its slots, or all of them for
 * its own stage of the LLM: once a step their gradients are summed, so that all of them have the same bits and
 * updates keep them equal. Every copy then keeps and updates all that it has, as replicas do with theirs;
 * where replicas divide gradients, what is summed is the part that a rank keeps.
 *
 * On hosts messages go over the job's sockets: each copy sums a part of every gradient, in the order of the
 * copies, and sends the sum to the others. Devices sum over NCCL (worker/comm/context_comm.h). */
#ifndef CS_WORKER_COMM_COPIES_H
#define CS_WORKER_COMM_COPIES_H

#include "core/plan/plan.h"
#include "kernels/comm.h"
#include "worker/comm/context_comm.h"
#include "worker/params/params.h"

struct cs_copies;

/* rank: of all; all but out borrowed. sums: on devices, of the ranks that have copies; NULL: the host. *out is
 * NULL where the rank has no copy of anything. */
enum cs_status cs_copies_new(const struct cs_plan *plan, int rank, struct cs_params *params,
                             struct cs_comm *comm, struct cs_context_comm *sums, int deadline_ms,
                             struct cs_copies **out, struct cs_err *err) CS_NODISCARD;
void cs_copies_free(struct cs_copies *copies); /* accepts NULL */
/* The gradients of the stage, a copy on this rank, become those of all its copies together. All of them
 * call it; on devices it is enqueued. */
enum cs_status cs_copies_reduce(struct cs_copies *copies, int32_t stage,
                                struct cs_err *err) CS_NODISCARD;

#endif
