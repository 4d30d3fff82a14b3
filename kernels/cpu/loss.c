/* Linear layer and cross-entropy in one pass over chunks of rows: logits of one chunk only, the
 * gradient of the logits is written over them, dx and dw follow at once. */
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/softmax_rows.h"

#define CHUNK_ROWS   256
#define CHUNK_FLOATS ((int64_t)1 << 24) /* 64 MiB of logits, unless one row is larger */

/* Depends on vocab only, so that a row's result does not depend on the number of rows after it. */
static int64_t chunk_rows(int64_t vocab)
{
    const int64_t fit = CHUNK_FLOATS / (vocab > 0 ? vocab : 1);
    return fit < 1 ? 1 : fit < CHUNK_ROWS ? fit : CHUNK_ROWS;
}

size_t cs_cpu_linear_xent_workspace(int64_t rows, int64_t in, int64_t vocab)
{
    (void)in;
    const int64_t chunk = chunk_rows(vocab);
    return cs_carve_bound((size_t)(rows < chunk ? rows : chunk) * (size_t)vocab * sizeof(float));
}

/* Loss of one row; z (vocab) turns into the gradient of the loss when wants_grad. */
static double one_row(int64_t vocab, float *z, int64_t label, float softcap, uint8_t *correct,
                      bool wants_grad)
{
    if (softcap != 0.0f)
        cs_rows_cap(vocab, softcap, z);
    const float max = cs_rows_max(vocab, z); /* NaN come back through the sum */
    const float sum = cs_rows_exp_sum(vocab, max, z);
    const float target = z[label];
    if (correct != NULL)
        *correct = cs_rows_is_best(vocab, z, label);
    if (wants_grad) {
        const float inv_cap = softcap != 0.0f ? 1.0f / softcap : 0.0f;
        const float t = target * inv_cap;
        cs_rows_loss_grad(vocab, max, 1.0f / sum, inv_cap, z);
        z[label] -= 1.0f - t * t;
    }
    return log((double)sum) + ((double)max - (double)target);
}

void cs_cpu_linear_xent(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t vocab, const void *x,
                        const void *w, const int32_t *labels, float softcap, double *loss,
                        double *row_loss, uint8_t *correct, void *dx, void *dw)
{
    if (rows <= 0)
        return;
    const int64_t chunk = chunk_rows(vocab);
    struct cs_carve carve = cs_carve_begin(ctx);
    float *z = cs_carve_take(&carve,
                             (size_t)(rows < chunk ? rows : chunk) * (size_t)vocab * sizeof(float));
    const bool wants_grad = dx != NULL || dw != NULL;
    for (int64_t first = 0; first < rows; first += chunk) {
        const int64_t m = rows - first < chunk ? rows - first : chunk;
        const float *xc = (const float *)x + first * in;
        cs_cpu_sgemm(0, 1, m, vocab, in, 1.0f, xc, in, w, in, 0.0f, z, vocab);
        for (int64_t r = 0; r < m; r++) {
            CS_ASSERT(labels[first + r] >= 0 && labels[first + r] < vocab);
            const double own = one_row(vocab, z + r * vocab, labels[first + r], softcap,
                                       correct != NULL ? correct + first + r : NULL, wants_grad);
            *loss += own;
            if (row_loss != NULL)
                row_loss[first + r] = own;
        }
        if (dx != NULL)
            cs_cpu_sgemm(0, 0, m, in, vocab, 1.0f, z, vocab, w, in, 0.0f, (float *)dx + first * in,
                         in);
        struct cs_ctx own = *ctx;
        own.is_grad_new = ctx->is_grad_new && first == 0;
        if (dw != NULL)
            cs_cpu_gemm_wgrad(&own, m, vocab, in, z, vocab, xc, in, dw);
    }
}
