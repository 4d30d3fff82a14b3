/* Lists other plans beside the job's and fills in their figures, a row at a time. */
#include "console/whatif/whatif.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "core/base/units.h"
#include "core/plan/plan_schedule.h"
#include "core/search/search.h"

enum { SEARCHED = 16 /* plans, of which jobs may not run some */ };

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
    cs_variant_layout_text(variant, base->graph, true, row->layout, sizeof row->layout);
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
        snprintf(name, sizeof name, "%d slot%s", v.slots, CS_PLURAL(v.slots));
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

/* Its layout as a job has it; false: there are more branches than screens show. */
static bool variant_of(const struct cs_search_plan *plan, const struct cs_variant_base *base,
                       struct cs_variant *out)
{
    const struct cs_layout *l = &plan->layout;
    const bool is_said = l->n_branches <= CS_VARIANT_BRANCHES;
    *out = cs_variant_own(base);
    cs_str_copy(out->schedule, sizeof out->schedule, plan->schedule);
    cs_str_copy(out->modality, sizeof out->modality, cs_search_modality_name(plan->modality));
    out->is_blind = plan->is_blind_cut;
    out->slots = plan->slots * l->dp;
    out->is_found = true;
    out->layout = *l;
    out->context_rows = plan->context_rows;
    for (int32_t b = 0; b < l->n_branches && b < CS_VARIANT_BRANCHES; b++) {
        out->layout.branch[b].name = NULL; /* that of the graph, which may be read again */
        out->pp[b] = l->branch[b].pp;
    }
    return is_said;
}

/* Its figures are made as those of all rows are, from the plan that a job makes of it. */
static void take_plan(struct cs_whatif *w, const struct cs_variant_base *base,
                      const struct cs_search_plan *plan, const char *name)
{
    if (w->n == CS_WHATIF_ROWS)
        return;
    struct cs_whatif_row *row = &w->row[w->n++];
    *row = (struct cs_whatif_row){.kind = CS_WHATIF_SEARCH,
                                  .ranks = plan->n_ranks,
                                  .delta = (double)NAN,
                                  .bubble = (double)NAN,
                                  .peak_bytes = -1};
    row->is_variant = variant_of(plan, base, &row->variant);
    cs_str_copy(row->name, sizeof row->name, name);
    cs_str_copy(row->schedule, sizeof row->schedule, plan->schedule);
    if (row->is_variant) {
        cs_variant_layout_text(&row->variant, base->graph, true, row->layout, sizeof row->layout);
        return;
    }
    row->is_done = true;
    cs_str_copy(row->error, sizeof row->error, "jobs have no key for such a layout");
}

/* The first that jobs run; where they run none, the first, which says why. */
static void take_plans(struct cs_whatif *w, const struct cs_variant_base *base,
                       const struct cs_search_result *result)
{
    int n = 0;
    for (int32_t i = 0; i < result->n_plans && n < CS_WHATIF_BEST; i++) {
        char name[48];
        if (!result->plan[i].runs)
            continue;
        snprintf(name, sizeof name, "search: no. %d", ++n);
        take_plan(w, base, &result->plan[i], name);
    }
    if (n == 0 && result->n_plans > 0)
        take_plan(w, base, &result->plan[0], "search: no. 1");
    if (result->blind && cs_search_check_runs(result->blind, base->spec, base->graph, base->cluster,
                                              NULL, NULL) == CS_OK)
        take_plan(w, base, result->blind, "search: blind");
}

/* At the costs that the job was planned with: the profile's, where its script has one. */
static enum cs_status find(const struct cs_variant_base *base, struct cs_arena *arena,
                           struct cs_search_result *result, struct cs_err *err)
{
    const struct cs_search_options options = {.batch_slots = base->plan->slots, .top = SEARCHED};
    struct cs_profile *profile;
    if (base->graph->n_layers > CS_WHATIF_LAYERS)
        return cs_fail(err, CS_PLAN,
                       "%d layers: too many to search here; cornstarch-console plan does",
                       base->graph->n_layers);
    CS_TRY(cs_spec_profile(base->spec, arena, &profile, err));
    return cs_search(base->spec, base->graph, base->cluster, profile, &options, arena, result, err);
}

static void search(struct cs_whatif *w, const struct cs_variant_base *base)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_result result;
    struct cs_err err = {.text = ""};
    w->is_searched = true;
    if (find(base, arena, &result, &err) == CS_OK)
        take_plans(w, base, &result);
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
