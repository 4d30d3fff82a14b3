/* plan: the plan, sweep or search of a script, without a daemon. */
#include <stdio.h>
#include <stdlib.h>

#include "console/cli/command/registry.h"
#include "console/cli/shared/plan_view.h"
#include "console/preflight/findings.h"
#include "console/preflight/preflight.h"
#include "console/whatif/explain.h"
#include "console/whatif/groups.h"
#include "core/base/say.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/plan/json/plan_json.h"
#include "core/sched/sim/forecast.h"
#include "core/wire/wire.h"

enum { MOST_PLANS = 10 };

struct values {
    struct cs_cmd_common common;
    bool screen; /* in the Plan view */
    bool plain;
    bool explain, compare;
    int64_t limit, pick; /* limit 0: not given */
    const char *devices;
    struct cs_texts set;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"top", 'n', CS_OPT_INT, 1, 1000, NULL, "N", NULL, "the best N plans of a sweep or search; 10 unless given", AT(limit)},
    {"pick", 0, CS_OPT_INT, 0, 1000, "0", "N", NULL, "of a search the N-th plan alone, as found:plan(N) gives it to a job; 0: the list, and for a job the fastest that runs", AT(pick)},
    {"explain", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "why this plan, what binds, what the next ones lose; every setting that neither the script nor a directory gave", AT(explain)},
    {"compare", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "what other planners would choose, simulated at true costs", AT(compare)},
    {"set", 0, CS_OPT_TEXTS, 0, 0, NULL, "NAME=VALUE", NULL, CS_SET_HELP, AT(set)},
    CS_OPTION_DEVICES('D', struct values),
    {"plain", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "with --view: lines to be read one after the other instead of a screen", AT(plain)},
    {"view", 'v', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "look at the plan in the console's Plan view; nothing is submitted", AT(screen)},
};

/* clang-format on */
#undef AT

static const struct cs_column columns[] = {
    {"STAGE",      5,  0, 0, CS_ALIGN_LEFT },
    {"RANK",       4,  0, 0, CS_ALIGN_RIGHT},
    {"LAYERS",     6,  0, 1, CS_ALIGN_LEFT },
    {"PARAMS",     6,  0, 4, CS_ALIGN_RIGHT},
    {"TRAINED",    7,  0, 3, CS_ALIGN_RIGHT},
    {"FWD",        6,  0, 0, CS_ALIGN_RIGHT},
    {"BWD INPUT",  9,  0, 2, CS_ALIGN_RIGHT},
    {"BWD WEIGHT", 10, 0, 2, CS_ALIGN_RIGHT},
    {"MEMORY",     6,  0, 5, CS_ALIGN_RIGHT},
    {"BUBBLE",     6,  0, 0, CS_ALIGN_RIGHT},
};

static void layer_range(char *out, size_t cap, const struct cs_graph *graph,
                        const struct cs_stage *stage)
{
    const struct cs_layer *first = &graph->layers[stage->first_layer];
    const struct cs_layer *last = &graph->layers[stage->first_layer + stage->n_layers - 1];
    if (first == last)
        snprintf(out, cap, "%s", first->path);
    else
        snprintf(out, cap, "%s .. %s", first->path, last->path);
}

static void duration(char out[CS_UNITS_CAP], int64_t ns)
{
    if (ns > 0)
        cs_duration_print(out, CS_UNITS_CAP, (uint64_t)ns);
    else
        snprintf(out, CS_UNITS_CAP, "-");
}

/* memory and bubble: of the stage's rank, with all stages that it has */
static void add_stage(struct cs_table *table, const struct cs_preflight_made *made, int i)
{
    const struct cs_plan *plan = made->plan;
    const struct cs_graph *graph = made->graph;
    const struct cs_stage *s = &plan->stages[i];
    char rank[16], layers[160], params[CS_UNITS_CAP], trained[CS_UNITS_CAP], fwd[CS_UNITS_CAP],
        input[CS_UNITS_CAP], weight[CS_UNITS_CAP], memory[CS_UNITS_CAP], bubble[32];
    int64_t n_params = 0, n_trained = 0;
    for (int32_t l = s->first_layer; l < s->first_layer + s->n_layers; l++) {
        n_params += graph->layers[l].n_elements;
        n_trained += graph->layers[l].n_trained;
    }
    cs_groups_of_stage(plan, i, rank, sizeof rank);
    layer_range(layers, sizeof layers, graph, s);
    cs_count_print(params, sizeof params, (uint64_t)n_params);
    cs_count_print(trained, sizeof trained, (uint64_t)n_trained);
    duration(fwd, s->fwd_ns);
    duration(input, s->bwd_input_ns);
    duration(weight, s->bwd_weight_ns);
    cs_bytes_print(memory, sizeof memory, (uint64_t)cs_rank_needs_bytes(&made->needs[s->rank]));
    snprintf(bubble, sizeof bubble, "%.1f%%",
             100 * cs_plan_rank_bubble(plan, plan->predicted_bubble, s->rank));
    const char *cells[] = {s->name, rank,  layers, params, trained,
                           fwd,     input, weight, memory, bubble};
    cs_table_add(table, cells);
}

/* says_why: with the plan's own reasons, which an explanation would repeat */
static void print_plan(const struct cs_preflight_made *made, bool says_why)
{
    const struct cs_plan *plan = made->plan;
    char step[CS_UNITS_CAP];
    struct cs_buf text = {0};
    struct cs_table *table = cs_table_new(columns, CS_ARRAY_LEN(columns));
    for (int i = 0; i < plan->n_stages; i++)
        add_stage(table, made, i);
    cs_table_render(table, cs_cmd_width(), true, &text);
    cs_table_free(table);
    duration(step, plan->predicted_step_ns);
    cs_buf_addf(&text, "\n%s, %d slot%s on %d rank%s, ", plan->schedule, plan->slots,
                CS_PLURAL(plan->slots), cs_plan_world(plan), CS_PLURAL(cs_plan_world(plan)));
    if (cs_plan_replicas(plan) > 1)
        cs_buf_addf(&text, "%d replica%s of %d, ", cs_plan_replicas(plan),
                    CS_PLURAL(cs_plan_replicas(plan)), cs_plan_replica_ranks(plan));
    cs_buf_addf(&text, "predicted step %s\n", step);
    for (int i = 0; says_why && i < plan->n_why; i++)
        cs_buf_addf(&text, "  %s\n", plan->why[i]);
    cs_buf_addf(&text, "plan %s\n", plan->hash);
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static void print_explain(const json_t *explain, bool compares)
{
    struct cs_buf text = {0};
    if (!explain)
        return;
    cs_explain_text(explain, compares, cs_cmd_width(), &text);
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static void print_preflight(const struct cs_preflight *preflight, bool with_defaults)
{
    struct cs_buf text = {0};
    cs_preflight_text(preflight, with_defaults, &text);
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

/* The plan, what it takes and what to know of it, in the order of a page. */
static enum cs_status print_all(struct cs_cmd *cmd, const struct cs_preflight_made *made,
                                const struct cs_preflight *preflight, json_t *explain,
                                struct cs_err *err)
{
    const struct values *v = cmd->values;
    if (!cmd->json) {
        print_plan(made, explain == NULL);
        print_explain(explain, v->compare);
        print_preflight(preflight, v->explain);
        return CS_OK;
    }
    struct cs_buf data = {0};
    json_t *doc = cs_doc_new("cornstarch.plans/1"), *plans = json_array();
    cs_preflight_data(preflight, &data);
    json_array_append_new(plans, cs_plan_json(made->plan, made->graph));
    cs_msg_set(doc, "plans", plans);
    cs_msg_set(doc, "findings", cs_findings_json(&preflight->findings, v->explain));
    cs_msg_set(doc, "preflight", cs_preflight_json(preflight));
    cs_msg_set_str(doc, "data", cs_buf_str(&data));
    cs_buf_free(&data);
    if (explain)
        json_object_update(doc, explain);
    return cs_cmd_print_doc(doc, err);
}

static enum cs_status show_sweep(struct cs_cmd *cmd, json_t *document, struct cs_err *err)
{
    const struct values *v = cmd->values;
    json_t *plans = json_object_get(document, "plans");
    const int64_t most = v->limit > 0 ? v->limit : MOST_PLANS;
    while ((int64_t)json_array_size(plans) > most)
        json_array_remove(plans, json_array_size(plans) - 1);
    if (!cmd->json) {
        struct cs_buf text = {0};
        cs_sweep_text(document, v->explain, v->compare, cs_cmd_width(), &text);
        cs_cmd_print(&text);
        cs_buf_free(&text);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.plans/1");
    json_object_update(doc, document);
    return cs_cmd_print_doc(doc, err);
}

static enum cs_status plan_one(struct cs_cmd *cmd, const struct cs_script_result *result,
                               const struct cs_here *here, struct cs_err *err)
{
    const struct values *v = cmd->values;
    const bool is_job = result->kind == CS_SCRIPT_JOB;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_preflight_made made = {0};
    struct cs_preflight preflight = {0};
    json_t *explain = NULL;
    enum cs_status status = cs_preflight_make(result->document, is_job, here, arena, &made, err);
    if (status == CS_OK)
        status = (is_job ? cs_preflight_job : cs_preflight_plan)(&made, arena, &preflight, err);
    if (status == CS_OK)
        cs_findings_add_script(&preflight.findings, result->defaults);
    if (status == CS_OK && (v->explain || v->compare))
        status = cs_plan_explain(made.spec, made.graph, made.plan, here, arena, &explain, err);
    if (status == CS_OK)
        status = print_all(cmd, &made, &preflight, explain, err);
    json_decref(explain);
    cs_preflight_free(&preflight);
    cs_arena_free(arena);
    return status;
}

/* The search that a job's plan is of stands above it. */
static enum cs_status plan_job(struct cs_cmd *cmd, const struct cs_script_result *result,
                               const struct cs_here *here, struct cs_err *err)
{
    const struct values *v = cmd->values;
    if (result->found && v->pick == 0 && !cmd->json) {
        CS_TRY(show_sweep(cmd, result->found, err));
        cs_say(stdout, "\nthe job's plan is number %d; --pick N takes another\n\n", result->picked);
    }
    return plan_one(cmd, result, here, err);
}

/* --top is of a list. */
static enum cs_status check_top(const struct cs_cmd *cmd, const struct cs_script_result *result,
                                struct cs_err *err)
{
    const struct values *v = cmd->values;
    if (v->limit == 0 || result->kind == CS_SCRIPT_SWEEP || (result->found && v->pick == 0))
        return CS_OK;
    if (result->found)
        return cs_fail(err, CS_USAGE, "--top %lld lists plans, --pick %lld takes one: give either",
                       (long long)v->limit, (long long)v->pick);
    return cs_fail(err, CS_USAGE,
                   "--top %lld: %s returns no search and no sweep; cs.search in place of cs.plan "
                   "ranks layouts",
                   (long long)v->limit, cmd->args[0]);
}

static enum cs_status plan_script(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    struct cs_script_result result;
    struct cs_here here;
    if (v->plain && !v->screen)
        return cs_fail(err, CS_USAGE,
                       "--plain goes with --view; without it the plan is text anyway");
    if (v->screen && cmd->json)
        return cs_fail(err, CS_USAGE, "--view draws a screen; leave out --json");
    if (v->screen && v->limit > 0)
        return cs_fail(err, CS_USAGE, "--view lists all plans that were found; leave out --top");
    if (v->screen)
        return cs_cmd_plan_view(
            cmd, cmd->args[0],
            &(struct cs_plan_view){
                .devices = v->devices, .set = &v->set, .pick = (int)v->pick, .is_plain = v->plain},
            err);
    struct cs_lua_limits limits = {.set = &v->set, .pick = (int)v->pick};
    CS_TRY(cs_cmd_here_local(cmd, v->devices, &here, err));
    limits.here = here;
    CS_TRY(cs_cmd_eval_with(cmd->args[0], false, &limits, &result, err));
    enum cs_status status = check_top(cmd, &result, err);
    if (status == CS_OK)
        status = result.kind == CS_SCRIPT_SWEEP ? show_sweep(cmd, result.document, err)
                                                : plan_job(cmd, &result, &here, err);
    cs_script_result_free(&result);
    return status;
}

const struct cs_command cs_command_plan = {
    .name = "plan",
    .key = 'p',
    .role = CS_ROLE_VIEWER,
    .usage = "[options] SCRIPT",
    .help = "the plan of a script: stages with memory and bubble of their ranks, predicted step, "
            "reasons",
    .run = plan_script,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
