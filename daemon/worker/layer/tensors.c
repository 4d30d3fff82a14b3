/* Sums over the ranks that share a stage, and products that need one. */
#include "worker/layer/tensors.h"

#include "worker/layer/exchange.h"

bool cs_tensors_is_first(const struct cs_run *run)
{
    return run->tensors == NULL || run->tensors->place == 0;
}

/* elements before those of a rank's share */
static int64_t share_at(struct cs_context *t, int64_t n, int rank)
{
    return n * rank / t->n;
}

static int64_t share_of(struct cs_context *t, int64_t n, int rank)
{
    return share_at(t, n, rank + 1) - share_at(t, n, rank);
}

/* k-th of the others in turn, so that not everybody begins with the first */
static int other(struct cs_context *t, int k)
{
    return (t->place + k) % t->n;
}

static void add(const struct cs_exchange *e, int place, float *x, int64_t n, bool is_send)
{
    cs_exchange_add(e, place, x, n * (int64_t)sizeof *x, is_send);
}

/* This rank's share is summed where it lies. theirs: (n - 1) of them, by rank. */
static void reduce_scatter(struct cs_run *run, int64_t n, float *x, float *theirs)
{
    struct cs_context *t = run->tensors;
    const struct cs_exchange e = cs_exchange_new(run, t);
    const int64_t own = share_of(t, n, t->place);
    float *const mine = x + share_at(t, n, t->place);
    for (int k = 1; k < t->n; k++) {
        const int r = other(t, k);
        add(&e, r, x + share_at(t, n, r), share_of(t, n, r), true);
        add(&e, r, theirs + (r - (r > t->place)) * own, own, false);
    }
    cs_exchange_move(&e);
    for (int64_t i = 0; i < own; i++) {
        float sum = 0.0f;
        for (int r = 0; r < t->n; r++)
            sum += r == t->place ? mine[i] : theirs[(r - (r > t->place)) * own + i];
        mine[i] = sum;
    }
}

static void all_gather(struct cs_run *run, int64_t n, float *x)
{
    struct cs_context *t = run->tensors;
    const struct cs_exchange e = cs_exchange_new(run, t);
    for (int k = 1; k < t->n; k++) {
        const int r = other(t, k);
        add(&e, r, x + share_at(t, n, t->place), share_of(t, n, t->place), true);
        add(&e, r, x + share_at(t, n, r), share_of(t, n, r), false);
    }
    cs_exchange_move(&e);
}

void cs_tensors_sum_floats(struct cs_run *run, int64_t n, float *x)
{
    struct cs_context *t = run->tensors;
    if (t == NULL || n == 0)
        return;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    float *theirs = cs_scratch_floats(run->scratch, (t->n - 1) * ((n + t->n - 1) / t->n));
    if (t->start != NULL) {
        reduce_scatter(run, n, x, theirs);
        all_gather(run, n, x);
    }
    cs_scratch_rewind(run->scratch, mark);
}

void cs_tensors_sum(struct cs_run *run, int64_t n, void *x)
{
    CS_ASSERT(run->tensors == NULL || run->ops->act_bytes == sizeof(float));
    cs_tensors_sum_floats(run, n, x);
}

void cs_tensors_gather(struct cs_run *run, int64_t bytes, void *parts)
{
    struct cs_context *t = run->tensors;
    if (t == NULL || t->start == NULL)
        return;
    const struct cs_exchange e = cs_exchange_new(run, t);
    for (int k = 1; k < t->n; k++) {
        const int r = other(t, k);
        cs_exchange_add(&e, r, (char *)parts + t->place * bytes, bytes, true);
        cs_exchange_add(&e, r, (char *)parts + r * bytes, bytes, false);
    }
    cs_exchange_move(&e);
}

void cs_run_linear_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                       const struct cs_shard *w, const struct cs_shard *b, const void *residual,
                       void *y)
{
    const bool is_first = cs_tensors_is_first(run);
    cs_run_linear_act(run, rows, in, out, x, w, is_first ? b : NULL, is_first ? residual : NULL,
                      CS_ACT_NONE, NULL, y);
    cs_tensors_sum(run, rows * out, y);
}

void cs_run_linear_dgrad_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                             const void *dy, const struct cs_shard *w, void *dx)
{
    cs_run_linear_dgrad(run, rows, in, out, dy, w, dx);
    cs_tensors_sum(run, rows * in, dx);
}
