/* Predictions of a plan: the simulator over its expected slots, the costs in the plan (measured
 * where the spec brings a profile, else a roofline) and the links and memory of the cluster's
 * device class. Ranks fill nodes in order; a message to another node takes
 * the network's latency and bandwidth. */
#ifndef CS_SCHED_SIM_PREDICT_H
#define CS_SCHED_SIM_PREDICT_H

#include "core/sched/sim/sim.h"

/* Fills predicted_step_ns and predicted_bubble of the plan; its hash does not change. CS_PLAN: the
 * program is over the memory of the device, or too many ranks feed one. */
enum cs_status cs_plan_predict(struct cs_plan *plan, const struct cs_graph *graph,
                               const struct cs_cluster *cluster, struct cs_arena *arena,
                               struct cs_err *err) CS_NODISCARD;
/* The same with the simulator's inputs: stragglers, jitter, shared links, copies. Without a cost
 * function the costs are those of cs_plan_predict. NULL: none. */
enum cs_status cs_plan_predict_with(struct cs_plan *plan, const struct cs_graph *graph,
                                    const struct cs_cluster *cluster,
                                    const struct cs_sim_options *inputs, struct cs_arena *arena,
                                    struct cs_err *err) CS_NODISCARD;
/* The cost function of one node; user: const struct cs_device_class. */
int64_t cs_predict_cost(void *user, const struct cs_program *program, int rank,
                        const struct cs_action *action);

#endif
