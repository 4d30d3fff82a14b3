/* Sums over whole tensors. */
#include "kernels/cpu/cpu.h"

/* Squares in fp64: element i goes to lane i % CS_LANES, lanes are added pairwise at the end. */
static CS_CLONES double sum_squares(int64_t n, const float *x)
{
    double lane[CS_LANES] = {0};
    int64_t i = 0;
    for (; i + CS_LANES <= n; i += CS_LANES)
        for (int l = 0; l < CS_LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += (double)x[i] * (double)x[i];
    for (int width = CS_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lane[l] += lane[l + width];
    return lane[0];
}

static double sum_squares_bf16(int64_t n, const uint16_t *x)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double wide = (double)cs_round_widen(x[i]);
        sum += wide * wide;
    }
    return sum;
}

void cs_cpu_sumsq(struct cs_ctx *ctx, int64_t n, const void *x, double *sum)
{
    *sum = ctx->grad == CS_GRAD_BF16 ? sum_squares_bf16(n, x) : sum_squares(n, x);
}

void cs_cpu_sumsq_many(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_sumsq_tensor *tensor,
                       double *sum)
{
    for (int32_t i = 0; i < n_tensors; i++)
        cs_cpu_sumsq(ctx, tensor[i].n, tensor[i].x, &sum[i]);
}
