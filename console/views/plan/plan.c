/* Plan: one plan simulated, in five parts, and the job's plan beside others. The part that was
 * chosen stands on top; parts that go with it follow below as far as they fit whole. */
#include "console/views/plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/whatif/groups.h"
#include "core/base/units.h"

enum { HEAD = 2 /* parts, summary */ };

/* clang-format off */
static const struct cs_plan_part_row parts[CS_PLAN_PARTS] = {
    [CS_PLAN_TIMELINE] = {"timeline",      cs_plan_timeline_want, cs_plan_timeline_draw, {CS_PLAN_MEMORY, CS_PLAN_PATH},     true},
    [CS_PLAN_MEMORY] =   {"memory",        cs_plan_memory_want,   cs_plan_memory_draw,   {CS_PLAN_TIMELINE, CS_PLAN_PATH},   true},
    [CS_PLAN_WHATIF] =   {"what-if",       cs_plan_whatif_want,   cs_plan_whatif_draw,   {CS_PLAN_TIMELINE, CS_PLAN_MEMORY}, false},
    [CS_PLAN_BALANCE] =  {"balance",       cs_plan_balance_want,  cs_plan_balance_draw,  {CS_PLAN_PARTS, CS_PLAN_PARTS},     false},
    [CS_PLAN_PATH] =     {"critical path", cs_plan_path_want,     cs_plan_path_draw,     {CS_PLAN_TIMELINE, CS_PLAN_MEMORY}, true},
    [CS_PLAN_FOUND] =    {"Found",         cs_plan_found_want,    cs_plan_found_draw,    {CS_PLAN_TIMELINE, CS_PLAN_MEMORY}, false},
};

/* clang-format on */

static void draw_tabs(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_area area, bool is_own)
{
    static const char *const note[] = {"[preview]", "[own plan]"};
    int x = 1;
    for (int p = 0; p < CS_PLAN_PARTS; p++) {
        bool is_on = (enum cs_plan_part)p == screen->plan_part;
        char text[32];
        if (p == CS_PLAN_FOUND && !store->found.plans)
            continue;
        snprintf(text, sizeof text, is_on ? "[%s]" : " %s ", parts[p].title);
        cs_draw(area, x, 0, is_on ? CS_STYLE_TAB_ON : CS_STYLE_TAB, text);
        char key[2] = {parts[p].title[0], '\0'};
        cs_draw(area, x + 1, 0, is_on ? CS_STYLE_TAB_ON : CS_STYLE_KEY, key);
        x += (int)strlen(text) + 1;
    }
    if (x + (int)strlen(note[is_own]) < area.w)
        cs_draw_right(area, area.w - 1, 0, is_own ? CS_STYLE_DIM : CS_STYLE_BANNER, note[is_own]);
}

static void draw_figures(const struct cs_store *store, const struct cs_previews *previews,
                         bool is_own, struct cs_fields *fields)
{
    const struct cs_preview *p = &previews->preview;
    char ms[CS_FMT_CAP], bubble[CS_FMT_CAP], drift[CS_FMT_CAP], gib[CS_FMT_CAP];
    int64_t own_ns = previews->own_ns, cap = store->model.device->mem_bytes;
    int64_t peak = p->memory[p->peak_rank].total;
    const int32_t rank = cs_preview_rank(p, p->peak_rank);
    cs_fmt_ms(ms, sizeof ms, (double)p->forecast.makespan_ns);
    cs_fmt_percent(bubble, sizeof bubble, p->bubble);
    cs_fmt_gib(gib, sizeof gib, peak);
    cs_fields_add(fields, CS_STYLE_TITLE, 0, "step %s ms", ms);
    if (!is_own && own_ns > 0) {
        double own_slots = store->model.plan->slots, slots = p->variant.slots;
        bool is_alike = p->variant.slots == store->model.plan->slots;
        cs_fmt_drift(drift, sizeof drift,
                     (double)p->forecast.makespan_ns / slots / ((double)own_ns / own_slots) - 1);
        cs_fields_add(fields, CS_STYLE_TEXT, 2, is_alike ? "(%s)" : "(%s a slot)", drift);
    }
    cs_fields_add(fields, CS_STYLE_TEXT, 1, "bubble %s", bubble);
    if (cap > 0 && peak > cap)
        cs_fields_add(fields, CS_STYLE_BAD, 0, "does not fit: %s GiB on rank %d", gib, rank);
    else
        cs_fields_add(fields, CS_STYLE_TEXT, 3, "peak %s GiB on rank %d", gib, rank);
}

static void draw_summary(const struct cs_store *store, const struct cs_previews *previews,
                         const struct cs_variant *variant, bool is_own, struct cs_area area)
{
    const struct cs_preview *p = &previews->preview;
    struct cs_fields fields = {0};
    char layout[96], groups[160] = "";
    bool is_there = p->arena && cs_variant_is_equal(&p->variant, variant, store->model.graph);
    if (is_there && p->made.plan)
        draw_figures(store, previews, is_own, &fields);
    else if (!is_there)
        cs_fields_add(&fields, CS_STYLE_DIM, 0, "simulating ...");
    if (is_there && p->made.plan)
        cs_groups_text(p->made.plan, store->model.graph, groups, sizeof groups);
    cs_variant_layout_text(variant, store->model.graph, !groups[0], layout, sizeof layout);
    cs_fields_add(&fields, CS_STYLE_TEXT, 0, "%s, %d slot%s", variant->schedule, variant->slots,
                  CS_PLURAL(variant->slots));
    cs_fields_add(&fields, CS_STYLE_TEXT, 4, "%s", layout);
    if (groups[0])
        cs_fields_add(&fields, CS_STYLE_TEXT, 2, "%s", groups);
    cs_fields_add(&fields, CS_STYLE_DIM, 5, "%s",
                  variant->is_blind ? "frozen-blind" : "frozen-aware");
    cs_fields_add(&fields, CS_STYLE_DIM, 6, "%s",
                  store->model.measured && cs_measured_has_costs(store->model.measured)
                      ? "measured costs"
                      : "roofline costs");
    if (store->is_uncalibrated || (store->is_calibrated && !store->model.measured))
        cs_fields_add(&fields, CS_STYLE_WARN, 3, "(measured costs did not come)");
    cs_fields_draw(&fields, area, 1, 1);
}

static void draw_nothing(const struct cs_store *store, struct cs_area area)
{
    if (store->job == 0)
        cs_draw(area, 1, 2, CS_STYLE_DIM, "no job is open: press 1, choose one, Enter");
    else if (store->model_error[0])
        cs_draw_cut(area, 1, 2, area.w - 2, CS_STYLE_BAD, CS_GLYPHS_ASCII, store->model_error);
    else if (!store->model.spec)
        cs_draw(area, 1, 2, CS_STYLE_DIM, "the job's specification is not known");
    else
        cs_draw(area, 1, 2, CS_STYLE_DIM, "the job is not planned yet");
}

/* returns the rows used */
static int draw_part(const struct cs_store *store, const struct cs_screen *screen,
                     struct cs_area area, int y, enum cs_plan_part part, bool is_chosen)
{
    const struct cs_plan_part_row *row = &parts[part];
    const struct cs_preview *p = &cs_plan_previews(store, screen)->preview;
    int want = row->want(store, screen, area.w), title = is_chosen ? 0 : 2;
    if (row->needs_preview && !p->made.plan) {
        if (is_chosen && p->error[0])
            cs_draw_cut(area, 1, y + 1, area.w - 2, CS_STYLE_BAD, screen->glyphs, p->error);
        return is_chosen ? 2 : 0;
    }
    if (!is_chosen && y + title + want > area.h)
        return 0;
    if (!is_chosen)
        cs_draw(area, 1, y + 1, CS_STYLE_TITLE, row->title);
    int h = is_chosen && want > area.h - y ? area.h - y : want;
    row->draw(store, screen, cs_area_part(area, 0, y + title, area.w, h), is_chosen);
    return title + h;
}

/* None of the plans found may have been picked: they stand alone then. */
static void draw_found(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_area area)
{
    draw_tabs(store, screen, area, true);
    cs_draw(area, 1, 1, CS_STYLE_DIM, "no plan is picked");
    (void)draw_part(store, screen, area, HEAD + 1, CS_PLAN_FOUND, true);
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    struct cs_variant variant, own;
    if (!cs_plan_variant(store, screen, &variant) && store->found.plans) {
        draw_found(store, screen, area);
        return;
    }
    if (!cs_plan_variant(store, screen, &variant)) {
        draw_nothing(store, area);
        return;
    }
    const struct cs_variant_base base = cs_plan_base(store);
    own = cs_variant_own(&base);
    bool is_own = cs_variant_is_equal(&variant, &own, store->model.graph);
    draw_tabs(store, screen, area, is_own);
    draw_summary(store, cs_plan_previews(store, screen), &variant, is_own, area);
    int y = HEAD + (area.h >= 20 ? 1 : 0);
    y += draw_part(store, screen, area, y, screen->plan_part, true);
    for (size_t i = 0; i < CS_ARRAY_LEN(parts[0].below); i++) {
        enum cs_plan_part below = parts[screen->plan_part].below[i];
        if (below != CS_PLAN_PARTS)
            y += draw_part(store, screen, area, y, below, false);
    }
}

static void read_preview(const struct cs_preview *p, const struct cs_graph *graph,
                         struct cs_buf *out)
{
    char groups[160], ranks[24];
    char ms[CS_FMT_CAP], percent[CS_FMT_CAP], gib[CS_FMT_CAP];
    cs_fmt_ms(ms, sizeof ms, (double)p->forecast.makespan_ns);
    cs_fmt_percent(percent, sizeof percent, p->bubble);
    cs_buf_addf(out, "A step takes %s milliseconds, ranks are idle for %s.\n", ms, percent);
    cs_groups_text(p->made.plan, graph, groups, sizeof groups);
    if (groups[0])
        cs_buf_addf(out, "Ranks share it: %s.\n", groups);
    for (int32_t s = 0; s < p->forecast.n_stages; s++) {
        const struct cs_forecast_stage *stage = &p->forecast.stage[s];
        cs_fmt_ms(ms, sizeof ms, (double)stage->busy_ns);
        cs_fmt_percent(percent, sizeof percent, stage->bubble);
        cs_groups_ranks(p->made.plan, stage->rank, ranks, sizeof ranks);
        cs_buf_addf(out, "Stage %s on rank %s computes %s milliseconds, idle %s.\n", stage->name,
                    ranks, ms, percent);
    }
    for (int32_t r = 0; r < p->forecast.n_ranks; r++) {
        cs_fmt_gib(gib, sizeof gib, p->memory[r].total);
        cs_groups_ranks(p->made.plan, r, ranks, sizeof ranks);
        cs_buf_addf(out, "Rank %s needs %s GiB%s.\n", ranks, gib,
                    r == p->peak_rank && p->forecast.n_ranks > 1 ? ", the most" : "");
    }
}

static void read(const struct cs_store *store, const struct cs_screen *screen, struct cs_buf *out)
{
    const struct cs_preview *p = &cs_plan_previews(store, screen)->preview;
    cs_plan_found_read(store, out);
    if (p->made.plan)
        read_preview(p, store->model.graph, out);
    else if (p->error[0])
        cs_buf_addf(out, "%s\n", p->error);
}

const struct cs_view_ops cs_view_plan = {
    .title = "Plan",
    .short_title = "Plan",
    .key = "9",
    .command = "show",
    .is_of_job = true,
    .help =
        "The job's plan, simulated: its timeline with the critical path, the memory of every rank, "
        "what other cuts, schedules and\n"
        "layouts would take, how rules balance the tokens of a sample batch; of a script that "
        "searches, what was found.\n"
        "See the section on the Plan view.",
    .beside = {CS_VIEW_MODEL, CS_VIEW_PIPELINE},
    .keys = cs_plan_keys,
    .draw = draw,
    .read = read,
    .move = cs_plan_move,
    .prepare = cs_plan_prepare,
    .can_run = cs_plan_found_can_run,
    .run = cs_plan_found_run,
};
