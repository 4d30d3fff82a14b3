/* Weighted sums of rows, and rows of neighbours. Outputs are OVERWRITTEN, except
 * mix_rows with add; gradients of weights ACCUMULATED. Sums are in the order of their lists, without
 * atomics: the order of the CPU twin. See kernels/cpu/mix.c. */
#include "kernels/cuda/cuda_ops.cuh"

#define THREADS 256

/* The sum of a list over CS_PACK columns of x (., n). */
template <typename T>
__device__ inline void sum_list(int32_t from, int32_t to, int64_t n, int64_t col,
                                const int32_t *index, const float *weight, const T *x,
                                float sum[CS_PACK])
{
    for (int32_t e = from; e < to; e++) {
        float v[CS_PACK];
        const float w = weight[e];
        cs_load_pack(x + (int64_t)index[e] * n + col, n - col, v);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++)
            sum[j] += w * v[j];
    }
}

/* y (rows, n) = its old value where ADDS, + sums of the lists; rows without any are left where ADDS */
template <typename T, typename Y, bool ADDS>
__global__ void __launch_bounds__(THREADS)
    mix_kernel(int64_t rows, int64_t n, const int32_t *start, const int32_t *index,
               const float *weight, const T *x, Y *y)
{
    const int64_t packs = (n + CS_PACK - 1) / CS_PACK;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * packs; i += step) {
        const int64_t row = i / packs, col = (i - row * packs) * CS_PACK;
        const int32_t from = start[row], to = start[row + 1];
        float sum[CS_PACK] = {}, old[CS_PACK] = {};
        if (ADDS && from == to)
            continue;
        if (ADDS)
            cs_load_pack(y + row * n + col, n - col, old);
        sum_list(from, to, n, col, index, weight, x, sum);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++)
            sum[j] += old[j];
        cs_store_pack(y + row * n + col, n - col, sum);
    }
}

/* y (rows, n, taps); a thread writes one value */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    unfold_kernel(int64_t rows, int32_t taps, int64_t n, const int32_t *index, const T *x, T *y)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x, wide = n * taps;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * wide; i += step) {
        const int64_t row = i / wide, at = i - row * wide, j = at / taps;
        const int64_t entry = row * taps + (at - j * taps);
        const int64_t from = index != nullptr ? index[entry] : entry;
        y[i] = from < 0 ? cs_from_float<T>(0.0f) : x[from * n + j];
    }
}

/* dx (rows, n); a thread writes one value */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    fold_kernel(int64_t rows, int32_t taps, int64_t n, const int32_t *start, const int32_t *entry,
                const T *dy, T *dx)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * n; i += step) {
        const int64_t row = i / n, j = i - row * n;
        const int64_t first = start != nullptr ? start[row] : row;
        const int64_t end = start != nullptr ? start[row + 1] : row + 1;
        float sum = 0.0f;
        for (int64_t e = first; e < end; e++) {
            const int64_t at = start != nullptr ? entry[e] : e;
            sum += cs_to_float(dy[(at / taps * n + j) * taps + at % taps]);
        }
        dx[i] = cs_from_float<T>(sum);
    }
}

static unsigned pack_blocks(int64_t rows, int64_t n)
{
    return cs_blocks(rows * ((n + CS_PACK - 1) / CS_PACK), THREADS);
}

template <typename T>
void cs_cuda_mix_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                      const int32_t *index, const float *weight, const void *x, int add, void *y)
{
    if (rows <= 0 || n <= 0)
        return;
    auto *kernel = add ? mix_kernel<T, T, true> : mix_kernel<T, T, false>;
    kernel<<<pack_blocks(rows, n), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        rows, n, start, index, weight, (const T *)x, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "mix_rows");
}

template <typename T, typename G>
static void mix_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                     const int32_t *index, const float *weight, const void *dy, void *dx)
{
    auto *kernel = ctx->is_grad_new ? mix_kernel<T, G, false> : mix_kernel<T, G, true>;
    kernel<<<pack_blocks(rows, n), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        rows, n, start, index, weight, (const T *)dy, (G *)dx);
}

template <typename T>
void cs_cuda_mix_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                           const int32_t *index, const float *weight, const void *dy, void *dx)
{
    if (rows <= 0 || n <= 0)
        return;
    if (ctx->grad == CS_GRAD_BF16)
        mix_grad<T, __nv_bfloat16>(ctx, rows, n, start, index, weight, dy, dx);
    else
        mix_grad<T, float>(ctx, rows, n, start, index, weight, dy, dx);
    CS_CUDA_LAUNCHED(ctx, "mix_rows_grad");
}

template <typename T>
void cs_cuda_unfold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *index,
                    const void *x, void *y)
{
    if (rows <= 0 || n <= 0)
        return;
    unfold_kernel<T><<<cs_blocks(rows * n * taps, THREADS), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        rows, taps, n, index, (const T *)x, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "unfold");
}

template <typename T>
void cs_cuda_fold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *start,
                  const int32_t *entry, const void *dy, void *dx)
{
    if (rows <= 0 || n <= 0)
        return;
    fold_kernel<T><<<cs_blocks(rows * n, THREADS), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        rows, taps, n, start, entry, (const T *)dy, (T *)dx);
    CS_CUDA_LAUNCHED(ctx, "fold");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_mix_rows<T>(struct cs_ctx *, int64_t, int64_t, const int32_t *,          \
                                      const int32_t *, const float *, const void *, int, void *);  \
    template void cs_cuda_mix_rows_grad<T>(struct cs_ctx *, int64_t, int64_t, const int32_t *,     \
                                           const int32_t *, const float *, const void *, void *);  \
    template void cs_cuda_unfold<T>(struct cs_ctx *, int64_t, int32_t, int64_t, const int32_t *,   \
                                    const void *, void *);                                         \
    template void cs_cuda_fold<T>(struct cs_ctx *, int64_t, int32_t, int64_t, const int32_t *,     \
                                  const int32_t *, const void *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
