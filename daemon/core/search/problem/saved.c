/* What a rank keeps of a slot for the backward, and what it makes again there. */
#include "core/model/tensor_parallel.h"
#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/stage/scratch.h"
#include "core/search/problem/builder.h"

int64_t cs_problem_dropped(const struct cs_problem_builder *b, const struct cs_layer *layer,
                           const struct cs_problem_at *at, enum cs_keep_share share)
{
    return cs_keep_elements(b->graph, layer, CS_RECOMPUTE_NONE, share) -
           cs_keep_elements(b->graph, layer, at->recompute, share);
}

/* all ranks of the context split the slot */
static void count_exchange(const struct cs_problem_builder *b, const struct cs_layer *layer,
                           const struct cs_problem_at *at, struct cs_search_layer *out)
{
    const struct cs_context_degrees all = {.ranks = at->cp};
    const struct cs_attention *attention = cs_layer_attention(b->graph, layer);
    const int element = cs_device_element_bytes(b->device);
    if (!at->context->moves_heads) {
        out->work_bytes = cs_over(cs_context_bytes(attention, at->cp, at->work.tokens, at->rows,
                                                   at->context->own_first, element),
                                  at->tp);
        return;
    }
    struct cs_search_heads *heads = CS_NEW(b->arena, struct cs_search_heads);
    *heads = (struct cs_search_heads){*attention, element};
    cs_tp_attention(&heads->attention, (struct cs_tp){.ranks = at->tp});
    out->heads = heads;
    out->work_bytes =
        cs_context_heads_bytes(&heads->attention, &all, at->work.tokens, at->rows, element);
}

/* Inputs, normed inputs and statistics are whole on every tp rank, or where rows are split of its own ones; heads and
 * MLP are cut. */
static int64_t kept_bytes(const struct cs_problem_builder *b, const struct cs_layer *layer,
                          const struct cs_problem_at *at, enum cs_recompute level)
{
    const int64_t row = (int64_t)cs_device_element_bytes(b->device) * at->rows;
    const int32_t ranks = at->sp && layer->kind == CS_LAYER_BLOCK ? at->tp : 1;
    return row * cs_keep_elements(b->graph, layer, level, CS_KEEP_EVERYWHERE) +
           cs_over(row * cs_keep_elements(b->graph, layer, level, CS_KEEP_ROWS), ranks) +
           cs_over(row * cs_keep_elements(b->graph, layer, level, CS_KEEP_CUT), at->tp);
}

static struct cs_problem_cuts *cuts_of(const struct cs_problem_builder *b, int32_t branch)
{
    if (b->cuts->branch != branch)
        *b->cuts = (struct cs_problem_cuts){.branch = branch};
    return b->cuts;
}

const struct cs_graph *cs_problem_cut(const struct cs_problem_builder *b, int32_t branch,
                                      const struct cs_problem_at *at)
{
    struct cs_problem_cuts *all = cuts_of(b, branch);
    const int32_t ep = at->ep > 1 ? at->ep : 1;
    for (int32_t i = 0; i < all->n; i++)
        if (all->cut[i].tp == at->tp && all->cut[i].ep == ep && all->cut[i].sp == at->sp)
            return all->cut[i].graph;
    struct cs_tp tp[CS_MAX_ENCODERS + 1] = {{0}};
    struct cs_tp_view view = {.graph = b->whole};
    tp[branch] = (struct cs_tp){/* the last has what is left */
                                .ranks = at->tp,
                                .at = at->tp - 1,
                                .ep = ep,
                                .ep_at = ep - 1,
                                .splits_rows = at->sp};
    if (at->tp > 1 || ep > 1)
        cs_tp_view_make(b->whole, tp, b->arena, &view);
    CS_ASSERT(all->n < CS_PROBLEM_CUTS);
    all->cut[all->n++] = (struct cs_problem_cut){at->tp, ep, at->sp, view.graph};
    return view.graph;
}

/* as plans count it */
static void count_scratch(const struct cs_problem_builder *b, const struct cs_layer *layer,
                          const struct cs_problem_at *at, struct cs_search_layer *out)
{
    const int element = cs_device_element_bytes(b->device);
    const struct cs_graph *cut = cs_problem_cut(b, b->whole->modules[layer->module].branch, at);
    const struct cs_layer *own = &cut->layers[layer->id];
    out->work_bytes += cs_layer_scratch_bytes(cut, own, at->rows, at->recompute, element);
    out->held_bytes = cs_layer_held_bytes(cut, own, at->rows, at->recompute, element);
}

void cs_problem_count_saved(const struct cs_problem_builder *b, const struct cs_layer *layer,
                            const struct cs_problem_at *at, struct cs_search_layer *out)
{
    if (at->context && layer->attention >= 0)
        count_exchange(b, layer, at, out);
    count_scratch(b, layer, at, out);
    out->saved_bytes = kept_bytes(b, layer, at, at->recompute);
}

int64_t cs_problem_redo_ns(const struct cs_problem_builder *b, const struct cs_layer *layer,
                           const struct cs_problem_at *at, int64_t fwd_ns)
{
    if (at->recompute == CS_RECOMPUTE_FULL)
        return cs_keep_can_redo(cs_layer_arch(b->graph, layer), layer) ? fwd_ns : 0;
    return cs_problem_bytes_ns(
        2 * (kept_bytes(b, layer, at, CS_RECOMPUTE_NONE) - kept_bytes(b, layer, at, at->recompute)),
        b->device->bytes_per_s);
}
