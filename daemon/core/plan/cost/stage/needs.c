/* Adds up what a rank of a plan takes of its device's memory. */
#include "core/plan/cost/stage/needs.h"

#include "core/model/tensor_parallel.h"
#include "core/plan/cost/links/windows.h"
#include "core/plan/cost/stage/scratch.h"
#include "core/plan/cost/stage/zero.h"

int64_t cs_rank_needs_bytes(const struct cs_rank_needs *n)
{
    return n->weights + n->state + n->activations + n->scratch + n->boundary + n->windows;
}

const struct cs_graph *cs_plan_rank_graph(const struct cs_graph *graph, const struct cs_plan *plan,
                                          struct cs_arena *arena)
{
    struct cs_tp tp[CS_MAX_ENCODERS + 1] = {{0}};
    struct cs_tp_view view;
    bool is_shared = false;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_rank_shape shape = cs_plan_shape(plan, s);
        /* the last has what is left */
        tp[plan->stages[s].branch] = (struct cs_tp){.ranks = shape.tp,
                                                    .at = shape.tp - 1,
                                                    .ep = shape.ep,
                                                    .ep_at = shape.ep - 1,
                                                    .splits_rows = plan->stages[s].splits_rows};
        is_shared = is_shared || shape.tp > 1 || shape.ep > 1;
    }
    if (!is_shared)
        return graph;
    cs_tp_view_make(graph, tp, arena, &view);
    return view.graph;
}

int64_t *cs_needs_held(const struct cs_needs_of *of, struct cs_arena *arena)
{
    if (of->graph == NULL)
        return NULL;
    int64_t *held = CS_NEW_ARRAY(arena, int64_t, of->plan->n_stages + 1);
    for (int32_t s = 0; s < of->plan->n_stages; s++)
        held[s] = cs_stage_held_bytes(of->graph, of->plan, s, of->element);
    return held;
}

struct cs_rank_needs cs_rank_needs(const struct cs_needs_of *of, int32_t rank, int64_t kept)
{
    struct cs_rank_needs out = {
        .activations = kept,
        .boundary = cs_rank_boundary_bytes(of->plan, rank, of->n_buffers, of->element)};
    int32_t tp = 1, ep = 1;
    for (int32_t s = 0; s < of->plan->n_stages; s++) {
        const struct cs_stage *stage = &of->plan->stages[s];
        if (stage->rank != rank)
            continue;
        const struct cs_rank_shape shape = cs_plan_shape(of->plan, s);
        const int64_t scratch =
            of->graph ? cs_stage_scratch_bytes(of->graph, of->plan, s, of->element) : 0;
        out.weights += stage->weight_bytes;
        out.state += stage->state_bytes;
        out.scratch = scratch > out.scratch ? scratch : out.scratch;
        tp = shape.tp > tp ? shape.tp : tp;
        ep = shape.ep > ep ? shape.ep : ep;
    }
    if (of->graph != NULL)
        out.scratch += cs_rank_zero_bytes(of->graph, of->plan, rank, of->element);
    if (of->cluster != NULL && cs_device_has_windows(of->cluster->device))
        out.windows =
            cs_window_bytes(of->cluster->devices_per_node, tp, ep) +
            cs_channel_window_bytes(of->cluster, of->plan, cs_plan_rank_of(of->plan, 0, rank));
    return out;
}
