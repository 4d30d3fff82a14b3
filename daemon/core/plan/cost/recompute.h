/* What recompute saves and costs a stage. */
#ifndef CS_PLAN_COST_RECOMPUTE_H
#define CS_PLAN_COST_RECOMPUTE_H

#include "core/model/spec.h"
#include "core/plan/cost/profile.h"

/* After the costs: the recompute of every stage from the request, what it no longer keeps, and the
 * time it takes. */
void cs_stage_recompute(const struct cs_spec *spec, const struct cs_graph *graph,
                        const struct cs_device_class *device, const struct cs_layer_cost *cost,
                        struct cs_plan *plan);

#endif
