/* 1F1B over a graph of rank nodes: F(0..w-1); F(w+i), B(i); the remaining B, with
 * w = min(slots, rank nodes after this one on the longest path to the loss). A chain through any
 * encoder then looks like an ordinary 1F1B pipeline. Source: Cornstarch, multimodal 1F1B.
 *
 * Where stage s of every branch is on rank s (all branches colocated on several ranks), encoders
 * and LLM are one chain that goes over the ranks twice: two chunks of an interleaved pipeline, and
 * its order. Where stages share ranks in another way so that rank nodes feed each other in a
 * cycle, warm-ups that differ from rank to rank would dead-lock. There every rank uses the same
 * one, as long as the longest chain of stages: all ranks run the same sequence of phases F(i),
 * B(i), and inside a phase stages run in dataflow order, so every dependency points backwards in
 * one total order. */
#include "core/sched/orders/generator.h"
#include "core/sched/orders/interleaved.h"

static void make(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order)
{
    const struct cs_rank_node *node = &pipeline->node[rank];
    if (pipeline->is_grid)
        cs_order_grid_1f1b(pipeline, rank, order);
    else if (node->has_backward)
        cs_order_one_to_one(pipeline, rank,
                            pipeline->is_cyclic ? pipeline->longest_chain - 1 : node->depth, order);
    else
        cs_order_forwards(pipeline, rank, order);
}

const struct cs_generator cs_generator_1f1b = {.order = make};
