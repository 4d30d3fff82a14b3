/* Copies of an encoder on several ranks of a replica, each of which runs some of its slots, or all of them for
 * its own stage of the LLM: once a step their gradients are summed, in the order of the copies, so that all of
 * them have the same bits and updates keep them equal. Every copy then keeps and updates all that it has,
 * as replicas do with theirs. Host only; messages go over the job's sockets: each copy sums a part of every
 * gradient and sends the sum to the others. */
#ifndef CS_WORKER_COMM_COPIES_H
#define CS_WORKER_COMM_COPIES_H

#include "core/plan/plan.h"
#include "kernels/comm.h"
#include "worker/params/params.h"

struct cs_copies;

/* rank: of all; all but out borrowed. *out is NULL where the rank has no copy of anything. CS_UNSUPPORTED: on
 * devices. */
enum cs_status cs_copies_new(const struct cs_plan *plan, int rank, struct cs_params *params,
                             struct cs_comm *comm, int deadline_ms, struct cs_copies **out,
                             struct cs_err *err) CS_NODISCARD;
void cs_copies_free(struct cs_copies *copies); /* accepts NULL */
/* The gradients of the stage, a copy on this rank, become those of all its copies together. All of them
 * call it. */
enum cs_status cs_copies_reduce(struct cs_copies *copies, int32_t stage,
                                struct cs_err *err) CS_NODISCARD;

#endif
