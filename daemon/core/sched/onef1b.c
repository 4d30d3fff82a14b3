/* 1F1B over a graph of rank nodes: F(0..w-1); F(w+i), B(i); the remaining B, with
 * w = min(slots, rank nodes after this one on the longest path to the loss). A chain through any
 * encoder then looks like an ordinary 1F1B pipeline. Source: Cornstarch, multimodal 1F1B.
 *
 * Where stages share ranks so that rank nodes feed each other in a circle (all branches colocated
 * on several ranks), warm-ups that differ from rank to rank would dead-lock. There every rank uses
 * the same one, as long as the longest chain of stages: all ranks run the same sequence of phases
 * F(i), B(i), and inside a phase stages run in dataflow order, so every dependency points backwards
 * in one total order. */
#include "core/sched/order.h"

void cs_schedule_1f1b(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order)
{
    const struct cs_rank_node *node = &pipeline->node[rank];
    int32_t m = pipeline->n_slots;
    int32_t warm = pipeline->is_cyclic ? pipeline->longest_chain - 1 : node->depth;
    if (warm > m || !node->has_backward)
        warm = m;
    for (int32_t i = 0; i < warm; i++)
        cs_order_fwd(pipeline, rank, i, order);
    if (!node->has_backward)
        return;
    for (int32_t i = 0; i < m - warm; i++) {
        cs_order_fwd(pipeline, rank, warm + i, order);
        cs_order_bwd(pipeline, rank, i, order);
    }
    for (int32_t i = m - warm; i < m; i++)
        cs_order_bwd(pipeline, rank, i, order);
}
