/* Repeats a program for its replicas, those alike once. */
#include "core/sched/sim/repeat.h"
#include "core/base/units.h"

#include <string.h>

static void find_classes(int32_t n_copies, cs_repeat_alike alike, void *user,
                         struct cs_arena *arena, struct cs_repeat *out)
{
    out->n_copies = n_copies;
    out->class_of = CS_NEW_ARRAY(arena, int32_t, (size_t)n_copies + 1);
    out->first = CS_NEW_ARRAY(arena, int32_t, (size_t)n_copies + 1);
    for (int32_t c = 0; c < n_copies; c++) {
        int32_t k = alike ? 0 : out->n_classes;
        while (k < out->n_classes && !alike(user, out->first[k], c))
            k++;
        out->class_of[c] = k;
        if (k == out->n_classes)
            out->first[out->n_classes++] = c;
    }
}

/* plan->first of all copies */
static const int32_t *repeat_numbers(const struct cs_plan *plan, int32_t n, struct cs_arena *arena)
{
    const int32_t ranks = cs_plan_replica_ranks(plan);
    if (plan->first == NULL)
        return NULL;
    int32_t *first = CS_NEW_ARRAY(arena, int32_t, (size_t)n * (size_t)plan->n_ranks + 1);
    for (int32_t r = 0; r <= n * plan->n_ranks; r++)
        first[r] = r / plan->n_ranks * ranks + plan->first[r % plan->n_ranks];
    return first;
}

static struct cs_plan *repeat_plan(const struct cs_plan *plan, int32_t n, struct cs_arena *arena)
{
    struct cs_plan *out = CS_NEW(arena, struct cs_plan);
    *out = *plan;
    out->n_stages *= n;
    out->n_edges *= n;
    out->n_ranks *= n;
    out->first = repeat_numbers(plan, n, arena);
    out->stages = CS_NEW_ARRAY(arena, struct cs_stage, (size_t)out->n_stages + 1);
    out->edges = CS_NEW_ARRAY(arena, struct cs_edge, (size_t)out->n_edges + 1);
    for (int32_t s = 0; s < out->n_stages; s++) {
        int32_t copy = s / plan->n_stages;
        out->stages[s] = plan->stages[s % plan->n_stages];
        out->stages[s].id = s;
        out->stages[s].rank = cs_plan_repeated(plan, copy, out->stages[s].rank);
    }
    for (int32_t e = 0; e < out->n_edges; e++) {
        int32_t copy = e / plan->n_edges;
        out->edges[e] = plan->edges[e % plan->n_edges];
        out->edges[e].id = e;
        out->edges[e].from += copy * plan->n_stages;
        out->edges[e].to += copy * plan->n_stages;
    }
    return out;
}

static void move(struct cs_action *a, const struct cs_plan *plan, int32_t copy)
{
    if (a->stage >= 0)
        a->stage = (int16_t)(a->stage + copy * plan->n_stages);
    if (a->edge >= 0)
        a->edge = (int16_t)(a->edge + copy * plan->n_edges);
    if (a->peer >= 0)
        a->peer = (int16_t)cs_plan_repeated(plan, copy, a->peer);
}

static void repeat_rank(const struct cs_program *program, int32_t rank, int32_t copy,
                        struct cs_arena *arena, struct cs_rank_program *out)
{
    *out = program->rank[rank];
    out->rank = cs_plan_repeated(program->plan, copy, rank);
    out->actions = CS_NEW_ARRAY(arena, struct cs_action, (size_t)out->n_actions + 1);
    if (out->n_actions > 0)
        memcpy(out->actions, program->rank[rank].actions, out->n_actions * sizeof *out->actions);
    for (uint32_t i = 0; i < out->n_actions && copy > 0; i++)
        move(&out->actions[i], program->plan, copy);
}

static const struct cs_program *repeat_program(const struct cs_program *program, int32_t n,
                                               struct cs_arena *arena)
{
    struct cs_program *out = CS_NEW(arena, struct cs_program);
    *out = *program;
    out->plan = repeat_plan(program->plan, n, arena);
    out->n_ranks = n * program->n_ranks;
    out->n_copies = n;
    out->rank = CS_NEW_ARRAY(arena, struct cs_rank_program, (size_t)out->n_ranks + 1);
    for (int32_t r = 0; r < out->n_ranks; r++)
        repeat_rank(program, r % program->n_ranks, r / program->n_ranks, arena, &out->rank[r]);
    if (program->share) {
        struct cs_slot_share *share =
            CS_NEW_ARRAY(arena, struct cs_slot_share, (size_t)out->plan->n_stages + 1);
        for (int32_t s = 0; s < out->plan->n_stages; s++)
            share[s] = program->share[s % program->plan->n_stages];
        out->share = share;
    }
    return out;
}

enum cs_status cs_repeat_make(const struct cs_program *program, int32_t n_copies,
                              cs_repeat_alike alike, void *user, struct cs_arena *arena,
                              struct cs_repeat *out, struct cs_err *err)
{
    const struct cs_plan *plan = program->plan;
    *out = (struct cs_repeat){.original = program, .program = program};
    if (n_copies < 1)
        return cs_fail(err, CS_PLAN, "%d %s of a program: at least one is needed", n_copies,
                       CS_NOUN(n_copies, "copy", "copies"));
    find_classes(n_copies, alike, user, arena, out);
    int64_t n = out->n_classes, most = INT16_MAX;
    if (n * program->n_ranks > most || n * plan->n_stages > most || n * plan->n_edges > most)
        return cs_fail(err, CS_PLAN,
                       "%d distinct copies of %d ranks and %d stages: at most %d of each can be "
                       "simulated",
                       out->n_classes, program->n_ranks, plan->n_stages, INT16_MAX);
    if (out->n_classes > 1)
        out->program = repeat_program(program, out->n_classes, arena);
    return CS_OK;
}
