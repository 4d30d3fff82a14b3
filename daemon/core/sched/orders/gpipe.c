/* GPipe: all forwards, then all backwards, both in slot order, in which gradients are added up. */
#include "core/sched/orders/generator.h"
#include "core/sched/orders/interleaved.h"

static void make(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order)
{
    if (pipeline->is_grid) {
        cs_order_grid_gpipe(pipeline, rank, order);
        return;
    }
    if (!pipeline->node[rank].has_backward) {
        cs_order_forwards(pipeline, rank, order);
        return;
    }
    for (int32_t i = 0; i < pipeline->n_slots; i++)
        cs_order_fwd(pipeline, rank, i, order);
    for (int32_t i = 0; i < pipeline->n_slots; i++)
        cs_order_bwd(pipeline, rank, CS_OP_BWD, i, order);
}

const struct cs_generator cs_generator_gpipe = {.order = make};
