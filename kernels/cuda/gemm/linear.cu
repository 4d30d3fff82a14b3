/* A linear layer with its bias, activation and residual: epilogues of cuBLASLt where they exist
 * (BIAS, GELU_AUX_BIAS and DGELU, which are the tanh form; the residual as beta = 1 with c apart
 * from d), else the product and one kernel for the rest. y, pre and dx are OVERWRITTEN, dw and db
 * ACCUMULATED. */
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/gemm/gemm.cuh"

struct finish_args {
    int64_t rows, n;
    const void *product, *bias, *residual; /* bias, residual: NULL: none */
    void *pre, *y;                         /* pre NULL: not kept */
};

/* y (rows, n) = act(product + bias) + residual */
template <typename T, enum cs_act KIND> __global__ void finish_kernel(struct finish_args g)
{
    const int64_t packs = (g.n + CS_PACK - 1) / CS_PACK;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < g.rows * packs;
         i += step) {
        const int64_t row = i / packs, col = (i - row * packs) * CS_PACK, count = g.n - col;
        const int64_t at = row * g.n + col;
        float x[CS_PACK], bias[CS_PACK] = {}, res[CS_PACK] = {};
        cs_load_pack((const T *)g.product + at, count, x);
        if (g.bias != nullptr)
            cs_load_pack((const T *)g.bias + col, count, bias);
        if (g.residual != nullptr)
            cs_load_pack((const T *)g.residual + at, count, res);
        for (int j = 0; j < CS_PACK; j++)
            x[j] += bias[j];
        if (g.pre != nullptr)
            cs_store_pack((T *)g.pre + at, count, x);
        for (int j = 0; j < CS_PACK; j++)
            x[j] = cs_act_value<T, KIND>(x[j]) + res[j];
        cs_store_pack((T *)g.y + at, count, x);
    }
}

typedef void finish_fn(struct finish_args g);

template <typename T>
static void finish(struct cs_ctx *ctx, enum cs_act act, const struct finish_args *g)
{
    static finish_fn *const of_kind[] = {
        finish_kernel<T, CS_ACT_NONE>,      finish_kernel<T, CS_ACT_GELU>,
        finish_kernel<T, CS_ACT_GELU_TANH>, finish_kernel<T, CS_ACT_QUICK_GELU>,
        finish_kernel<T, CS_ACT_SILU>,      finish_kernel<T, CS_ACT_RELU>,
        finish_kernel<T, CS_ACT_SIGMOID>,
    };
    static_assert(sizeof of_kind / sizeof of_kind[0] == CS_ACT_KINDS, "one kernel per activation");
    const int64_t packs = (g->n + CS_PACK - 1) / CS_PACK;
    of_kind[act]<<<cs_blocks(g->rows * packs, 256), 256, 0, cs_cuda_stream_of(ctx)>>>(*g);
    CS_CUDA_LAUNCHED(ctx, "linear");
}

static bool is_aligned(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

/* y = x w^T + bias + residual, without activation; false: no such kernel. */
template <typename T> static bool run_affine(struct cs_ctx *ctx, struct cs_gemm g)
{
    if (g.bias != nullptr) {
        if (!is_aligned(g.bias))
            return false;
        g.epilogue = CUBLASLT_EPILOGUE_BIAS;
    }
    return cs_cuda_gemm_run<T, T>(ctx, &g);
}

template <typename T>
static bool run_gelu(struct cs_ctx *ctx, struct cs_gemm g, const void *bias, void *pre)
{
    const bool has_aux = pre != nullptr;
    if (sizeof(T) != 2 || (has_aux && (g.n % CS_PACK != 0 || !is_aligned(pre))) ||
        (bias != nullptr && !is_aligned(bias)))
        return false;
    g.epilogue = bias != nullptr
                     ? (has_aux ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_BIAS)
                     : (has_aux ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU);
    g.bias = bias;
    g.aux = pre;
    return cs_cuda_gemm_run<T, T>(ctx, &g);
}

template <typename T>
void cs_cuda_linear(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *x,
                    int64_t ldx, const void *w, const void *bias, const void *residual,
                    enum cs_act act, void *pre, void *y)
{
    if (rows <= 0 || out <= 0)
        return;
    const bool is_affine = act == CS_ACT_NONE && pre == nullptr;
    struct cs_gemm g = {.trans_b = 1,
                        .m = rows,
                        .n = out,
                        .k = in,
                        .lda = ldx,
                        .ldb = in,
                        .ldc = out,
                        .alpha = 1.0f,
                        .a = x,
                        .b = w,
                        .c = y,
                        .d = y,
                        .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    if (act == CS_ACT_GELU_TANH && residual == nullptr && run_gelu<T>(ctx, g, bias, pre))
        return;
    struct finish_args rest = {rows, out, pre != nullptr ? pre : y, nullptr, residual, nullptr, y};
    g.c = g.d = pre != nullptr ? pre : y;
    g.bias = bias;
    if (is_affine && residual != nullptr) {
        struct cs_gemm with = g;
        with.beta = 1.0f;
        with.c = residual;
        if (run_affine<T>(ctx, with))
            return;
    }
    if (!run_affine<T>(ctx, g)) {
        cs_cuda_gemm<T>(ctx, 0, 1, rows, out, in, 1.0f, x, ldx, w, in, 0.0f, g.d, out);
        rest.bias = bias;
        rest.pre = pre;
    }
    if (!is_affine || rest.bias != nullptr || residual != nullptr)
        finish<T>(ctx, act, &rest);
}

template <typename T>
void cs_cuda_linear_dgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                          const void *w, enum cs_act act, const void *pre, void *dx)
{
    if (rows <= 0 || in <= 0)
        return;
    const struct cs_gemm g = {.m = rows,
                              .n = in,
                              .k = out,
                              .lda = out,
                              .ldb = in,
                              .ldc = in,
                              .alpha = 1.0f,
                              .a = dy,
                              .b = w,
                              .c = dx,
                              .d = dx,
                              .epilogue = CUBLASLT_EPILOGUE_DGELU,
                              .aux = pre};
    if (act == CS_ACT_GELU_TANH && sizeof(T) == 2 && in % CS_PACK == 0 && is_aligned(pre) &&
        cs_cuda_gemm_run<T, T>(ctx, &g))
        return;
    cs_cuda_gemm<T>(ctx, 0, 0, rows, in, out, 1.0f, dy, out, w, in, 0.0f, dx, in);
    if (act != CS_ACT_NONE)
        cs_cuda_act_grad<T>(ctx, act, rows * in, pre, dx, dx);
}

/* The library's sums of columns beside dw (BGRADB) were slower than the two apart: 0.0749 against
 * 0.0658 ms at 2916 x 1152 x 4304, 0.2340 against 0.2206 ms at 11664 rows. */
template <typename T>
void cs_cuda_linear_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                          const void *x, void *dw, void *db)
{
    if (dw != nullptr)
        cs_cuda_gemm_wgrad<T>(ctx, rows, out, in, dy, out, x, in, dw);
    if (db != nullptr)
        cs_cuda_bias_grad<T>(ctx, rows, out, dy, out, db);
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_linear<T>(struct cs_ctx *, int64_t, int64_t, int64_t, const void *,      \
                                    int64_t, const void *, const void *, const void *,             \
                                    enum cs_act, void *, void *);                                  \
    template void cs_cuda_linear_dgrad<T>(struct cs_ctx *, int64_t, int64_t, int64_t,              \
                                          const void *, const void *, enum cs_act, const void *,   \
                                          void *);                                                 \
    template void cs_cuda_linear_wgrad<T>(struct cs_ctx *, int64_t, int64_t, int64_t,              \
                                          const void *, const void *, void *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
