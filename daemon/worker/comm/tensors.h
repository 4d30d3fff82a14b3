/* Between the ranks that share a stage's matrices, beside the sums in its layers (worker/layer/tensors.h):
 * once a step the gradients of what several of them have and each makes a part of, and whole values for
 * whoever tells them. Sums are made in the order of the ranks, so that all have the same bits. Gradients
 * of devices go over NCCL, all other messages over the job's sockets. */
#ifndef CS_WORKER_COMM_TENSORS_H
#define CS_WORKER_COMM_TENSORS_H

#include "core/plan/plan.h"
#include "kernels/comm.h"
#include "worker/comm/context_comm.h"
#include "worker/comm/replicas.h"
#include "worker/params/params.h"

struct cs_tensor_ranks;

/* rank: of all; comm, params and sharers (of devices, else NULL): borrowed. *out is NULL where nobody
 * shares its stage. */
enum cs_status cs_tensor_ranks_new(int rank, struct cs_params *params, struct cs_comm *comm,
                                   struct cs_context_comm *sharers, int deadline_ms,
                                   struct cs_tensor_ranks **out, struct cs_err *err) CS_NODISCARD;
void cs_tensor_ranks_free(struct cs_tensor_ranks *ranks); /* accepts NULL */

/* At the end of a step gradients that are made in parts become their sums on all ranks that have them,
 * but for those that replicas divide; on devices after what is on the device's stream, which goes on
 * afterwards. Accepts NULL. */
enum cs_status cs_tensor_ranks_reduce(struct cs_tensor_ranks *ranks,
                                      struct cs_err *err) CS_NODISCARD;
/* Those, behind what makes them in a layer (enum cs_made), before replicas sum them; hosts by the same move as they
 * (cs_replicas_move_by). Accepts NULL. */
enum cs_status cs_tensor_ranks_layer_done(struct cs_tensor_ranks *ranks, int32_t layer,
                                          unsigned made, struct cs_err *err) CS_NODISCARD;
void cs_tensor_ranks_move_by(struct cs_tensor_ranks *ranks, cs_replicas_move_fn *move, void *user);
/* The whole values of a shard (whole->count floats) on the first rank of the stage, from what each has
 * of it (own, param->count floats; of an expert what cs_expert_ranks_collect gave); all of its ranks call it in one order. *out: there own where it is
 * whole already, else valid until the next call; on other ranks own. ranks NULL: own. */
enum cs_status cs_tensor_ranks_collect(struct cs_tensor_ranks *ranks, const struct cs_shard *shard,
                                       const float *own, const float **out,
                                       struct cs_err *err) CS_NODISCARD;

#endif
