/* Products whose results are sums over the ranks that share a stage. */
#include "worker/layer/sequence.h"
#include "worker/layer/sequence_products.h"
#include "worker/layer/tensors.h"

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

/* of n; a single one has nothing beside it */
static struct cs_exchange sum_group(struct cs_run *run, int64_t count, void *x, int64_t n)
{
    if (n > 1)
        return cs_tensors_start(run, count, x);
    cs_tensors_sum(run, count, x);
    return (struct cs_exchange){.run = NULL};
}

void cs_run_linear_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                       const struct cs_shard *w, const struct cs_shard *b, const void *residual,
                       void *y)
{
    const bool is_first = cs_tensors_is_first(run);
    const int64_t n = groups_of(run, rows, out);
    if (cs_sequence_is_split(run)) {
        cs_sequence_linear_sum(run, rows, in, out, x, w, b, residual, y);
        return;
    }
    struct cs_exchange sum[MOST_GROUPS];
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = group_at(rows, i, n), rows_here = group_at(rows, i + 1, n) - at;
        void *const here = cs_run_at(run, y, at * out);
        cs_run_linear_act(run, rows_here, in, out, cs_run_row(run, x, at, in), w,
                          is_first ? b : NULL, is_first ? cs_run_row(run, residual, at, out) : NULL,
                          CS_ACT_NONE, NULL, here);
        sum[i] = sum_group(run, rows_here * out, here, n);
    }
    for (int64_t i = 0; i < n; i++)
        cs_tensors_finish(&sum[i]);
}

/* Not beside the gradients of weights: kernels of these hold all multiprocessors until their end, and a sum that waits for
 * some is over later than one that comes first (blocks of Llama-3.1-8B 2 %, smaller ones 1.5 %; two H200). */
static void dgrad_in_groups(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *dy, const struct cs_shard *w, void *dx)
{
    const int64_t n = groups_of(run, rows, in);
    struct cs_exchange sum[MOST_GROUPS];
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = group_at(rows, i, n), rows_here = group_at(rows, i + 1, n) - at;
        void *const here = cs_run_at(run, dx, at * in);
        cs_run_linear_dgrad(run, rows_here, in, out, cs_run_row(run, dy, at, out), w, here);
        sum[i] = sum_group(run, rows_here * in, here, n);
    }
    for (int64_t i = 0; i < n; i++)
        cs_tensors_finish(&sum[i]);
}

void cs_run_linear_grad_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *dy, const void *x, const struct cs_shard *w,
                            const struct cs_shard *b, void *dx)
{
    if (cs_sequence_is_split(run)) {
        cs_sequence_linear_grad_sum(run, rows, in, out, dy, x, w, b, dx);
        return;
    }
    if (dx != NULL)
        dgrad_in_groups(run, rows, in, out, dy, w, dx);
    cs_run_linear_wgrad(run, rows, in, out, dy, x, w, b);
}

void cs_run_linear_all(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                       const struct cs_shard *w, const struct cs_shard *b, enum cs_act act,
                       void *pre, void *y)
{
    if (cs_sequence_is_split(run))
        cs_sequence_linear_all(run, rows, in, out, x, w, b, act, pre, y);
    else
        cs_run_linear_act(run, rows, in, out, x, w, b, NULL, act, pre, y);
}

void cs_run_linear_grad_all(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *dy, const void *x, const struct cs_shard *w,
                            const struct cs_shard *b, enum cs_act act, const void *pre, void *dx)
{
    if (cs_sequence_is_split(run)) {
        cs_sequence_linear_grad_all(run, rows, in, out, dy, x, w, b, act, pre, dx);
        return;
    }
    cs_run_linear_wgrad(run, rows, in, out, dy, x, w, b);
    cs_run_linear_dgrad_act(run, rows, in, out, dy, w, act, pre, dx);
}
