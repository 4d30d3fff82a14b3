/* Writes a plan as canonical JSON, and hashes what is executed of it. */
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/plan/json/fields.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/layout.h"

/* Every item as the largest, and a row for each of its patches. */
static bool is_plain(const struct cs_item_budget *b)
{
    return b->height > 0 && b->item_patches == b->item_rows && !b->has_sources;
}

static json_t *budget_json(const struct cs_slot_budget *budget)
{
    json_t *object = json_object(), *encoders = json_array();
    for (int32_t e = 0; e < budget->n_encoders; e++) {
        json_t *one = json_object();
        cs_plan_write_fields(one, &budget->enc[e], CS_PLAN_ENC);
        if (!is_plain(&budget->enc[e]))
            cs_plan_write_fields(one, &budget->enc[e], CS_PLAN_ANY);
        json_array_append_new(encoders, one);
    }
    json_object_set_new(object, "seq_tokens", json_integer(budget->seq_tokens));
    json_object_set_new(object, "encoders", encoders);
    return object;
}

static bool is_measured(const struct cs_stage *s)
{
    return s->prepare_ns > 0 || s->clear_ns > 0 || s->norm_ns > 0 || s->update_ns > 0;
}

static const char *striped_word(const struct cs_edge *edge)
{
    return cs_plan_striped_words[(edge->is_striped[CS_FLOW_ROWS] ? 1 : 0) +
                                 (edge->is_striped[CS_FLOW_GRADIENTS] ? 2 : 0)];
}

/* all that is hashed */
static json_t *core_json(const struct cs_plan *plan, const struct cs_graph *graph)
{
    json_t *object = json_object(), *stages = json_array(), *edges = json_array();
    for (int32_t s = 0; s < plan->n_stages; s++) {
        json_t *one = json_object();
        cs_plan_write_fields(one, &plan->stages[s], CS_PLAN_STAGE);
        json_object_set_new(one, "rank",
                            json_integer(cs_plan_rank(plan, s, (struct cs_rank_at){0})));
        if (cs_plan_shape(plan, s).tp > 1) /* plans without have no such key */
            json_object_set_new(one, "tp", json_integer(cs_plan_shape(plan, s).tp));
        if (plan->stages[s].splits_rows)
            json_object_set_new(one, "sp", json_true());
        if (cs_plan_shape(plan, s).cp > 1)
            json_object_set_new(one, "cp", json_integer(cs_plan_shape(plan, s).cp));
        if (cs_plan_shape(plan, s).ep > 1)
            json_object_set_new(one, "ep", json_integer(cs_plan_shape(plan, s).ep));
        if (cs_plan_shape(plan, s).dp != cs_plan_llm_replicas(plan))
            json_object_set_new(one, "dp", json_integer(cs_plan_shape(plan, s).dp));
        json_object_set_new(one, "name", json_string(plan->stages[s].name));
        json_object_set_new(one, "branch",
                            json_string(graph->branches[plan->stages[s].branch].name));
        if (plan->stages[s].recompute != CS_RECOMPUTE_NONE) /* older plans have no such key */
            json_object_set_new(
                one, "recompute",
                json_string(cs_recompute_name((enum cs_recompute)plan->stages[s].recompute)));
        if (plan->stages[s].zero > 1)
            json_object_set_new(one, "zero", json_integer(plan->stages[s].zero));
        if (plan->stages[s].offloads)
            json_object_set_new(one, "offload", json_string("host"));
        if (is_measured(&plan->stages[s]))
            cs_plan_write_fields(one, &plan->stages[s], CS_PLAN_MEASURED);
        if (plan->share && plan->share[s].n > 0)
            json_object_set_new(
                one, "share",
                json_pack("{s:i,s:i}", "n", plan->share[s].n, "at", plan->share[s].at));
        json_array_append_new(stages, one);
    }
    for (int32_t e = 0; e < plan->n_edges; e++) {
        json_t *one = json_object();
        cs_plan_write_fields(one, &plan->edges[e], CS_PLAN_EDGE);
        if (striped_word(&plan->edges[e]) != NULL) /* others have no such key */
            json_object_set_new(one, "striped", json_string(striped_word(&plan->edges[e])));
        json_array_append_new(edges, one);
    }
    json_object_set_new(object, "schema", json_string(CS_PLAN_SCHEMA));
    json_object_set_new(object, "schedule", json_string(plan->schedule));
    json_object_set_new(object, "slots", json_integer(plan->slots));
    json_object_set_new(object, "n_ranks", json_integer(cs_plan_replica_ranks(plan)));
    if (plan->dp > 1) /* plans of one replica have no such key */
        json_object_set_new(object, "dp", json_integer(plan->dp));
    if (plan->context_rows > 0) /* nor have plans whose slots are all split alike */
        json_object_set_new(object, "context_rows", json_integer(plan->context_rows));
    if (plan->moves_heads) /* nor have plans of ranks that exchange keys */
        json_object_set_new(object, "context_exchange", json_string("heads"));
    if (plan->keys_own_first) /* nor have plans whose attention waits for keys */
        json_object_set_new(object, "context_own_first", json_true());
    json_object_set_new(object, "stages", stages);
    json_object_set_new(object, "edges", edges);
    json_object_set_new(object, "budget", budget_json(&plan->budget));
    json_object_set_new(object, "is_tied_across", json_boolean(plan->is_tied_across));
    json_object_set_new(object, "embed_stage", json_integer(plan->embed_stage));
    json_object_set_new(object, "head_stage", json_integer(plan->head_stage));
    return object;
}

enum cs_status cs_plan_hash(const struct cs_plan *plan, const struct cs_graph *graph, char hash[65],
                            struct cs_err *err)
{
    json_t *object = core_json(plan, graph);
    char *text = json_dumps(object, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(object);
    if (!text)
        return cs_fail(err, CS_NO_MEMORY, "encoding a plan");
    cs_sha256_hex(text, strlen(text), hash);
    free(text);
    return CS_OK;
}

json_t *cs_plan_json(const struct cs_plan *plan, const struct cs_graph *graph)
{
    json_t *object = core_json(plan, graph), *why = json_array(), *bubble = NULL;
    for (int32_t i = 0; i < plan->n_why; i++)
        json_array_append_new(why, json_string(plan->why[i]));
    if (plan->predicted_bubble) {
        bubble = json_array();
        for (int32_t s = 0; s < plan->n_stages; s++)
            json_array_append_new(bubble, json_real(plan->predicted_bubble[s]));
    }
    json_object_set_new(object, "why", why);
    json_object_set_new(object, "predicted_step_ns", json_integer(plan->predicted_step_ns));
    json_object_set_new(object, "predicted_bubble", bubble ? bubble : json_null());
    json_object_set_new(object, "hash", json_string(plan->hash));
    return object;
}
