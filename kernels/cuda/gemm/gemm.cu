/* Matrix products: cuBLASLt through the cache of plans (gemm_plan.cu); what it has no kernel for
 * runs in a plain tiled kernel here. */
#include "kernels/cuda/gemm/gemm.cuh"

#define TILE 16

struct plain_args {
    int64_t m, n, k, lda, ldb, ldc;
    int trans_a, trans_b;
    float alpha, beta;
};

/* a, b: as gemm; k may be 0 */
template <typename T, typename C>
__global__ void plain_gemm(struct plain_args g, const T *a, const T *b, C *c)
{
    __shared__ float at[TILE][TILE + 1], bt[TILE][TILE + 1];
    const int tx = (int)threadIdx.x, ty = (int)threadIdx.y;
    const int64_t col = (int64_t)blockIdx.x * TILE + tx;
    for (int64_t row0 = (int64_t)blockIdx.y * TILE; row0 < g.m; row0 += (int64_t)gridDim.y * TILE) {
        const int64_t row = row0 + ty;
        float sum = 0.0f;
        for (int64_t k0 = 0; k0 < g.k; k0 += TILE) {
            const int64_t ka = k0 + tx, kb = k0 + ty;
            at[ty][tx] = row < g.m && ka < g.k
                             ? cs_to_float(g.trans_a ? a[ka * g.lda + row] : a[row * g.lda + ka])
                             : 0.0f;
            bt[ty][tx] = kb < g.k && col < g.n
                             ? cs_to_float(g.trans_b ? b[col * g.ldb + kb] : b[kb * g.ldb + col])
                             : 0.0f;
            __syncthreads();
            for (int i = 0; i < TILE; i++)
                sum += at[ty][i] * bt[i][tx];
            __syncthreads();
        }
        if (row < g.m && col < g.n) {
            C *out = c + row * g.ldc + col;
            const float old = g.beta == 0.0f ? 0.0f : g.beta * cs_to_float(*out);
            *out = cs_from_float<C>(g.k > 0 ? g.alpha * sum + old : old);
        }
    }
}

template <typename T, typename C>
static void launch_plain(struct cs_ctx *ctx, const struct plain_args *g, const void *a,
                         const void *b, void *c)
{
    const int64_t row_tiles = (g->m + TILE - 1) / TILE;
    const dim3 grid((unsigned)((g->n + TILE - 1) / TILE),
                    (unsigned)(row_tiles < 65535 ? row_tiles : 65535));
    plain_gemm<T, C><<<grid, dim3(TILE, TILE), 0, cs_cuda_stream_of(ctx)>>>(*g, (const T *)a,
                                                                            (const T *)b, (C *)c);
    CS_CUDA_LAUNCHED(ctx, "gemm");
}

template <typename T, typename C>
void cs_cuda_matmul(struct cs_ctx *ctx, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                    float alpha, const void *a, int64_t lda, const void *b, int64_t ldb, float beta,
                    void *c, int64_t ldc)
{
    if (m <= 0 || n <= 0)
        return;
    const struct cs_gemm g = {.trans_a = trans_a,
                              .trans_b = trans_b,
                              .m = m,
                              .n = n,
                              .k = k,
                              .lda = lda,
                              .ldb = ldb,
                              .ldc = ldc,
                              .alpha = alpha,
                              .beta = beta,
                              .a = a,
                              .b = b,
                              .c = c,
                              .d = c,
                              .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    if (cs_cuda_gemm_run<T, C>(ctx, &g))
        return;
    const struct plain_args plain = {m, n, k, lda, ldb, ldc, trans_a, trans_b, alpha, beta};
    launch_plain<T, C>(ctx, &plain, a, b, c);
}

template <typename T>
void cs_cuda_gemm(struct cs_ctx *ctx, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                  float alpha, const void *a, int64_t lda, const void *b, int64_t ldb, float beta,
                  void *c, int64_t ldc)
{
    cs_cuda_matmul<T, T>(ctx, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

template <typename T>
void cs_cuda_gemm_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t out, int64_t in, const void *dy,
                        int64_t ld_dy, const void *x, int64_t ldx, void *dw)
{
    auto *matmul =
        ctx->grad == CS_GRAD_BF16 ? cs_cuda_matmul<T, __nv_bfloat16> : cs_cuda_matmul<T, float>;
    if (rows > 0)
        matmul(ctx, 1, 0, out, in, rows, 1.0f, dy, ld_dy, x, ldx, ctx->is_grad_new ? 0.0f : 1.0f,
               dw, in);
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_gemm<T>(struct cs_ctx *, int, int, int64_t, int64_t, int64_t, float,     \
                                  const void *, int64_t, const void *, int64_t, float, void *,     \
                                  int64_t);                                                        \
    template void cs_cuda_gemm_wgrad<T>(struct cs_ctx *, int64_t, int64_t, int64_t, const void *,  \
                                        int64_t, const void *, int64_t, void *);                   \
    template void cs_cuda_matmul<T, T>(struct cs_ctx *, int, int, int64_t, int64_t, int64_t,       \
                                       float, const void *, int64_t, const void *, int64_t, float, \
                                       void *, int64_t);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
