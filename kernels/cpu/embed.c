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

/* All rows of the id of row `first`, of which it is the first, added to n columns of its gradient
 * (stride ld). */
static void one_id_bf16(int64_t rows, int64_t n, int64_t ld, int64_t first, const int32_t *ids,
                        const float *dy, float scale, uint16_t *grad)
{
    float sum[CS_GRAD_COLUMNS];
    cs_grad_load(n, grad, sum);
    for (int64_t i = first; i < rows; i++)
        if (ids[i] == ids[first])
            add_scaled_row(n, scale, dy + i * ld, sum);
    cs_grad_store(n, sum, grad);
}

static bool is_first(const int32_t *ids, int64_t row)
{
    for (int64_t i = 0; i < row; i++)
        if (ids[i] == ids[row])
            return false;
    return true;
}

static void embed_grad_bf16(int64_t rows, int64_t n, const int32_t *ids, const float *dy,
                            float scale, uint16_t *dtable)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; ids[i] >= 0 && c < n && is_first(ids, i); c += CS_GRAD_COLUMNS) {
            const int64_t m = n - c < CS_GRAD_COLUMNS ? n - c : CS_GRAD_COLUMNS;
            one_id_bf16(rows, m, n, i, ids, dy + c, scale, dtable + ids[i] * n + c);
        }
}

void cs_cpu_embed_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                       const void *dy, float scale, void *dtable)
{
    if (ctx->grad == CS_GRAD_BF16) {
        embed_grad_bf16(rows, n, ids, dy, scale, dtable);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        if (ids[i] >= 0)
            add_scaled_row(n, scale, (const float *)dy + i * n, (float *)dtable + ids[i] * n);
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
