/* Token balance of the Plan view: a sample batch, and every rule's largest load over the mean. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/views/plan/plan.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/mask/span.h"

enum { RULE_W = 10, RATIO_W = 9, SLOWER_W = 9, BARS_MOST = 60, HEAD_ROWS = 5 };

/* Shown order: the static layouts, then those that look at the work. */
static const enum cs_balance_how order[CS_BALANCE_HOWS] = {
    CS_BALANCE_UNIFORM, CS_BALANCE_ZIGZAG, CS_BALANCE_STRIPED, CS_BALANCE_RANDOM,
    CS_BALANCE_LPT,     CS_BALANCE_EXACT,  CS_BALANCE_BEST};

int cs_plan_balance_want(const struct cs_store *store, const struct cs_screen *screen, int width)
{
    (void)width;
    return HEAD_ROWS + 1 + CS_BALANCE_HOWS + 2 + cs_plan_batch_ranks(store, screen);
}

static void draw_head(const struct cs_store *store, const struct cs_batch *b, struct cs_area area)
{
    const struct cs_graph *graph = store->model.graph;
    struct cs_fields fields = {0};
    char pairs[CS_FMT_CAP];
    cs_fields_add(&fields, CS_STYLE_TITLE, 0, "%d rank%s", b->want.ranks, CS_PLURAL(b->want.ranks));
    cs_fields_add(&fields, CS_STYLE_TEXT, 0, "slot %d of %d", b->want.slot + 1, b->n_slots);
    cs_fields_add(&fields, CS_STYLE_TEXT, 1, "%d token%s", b->n_tokens, CS_PLURAL(b->n_tokens));
    cs_fields_add(&fields, CS_STYLE_TEXT, 2, "%d block%s of %d", b->n_blocks,
                  CS_PLURAL(b->n_blocks), b->block);
    cs_fields_add(&fields, CS_STYLE_TEXT, 3, "%d sample%s", b->n_samples, CS_PLURAL(b->n_samples));
    for (int32_t i = 0; i < graph->n_branches; i++)
        if (graph->branches[i].encoder >= 0)
            cs_fields_add(&fields, CS_STYLE_TEXT, 4,
                          graph->branches[i].has_one_size ? "%d x %d %s" : "%d x <= %d %s",
                          b->n_items[graph->branches[i].encoder], graph->branches[i].item_rows,
                          graph->branches[i].name);
    cs_fmt_count(pairs, sizeof pairs, b->n_pairs);
    cs_fields_add(&fields, CS_STYLE_TEXT, 5, "%s pairs", pairs);
    cs_fields_add(&fields, CS_STYLE_TEXT, 2, "mask %s (r)", cs_mask_kind_name(b->want.mask));
    cs_fields_draw(&fields, area, 1, 0);
    cs_draw_cut(area, 1, 1, area.w - 2, CS_STYLE_DIM, CS_GLYPHS_ASCII,
                "drawn from the specification's budgets and seed: the console knows no samples");
}

/* what the blocks are, and their work below; as many columns as there are blocks, or fewer */
static void draw_sequence(const struct cs_store *store, const struct cs_batch *b,
                          const struct cs_screen *screen, struct cs_area area, int y)
{
    int label = 11, width = area.w - label - 1;
    double most = 0;
    width = width < b->n_blocks ? width : b->n_blocks;
    for (int32_t i = 0; i < b->n_blocks; i++)
        most = b->work[i] > most ? b->work[i] : most;
    cs_draw(area, 1, y, CS_STYLE_DIM, "blocks");
    cs_draw(area, 1, y + 1, CS_STYLE_DIM, "work");
    for (int x = 0; x < width; x++) {
        int32_t first = (int32_t)((int64_t)x * b->n_blocks / width);
        int32_t end = (int32_t)(((int64_t)x + 1) * b->n_blocks / width);
        double work = 0;
        for (int32_t i = first; i < end; i++)
            work += b->work[i] / (end - first);
        int level = most > 0 ? (int)(work / most * (CS_SPARK_LEVELS - 1) + 0.5) : 0;
        char mark[2] = "t";
        const struct cs_graph *graph = store->model.graph;
        for (int32_t k = 0; k < graph->n_branches; k++)
            if (b->kind[first] >= 0 && graph->branches[k].encoder == b->kind[first])
                mark[0] = graph->branches[k].name[0] == 't' ? 'T' : graph->branches[k].name[0];
        cs_draw(area, label + x, y, b->doc[first] % 2 ? CS_STYLE_DIM : CS_STYLE_TEXT, mark);
        cs_draw(area, label + x, y + 1, CS_STYLE_FORWARD, cs_glyph_spark(screen->glyphs, level));
    }
}

struct range {
    double least, most, mean; /* loads of all rules in the shown slot */
};

static struct range range_of(const struct cs_batch *b)
{
    struct range range = {INFINITY, 0, 0};
    for (int how = 0; how < CS_BALANCE_HOWS; how++)
        for (int32_t r = 0; !b->rule[how].error[0] && r < b->want.ranks; r++) {
            range.most = fmax(range.most, b->rule[how].load[r]);
            range.least = fmin(range.least, b->rule[how].load[r]);
            range.mean = b->rule[how].mean;
        }
    return range;
}

static double best_ratio(const struct cs_batch *b)
{
    double best = INFINITY;
    for (int how = 0; how < CS_BALANCE_HOWS; how++)
        if (!b->rule[how].error[0] && b->rule[how].batch_ratio < best)
            best = b->rule[how].batch_ratio;
    return best;
}

/* every rank's load as a small column, between the least and the largest load of all rules: bars
 * from zero would look alike */
static void draw_columns(const struct cs_batch *b, const struct cs_batch_rule *rule,
                         const struct range *range, const struct cs_screen *screen,
                         struct cs_area area, int x, int y)
{
    double height = range->most - range->least;
    for (int32_t r = 0; r < b->want.ranks && x + r < area.w - 1; r++) {
        double share = height > 1e-6 * range->most ? (rule->load[r] - range->least) / height : 0.5;
        int level = (int)(share * (CS_SPARK_LEVELS - 1) + 0.5);
        bool is_most = rule->load[r] >= rule->slot_ratio * rule->mean * (1 - 1e-12);
        cs_draw(area, x + r, y, is_most ? CS_STYLE_BACKWARD : CS_STYLE_FORWARD,
                cs_glyph_spark(screen->glyphs, level));
    }
}

static void draw_rule(const struct cs_batch *b, const struct cs_batch_rule *rule,
                      const struct range *range, double best, const struct cs_screen *screen,
                      struct cs_area area, int y)
{
    char slot[CS_FMT_CAP], batch[CS_FMT_CAP], slower[CS_FMT_CAP];
    int x = 1;
    cs_draw(area, x + 2, y, CS_STYLE_TEXT, cs_balance_how_name(rule->how));
    x += RULE_W;
    if (rule->error[0]) {
        cs_draw_cut(area, x + 2, y, area.w - x - 3, CS_STYLE_DIM, screen->glyphs, rule->error);
        return;
    }
    snprintf(slot, sizeof slot, "%.3f", rule->slot_ratio);
    snprintf(batch, sizeof batch, "%.3f", rule->batch_ratio);
    cs_fmt_drift(slower, sizeof slower, rule->batch_ratio / best - 1);
    cs_draw_right(area, x += RATIO_W, y, CS_STYLE_TEXT, slot);
    cs_draw_right(area, x += RATIO_W, y, CS_STYLE_TEXT, batch);
    cs_draw_right(area, x += SLOWER_W, y,
                  rule->batch_ratio <= best * (1 + 1e-9) ? CS_STYLE_GOOD : CS_STYLE_TEXT, slower);
    x += 3;
    draw_columns(b, rule, range, screen, area, x, y);
    x += b->want.ranks + 2;
    if (rule->how == CS_BALANCE_BEST && rule->took != CS_BALANCE_BEST)
        cs_drawf(area, x, y, CS_STYLE_DIM, "took %s", cs_balance_how_name(rule->took));
    else if (rule->is_proven)
        cs_draw(area, x, y, CS_STYLE_DIM, "optimal");
}

/* the rule by which the job deals its rows out; "": it splits none */
static const char *own_rule(const struct cs_store *store)
{
    const struct cs_spec *spec = store->model.spec;
    const struct cs_spec_parallel *llm = spec ? cs_spec_parallel_of(spec, "llm") : NULL;
    return llm && llm->cp > 1 ? spec->context : "";
}

static int draw_rules(const struct cs_store *store, const struct cs_batch *b,
                      const struct cs_screen *screen, struct cs_area area, int y)
{
    struct range range = range_of(b);
    double best = best_ratio(b);
    int x = 1 + RULE_W;
    cs_draw(area, 3, y, CS_STYLE_TITLE, "rule");
    cs_draw_right(area, x += RATIO_W, y, CS_STYLE_TITLE, "max/mean");
    cs_draw_right(area, x += RATIO_W, y, CS_STYLE_TITLE, "batch");
    cs_draw_right(area, x += SLOWER_W, y, CS_STYLE_TITLE, "slower");
    int n = cs_draw(area, x + 3, y, CS_STYLE_TITLE, "load of every rank");
    if (range.mean > 0)
        cs_drawf(area, x + 3 + n + 2, y, CS_STYLE_DIM, "(%.2f to %.2f of the mean)",
                 range.least / range.mean, range.most / range.mean);
    for (int i = 0; i < CS_BALANCE_HOWS; i++) {
        draw_rule(b, &b->rule[order[i]], &range, best, screen, area, y + 1 + i);
        if (i == screen->at.plan_cursor)
            cs_draw(area, 1, y + 1 + i, CS_STYLE_TITLE, cs_glyph(screen->glyphs, CS_GLYPH_CURSOR));
        if (strcmp(cs_balance_how_name(order[i]), own_rule(store)) == 0)
            cs_draw(area, 2, y + 1 + i, CS_STYLE_GOOD, "*"); /* as in the other parts */
    }
    return 1 + CS_BALANCE_HOWS;
}

/* the rule under the cursor, a bar per rank */
static void draw_bars(const struct cs_batch *b, const struct cs_screen *screen, struct cs_area area,
                      int y)
{
    int cursor = screen->at.plan_cursor < CS_BALANCE_HOWS ? screen->at.plan_cursor : 0;
    const struct cs_batch_rule *rule = &b->rule[order[cursor]];
    double most = range_of(b).most;
    int label = 18, width = area.w - label - 2, room = area.h - y - 1;
    width = width < BARS_MOST ? width : BARS_MOST;
    if (rule->error[0] || room < 1 || width < 1)
        return;
    int n = cs_drawf(area, 1, y, CS_STYLE_TITLE, "%s, slot %d", cs_balance_how_name(rule->how),
                     b->want.slot + 1);
    cs_draw(area, n + 3, y, CS_STYLE_DIM,
            "rank, load over mean; a full bar: the largest load of all rules");
    for (int32_t r = 0; r < b->want.ranks && r < room; r++) {
        int length = most > 0 ? (int)(rule->load[r] / most * width + 0.5) : 0;
        cs_drawf(area, 1, y + 1 + r, CS_STYLE_TEXT, "r%-3d %9.3f", r,
                 rule->mean > 0 ? rule->load[r] / rule->mean : 0);
        cs_fill(area, label, y + 1 + r, length, CS_STYLE_FORWARD,
                cs_glyph_spark(screen->glyphs, CS_SPARK_LEVELS - 1));
        cs_fill(area, label + length, y + 1 + r, width - length, CS_STYLE_IDLE,
                cs_glyph(screen->glyphs, CS_GLYPH_IDLE));
    }
    if (b->want.ranks > room)
        cs_drawf(area, area.w - 22, y, CS_STYLE_DIM, "  ranks 0-%d of %d", room - 1, b->want.ranks);
}

void cs_plan_balance_draw(const struct cs_store *store, const struct cs_screen *screen,
                          struct cs_area area, bool is_chosen)
{
    const struct cs_batch *b = &cs_plan_previews(store, screen)->batch;
    (void)is_chosen;
    if (!b->arena || b->error[0]) {
        cs_draw_cut(area, 1, 0, area.w - 2, b->arena ? CS_STYLE_BAD : CS_STYLE_DIM, screen->glyphs,
                    b->arena ? b->error : "drawing a batch ...");
        return;
    }
    bool is_tight = area.h < HEAD_ROWS + 2 + CS_BALANCE_HOWS + b->want.ranks + 1;
    draw_head(store, b, area);
    draw_sequence(store, b, screen, area, 2);
    int y = is_tight ? HEAD_ROWS - 1 : HEAD_ROWS;
    y += draw_rules(store, b, screen, area, y);
    draw_bars(b, screen, area, is_tight ? y : y + 1);
}
