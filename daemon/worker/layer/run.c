/* What a run gives to its layers: memory that is kept or taken for a while, and contexts of gradients. */
#include "worker/layer/layers.h"

static struct cs_scratch *memory_of(struct cs_run *run, bool is_needed)
{
    return is_needed && run->keep != NULL ? run->keep : run->scratch;
}

static bool is_kept(const struct cs_run *run, const struct cs_layer_model *l,
                    const struct cs_keep_row *row)
{
    const bool is_selective = run->recompute != CS_RECOMPUTE_NONE;
    return cs_keep_is_kept(row, l->layer,
                           is_selective ? CS_RECOMPUTE_SELECTIVE : CS_RECOMPUTE_NONE);
}

bool cs_run_keeps(const struct cs_run *run, const struct cs_layer_model *l, enum cs_keep array)
{
    return is_kept(run, l, cs_keep_find(l->arch, l->layer, array));
}

void *cs_run_keep(struct cs_run *run, const struct cs_layer_model *l, enum cs_keep array,
                  int64_t rows)
{
    const struct cs_keep_row *row = cs_keep_find(l->arch, l->layer, array);
    CS_ASSERT(row != NULL && rows >= 0);
    const int64_t n = rows * cs_keep_columns(l->arch, l->layer, row->columns);
    const size_t size = row->memory == CS_KEEP_F32 ? sizeof(float) : run->ops->act_bytes;
    return cs_scratch_take(memory_of(run, is_kept(run, l, row)), (size_t)n * size);
}

void *cs_run_keep_pairs(struct cs_run *run, const struct cs_layer_model *l, enum cs_keep array,
                        int64_t pairs)
{
    const struct cs_keep_row *row = cs_keep_find(l->arch, l->layer, array);
    CS_ASSERT(row != NULL && row->memory == CS_KEEP_ACTS && pairs >= 0);
    const int64_t columns =
        cs_keep_columns(l->arch, l->layer, row->columns) / cs_experts_pairs(&l->arch->experts);
    return cs_scratch_take(memory_of(run, is_kept(run, l, row)),
                           (size_t)(pairs * columns) * run->ops->act_bytes);
}

void *cs_run_keep_acts(struct cs_run *run, int64_t n)
{
    return cs_scratch_take(memory_of(run, true), (size_t)n * run->ops->act_bytes);
}

void *cs_run_take(struct cs_run *run, int64_t n)
{
    CS_ASSERT(n >= 0);
    return cs_scratch_take(run->scratch, (size_t)n * run->ops->act_bytes);
}

void *cs_run_hold(struct cs_run *run, int64_t n)
{
    if (run->later == NULL)
        return cs_run_take(run, n);
    return cs_scratch_take(run->later->held, (size_t)n * run->ops->act_bytes);
}

void *cs_run_at(const struct cs_run *run, void *base, int64_t n)
{
    return (char *)base + (size_t)n * run->ops->act_bytes;
}

void *cs_run_row(const struct cs_run *run, const void *rows, int64_t row, int64_t columns)
{
    return rows != NULL ? (char *)(uintptr_t)rows + (size_t)(row * columns) * run->ops->act_bytes
                        : NULL;
}

static bool *newness_of(const struct cs_shard *t)
{
    return t != NULL && t->grad != NULL ? t->is_grad_new : NULL;
}

struct cs_ctx cs_run_grad_ctx(const struct cs_run *run, const struct cs_shard *w,
                              const struct cs_shard *b)
{
    struct cs_ctx ctx = *run->ctx;
    bool *const of_w = newness_of(w), *const of_b = newness_of(b);
    CS_ASSERT(of_w == NULL || of_b == NULL || *of_w == *of_b);
    ctx.is_grad_new = (of_w != NULL && *of_w) || (of_b != NULL && *of_b);
    if (of_w != NULL && !run->is_rehearsal)
        *of_w = false;
    if (of_b != NULL && !run->is_rehearsal)
        *of_b = false;
    return ctx;
}
