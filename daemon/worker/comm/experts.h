/* Whole values of experts that ranks share, for whoever tells them. Host only; messages go over the job's
 * sockets. */
#ifndef CS_WORKER_COMM_EXPERTS_H
#define CS_WORKER_COMM_EXPERTS_H

#include "core/plan/plan.h"
#include "kernels/comm.h"
#include "worker/params/params.h"

struct cs_expert_ranks;

/* rank: of all; params and comm: borrowed. *out is NULL where it has all experts. */
enum cs_status cs_expert_ranks_new(const struct cs_plan *plan, int rank,
                                   const struct cs_params *params, struct cs_comm *comm,
                                   int deadline_ms, struct cs_expert_ranks **out,
                                   struct cs_err *err) CS_NODISCARD;
void cs_expert_ranks_free(struct cs_expert_ranks *ranks); /* accepts NULL */

/* Called by the first holder of a parameter at each place among the ranks of experts, in one order. own
 * (param->count floats): what it has of an expert's tensor. *out on the first of them: the tensor as the
 * stage's ranks with this part of its matrices have it, own where it is here whole, else valid until
 * the next call; elsewhere, of other tensors, and with ranks NULL: own. */
enum cs_status cs_expert_ranks_collect(struct cs_expert_ranks *ranks, const struct cs_shard *shard,
                                       const float *own, const float **out,
                                       struct cs_err *err) CS_NODISCARD;

#endif
