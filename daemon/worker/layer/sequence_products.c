/* Products of all rows at the edges of a half, beside rows that come or go. */
#include "worker/layer/sequence_products.h"

#include "worker/layer/sequence_moves.h"

/* x NULL: nothing of the layer trains */
static bool is_trained(const void *x, const struct cs_shard *w, const struct cs_shard *b)
{
    return x != NULL && (w->grad != NULL || (b != NULL && b->grad != NULL) || w->n_adapters > 0);
}

void cs_sequence_linear_all(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *x, const struct cs_shard *w, const struct cs_shard *b,
                            enum cs_act act, void *pre, void *y)
{
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    struct cs_sequence_gather come;
    cs_sequence_gather_start(run, rows, in, x, cs_run_take(run, rows * in), false, &come);
    for (int k = 0; k < cs_sequence_turns(run); k++) {
        const struct cs_sequence_rows r = cs_sequence_from(run, rows, k);
        const void *here = cs_sequence_gather_next(&come, k);
        if (r.n > 0)
            cs_run_linear_act(run, r.n, in, out, here, w, b, NULL, act,
                              cs_run_row(run, pre, r.at, out), cs_run_row(run, y, r.at, out));
    }
    cs_scratch_rewind(run->scratch, mark);
}

void cs_sequence_linear_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *x, const struct cs_shard *w, const struct cs_shard *b,
                            const void *residual, void *y)
{
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    const struct cs_sequence_rows own = cs_sequence_to(run, rows, 0);
    struct cs_sequence_sum sum;
    cs_sequence_sum_start(run, rows, out, &sum);
    for (int k = 1; k < cs_sequence_turns(run); k++) {
        const struct cs_sequence_rows r = cs_sequence_to(run, rows, k);
        void *part = cs_run_take(run, r.n * out);
        if (r.n > 0)
            cs_run_linear(run, r.n, in, out, cs_run_row(run, x, r.at, in), w, NULL, part);
        cs_sequence_sum_send(&sum, k, part);
    }
    if (own.n > 0)
        cs_run_linear_act(run, own.n, in, out, cs_run_row(run, x, own.at, in), w, b, residual,
                          CS_ACT_NONE, NULL, y);
    cs_sequence_sum_finish(&sum, y);
    cs_scratch_rewind(run->scratch, mark);
}

void cs_sequence_linear_grad_all(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                                 const void *dy, const void *x, const struct cs_shard *w,
                                 const struct cs_shard *b, enum cs_act act, const void *pre,
                                 void *dx)
{
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    const bool trains = is_trained(x, w, b);
    void *all = trains ? cs_run_hold(run, rows * out) : cs_run_take(run, rows * out);
    struct cs_sequence_gather come;
    cs_sequence_gather_start(run, rows, out, dy, all, trains, &come);
    for (int k = 0; k < cs_sequence_turns(run); k++) {
        const struct cs_sequence_rows r = cs_sequence_from(run, rows, k);
        const void *here = cs_sequence_gather_next(&come, k);
        if (r.n > 0)
            cs_run_linear_dgrad_act(run, r.n, in, out, here, w, act, cs_run_row(run, pre, r.at, in),
                                    cs_run_row(run, dx, r.at, in));
    }
    if (trains)
        cs_run_linear_wgrad(run, rows, in, out, all, x, w, b);
    cs_scratch_rewind(run->scratch, mark);
}

/* parts of dx go to the ranks of their rows; the own one is made where it stays */
static void send_parts(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *dy,
                       const struct cs_shard *w, void *dx, struct cs_sequence_sum *sum)
{
    const struct cs_sequence_rows own = cs_sequence_to(run, rows, 0);
    cs_sequence_sum_start(run, rows, in, sum);
    for (int k = 1; k < cs_sequence_turns(run); k++) {
        const struct cs_sequence_rows r = cs_sequence_to(run, rows, k);
        void *part = cs_run_take(run, r.n * in);
        if (r.n > 0)
            cs_run_linear_dgrad(run, r.n, in, out, cs_run_row(run, dy, r.at, out), w, part);
        cs_sequence_sum_send(sum, k, part);
    }
    if (own.n > 0)
        cs_run_linear_dgrad(run, own.n, in, out, cs_run_row(run, dy, own.at, out), w, dx);
}

/* The input comes once more beside the product; parts travel beside the gradients of weights. */
void cs_sequence_linear_grad_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                                 const void *dy, const void *x, const struct cs_shard *w,
                                 const struct cs_shard *b, void *dx)
{
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    const bool trains = is_trained(x, w, b);
    struct cs_sequence_gather come;
    struct cs_sequence_sum sum;
    void *all = trains ? cs_run_hold(run, rows * in) : NULL;
    if (trains)
        cs_sequence_gather_start(run, rows, in, x, all, true, &come);
    if (dx != NULL)
        send_parts(run, rows, in, out, dy, w, dx, &sum);
    if (trains) {
        cs_sequence_gather_finish(&come);
        cs_run_linear_wgrad(run, rows, in, out, dy, all, w, b);
    }
    if (dx != NULL)
        cs_sequence_sum_finish(&sum, dx);
    cs_scratch_rewind(run->scratch, mark);
}
