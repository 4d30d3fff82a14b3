/* Data parallelism: the same rank of every replica holds the same weights and sees other slots, and
 * ranks of a context hold the same weights and see other rows of a slot. All of them are replicas of
 * these weights here.
 * Once a step their gradients are summed (reduce-scatter: each keeps its part of every bucket, see
 * worker/params/params.h), each updates its part, and the updated weights are gathered by all
 * (ZeRO-1, Rajbhandari et al. 2020).
 *
 * Where a stage divides its gradients (zero 2) the sum of a layer is made behind its backward of every
 * slot (of a split one behind each half what that has made), and added to the own part: slot by slot the sums over all replicas, while level 1 adds a replica's
 * slots first and then the replicas. With one slot a replica both have the same bits. Where it divides
 * weights (zero 3), those of a layer are gathered before its forward and before its backward; on devices
 * those of the layer that comes next meanwhile, of whatever stage of the rank. All replicas run the same program, so they meet in the
 * same order.
 *
 * Gradients kept in bf16 are summed in bf16, as PyTorch's DDP sums bf16 gradients: NCCL adds two
 * numbers in fp32 and rounds to nearest for each replica that takes part.
 *
 * On the host messages go over the job's sockets and sums are made in the order of replicas. On
 * devices a communicator of the replicas has a stream of its own: the sum of a bucket starts when
 * the last backward has passed its layers, and a layer of the next step waits for its own weights
 * only. Functions are called by one thread at a time; abort may come from another. */
#ifndef CS_WORKER_COMM_REPLICAS_H
#define CS_WORKER_COMM_REPLICAS_H

#include "core/plan/plan.h"
#include "kernels/comm.h"
#include "worker/params/params.h"

struct cs_replicas;

/* rank: of all. comm: of all ranks, borrowed. *out is NULL where no other rank has its weights.
 * CS_UNSUPPORTED: devices without NCCL. */
enum cs_status cs_replicas_new(struct cs_device *device, const struct cs_plan *plan, int rank,
                               struct cs_comm *comm, int deadline_ms, struct cs_replicas **out,
                               struct cs_err *err) CS_NODISCARD;
/* Accepts NULL; all replicas together, before the parameters go, whose weights may still be on
 * their way. After cs_replicas_abort, or when a replica is gone, nobody is waited for. */
void cs_replicas_free(struct cs_replicas *replicas);

/* before the first use: the parameters, borrowed */
enum cs_status cs_replicas_bind(struct cs_replicas *replicas, struct cs_params *params,
                                struct cs_err *err) CS_NODISCARD;
/* a step begins: nothing is summed yet */
void cs_replicas_begin(struct cs_replicas *replicas);
/* Something is divided: enter and layer_done want to be told of every layer and slot. Accepts NULL. */
bool cs_replicas_divides(const struct cs_replicas *replicas);
/* A layer's forward (step 1), backward or its input half (-1), or the weight half (0) follows: what it reads
 * of the weights is whole, and the memory of gradients that it makes (enum cs_made), and no other, is free for what
 * is run from here on. Accepts NULL. */
enum cs_status cs_replicas_enter(struct cs_replicas *replicas, int32_t layer, int32_t step,
                                 unsigned made, struct cs_err *err) CS_NODISCARD;
/* What makes gradients of a layer (made: enum cs_made) has been run, on devices enqueued: those that are
 * divided are summed. With is_last, of the step's last slot, devices start the sums of the layers from
 * `layer` on when its backward is over. Accepts NULL. */
enum cs_status cs_replicas_layer_done(struct cs_replicas *replicas, int32_t layer, unsigned made,
                                      bool is_last, struct cs_err *err) CS_NODISCARD;
/* On the host: how enter and layer_done move messages, over connections that another thread shares; returns
 * when they are through, or the step has failed. Without it they use the transport. Accepts NULL. */
typedef void cs_replicas_move_fn(void *user, struct cs_xfer *xfer, int n);
void cs_replicas_move_by(struct cs_replicas *replicas, cs_replicas_move_fn *move, void *user);
/* Sums of what is divided are on the device's stream from here on; of a stage that had no slot they are 0.
 * Accepts NULL. */
enum cs_status cs_replicas_settle(struct cs_replicas *replicas, int32_t stage,
                                  struct cs_err *err) CS_NODISCARD;
/* the rest of the sums; the device's stream waits for all of them */
enum cs_status cs_replicas_reduce(struct cs_replicas *replicas, struct cs_err *err) CS_NODISCARD;
/* the updated weights, after what is on the device's stream */
enum cs_status cs_replicas_gather(struct cs_replicas *replicas, struct cs_err *err) CS_NODISCARD;
/* Devices: the device's stream waits for the weights of a layer (-1: of all), where they are still
 * on their way. Accepts NULL. */
enum cs_status cs_replicas_need(struct cs_replicas *replicas, int32_t layer,
                                struct cs_err *err) CS_NODISCARD;
/* A whole fp32 array of an entry's state, of which every replica has a part, to `host` on replica 0
 * (count floats; elsewhere room for this replica's part). All replicas call it in one order,
 * between steps. NULL replicas: a copy. */
enum cs_status cs_replicas_collect(struct cs_replicas *replicas, struct cs_params *params,
                                   const struct cs_shard *tensor, enum cs_state which, float *host,
                                   struct cs_err *err) CS_NODISCARD;

void *cs_replicas_stream(const struct cs_replicas *replicas); /* NULL: the host */
enum cs_status cs_replicas_check(struct cs_replicas *replicas, struct cs_err *err) CS_NODISCARD;
void cs_replicas_abort(struct cs_replicas *replicas); /* accepts NULL */

#endif
