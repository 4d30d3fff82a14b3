/* What layers cost on ranks that share their matrices. */
#ifndef CS_PLAN_COST_TENSORS_H
#define CS_PLAN_COST_TENSORS_H

#include "core/model/budget.h"
#include "core/plan/cluster.h"
#include "core/plan/cost/cost.h"

/* What a pass of a layer waits for: time added to its own, and time that passes beside it. */
struct cs_tensor_wait {
    int64_t behind, beside;
};

/* of the sums of what a pass makes, or of the rows that are put together and taken apart */
struct cs_tensor_sums {
    struct cs_tensor_wait fwd, bwd;
};

/* rows: of a slot on the ranks that share the layer; label_rows: of those what a head sees. is_split: sp. */
struct cs_tensor_sums cs_tensor_sums(const struct cs_graph *graph, const struct cs_layer *layer,
                                     int64_t rows, int64_t label_rows,
                                     const struct cs_device_class *device, int32_t tp,
                                     bool is_split);
int64_t cs_tensor_with(int64_t ns, struct cs_tensor_wait wait);

/* Costs of one rank become those of each of the ranks that share a branch: a block's products are
 * divided, and each half waits for one sum over the ranks in each direction (on GPUs too: on two H200
 * products beside sums hid next to nothing of them); the head's are divided too, and embeddings and the
 * head's gradient are summed. */
void cs_share_tensors(const struct cs_spec *spec, const struct cs_graph *graph,
                      const struct cs_slot_budget *budget, const struct cs_device_class *device,
                      struct cs_layer_cost *cost);

#endif
