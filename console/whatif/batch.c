/* Draws a sample batch and spreads its tokens over ranks by every rule. */
#include "console/whatif/batch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/mask/runs.h"
#include "core/mask/span.h"

enum {
    SHORTEST = 8,
    LEAST_BLOCK = 8,
    EXACT_NODES = 1 << 17,
    MAX_TOKENS = 1 << 22,
    ITEM_OCTAVES = 4
};

void cs_batch_clear(struct cs_batch *batch)
{
    cs_arena_free(batch->arena);
    *batch = (struct cs_batch){0};
}

int32_t cs_batch_block(int32_t n_tokens, int32_t ranks)
{
    int32_t block = CS_BALANCE_BLOCK;
    while (block > LEAST_BLOCK && n_tokens / block < 8 * ranks)
        block /= 2;
    while (n_tokens / block > CS_BATCH_BLOCKS)
        block *= 2;
    return block;
}

/* --- one slot --------------------------------------------------------------------------------- */

struct drawing {
    const struct cs_slot_budget *budget;
    uint64_t seed, slot, drawn;
    struct cs_mask_span *span;
    int32_t n, cap;  /* spans */
    int32_t left;    /* tokens of the slot */
    int32_t longest; /* text */
    int32_t n_samples, n_items[CS_MAX_ENCODERS];
};

static void add_span(struct drawing *d, int32_t modality, int32_t tokens)
{
    tokens = tokens < d->left ? tokens : d->left;
    if (tokens < 1 || d->n == d->cap)
        return;
    d->span[d->n++] = (struct cs_mask_span){
        .modality = modality, .tokens = tokens, .doc = d->n_samples, .item = CS_SPAN_OWN_ITEM};
    d->left -= tokens;
}

static void add_text(struct drawing *d)
{
    int32_t octaves = 0, low = SHORTEST;
    while (2 * low <= d->longest) {
        octaves++;
        low *= 2;
    }
    double octave = cs_philox_uniform(d->seed, d->slot, d->drawn++) * octaves;
    low = SHORTEST << (int32_t)octave;
    add_span(d, CS_SPAN_TEXT,
             low + (int32_t)(cs_philox_uniform(d->seed, d->slot, d->drawn++) * low));
}

/* All alike, or where they differ of 1/16 of the largest size up to it, octaves alike often. */
static int32_t item_rows(struct drawing *d, const struct cs_item_budget *budget)
{
    if (budget->height > 0)
        return budget->item_rows;
    const double octaves = cs_philox_uniform(d->seed, d->slot, d->drawn++) * ITEM_OCTAVES;
    const int32_t rows = (int32_t)(budget->item_rows * exp2(-octaves));
    return rows > 0 ? rows : 1;
}

static void add_items(struct drawing *d)
{
    for (int32_t e = 0; e < d->budget->n_encoders; e++) {
        const int32_t rows = item_rows(d, &d->budget->enc[e]);
        if (rows < 1 || d->n_items[e] >= d->budget->enc[e].items || rows > d->left)
            continue;
        d->n_items[e]++;
        add_span(d, e, rows);
    }
}

static void draw_slot(struct drawing *d)
{
    while (d->left > 0 && d->n < d->cap) {
        add_text(d);
        add_items(d);
        add_text(d);
        d->n_samples++;
    }
}

/* --- its work --------------------------------------------------------------------------------- */

/* multiplications of one block of the LLM: per pair, per token */
static struct cs_balance_cost cost_of(const struct cs_graph *graph)
{
    struct cs_balance_cost cost = {.per_pair = 1};
    for (int32_t l = 0; l < graph->n_layers; l++) {
        const struct cs_layer *layer = &graph->layers[l];
        if (layer->kind != CS_LAYER_BLOCK || graph->modules[layer->module].kind != CS_MODULE_LLM)
            continue;
        cost.per_pair = (double)cs_layer_fwd_flops(graph, layer, 0, 1, 0);
        cost.per_token = (double)cs_layer_fwd_flops(graph, layer, 1, 0, 0);
        break;
    }
    return cost;
}

/* what most tokens of every block are */
static void name_blocks(struct cs_batch *b, const struct cs_mask_span *span, int32_t n)
{
    int32_t row = 0, i = 0, end = n > 0 ? span[0].tokens : 0;
    for (int32_t k = 0; k < b->n_blocks; k++) {
        int32_t count[CS_MAX_ENCODERS + 1] = {0}, best = 0;
        b->doc[k] = i < n ? span[i].doc : 0;
        for (int32_t t = 0; t < b->block && row < b->n_tokens; t++, row++) {
            while (i < n && row >= end)
                end += ++i < n ? span[i].tokens : 0;
            if (t == 0 && i < n)
                b->doc[k] = span[i].doc;
            count[i < n && span[i].modality >= 0 ? span[i].modality + 1 : 0]++;
        }
        for (int32_t m = 1; m <= CS_MAX_ENCODERS; m++)
            best = count[m] > count[best] ? m : best;
        b->kind[k] = (int8_t)(best - 1);
    }
}

static enum cs_status work_of(struct cs_batch *b, const struct cs_graph *graph,
                              const struct drawing *d, struct cs_arena *scratch, double *work,
                              int64_t *n_pairs, struct cs_err *err)
{
    struct cs_mask_plan mask;
    struct cs_mask_runs runs;
    struct cs_balance_cost cost = cost_of(graph);
    const struct cs_mask_rule rule = {b->want.mask, b->n_tokens > 4 ? b->n_tokens / 4 : 1,
                                      b->n_tokens > 8 ? b->n_tokens / 8 : 1};
    int64_t *pairs = CS_NEW_ARRAY(scratch, int64_t, b->n_blocks + 1);
    int32_t *rows = CS_NEW_ARRAY(scratch, int32_t, b->n_tokens + 1);
    CS_TRY(cs_mask_from_spans(d->span, d->n, rule, CS_TEXT_SEES_ALL, scratch, &mask, err));
    CS_TRY(cs_mask_runs_make(&mask, scratch, &runs, err));
    *n_pairs = cs_mask_row_pairs(&runs, scratch, rows);
    cs_mask_block_pairs(rows, b->n_tokens, b->block, pairs);
    cs_balance_work(&cost, b->n_tokens, b->block, pairs, NULL, work);
    return CS_OK;
}

/* --- every rule ------------------------------------------------------------------------------- */

struct sums {
    double max, mean;
};

static void balance(struct cs_batch *b, enum cs_balance_how how, const double *work, bool is_shown,
                    uint64_t seed, struct cs_arena *scratch, struct sums *sums)
{
    struct cs_batch_rule *rule = &b->rule[how];
    struct cs_balance_result result;
    struct cs_err err = {.text = ""};
    const struct cs_balance_options options = {.how = how,
                                               .ranks = b->want.ranks,
                                               .nodes = how == CS_BALANCE_EXACT ? EXACT_NODES : 0,
                                               .seed = seed};
    rule->how = rule->took = how;
    if (cs_balance(work, b->n_blocks, &options, is_shown ? b->arena : scratch, &result, &err) !=
        CS_OK) {
        cs_str_copy(rule->error, sizeof rule->error, err.text);
        return;
    }
    sums->max += result.max;
    sums->mean += result.mean;
    if (!is_shown)
        return;
    rule->load = result.load;
    rule->mean = result.mean;
    rule->slot_ratio = result.mean > 0 ? result.max / result.mean : 1;
    rule->took = result.how;
    rule->is_proven = result.is_proven;
}

static enum cs_status add_slot(struct cs_batch *b, const struct cs_spec *spec,
                               const struct cs_graph *graph, const struct cs_slot_budget *budget,
                               int32_t slot, struct sums *sums, struct cs_err *err)
{
    struct cs_arena *scratch = cs_arena_new(0);
    bool is_shown = slot == b->want.slot;
    struct drawing d = {.budget = budget,
                        .seed = spec->seed,
                        .slot = (uint64_t)slot,
                        .left = b->n_tokens,
                        .longest = b->n_tokens / 8,
                        .cap = b->n_tokens};
    double *work = CS_NEW_ARRAY(is_shown ? b->arena : scratch, double, b->n_blocks + 1);
    int64_t n_pairs = 0;
    d.span = CS_NEW_ARRAY(scratch, struct cs_mask_span, d.cap + 1);
    draw_slot(&d);
    enum cs_status status = work_of(b, graph, &d, scratch, work, &n_pairs, err);
    if (status == CS_OK && is_shown) {
        b->work = work;
        b->n_pairs = n_pairs;
        b->n_samples = d.n_samples;
        memcpy(b->n_items, d.n_items, sizeof b->n_items);
        name_blocks(b, d.span, d.n);
    }
    for (int how = 0; status == CS_OK && how < CS_BALANCE_HOWS; how++)
        balance(b, (enum cs_balance_how)how, work, is_shown, spec->seed + (uint64_t)slot, scratch,
                &sums[how]);
    cs_arena_free(scratch);
    return status;
}

void cs_batch_make(struct cs_batch *b, const struct cs_spec *spec, const struct cs_graph *graph,
                   const struct cs_slot_budget *budget, int32_t n_slots,
                   const struct cs_batch_want *want)
{
    struct sums sums[CS_BALANCE_HOWS] = {
        {0, 0}
    };
    struct cs_err err = {.text = ""};
    cs_batch_clear(b);
    b->arena = cs_arena_new(0);
    b->want = *want;
    b->n_tokens = budget->seq_tokens;
    b->n_slots = n_slots < CS_BATCH_SLOTS ? n_slots : CS_BATCH_SLOTS;
    if (b->n_tokens < 1 || b->n_tokens > MAX_TOKENS) {
        snprintf(b->error, sizeof b->error, "a slot of %d token%s is not drawn here", b->n_tokens,
                 CS_PLURAL(b->n_tokens));
        return;
    }
    b->block = cs_batch_block(b->n_tokens, want->ranks);
    b->n_blocks = (b->n_tokens + b->block - 1) / b->block;
    b->kind = CS_NEW_ARRAY(b->arena, int8_t, b->n_blocks);
    b->doc = CS_NEW_ARRAY(b->arena, int32_t, b->n_blocks);
    for (int32_t s = 0; s < b->n_slots; s++)
        if (add_slot(b, spec, graph, budget, s, sums, &err) != CS_OK) {
            cs_str_copy(b->error, sizeof b->error, err.text);
            return;
        }
    for (int how = 0; how < CS_BALANCE_HOWS; how++)
        b->rule[how].batch_ratio = sums[how].mean > 0 ? sums[how].max / sums[how].mean : 1;
}
