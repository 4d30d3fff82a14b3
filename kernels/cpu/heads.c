/* RMS norms of the heads of a row, each by itself (or some columns of one, whose sums come from
 * elsewhere), and scales by column. With h = x rstd and
 * g = dy (offset + w): dx = rstd (g - h avg(g h)), dw += dy h. Sums in CS_LANES fp32 lanes, added
 * pairwise, as in norm.c. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

static inline float add_lanes(float *lane)
{
    for (int width = CS_LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lane[l] += lane[l + width];
    return lane[0];
}

static CS_CLONES float squares(int64_t n, const float *x)
{
    float lane[CS_LANES] = {0};
    int64_t i = 0;
    for (; i + CS_LANES <= n; i += CS_LANES)
        for (int l = 0; l < CS_LANES; l++)
            lane[l] += x[i + l] * x[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i] * x[i];
    return add_lanes(lane);
}

static CS_CLONES void times(int64_t n, const float *x, float rstd, float offset, const float *w,
                            float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * rstd * (offset + w[i]);
}

static CS_CLONES void times_rstd(int64_t n, const float *x, float rstd, float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * rstd;
}

void cs_cpu_norm_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n, float eps,
                       float offset, const void *x, int64_t ld_x, const void *w,
                       const struct cs_norm_all *all, void *y, int64_t ld_y, float *stat)
{
    (void)ctx;
    for (int64_t r = 0; r < rows; r++)
        for (int32_t h = 0; h < heads; h++) {
            const float *in = (const float *)x + r * ld_x + h * n;
            float *out = (float *)y + r * ld_y + h * n;
            const float sum = all != NULL ? all->sum[r * heads + h] : squares(n, in);
            const float rstd = 1.0f / sqrtf(sum / (float)(all != NULL ? all->n : n) + eps);
            stat[r * heads + h] = rstd;
            if (w != NULL)
                times(n, in, rstd, offset, w, out);
            else
                times_rstd(n, in, rstd, out);
        }
}

/* g = dy (offset + w) into `g`, and the sum of g h */
static CS_CLONES float weigh(int64_t n, const float *x, float rstd, float offset, const float *w,
                             const float *dy, float *g)
{
    float lane[CS_LANES] = {0};
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        g[i] = w != NULL ? dy[i] * (offset + w[i]) : dy[i];
    int64_t i = 0;
    for (; i + CS_LANES <= n; i += CS_LANES)
        for (int l = 0; l < CS_LANES; l++)
            lane[l] += g[i + l] * (x[i + l] * rstd);
    for (int l = 0; i < n; i++, l++)
        lane[l] += g[i] * (x[i] * rstd);
    return add_lanes(lane);
}

/* dx holds g, or beside (adds) */
static CS_CLONES void finish(int64_t n, const float *x, float rstd, float avg, const float *g,
                             const float *add, float *dx)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        const float d = rstd * (g[i] - x[i] * rstd * avg);
        dx[i] = add != NULL ? add[i] + d : d;
    }
}

static CS_CLONES void add_products(int64_t n, const float *x, float rstd, const float *dy,
                                   float *sum)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        sum[i] += dy[i] * (x[i] * rstd);
}

struct rows {
    int64_t rows, n, ld_x, ld_dy;
    int32_t heads;
    const float *x, *dy, *stat; /* stat NULL: all 1 */
};

/* dw (n) += sums over rows and heads, in their order; bf16: some columns at a time in fp32 */
static void column_sums(const struct cs_ctx *ctx, const struct rows *a, void *dw)
{
    float part[CS_GRAD_COLUMNS];
    const bool is_bf16 = ctx->grad == CS_GRAD_BF16;
    const int64_t step = is_bf16 ? CS_GRAD_COLUMNS : a->n;
    cs_grad_begin(ctx, a->n, dw);
    for (int64_t c = 0; c < a->n; c += step) {
        const int64_t m = a->n - c < step ? a->n - c : step;
        float *sum = is_bf16 ? part : (float *)dw;
        if (is_bf16)
            memset(part, 0, sizeof part);
        for (int64_t r = 0; r < a->rows; r++)
            for (int32_t h = 0; h < a->heads; h++)
                add_products(m, a->x + r * a->ld_x + h * a->n + c,
                             a->stat != NULL ? a->stat[r * a->heads + h] : 1.0f,
                             a->dy + r * a->ld_dy + h * a->n + c, sum);
        if (is_bf16)
            cs_grad_add(m, part, (uint16_t *)dw + c);
    }
}

enum { CHUNK = 4096 };

/* the sum of g h over a head */
static CS_CLONES float dot(int64_t n, const float *x, float rstd, float offset, const float *w,
                           const float *dy)
{
    float g[CHUNK], sum = 0;
    for (int64_t c = 0; c < n; c += CHUNK)
        sum += weigh(n - c < CHUNK ? n - c : CHUNK, x + c, rstd, offset, w != NULL ? w + c : NULL,
                     dy + c, g);
    return sum;
}

void cs_cpu_norm_heads_sums(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                            float offset, const void *x, int64_t ld_x, const void *w,
                            const float *stat, const void *dy, int64_t ld_dy, float *sum)
{
    (void)ctx;
    for (int64_t r = 0; r < rows; r++)
        for (int32_t h = 0; h < heads; h++) {
            const int64_t i = r * heads + h;
            const float *in = (const float *)x + r * ld_x + h * n;
            sum[i] = dy == NULL
                         ? squares(n, in)
                         : dot(n, in, stat[i], offset, w, (const float *)dy + r * ld_dy + h * n);
        }
}

void cs_cpu_norm_heads_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                            float offset, const void *x, int64_t ld_x, const void *w,
                            const float *stat, const struct cs_norm_all *all, const void *dy,
                            int64_t ld_dy, void *dx, int64_t ld_dx, int adds, void *dw)
{
    float g[CHUNK];
    const struct rows a = {rows, n, ld_x, ld_dy, heads, x, dy, stat};
    if (dw != NULL && rows > 0)
        column_sums(ctx, &a, dw);
    for (int64_t r = 0; r < rows; r++)
        for (int32_t h = 0; h < heads; h++) {
            const float *in = a.x + r * ld_x + h * n, *d = a.dy + r * ld_dy + h * n, *weight = w;
            float *out = (float *)dx + r * ld_dx + h * n;
            const float rstd = stat[r * heads + h];
            const float sum =
                all != NULL ? all->sum[r * heads + h] : dot(n, in, rstd, offset, weight, d);
            const float avg = sum / (float)(all != NULL ? all->n : n);
            for (int64_t c = 0; c < n; c += CHUNK) {
                const int64_t m = n - c < CHUNK ? n - c : CHUNK;
                weigh(m, in + c, rstd, offset, weight != NULL ? weight + c : NULL, d + c, g);
                finish(m, in + c, rstd, avg, g, adds ? out + c : NULL, out + c);
            }
        }
}

static CS_CLONES void scale_row(int64_t n, const float *x, const float *w, const float *residual,
                                float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = residual != NULL ? x[i] * w[i] + residual[i] : x[i] * w[i];
}

static CS_CLONES void scale_all(int64_t n, const float *x, float w, const float *residual, float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = residual != NULL ? x[i] * w + residual[i] : x[i] * w;
}

void cs_cpu_scale_columns(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x, const void *w,
                          int32_t w_step, const void *residual, void *y)
{
    (void)ctx;
    const float *in = x, *add = residual, *weight = w;
    float *out = y;
    if (w_step == 0) {
        scale_all(rows * n, in, weight[0], add, out);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        scale_row(n, in + r * n, weight, add != NULL ? add + r * n : NULL, out + r * n);
}

void cs_cpu_scale_columns_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                                const void *dy, void *dw)
{
    const struct rows a = {rows, n, n, n, 1, x, dy, NULL};
    if (rows > 0)
        column_sums(ctx, &a, dw);
}
