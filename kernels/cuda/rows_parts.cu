/* Rows moved, weighted and added: heads of a buffer copied into another or added to it, rows times a number each,
 * sums of picked rows. Contracts: kernels/ops.h. Sums run in a fixed order. */
#include "kernels/cuda/cuda_ops.cuh"

#define THREADS 256
#define WARPS   (THREADS / 32)

struct heads_args {
    int64_t rows, dim, x_row, x_head, y_row, y_head;
    int32_t heads;
};

template <typename T, bool WHOLE, bool ADDS>
__global__ void __launch_bounds__(THREADS) heads_kernel(heads_args g, const T *x, T *y)
{
    const int64_t packs = (g.dim + CS_PACK - 1) / CS_PACK, all = g.rows * g.heads * packs;
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += step) {
        const int64_t vector = cs_row_of(i, packs), col = (i - vector * packs) * CS_PACK;
        const int64_t row = cs_row_of(vector, g.heads), head = vector - row * g.heads;
        const int32_t n = (int32_t)(g.dim - col < CS_PACK ? g.dim - col : CS_PACK);
        T *to = y + row * g.y_row + head * g.y_head + col;
        float v[CS_PACK];
        cs_unpack(cs_load_words<WHOLE>(x + row * g.x_row + head * g.x_head + col, n), v);
        if constexpr (ADDS) {
            float before[CS_PACK];
            cs_unpack(cs_load_words<WHOLE>((const T *)to, n), before);
            for (int j = 0; j < CS_PACK; j++)
                v[j] += before[j];
        }
        cs_store_words<WHOLE>(to, n, v);
    }
}

template <typename T, bool ADDS>
static void launch_heads(struct cs_ctx *ctx, const heads_args &g, const void *x, void *y,
                         const char *what)
{
    if (g.rows <= 0 || g.heads <= 0 || g.dim <= 0)
        return;
    const bool is_whole = g.dim % CS_PACK == 0 && cs_is_whole(g.x_row, x) &&
                          cs_is_whole(g.y_row, y) && g.x_head % CS_PACK == 0 &&
                          g.y_head % CS_PACK == 0;
    const int64_t packs = g.rows * g.heads * ((g.dim + CS_PACK - 1) / CS_PACK);
    auto *kernel = is_whole ? heads_kernel<T, true, ADDS> : heads_kernel<T, false, ADDS>;
    kernel<<<cs_blocks(packs, THREADS), THREADS, 0, cs_cuda_stream_of(ctx)>>>(g, (const T *)x,
                                                                              (T *)y);
    CS_CUDA_LAUNCHED(ctx, what);
}

template <typename T>
void cs_cuda_copy_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                        int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head)
{
    launch_heads<T, false>(ctx, {rows, dim, x_row, x_head, y_row, y_head, heads}, x, y,
                           "copy_heads");
}

template <typename T>
void cs_cuda_add_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                       int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head)
{
    launch_heads<T, true>(ctx, {rows, dim, x_row, x_head, y_row, y_head, heads}, x, y, "add_heads");
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    scale_kernel(int64_t rows, int64_t n, const T *x, const float *weight, T *y)
{
    const int64_t packs = (n + CS_PACK - 1) / CS_PACK, step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < rows * packs; i += step) {
        const int64_t row = cs_row_of(i, packs), col = (i - row * packs) * CS_PACK;
        float v[CS_PACK];
        cs_load_pack(x + row * n + col, n - col, v);
        for (int j = 0; j < CS_PACK; j++)
            v[j] *= weight[row];
        cs_store_pack(y + row * n + col, n - col, v);
    }
}

template <typename T>
void cs_cuda_scale_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                        const float *weight, void *y)
{
    if (rows <= 0 || n <= 0)
        return;
    const int64_t packs = rows * ((n + CS_PACK - 1) / CS_PACK);
    scale_kernel<T><<<cs_blocks(packs, THREADS), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        rows, n, (const T *)x, weight, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "scale_rows");
}

/* A warp a row. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    scale_grad_kernel(int64_t rows, int64_t n, const T *x, const float *weight, const T *dy, T *dx,
                      float *dweight)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int64_t col = (int64_t)(threadIdx.x % 32) * CS_PACK; col < n; col += 32 * CS_PACK) {
        float a[CS_PACK], d[CS_PACK];
        cs_load_pack(x + row * n + col, n - col, a);
        cs_load_pack(dy + row * n + col, n - col, d);
        for (int j = 0; j < CS_PACK; j++) {
            sum += a[j] * d[j];
            d[j] *= weight[row];
        }
        cs_store_pack(dx + row * n + col, n - col, d);
    }
    sum = cs_warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        dweight[row] = sum;
}

template <typename T>
void cs_cuda_scale_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                             const float *weight, const void *dy, void *dx, float *dweight)
{
    if (rows <= 0 || n <= 0)
        return;
    scale_grad_kernel<T>
        <<<(unsigned)((rows + WARPS - 1) / WARPS), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
            rows, n, (const T *)x, weight, (const T *)dy, (T *)dx, dweight);
    CS_CUDA_LAUNCHED(ctx, "scale_rows_grad");
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    sum_kernel(int64_t rows, int32_t terms, int64_t n, const int32_t *index, const T *x,
               const T *residual, T *y)
{
    const int64_t packs = (n + CS_PACK - 1) / CS_PACK, step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < rows * packs; i += step) {
        const int64_t row = cs_row_of(i, packs), col = (i - row * packs) * CS_PACK;
        float sum[CS_PACK] = {}, v[CS_PACK];
        if (residual != nullptr)
            cs_load_pack(residual + row * n + col, n - col, sum);
        for (int32_t t = 0; t < terms; t++) {
            cs_load_pack(x + (int64_t)index[row * terms + t] * n + col, n - col, v);
            for (int j = 0; j < CS_PACK; j++)
                sum[j] += v[j];
        }
        cs_store_pack(y + row * n + col, n - col, sum);
    }
}

template <typename T>
void cs_cuda_sum_rows(struct cs_ctx *ctx, int64_t rows, int32_t terms, int64_t n,
                      const int32_t *index, const void *x, const void *residual, void *y)
{
    if (rows <= 0 || n <= 0)
        return;
    const int64_t packs = rows * ((n + CS_PACK - 1) / CS_PACK);
    sum_kernel<T><<<cs_blocks(packs, THREADS), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        rows, terms, n, index, (const T *)x, (const T *)residual, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "sum_rows");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_copy_heads<T>(struct cs_ctx *, int64_t, int32_t, int64_t, const void *,  \
                                        int64_t, int64_t, void *, int64_t, int64_t);               \
    template void cs_cuda_add_heads<T>(struct cs_ctx *, int64_t, int32_t, int64_t, const void *,   \
                                       int64_t, int64_t, void *, int64_t, int64_t);                \
    template void cs_cuda_scale_rows<T>(struct cs_ctx *, int64_t, int64_t, const void *,           \
                                        const float *, void *);                                    \
    template void cs_cuda_scale_rows_grad<T>(struct cs_ctx *, int64_t, int64_t, const void *,      \
                                             const float *, const void *, void *, float *);        \
    template void cs_cuda_sum_rows<T>(struct cs_ctx *, int64_t, int32_t, int64_t, const int32_t *, \
                                      const void *, const void *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
