/* Lists other plans beside the job's and fills in their figures, a row at a time. */
#include "console/whatif/whatif.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "core/plan/plan_schedule.h"
#include "core/search/search.h"

static void add_row(struct cs_whatif *w, const struct cs_variant_base *base, const char *name,
                    const struct cs_variant *variant)
{
    if (w->n == CS_WHATIF_ROWS)
        return;
    for (int i = 0; i < w->n; i++)
        if (cs_variant_is_equal(&w->row[i].variant, variant, base->graph))
            return; /* another name for what is there */
    struct cs_whatif_row *row = &w->row[w->n++];
    *row = (struct cs_whatif_row){.variant = *variant,
                                  .is_variant = true,
                                  .ranks = cs_variant_ranks(variant, base->graph),
                                  .delta = (double)NAN,
                                  .bubble = (double)NAN,
                                  .peak_bytes = -1};
    cs_str_copy(row->name, sizeof row->name, name);
    cs_str_copy(row->schedule, sizeof row->schedule, variant->schedule);
    cs_variant_layout_text(variant, base->graph, row->layout, sizeof row->layout);
}

static void add_schedules(struct cs_whatif *w, const struct cs_variant_base *base)
{
    for (int i = 0; cs_variant_schedule(i); i++) {
        struct cs_variant v = cs_variant_own(base);
        cs_variant_set_schedule(base, cs_variant_schedule(i), &v);
        if (!cs_variant_shares(&v) || base->graph->n_branches > 1)
            add_row(w, base, cs_variant_schedule(i), &v);
    }
}

/* one rank from a branch to another */
static void add_move(struct cs_whatif *w, const struct cs_variant_base *base, int32_t from,
                     int32_t to)
{
    struct cs_variant v = cs_variant_own(base);
    char name[48];
    if (v.pp[from] < 2 || v.pp[to] >= base->graph->branches[to].n_layers)
        return;
    v.pp[from]--;
    v.pp[to]++;
    snprintf(name, sizeof name, "%.12s +1 rank", base->graph->branches[to].name);
    if (base->graph->n_branches > 2)
        snprintf(name, sizeof name, "%.7s +1, %.7s -1", base->graph->branches[to].name,
                 base->graph->branches[from].name);
    add_row(w, base, name, &v);
}

static void add_layouts(struct cs_whatif *w, const struct cs_variant_base *base)
{
    static const char *const names[] = {"apart", "colocated", "replicated"};
    struct cs_variant own = cs_variant_own(base);
    int32_t llm = base->graph->llm;
    bool is_apart = strcmp(own.modality, cs_variant_modality(0)) == 0;
    if (base->graph->n_encoders == 0)
        return;
    for (int32_t b = 0; is_apart && b < base->graph->n_branches; b++) {
        if (b == llm)
            continue;
        add_move(w, base, llm, b);
        add_move(w, base, b, llm);
    }
    for (int i = 0; cs_variant_modality(i); i++) {
        struct cs_variant v = own;
        cs_variant_set_modality(base, cs_variant_modality(i), &v);
        add_row(w, base, names[i], &v);
    }
}

static void add_slots(struct cs_whatif *w, const struct cs_variant_base *base)
{
    struct cs_variant v = cs_variant_own(base);
    char name[48];
    int32_t own = v.slots;
    for (int i = 0; i < 2; i++) {
        v.slots = i == 0 ? 2 * own : own / 2;
        if (v.slots < 1 || v.slots > CS_VARIANT_SLOTS)
            continue;
        snprintf(name, sizeof name, "%d slots", v.slots);
        add_row(w, base, name, &v);
    }
}

void cs_whatif_list(struct cs_whatif *w, const struct cs_variant_base *base)
{
    struct cs_variant v = cs_variant_own(base);
    *w = (struct cs_whatif){.has_search = true};
    add_row(w, base, "this plan", &v);
    v.is_blind = !v.is_blind;
    add_row(w, base, v.is_blind ? "frozen-blind cut" : "frozen-aware cut", &v);
    add_schedules(w, base);
    add_layouts(w, base);
    add_slots(w, base);
}

/* --- figures ---------------------------------------------------------------------------------- */

/* steps with other slots train other amounts: time per slot */
static double delta_of(const struct cs_whatif_row *row, const struct cs_whatif_row *own)
{
    if (own->step_ns <= 0 || row->step_ns <= 0)
        return (double)NAN;
    double a = (double)row->step_ns / row->variant.slots;
    return a / ((double)own->step_ns / own->variant.slots) - 1;
}

static void fill_row(struct cs_whatif *w, const struct cs_variant_base *base,
                     struct cs_whatif_row *row)
{
    struct cs_preview preview = {0};
    row->is_done = true;
    cs_preview_make(&preview, base, &row->variant);
    if (!preview.made.plan) {
        cs_str_copy(row->error, sizeof row->error, preview.error);
    } else {
        row->runs = cs_plan_check_runs(preview.made.plan, NULL) == CS_OK;
        row->step_ns = preview.forecast.makespan_ns;
        row->bubble = preview.bubble;
        row->peak_bytes = preview.memory[preview.peak_rank].total;
        row->delta = delta_of(row, &w->row[0]);
    }
    cs_preview_clear(&preview);
}

/* --- search ----------------------------------------------------------------------------------- */

static void branch_text(const struct cs_layout *l, int32_t b, struct cs_buf *text)
{
    static const char *const recompute[] = {
        [CS_RECOMPUTE_NONE] = "", [CS_RECOMPUTE_SELECTIVE] = " sel", [CS_RECOMPUTE_FULL] = " full"};
    const struct cs_branch_layout *x = &l->branch[b];
    int32_t zero = x->shard > 0 ? x->shard - 1 : l->zero;
    cs_buf_adds(text, x->name);
    if (x->place == CS_PLACE_OWN)
        cs_buf_addf(text, " %d", x->pp);
    else
        cs_buf_adds(text, x->place == CS_PLACE_COLOCATED ? " shared" : " replicated");
    if (x->tp > 1)
        cs_buf_addf(text, " tp%d", x->tp);
    if (x->cp > 1)
        cs_buf_addf(text, " cp%d", x->cp);
    if (x->ep > 1)
        cs_buf_addf(text, " ep%d", x->ep);
    if (x->dp > 0 && x->dp != l->dp)
        cs_buf_addf(text, " dp%d", x->dp);
    if (zero != 1 && l->dp * x->cp > 1)
        cs_buf_addf(text, " z%d", zero);
    cs_buf_adds(text, recompute[x->recompute]);
}

/* "dp 2: llm 2 tp4 + vision shared": the LLM first, it decides the ranks */
static void layout_text(const struct cs_layout *l, char *out, size_t cap)
{
    struct cs_buf text = {0};
    if (l->dp > 1)
        cs_buf_addf(&text, "dp %d: ", l->dp);
    branch_text(l, l->llm, &text);
    for (int32_t b = 0; b < l->n_branches; b++) {
        if (b == l->llm)
            continue;
        cs_buf_adds(&text, " + ");
        branch_text(l, b, &text);
    }
    cs_str_copy(out, cap, cs_buf_str(&text));
    cs_buf_free(&text);
}

/* A bare pipeline is a variant too. */
static bool variant_of(const struct cs_search_plan *plan, const struct cs_variant_base *base,
                       struct cs_variant *out)
{
    const struct cs_layout *l = &plan->layout;
    bool is_bare = l->dp == 1;
    *out = cs_variant_own(base);
    cs_str_copy(out->schedule, sizeof out->schedule, plan->schedule);
    cs_str_copy(out->modality, sizeof out->modality,
                cs_placement_table[l->branch[0].place].modality);
    out->is_blind = plan->is_blind_cut;
    out->slots = plan->slots;
    for (int32_t b = 0; b < l->n_branches; b++) {
        const struct cs_branch_layout *x = &l->branch[b];
        bool is_alike = b == l->llm || x->place == l->branch[0].place;
        is_bare = is_bare && is_alike && x->tp == 1 && x->cp == 1 && x->dp <= 1 &&
                  x->recompute == CS_RECOMPUTE_NONE;
        out->pp[b] = x->pp;
    }
    bool is_shared = l->n_branches > 1 && l->branch[0].place == CS_PLACE_COLOCATED;
    return is_bare && cs_variant_shares(out) == is_shared;
}

static void take_plan(struct cs_whatif *w, const struct cs_variant_base *base,
                      const struct cs_search_plan *plan, const char *name, int64_t own_ns)
{
    if (w->n == CS_WHATIF_ROWS)
        return;
    struct cs_whatif_row *row = &w->row[w->n++];
    *row = (struct cs_whatif_row){.kind = CS_WHATIF_SEARCH,
                                  .is_done = true,
                                  .ranks = plan->n_ranks,
                                  .step_ns = plan->step_ns,
                                  .bubble = plan->bubble,
                                  .peak_bytes = plan->peak_bytes,
                                  .delta = own_ns > 0 ? (double)plan->step_ns / (double)own_ns - 1
                                                      : (double)NAN};
    row->is_variant = variant_of(plan, base, &row->variant);
    cs_str_copy(row->name, sizeof row->name, name);
    cs_str_copy(row->schedule, sizeof row->schedule, plan->schedule);
    layout_text(&plan->layout, row->layout, sizeof row->layout);
}

/* the job's plan with the costs that the search counts with */
static int64_t roofline_ns(const struct cs_variant_base *base)
{
    struct cs_variant_base bare = *base;
    struct cs_preview preview = {0};
    struct cs_variant own = cs_variant_own(base);
    bare.measured = NULL;
    bare.measured_cost = NULL;
    cs_preview_make(&preview, &bare, &own);
    int64_t ns = preview.made.plan ? preview.forecast.makespan_ns : 0;
    cs_preview_clear(&preview);
    return ns;
}

static void search(struct cs_whatif *w, const struct cs_variant_base *base)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_options options = {.batch_slots = base->plan->slots, .top = CS_WHATIF_BEST};
    struct cs_search_result result;
    struct cs_err err = {.text = ""};
    w->is_searched = true;
    if (base->graph->n_layers > CS_WHATIF_LAYERS)
        cs_fail(&err, CS_PLAN, "%d layers: too many to search here; cornstarch-console plan does",
                base->graph->n_layers);
    else if (cs_search(base->spec, base->graph, base->cluster, NULL, &options, arena, &result,
                       &err) == CS_OK) {
        int64_t own_ns = roofline_ns(base);
        for (int32_t i = 0; i < result.n_plans && i < CS_WHATIF_BEST; i++) {
            char name[48];
            snprintf(name, sizeof name, "search: no. %d", i + 1);
            take_plan(w, base, &result.plan[i], name, own_ns);
        }
        if (result.blind)
            take_plan(w, base, result.blind, "search: blind", own_ns);
    }
    if (err.text[0] && w->n < CS_WHATIF_ROWS) {
        struct cs_whatif_row *row = &w->row[w->n++];
        *row = (struct cs_whatif_row){.kind = CS_WHATIF_SEARCH,
                                      .is_done = true,
                                      .name = "search",
                                      .delta = (double)NAN,
                                      .bubble = (double)NAN,
                                      .peak_bytes = -1};
        cs_str_copy(row->error, sizeof row->error, err.text);
    }
    cs_arena_free(arena);
}

bool cs_whatif_next(struct cs_whatif *w, const struct cs_variant_base *base)
{
    for (int i = 0; i < w->n; i++)
        if (!w->row[i].is_done) {
            fill_row(w, base, &w->row[i]);
            return true;
        }
    if (!w->has_search || w->is_searched)
        return false;
    search(w, base);
    return true;
}
