/* Rows of a block between its products, in parts over the ranks that share its matrices. */
#include "worker/layer/sequence.h"

#include "worker/layer/tensors.h"

int64_t cs_sequence_rows(const struct cs_run *run, int64_t rows)
{
    return cs_sequence_to(run, rows, 0).n;
}

const void *cs_sequence_own(const struct cs_run *run, int64_t rows, int64_t width, const void *all)
{
    return cs_run_row(run, all, cs_sequence_to(run, rows, 0).at, width);
}

void cs_sequence_gather(struct cs_run *run, int64_t rows, int64_t width, const void *own, void *all)
{
    struct cs_sequence_gather g;
    if (rows == 0)
        return;
    cs_sequence_gather_start(run, rows, width, own, all, true, &g);
    cs_sequence_gather_finish(&g);
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

/* own = this rank's part of its own rows + residual */
static void begin_sum(struct cs_run *run, int64_t rows, int64_t width, const void *part,
                      const void *residual, void *own)
{
    const int64_t n = cs_sequence_rows(run, rows) * width;
    const void *mine = cs_sequence_own(run, rows, width, part);
    if (n > 0 && residual != NULL)
        run->ops->add(run->ctx, n, mine, residual, own);
    else if (n > 0)
        cs_device_copy(run->device, own, mine, (size_t)n * run->ops->act_bytes);
}

void cs_sequence_sum(struct cs_run *run, int64_t rows, int64_t width, void *part,
                     const void *residual, void *own)
{
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    struct cs_sequence_sum sum;
    if (!cs_sequence_is_split(run)) {
        cs_tensors_sum(run, rows * width, part);
        return;
    }
    cs_sequence_sum_start(run, rows, width, &sum);
    for (int k = 1; k < cs_sequence_turns(run); k++)
        cs_sequence_sum_send(&sum, k,
                             cs_run_row(run, part, cs_sequence_to(run, rows, k).at, width));
    begin_sum(run, rows, width, part, residual, own);
    cs_sequence_sum_finish(&sum, own);
    cs_scratch_rewind(run->scratch, mark);
}
