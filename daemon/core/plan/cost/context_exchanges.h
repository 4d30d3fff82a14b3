/* Exchanges between the ranks of a context around a layer's attention: their bytes, what is waited for of them, and
 * what attention over the own keys hides while they are under way. */
#ifndef CS_PLAN_COST_CONTEXT_EXCHANGES_H
#define CS_PLAN_COST_CONTEXT_EXCHANGES_H

#include "core/plan/cost/context_work.h"

/* Adds them to the cost of the rank that takes longest. whole: of a whole slot on one rank. fixed as in
 * cs_context_layer_cost. */
void cs_context_exchange_cost(const struct cs_context_work *work, const struct cs_graph *graph,
                              const struct cs_layer *layer, const struct cs_layer_parts *parts,
                              const struct cs_device_class *device, int32_t tp,
                              const struct cs_layer_cost *whole, struct cs_layer_cost *cost,
                              struct cs_layer_cost *fixed);
/* What own_first would save of all exchanges of such a layer as they are exposed otherwise, on GPUs in groups of heads
 * of which only one is waited for (worker/model/halves/context_groups.h); below 0: it costs more than it hides. cost: of
 * a whole slot on one rank. */
int64_t cs_context_own_first_ns(const struct cs_context_work *work, const struct cs_graph *graph,
                                const struct cs_layer *layer, const struct cs_layer_parts *parts,
                                const struct cs_device_class *device, int32_t tp,
                                const struct cs_layer_cost *cost);
/* What comes to the rank with most, or leaves it, around the layer's attention, forward and backward. */
int64_t cs_context_layer_bytes(const struct cs_context_work *work, const struct cs_graph *graph,
                               const struct cs_layer *layer, const struct cs_device_class *device,
                               int32_t tp);

#endif
