/* A search over a model on a cluster, and the constraints that only the model and the cluster know;
 * see search.h. */
#include "core/base/system/stop.h"
#include "core/base/units.h"
#include "core/search/candidate.h"
#include "core/search/problem/widths.h"

static void add_sentence(struct cs_search_explain *e, struct cs_arena *arena, const char *text)
{
    const char **all = CS_NEW_ARRAY(arena, const char *, e->n_bind + 1);
    for (int32_t i = 0; i < e->n_bind; i++)
        all[i] = e->bind[i];
    all[e->n_bind++] = text;
    e->bind = all;
}

/* The first tp of every branch above all that its shapes allow. */
static void explain_heads(const struct cs_graph *graph, const struct cs_cluster *cluster,
                          struct cs_arena *arena, struct cs_search_explain *e)
{
    const int32_t node = cluster->devices_per_node,
                  widest = node < CS_SEARCH_WIDEST ? node : CS_SEARCH_WIDEST;
    int32_t width[CS_SEARCH_WIDEST];
    const int32_t n = cs_search_widths(cluster->n_nodes * node, node, widest, 0, width);
    for (int32_t b = 0; b < graph->n_branches; b++) {
        struct cs_err err;
        int32_t most = n - 1;
        while (most > 0 && cs_layout_check_tp(graph, b, width[most], NULL) != CS_OK)
            most--;
        if (most + 1 < n && cs_layout_check_tp(graph, b, width[most + 1], &err) != CS_OK)
            add_sentence(
                e, arena,
                cs_arena_printf(arena, "shapes bind: %s (no larger tp does either)", err.text));
    }
}

/* with all that is asked for */
static struct cs_search_reach reach_of(const struct cs_search_options *options)
{
    struct cs_search_reach reach = {.may_leave_node = options->may_leave_node};
    for (int32_t b = 0; b < CS_SEARCH_MAX_BRANCHES; b++) {
        const int32_t asked[] = {options->fix[b].tp, options->fix[b].cp, options->fix[b].ep};
        for (size_t i = 0; i < CS_ARRAY_LEN(asked); i++)
            if (asked[i] > 0 && asked[i] <= CS_SEARCH_WIDEST)
                reach.asked |= UINT64_C(1) << (asked[i] - 1);
    }
    return reach;
}

/* the best plan when tp * cp groups may leave a node */
static void explain_nodes(const struct cs_spec *spec, const struct cs_graph *graph,
                          const struct cs_cluster *cluster, const struct cs_profile *profile,
                          const struct cs_search_options *options, struct cs_arena *arena,
                          struct cs_search_result *out)
{
    struct cs_search_options free_of = *options;
    struct cs_search_problem *problem = NULL;
    struct cs_search_result result;
    struct cs_err err;
    char step[CS_UNITS_CAP];
    if (cluster->n_nodes < 2 || options->may_leave_node)
        return;
    free_of.may_leave_node = free_of.skip_planners = true;
    free_of.explains = false;
    free_of.samples = NULL; /* compared at full slots */
    free_of.judge = NULL;
    free_of.n_simulate = 6;
    free_of.n_refine = 1;
    free_of.top = 1;
    const struct cs_search_reach reach = reach_of(&free_of);
    if (cs_search_problem_make(spec, graph, cluster, profile, &reach, arena, &problem, &err) !=
            CS_OK ||
        cs_search_run(problem, &free_of, arena, &result, &err) != CS_OK ||
        result.plan[0].step_ns >= out->least_step_ns) {
        add_sentence(&out->explain, arena,
                     cs_arena_printf(arena,
                                     "nodes do not bind: no faster plan was found whose tp * cp "
                                     "groups reach over nodes of %d",
                                     cluster->devices_per_node));
        return;
    }
    cs_duration_print(step, sizeof step, (uint64_t)result.plan[0].step_ns);
    add_sentence(
        &out->explain, arena,
        cs_arena_printf(arena,
                        "nodes bind: with tp * cp groups over nodes of %d the step would "
                        "take %s (%.1f%% less)",
                        cluster->devices_per_node, step,
                        100 - 100.0 * (double)result.plan[0].step_ns / (double)out->least_step_ns));
}

/* what a search is of */
struct judged {
    const struct cs_spec *spec;
    const struct cs_graph *graph;
    const struct cs_cluster *cluster;
};

static void judge(const void *user, struct cs_search_plan *plan, struct cs_arena *arena)
{
    const struct judged *of = user;
    struct cs_err why;
    plan->runs =
        cs_search_check_runs(plan, of->spec, of->graph, of->cluster, &plan->job, &why) == CS_OK;
    plan->why_not_run = plan->runs ? NULL : cs_arena_strdup(arena, why.text);
}

/* only_runs: those that jobs do not run are left out */
static enum cs_status keep_runs(bool only_runs, struct cs_search_result *out, struct cs_err *err)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < out->n_plans; i++)
        if (!only_runs || out->plan[i].runs)
            out->plan[kept++] = out->plan[i];
    if (kept == 0)
        return cs_fail(err, CS_PLAN, "jobs run none of the %d plan%s found; the first: %s",
                       out->n_plans, CS_PLURAL(out->n_plans), out->plan[0].why_not_run);
    out->n_plans = kept;
    return CS_OK;
}

enum cs_status cs_search(const struct cs_spec *spec, const struct cs_graph *graph,
                         const struct cs_cluster *cluster, const struct cs_profile *profile,
                         const struct cs_search_options *options, struct cs_arena *arena,
                         struct cs_search_result *out, struct cs_err *err)
{
    struct cs_search_options own = *options;
    struct cs_search_problem *problem = NULL;
    const struct judged of = {spec, graph, cluster};
    own.judge = judge;
    own.judge_user = &of;
    own.batch_slots = own.batch_slots > 0 ? own.batch_slots : spec->slots;
    CS_TRY(cs_spec_check_precision(spec, cluster->device->name, err));
    if (own.only_runs)
        cs_search_restrict(spec, graph, cluster, &own);
    const struct cs_search_reach reach = reach_of(&own);
    CS_TRY(cs_search_problem_make(spec, graph, cluster, profile, &reach, arena, &problem, err));
    CS_TRY(cs_search_run(problem, &own, arena, out, err));
    CS_TRY(keep_runs(own.only_runs, out, err));
    if (own.explains) {
        explain_nodes(spec, graph, cluster, profile, &own, arena, out);
        explain_heads(graph, cluster, arena, &out->explain);
    }
    return cs_stop_check(err); /* what is explained leaves out what was not found */
}
