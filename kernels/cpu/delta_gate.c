/* What a recurrent layer does around the gated delta rule: decays and strengths of its heads, and
 * the short causal convolution over its queries, keys and values. */
#include <math.h>

#include "kernels/cpu/cpu.h"

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

void cs_cpu_delta_gate(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                       const void *b, int64_t ld, const void *a_log, const void *dt_bias, float *g,
                       float *beta)
{
    (void)ctx;
    const float *speed = a_log, *bias = dt_bias;
    for (int64_t i = 0; i < rows; i++)
        for (int32_t h = 0; h < heads; h++) {
            const float x = ((const float *)a)[i * ld + h] + bias[h];
            g[i * heads + h] = -expf(speed[h]) * softplus(x);
            beta[i * heads + h] = sigmoid(((const float *)b)[i * ld + h]);
        }
}

static void add_grad(const struct cs_ctx *ctx, void *grad, int64_t i, float x)
{
    if (grad == NULL)
        return;
    if (ctx->grad == CS_GRAD_BF16)
        cs_grad_add(1, &x, (uint16_t *)grad + i);
    else
        ((float *)grad)[i] += x;
}

void cs_cpu_delta_gate_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                            const void *b, int64_t ld, const void *a_log, const void *dt_bias,
                            const float *dg, const float *dbeta, void *da, void *db, int64_t ld_d,
                            void *da_log, void *ddt_bias)
{
    const float *speed = a_log, *bias = dt_bias;
    if (rows == 0)
        return;
    cs_grad_begin(ctx, heads, da_log);
    cs_grad_begin(ctx, heads, ddt_bias);
    for (int32_t h = 0; h < heads; h++) {
        const float rate = -expf(speed[h]);
        double of_speed = 0.0, of_bias = 0.0;
        for (int64_t i = 0; i < rows; i++) {
            const float x = ((const float *)a)[i * ld + h] + bias[h], pull = dg[i * heads + h];
            const float s = sigmoid(((const float *)b)[i * ld + h]);
            const float one = pull * rate * sigmoid(x);
            ((float *)da)[i * ld_d + h] = one;
            ((float *)db)[i * ld_d + h] = dbeta[i * heads + h] * s * (1.0f - s);
            of_speed += (double)pull * (double)(rate * softplus(x));
            of_bias += (double)one;
        }
        add_grad(ctx, da_log, h, (float)of_speed);
        add_grad(ctx, ddt_bias, h, (float)of_bias);
    }
}

/* Rows of the same document before row i, taps - 1 at most. */
static int32_t reach(const struct cs_mask_plan *mask, int32_t segment, int32_t row, int32_t taps)
{
    const int32_t before = row - mask->segment[segment];
    return before < taps - 1 ? before : taps - 1;
}

static float tap_sum(const float *x, int64_t ldx, const float *w, int32_t taps, int32_t back)
{
    float sum = 0.0f;
    for (int32_t t = back; t >= 0; t--)
        sum += w[taps - 1 - t] * x[-t * ldx];
    return sum;
}

void cs_cpu_short_conv(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                       int32_t taps, const void *x, int64_t ldx, const void *w, void *y,
                       int64_t ldy)
{
    (void)ctx;
    for (int32_t s = 0; s < mask->n_segments; s++)
        for (int32_t i = mask->segment[s]; i < mask->segment[s + 1]; i++) {
            const int32_t back = reach(mask, s, i, taps);
            for (int64_t c = 0; c < channels; c++) {
                const float sum = tap_sum((const float *)x + i * ldx + c, ldx,
                                          (const float *)w + c * taps, taps, back);
                ((float *)y)[i * ldy + c] = sum * sigmoid(sum);
            }
        }
}

/* dx of a channel is summed tap by tap: rows are visited in order, the newest row of dx starts. */
static void conv_grad_channel(const struct cs_mask_plan *mask, int32_t taps, const float *x,
                              int64_t ldx, const float *w, const float *dy, int64_t ldy, float *dx,
                              double *dw)
{
    for (int32_t s = 0; s < mask->n_segments; s++)
        for (int32_t i = mask->segment[s]; i < mask->segment[s + 1]; i++) {
            const int32_t back = reach(mask, s, i, taps);
            const float sum = tap_sum(x + i * ldx, ldx, w, taps, back), gate = sigmoid(sum);
            const float d = dy[i * ldy] * gate * (1.0f + sum * (1.0f - gate));
            dx[i * ldx] = 0.0f;
            for (int32_t t = back; t >= 0; t--) {
                dx[(i - t) * ldx] += d * w[taps - 1 - t];
                dw[taps - 1 - t] += (double)(d * x[(i - t) * ldx]);
            }
        }
}

void cs_cpu_short_conv_grad(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                            int32_t taps, const void *x, int64_t ldx, const void *w, const void *dy,
                            int64_t ldy, void *dx, void *dw)
{
    CS_ASSERT(taps <= CS_SHORT_CONV_TAPS);
    if (mask->n_tokens == 0)
        return;
    cs_grad_begin(ctx, channels * taps, dw);
    for (int64_t c = 0; c < channels; c++) {
        double sum[CS_SHORT_CONV_TAPS] = {0};
        conv_grad_channel(mask, taps, (const float *)x + c, ldx, (const float *)w + c * taps,
                          (const float *)dy + c, ldy, (float *)dx + c, sum);
        for (int32_t t = 0; t < taps; t++)
            add_grad(ctx, dw, c * taps + t, (float)sum[t]);
    }
}
