/* Rows by index: embedding, its gradient, gather and scatter. Outputs are OVERWRITTEN, except
 * dtable and scatter with add. The gradient of the embedding adds rows of one id in row order, as
 * the CPU twin does, without atomics. */
#include "kernels/cuda/cuda_ops.cuh"

/* y (rows, n) = x[index] scale */
template <typename T>
__global__ void gather_kernel(int64_t rows, int64_t n, const int32_t *index, const T *x,
                              float scale, T *y)
{
    const int64_t packs = (n + CS_PACK - 1) / CS_PACK;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * packs; i += step) {
        const int64_t row = i / packs, col = (i - row * packs) * CS_PACK;
        const int64_t from = index[row];
        float v[CS_PACK] = {};
        if (from >= 0)
            cs_load_pack(x + from * n + col, n - col, v);
        for (int j = 0; j < CS_PACK; j++)
            v[j] *= scale;
        cs_store_pack(y + row * n + col, n - col, v);
    }
}

/* y[index] = x, or += x */
template <typename T, bool ADDS>
__global__ void scatter_kernel(int64_t rows, int64_t n, const int32_t *index, const T *x, T *y)
{
    const int64_t packs = (n + CS_PACK - 1) / CS_PACK;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * packs; i += step) {
        const int64_t row = i / packs, col = (i - row * packs) * CS_PACK;
        const int64_t to = index[row];
        if (to < 0)
            continue;
        float v[CS_PACK], old[CS_PACK] = {};
        cs_load_pack(x + row * n + col, n - col, v);
        if (ADDS)
            cs_load_pack(y + to * n + col, n - col, old);
        for (int j = 0; j < CS_PACK; j++)
            v[j] += old[j];
        cs_store_pack(y + to * n + col, n - col, v);
    }
}

#define GRAD_THREADS 256
#define GRAD_COLS    (GRAD_THREADS * 4)

/* Block (i, c): if row i is the first of its id, all rows of that id are added in order, columns
 * [c GRAD_COLS, ...). Matching rows are collected GRAD_THREADS at a time: every thread looks at one
 * id, its place in the list is the number of matches before it. */
template <typename T>
__global__ void embed_grad_kernel(int64_t rows, int64_t n, const int32_t *ids, const T *dy,
                                  float scale, float *dtable)
{
    __shared__ int32_t list[GRAD_THREADS];
    __shared__ int32_t in_warp[GRAD_THREADS / 32];
    const int64_t row = blockIdx.x, col = (int64_t)blockIdx.y * GRAD_COLS + threadIdx.x;
    const int32_t id = ids[row];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (id < 0)
        return;
    bool is_later = false;
    for (int64_t i = threadIdx.x; i < row; i += GRAD_THREADS)
        is_later = is_later || ids[i] == id;
    if (__syncthreads_or(is_later))
        return;
    float *out = dtable + (int64_t)id * n;
    float sum[4];
    for (int j = 0; j < 4; j++)
        sum[j] = col + j * GRAD_THREADS < n ? out[col + j * GRAD_THREADS] : 0.0f;
    for (int64_t first = row; first < rows; first += GRAD_THREADS) {
        const int64_t mine = first + threadIdx.x;
        const bool is_match = mine < rows && ids[mine] == id;
        const unsigned votes = __ballot_sync(0xffffffffu, is_match);
        if (lane == 0)
            in_warp[warp] = __popc(votes);
        __syncthreads();
        int at = __popc(votes & ((1u << lane) - 1)), total = 0;
        for (int w = 0; w < GRAD_THREADS / 32; w++) {
            at += w < warp ? in_warp[w] : 0;
            total += in_warp[w];
        }
        if (is_match)
            list[at] = (int32_t)threadIdx.x;
        __syncthreads();
        for (int m = 0; m < total; m++) {
            const T *from = dy + (first + list[m]) * n;
            for (int j = 0; j < 4; j++)
                if (col + j * GRAD_THREADS < n)
                    sum[j] += cs_to_float(from[col + j * GRAD_THREADS]) * scale;
        }
        __syncthreads();
    }
    for (int j = 0; j < 4; j++)
        if (col + j * GRAD_THREADS < n)
            out[col + j * GRAD_THREADS] = sum[j];
}

static unsigned row_blocks(int64_t rows, int64_t n)
{
    return cs_blocks(rows * ((n + CS_PACK - 1) / CS_PACK), 256);
}

template <typename T>
void cs_cuda_embed(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                   const void *table, float scale, void *y)
{
    if (rows <= 0 || n <= 0)
        return;
    gather_kernel<T><<<row_blocks(rows, n), 256, 0, cs_cuda_stream_of(ctx)>>>(
        rows, n, ids, (const T *)table, scale, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "embed");
}

template <typename T>
void cs_cuda_embed_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                        const void *dy, float scale, float *dtable)
{
    if (rows <= 0 || n <= 0)
        return;
    const dim3 grid((unsigned)rows, (unsigned)((n + GRAD_COLS - 1) / GRAD_COLS));
    embed_grad_kernel<T><<<grid, GRAD_THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        rows, n, ids, (const T *)dy, scale, dtable);
    CS_CUDA_LAUNCHED(ctx, "embed_grad");
}

template <typename T>
void cs_cuda_gather_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                         const void *x, void *y)
{
    cs_cuda_embed<T>(ctx, rows, n, index, x, 1.0f, y);
}

template <typename T>
void cs_cuda_scatter_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                          const void *x, void *y, int add)
{
    if (rows <= 0 || n <= 0)
        return;
    auto *kernel = add ? scatter_kernel<T, true> : scatter_kernel<T, false>;
    kernel<<<row_blocks(rows, n), 256, 0, cs_cuda_stream_of(ctx)>>>(rows, n, index, (const T *)x,
                                                                    (T *)y);
    CS_CUDA_LAUNCHED(ctx, "scatter_rows");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_embed<T>(struct cs_ctx *, int64_t, int64_t, const int32_t *,             \
                                   const void *, float, void *);                                   \
    template void cs_cuda_embed_grad<T>(struct cs_ctx *, int64_t, int64_t, const int32_t *,        \
                                        const void *, float, float *);                             \
    template void cs_cuda_gather_rows<T>(struct cs_ctx *, int64_t, int64_t, const int32_t *,       \
                                         const void *, void *);                                    \
    template void cs_cuda_scatter_rows<T>(struct cs_ctx *, int64_t, int64_t, const int32_t *,      \
                                          const void *, void *, int);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
