/* LayerNorm and RMSNorm: one block a row, sums in fp32 in a fixed order. y and dx are OVERWRITTEN,
 * dw and db ACCUMULATED (colsum.cuh). Formulas: kernels/cpu/norm.c. */
#include "kernels/cuda/colsum.cuh"

#define THREADS 256

/* x, y (rows, n); w, b (n); stat (rows, 2) */
template <typename T, bool IS_LAYER>
__global__ void norm_kernel(int64_t rows, int64_t n, float eps, float offset, const T *x,
                            const T *w, const T *b, T *y, float *stat)
{
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *in = x + row * n;
        float v[CS_PACK], mean = 0.0f, sum = 0.0f;
        if (IS_LAYER) {
            for (int64_t c = threadIdx.x * CS_PACK; c < n; c += THREADS * CS_PACK) {
                cs_load_pack(in + c, n - c, v);
                for (int i = 0; i < CS_PACK; i++)
                    sum += v[i];
            }
            mean = cs_block_sum(sum) / (float)n;
            sum = 0.0f;
        }
        for (int64_t c = threadIdx.x * CS_PACK; c < n; c += THREADS * CS_PACK) {
            cs_load_pack(in + c, n - c, v);
            for (int i = 0; i < CS_PACK; i++)
                sum += c + i < n ? (v[i] - mean) * (v[i] - mean) : 0.0f;
        }
        const float rstd = 1.0f / sqrtf(cs_block_sum(sum) / (float)n + eps);
        for (int64_t c = threadIdx.x * CS_PACK; c < n; c += THREADS * CS_PACK) {
            float weight[CS_PACK], bias[CS_PACK] = {};
            cs_load_pack(in + c, n - c, v);
            cs_load_pack(w + c, n - c, weight);
            if (b != nullptr)
                cs_load_pack(b + c, n - c, bias);
            for (int i = 0; i < CS_PACK; i++)
                v[i] = (v[i] - mean) * rstd * (offset + weight[i]) + bias[i];
            cs_store_pack(y + row * n + c, n - c, v);
        }
        if (threadIdx.x == 0) {
            stat[2 * row] = mean;
            stat[2 * row + 1] = rstd;
        }
    }
}

/* dx (rows, n) = dx_in + gradient; dx may be dy or dx_in */
template <typename T, bool IS_LAYER>
__global__ void norm_dx_kernel(int64_t rows, int64_t n, float offset, const T *x, const T *w,
                               const float *stat, const T *dy, const T *dx_in, T *dx)
{
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const float mean = stat[2 * row], rstd = stat[2 * row + 1];
        float v[CS_PACK], d[CS_PACK], weight[CS_PACK], sum_g = 0.0f, sum_gh = 0.0f;
        for (int64_t c = threadIdx.x * CS_PACK; c < n; c += THREADS * CS_PACK) {
            cs_load_pack(x + row * n + c, n - c, v);
            cs_load_pack(dy + row * n + c, n - c, d);
            cs_load_pack(w + c, n - c, weight);
            for (int i = 0; i < CS_PACK; i++) { /* d is 0 after the end of the row */
                const float g = d[i] * (offset + weight[i]);
                sum_g += g;
                sum_gh += g * ((v[i] - mean) * rstd);
            }
        }
        const float avg_gh = cs_block_sum(sum_gh) / (float)n;
        const float avg_g = IS_LAYER ? cs_block_sum(sum_g) / (float)n : 0.0f;
        for (int64_t c = threadIdx.x * CS_PACK; c < n; c += THREADS * CS_PACK) {
            float res[CS_PACK] = {};
            cs_load_pack(x + row * n + c, n - c, v);
            cs_load_pack(dy + row * n + c, n - c, d);
            cs_load_pack(w + c, n - c, weight);
            if (dx_in != nullptr)
                cs_load_pack(dx_in + row * n + c, n - c, res);
            for (int i = 0; i < CS_PACK; i++) {
                const float h = (v[i] - mean) * rstd, g = d[i] * (offset + weight[i]);
                v[i] = res[i] + rstd * (g - avg_g - h * avg_gh);
            }
            cs_store_pack(dx + row * n + c, n - c, v);
        }
    }
}

/* sum 0: dy h, sum 1: dy */
template <typename T> struct norm_term {
    const T *x, *dy;
    const float *stat;
    int64_t n;

    __device__ void operator()(int64_t row, int64_t col, int64_t count, float out[2][CS_PACK]) const
    {
        const float mean = stat[2 * row], rstd = stat[2 * row + 1];
        float v[CS_PACK];
        cs_load_pack(x + row * n + col, count, v);
        cs_load_pack(dy + row * n + col, count, out[1]);
        for (int i = 0; i < CS_PACK; i++)
            out[0][i] = out[1][i] * ((v[i] - mean) * rstd);
    }
};

template <typename T>
void cs_cuda_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                  float offset, const void *x, const void *w, const void *b, void *y, float *stat)
{
    if (rows <= 0 || n <= 0)
        return;
    const bool is_layer = kind == CS_NORM_LAYER;
    auto *kernel = is_layer ? norm_kernel<T, true> : norm_kernel<T, false>;
    kernel<<<cs_blocks(rows, 1), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        rows, n, eps, is_layer ? 0.0f : offset, (const T *)x, (const T *)w, (const T *)b, (T *)y,
        stat);
    CS_CUDA_LAUNCHED(ctx, "norm");
}

template <typename T>
void cs_cuda_norm_grad(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float offset,
                       const void *x, const void *w, const float *stat, const void *dy,
                       const void *dx_in, void *dx, float *dw, float *db)
{
    if (rows <= 0 || n <= 0)
        return;
    const bool is_layer = kind == CS_NORM_LAYER;
    /* the sums first: dx may overwrite dy */
    if (dw != nullptr || db != nullptr)
        cs_colsum<2>(ctx, rows, n, norm_term<T>{(const T *)x, (const T *)dy, stat, n}, dw, db);
    auto *kernel = is_layer ? norm_dx_kernel<T, true> : norm_dx_kernel<T, false>;
    kernel<<<cs_blocks(rows, 1), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        rows, n, is_layer ? 0.0f : offset, (const T *)x, (const T *)w, stat, (const T *)dy,
        (const T *)dx_in, (T *)dx);
    CS_CUDA_LAUNCHED(ctx, "norm_grad");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_norm<T>(struct cs_ctx *, enum cs_norm, int64_t, int64_t, float, float,   \
                                  const void *, const void *, const void *, void *, float *);      \
    template void cs_cuda_norm_grad<T>(struct cs_ctx *, enum cs_norm, int64_t, int64_t, float,     \
                                       const void *, const void *, const float *, const void *,    \
                                       const void *, void *, float *, float *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
