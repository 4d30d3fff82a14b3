/* Better cuts by simulation: the smallest bottleneck is not always the shortest step. A plan with
 * few cuts has all of them tried; else layers move between neighbours, at the slowest stage first,
 * while that is faster, a bounded number of times. */
#include <string.h>

#include "core/base/system/stop.h"
#include "core/search/candidate.h"

enum { ALL_CUTS = 1024, TRIALS = 48 };

struct refiner {
    const struct cs_search_problem *problem;
    const struct cs_search_options *options;
    struct cs_known_buffers *known;
    struct cs_found *best;
    struct cs_arena *arena;
    int n_stages[CS_SEARCH_MAX_BRANCHES];
    int *sizes[CS_SEARCH_MAX_BRANCHES]; /* to try */
    int n_trials;
};

static bool is_faster(const struct cs_search_plan *a, const struct cs_search_plan *b)
{
    return a->step_ns != b->step_ns ? a->step_ns < b->step_ns : a->peak_bytes < b->peak_bytes;
}

/* the cut in r->sizes; keeps it when it is faster */
static bool try_cut(struct refiner *r)
{
    struct cs_found next = *r->best;
    struct cs_err err;
    int64_t nearest = 0;
    r->n_trials++;
    next.is_refined = true;
    for (int32_t b = 0; b < r->problem->n_branches; b++) {
        if (r->n_stages[b] == 0)
            continue;
        next.sizes[b] = CS_NEW_ARRAY(r->arena, int, r->n_stages[b]);
        memcpy(next.sizes[b], r->sizes[b], (size_t)r->n_stages[b] * sizeof(int));
    }
    if (cs_search_evaluate(r->problem, r->options, r->known, &next, r->arena, &nearest, &err) !=
            CS_OK ||
        !is_faster(next.plan, r->best->plan))
        return false;
    *r->best = next;
    return true;
}

static double count_cuts(const struct refiner *r)
{
    double all = 1;
    for (int32_t b = 0; b < r->problem->n_branches; b++) {
        int n = r->problem->branch[b].n_layers - 1;
        for (int k = 1; k < r->n_stages[b]; k++)
            all = all * (n - k + 1) / k;
    }
    return all;
}

static void try_all(struct refiner *r, int32_t b, int stage, int left)
{
    if (cs_stop_is_asked())
        return;
    if (b == r->problem->n_branches) {
        (void)try_cut(r);
        return;
    }
    int next = b + 1 < r->problem->n_branches ? r->problem->branch[b + 1].n_layers : 0;
    if (r->n_stages[b] == 0) {
        try_all(r, b + 1, 0, next);
        return;
    }
    if (stage == r->n_stages[b] - 1) {
        r->sizes[b][stage] = left;
        try_all(r, b + 1, 0, next);
        return;
    }
    for (int size = 1; size <= left - (r->n_stages[b] - 1 - stage); size++) {
        r->sizes[b][stage] = size;
        try_all(r, b, stage + 1, left - size);
    }
}

static bool move(struct refiner *r, int32_t b, int from, int to)
{
    if (from < 0 || to < 0 || from >= r->n_stages[b] || to >= r->n_stages[b] ||
        r->best->sizes[b][from] < 2 || r->n_trials >= TRIALS)
        return false;
    for (int32_t k = 0; k < r->problem->n_branches; k++)
        if (r->n_stages[k] > 0)
            memcpy(r->sizes[k], r->best->sizes[k], (size_t)r->n_stages[k] * sizeof(int));
    r->sizes[b][from]--;
    r->sizes[b][to]++;
    return try_cut(r);
}

static bool move_at_slowest(struct refiner *r)
{
    const struct cs_search_plan *plan = r->best->plan;
    int64_t most = -1;
    int32_t worst = 0;
    for (int32_t i = 0; i < plan->n_stages; i++) {
        const struct cs_search_stage *s = &plan->stage[i];
        int64_t ns = s->fwd_ns + s->bwd_input_ns + s->bwd_weight_ns;
        if (ns > most) {
            most = ns;
            worst = i;
        }
    }
    int32_t b = plan->stage[worst].branch, pp = plan->layout.branch[b].pp;
    for (int s = plan->stage[worst].index; s < r->n_stages[b]; s += pp)
        if (move(r, b, s, s - 1) || move(r, b, s, s + 1))
            return true;
    return false;
}

static bool move_anywhere(struct refiner *r)
{
    for (int32_t b = r->problem->n_branches - 1; b >= 0; b--)
        for (int s = 0; s + 1 < r->n_stages[b]; s++)
            if (move(r, b, s, s + 1) || move(r, b, s + 1, s))
                return true;
    return false;
}

void cs_search_refine(const struct cs_search_problem *problem,
                      const struct cs_search_options *options, struct cs_known_buffers *known,
                      struct cs_found *found, struct cs_arena *arena)
{
    struct refiner r = {
        .problem = problem, .options = options, .known = known, .best = found, .arena = arena};
    const struct cs_candidate *c = &found->candidate;
    for (int32_t b = 0; b < problem->n_branches; b++) {
        if (c->place[b] == CS_PLACE_OWN)
            r.n_stages[b] = c->pp[b] * (b == problem->llm ? found->chunks : 1);
        r.sizes[b] = CS_NEW_ARRAY(arena, int, r.n_stages[b] + 1);
    }
    if (count_cuts(&r) <= ALL_CUTS && found->plan->n_stages * found->plan->slots <= 256) {
        try_all(&r, 0, 0, problem->branch[0].n_layers);
        return;
    }
    while (r.n_trials < TRIALS && !cs_stop_is_asked() && (move_at_slowest(&r) || move_anywhere(&r)))
        ;
}
