/* LayerNorm and RMSNorm, one row at a time; sums in CS_LANES fp32 lanes, added pairwise.
 *
 * With h = (x - mean) rstd (RMS: mean 0) and g = dy (offset + w):
 *     dx = dx_in + rstd (g - [LayerNorm] avg(g) - h avg(g h)),  dw += dy h,  db += dy  */
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

static CS_CLONES float row_sum(int64_t n, const float *x)
{
    float lane[CS_LANES] = {0};
    int64_t i = 0;
    for (; i + CS_LANES <= n; i += CS_LANES)
        for (int l = 0; l < CS_LANES; l++)
            lane[l] += x[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i];
    return add_lanes(lane);
}

/* sum of (x - mean)^2 */
static CS_CLONES float row_squares(int64_t n, const float *x, float mean)
{
    float lane[CS_LANES] = {0};
    int64_t i = 0;
    for (; i + CS_LANES <= n; i += CS_LANES)
        for (int l = 0; l < CS_LANES; l++)
            lane[l] += (x[i + l] - mean) * (x[i + l] - mean);
    for (int l = 0; i < n; i++, l++)
        lane[l] += (x[i] - mean) * (x[i] - mean);
    return add_lanes(lane);
}

static CS_CLONES void row_affine(int64_t n, const float *x, float mean, float rstd, float offset,
                                 const float *w, float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * rstd * (offset + w[i]);
}

static CS_CLONES void row_add(int64_t n, const float *b, float *y)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        y[i] += b[i];
}

/* sums[0] = sum of g, sums[1] = sum of g h */
static CS_CLONES void row_dots(int64_t n, const float *x, float mean, float rstd, float offset,
                               const float *w, const float *dy, float sums[2])
{
    float lane_g[CS_LANES] = {0}, lane_gh[CS_LANES] = {0};
    int64_t i = 0;
    for (; i + CS_LANES <= n; i += CS_LANES)
        for (int l = 0; l < CS_LANES; l++) {
            const float g = dy[i + l] * (offset + w[i + l]);
            lane_g[l] += g;
            lane_gh[l] += g * ((x[i + l] - mean) * rstd);
        }
    for (int l = 0; i < n; i++, l++) {
        const float g = dy[i] * (offset + w[i]);
        lane_g[l] += g;
        lane_gh[l] += g * ((x[i] - mean) * rstd);
    }
    sums[0] = add_lanes(lane_g);
    sums[1] = add_lanes(lane_gh);
}

static CS_CLONES void row_dw(int64_t n, const float *x, float mean, float rstd, const float *dy,
                             float *dw)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++)
        dw[i] += dy[i] * ((x[i] - mean) * rstd);
}

struct row_back {
    float mean, rstd, offset;
    float avg_g, avg_gh;
};

static CS_CLONES void row_dx(int64_t n, struct row_back r, const float *x, const float *w,
                             const float *dy, float *dx)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        const float h = (x[i] - r.mean) * r.rstd, g = dy[i] * (r.offset + w[i]);
        dx[i] = r.rstd * (g - r.avg_g - h * r.avg_gh);
    }
}

static CS_CLONES void row_dx_add(int64_t n, struct row_back r, const float *x, const float *w,
                                 const float *dy, const float *dx_in, float *dx)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        const float h = (x[i] - r.mean) * r.rstd, g = dy[i] * (r.offset + w[i]);
        dx[i] = dx_in[i] + r.rstd * (g - r.avg_g - h * r.avg_gh);
    }
}

void cs_cpu_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                 float offset, const void *x, const void *w, const void *b, void *y, float *stat)
{
    (void)ctx;
    const bool is_layer = kind == CS_NORM_LAYER;
    for (int64_t r = 0; r < rows; r++) {
        const float *in = (const float *)x + r * n;
        float *out = (float *)y + r * n;
        const float mean = is_layer ? row_sum(n, in) / (float)n : 0.0f;
        const float rstd = 1.0f / sqrtf(row_squares(n, in, mean) / (float)n + eps);
        row_affine(n, in, mean, rstd, is_layer ? 0.0f : offset, w, out);
        if (b != NULL)
            row_add(n, b, out);
        stat[2 * r] = mean;
        stat[2 * r + 1] = rstd;
    }
}

void cs_cpu_add_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                     float offset, const void *a, const void *b, const void *w, const void *bias,
                     void *sum, void *y, float *stat)
{
    if (rows <= 0)
        return;
    cs_cpu_add(ctx, rows * n, a, b, sum);
    cs_cpu_norm(ctx, kind, rows, n, eps, offset, sum, w, bias, y, stat);
}

/* Gradients in bf16: some columns at a time, in fp32 while rows are added. */
static void columns_bf16(int64_t rows, int64_t n, const float *x, const float *stat,
                         const float *dy, uint16_t *dw, uint16_t *db)
{
    float sum[CS_GRAD_COLUMNS];
    for (int64_t c = 0; c < n; c += CS_GRAD_COLUMNS) {
        const int64_t m = n - c < CS_GRAD_COLUMNS ? n - c : CS_GRAD_COLUMNS;
        if (dw != NULL) {
            memset(sum, 0, sizeof sum);
            for (int64_t r = 0; r < rows; r++)
                row_dw(m, x + r * n + c, stat[2 * r], stat[2 * r + 1], dy + r * n + c, sum);
            cs_grad_add(m, sum, dw + c);
        }
        if (db != NULL) {
            memset(sum, 0, sizeof sum);
            for (int64_t r = 0; r < rows; r++)
                row_add(m, dy + r * n + c, sum);
            cs_grad_add(m, sum, db + c);
        }
    }
}

void cs_cpu_norm_grad(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float offset,
                      const void *x, const void *w, const float *stat, const void *dy,
                      const void *dx_in, void *dx, void *dw, void *db)
{
    const bool is_layer = kind == CS_NORM_LAYER;
    if (rows > 0) {
        cs_grad_begin(ctx, n, dw);
        cs_grad_begin(ctx, n, db);
    }
    if (ctx->grad == CS_GRAD_BF16) { /* first: dx may be dy */
        columns_bf16(rows, n, x, stat, dy, dw, db);
        dw = db = NULL;
    }
    for (int64_t r = 0; r < rows; r++) {
        const float *in = (const float *)x + r * n, *d = (const float *)dy + r * n;
        struct row_back back = {stat[2 * r], stat[2 * r + 1], is_layer ? 0.0f : offset, 0, 0};
        float sums[2];
        row_dots(n, in, back.mean, back.rstd, back.offset, w, d, sums);
        back.avg_g = is_layer ? sums[0] / (float)n : 0.0f;
        back.avg_gh = sums[1] / (float)n;
        if (dw != NULL)
            row_dw(n, in, back.mean, back.rstd, d, dw);
        if (db != NULL)
            row_add(n, d, db);
        float *out = (float *)dx + r * n;
        if (dx_in != NULL)
            row_dx_add(n, back, in, w, d, (const float *)dx_in + r * n, out);
        else
            row_dx(n, back, in, w, d, out);
    }
}
