/* What costs and memory of a layer are computed from: the work of one slot filled to its budgets.
 * Private to core/plan and to predictions. */
#ifndef CS_PLAN_COST_COSTS_H
#define CS_PLAN_COST_COSTS_H

#include "core/mask/rule.h"
#include "core/plan/cost/profile.h"
#include "core/plan/plan.h"

struct cs_layer_work {
    int64_t tokens;     /* rows of the slot that pass the layer */
    int64_t pairs;      /* query-key pairs of its attention */
    int64_t label_rows; /* rows with a label (head) */
};

/* The rule of the attention of a module's layers: of the LLM the job's, else full. */
struct cs_mask_rule cs_module_rule(const struct cs_module *module);
struct cs_layer_work cs_layer_work(const struct cs_graph *graph, const struct cs_layer *layer,
                                   const struct cs_slot_budget *budget);
/* bytes of one weight or activation element: 4 on CPUs, 2 on GPUs */
int cs_device_element_bytes(const struct cs_device_class *device);
/* Puts what a profile measured on one rank in the place of the costs of the layers that it has; the
 * first that it has not: missing (NULL: it has all). CS_PLAN: of another device, precision or
 * shapes. */
enum cs_status cs_measured_layer_costs(const struct cs_spec *spec, const struct cs_graph *graph,
                                       const struct cs_slot_budget *budget,
                                       const struct cs_device_class *device,
                                       const struct cs_profile *profile, struct cs_layer_cost *cost,
                                       const struct cs_layer **missing,
                                       struct cs_err *err) CS_NODISCARD;
/* Costs of all layers for a spec: measured where it brings a profile, else the roofline. out may be
 * NULL; NULL in it: there is none. CS_INVALID, CS_PLAN: plan.profile is no profile, of another
 * device or precision, of other shapes, or without a layer of the model. */
enum cs_status cs_spec_layer_costs(const struct cs_spec *spec, const struct cs_graph *graph,
                                   const struct cs_slot_budget *budget,
                                   const struct cs_device_class *device, struct cs_arena *arena,
                                   struct cs_layer_cost *cost, const struct cs_profile **out,
                                   struct cs_err *err) CS_NODISCARD;
/* What a step costs beside its layers, into the stages of a plan whose layers are placed; their
 * measured times grow by what messages of their ranks take of the device. profile NULL: nothing. */
void cs_place_step_costs(const struct cs_graph *graph, const struct cs_device_class *device,
                         const struct cs_profile *profile, struct cs_plan *plan);

/* Scratch memory of the largest action of a stage, beside what is kept. element: as above. The
 * worker plans its own exactly (worker/exec/memory.h); this is what it comes to, within a few percent.
 */
int64_t cs_stage_work_bytes(const struct cs_graph *graph, const struct cs_plan *plan, int32_t stage,
                            int element);
/* What a slot keeps beside saved_bytes between the halves of a split backward. */
int64_t cs_stage_held_bytes(const struct cs_graph *graph, const struct cs_plan *plan, int32_t stage,
                            int element);
/* Rows and gradients on their way between a rank's stages and to others, and the gradient of a tied
 * embedding that comes from its other rank. n_slots: of a replica */
int64_t cs_rank_boundary_bytes(const struct cs_plan *plan, int32_t rank, int32_t n_slots,
                               int element);

#endif
