/* Plans of a search as JSON ("cornstarch.plans/1"). */
#include "core/search/search.h"

static json_t *layout_json(const struct cs_layout *layout)
{
    json_t *all = json_object();
    for (int32_t b = 0; b < layout->n_branches; b++) {
        const struct cs_branch_layout *at = &layout->branch[b];
        json_object_set_new(all, at->name,
                            json_pack("{s:i s:i s:i s:i s:i s:i s:s s:s}", "tp", at->tp, "cp",
                                      at->cp, "pp", at->pp, "dp", cs_layout_dp(layout, b), "vpp",
                                      at->vpp > 0 ? at->vpp : 1, "zero", cs_layout_zero(layout, b),
                                      "recompute", cs_recompute_name(at->recompute), "place",
                                      cs_placement_table[at->place].name));
        if (at->sp)
            json_object_set_new(json_object_get(all, at->name), "sp", json_true());
        if (at->ep > 1)
            json_object_set_new(json_object_get(all, at->name), "ep", json_integer(at->ep));
    }
    return all;
}

static json_t *stage_json(const struct cs_search_stage *s)
{
    const struct cs_memory *m = &s->memory;
    return json_pack("{s:s s:i s:i s:I s:I s:I s:i s:f s:I s:{s:I s:I s:I s:I s:I s:I s:I}}",
                     "name", s->name, "rank", s->rank, "layers", s->n_layers, "fwd_ns",
                     (json_int_t)s->fwd_ns, "bwd_input_ns", (json_int_t)s->bwd_input_ns,
                     "bwd_weight_ns", (json_int_t)s->bwd_weight_ns, "in_flight", s->in_flight,
                     "bubble", s->bubble, "peak_bytes", (json_int_t)cs_memory_total(m), "memory",
                     "weights", (json_int_t)m->weights, "gradients", (json_int_t)m->grads,
                     "optimizer", (json_int_t)m->optimizer, "activations",
                     (json_int_t)m->activations, "boundary", (json_int_t)m->boundary, "workspace",
                     (json_int_t)m->workspace, "windows", (json_int_t)m->windows);
}

static const char *cut_name(const struct cs_search_plan *plan)
{
    static const char *const names[] = {[CS_CUT_TRUE] = "frozen-aware",
                                        [CS_CUT_BLIND] = "frozen-blind",
                                        [CS_CUT_LAYERS] = "equal-layers"};
    return names[cs_planner_rules[plan->planner].cut];
}

static json_t *number_or_null(int64_t value)
{
    return value > 0 ? json_integer((json_int_t)value) : json_null();
}

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

/* of the plan that a job makes of it */
static json_t *job_json(const struct cs_search_plan *plan)
{
    if (!plan->runs || plan->job.peak_bytes == 0)
        return json_null();
    return json_pack("{s:I s:f s:I s:i}", "step_ns", (json_int_t)plan->job.step_ns, "bubble",
                     plan->job.bubble, "peak_memory_bytes", (json_int_t)plan->job.peak_bytes,
                     "peak_rank", plan->job.peak_rank);
}

json_t *cs_search_plan_json(const struct cs_search_plan *plan)
{
    json_t *stages = json_array();
    for (int32_t i = 0; i < plan->n_stages; i++)
        json_array_append_new(stages, stage_json(&plan->stage[i]));
    json_t *row = json_pack(
        "{s:s s:s s:s s:s s:o s:o s:i s:i s:i s:i s:I s:I s:I s:I s:I s:o s:o s:I s:f s:b s:o s:o "
        "s:o s:s s:o s:o}",
        "planner", cs_planner_rules[plan->planner].name, "modality",
        cs_search_modality_name(plan->modality), "schedule", plan->schedule, "cut", cut_name(plan),
        "optimizer_state", text_or_null(plan->state), "parallel", layout_json(&plan->layout), "dp",
        plan->layout.dp, "zero", plan->layout.zero, "slots", plan->slots, "ranks", plan->n_ranks,
        "step_ns", (json_int_t)plan->step_ns, "pipeline_ns", (json_int_t)plan->pipeline_ns,
        "sync_ns", (json_int_t)plan->sync_ns, "optimizer_ns", (json_int_t)plan->optim_ns,
        "score_ns", (json_int_t)plan->score_ns, "mean_ns", number_or_null(plan->mean_ns), "p95_ns",
        number_or_null(plan->p95_ns), "peak_memory_bytes", (json_int_t)plan->peak_bytes, "bubble",
        plan->bubble, "pareto", plan->is_pareto, "runs",
        plan->runs || plan->why_not_run ? json_boolean(plan->runs) : json_null(), "why_not_run",
        text_or_null(plan->why_not_run), "job", job_json(plan), "why", plan->why, "loses",
        text_or_null(plan->loses), "stages", stages);
    if (plan->context_rows > 0)
        json_object_set_new(row, "context_rows", json_integer(plan->context_rows));
    return row;
}

static json_t *sentences(const char *const *text, int32_t n)
{
    json_t *all = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(all, json_string(text[i]));
    return all;
}

/* one row per planner that was looked for: what it takes, at true costs */
static json_t *planners_json(const struct cs_search_result *result)
{
    json_t *all = json_array();
    for (int p = 0; p < CS_PLANNERS; p++) {
        const struct cs_search_choice *c = &result->choice[p];
        if (!c->plan && !c->why_not)
            continue;
        json_array_append_new(
            all, json_pack("{s:s s:o s:o}", "planner", cs_planner_rules[p].name, "plan",
                           c->plan ? cs_search_plan_json(c->plan) : json_null(), "why_not",
                           c->plan ? json_null() : text_or_null(c->why_not)));
    }
    return all;
}

const char *cs_step_source_name(enum cs_step_source source)
{
    static const char *const names[] = {[CS_STEP_BYTES] = "bandwidth",
                                        [CS_STEP_MEASURED] = "measured",
                                        [CS_STEP_SCALED] = "scaled from fp32"};
    return names[source];
}

/* null: the problem was made by hand */
static json_t *optimizer_json(const struct cs_search_optimizer *o)
{
    if (!o->state)
        return json_null();
    return json_pack("{s:s s:I s:s}", "state", o->state, "param_bytes", (json_int_t)o->param_bytes,
                     "time", cs_step_source_name(o->source));
}

json_t *cs_search_result_json(const struct cs_search_result *result)
{
    json_t *plans = json_array();
    for (int32_t i = 0; i < result->n_plans; i++)
        json_array_append_new(plans, cs_search_plan_json(&result->plan[i]));
    json_t *root =
        json_pack("{s:s s:o s:o s:o s:o s:{s:I s:I s:i s:i s:i}}", "schema", "cornstarch.plans/1",
                  "plans", plans, "optimizer", optimizer_json(&result->optimizer), "frozen_blind",
                  result->blind ? cs_search_plan_json(result->blind) : json_null(), "planners",
                  planners_json(result), "search", "scored", (json_int_t)result->n_scored, "pruned",
                  (json_int_t)result->n_pruned, "simulated", result->n_simulated, "too_big",
                  result->n_too_big, "batches", result->n_batches);
    json_t *search = json_object_get(root, "search");
    json_object_set_new(search, "batch_samples", number_or_null(result->n_samples));
    json_object_set_new(search, "least_batch_samples", number_or_null(result->least_batch));
    const struct cs_search_explain *e = &result->explain;
    if (e->n_cut > 0)
        json_object_set_new(root, "explain",
                            json_pack("{s:o s:o}", "cut", sentences(e->cut, e->n_cut), "binds",
                                      sentences(e->bind, e->n_bind)));
    return root;
}
