/* Sums over the ranks that share a stage, and products that need one. */
#include "worker/layer/tensors.h"

#include "worker/layer/exchange.h"
#include "worker/layer/sequence.h"

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

static void sum_on_host(struct cs_run *run, int64_t n, float *x)
{
    struct cs_context *t = run->tensors;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    float *theirs = cs_scratch_floats(run->scratch, (t->n - 1) * ((n + t->n - 1) / t->n));
    if (t->start != NULL) {
        reduce_scatter(run, n, x, theirs);
        all_gather(run, n, x);
    }
    cs_scratch_rewind(run->scratch, mark);
}

/* A sum that is under way; run NULL: none is. */
static struct cs_exchange start(struct cs_run *run, int64_t n, void *x, enum cs_grad_type type)
{
    struct cs_context *t = run->tensors;
    struct cs_exchange e = {.run = NULL};
    if (t == NULL || n == 0)
        return e;
    if (!t->sums) {
        CS_ASSERT(type == CS_GRAD_F32);
        sum_on_host(run, n, x);
    } else if (t->start != NULL) {
        e = cs_exchange_new(run, t);
        cs_exchange_sum(&e, x, (size_t)n, type);
        cs_exchange_start(&e);
    }
    return e;
}

static void finish(const struct cs_exchange *e)
{
    if (e->run != NULL)
        cs_exchange_finish(e);
}

static struct cs_exchange start_acts(struct cs_run *run, int64_t n, void *x)
{
    return start(run, n, x, run->ops->act_bytes == sizeof(float) ? CS_GRAD_F32 : CS_GRAD_BF16);
}

void cs_tensors_sum_floats(struct cs_run *run, int64_t n, float *x)
{
    const struct cs_exchange e = start(run, n, x, CS_GRAD_F32);
    finish(&e);
}

void cs_tensors_sum(struct cs_run *run, int64_t n, void *x)
{
    const struct cs_exchange e = start_acts(run, n, x);
    finish(&e);
}

/* ---- products in groups of rows ---- */

enum { MOST_GROUPS = 16, GROUP_ROWS = 128 }; /* rows of a tile of products */

static int64_t groups_of(const struct cs_run *run, int64_t rows, int64_t columns)
{
    const struct cs_context *t = run->tensors;
    if (t == NULL || !t->sums || t->groups < 2)
        return 1;
    const int64_t bytes = rows * columns * (int64_t)run->ops->act_bytes,
                  most = t->groups < MOST_GROUPS ? t->groups : MOST_GROUPS;
    const int64_t n = t->group_bytes > 0 ? bytes / t->group_bytes : rows;
    return n < 1 ? 1 : n < most ? n : most;
}

/* The first row of group i of n. */
static int64_t group_at(int64_t rows, int64_t i, int64_t n)
{
    const int64_t at = (rows * i / n + GROUP_ROWS - 1) / GROUP_ROWS * GROUP_ROWS;
    return i == n || at > rows ? rows : at;
}

static const void *at_row(const struct cs_run *run, const void *rows, int64_t row, int64_t columns)
{
    return rows != NULL ? (const char *)rows + (size_t)(row * columns) * run->ops->act_bytes : NULL;
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

/* The same where each rank wants its own rows of the sum. */
static void linear_of_parts(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *x, const struct cs_shard *w, const struct cs_shard *b,
                            const void *residual, void *y)
{
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    void *part = cs_sequence_part(run, rows, out, y);
    cs_run_linear(run, rows, in, out, x, w, b, part);
    cs_sequence_sum(run, rows, out, part, residual, y);
    cs_scratch_rewind(run->scratch, mark);
}

void cs_run_linear_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                       const struct cs_shard *w, const struct cs_shard *b, const void *residual,
                       void *y)
{
    const bool is_first = cs_tensors_is_first(run);
    const int64_t n = groups_of(run, rows, out);
    if (cs_sequence_is_split(run)) {
        linear_of_parts(run, rows, in, out, x, w, is_first ? b : NULL, residual, y);
        return;
    }
    struct cs_exchange sum[MOST_GROUPS];
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = group_at(rows, i, n), rows_here = group_at(rows, i + 1, n) - at;
        void *const here = cs_run_at(run, y, at * out);
        cs_run_linear_act(run, rows_here, in, out, at_row(run, x, at, in), w, is_first ? b : NULL,
                          is_first ? at_row(run, residual, at, out) : NULL, CS_ACT_NONE, NULL,
                          here);
        sum[i] = start_acts(run, rows_here * out, here);
    }
    for (int64_t i = 0; i < n; i++)
        finish(&sum[i]);
}

/* in groups, where there is nothing else to run beside the sum */
static void dgrad_in_groups(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *dy, const struct cs_shard *w, void *dx)
{
    const int64_t n = groups_of(run, rows, in);
    struct cs_exchange sum[MOST_GROUPS];
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = group_at(rows, i, n), rows_here = group_at(rows, i + 1, n) - at;
        void *const here = cs_run_at(run, dx, at * in);
        cs_run_linear_dgrad(run, rows_here, in, out, at_row(run, dy, at, out), w, here);
        sum[i] = start_acts(run, rows_here * in, here);
    }
    for (int64_t i = 0; i < n; i++)
        finish(&sum[i]);
}

static void dgrad_of_parts(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                           const void *dy, const struct cs_shard *w, void *dx)
{
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    void *part = cs_sequence_part(run, rows, in, dx);
    cs_run_linear_dgrad(run, rows, in, out, dy, w, part);
    cs_sequence_sum(run, rows, in, part, NULL, dx);
    cs_scratch_rewind(run->scratch, mark);
}

void cs_run_linear_grad_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *dy, const void *x, const struct cs_shard *w,
                            const struct cs_shard *b, void *dx)
{
    if (dx != NULL && cs_sequence_is_split(run)) {
        dgrad_of_parts(run, rows, in, out, dy, w, dx);
        dx = NULL;
    }
    if (dx != NULL && (run->later != NULL || w->grad == NULL)) {
        dgrad_in_groups(run, rows, in, out, dy, w, dx);
        dx = NULL;
    }
    struct cs_exchange sum = {.run = NULL};
    if (dx != NULL) {
        cs_run_linear_dgrad(run, rows, in, out, dy, w, dx);
        sum = start_acts(run, rows * in, dx);
    }
    cs_run_linear_wgrad(run, rows, in, out, dy, x, w, b);
    finish(&sum);
}
