/* What recurrent layers of the LLM cost over the ranks of a context. Their rows lie in order over the ranks,
 * as many on each: what enters and leaves a layer goes between the ranks that have it and those of the map,
 * the convolution reads rows of the rank before, and no rank can begin before it knows the state in which
 * the rows before its own end. So every rank makes of its rows a map of states and what is added behind it
 * (delta_pass), tells those behind, and joins what those before have told (delta_join); the backward
 * does the same with gradients of states from the other end, and makes the states again. */
#ifndef CS_PLAN_COST_STRETCH_H
#define CS_PLAN_COST_STRETCH_H

#include "core/model/graph.h"
#include "core/plan/cluster.h"
#include "core/plan/cost/context_work.h"

/* Of one head where all ranks have rows of one document: FLOPs of the rank that makes most, and of the one
 * that joins most; fp32 numbers that come to the rank that gets most, or leave it. None of it but `made` grows
 * with the slot. */
struct cs_stretch_states {
    int64_t made, joined, moved;
};
/* rows: of a rank; is_back: in the backward */
struct cs_stretch_states cs_stretch_states(const struct cs_recurrent *r, int64_t rows,
                                           int32_t ranks, bool is_back);

/* A slot of n_rows over so many ranks. device: its link is that between the ranks. tp: ranks that share the
 * heads of each. */
struct cs_stretch {
    const struct cs_graph *graph;
    const struct cs_device_class *device;
    int32_t ranks, tp;
    int64_t n_rows;
};

/* Cost of a layer on one rank, of these parts, becomes that of a rank of the context. fixed: what of it a shorter slot
 * takes as well. */
void cs_stretch_cost(const struct cs_stretch *s, const struct cs_layer *layer,
                     const struct cs_layer_parts *parts, struct cs_layer_cost *cost,
                     struct cs_layer_cost *fixed);

#endif
