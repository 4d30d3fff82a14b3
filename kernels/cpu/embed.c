/* Rows by index: embedding, its gradient, gather and scatter. */
#include <string.h>

#include "kernels/cpu/cpu.h"

static CS_CLONES void scale_row(int64_t n, float scale, const float *x, float *y)
{
    CS_ELEMENTWISE
    for (int64_t j = 0; j < n; j++)
        y[j] = x[j] * scale;
}

/* y += scale x */
static CS_CLONES void add_scaled_row(int64_t n, float scale, const float *x, float *y)
{
    CS_ELEMENTWISE
    for (int64_t j = 0; j < n; j++)
        y[j] += x[j] * scale;
}

static void zero_row(int64_t n, float *y)
{
    memset(y, 0, (size_t)n * sizeof *y);
}

void cs_cpu_embed(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                  const void *table, float scale, void *y)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++) {
        if (ids[i] < 0)
            zero_row(n, (float *)y + i * n);
        else
            scale_row(n, scale, (const float *)table + ids[i] * n, (float *)y + i * n);
    }
}

void cs_cpu_embed_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                       const void *dy, float scale, float *dtable)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++)
        if (ids[i] >= 0)
            add_scaled_row(n, scale, (const float *)dy + i * n, dtable + ids[i] * n);
}

void cs_cpu_gather_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                        const void *x, void *y)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++) {
        if (index[i] < 0)
            zero_row(n, (float *)y + i * n);
        else
            memcpy((float *)y + i * n, (const float *)x + index[i] * n, (size_t)n * sizeof(float));
    }
}

void cs_cpu_scatter_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                         const void *x, void *y, int add)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++) {
        if (index[i] < 0)
            continue;
        const float *from = (const float *)x + i * n;
        float *to = (float *)y + index[i] * n;
        if (add)
            add_scaled_row(n, 1.0f, from, to);
        else
            memcpy(to, from, (size_t)n * sizeof(float));
    }
}
