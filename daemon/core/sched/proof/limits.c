/* Compares what a program asks of its ranks with what they have. The order of a rank's
 * compute stream is fixed, so what is live at an action does not depend on times. */
#include "core/sched/proof/limits.h"

#include "core/base/units.h"
#include "core/sched/proof/kept.h"

struct walk {
    const struct cs_program *program;
    const struct cs_stage_traits *traits;
    const struct cs_program_limits *limits;
    int64_t *weights, *state; /* (n_ranks) bytes */
    int32_t *live;            /* (n_stages) */
    int32_t *last_seen;       /* (2 * n_ranks) rank + 1 that has used the channel last */
    struct cs_kept_of kept;
    struct cs_arena *arena;
    struct cs_err *err;
};

static enum cs_status refuse_memory(const struct walk *w, int32_t rank, const struct cs_action *a,
                                    int64_t activations)
{
    char need[CS_UNITS_CAP], cap[CS_UNITS_CAP], parts[3][CS_UNITS_CAP];
    const struct cs_plan *plan = w->program->plan;
    struct cs_buf what = {0}, slots = {0};
    cs_action_text(w->program, rank, a->id, &what);
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == rank && w->live[s] > 0)
            cs_buf_addf(&slots, "%s%d of %s", slots.len ? ", " : "", w->live[s],
                        plan->stages[s].name);
    cs_bytes_print(need, sizeof need, (uint64_t)(w->weights[rank] + w->state[rank] + activations));
    cs_bytes_print(cap, sizeof cap, (uint64_t)w->limits->mem_bytes);
    cs_bytes_print(parts[0], sizeof parts[0], (uint64_t)w->weights[rank]);
    cs_bytes_print(parts[1], sizeof parts[1], (uint64_t)w->state[rank]);
    cs_bytes_print(parts[2], sizeof parts[2], (uint64_t)activations);
    enum cs_status status =
        cs_fail(w->err, CS_PLAN,
                "program refused: %s needs %s, the rank has %s: %s weights, %s gradients and "
                "optimizer, %s activations of live slots (%s); use more stages, shorter slots or "
                "a schedule with fewer live slots",
                cs_buf_str(&what), need, cap, parts[0], parts[1], parts[2], cs_buf_str(&slots));
    cs_buf_free(&what);
    cs_buf_free(&slots);
    return status;
}

static enum cs_status check_memory(struct walk *w, int32_t rank)
{
    const struct cs_rank_program *rp = &w->program->rank[rank];
    const uint32_t n = rp->n_fifo[CS_STREAM_COMPUTE];
    struct cs_kept_change *change = CS_NEW_ARRAY(w->arena, struct cs_kept_change, (size_t)n + 1);
    int64_t activations = 0;
    cs_program_kept_bytes(w->program, &w->kept, rank, change, w->arena);
    for (uint32_t i = 0; i < n; i++) {
        const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMPUTE][i]];
        if (a->stage < 0)
            continue;
        w->live[a->stage] += cs_live_change(&w->traits[a->stage], a);
        activations += change[i].taken;
        if (w->weights[rank] + w->state[rank] + activations > w->limits->mem_bytes)
            return refuse_memory(w, rank, a, activations);
        activations -= change[i].released;
    }
    return CS_OK;
}

/* A channel is a peer and a direction. Receives have no dependencies, so one of every channel may
 * wait. */
static enum cs_status check_channels(struct walk *w, int32_t rank)
{
    const struct cs_rank_program *rp = &w->program->rank[rank];
    int32_t n = 0;
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++) {
        const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMM][i]];
        if (a->peer < 0 || a->comm >= 0)
            continue;
        int32_t *seen = &w->last_seen[2 * a->peer + (a->op == CS_OP_RECV)];
        if (*seen == rank + 1)
            continue;
        *seen = rank + 1;
        if (++n <= w->limits->channels)
            continue;
        struct cs_buf what = {0};
        cs_action_text(w->program, rank, a->id, &what);
        enum cs_status status =
            cs_fail(w->err, CS_PLAN,
                    "program refused: %s may wait while messages of %d other peers and directions "
                    "do: at most %d at once, or they hold the processors that the work needs; let "
                    "fewer ranks feed one",
                    cs_buf_str(&what), n - 1, w->limits->channels);
        cs_buf_free(&what);
        return status;
    }
    return CS_OK;
}

static enum cs_status check(struct walk *w, struct cs_arena *arena)
{
    const struct cs_plan *plan = w->program->plan;
    w->arena = arena;
    w->kept = cs_program_kept_of(w->program, NULL, arena);
    w->traits = w->kept.traits;
    w->weights = CS_NEW_ARRAY(arena, int64_t, plan->n_ranks + 1);
    w->state = CS_NEW_ARRAY(arena, int64_t, plan->n_ranks + 1);
    w->live = CS_NEW_ARRAY(arena, int32_t, plan->n_stages + 1);
    w->last_seen = CS_NEW_ARRAY(arena, int32_t, 2 * plan->n_ranks + 1);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        w->weights[plan->stages[s].rank] += plan->stages[s].weight_bytes;
        w->state[plan->stages[s].rank] += plan->stages[s].state_bytes;
    }
    for (int32_t r = 0; r < w->program->n_ranks; r++) {
        if (w->limits->mem_bytes > 0)
            CS_TRY(check_memory(w, r));
        if (w->limits->channels > 0)
            CS_TRY(check_channels(w, r));
    }
    return CS_OK;
}

enum cs_status cs_program_check_limits(const struct cs_program *program,
                                       const struct cs_program_limits *limits, struct cs_err *err)
{
    struct walk walk = {.program = program, .limits = limits, .err = err};
    struct cs_arena *arena = cs_arena_new(0);
    enum cs_status status = check(&walk, arena);
    cs_arena_free(arena);
    return status;
}
