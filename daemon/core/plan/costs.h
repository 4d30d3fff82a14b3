/* What costs and memory of a layer are computed from: the work of one slot filled to its budgets.
 * Private to core/plan and to predictions. */
#ifndef CS_PLAN_COSTS_H
#define CS_PLAN_COSTS_H

#include "core/plan/plan.h"

struct cs_layer_work {
    int64_t tokens;     /* rows of the slot that pass the layer */
    int64_t pairs;      /* query-key pairs of its attention */
    int64_t label_rows; /* rows with a label (head) */
};

struct cs_layer_work cs_layer_work(const struct cs_graph *graph, const struct cs_layer *layer,
                                   const struct cs_slot_budget *budget);
/* bytes of one weight or activation element: 4 on CPUs, 2 on GPUs */
int cs_device_element_bytes(const struct cs_device_class *device);

#endif
