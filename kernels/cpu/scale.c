/* Casts between fp32 and the act type (fp32 here: copies) and sums of scaled fp32 tensors. */
#include <string.h>

#include "kernels/cpu/cpu.h"

static CS_CLONES void scale(int64_t n, float alpha, const float *x, float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = alpha * x[i];
}

static CS_CLONES void scale_both(int64_t n, float alpha, const float *x, float beta, float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = alpha * x[i] + beta * y[i];
}

void cs_cpu_cast_to_act(struct cs_ctx *ctx, int64_t n, const float *x, void *y)
{
    (void)ctx;
    if (n > 0)
        memcpy(y, x, (size_t)n * sizeof *x);
}

void cs_cpu_cast_to_f32(struct cs_ctx *ctx, int64_t n, const void *x, float *y)
{
    (void)ctx;
    if (n > 0)
        memcpy(y, x, (size_t)n * sizeof *y);
}

void cs_cpu_scale_add(struct cs_ctx *ctx, int64_t n, float alpha, const float *x, float beta,
                      float *y)
{
    (void)ctx;
    if (beta == 0.0f)
        scale(n, alpha, x, y);
    else
        scale_both(n, alpha, x, beta, y);
}
