/* Rows of a block between its products, in parts over the ranks that share its matrices. */
#include "worker/layer/sequence.h"

#include "core/model/tensor_parallel.h"
#include "worker/layer/exchange.h"
#include "worker/layer/tensors.h"

bool cs_sequence_is_split(const struct cs_run *run)
{
    return run->tensors != NULL && run->splits_rows;
}

/* rows of one of the ranks: of place `rank` */
static struct cs_tp_share share_of(const struct cs_run *run, int64_t rows, int rank)
{
    return cs_tp_share(rows, (struct cs_tp){.ranks = run->tensors->n, .at = rank});
}

static struct cs_tp_share own_share(const struct cs_run *run, int64_t rows)
{
    if (!cs_sequence_is_split(run))
        return (struct cs_tp_share){0, rows};
    return share_of(run, rows, run->tensors->place);
}

static int64_t count(struct cs_tp_share share)
{
    return share.end - share.begin;
}

int64_t cs_sequence_rows(const struct cs_run *run, int64_t rows)
{
    return count(own_share(run, rows));
}

static char *at_row(const struct cs_run *run, const void *rows, int64_t row, int64_t width)
{
    return (char *)(uintptr_t)rows + (size_t)(row * width) * run->ops->act_bytes;
}

const void *cs_sequence_own(const struct cs_run *run, int64_t rows, int64_t width, const void *all)
{
    return all != NULL ? at_row(run, all, own_share(run, rows).begin, width) : NULL;
}

/* k-th of the others in turn, so that not everybody begins with the first */
static int other(const struct cs_context *t, int k)
{
    return (t->place + k) % t->n;
}

void cs_sequence_gather(struct cs_run *run, int64_t rows, int64_t width, const void *own, void *all)
{
    struct cs_context *t = run->tensors;
    const struct cs_tp_share mine = own_share(run, rows);
    const int64_t row_bytes = width * (int64_t)run->ops->act_bytes;
    char *const here = at_row(run, all, mine.begin, width);
    if (rows == 0)
        return;
    cs_device_copy(run->device, here, own, (size_t)(count(mine) * row_bytes));
    if (!cs_sequence_is_split(run) || t->start == NULL)
        return;
    const struct cs_exchange e = cs_exchange_new(run, t);
    for (int k = 1; k < t->n; k++) {
        const int r = other(t, k);
        const struct cs_tp_share theirs = share_of(run, rows, r);
        cs_exchange_add(&e, r, here, count(mine) * row_bytes, true);
        cs_exchange_add(&e, r, at_row(run, all, theirs.begin, width), count(theirs) * row_bytes,
                        false);
    }
    cs_exchange_move(&e);
}

const void *cs_sequence_whole(struct cs_run *run, int64_t rows, int64_t width, const void *own)
{
    if (!cs_sequence_is_split(run) || own == NULL)
        return own;
    void *all = cs_run_hold(run, rows * width);
    cs_sequence_gather(run, rows, width, own, all);
    return all;
}

void *cs_sequence_part(struct cs_run *run, int64_t rows, int64_t width, void *own)
{
    return cs_sequence_is_split(run) ? cs_run_take(run, rows * width) : own;
}

const void *cs_sequence_residual(const struct cs_run *run, const void *residual)
{
    return !cs_sequence_is_split(run) && cs_tensors_is_first(run) ? residual : NULL;
}

/* Everybody's part of the own rows: theirs (n - 1) of them, by rank. */
static void bring(struct cs_run *run, int64_t rows, int64_t width, void *part, float *theirs)
{
    struct cs_context *t = run->tensors;
    const int64_t mine = count(own_share(run, rows)) * width;
    const struct cs_exchange e = cs_exchange_new(run, t);
    for (int k = 1; k < t->n; k++) {
        const int r = other(t, k);
        const struct cs_tp_share to = share_of(run, rows, r);
        cs_exchange_add(&e, r, at_row(run, part, to.begin, width),
                        count(to) * width * (int64_t)sizeof(float), true);
        cs_exchange_add(&e, r, theirs + (r - (r > t->place)) * mine, mine * (int64_t)sizeof(float),
                        false);
    }
    cs_exchange_move(&e);
}

static void add_up(const struct cs_context *t, int64_t n, const float *mine, const float *theirs,
                   const float *residual, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int r = 0; r < t->n; r++)
            sum += r == t->place ? mine[i] : theirs[(r - (r > t->place)) * n + i];
        out[i] = residual != NULL ? sum + residual[i] : sum;
    }
}

static void sum_on_host(struct cs_run *run, int64_t rows, int64_t width, void *part,
                        const void *residual, void *own)
{
    struct cs_context *t = run->tensors;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    const int64_t n = cs_sequence_rows(run, rows) * width;
    CS_ASSERT(run->ops->act_bytes == sizeof(float));
    /* in a rehearsal room for as many rows as any of them can have */
    const int64_t most = (rows + t->n - 1) / t->n * width;
    float *theirs = cs_scratch_floats(run->scratch, (t->n - 1) * most);
    if (t->start != NULL && rows > 0) {
        bring(run, rows, width, part, theirs);
        add_up(t, n, (const float *)cs_sequence_own(run, rows, width, part), theirs, residual, own);
    }
    cs_scratch_rewind(run->scratch, mark);
}

void cs_sequence_sum(struct cs_run *run, int64_t rows, int64_t width, void *part,
                     const void *residual, void *own)
{
    const int64_t n = cs_sequence_rows(run, rows) * width;
    const bool is_split = cs_sequence_is_split(run);
    if (is_split && !run->tensors->sums) {
        sum_on_host(run, rows, width, part, residual, own);
        return;
    }
    cs_tensors_sum(run, rows * width, part);
    if (!is_split || n == 0)
        return;
    const void *mine = cs_sequence_own(run, rows, width, part);
    if (residual != NULL)
        run->ops->add(run->ctx, n, mine, residual, own);
    else
        cs_device_copy(run->device, own, mine, (size_t)n * run->ops->act_bytes);
}
