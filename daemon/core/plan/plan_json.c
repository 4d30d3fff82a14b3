/* "cornstarch.plan/1": canonical JSON of a plan, both ways. Records are tables of
 * fields, so that what is written is what is read. */
#include "core/plan/plan_json.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/plan/derive.h"
#include "core/plan/groups.h"
#include "core/plan/layout.h"
#include "core/plan/plan_schedule.h"
#include "core/plan/primitive.h"

#define SCHEMA "cornstarch.plan/1"

enum { MAX_WHY_READ = 1000 };

enum { MAX_SHARED = 64, MAX_REPLICAS = 1024 }; /* core/model/spec_keys.c */

enum field_type { FIELD_I32, FIELD_I64, FIELD_BOOL };

struct field {
    const char *key;
    size_t offset;
    enum field_type type;
};

#define STAGE(key, type)                                                                           \
    {                                                                                              \
#key, offsetof(struct cs_stage, key), type                                                 \
    }
#define EDGE(key, type)                                                                            \
    {                                                                                              \
#key, offsetof(struct cs_edge, key), type                                                  \
    }
#define ENC(key, type)                                                                             \
    {                                                                                              \
#key, offsetof(struct cs_item_budget, key), type                                           \
    }

static const struct field stage_fields[] = {
    STAGE(id, FIELD_I32),
    STAGE(index, FIELD_I32),
    STAGE(rank, FIELD_I32), /* in the document: the first of its ranks */
    STAGE(first_layer, FIELD_I32),
    STAGE(n_layers, FIELD_I32),
    STAGE(fwd_ns, FIELD_I64),
    STAGE(bwd_input_ns, FIELD_I64),
    STAGE(bwd_weight_ns, FIELD_I64),
    STAGE(has_backward, FIELD_BOOL),
    STAGE(needs_input_grad, FIELD_BOOL),
    STAGE(weight_bytes, FIELD_I64),
    STAGE(state_bytes, FIELD_I64),
    STAGE(saved_bytes, FIELD_I64),
};
/* only where a profile was measured: written unless all are 0 */
static const struct field measured_fields[] = {
    STAGE(prepare_ns, FIELD_I64),
    STAGE(clear_ns, FIELD_I64),
    STAGE(norm_ns, FIELD_I64),
    STAGE(update_ns, FIELD_I64),
};
static const struct field edge_fields[] = {
    EDGE(id, FIELD_I32),    EDGE(from, FIELD_I32),      EDGE(to, FIELD_I32),
    EDGE(width, FIELD_I32), EDGE(has_grad, FIELD_BOOL), EDGE(max_rows, FIELD_I64),
};
static const struct field enc_fields[] = {
    ENC(rows, FIELD_I32),       ENC(items, FIELD_I32),  ENC(item_rows, FIELD_I32),
    ENC(item_bytes, FIELD_I32), ENC(height, FIELD_I32), ENC(width, FIELD_I32),
    ENC(channels, FIELD_I32),
};
/* only of pictures that differ in size; where all are alike they follow from the others */
static const struct field any_fields[] = {
    ENC(patches, FIELD_I32),
    ENC(bytes, FIELD_I64),
    ENC(item_patches, FIELD_I32),
    ENC(has_sources, FIELD_BOOL),
};

static void write_fields(json_t *object, const void *record, const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const void *at = (const char *)record + fields[i].offset;
        json_t *value = fields[i].type == FIELD_BOOL  ? json_boolean(*(const bool *)at)
                        : fields[i].type == FIELD_I32 ? json_integer(*(const int32_t *)at)
                                                      : json_integer(*(const int64_t *)at);
        json_object_set_new(object, fields[i].key, value);
    }
}

static bool read_number(const json_t *value, const struct field *field, void *at)
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0)
        return false;
    if (field->type == FIELD_I64) {
        *(int64_t *)at = (int64_t)number;
        return true;
    }
    if (number > INT32_MAX)
        return false;
    *(int32_t *)at = (int32_t)number;
    return true;
}

static enum cs_status read_fields(const json_t *object, void *record, const struct field *fields,
                                  size_t n, const char *where, struct cs_err *err)
{
    if (!json_is_object(object))
        return cs_fail(err, CS_CORRUPT, "plan: %s is not an object", where);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(object, fields[i].key);
        void *at = (char *)record + fields[i].offset;
        bool is_bool = fields[i].type == FIELD_BOOL;
        if (is_bool && json_is_boolean(value))
            *(bool *)at = json_is_true(value);
        else if (is_bool || !read_number(value, &fields[i], at))
            return cs_fail(err, CS_CORRUPT, "plan: %s.%s must be %s", where, fields[i].key,
                           is_bool ? "true or false" : "a whole number from 0 within its range");
    }
    return CS_OK;
}

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
        write_fields(one, &budget->enc[e], enc_fields, CS_ARRAY_LEN(enc_fields));
        if (!is_plain(&budget->enc[e]))
            write_fields(one, &budget->enc[e], any_fields, CS_ARRAY_LEN(any_fields));
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

/* by which flows of an edge are striped, a bit of each */
static const char *const striped_words[1 << CS_FLOWS] = {NULL, "rows", "gradients", "both"};

static const char *striped_word(const struct cs_edge *edge)
{
    return striped_words[(edge->is_striped[CS_FLOW_ROWS] ? 1 : 0) +
                         (edge->is_striped[CS_FLOW_GRADIENTS] ? 2 : 0)];
}

/* all that is hashed */
static json_t *core_json(const struct cs_plan *plan, const struct cs_graph *graph)
{
    json_t *object = json_object(), *stages = json_array(), *edges = json_array();
    for (int32_t s = 0; s < plan->n_stages; s++) {
        json_t *one = json_object();
        write_fields(one, &plan->stages[s], stage_fields, CS_ARRAY_LEN(stage_fields));
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
            write_fields(one, &plan->stages[s], measured_fields, CS_ARRAY_LEN(measured_fields));
        if (plan->share && plan->share[s].n > 0)
            json_object_set_new(
                one, "share",
                json_pack("{s:i,s:i}", "n", plan->share[s].n, "at", plan->share[s].at));
        json_array_append_new(stages, one);
    }
    for (int32_t e = 0; e < plan->n_edges; e++) {
        json_t *one = json_object();
        write_fields(one, &plan->edges[e], edge_fields, CS_ARRAY_LEN(edge_fields));
        if (striped_word(&plan->edges[e]) != NULL) /* others have no such key */
            json_object_set_new(one, "striped", json_string(striped_word(&plan->edges[e])));
        json_array_append_new(edges, one);
    }
    json_object_set_new(object, "schema", json_string(SCHEMA));
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

struct reader {
    const json_t *json;
    const struct cs_graph *graph;
    struct cs_arena *arena;
    struct cs_plan *plan;
};

static enum cs_status read_count(const struct reader *r, const char *key, int32_t min, int32_t max,
                                 int32_t *out, struct cs_err *err)
{
    const json_t *value = json_object_get(r->json, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < min || number > max)
        return cs_fail(err, CS_CORRUPT, "plan: %s must be a whole number from %d to %d", key, min,
                       max);
    *out = (int32_t)number;
    return CS_OK;
}

/* "tp", "cp", "ep": ranks that share a stage, or its experts; a stage of one has no such key, nor one with
 * the plan's "dp" */
static enum cs_status read_shared(const json_t *stage, const char *where, const char *key,
                                  int32_t least, int32_t most, int32_t *out, struct cs_err *err)
{
    const json_t *value = json_object_get(stage, key);
    const json_int_t n = json_integer_value(value);
    if (value == NULL)
        return CS_OK;
    if (!json_is_integer(value) || n < least || n > most)
        return cs_fail(err, CS_CORRUPT, "plan: %s.%s must be a whole number from %d to %d", where,
                       key, least, most);
    *out = (int32_t)n;
    return CS_OK;
}

/* What is divided beside the optimizer's state, and whether activations wait elsewhere; a stage where
 * nothing of that is so has no such keys. */
static enum cs_status read_zero(const json_t *json, const char *where, struct cs_stage *stage,
                                struct cs_err *err)
{
    const json_t *value = json_object_get(json, "zero");
    const json_int_t n = json_integer_value(value);
    const json_t *offload = json_object_get(json, "offload");
    stage->zero = 1;
    stage->offloads = offload != NULL;
    if (offload != NULL &&
        (!json_is_string(offload) || strcmp(json_string_value(offload), "host") != 0))
        return cs_fail(err, CS_CORRUPT, "plan: %s.offload must be \"host\"", where);
    if (value == NULL)
        return CS_OK;
    if (!json_is_integer(value) || n < 2 || n > 3)
        return cs_fail(err, CS_CORRUPT, "plan: %s.zero must be 2 or 3", where);
    stage->zero = (int32_t)n;
    return CS_OK;
}

/* "sp": the ranks of tp split rows between products; absent: they do not */
static enum cs_status read_split(const json_t *json, const char *where, struct cs_stage *stage,
                                 struct cs_err *err)
{
    const json_t *value = json_object_get(json, "sp");
    if (value == NULL)
        return CS_OK;
    if (!json_is_true(value) || stage->shape.tp < 2)
        return cs_fail(err, CS_CORRUPT, "plan: %s.sp must be true, of a stage with tp", where);
    stage->splits_rows = true;
    return CS_OK;
}

static enum cs_status read_stage(struct reader *r, int32_t id, struct cs_err *err)
{
    const json_t *json = json_array_get(json_object_get(r->json, "stages"), (size_t)id);
    struct cs_stage *stage = &r->plan->stages[id];
    char where[32];
    snprintf(where, sizeof where, "stages[%d]", id);
    CS_TRY(read_fields(json, stage, stage_fields, CS_ARRAY_LEN(stage_fields), where, err));
    if (json_object_get(json, measured_fields[0].key) != NULL)
        CS_TRY(
            read_fields(json, stage, measured_fields, CS_ARRAY_LEN(measured_fields), where, err));
    const char *branch = json_string_value(json_object_get(json, "branch"));
    const char *name = json_string_value(json_object_get(json, "name"));
    stage->branch = -1;
    for (int32_t b = 0; branch && b < r->graph->n_branches; b++)
        if (strcmp(r->graph->branches[b].name, branch) == 0)
            stage->branch = b;
    if (stage->branch < 0)
        return cs_fail(err, CS_CORRUPT, "plan: %s.branch \"%s\" is not a branch of the model",
                       where, branch ? branch : "(not a string)");
    stage->name = cs_arena_printf(r->arena, "%s.%d", branch, stage->index);
    if (!name || strcmp(stage->name, name) != 0)
        return cs_fail(err, CS_CORRUPT, "plan: %s.name must be \"%s\"", where, stage->name);
    if (stage->id != id)
        return cs_fail(err, CS_CORRUPT, "plan: %s.id is %d: stages are listed by id", where,
                       stage->id);
    stage->shape = (struct cs_rank_shape){1, 1, 1, cs_plan_llm_replicas(r->plan)};
    CS_TRY(read_shared(json, where, "tp", 2, MAX_SHARED, &stage->shape.tp, err));
    CS_TRY(read_shared(json, where, "cp", 2, MAX_SHARED, &stage->shape.cp, err));
    CS_TRY(read_shared(json, where, "ep", 2, MAX_SHARED, &stage->shape.ep, err));
    if (r->graph->branches[stage->branch].encoder >= 0)
        CS_TRY(read_shared(json, where, "dp", 1, MAX_REPLICAS, &stage->shape.dp, err));
    else if (json_object_get(json, "dp") != NULL)
        return cs_fail(err, CS_CORRUPT, "plan: %s.dp is that of the plan", where);
    CS_TRY(read_zero(json, where, stage, err));
    CS_TRY(read_split(json, where, stage, err));
    if (stage->rank >= r->plan->n_ranks)
        return cs_fail(err, CS_CORRUPT, "plan: %s.rank is %d but n_ranks is %d", where, stage->rank,
                       r->plan->n_ranks);
    return CS_OK;
}

/* Stages cover all layers in order, branch by branch; or those of an encoder are copies of it, one
 * on each rank of the LLM. */
static enum cs_status check_cover(const struct reader *r, struct cs_err *err)
{
    int32_t id = 0;
    for (int32_t b = 0; b < r->graph->n_branches; b++) {
        const struct cs_branch *branch = &r->graph->branches[b];
        int32_t first = branch->first_layer, layer = first, end = layer + branch->n_layers;
        bool is_copied = branch->encoder >= 0 && id + 1 < r->plan->n_stages &&
                         r->plan->stages[id + 1].branch == b &&
                         r->plan->stages[id + 1].first_layer == first;
        for (int32_t index = 0; layer < end; id++, index++) {
            struct cs_stage *s = &r->plan->stages[id];
            if (id >= r->plan->n_stages || s->branch != b || s->index != index ||
                s->first_layer != layer || s->n_layers < 1 || s->n_layers > end - layer ||
                (is_copied && s->n_layers != end - first))
                return cs_fail(err, CS_CORRUPT,
                               "plan: stages[%d] does not continue branch %s at layer %d (stage "
                               "%d): the plan is for another model",
                               id, branch->name, layer, index);
            bool is_last_copy = id + 1 >= r->plan->n_stages || r->plan->stages[id + 1].branch != b;
            layer = is_copied && !is_last_copy ? first : layer + s->n_layers;
            s->copies = is_copied ? -1 : 0; /* counted below */
        }
    }
    if (id != r->plan->n_stages)
        return cs_fail(err, CS_CORRUPT, "plan: %d stages, but the layers end after %d",
                       r->plan->n_stages, id);
    for (int32_t s = r->plan->n_stages - 1, n = 0; s >= 0; s--) {
        struct cs_stage *stage = &r->plan->stages[s];
        if (stage->copies == 0)
            continue;
        n = n > stage->index ? n : stage->index + 1; /* the last copy comes first */
        stage->copies = n;
        n = stage->index == 0 ? 0 : n;
    }
    return CS_OK;
}

/* copies of an encoder: as many as the LLM has stages, each on the rank of one */
static enum cs_status check_copies(const struct reader *r, struct cs_err *err)
{
    const struct cs_plan *plan = r->plan;
    int32_t llm = 0;
    while (llm < plan->n_stages && plan->stages[llm].branch != r->graph->llm)
        llm++;
    for (int32_t s = 0; s < llm; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        int32_t copies = stage->copies > 1 ? stage->copies : 1, at = llm + stage->index;
        bool is_shared = plan->share && plan->share[s].n > 0;
        if (copies > 1 && (copies > plan->n_stages - llm || stage->rank != plan->stages[at].rank))
            return cs_fail(err, CS_CORRUPT,
                           "plan: stages[%d] (%s) is a copy that is not on the rank of stage %d "
                           "of the llm",
                           s, stage->name, stage->index);
        if (is_shared && (plan->share[s].n != copies || plan->share[s].at != stage->index))
            return cs_fail(err, CS_CORRUPT,
                           "plan: stages[%d].share must be {\"n\": %d, \"at\": %d}", s, copies,
                           stage->index);
    }
    return CS_OK;
}

static enum cs_status read_recompute(struct reader *r, struct cs_err *err)
{
    for (int32_t s = 0; s < r->plan->n_stages; s++) {
        const json_t *stage = json_array_get(json_object_get(r->json, "stages"), (size_t)s);
        const json_t *json = json_object_get(stage, "recompute");
        enum cs_recompute level = CS_RECOMPUTE_NONE;
        if (json &&
            !(json_is_string(json) && cs_recompute_from_name(json_string_value(json), &level)))
            return cs_fail(err, CS_CORRUPT,
                           "plan: stages[%d].recompute must be none, selective or full", s);
        r->plan->stages[s].recompute = (int32_t)level;
    }
    return CS_OK;
}

static enum cs_status read_share(struct reader *r, struct cs_err *err)
{
    struct cs_slot_share *share = CS_NEW_ARRAY(r->arena, struct cs_slot_share, r->plan->n_stages);
    for (int32_t s = 0; s < r->plan->n_stages; s++) {
        const json_t *stage = json_array_get(json_object_get(r->json, "stages"), (size_t)s);
        const json_t *json = json_object_get(stage, "share");
        json_int_t n = json_integer_value(json_object_get(json, "n"));
        json_int_t at = json_integer_value(json_object_get(json, "at"));
        if (!json)
            continue;
        bool is_encoder = r->graph->branches[r->plan->stages[s].branch].encoder >= 0;
        if (!is_encoder || !json_is_integer(json_object_get(json, "at")) || n < 1 ||
            n > r->plan->n_stages || at < 0 || at >= n)
            return cs_fail(err, CS_CORRUPT,
                           "plan: stages[%d].share must say which slots a copy of an encoder "
                           "runs: {\"n\": copies, \"at\": 0 .. n - 1}",
                           s);
        share[s] = (struct cs_slot_share){(int32_t)n, (int32_t)at};
        r->plan->share = share;
    }
    return CS_OK;
}

/* The document says where the ranks of a stage begin in a replica; those that share a stage run one
 * program, which is what a plan calls a rank. */
static enum cs_status check_ranks(struct reader *r, struct cs_err *err)
{
    struct cs_plan *plan = r->plan;
    int32_t *width = CS_NEW_ARRAY(r->arena, int32_t, plan->n_ranks),
            *program = CS_NEW_ARRAY(r->arena, int32_t, plan->n_ranks), n = 0;
    cs_plan_count_repeats(plan);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        int32_t *its = &width[plan->stages[s].rank];
        if (*its != 0 && *its != cs_plan_stage_ranks(plan, s))
            return cs_fail(err, CS_CORRUPT,
                           "plan: stages[%d] shares its rank with one of another width", s);
        *its = cs_plan_stage_ranks(plan, s);
    }
    for (int32_t rank = 0; rank < plan->n_ranks; rank += width[rank]) {
        if (width[rank] == 0)
            return cs_fail(err, CS_CORRUPT, "plan: rank %d has no stage", rank);
        if (width[rank] > plan->n_ranks - rank)
            return cs_fail(err, CS_CORRUPT, "plan: rank %d needs %d ranks, but n_ranks is %d", rank,
                           width[rank], plan->n_ranks);
        for (int32_t i = 1; i < width[rank]; i++)
            if (width[rank + i] != 0)
                return cs_fail(err, CS_CORRUPT, "plan: rank %d is of two stages that are apart",
                               rank + i);
        program[rank] = n++;
    }
    for (int32_t s = 0; s < plan->n_stages; s++)
        plan->stages[s].rank = program[plan->stages[s].rank];
    plan->n_ranks = n;
    cs_plan_number_ranks(plan, r->arena);
    return CS_OK;
}

static enum cs_status read_stages(struct reader *r, struct cs_err *err)
{
    const json_t *list = json_object_get(r->json, "stages");
    size_t n = json_array_size(list);
    size_t most = (size_t)r->graph->n_layers * (size_t)r->graph->n_branches; /* with copies */
    if (!json_is_array(list) || n < 1 || n > most)
        return cs_fail(err, CS_CORRUPT, "plan: stages must be an array of 1 to %zu", most);
    CS_TRY(read_count(r, "n_ranks", 1, MAX_REPLICAS * (int32_t)n, &r->plan->n_ranks, err));
    r->plan->n_stages = (int32_t)n;
    r->plan->stages = CS_NEW_ARRAY(r->arena, struct cs_stage, n);
    for (int32_t s = 0; s < r->plan->n_stages; s++)
        CS_TRY(read_stage(r, s, err));
    CS_TRY(check_cover(r, err));
    CS_TRY(check_ranks(r, err));
    CS_TRY(read_recompute(r, err));
    CS_TRY(read_share(r, err));
    return check_copies(r, err);
}

/* One size: what the graph says. Any size: not more than it says. */
static enum cs_status check_item(const struct cs_branch *branch, const struct cs_item_budget *b,
                                 int32_t seq_tokens, const char *where, struct cs_err *err)
{
    const bool is_like = branch->item_rows == b->item_rows && branch->item_bytes == b->item_bytes &&
                         branch->item_patches == b->item_patches;
    const bool is_under = b->item_rows >= 1 && branch->item_rows >= b->item_rows &&
                          branch->item_bytes >= b->item_bytes &&
                          branch->item_patches >= b->item_patches;
    if (branch->has_one_size != (b->height > 0) || branch->has_sources != b->has_sources ||
        !(branch->has_one_size ? is_like : is_under))
        return cs_fail(err, CS_CORRUPT, "plan: %s: items of %s have %s%d rows and %d bytes", where,
                       branch->name, branch->has_one_size ? "" : "at most ", branch->item_rows,
                       branch->item_bytes);
    if (branch->has_one_size &&
        (b->items < 1 || b->item_rows > seq_tokens || (int64_t)b->items * b->item_rows != b->rows))
        return cs_fail(err, CS_CORRUPT,
                       "plan: %s: rows must be items * item_rows, item_rows <= seq_tokens", where);
    if (b->items < 1 || b->rows < b->item_rows || b->patches < b->item_patches ||
        b->bytes < b->item_bytes)
        return cs_fail(err, CS_CORRUPT, "plan: %s: a slot has no room for the largest item", where);
    return CS_OK;
}

static enum cs_status read_encoder(struct reader *r, const json_t *json, int32_t e,
                                   struct cs_err *err)
{
    struct cs_item_budget *b = &r->plan->budget.enc[e];
    char where[48];
    snprintf(where, sizeof where, "budget.encoders[%d]", e);
    CS_TRY(read_fields(json, b, enc_fields, CS_ARRAY_LEN(enc_fields), where, err));
    b->item_patches = b->item_rows;
    b->patches = b->rows;
    b->bytes = (int64_t)b->items * b->item_bytes;
    if (json_object_get(json, any_fields[0].key) != NULL)
        CS_TRY(read_fields(json, b, any_fields, CS_ARRAY_LEN(any_fields), where, err));
    for (int32_t i = 0; i < r->graph->n_branches; i++)
        if (r->graph->branches[i].encoder == e)
            CS_TRY(check_item(&r->graph->branches[i], b, r->plan->budget.seq_tokens, where, err));
    return CS_OK;
}

static enum cs_status read_budget(struct reader *r, struct cs_err *err)
{
    const json_t *json = json_object_get(r->json, "budget");
    const json_t *encoders = json_object_get(json, "encoders");
    struct reader inner = {.json = json};
    enum cs_status status =
        read_count(&inner, "seq_tokens", 1, INT32_MAX, &r->plan->budget.seq_tokens, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "budget");
    if (!json_is_array(encoders) || json_array_size(encoders) != (size_t)r->graph->n_encoders)
        return cs_fail(err, CS_CORRUPT, "plan: budget.encoders must have %d entries",
                       r->graph->n_encoders);
    r->plan->budget.n_encoders = r->graph->n_encoders;
    for (int32_t e = 0; e < r->graph->n_encoders; e++)
        CS_TRY(read_encoder(r, json_array_get(encoders, (size_t)e), e, err));
    return CS_OK;
}

/* What is derived of an edge stays, and of its flows those are striped that can be. */
static enum cs_status read_striped(struct reader *r, const json_t *json, int32_t e,
                                   const char *where, struct cs_err *err)
{
    const json_t *value = json_object_get(json, "striped");
    const char *word = json_string_value(value);
    struct cs_edge *edge = &r->plan->edges[e];
    unsigned bits = 0;
    while (word != NULL && bits < CS_ARRAY_LEN(striped_words) &&
           (striped_words[bits] == NULL || strcmp(word, striped_words[bits]) != 0))
        bits++;
    if (value != NULL && (word == NULL || bits == CS_ARRAY_LEN(striped_words)))
        return cs_fail(err, CS_CORRUPT,
                       "plan: %s.striped must be \"rows\", \"gradients\" or \"both\"", where);
    for (int f = 0; f < CS_FLOWS; f++) {
        edge->is_striped[f] = (bits >> f & 1) != 0;
        if (edge->is_striped[f] && !cs_edge_can_stripe(r->plan, e, (enum cs_edge_flow)f))
            return cs_fail(err, CS_CORRUPT,
                           "plan: %s.striped is \"%s\": who receives is on the same ranks, or no "
                           "ranks share its matrices",
                           where, word);
    }
    return CS_OK;
}

/* Edges, flags and tied stages follow from the rest: read them, derive them, demand equality. */
static enum cs_status check_derived(struct reader *r, struct cs_err *err)
{
    struct cs_plan *plan = r->plan, want = *plan;
    want.stages = CS_NEW_ARRAY(r->arena, struct cs_stage, plan->n_stages);
    memcpy(want.stages, plan->stages, (size_t)plan->n_stages * sizeof *want.stages);
    cs_plan_derive(r->graph, r->arena, &want);
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].has_backward != want.stages[s].has_backward ||
            plan->stages[s].needs_input_grad != want.stages[s].needs_input_grad)
            return cs_fail(
                err, CS_CORRUPT,
                "plan: stages[%d] (%s): gradients differ from what the model's trainable "
                "set asks for",
                s, plan->stages[s].name);
    const json_t *list = json_object_get(r->json, "edges");
    if (!json_is_array(list) || json_array_size(list) != (size_t)want.n_edges)
        return cs_fail(err, CS_CORRUPT, "plan: edges must have %d entries", want.n_edges);
    plan->n_edges = want.n_edges;
    plan->edges = CS_NEW_ARRAY(r->arena, struct cs_edge, want.n_edges);
    for (int32_t e = 0; e < want.n_edges; e++) {
        struct cs_edge *edge = &plan->edges[e];
        const struct cs_edge *w = &want.edges[e];
        char where[32];
        snprintf(where, sizeof where, "edges[%d]", e);
        CS_TRY(read_fields(json_array_get(list, (size_t)e), edge, edge_fields,
                           CS_ARRAY_LEN(edge_fields), where, err));
        if (edge->id != w->id || edge->from != w->from || edge->to != w->to ||
            edge->width != w->width || edge->has_grad != w->has_grad ||
            edge->max_rows != w->max_rows)
            return cs_fail(err, CS_CORRUPT,
                           "plan: %s must be %s -> %s, width %d, %s gradient, %lld rows", where,
                           want.stages[w->from].name, want.stages[w->to].name, w->width,
                           w->has_grad ? "with" : "without", (long long)w->max_rows);
        *edge = *w; /* what is not encoded, too */
        CS_TRY(read_striped(r, json_array_get(list, (size_t)e), e, where, err));
    }
    if (json_is_true(json_object_get(r->json, "is_tied_across")) != want.is_tied_across ||
        plan->embed_stage != want.embed_stage || plan->head_stage != want.head_stage)
        return cs_fail(err, CS_CORRUPT,
                       "plan: embed_stage, head_stage, is_tied_across must be %d, %d, %s",
                       want.embed_stage, want.head_stage, want.is_tied_across ? "true" : "false");
    plan->is_tied_across = want.is_tied_across;
    plan->tied_bytes = want.tied_bytes;
    return CS_OK;
}

static enum cs_status read_predictions(struct reader *r, struct cs_err *err)
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
        return cs_fail(err, CS_CORRUPT, "plan: there are keys that " SCHEMA " does not know");
    return CS_OK;
}

static enum cs_status read_exchange(struct reader *r, struct cs_err *err)
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
    struct reader r = {json, graph, arena, CS_NEW(arena, struct cs_plan)};
    const char *schema = json_string_value(json_object_get(json, "schema"));
    if (!schema || strcmp(schema, SCHEMA) != 0)
        return cs_fail(err, CS_CORRUPT, "plan: schema is \"%s\", not " SCHEMA,
                       schema ? schema : "(missing)");
    CS_TRY(check_keys(json, err));
    const char *schedule = json_string_value(json_object_get(json, "schedule"));
    CS_TRY(cs_plan_check_schedule(schedule ? schedule : "", err));
    r.plan->schedule = cs_arena_strdup(arena, schedule);
    r.plan->keeps_bf16 = graph->keeps_bf16;
    CS_TRY(read_count(&r, "slots", 1, INT32_MAX, &r.plan->slots, err));
    if (json_object_get(json, "dp") != NULL)
        CS_TRY(read_count(&r, "dp", 2, MAX_REPLICAS, &r.plan->dp, err));
    if (json_object_get(json, "context_rows") != NULL)
        CS_TRY(read_count(&r, "context_rows", 1, INT32_MAX, &r.plan->context_rows, err));
    CS_TRY(read_exchange(&r, err));
    if (r.plan->slots % cs_plan_llm_replicas(r.plan) != 0)
        return cs_fail(err, CS_CORRUPT, "plan: slots is %d, no multiple of dp = %d", r.plan->slots,
                       r.plan->dp);
    CS_TRY(read_stages(&r, err));
    CS_TRY(read_budget(&r, err));
    CS_TRY(read_count(&r, "embed_stage", 0, r.plan->n_stages - 1, &r.plan->embed_stage, err));
    CS_TRY(read_count(&r, "head_stage", 0, r.plan->n_stages - 1, &r.plan->head_stage, err));
    CS_TRY(check_derived(&r, err));
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
