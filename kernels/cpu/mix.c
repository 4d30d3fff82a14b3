/* Weighted sums of rows, and rows of neighbours. */
#include <string.h>

#include "kernels/cpu/cpu.h"

/* y += w x */
static CS_CLONES void add_scaled(int64_t n, float w, const float *x, float *y)
{
    CS_ELEMENTWISE
    for (int64_t j = 0; j < n; j++)
        y[j] += w * x[j];
}

/* columns [0, n) of one row: sum = (add: sum +) what its list says; rows of x are ld apart */
static void mix_row(int64_t n, int64_t ld, int32_t from, int32_t to, const int32_t *index,
                    const float *weight, const float *x, float *sum)
{
    for (int32_t e = from; e < to; e++)
        add_scaled(n, weight[e], x + index[e] * ld, sum);
}

void cs_cpu_mix_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                     const int32_t *index, const float *weight, const void *x, int add, void *y)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++) {
        float *out = (float *)y + i * n;
        if (!add)
            memset(out, 0, (size_t)n * sizeof *out);
        mix_row(n, n, start[i], start[i + 1], index, weight, x, out);
    }
}

void cs_cpu_mix_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                          const int32_t *index, const float *weight, const void *dy, void *dx)
{
    cs_grad_begin(ctx, rows * n, dx);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; start[i] < start[i + 1] && c < n; c += CS_GRAD_COLUMNS) {
            const int64_t m = n - c < CS_GRAD_COLUMNS ? n - c : CS_GRAD_COLUMNS;
            const float *from = (const float *)dy + c;
            float sum[CS_GRAD_COLUMNS] = {0};
            if (ctx->grad != CS_GRAD_BF16) {
                mix_row(m, n, start[i], start[i + 1], index, weight, from, (float *)dx + i * n + c);
                continue;
            }
            mix_row(m, n, start[i], start[i + 1], index, weight, from, sum);
            cs_grad_add(m, sum, (uint16_t *)dx + i * n + c);
        }
}

void cs_cpu_unfold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *index,
                   const void *x, void *y)
{
    (void)ctx;
    for (int64_t i = 0; i < rows * taps; i++) {
        const int64_t row = index != NULL ? index[i] : i;
        const float *from = (const float *)x + row * n;
        float *to = (float *)y + i / taps * n * taps + i % taps;
        for (int64_t j = 0; j < n; j++)
            to[j * taps] = row < 0 ? 0 : from[j];
    }
}

void cs_cpu_fold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *start,
                 const int32_t *entry, const void *dy, void *dx)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t first = start != NULL ? start[i] : i,
                      end = start != NULL ? start[i + 1] : i + 1;
        float *to = (float *)dx + i * n;
        memset(to, 0, (size_t)n * sizeof *to);
        for (int64_t e = first; e < end; e++) {
            const int64_t at = start != NULL ? entry[e] : e;
            const float *from = (const float *)dy + at / taps * n * taps + at % taps;
            for (int64_t j = 0; j < n; j++)
                to[j] += from[j * taps];
        }
    }
}
