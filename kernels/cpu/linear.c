/* A linear layer with what surrounds it, as the plain operators in their order: to the bit what
 * separate calls give. */
#include "kernels/cpu/cpu.h"

void cs_cpu_linear(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *x,
                   int64_t ldx, const void *w, const void *bias, const void *residual,
                   enum cs_act act, void *pre, void *y)
{
    void *product = pre != NULL ? pre : y;
    cs_cpu_gemm(ctx, 0, 1, rows, out, in, 1.0f, x, ldx, w, in, 0.0f, product, out);
    if (bias != NULL)
        cs_cpu_bias_add(ctx, rows, out, product, out, bias);
    if (act != CS_ACT_NONE || product != y)
        cs_cpu_act(ctx, act, rows * out, product, y);
    if (residual != NULL)
        cs_cpu_add(ctx, rows * out, residual, y, y);
}

void cs_cpu_linear_dgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *w, enum cs_act act, const void *pre, void *dx)
{
    cs_cpu_gemm(ctx, 0, 0, rows, in, out, 1.0f, dy, out, w, in, 0.0f, dx, in);
    if (act != CS_ACT_NONE)
        cs_cpu_act_grad(ctx, act, rows * in, pre, dx, dx);
}

void cs_cpu_linear_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *x, void *dw, void *db)
{
    if (rows <= 0)
        return;
    if (dw != NULL)
        cs_cpu_gemm_wgrad(ctx, rows, out, in, dy, out, x, in, dw);
    if (db != NULL)
        cs_cpu_bias_grad(ctx, rows, out, dy, out, db);
}
