/* Searches the order of a step's slots by running the plan's program on the simulator. */
#include "core/spread/slot_order.h"

#include <math.h>
#include <stdlib.h>

#include "core/data/slot.h"
#include "core/sched/lower/lower.h"
#include "core/sched/sim/sim.h"
#include "core/sched/traits.h"
#include "core/spread/assign_order.h"

enum { FINE = 1024 /* parts of a nanosecond: small shares of short stages must not be equal */ };

struct cs_slot_order {
    const struct cs_plan *plan;
    const struct cs_graph *graph; /* NULL: a plan made from numbers */
    int32_t n_branches;
    struct cs_arena *arena;                            /* of the programs */
    struct cs_program *program[CS_STEP_MAX_SLOTS + 1]; /* by number of slots, made when needed */
};

/* One search. */
struct search {
    const struct cs_slot_order *s;
    const struct cs_program *program;
    const double *share;  /* (n_branches, n_slots) */
    const int32_t *order; /* slot of every place, of the order under trial */
    enum cs_status status;
    struct cs_err *err;
};

struct cs_slot_order *cs_slot_order_new(const struct cs_plan *plan, const struct cs_graph *graph)
{
    struct cs_slot_order *s = calloc(1, sizeof *s);

    CS_ASSERT(s != NULL);
    s->plan = plan;
    s->graph = graph;
    for (int32_t i = 0; i < plan->n_stages; i++)
        if (plan->stages[i].branch >= s->n_branches)
            s->n_branches = plan->stages[i].branch + 1;
    s->arena = cs_arena_new(0);
    return s;
}

void cs_slot_order_free(struct cs_slot_order *s)
{
    if (s == NULL)
        return;
    cs_arena_free(s->arena);
    free(s);
}

/* Compute of a stage, by the work of the slot that sits at the action's place. */
static int64_t action_ns(void *user, const struct cs_program *program, int rank,
                         const struct cs_action *action)
{
    const struct search *q = user;
    int64_t ns = 0;

    (void)rank;
    if (action->stage < 0 || action->slot < 0)
        return 0;
    const struct cs_stage *stage = &q->s->plan->stages[action->stage];
    ns = cs_work_ns(stage, (enum cs_op)action->op);
    const double share = q->share[stage->branch * program->n_slots + q->order[action->slot]];
    return (int64_t)((double)ns * share * FINE + 0.5);
}

static double makespan(void *user, const int32_t *order, int32_t n)
{
    struct search *q = user;
    const struct cs_sim_options options = {.cost = action_ns, .user = q};
    struct cs_arena *arena = NULL;
    struct cs_sim_result result = {0};

    (void)n;
    if (q->status != CS_OK)
        return INFINITY;
    arena = cs_arena_new(0);
    q->order = order;
    q->status = cs_simulate(q->program, &options, arena, &result, q->err);
    cs_arena_free(arena);
    return q->status == CS_OK ? (double)result.makespan_ns / FINE : INFINITY;
}

static int64_t count_actions(const struct cs_program *program)
{
    int64_t n = 0;

    for (int r = 0; r < program->n_ranks; r++)
        n += program->rank[r].n_actions;
    return n;
}

enum cs_status cs_slot_order_search(struct cs_slot_order *s, const double *share, int n_slots,
                                    uint64_t seed, int32_t *order, double *before, double *after,
                                    struct cs_err *err)
{
    struct search q = {.s = s, .share = share, .err = err};
    struct cs_program **program = NULL;

    CS_ASSERT(n_slots >= 1 && n_slots <= CS_STEP_MAX_SLOTS);
    program = &s->program[n_slots];
    if (*program == NULL)
        CS_TRY(cs_program_make_with(s->plan, s->graph,
                                    &(struct cs_program_options){.n_slots = n_slots}, s->arena,
                                    program, err));
    q.program = *program;
    for (int i = 0; i < n_slots; i++)
        order[i] = i;
    const int64_t rounds = CS_SLOT_ORDER_ACTIONS / count_actions(q.program);
    const double kept = makespan(&q, order, n_slots);
    double found = kept;
    if (rounds >= 1 && n_slots > 1) {
        struct cs_arena *arena = cs_arena_new(0);
        double *weight = CS_NEW_ARRAY(arena, double, n_slots);
        for (int32_t b = 0; b < s->n_branches; b++)
            for (int i = 0; i < n_slots; i++)
                weight[i] += share[b * n_slots + i];
        const struct cs_order_search search = {.n = n_slots,
                                               .weight = weight,
                                               .rounds = rounds < CS_ORDER_ROUNDS ? (int32_t)rounds
                                                                                  : CS_ORDER_ROUNDS,
                                               .seed = seed,
                                               .cost = makespan,
                                               .user = &q};
        found = cs_order_search(&search, arena, order);
        cs_arena_free(arena);
    }
    if (before != NULL)
        *before = kept;
    if (after != NULL)
        *after = found;
    return q.status;
}
