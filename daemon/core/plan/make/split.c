/* Cuts a chain of layers into stages by contiguous min-max dynamic programming.
 *
 * best[k][j] = smallest bottleneck of the first j layers on k stages
 *            = min over i of max(best[k-1][i], cost(i..j)), the smallest i wins ties.
 * The number of stages is given, so the distance of a stage from the end, hence its microbatches in
 * flight, is known whichever end the table is filled from: the memory cap only forbids transitions. */
#include "core/plan/make/split.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/system/stop.h"
#include "core/base/units.h"

enum { ASK_EVERY = 256 /* cells: whether to go on */ };

struct table {
    const double *cost;
    const struct cs_split_memory *memory;
    int n, stages;
    double *best;                 /* (stages + 1, n + 1), INFINITY: impossible */
    int *cut;                     /* (stages + 1, n + 1) */
    double *sum, *weight, *saved; /* (n + 1) prefix sums */
};

static size_t at(const struct table *t, int k, int j)
{
    return (size_t)k * ((size_t)t->n + 1) + (size_t)j;
}

static void prefix(const double *value, int n, double *sum)
{
    sum[0] = 0;
    for (int i = 0; i < n; i++)
        sum[i + 1] = sum[i] + (value ? value[i] : 0);
}

static bool fits(const struct table *t, int stage, int first, int end)
{
    if (!t->memory || !(t->memory->cap > 0))
        return true;
    double alive = t->memory->in_flight ? t->memory->in_flight[stage] : 1;
    double beside = t->memory->beside ? t->memory->beside[stage] : 0;
    double bytes = t->weight[end] - t->weight[first] + alive * (t->saved[end] - t->saved[first]);
    return bytes + beside <= t->memory->cap;
}

static void fill_cell(struct table *t, int k, int j)
{
    double *best = &t->best[at(t, k, j)];
    *best = INFINITY;
    for (int i = k - 1; i < j; i++) {
        double before = t->best[at(t, k - 1, i)];
        if (isinf(before) || !fits(t, k - 1, i, j))
            continue;
        double stage = t->sum[j] - t->sum[i];
        double value = before > stage ? before : stage;
        if (value < *best) {
            *best = value;
            t->cut[at(t, k, j)] = i;
        }
    }
}

/* values and their sum are finite and not negative; value may be NULL */
static enum cs_status check_values(const char *what, const double *value, int n, struct cs_err *err)
{
    double sum = 0;
    for (int i = 0; value && i < n; i++) {
        if (!(value[i] >= 0) || isinf(value[i]))
            return cs_fail(err, CS_INVALID, "%s %d is %g: it must be finite and not negative", what,
                           i, value[i]);
        sum += value[i];
    }
    if (isinf(sum))
        return cs_fail(err, CS_INVALID, "the sum of %d %ss is larger than a number can be", n,
                       what);
    return CS_OK;
}

static enum cs_status check(const double *cost, int n, int stages,
                            const struct cs_split_memory *memory, struct cs_err *err)
{
    if (stages < 1)
        return cs_fail(err, CS_PLAN, "%d stage%s: at least one is needed", stages,
                       CS_PLURAL(stages));
    if (stages > n)
        return cs_fail(err, CS_PLAN, "%d stage%s for %d layer%s: every stage needs a layer", stages,
                       CS_PLURAL(stages), n, CS_PLURAL(n));
    CS_TRY(check_values("cost", cost, n, err));
    if (!memory)
        return CS_OK;
    CS_TRY(check_values("weight", memory->weight, n, err));
    CS_TRY(check_values("activation", memory->saved, n, err));
    return check_values("number of slots in flight", memory->in_flight, stages, err);
}

static enum cs_status solve(struct table *t, int *sizes, double *bottleneck, struct cs_err *err)
{
    for (int j = 0; j <= t->n; j++)
        t->best[at(t, 0, j)] = j == 0 ? 0 : INFINITY;
    for (int k = 1; k <= t->stages; k++)
        for (int j = 0; j <= t->n; j++) {
            if (j % ASK_EVERY == 0)
                CS_TRY(cs_stop_check(err));
            fill_cell(t, k, j);
        }
    double value = t->best[at(t, t->stages, t->n)];
    if (isinf(value)) {
        char cap[CS_UNITS_CAP], weights[CS_UNITS_CAP];
        cs_bytes_print(cap, sizeof cap, (uint64_t)fmin(t->memory->cap, 1e18));
        cs_bytes_print(weights, sizeof weights, (uint64_t)fmin(t->weight[t->n], 1e18));
        return cs_fail(err, CS_PLAN,
                       "no split of %d layer%s into %d stage%s stays under %s per stage (%s of "
                       "weights in all); use more stages or shorter slots",
                       t->n, CS_PLURAL(t->n), t->stages, CS_PLURAL(t->stages), cap, weights);
    }
    for (int k = t->stages, end = t->n; k >= 1; k--) {
        int first = t->cut[at(t, k, end)];
        sizes[k - 1] = end - first;
        end = first;
    }
    if (bottleneck)
        *bottleneck = value;
    return CS_OK;
}

enum cs_status cs_split_capped(const double *cost, int n, int stages,
                               const struct cs_split_memory *memory, int *sizes, double *bottleneck,
                               struct cs_err *err)
{
    CS_TRY(check(cost, n, stages, memory, err));
    size_t cells = ((size_t)stages + 1) * ((size_t)n + 1), sums = (size_t)n + 1;
    struct table t = {.cost = cost, .memory = memory, .n = n, .stages = stages};
    t.best = malloc((cells + 3 * sums) * sizeof *t.best);
    t.cut = calloc(cells, sizeof *t.cut);
    enum cs_status status = CS_NO_MEMORY;
    if (!t.best || !t.cut) {
        status = cs_fail(err, CS_NO_MEMORY, "table of %d stages by %d layers", stages, n);
        goto out;
    }
    t.sum = t.best + cells;
    t.weight = t.sum + sums;
    t.saved = t.weight + sums;
    prefix(cost, n, t.sum);
    prefix(memory ? memory->weight : NULL, n, t.weight);
    prefix(memory ? memory->saved : NULL, n, t.saved);
    status = solve(&t, sizes, bottleneck, err);
out:
    free(t.best);
    free(t.cut);
    return status;
}

enum cs_status cs_split(const double *cost, int n, int stages, int *sizes, double *bottleneck,
                        struct cs_err *err)
{
    return cs_split_capped(cost, n, stages, NULL, sizes, bottleneck, err);
}
