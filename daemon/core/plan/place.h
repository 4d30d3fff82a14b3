/* From cuts to stages: names, ranks, edges, gradients, sums of times and bytes. Private to
 * core/plan. */
#ifndef CS_PLAN_PLACE_H
#define CS_PLAN_PLACE_H

#include "core/plan/plan.h"

enum { CS_MAX_BRANCHES = CS_MAX_ENCODERS + 1 };

struct cs_cuts {
    int32_t n_stages[CS_MAX_BRANCHES]; /* of every branch */
    int *sizes[CS_MAX_BRANCHES];       /* layers per stage */
};

/* stages in dataflow order, names, ids and layers; ranks by modality:
 *   encoder-parallel   every stage has its own rank, in the order of the stages
 *   encoder-colocated  stage s of every branch on rank s; all branches have the same number of
 * stages CS_PLAN when the modality is unknown or the counts do not allow it. */
enum cs_status cs_place_stages(const struct cs_graph *graph, const char *modality,
                               const struct cs_cuts *cuts, struct cs_arena *arena,
                               struct cs_plan *plan, struct cs_err *err) CS_NODISCARD;
/* edges, has_backward, needs_input_grad, tied stages: what follows from stages, graph and budgets
 */
void cs_place_derive(const struct cs_graph *graph, struct cs_arena *arena, struct cs_plan *plan);
/* times and bytes of every stage */
void cs_place_costs(const struct cs_graph *graph, const struct cs_device_class *device,
                    const struct cs_layer_cost *cost, struct cs_plan *plan);
/* longest chain of stages after this one; index: of the stage in its branch */
int32_t cs_place_depth(const struct cs_graph *graph, const struct cs_cuts *cuts, int32_t branch,
                       int32_t index);

/* bytes of one layer: parameters, gradients with optimizer state, activations kept per slot */
struct cs_layer_bytes {
    int64_t weight, state, saved;
};
struct cs_layer_bytes cs_layer_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                                     const struct cs_slot_budget *budget,
                                     const struct cs_device_class *device);

#endif
