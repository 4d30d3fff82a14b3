/* What a rank keeps of a slot for the backward, and what it makes again there. */
#include "core/model/tensor_parallel.h"
#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/stage/recompute.h"
#include "core/plan/cost/stage/scratch.h"
#include "core/search/problem/builder.h"

int64_t cs_problem_dropped(const struct cs_problem_builder *b, const struct cs_layer *layer,
                           const struct cs_problem_at *at, enum cs_keep_share share)
{
    return cs_keep_elements(b->graph, layer, CS_RECOMPUTE_NONE, share) -
           cs_keep_elements(b->graph, layer, at->recompute, share);
}

/* all ranks of the context split the slot */
static struct cs_slot_exchange exchange_of(const struct cs_problem_at *at)
{
    return (struct cs_slot_exchange){
        .degrees = {.ranks = at->context != NULL ? at->cp : 1},
        .seq = at->work.tokens,
        .moves_heads = at->context != NULL && at->context->moves_heads,
        .own_first = at->context != NULL && at->context->own_first,
    };
}

/* Of what a layer keeps of all rows of a slot, a rank's. */
static int64_t part_of(const struct cs_problem_at *at, int64_t bytes)
{
    return at->context != NULL ? cs_context_part(bytes, (int32_t)at->work.tokens, at->cp, 0)
                               : bytes;
}

static int64_t dropped_bytes(const struct cs_problem_builder *b, const struct cs_graph *cut,
                             const struct cs_layer *layer, int64_t rows, enum cs_recompute level)
{
    return cs_layer_recompute(cut, layer, rows, level, b->device, 0).bytes;
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

static void note_heads(const struct cs_problem_builder *b, const struct cs_layer *layer,
                       struct cs_search_layer *out)
{
    struct cs_search_heads *heads = CS_NEW(b->arena, struct cs_search_heads);
    *heads = (struct cs_search_heads){*cs_layer_attention(b->graph, layer),
                                      cs_device_element_bytes(b->device)};
    out->heads = heads;
}

/* as plans count it: by the same functions, of the graph as the rank has it */
void cs_problem_count_saved(const struct cs_problem_builder *b, const struct cs_layer *layer,
                            const struct cs_problem_at *at, struct cs_search_layer *out)
{
    const int element = cs_device_element_bytes(b->device);
    const struct cs_graph *cut = cs_problem_cut(b, b->whole->modules[layer->module].branch, at);
    const struct cs_layer *own = &cut->layers[layer->id];
    const struct cs_slot_exchange exchange = exchange_of(at);
    const bool keeps = own->needs_input_grad || own->needs_weight_grad;
    if (exchange.moves_heads && layer->attention >= 0)
        note_heads(b, own, out);
    out->work_bytes = cs_layer_context_bytes(cut, own, &exchange, at->rows, element) +
                      cs_layer_scratch_bytes(cut, own, at->rows, at->recompute, element);
    out->held_bytes = cs_layer_held_bytes(cut, own, at->rows, at->recompute, element);
    if (keeps)
        out->saved_bytes =
            part_of(at, cs_layer_saved_bytes(cut, own, at->work.tokens) / 4 * element) -
            dropped_bytes(b, cut, own, at->rows, at->recompute);
}

int64_t cs_problem_redo_ns(const struct cs_problem_builder *b, const struct cs_layer *layer,
                           const struct cs_problem_at *at, int64_t fwd_ns)
{
    const struct cs_graph *cut = cs_problem_cut(b, b->whole->modules[layer->module].branch, at);
    const int64_t rows = at->context != NULL ? at->rows : cs_over(at->rows, at->cp);
    if (at->recompute == CS_RECOMPUTE_NONE)
        return 0;
    return cs_layer_recompute(cut, &cut->layers[layer->id], rows, at->recompute, b->device, fwd_ns)
        .redo_ns;
}
