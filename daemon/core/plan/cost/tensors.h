/* What layers cost on ranks that share their matrices. */
#ifndef CS_PLAN_COST_TENSORS_H
#define CS_PLAN_COST_TENSORS_H

#include "core/model/budget.h"
#include "core/model/spec.h"
#include "core/plan/cluster.h"
#include "core/plan/cost/tensor_share.h"

/* What a pass of a layer waits for: time added to its own, and time that passes beside it. */
struct cs_tensor_wait {
    int64_t behind, beside;
};

/* of the sums of what a pass makes, or of the rows that are put together and taken apart */
struct cs_tensor_sums {
    struct cs_tensor_wait fwd, bwd;
};

/* rows: of a slot on the ranks that share the layer; label_rows: of those what a head sees; 0: what is waited for whatever they are. adds: where rows are split,
 * what a rank computes of the layer has it that parts which have come are added (cs_tensor_adds). */
struct cs_tensor_sums cs_tensor_sums(const struct cs_graph *graph, const struct cs_layer *layer,
                                     int64_t rows, int64_t label_rows,
                                     const struct cs_device_class *device,
                                     struct cs_tensor_ranks ranks, bool adds);
int64_t cs_tensor_with(int64_t ns, struct cs_tensor_wait wait);

/* Ranks that share a branch; 1: none do. */
struct cs_tensor_ranks cs_tensor_ranks_of(const struct cs_spec *spec, const char *branch);
/* Adds to what each of the ranks that share a layer computes of it (core/plan/cost/tensor_share.h) what it waits for:
 * each half of a block waits for one sum over the ranks in each direction (on GPUs too: on two H200
 * products beside sums hid next to nothing of them); embeddings and the head's gradient are summed. */
void cs_tensor_add_sums(const struct cs_graph *graph, const struct cs_layer *layer, int64_t rows,
                        int64_t label_rows, const struct cs_device_class *device,
                        struct cs_tensor_ranks ranks, bool adds, struct cs_layer_cost *cost);

#endif
