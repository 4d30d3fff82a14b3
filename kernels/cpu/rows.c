/* Rows moved, weighted and added: heads of a buffer copied into another, rows times a number each,
 * sums of picked rows. */
#include <string.h>

#include "kernels/cpu/cpu.h"

void cs_cpu_copy_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                       int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++)
        for (int32_t h = 0; h < heads; h++)
            memcpy((float *)y + i * y_row + h * y_head, (const float *)x + i * x_row + h * x_head,
                   (size_t)dim * sizeof(float));
}

static CS_CLONES void add_row(int64_t n, const float *x, float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void cs_cpu_add_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                      int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++)
        for (int32_t h = 0; h < heads; h++)
            add_row(dim, (const float *)x + i * x_row + h * x_head,
                    (float *)y + i * y_row + h * y_head);
}

static CS_CLONES void scale_row(int64_t n, const float *x, float weight, float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * weight;
}

void cs_cpu_scale_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                       const float *weight, void *y)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++)
        scale_row(n, (const float *)x + i * n, weight[i], (float *)y + i * n);
}

void cs_cpu_scale_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                            const float *weight, const void *dy, void *dx, float *dweight)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++) {
        const float *a = (const float *)x + i * n, *d = (const float *)dy + i * n;
        double sum = 0.0;
        for (int64_t j = 0; j < n; j++)
            sum += (double)a[j] * (double)d[j];
        dweight[i] = (float)sum;
        scale_row(n, d, weight[i], (float *)dx + i * n);
    }
}

void cs_cpu_sum_rows(struct cs_ctx *ctx, int64_t rows, int32_t terms, int64_t n,
                     const int32_t *index, const void *x, const void *residual, void *y)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++) {
        float *out = (float *)y + i * n;
        if (residual == NULL)
            memset(out, 0, (size_t)n * sizeof(float));
        else if (residual != y)
            memcpy(out, (const float *)residual + i * n, (size_t)n * sizeof(float));
        for (int32_t t = 0; t < terms; t++) {
            CS_ASSERT(index[i * terms + t] >= 0);
            add_row(n, (const float *)x + index[i * terms + t] * n, out);
        }
    }
}
