/* Matrix products (OpenBLAS) and the bias of a linear layer. */
#include <cblas.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

/* The part of sgemm that is left when the inner dimension is empty: c = beta c. */
static void scale_matrix(int64_t m, int64_t n, float beta, float *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            c[i * ldc + j] = beta == 0.0f ? 0.0f : beta * c[i * ldc + j];
}

static blasint to_blas(int64_t v)
{
    CS_ASSERT(v >= 0 && v <= INT32_MAX);
    return (blasint)v;
}

void cs_cpu_sgemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                  const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc)
{
    if (m <= 0 || n <= 0)
        return;
    if (k <= 0) {
        scale_matrix(m, n, beta, c, ldc);
        return;
    }
    cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
                trans_b ? CblasTrans : CblasNoTrans, to_blas(m), to_blas(n), to_blas(k), alpha, a,
                to_blas(lda), b, to_blas(ldb), beta, c, to_blas(ldc));
}

void cs_cpu_gemm(struct cs_ctx *ctx, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                 float alpha, const void *a, int64_t lda, const void *b, int64_t ldb, float beta,
                 void *c, int64_t ldc)
{
    (void)ctx;
    cs_cpu_sgemm(trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* A tile of dw at a time, in fp32 while rows are added. */
static void wgrad_bf16(int64_t rows, int64_t out, int64_t in, const float *dy, int64_t ld_dy,
                       const float *x, int64_t ldx, uint16_t *dw)
{
    enum { TILE_ROWS = 8 };

    float tile[TILE_ROWS * CS_GRAD_COLUMNS];
    for (int64_t o = 0; o < out; o += TILE_ROWS)
        for (int64_t i = 0; i < in; i += CS_GRAD_COLUMNS) {
            const int64_t m = out - o < TILE_ROWS ? out - o : TILE_ROWS;
            const int64_t n = in - i < CS_GRAD_COLUMNS ? in - i : CS_GRAD_COLUMNS;
            cs_cpu_sgemm(1, 0, m, n, rows, 1.0f, dy + o, ld_dy, x + i, ldx, 0.0f, tile, n);
            for (int64_t r = 0; r < m; r++)
                cs_grad_add(n, tile + r * n, dw + (o + r) * in + i);
        }
}

void cs_cpu_gemm_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t out, int64_t in, const void *dy,
                       int64_t ld_dy, const void *x, int64_t ldx, void *dw)
{
    if (rows > 0)
        cs_grad_begin(ctx, out * in, dw);
    if (ctx->grad == CS_GRAD_BF16 && rows > 0)
        wgrad_bf16(rows, out, in, dy, ld_dy, x, ldx, dw);
    else if (ctx->grad == CS_GRAD_F32)
        cs_cpu_sgemm(1, 0, out, in, rows, 1.0f, dy, ld_dy, x, ldx, 1.0f, dw, in);
}

/* y += x */
static CS_CLONES void add_row(int64_t n, float *y, const float *x)
{
    CS_ELEMENTWISE
    for (int64_t j = 0; j < n; j++)
        y[j] += x[j];
}

void cs_cpu_bias_add(struct cs_ctx *ctx, int64_t rows, int64_t n, void *y, int64_t ldy,
                     const void *bias)
{
    (void)ctx;
    for (int64_t i = 0; i < rows; i++)
        add_row(n, (float *)y + i * ldy, bias);
}

static void bias_grad_bf16(int64_t rows, int64_t n, const float *dy, int64_t ld_dy, uint16_t *db)
{
    float sum[CS_GRAD_COLUMNS];
    for (int64_t c = 0; c < n; c += CS_GRAD_COLUMNS) {
        const int64_t m = n - c < CS_GRAD_COLUMNS ? n - c : CS_GRAD_COLUMNS;
        memset(sum, 0, sizeof sum);
        for (int64_t i = 0; i < rows; i++)
            add_row(m, sum, dy + i * ld_dy + c);
        cs_grad_add(m, sum, db + c);
    }
}

void cs_cpu_bias_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *dy, int64_t ld_dy,
                      void *db)
{
    if (rows > 0)
        cs_grad_begin(ctx, n, db);
    if (ctx->grad == CS_GRAD_BF16) {
        bias_grad_bf16(rows, n, dy, ld_dy, db);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        add_row(n, db, (const float *)dy + i * ld_dy);
}
