/* Times and bytes of the stages of a plan, from those of their layers. */
#ifndef CS_PLAN_COST_STAGES_H
#define CS_PLAN_COST_STAGES_H

#include "core/plan/cost/basis/profile.h"

/* Times of a slot and bytes of every stage; cost (graph->n_layers). */
void cs_stage_costs(const struct cs_graph *graph, const struct cs_device_class *device,
                    const struct cs_layer_cost *cost, struct cs_plan *plan);
/* What a step costs beside its layers, into the stages of a plan whose layers are placed; their
 * measured times grow by what messages of their ranks through NCCL take of the device. profile NULL: nothing. */
void cs_stage_step_costs(const struct cs_graph *graph, const struct cs_cluster *cluster,
                         const struct cs_profile *profile, struct cs_plan *plan);

#endif
