/* Plans of a search as JSON ("cornstarch.plans/1"). */
#include "core/search/search.h"

static json_t *layout_json(const struct cs_layout *layout)
{
    json_t *all = json_object();
    for (int32_t b = 0; b < layout->n_branches; b++) {
        const struct cs_branch_layout *at = &layout->branch[b];
        json_object_set_new(all, at->name,
                            json_pack("{s:i s:i s:i s:s}", "tp", at->tp, "cp", at->cp, "pp", at->pp,
                                      "recompute", cs_recompute_name(at->recompute)));
    }
    return all;
}

static json_t *stage_json(const struct cs_search_stage *s)
{
    const struct cs_memory *m = &s->memory;
    return json_pack(
        "{s:s s:i s:i s:I s:I s:I s:i s:f s:I s:{s:I s:I s:I s:I s:I s:I}}", "name", s->name,
        "rank", s->rank, "layers", s->n_layers, "fwd_ns", (json_int_t)s->fwd_ns, "bwd_input_ns",
        (json_int_t)s->bwd_input_ns, "bwd_weight_ns", (json_int_t)s->bwd_weight_ns, "in_flight",
        s->in_flight, "bubble", s->bubble, "peak_bytes", (json_int_t)cs_memory_total(m), "memory",
        "weights", (json_int_t)m->weights, "gradients", (json_int_t)m->grads, "optimizer",
        (json_int_t)m->optimizer, "activations", (json_int_t)m->activations, "boundary",
        (json_int_t)m->boundary, "workspace", (json_int_t)m->workspace);
}

json_t *cs_search_plan_json(const struct cs_search_plan *plan)
{
    json_t *stages = json_array();
    for (int32_t i = 0; i < plan->n_stages; i++)
        json_array_append_new(stages, stage_json(&plan->stage[i]));
    return json_pack(
        "{s:s s:s s:s s:o s:i s:i s:i s:i s:I s:I s:I s:I s:I s:f s:b s:s s:o}", "modality",
        cs_search_modality_name(plan->modality), "schedule", plan->schedule, "cut",
        plan->is_blind_cut ? "frozen-blind" : "frozen-aware", "parallel",
        layout_json(&plan->layout), "dp", plan->layout.dp, "zero", plan->layout.zero, "slots",
        plan->slots, "ranks", plan->n_ranks, "step_ns", (json_int_t)plan->step_ns, "pipeline_ns",
        (json_int_t)plan->pipeline_ns, "sync_ns", (json_int_t)plan->sync_ns, "optimizer_ns",
        (json_int_t)plan->optim_ns, "peak_memory_bytes", (json_int_t)plan->peak_bytes, "bubble",
        plan->bubble, "pareto", plan->is_pareto, "why", plan->why, "stages", stages);
}

json_t *cs_search_result_json(const struct cs_search_result *result)
{
    json_t *plans = json_array();
    for (int32_t i = 0; i < result->n_plans; i++)
        json_array_append_new(plans, cs_search_plan_json(&result->plan[i]));
    return json_pack("{s:s s:o s:o s:{s:I s:I s:i s:i}}", "schema", "cornstarch.plans/1", "plans",
                     plans, "frozen_blind",
                     result->blind ? cs_search_plan_json(result->blind) : json_null(), "search",
                     "scored", (json_int_t)result->n_scored, "pruned", (json_int_t)result->n_pruned,
                     "simulated", result->n_simulated, "too_big", result->n_too_big);
}
