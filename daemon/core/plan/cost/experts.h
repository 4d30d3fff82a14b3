/* What it costs that the experts of a layer are spread over ranks. */
#ifndef CS_PLAN_COST_EXPERTS_H
#define CS_PLAN_COST_EXPERTS_H

#include "core/model/spec.h"
#include "core/plan/cost/cost.h"

/* Arrays with a row for each pair that move: inputs and outputs; those again with gradients of both. */
enum { CS_EXPERTS_FWD = 2, CS_EXPERTS_BWD = 3 };

/* So many rows of a rank, `times` arrays of them, once between ep ranks: on hosts their pairs go to whoever has
 * the expert, on GPUs each row goes to everybody (worker/layer/spread.h). */
int64_t cs_experts_move_ns(const struct cs_arch *arch, int64_t rows, int times, int32_t ep,
                           const struct cs_device_class *device);
/* Rows of a full slot go to the ranks of their experts and back, once in a forward, and twice with
 * what they need in a backward. As many come to a rank as leave it: the router is trained to choose
 * experts evenly. cost: (graph->n_layers), of one rank of a context. */
void cs_spread_experts(const struct cs_spec *spec, const struct cs_graph *graph,
                       const struct cs_slot_budget *budget, const struct cs_device_class *device,
                       struct cs_layer_cost *cost);

#endif
