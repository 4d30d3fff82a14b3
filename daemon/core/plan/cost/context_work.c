/* Maps a full slot to the ranks of a context, and shares out times of layers by it. */
#include "core/plan/cost/context_work.h"

#include <math.h>

#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/context_exchanges.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/cost/stretch.h"
#include "core/plan/tokens/context_map.h"

/* ---- the slot ---- */

struct tokens {
    int32_t n, *doc, *pos, *item, *segment;
    uint64_t *word;
};

static void add_rows(struct tokens *t, int32_t *at, int64_t n, int32_t item, uint64_t word)
{
    for (int64_t i = 0; i < n && *at < t->n; i++, (*at)++) {
        t->pos[*at] = *at;
        t->item[*at] = item;
        t->word[*at] = word;
    }
}

/* items that are there of every encoder */
static int64_t count_items(const struct cs_slot_budget *budget, int e)
{
    const struct cs_item_budget *b = &budget->enc[e];
    return b->item_rows > 0 ? b->rows / b->item_rows : 0;
}

/* An eighth of the rows is text at least, as layers are costed. */
static int64_t text_between(const struct cs_slot_budget *budget)
{
    int64_t rows = 0, items = 0;
    for (int e = 0; e < budget->n_encoders; e++) {
        items += count_items(budget, e);
        rows += count_items(budget, e) * budget->enc[e].item_rows;
    }
    const int64_t seq = budget->seq_tokens;
    const int64_t text = seq - rows > seq / 8 ? seq - rows : seq / 8;
    return text / (items + 1);
}

static struct tokens fill_slot(const struct cs_slot_budget *budget, struct cs_arena *arena)
{
    const int32_t n = budget->seq_tokens;
    struct tokens t = {.n = n,
                       .doc = CS_NEW_ARRAY(arena, int32_t, n),
                       .pos = CS_NEW_ARRAY(arena, int32_t, n),
                       .item = CS_NEW_ARRAY(arena, int32_t, n),
                       .segment = CS_NEW_ARRAY(arena, int32_t, n + 1),
                       .word = CS_NEW_ARRAY(arena, uint64_t, n)};
    const int64_t between = text_between(budget);
    uint64_t text = CS_MASK_TEXT;
    int32_t at = 0, item = 0;
    bool has_more = true;
    for (int e = 0; e < budget->n_encoders; e++)
        text |= CS_MASK_MODALITY(e);
    for (int64_t i = 0; has_more; i++) { /* of every encoder in turn */
        has_more = false;
        for (int e = 0; e < budget->n_encoders; e++) {
            if (i >= count_items(budget, e) || at == n)
                continue;
            has_more = true;
            add_rows(&t, &at, between, -1, text);
            add_rows(&t, &at, budget->enc[e].item_rows, item++, CS_MASK_MODALITY(e));
        }
    }
    add_rows(&t, &at, n, -1, text);
    t.segment[1] = n;
    return t;
}

/* one for every kind of attention of the LLM; those of others are left 0 */
static struct cs_mask_plan *make_masks(const struct cs_graph *graph, const struct tokens *t,
                                       struct cs_arena *arena)
{
    const struct cs_branch *llm = &graph->branches[graph->llm];
    struct cs_mask_plan *mask = CS_NEW_ARRAY(arena, struct cs_mask_plan, graph->n_attentions + 1);
    for (int32_t a = 0; a <= graph->n_attentions; a++)
        mask[a] = (struct cs_mask_plan){.n_tokens = t->n,
                                        .doc = t->doc,
                                        .pos = t->pos,
                                        .item = t->item,
                                        .word = t->word,
                                        .n_segments = 1,
                                        .segment = t->segment};
    for (int32_t i = llm->first_layer; i < llm->first_layer + llm->n_layers; i++) {
        const int32_t id = cs_layer_attention_id(graph, &graph->layers[i]);
        if (id >= 0)
            mask[id].rule = cs_layer_attention(graph, &graph->layers[i])->rule;
    }
    return mask;
}

/* ---- what ranks have ---- */

struct map {
    const struct cs_mask_plan *mask; /* (n_attentions) */
    const int32_t *owner;            /* (n_rows) */
    int32_t ranks, block, n_blocks;
};

/* of all pairs under a mask; without a closed form those of rows */
static void share_pairs(const struct map *m, int32_t attention, struct cs_arena *arena,
                        double *share)
{
    const struct cs_mask_plan *mask = &m->mask[attention];
    struct cs_mask_runs runs;
    int32_t *pairs = CS_NEW_ARRAY(arena, int32_t, mask->n_tokens);
    double all = 0;
    if (cs_mask_runs_make(mask, arena, &runs, NULL) == CS_OK)
        (void)cs_mask_row_pairs(&runs, arena, pairs);
    for (int32_t i = 0; i < mask->n_tokens; i++) {
        share[m->owner[i]] += pairs[i];
        all += pairs[i];
    }
    for (int32_t r = 0; r < m->ranks; r++)
        share[r] = all > 0 ? share[r] / all : 1.0 / m->ranks;
}

/* Of the pairs of every rank those whose keys it has, of some rows in the middle of as many pieces of the slot. */
static void share_own(const struct map *m, int32_t attention, struct cs_arena *arena, double *own)
{
    enum { SAMPLES = 509 };

    const struct cs_mask_plan *mask = &m->mask[attention];
    const int32_t n = mask->n_tokens, samples = n < SAMPLES ? n : SAMPLES;
    double *all = CS_NEW_ARRAY(arena, double, m->ranks);
    for (int32_t i = 0; i < samples; i++) {
        const int32_t q = (int32_t)((2 * (int64_t)i + 1) * n / (2 * samples)), r = m->owner[q];
        for (int32_t j = 0; j < samples; j++) {
            const int32_t k = (int32_t)((2 * (int64_t)j + 1) * n / (2 * samples));
            if (!cs_mask_allows(mask->rule, cs_mask_token_at(mask, q), cs_mask_token_at(mask, k)))
                continue;
            all[r] += 1;
            own[r] += m->owner[k] == r;
        }
    }
    for (int32_t r = 0; r < m->ranks; r++)
        own[r] = all[r] > 0 ? own[r] / all[r] : 1;
}

static int64_t most_moved(const struct map *m, int32_t attention, struct cs_arena *arena)
{
    const struct cs_mask_plan *mask = &m->mask[attention];
    uint8_t *need = CS_NEW_ARRAY(arena, uint8_t, (int64_t)m->ranks * m->n_blocks);
    int64_t *come = CS_NEW_ARRAY(arena, int64_t, m->ranks),
            *go = CS_NEW_ARRAY(arena, int64_t, m->ranks), most = 0;
    cs_context_needs(mask, m->owner, m->ranks, need);
    for (int32_t r = 0; r < m->ranks; r++)
        for (int32_t b = 0; b < m->n_blocks; b++) {
            const int32_t first = b * m->block, from = m->owner[first];
            const int32_t n = b < m->n_blocks - 1 ? m->block : mask->n_tokens - first;
            const bool moves = need[(int64_t)r * m->n_blocks + b] && from != r;
            come[r] += moves ? n : 0;
            go[from] += moves ? n : 0;
        }
    for (int32_t r = 0; r < m->ranks; r++) {
        most = come[r] > most ? come[r] : most;
        most = go[r] > most ? go[r] : most;
    }
    return most;
}

/* heads of every other rank leave with the own rows, the own heads come with those of others */
static int64_t most_rows_moved(const struct cs_context_work *w)
{
    int64_t most = 0;
    for (int32_t r = 0; r < w->ranks; r++) {
        const int64_t leave = w->rows[r] * (w->ranks - 1), come = w->n_rows - w->rows[r];
        most = leave > most ? leave : most;
        most = come > most ? come : most;
    }
    return most;
}

static void take_load(const struct cs_context_load *load, struct cs_context_work *out,
                      int64_t *rows)
{
    double most = 0, sum = 0;
    for (int32_t r = 0; r < out->ranks; r++) {
        rows[r] = load[r].rows;
        out->most_rows = rows[r] > out->most_rows ? rows[r] : out->most_rows;
        most = load[r].work > most ? load[r].work : most;
        sum += load[r].work;
    }
    out->slack = sum > 0 ? most * out->ranks / sum : 1;
}

static enum cs_status fill(const struct cs_graph *graph, const struct cs_slot_budget *budget,
                           enum cs_balance_how how, struct cs_arena *scratch, int64_t *rows,
                           double *pairs, double *own, int64_t *moved, struct cs_context_work *out,
                           struct cs_err *err)
{
    const struct tokens tokens = fill_slot(budget, scratch);
    double *per_pair = CS_NEW_ARRAY(scratch, double, graph->n_attentions + 1);
    const struct cs_context_cost cost = {cs_context_flops(graph, per_pair), per_pair,
                                         out->moves_heads};
    int32_t *owner = CS_NEW_ARRAY(scratch, int32_t, tokens.n);
    struct cs_context_load *load = CS_NEW_ARRAY(scratch, struct cs_context_load, out->ranks);
    const int32_t block = cs_context_block(tokens.n, out->ranks);
    const struct map map = {.mask = make_masks(graph, &tokens, scratch),
                            .owner = owner,
                            .ranks = out->ranks,
                            .block = block,
                            .n_blocks = (tokens.n - 1) / block + 1};
    CS_TRY(cs_context_map(map.mask, graph->n_attentions > 0 ? graph->n_attentions : 1, &cost, how,
                          out->ranks, owner, load, err));
    take_load(load, out, rows);
    for (int32_t a = 0; a < graph->n_attentions; a++) {
        if (per_pair[a] <= 0)
            continue;
        double *share = pairs + (int64_t)a * out->ranks;
        if (out->moves_heads)
            for (int32_t r = 0; r < out->ranks; r++)
                share[r] = 1.0 / out->ranks;
        else {
            share_pairs(&map, a, scratch, share);
            share_own(&map, a, scratch, own + (int64_t)a * out->ranks);
        }
        moved[a] = out->moves_heads ? most_rows_moved(out) : most_moved(&map, a, scratch);
        out->most_moved = moved[a] > out->most_moved ? moved[a] : out->most_moved;
    }
    return CS_OK;
}

enum cs_status cs_context_work_make(const struct cs_graph *graph,
                                    const struct cs_slot_budget *budget, const char *context,
                                    bool moves_heads, int32_t ranks, struct cs_arena *arena,
                                    struct cs_context_work *out, struct cs_err *err)
{
    enum cs_balance_how how = CS_BALANCE_LPT;
    if (context != NULL && !cs_balance_how_from_name(context, &how))
        return cs_fail(err, CS_INVALID, "plan.context: \"%s\" is no rule", context);
    int64_t *rows = CS_NEW_ARRAY(arena, int64_t, ranks),
            *moved = CS_NEW_ARRAY(arena, int64_t, graph->n_attentions + 1);
    double *pairs = CS_NEW_ARRAY(arena, double, (int64_t)graph->n_attentions *ranks + 1),
           *own = CS_NEW_ARRAY(arena, double, (int64_t)graph->n_attentions *ranks + 1);
    *out = (struct cs_context_work){.ranks = ranks,
                                    .moves_heads = moves_heads,
                                    .n_rows = budget->seq_tokens,
                                    .rows = rows,
                                    .pairs = pairs,
                                    .own = own,
                                    .moved = moved};
    struct cs_arena *scratch = cs_arena_new(0);
    const enum cs_status status =
        fill(graph, budget, how, scratch, rows, pairs, own, moved, out, err);
    cs_arena_free(scratch);
    return status;
}

/* ---- times ---- */

/* forward two products of a pair, backward five; of a row as many backward as forward */
struct cs_layer_parts cs_layer_parts(const struct cs_graph *graph, const struct cs_layer *layer,
                                     const struct cs_slot_budget *budget)
{
    const struct cs_layer_work work = cs_layer_work(graph, layer, budget);
    const double rows = (double)cs_layer_fwd_flops(graph, layer, work.tokens, 0, work.label_rows);
    const double all =
        (double)cs_layer_fwd_flops(graph, layer, work.tokens, work.pairs, work.label_rows);
    const double pairs = all - rows;
    struct cs_layer_parts parts = {
        .fwd = {0, 0}
    };
    if (pairs > 0) {
        parts.fwd.pairs = pairs / all;
        parts.bwd_input.pairs = 5 * pairs / (2 * rows + 5 * pairs);
    }
    return parts;
}

static struct cs_time_parts parts_of(double a, double b, double c, double x, bool attends)
{
    const double pairs = attends ? fmax(0, a * x * x) : 0;
    const double rows = fmax(0, b * x) + (attends ? 0 : fmax(0, a * x * x));
    const double fixed = fmax(0, c), all = pairs + rows + fixed;
    if (!(all > 0))
        return (struct cs_time_parts){0, 0};
    return (struct cs_time_parts){pairs / all, fixed / all};
}

struct cs_layer_parts cs_profile_parts(const struct cs_profile_row *row,
                                       const struct cs_layer *layer, int64_t rows, bool is_bf16)
{
    const bool attends = layer->attention >= 0;
    const struct cs_quadratic *f = &row->fwd, *b = &row->bwd_input,
                              *w = is_bf16 ? &row->bwd_weight_bf16 : &row->bwd_weight;
    return (struct cs_layer_parts){parts_of(f->a, f->b, f->c, (double)rows, attends),
                                   parts_of(b->a, b->b, b->c, (double)rows, attends),
                                   parts_of(w->a, w->b, w->c, (double)rows, false)};
}

/* of the rank that takes longest */
static int64_t longest(const struct cs_context_work *w, const double *pairs,
                       const struct cs_time_parts *parts, int64_t ns)
{
    const double by_rows = 1 - parts->pairs - parts->fixed;
    double most = 0;
    for (int32_t r = 0; r < w->ranks; r++) {
        const double of_rows = by_rows * (double)w->rows[r] / w->n_rows;
        const double of_pairs = parts->pairs * (pairs != NULL ? pairs[r] : 0);
        most = fmax(most, of_rows + of_pairs + parts->fixed);
    }
    return (int64_t)ceil(most * (double)ns);
}

void cs_context_layer_cost(const struct cs_context_work *work, const struct cs_graph *graph,
                           const struct cs_layer *layer, const struct cs_layer_parts *parts,
                           const struct cs_device_class *device, int32_t tp,
                           struct cs_layer_cost *cost, struct cs_layer_cost *fixed)
{
    const int32_t id = cs_layer_attention_id(graph, layer);
    const struct cs_stretch stretch = {
        .graph = graph, .device = device, .ranks = work->ranks, .tp = tp, .n_rows = work->n_rows};
    if (cs_context_is_stretched(layer)) {
        cs_stretch_cost(&stretch, layer, parts, cost, fixed);
        return;
    }
    const double *pairs = id >= 0 ? work->pairs + (int64_t)id * work->ranks : NULL;
    const struct cs_layer_cost whole = *cost;
    fixed->fwd_ns = (int64_t)(parts->fwd.fixed * (double)cost->fwd_ns);
    fixed->bwd_input_ns = (int64_t)(parts->bwd_input.fixed * (double)cost->bwd_input_ns);
    fixed->bwd_weight_ns = (int64_t)(parts->bwd_weight.fixed * (double)cost->bwd_weight_ns);
    cost->fwd_ns = longest(work, pairs, &parts->fwd, cost->fwd_ns);
    cost->bwd_input_ns = longest(work, pairs, &parts->bwd_input, cost->bwd_input_ns);
    cost->bwd_weight_ns = longest(work, pairs, &parts->bwd_weight, cost->bwd_weight_ns);
    cs_context_exchange_cost(work, graph, layer, parts, device, tp, &whole, cost, fixed);
}
