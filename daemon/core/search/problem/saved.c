/* What a rank keeps of a slot for the backward, and what it makes again there. */
#include "core/model/tensor_parallel.h"
#include "core/plan/context.h"
#include "core/plan/cost/bytes.h"
#include "core/plan/cost/round.h"
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

void cs_problem_count_saved(const struct cs_problem_builder *b, const struct cs_layer *layer,
                            const struct cs_problem_at *at, struct cs_search_layer *out)
{
    const struct cs_arch *arch = cs_layer_arch(b->graph, layer);
    out->saved_bytes = kept_bytes(b, layer, at, CS_RECOMPUTE_NONE);
    if (layer->kind == CS_LAYER_HEAD)
        out->work_bytes = cs_over(at->work.label_rows, at->cp) * 4 * cs_over(arch->vocab, at->tp);
    if (at->context && layer->attention >= 0)
        count_exchange(b, layer, at, out);
    if (cs_problem_dropped(b, layer, at, CS_KEEP_ALL) == 0)
        return;
    if (at->recompute == CS_RECOMPUTE_FULL)
        out->work_bytes += out->saved_bytes;
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
