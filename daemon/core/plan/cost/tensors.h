/* What layers cost on ranks that share their matrices. */
#ifndef CS_PLAN_COST_TENSORS_H
#define CS_PLAN_COST_TENSORS_H

#include "core/model/budget.h"
#include "core/plan/cluster.h"
#include "core/plan/cost/cost.h"

/* Costs of one rank become those of each of the ranks that share a branch: a block's products are
 * divided, and each half waits for one sum over the ranks in each direction (on GPUs too: on two H200
 * products beside sums hid next to nothing of them); the head's are divided too, and embeddings and the
 * head's gradient are summed. */
void cs_share_tensors(const struct cs_spec *spec, const struct cs_graph *graph,
                      const struct cs_slot_budget *budget, const struct cs_device_class *device,
                      struct cs_layer_cost *cost);

#endif
