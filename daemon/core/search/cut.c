/* The cut of every branch of a plan that is tried (a job's plan is cut by core/plan/make/split.c, from
 * costs that may be fractional): contiguous min-max dynamic programming, every stage under the memory cap
 * with the slots that are in flight at its place. The number of stages is given, so the distance of
 * a stage from the end is known; the cap forbids transitions. O(stages * layers^2) at most: a stage
 * that costs more than the best cut so far is not extended. Source: Cornstarch, stage partition and
 * memory-aware scheduling. */
#include <string.h>

#include "core/base/units.h"
#include "core/sched/orders/interleaved.h"
#include "core/search/trial.h"

struct cutter {
    const struct cs_trial *t;
    int32_t b, n, stages;
    int64_t cap;                   /* 0: none */
    int64_t *sum;                  /* (n + 1) prefix sums of costs */
    int64_t *state, *saved, *held; /* (n + 1) prefix sums of bytes */
    int64_t *edge;                 /* (n) of what leaves each layer for the next */
    int64_t *alive, *halves;       /* (stages) slots of each; between halves of a backward */
    int64_t shared;                /* of a stage of all layers: less than their sum */
    int64_t *best;                 /* (stages + 1, n + 1), -1: impossible */
    int32_t *from;
    int64_t fewest; /* bytes of the smallest stage that does not fit */
};

static int32_t depth_of(const struct cs_trial *t, int32_t b, int32_t s)
{
    return cs_trial_stages(t, b) - 1 - s + (b == t->llm ? 0 : t->c->pp[t->llm]);
}

static int32_t longest_chain(const struct cs_trial *t)
{
    int32_t most = 0;
    for (int32_t e = 0; e < t->llm; e++)
        most = cs_trial_stages(t, e) > most ? cs_trial_stages(t, e) : most;
    return most + t->c->pp[t->llm];
}

/* Slots whose activations a stage keeps, by schedule: 1F1B keeps one more than there are stages
 * behind it; zb-h1 delays weight gradients, so every stage keeps as many as the first. */
static int64_t in_flight(const struct cs_trial *t, int32_t b, int32_t s)
{
    const struct cs_schedule_info *row = cs_plan_schedule((int)t->found->schedule);
    int64_t depth = depth_of(t, b, s), slots = t->slots, p = t->c->pp[t->llm];
    int64_t path = longest_chain(t), alive = depth + 1;
    if (row->layout == CS_LAYOUT_CHUNKS && b == t->llm) /* of one chunk: every v-th */
        alive = (2 * (p - 1 - s % p) + (t->chunks - 1) * p + t->chunks) / t->chunks;
    else if (row->layout == CS_LAYOUT_CHUNKS)
        alive = cs_interleaved_live((int32_t)p, t->chunks, t->slots, cs_trial_stages(t, b) - s);
    else
        alive = cs_schedule_live_slots(row, depth, path, slots);
    return alive < slots ? alive : slots;
}

/* ... of these between the halves of a split backward */
static int64_t between_halves(const struct cs_trial *t, int32_t b, int32_t s)
{
    return cs_schedule_held_slots(cs_plan_schedule((int)t->found->schedule), depth_of(t, b, s),
                                  longest_chain(t), t->slots);
}

static int64_t cost_of(const struct cs_trial *t, const struct cs_search_layer *l)
{
    enum cs_search_cut cut = cs_planner_rules[t->c->planner].cut;
    return cut == CS_CUT_LAYERS ? 1 : cs_search_layer_ns(l, cut);
}

/* before any cut: one buffer for what comes and one for what goes, which every stage has at least */
static int64_t least_boundary(const struct cutter *x, int32_t s, int32_t first, int32_t end)
{
    const bool is_last = s == x->stages - 1;
    return (s > 0 ? x->edge[first - 1] : 0) + (!is_last ? x->edge[end - 1]
                                               : x->b != x->t->llm
                                                   ? cs_trial_edge_bytes(x->t, x->b, end - 1, true)
                                                   : 0);
}

/* Cuts of as many stages have about the same buffers. */
static int64_t boundary_of(const struct cutter *x, int32_t s, int32_t first, int32_t end)
{
    const int32_t pp = x->t->c->pp[x->b];
    return x->t->boundary == NULL
               ? least_boundary(x, s, first, end)
               : x->t->boundary[x->t->first_rank[x->b] + s % pp] / (x->stages / pp);
}

static bool fits(struct cutter *x, int32_t s, int32_t first, int32_t end,
                 const struct cs_memory_work *work)
{
    if (x->cap <= 0)
        return true;
    int64_t bytes = x->state[end] - x->state[first] + (end - first == x->n ? x->shared : 0) +
                    boundary_of(x, s, first, end) + cs_memory_workspace(work) +
                    x->alive[s] * (x->saved[end] - x->saved[first]) +
                    x->halves[s] * (x->held[end] - x->held[first]);
    if (bytes > x->cap && (x->fewest == 0 || bytes < x->fewest))
        x->fewest = bytes;
    return bytes <= x->cap;
}

static void fill_cell(struct cutter *x, int32_t k, int32_t j)
{
    int64_t width = x->n + 1, *best = &x->best[k * width + j];
    struct cs_memory_work work = {0};
    const struct cs_memory_load load = cs_trial_load(x->t, x->b, 0);
    *best = -1;
    for (int32_t i = j - 1; i >= k - 1; i--) {
        const struct cs_search_layer *l = &x->t->layer[x->b][i];
        int64_t before = x->best[(k - 1) * width + i], stage = x->sum[j] - x->sum[i];
        cs_memory_add_work(l, load.first + i, &load, &work);
        if (*best >= 0 && stage > *best)
            break;
        int64_t value = before > stage ? before : stage;
        if (before < 0 || (*best >= 0 && value > *best) || !fits(x, k - 1, i, j, &work))
            continue;
        *best = value;
        x->from[k * width + j] = i;
    }
}

static void prepare(struct cutter *x)
{
    const struct cs_trial *t = x->t;
    x->sum = CS_NEW_ARRAY(t->scratch, int64_t, x->n + 1);
    x->state = CS_NEW_ARRAY(t->scratch, int64_t, x->n + 1);
    x->saved = CS_NEW_ARRAY(t->scratch, int64_t, x->n + 1);
    x->held = CS_NEW_ARRAY(t->scratch, int64_t, x->n + 1);
    x->edge = CS_NEW_ARRAY(t->scratch, int64_t, x->n + 1);
    x->alive = CS_NEW_ARRAY(t->scratch, int64_t, x->stages + 1);
    x->halves = CS_NEW_ARRAY(t->scratch, int64_t, x->stages + 1);
    for (int32_t i = 0; i < x->n; i++) {
        const struct cs_search_layer *l = &t->layer[x->b][i];
        struct cs_memory held = {0};
        const struct cs_memory_load load = cs_trial_load(t, x->b, i);
        cs_memory_add(l, 1, &load, &held);
        x->sum[i + 1] = x->sum[i] + cost_of(t, l);
        x->state[i + 1] = x->state[i] + held.weights + held.grads + held.optimizer;
        x->saved[i + 1] = x->saved[i] + l->saved_bytes;
        x->held[i + 1] = x->held[i] + l->held_bytes;
        x->edge[i] = i + 1 < x->n ? cs_trial_edge_bytes(t, x->b, i, false) : 0;
    }
    for (int32_t s = 0; s < x->stages; s++) {
        x->alive[s] = in_flight(t, x->b, s);
        x->halves[s] = between_halves(t, x->b, s);
    }
    const struct cs_memory_load all = cs_trial_load(t, x->b, 0);
    struct cs_memory shared = {0};
    cs_memory_share(&t->option[x->b]->shared, &all, &shared);
    x->shared = cs_memory_total(&shared);
    int64_t cells = ((int64_t)x->stages + 1) * (x->n + 1);
    x->best = CS_NEW_ARRAY(t->scratch, int64_t, cells);
    x->from = CS_NEW_ARRAY(t->scratch, int32_t, cells);
}

/* what encoders on the LLM's ranks take of them: colocated ones with two groups of slots ahead, or
 * all of them; replicated ones with the slots of the first stage */
static int64_t taken(const struct cs_trial *t)
{
    struct cs_memory memory = {0};
    bool is_all = cs_plan_schedule((int)t->found->schedule)->encodes_all;
    int64_t p = t->c->pp[t->llm], groups = (t->slots + p - 1) / p;
    int64_t shared = is_all || groups < 3 ? groups : 3, repeated = p < t->slots ? p : t->slots;
    cs_trial_add_encoders(t, &memory);
    for (int32_t e = 0; e < t->llm; e++)
        for (int32_t i = 0; t->c->place[e] != CS_PLACE_OWN && i < t->problem->branch[e].n_layers;
             i++)
            memory.activations += t->layer[e][i].saved_bytes *
                                  (t->c->place[e] == CS_PLACE_COLOCATED ? shared : repeated);
    return cs_memory_total(&memory) - memory.workspace;
}

static enum cs_status refuse(struct cs_trial *t, const struct cutter *x, struct cs_err *err)
{
    char need[CS_UNITS_CAP], have[CS_UNITS_CAP];
    cs_bytes_print(need, sizeof need, (uint64_t)x->fewest);
    cs_bytes_print(have, sizeof have, (uint64_t)x->cap);
    t->tight_branch = x->b;
    t->nearest = x->fewest + (t->problem->mem_bytes - x->cap);
    return cs_fail(err, CS_PLAN,
                   "does not fit: no cut of %s into %d stage%s leaves every stage under %s; the "
                   "smallest stage that does not fit needs %s",
                   t->problem->branch[x->b].name, x->stages, CS_PLURAL(x->stages), have, need);
}

static enum cs_status cut_branch(struct cs_trial *t, int32_t b, struct cs_arena *arena,
                                 struct cs_err *err)
{
    struct cutter x = {.t = t,
                       .b = b,
                       .n = t->problem->branch[b].n_layers,
                       .stages = cs_trial_stages(t, b),
                       .cap = t->problem->mem_bytes};
    if (x.cap > 0) {
        x.cap -= cs_trial_windows(t, b);
        x.cap = x.cap < 1 ? 1 : x.cap;
    }
    if (x.cap > 0 && b == t->llm) {
        x.cap -= taken(t);
        x.cap = x.cap < 1 ? 1 : x.cap / t->chunks;
    }
    if (x.stages > x.n)
        return cs_fail(err, CS_PLAN, "%d stage%s for %d layer%s of %s", x.stages,
                       CS_PLURAL(x.stages), x.n, CS_PLURAL(x.n), t->problem->branch[b].name);
    prepare(&x);
    int64_t width = x.n + 1;
    for (int32_t j = 0; j <= x.n; j++)
        x.best[j] = j == 0 ? 0 : -1;
    for (int32_t k = 1; k <= x.stages; k++)
        for (int32_t j = 0; j <= x.n; j++)
            fill_cell(&x, k, j);
    if (x.best[x.stages * width + x.n] < 0)
        return refuse(t, &x, err);
    t->found->sizes[b] = CS_NEW_ARRAY(arena, int, x.stages);
    for (int32_t k = x.stages, end = x.n; k >= 1; k--) {
        int32_t first = x.from[k * width + end];
        t->found->sizes[b][k - 1] = end - first;
        end = first;
    }
    return CS_OK;
}

enum cs_status cs_trial_cut(struct cs_trial *t, struct cs_arena *arena, struct cs_err *err)
{
    for (int32_t b = 0; b <= t->llm; b++)
        if (cs_trial_stages(t, b) > 0)
            CS_TRY(cut_branch(t, b, arena, err));
    return CS_OK;
}
