/* Reads a plan: keys and settings here, its parts in read_*.c, then the hash over all of it. */
#include <string.h>

#include "core/plan/groups.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/json/reader.h"
#include "core/plan/plan_schedule.h"

enum { MAX_WHY_READ = 1000 };

static enum cs_status read_predictions(struct cs_plan_reader *r, struct cs_err *err)
{
    const json_t *step = json_object_get(r->json, "predicted_step_ns");
    const json_t *bubble = json_object_get(r->json, "predicted_bubble");
    const json_t *why = json_object_get(r->json, "why");
    struct cs_plan *plan = r->plan;
    if (!json_is_integer(step) || json_integer_value(step) < 0)
        return cs_fail(err, CS_CORRUPT, "plan: predicted_step_ns must be a whole number from 0");
    plan->predicted_step_ns = (int64_t)json_integer_value(step);
    if (json_is_array(bubble) && json_array_size(bubble) == (size_t)plan->n_stages) {
        plan->predicted_bubble = CS_NEW_ARRAY(r->arena, double, plan->n_stages);
        for (int32_t s = 0; s < plan->n_stages; s++)
            plan->predicted_bubble[s] = json_number_value(json_array_get(bubble, (size_t)s));
    } else if (!json_is_null(bubble)) {
        return cs_fail(err, CS_CORRUPT, "plan: predicted_bubble must be null or %d numbers",
                       plan->n_stages);
    }
    if (!json_is_array(why) || json_array_size(why) > MAX_WHY_READ)
        return cs_fail(err, CS_CORRUPT, "plan: why must be an array of sentences");
    plan->n_why = (int32_t)json_array_size(why);
    plan->why = CS_NEW_ARRAY(r->arena, const char *, plan->n_why + 1);
    for (int32_t i = 0; i < plan->n_why; i++) {
        const char *text = json_string_value(json_array_get(why, (size_t)i));
        if (!text)
            return cs_fail(err, CS_CORRUPT, "plan: why[%d] must be a sentence", i);
        plan->why[i] = cs_arena_strdup(r->arena, text);
    }
    return CS_OK;
}

static enum cs_status check_keys(const json_t *json, struct cs_err *err)
{
    static const char *const keys[] = {
        "schema",
        "schedule",
        "slots",
        "n_ranks",
        "stages",
        "edges",
        "budget",
        "embed_stage",
        "head_stage",
        "is_tied_across",
        "why",
        "hash",
        "predicted_step_ns",
        "predicted_bubble",
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++)
        if (!json_object_get(json, keys[i]))
            return cs_fail(err, CS_CORRUPT, "plan: key \"%s\" is missing", keys[i]);
    const size_t optional = (json_object_get(json, "dp") != NULL ? 1u : 0u) +
                            (json_object_get(json, "context_rows") != NULL ? 1u : 0u) +
                            (json_object_get(json, "context_exchange") != NULL ? 1u : 0u) +
                            (json_object_get(json, "context_own_first") != NULL ? 1u : 0u);
    if (json_object_size(json) != CS_ARRAY_LEN(keys) + optional)
        return cs_fail(err, CS_CORRUPT,
                       "plan: there are keys that " CS_PLAN_SCHEMA " does not know");
    return CS_OK;
}

static enum cs_status read_exchange(struct cs_plan_reader *r, struct cs_err *err)
{
    const json_t *given = json_object_get(r->json, "context_exchange");
    const char *word = json_string_value(given);
    const json_t *first = json_object_get(r->json, "context_own_first");
    r->plan->moves_heads = word != NULL && strcmp(word, "heads") == 0;
    r->plan->keys_own_first = first != NULL;
    if (first != NULL && (!json_is_true(first) || r->plan->moves_heads))
        return cs_fail(err, CS_CORRUPT,
                       "plan: context_own_first is not true of a plan that exchanges keys");
    return given == NULL || r->plan->moves_heads
               ? CS_OK
               : cs_fail(err, CS_CORRUPT, "plan: context_exchange is not \"heads\"");
}

enum cs_status cs_plan_read(const json_t *json, const struct cs_graph *graph,
                            struct cs_arena *arena, struct cs_plan **out, struct cs_err *err)
{
    struct cs_plan_reader r = {json, graph, arena, CS_NEW(arena, struct cs_plan)};
    const char *schema = json_string_value(json_object_get(json, "schema"));
    if (!schema || strcmp(schema, CS_PLAN_SCHEMA) != 0)
        return cs_fail(err, CS_CORRUPT, "plan: schema is \"%s\", not " CS_PLAN_SCHEMA,
                       schema ? schema : "(missing)");
    CS_TRY(check_keys(json, err));
    const char *schedule = json_string_value(json_object_get(json, "schedule"));
    CS_TRY(cs_plan_check_schedule(schedule ? schedule : "", err));
    r.plan->schedule = cs_arena_strdup(arena, schedule);
    r.plan->keeps_bf16 = graph->keeps_bf16;
    CS_TRY(cs_plan_read_count(json, "slots", 1, INT32_MAX, &r.plan->slots, err));
    if (json_object_get(json, "dp") != NULL)
        CS_TRY(cs_plan_read_count(json, "dp", 2, CS_PLAN_MOST_REPLICAS, &r.plan->dp, err));
    if (json_object_get(json, "context_rows") != NULL)
        CS_TRY(cs_plan_read_count(json, "context_rows", 1, INT32_MAX, &r.plan->context_rows, err));
    CS_TRY(read_exchange(&r, err));
    if (r.plan->slots % cs_plan_llm_replicas(r.plan) != 0)
        return cs_fail(err, CS_CORRUPT, "plan: slots is %d, no multiple of dp = %d", r.plan->slots,
                       r.plan->dp);
    CS_TRY(cs_plan_read_stages(&r, err));
    CS_TRY(cs_plan_read_budget(&r, err));
    CS_TRY(cs_plan_read_count(json, "embed_stage", 0, r.plan->n_stages - 1, &r.plan->embed_stage,
                              err));
    CS_TRY(
        cs_plan_read_count(json, "head_stage", 0, r.plan->n_stages - 1, &r.plan->head_stage, err));
    CS_TRY(cs_plan_read_derived(&r, err));
    cs_plan_make_groups(r.plan, arena);
    CS_TRY(cs_plan_check_fits(r.plan, err));
    CS_TRY(read_predictions(&r, err));
    CS_TRY(cs_plan_hash(r.plan, graph, r.plan->hash, err));
    const char *hash = json_string_value(json_object_get(json, "hash"));
    if (!hash || strcmp(hash, r.plan->hash) != 0)
        return cs_fail(err, CS_CORRUPT, "plan: hash is %.64s but the contents give %s",
                       hash ? hash : "(missing)", r.plan->hash);
    *out = r.plan;
    return CS_OK;
}
