/* Products of low rank beside those of frozen matrices; see adapter.h. */
#include "worker/layer/adapter.h"

/* scale x a^T (rows, rank), in scratch */
static void *down(struct cs_run *run, const struct cs_adapter *p, int64_t rows, int64_t in,
                  const void *x)
{
    void *t = cs_run_take(run, rows * p->rank);
    run->ops->gemm(run->ctx, 0, 1, rows, p->rank, in, p->scale, x, in, p->a->w, in, 0.0f, t,
                   p->rank);
    return t;
}

/* scale dy b (rows, rank), in scratch */
static void *back(struct cs_run *run, const struct cs_adapter *p, int64_t rows, int64_t out,
                  const void *dy)
{
    void *t = cs_run_take(run, rows * p->rank);
    run->ops->gemm(run->ctx, 0, 0, rows, p->rank, p->out, p->scale,
                   cs_run_at(run, (void *)(uintptr_t)dy, p->at), out, p->b->w, p->rank, 0.0f, t,
                   p->rank);
    return t;
}

void cs_adapters_add(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                     const struct cs_shard *w, void *y)
{
    for (int32_t i = 0; i < w->n_adapters; i++) {
        const struct cs_adapter *p = &w->adapter[i];
        const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
        const void *t = down(run, p, rows, in, x);
        run->ops->gemm(run->ctx, 0, 1, rows, p->out, p->rank, 1.0f, t, p->rank, p->b->w, p->rank,
                       1.0f, cs_run_at(run, y, p->at), out);
        cs_scratch_rewind(run->scratch, mark);
    }
}

void cs_adapters_dgrad(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *dy,
                       const struct cs_shard *w, void *dx)
{
    for (int32_t i = 0; i < w->n_adapters; i++) {
        const struct cs_adapter *p = &w->adapter[i];
        const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
        const void *t = back(run, p, rows, out, dy);
        run->ops->gemm(run->ctx, 0, 0, rows, in, p->rank, 1.0f, t, p->rank, p->a->w, in, 1.0f, dx,
                       in);
        cs_scratch_rewind(run->scratch, mark);
    }
}

void cs_adapters_wgrad(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *dy,
                       const void *x, const struct cs_shard *w)
{
    for (int32_t i = 0; i < w->n_adapters; i++) {
        const struct cs_adapter *p = &w->adapter[i];
        const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
        struct cs_ctx of_a = cs_run_grad_ctx(run, p->a, NULL),
                      of_b = cs_run_grad_ctx(run, p->b, NULL);
        run->ops->gemm_wgrad(&of_b, rows, p->out, p->rank,
                             cs_run_at(run, (void *)(uintptr_t)dy, p->at), out,
                             down(run, p, rows, in, x), p->rank, p->b->grad);
        run->ops->gemm_wgrad(&of_a, rows, p->rank, in, back(run, p, rows, out, dy), p->rank, x, in,
                             p->a->grad);
        cs_scratch_rewind(run->scratch, mark);
    }
}
