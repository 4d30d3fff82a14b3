/* Sweeps, searches and the reasons for a plan as text. */
#include "console/whatif/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/whatif/found.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/links/links.h"
#include "core/search/search.h"

enum { MOST_OTHERS = 4 };

/* a step at full slots, then of sampled batches where there are any */
static const struct cs_column sweep_columns[] = {
    {"#",        2,  0, 0, CS_ALIGN_RIGHT},
    {"RUNS",     4,  0, 0, CS_ALIGN_LEFT },
    {"STEP",     6,  0, 0, CS_ALIGN_RIGHT},
    {"SLOT",     6,  0, 2, CS_ALIGN_RIGHT},
    {"TOK/S",    5,  0, 1, CS_ALIGN_RIGHT},
    {"MEMORY",   6,  0, 0, CS_ALIGN_RIGHT},
    {"BUBBLE",   6,  0, 3, CS_ALIGN_RIGHT},
    {"RANKS",    5,  0, 0, CS_ALIGN_RIGHT},
    {"SCHEDULE", 8,  0, 0, CS_ALIGN_LEFT },
    {"LAYOUT",   12, 0, 0, CS_ALIGN_LEFT },
};
static const struct cs_column sampled_columns[] = {
    {"#",        2,  0, 0, CS_ALIGN_RIGHT},
    {"RUNS",     4,  0, 0, CS_ALIGN_LEFT },
    {"STEP",     6,  0, 4, CS_ALIGN_RIGHT},
    {"MEAN",     6,  0, 0, CS_ALIGN_RIGHT},
    {"SLOT",     6,  0, 3, CS_ALIGN_RIGHT},
    {"TOK/S",    5,  0, 1, CS_ALIGN_RIGHT},
    {"P95",      6,  0, 0, CS_ALIGN_RIGHT},
    {"MEMORY",   6,  0, 0, CS_ALIGN_RIGHT},
    {"BUBBLE",   6,  0, 1, CS_ALIGN_RIGHT},
    {"RANKS",    5,  0, 0, CS_ALIGN_RIGHT},
    {"SCHEDULE", 8,  0, 0, CS_ALIGN_LEFT },
    {"LAYOUT",   12, 0, 0, CS_ALIGN_LEFT },
};
static const struct cs_column planner_columns[] = {
    {"PLANNER",  7,  0, 0, CS_ALIGN_LEFT },
    {"STEP",     6,  0, 0, CS_ALIGN_RIGHT},
    {"MEAN",     6,  0, 1, CS_ALIGN_RIGHT},
    {"P95",      6,  0, 1, CS_ALIGN_RIGHT},
    {"AGAINST",  7,  0, 0, CS_ALIGN_RIGHT},
    {"EXPECTED", 8,  0, 3, CS_ALIGN_RIGHT},
    {"MEMORY",   6,  0, 2, CS_ALIGN_RIGHT},
    {"RANKS",    5,  0, 0, CS_ALIGN_RIGHT},
    {"SCHEDULE", 8,  0, 2, CS_ALIGN_LEFT },
    {"LAYOUT",   12, 0, 0, CS_ALIGN_LEFT },
};

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static json_int_t int_of(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

static void add_row(struct cs_table *table, const json_t *row, const char *number, bool is_sampled)
{
    struct cs_found_cells c;
    cs_found_cells(row, true, &c);
    const char *schedule = text_of(row, "schedule"), *layout = cs_buf_str(&c.layout);
    const char *sampled[] = {number, c.runs,   c.step,   c.mean,  c.slot,   c.tokens,
                             c.p95,  c.memory, c.bubble, c.ranks, schedule, layout};
    const char *full[] = {number,   c.runs,   c.step,  c.slot,   c.tokens,
                          c.memory, c.bubble, c.ranks, schedule, layout};
    cs_table_add(table, is_sampled ? sampled : full);
    cs_buf_free(&c.layout);
}

/* by batches where both have some */
static double against(const json_t *row, const json_t *best)
{
    const char *key =
        int_of(row, "mean_ns") > 0 && int_of(best, "mean_ns") > 0 ? "mean_ns" : "step_ns";
    return int_of(best, key) > 0 ? (double)int_of(row, key) / (double)int_of(best, key) : 0;
}

/* what every planner takes, at true costs */
static void planners_text(const json_t *planners, const json_t *best, int width, struct cs_buf *out)
{
    struct cs_table *table = cs_table_new(planner_columns, CS_ARRAY_LEN(planner_columns));
    const json_t *row;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)planners, i, row)
    {
        const json_t *plan = json_object_get(row, "plan");
        struct cs_found_cells c;
        char factor[32];
        if (!json_is_object(plan)) {
            const char *none[] = {
                text_of(row, "planner"), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                text_of(row, "why_not")};
            cs_table_add(table, none);
            continue;
        }
        cs_found_cells(plan, false, &c);
        snprintf(factor, sizeof factor, "%.2fx", against(plan, best));
        const char *cells[] = {text_of(row, "planner"),
                               c.step,
                               c.mean,
                               c.p95,
                               factor,
                               c.expected,
                               c.memory,
                               c.ranks,
                               text_of(plan, "schedule"),
                               cs_buf_str(&c.layout)};
        cs_table_add(table, cells);
        cs_buf_free(&c.layout);
    }
    cs_buf_adds(out, "\nwhat each planner chooses, simulated at true costs\n");
    cs_table_render(table, width, true, out);
    cs_table_free(table);
}

static void list_text(const char *title, const json_t *list, struct cs_buf *out)
{
    const json_t *sentence;
    size_t i;
    if (json_array_size(list) > 0)
        cs_buf_addf(out, "\n%s\n", title);
    json_array_foreach((json_t *)(uintptr_t)list, i, sentence)
        cs_buf_addf(out, "  %s\n", json_string_value(sentence));
}

static void losses_text(const json_t *plans, struct cs_buf *out)
{
    for (size_t i = 1; i < json_array_size(plans); i++) {
        const char *loses = text_of(json_array_get(plans, i), "loses");
        if (i == 1 && loses[0])
            cs_buf_adds(out, "\nwhat the next plans lose\n");
        if (loses[0])
            cs_buf_addf(out, "  %zu: %s\n", i + 1, loses);
    }
}

/* numbers of the plans for which jobs say this; NULL: those that they run */
static int numbers_text(const json_t *plans, const char *why, struct cs_buf *out)
{
    int n = 0;
    for (size_t i = 0; i < json_array_size(plans); i++) {
        const char *own =
            json_string_value(json_object_get(json_array_get(plans, i), "why_not_run"));
        const bool is_one = why && own ? strcmp(why, own) == 0 : !why && !own;
        if (is_one)
            cs_buf_addf(out, "%s%zu", n++ > 0 ? ", " : "", i + 1);
    }
    return n;
}

/* Of a search: which of its plans jobs run, and what is against the others, each reason once. */
static void runs_text(const json_t *plans, struct cs_buf *out)
{
    if (json_object_get(json_array_get(plans, 0), "runs") == NULL)
        return;
    cs_buf_adds(out, "run by jobs: ");
    if (numbers_text(plans, NULL, out) == 0)
        cs_buf_adds(out, "none");
    cs_buf_adds(out, "\n");
    for (size_t i = 0; i < json_array_size(plans); i++) {
        const char *why = text_of(json_array_get(plans, i), "why_not_run");
        bool is_said = why[0] == '\0';
        for (size_t k = 0; k < i && !is_said; k++)
            is_said = strcmp(why, text_of(json_array_get(plans, k), "why_not_run")) == 0;
        if (is_said)
            continue;
        cs_buf_adds(out, "not run: ");
        numbers_text(plans, why, out);
        cs_buf_addf(out, ": %s\n", why);
    }
}

static void add_plans(struct cs_table *table, const json_t *document, bool is_sampled)
{
    const json_t *plans = json_object_get(document, "plans");
    const json_t *blind = json_object_get(document, "frozen_blind");
    for (size_t i = 0; i < json_array_size(plans); i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i + 1);
        add_row(table, json_array_get(plans, i), number, is_sampled);
    }
    if (json_is_object(blind))
        add_row(table, blind, "b", is_sampled);
}

/* says_optimizer: the explanation does not say it */
static void counts_text(const json_t *document, bool says_optimizer, struct cs_buf *out)
{
    const json_t *search = json_object_get(document, "search");
    const json_t *sweep = json_object_get(document, "sweep");
    const json_t *optimizer = json_object_get(document, "optimizer"), *one;
    size_t i;
    if (json_is_object(search))
        cs_buf_addf(out, "%lld layout%s scored, %lld pruned, %lld simulated, %lld did not fit\n",
                    (long long)int_of(search, "scored"), CS_PLURAL(int_of(search, "scored")),
                    (long long)int_of(search, "pruned"), (long long)int_of(search, "simulated"),
                    (long long)int_of(search, "too_big"));
    if (int_of(search, "batches") > 0)
        cs_buf_addf(out, "ranked by the mean step of %lld sampled %s\n",
                    (long long)int_of(search, "batches"),
                    CS_NOUN(int_of(search, "batches"), "batch", "batches"));
    if (says_optimizer && json_is_object(optimizer))
        cs_buf_addf(out, "optimizer: state in %s, %lld bytes a trained parameter, time: %s\n",
                    text_of(optimizer, "state"), (long long)int_of(optimizer, "param_bytes"),
                    text_of(optimizer, "time"));
    if (json_is_object(sweep))
        cs_buf_addf(out, "%lld plan%s tried, %lld refused\n", (long long)int_of(sweep, "tried"),
                    CS_PLURAL(int_of(sweep, "tried")), (long long)int_of(sweep, "refused"));
    json_array_foreach(json_object_get(sweep, "refusals"), i, one)
        cs_buf_addf(out, "refused %lldx: %s\n", (long long)int_of(one, "n"), text_of(one, "why"));
}

void cs_sweep_text(const json_t *document, bool explains, bool compares, int width,
                   struct cs_buf *out)
{
    const json_t *plans = json_object_get(document, "plans");
    const json_t *explain = json_object_get(document, "explain");
    const json_t *planners = json_object_get(document, "planners");
    bool is_sampled = int_of(json_array_get(plans, 0), "mean_ns") > 0;
    struct cs_table *table = is_sampled
                                 ? cs_table_new(sampled_columns, CS_ARRAY_LEN(sampled_columns))
                                 : cs_table_new(sweep_columns, CS_ARRAY_LEN(sweep_columns));
    add_plans(table, document, is_sampled);
    cs_table_render(table, width, true, out);
    cs_table_free(table);
    cs_buf_addf(out, "\n1: %s\n", text_of(json_array_get(plans, 0), "why"));
    runs_text(plans, out);
    if (json_is_object(json_object_get(document, "frozen_blind")))
        cs_buf_adds(out, "b: what a planner that ignores freezing would choose\n");
    counts_text(document, !(explains && explain), out);
    if (compares && json_array_size(planners) > 0)
        planners_text(planners, json_array_get(plans, 0), width, out);
    if (explains && explain) {
        list_text("why plan 1", json_object_get(explain, "cut"), out);
        list_text("what binds", json_object_get(explain, "binds"), out);
    }
    if (explains)
        losses_text(plans, out);
    if ((explains && !explain) || (compares && json_array_size(planners) == 0))
        cs_buf_adds(out, "\na sweep of given plans has no other planners and reasons: explain the "
                         "script that returns the plan\n");
}

void cs_explain_text(const json_t *explanation, bool compares, int width, struct cs_buf *out)
{
    const json_t *explain = json_object_get(explanation, "explain");
    const json_t *others = json_object_get(explanation, "others"), *row;
    const json_t *planners = json_object_get(explanation, "planners");
    size_t i;
    list_text("why this plan", json_object_get(explain, "cut"), out);
    list_text("what binds", json_object_get(explain, "binds"), out);
    if (json_array_size(others) > 0)
        cs_buf_adds(out, "\nthe best plans that jobs run on these devices, against this one\n");
    json_array_foreach((json_t *)(uintptr_t)others, i, row)
    {
        struct cs_found_cells c;
        cs_found_cells(row, false, &c);
        cs_buf_addf(out, "  %s, %s, %s rank%s, %s: %s\n", c.step, text_of(row, "schedule"), c.ranks,
                    CS_PLURAL(int_of(row, "ranks")), cs_buf_str(&c.layout),
                    text_of(row, "against"));
        cs_buf_free(&c.layout);
    }
    if (compares)
        planners_text(planners, json_object_get(json_array_get(planners, 0), "plan"), width, out);
}

/* A given plan */

static int32_t at_least_one(int32_t n)
{
    return n > 1 ? n : 1;
}

/* The branch as the job asks for it: encoders on the ranks of the LLM have its cp and dp, their items shared as the search
 * does. */
static void fix_branch(const struct cs_spec *spec, const struct cs_plan *plan,
                       const struct cs_graph *graph, int32_t b, int32_t place,
                       struct cs_search_options *o)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, graph->branches[b].name);
    enum cs_recompute recompute = CS_RECOMPUTE_NONE;
    int32_t n_stages = 0;
    if (given == NULL)
        return;
    for (int32_t i = 0; i < plan->n_stages; i++)
        n_stages += plan->stages[i].branch == b;
    (void)cs_recompute_from_name(given->recompute, &recompute);
    o->fix[b].recompute = 1 + (int32_t)recompute;
    o->zeros |= 1u << at_least_one(given->zero);
    o->fix[b].ep = at_least_one(given->ep);
    o->fix[b].pp = b == graph->llm || place == CS_PLACE_OWN ? given->pp : 1;
    if (b != graph->llm)
        o->fix[b].place = 1 + place;
    else
        o->fix[b].vpp = n_stages / at_least_one(given->pp);
    o->fix[b].tp = at_least_one(given->tp);
    o->fix[b].sp = 1 + (at_least_one(given->tp) > 1 && given->sp);
    if (b != graph->llm && place != CS_PLACE_OWN)
        return;
    o->fix[b].cp = at_least_one(given->cp);
    o->fix[b].dp = given->dp > 0 ? given->dp : at_least_one(spec->dp);
}

/* Where an encoder of the plan is, as searches say it; -1: they know none that is cut and placed so. */
static int32_t searched_place(const struct cs_spec *spec, const struct cs_graph *graph,
                              const struct cs_plan *plan, int32_t b)
{
    const struct cs_branch *branch = &graph->branches[b];
    const int32_t place = (int32_t)cs_spec_placement(spec, branch->name)->id;
    bool is_whole = false;
    for (int32_t s = 0; s < plan->n_stages; s++)
        is_whole = is_whole ||
                   (plan->stages[s].branch == b && plan->stages[s].n_layers == branch->n_layers);
    const bool is_known =
        place < CS_SEARCHED_PLACEMENTS && (place != (int32_t)CS_PLACE_COLOCATED || is_whole);
    return is_known ? place : -1;
}

/* The options under which the plan is the only layout; false: the search does not know its kind. */
static bool fix_plan(const struct cs_spec *spec, const struct cs_graph *graph,
                     const struct cs_plan *plan, struct cs_search_options *o)
{
    enum cs_schedule_id schedule = CS_SCHEDULE_1f1b;
    int32_t of = graph->n_encoders > 0 ? -1 : CS_PLACE_OWN;
    if (!cs_search_schedule_from_name(plan->schedule, &schedule))
        return false;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const int32_t place = b == graph->llm ? CS_PLACE_OWN : searched_place(spec, graph, plan, b);
        if (place < 0)
            return false;
        if (b != graph->llm)
            of = of < 0 || of == place ? place : CS_SEARCH_MIXED;
        fix_branch(spec, plan, graph, b, place, o);
    }
    const bool is_shared = cs_plan_schedule((int)schedule)->layout == CS_LAYOUT_COLOCATED;
    if (graph->n_encoders > 0 && (of == CS_PLACE_COLOCATED) != is_shared)
        return false;
    o->schedules = 1u << schedule;
    o->modalities = 1u << of;
    o->dp = o->fix[graph->llm].dp;
    return true;
}

/* What the plan says of itself. */
static json_t *own_words(const struct cs_plan *plan, const char *why_no_more)
{
    json_t *cut = json_array(), *binds = json_array();
    for (int32_t i = 0; i < plan->n_why; i++)
        json_array_append_new(cut, json_string(plan->why[i]));
    json_array_append_new(binds, json_string(why_no_more));
    return json_pack("{s:{s:o s:o}}", "explain", "cut", cut, "binds", binds);
}

static json_t *others_json(const struct cs_search_result *found, int64_t given_ns)
{
    json_t *all = json_array();
    for (int32_t i = 0; i < found->n_plans; i++) {
        char text[64];
        const struct cs_search_plan *p = &found->plan[i];
        double percent =
            given_ns > 0 ? 100.0 * (double)(p->step_ns - given_ns) / (double)given_ns : 0;
        snprintf(text, sizeof text, "%+.1f%%", percent);
        json_t *row = cs_search_plan_json(p);
        json_object_set_new(row, "against", json_string(text));
        json_array_append_new(all, row);
    }
    return all;
}

/* A step's slots where every replica has as many. */
static int32_t dealt_slots(const struct cs_plan *plan)
{
    return cs_plan_own_slots(plan, plan->slots) * cs_plan_llm_replicas(plan);
}

/* Of a layout that is searched for: what its search says, of another one its plan's own reasons. */
static json_t *explain_given(const struct cs_spec *spec, const struct cs_graph *graph,
                             const struct cs_plan *plan, const struct cs_cluster *cluster,
                             const struct cs_profile *profile, struct cs_arena *arena,
                             int64_t *step_ns)
{
    struct cs_search_options own = {.batch_slots = dealt_slots(plan),
                                    .top = 1,
                                    .explains = true,
                                    .n_refine = -1, /* cut as the plan is */
                                    .may_leave_node = true};
    struct cs_search_result given;
    struct cs_err err;
    *step_ns = plan->predicted_step_ns;
    if (!fix_plan(spec, graph, plan, &own))
        return own_words(plan, "not known: no search looks at encoders placed so under this "
                               "schedule");
    if (cs_search(spec, graph, cluster, profile, &own, arena, &given, &err) != CS_OK)
        return own_words(plan,
                         cs_arena_printf(arena, "not known, the search refuses it: %s", err.text));
    *step_ns = given.plan[0].step_ns;
    json_t *out = cs_search_result_json(&given);
    json_object_del(out, "plans");
    json_object_del(out, "schema");
    return out;
}

enum cs_status cs_plan_explain(const struct cs_spec *spec, const struct cs_graph *graph,
                               const struct cs_plan *plan, const struct cs_here *here,
                               struct cs_arena *arena, json_t **out, struct cs_err *err)
{
    const struct cs_search_options options = {
        .batch_slots = plan->slots, .top = MOST_OTHERS, .only_runs = true};
    struct cs_search_result found = {0};
    struct cs_cluster cluster;
    struct cs_profile *profile;
    struct cs_err why;
    int64_t step_ns;
    CS_TRY(cs_spec_cluster(spec, here, arena, &cluster, err));
    CS_TRY(cs_spec_profile(spec, arena, &profile, err));
    *out = explain_given(spec, graph, plan, &cluster, profile, arena, &step_ns);
    if (cs_search(spec, graph, &cluster, profile, &options, arena, &found, &why) != CS_OK)
        found.n_plans = 0; /* jobs run none but this one */
    json_object_set_new(*out, "others", others_json(&found, step_ns));
    json_t *all = cs_search_result_json(&found);
    json_object_set(*out, "planners", json_object_get(all, "planners"));
    json_decref(all);
    return CS_OK;
}
