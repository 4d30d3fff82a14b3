/* What recompute saves and costs a stage. */
#ifndef CS_PLAN_COST_RECOMPUTE_H
#define CS_PLAN_COST_RECOMPUTE_H

#include "core/model/keeps.h"
#include "core/model/spec.h"
#include "core/plan/cost/basis/profile.h"

/* What a spec asks for of a branch. */
enum cs_recompute cs_recompute_asked(const struct cs_spec *spec, const char *branch);

/* Of a layer with rows rows: bytes of a slot that are no longer kept, time of its backward to make
 * them again. 0: a frozen block keeps nothing that is cheap to make again. */
struct cs_recompute_effect {
    int64_t bytes, redo_ns;
};
struct cs_recompute_effect cs_layer_recompute(const struct cs_graph *graph,
                                              const struct cs_layer *layer, int64_t rows,
                                              enum cs_recompute level,
                                              const struct cs_device_class *device, int64_t fwd_ns);

/* After the costs: the recompute of every stage from the request, what it no longer keeps, and the
 * time it takes. */
void cs_stage_recompute(const struct cs_spec *spec, const struct cs_graph *graph,
                        const struct cs_device_class *device, const struct cs_layer_cost *cost,
                        struct cs_plan *plan);

#endif
