/* From cuts to stages: names, ranks, edges, gradients, sums of times and bytes. Private to
 * core/plan. */
#ifndef CS_PLAN_MAKE_PLACE_H
#define CS_PLAN_MAKE_PLACE_H

#include "core/plan/plan_schedule.h"

enum { CS_MAX_BRANCHES = CS_MAX_ENCODERS + 1 };

struct cs_cuts {
    int32_t n_stages[CS_MAX_BRANCHES]; /* of every branch */
    int *sizes[CS_MAX_BRANCHES];       /* layers per stage */
};

enum cs_modality {
    CS_MODALITY_PARALLEL,
    CS_MODALITY_COLOCATED,
    CS_MODALITY_REPLICATED,
    CS_MODALITY_FIRST
};

struct cs_placing {
    enum cs_modality modality;
    const struct cs_schedule_info *schedule;
    int32_t chunks; /* of an LLM stage, 1: it is not cut further */
};

/* CS_PLAN: not a modality, or not one that the schedule has, with the one that it has */
enum cs_status cs_placing_make(const char *modality, const struct cs_schedule_info *schedule,
                               struct cs_placing *out, struct cs_err *err) CS_NODISCARD;
/* encoders are copied to the ranks of the LLM; their cut is one stage */
bool cs_placing_copies(const struct cs_placing *placing);

/* stages in dataflow order, names, ids, layers, ranks and shares, see cs_plan_make; the LLM's cut
 * has chunks times its ranks. CS_PLAN when the counts do not allow it. */
enum cs_status cs_place_stages(const struct cs_graph *graph, const struct cs_placing *placing,
                               const struct cs_cuts *cuts, struct cs_arena *arena,
                               struct cs_plan *plan, struct cs_err *err) CS_NODISCARD;
/* edges, has_backward, needs_input_grad, tied stages: what follows from stages, graph and budgets
 */
void cs_place_derive(const struct cs_graph *graph, struct cs_arena *arena, struct cs_plan *plan);
/* times and bytes of every stage */
void cs_place_costs(const struct cs_graph *graph, const struct cs_device_class *device,
                    const struct cs_layer_cost *cost, struct cs_plan *plan);
/* After the costs: the recompute of every stage from the request, what it no longer keeps, and the
 * time it takes. */
void cs_place_recompute(const struct cs_spec *spec, const struct cs_graph *graph,
                        const struct cs_device_class *device, const struct cs_layer_cost *cost,
                        struct cs_plan *plan);
/* longest chain of stages after this one; index: of the stage in its branch */
int32_t cs_place_depth(const struct cs_graph *graph, const struct cs_cuts *cuts, int32_t branch,
                       int32_t index);

/* Bytes that training keeps of a trained parameter beside its weight: its gradient; all, moments
 * and, below fp32, a master. keeps_bf16: gradient and moments in bf16, no master. */
struct cs_state_bytes {
    int64_t grad, all;
};
struct cs_state_bytes cs_state_bytes(bool keeps_bf16, const struct cs_device_class *device);

/* what a replica keeps of a layer's state: all gradients, its part of the rest */
int64_t cs_replica_state(int64_t state, bool keeps_bf16, const struct cs_device_class *device,
                         int32_t dp);

/* bytes of one layer: parameters, gradients with optimizer state, activations kept per slot */
struct cs_layer_bytes {
    int64_t weight, state, saved;
};
struct cs_layer_bytes cs_layer_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                                     const struct cs_slot_budget *budget,
                                     const struct cs_device_class *device);

#endif
