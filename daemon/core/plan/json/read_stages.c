/* Reads the stages of a plan and what ranks they are on, and checks that they are all of the model. */
#include <stdio.h>
#include <string.h>

#include "core/plan/derive.h"
#include "core/plan/json/reader.h"
#include "core/plan/layout.h"

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

static enum cs_status read_stage(struct cs_plan_reader *r, int32_t id, struct cs_err *err)
{
    const json_t *json = json_array_get(json_object_get(r->json, "stages"), (size_t)id);
    struct cs_stage *stage = &r->plan->stages[id];
    char where[32];
    snprintf(where, sizeof where, "stages[%d]", id);
    CS_TRY(cs_plan_read_fields(json, stage, CS_PLAN_STAGE, where, err));
    if (json_object_get(json, cs_plan_first_key(CS_PLAN_MEASURED)) != NULL)
        CS_TRY(cs_plan_read_fields(json, stage, CS_PLAN_MEASURED, where, err));
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
    CS_TRY(read_shared(json, where, "tp", 2, CS_PLAN_MOST_SHARED, &stage->shape.tp, err));
    CS_TRY(read_shared(json, where, "cp", 2, CS_PLAN_MOST_SHARED, &stage->shape.cp, err));
    CS_TRY(read_shared(json, where, "ep", 2, CS_PLAN_MOST_SHARED, &stage->shape.ep, err));
    if (r->graph->branches[stage->branch].encoder >= 0)
        CS_TRY(read_shared(json, where, "dp", 1, CS_PLAN_MOST_REPLICAS, &stage->shape.dp, err));
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
static enum cs_status check_cover(const struct cs_plan_reader *r, struct cs_err *err)
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
static enum cs_status check_copies(const struct cs_plan_reader *r, struct cs_err *err)
{
    const struct cs_plan *plan = r->plan;
    int32_t llm = 0;
    while (llm < plan->n_stages && plan->stages[llm].branch != r->graph->llm)
        llm++;
    for (int32_t s = 0; s < llm; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        int32_t copies = stage->copies > 1 ? stage->copies : 1, at = llm + stage->index;
        const bool is_shared = plan->share && plan->share[s].n > 0;
        const bool is_first_shared = plan->share && plan->share[s - stage->index].n > 0;
        if (copies > 1 && is_shared != is_first_shared)
            return cs_fail(err, CS_CORRUPT,
                           "plan: stages[%d] (%s): copies of an encoder run all slots, or take "
                           "turns, each with its share",
                           s, stage->name);
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

static enum cs_status read_recompute(struct cs_plan_reader *r, struct cs_err *err)
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

static enum cs_status read_share(struct cs_plan_reader *r, struct cs_err *err)
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
static enum cs_status check_ranks(struct cs_plan_reader *r, struct cs_err *err)
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

enum cs_status cs_plan_read_stages(struct cs_plan_reader *r, struct cs_err *err)
{
    const json_t *list = json_object_get(r->json, "stages");
    size_t n = json_array_size(list);
    size_t most = (size_t)r->graph->n_layers * (size_t)r->graph->n_branches; /* with copies */
    if (!json_is_array(list) || n < 1 || n > most)
        return cs_fail(err, CS_CORRUPT, "plan: stages must be an array of 1 to %zu", most);
    CS_TRY(cs_plan_read_count(r->json, "n_ranks", 1, CS_PLAN_MOST_REPLICAS * (int32_t)n,
                              &r->plan->n_ranks, err));
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
