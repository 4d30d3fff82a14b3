/* What a layer works on in a slot that is filled to its budgets, and how many bytes it keeps. */
#ifndef CS_PLAN_COST_BYTES_H
#define CS_PLAN_COST_BYTES_H

#include "core/model/budget.h"
#include "core/model/graph.h"
#include "core/plan/cluster.h"

struct cs_layer_work {
    int64_t tokens;     /* rows of the slot that pass the layer */
    int64_t pairs;      /* query-key pairs of its attention, 0 where it does not attend */
    int64_t label_rows; /* rows with a label (head) */
};

/* Pairs in an encoder's item of so many frames (1: a picture) of so many patches each: frames see
 * themselves only. */
int64_t cs_item_pairs(const struct cs_attention *attention, int64_t frames, int64_t patches);
struct cs_layer_work cs_layer_work(const struct cs_graph *graph, const struct cs_layer *layer,
                                   const struct cs_slot_budget *budget);
/* bytes of one weight or activation element: 4 on CPUs, 2 on GPUs */
int cs_device_element_bytes(const struct cs_device_class *device);

/* Bytes that training keeps of a trained parameter beside its weight: grad, its gradient; all, also
 * moments and, below fp32, a master. keeps_bf16: gradient and moments in bf16, no master. */
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
    int64_t expert_state; /* of state: what is of its experts */
};
struct cs_layer_bytes cs_layer_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                                     const struct cs_slot_budget *budget,
                                     const struct cs_device_class *device);
/* What a rank keeps of its state, where `holders` ranks have the layer's weights, and every ep-th of
 * them the same experts. */
int64_t cs_layer_state(const struct cs_layer_bytes *layer, bool keeps_bf16,
                       const struct cs_device_class *device, int32_t holders, int32_t ep);

#endif
