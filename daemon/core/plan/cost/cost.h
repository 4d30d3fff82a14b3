/* Times of layers for the budgets of a slot: measured where a job brings a profile, else the
 * roofline of the device class. */
#ifndef CS_PLAN_COST_COST_H
#define CS_PLAN_COST_COST_H

#include "core/model/spec.h"
#include "core/plan/cost/context_choice.h"
#include "core/plan/cost/tensor_share.h"

/* The roofline of all layers: cost (graph->n_layers). */
void cs_layer_costs(const struct cs_graph *graph, const struct cs_slot_budget *budget,
                    const struct cs_device_class *device, struct cs_layer_cost *cost);
/* Puts what a profile measured on one rank in the place of the costs of the layers that it has; the
 * first that it has not: missing (NULL: it has all). CS_PLAN: of another device, precision or
 * shapes. */
enum cs_status cs_measured_layer_costs(const struct cs_spec *spec, const struct cs_graph *graph,
                                       const struct cs_slot_budget *budget,
                                       const struct cs_device_class *device,
                                       const struct cs_profile *profile, struct cs_layer_cost *cost,
                                       const struct cs_layer **missing,
                                       struct cs_err *err) CS_NODISCARD;
/* The cost of a layer of the LLM on each of the ranks that share it (cs_tensor_share) becomes that on those of the
 * rank of a context that takes longest: measured where the profile has a row of so many ranks, else by the work of
 * each. fixed: what of it a shorter slot takes as well. */
void cs_context_cost(const struct cs_context_work *work, const struct cs_graph *graph,
                     const struct cs_layer *layer, const struct cs_slot_budget *budget,
                     const struct cs_device_class *device, const struct cs_profile *profile,
                     struct cs_tensor_ranks ranks, struct cs_layer_cost *cost,
                     struct cs_layer_cost *fixed);

/* What costs of layers were made from. */
struct cs_cost_source {
    const struct cs_profile *profile; /* NULL: there is none */
    struct cs_context_choice context;
};

/* Costs of all layers for a spec: measured where it brings a profile, else the roofline. out may be
 * NULL. CS_INVALID, CS_PLAN: plan.profile is no profile, of another
 * device or precision, of other shapes, or without a layer of the model. */
enum cs_status cs_spec_layer_costs(const struct cs_spec *spec, const struct cs_graph *graph,
                                   const struct cs_slot_budget *budget,
                                   const struct cs_device_class *device, struct cs_arena *arena,
                                   struct cs_layer_cost *cost, struct cs_cost_source *out,
                                   struct cs_err *err) CS_NODISCARD;

#endif
