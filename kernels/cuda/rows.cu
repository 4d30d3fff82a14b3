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

/* ---- the gradient of the embedding: rows sorted by id first, so that a block finds all rows of
 * its id next to each other, in row order ---- */

#define GRAD_THREADS 256
#define GRAD_COLS    (GRAD_THREADS * CS_PACK)
#define RANK_THREADS 256
#define RANK_IDS     1024 /* ids that a block of the ranking compares with */

/* rank[i] += rows of this block's RANK_IDS that come before row i in the order of (id, row) */
static __global__ void __launch_bounds__(RANK_THREADS)
    rank_kernel(int64_t rows, const int32_t *ids, int32_t *rank)
{
    __shared__ int4 others[RANK_IDS / 4];
    const int64_t first = (int64_t)blockIdx.y * RANK_IDS;
    for (int i = (int)threadIdx.x; i < RANK_IDS; i += RANK_THREADS)
        ((int32_t *)others)[i] = first + i < rows ? ids[first + i] : INT32_MAX;
    __syncthreads();
    const int64_t i = (int64_t)blockIdx.x * RANK_THREADS + threadIdx.x;
    if (i >= rows)
        return;
    const int32_t id = ids[i];
    const int64_t before = i - first; /* others before row i count also when they have its id */
    int count = 0;
    if (before >= RANK_IDS || before < 0) {
        const int32_t below = before < 0 ? id : id + 1;
#pragma unroll 8
        for (int j = 0; j < RANK_IDS / 4; j++) {
            const int4 v = others[j];
            count += (v.x < below) + (v.y < below) + (v.z < below) + (v.w < below);
        }
    } else {
        for (int j = 0; j < RANK_IDS; j++)
            count += ((int32_t *)others)[j] < id + (j < before ? 1 : 0);
    }
    if (count > 0)
        atomicAdd(&rank[i], count); /* whole numbers: the order of additions does not matter */
}

/* order[rank[i]] = i, sorted[rank[i]] = ids[i] */
static __global__ void order_kernel(int64_t rows, const int32_t *ids, const int32_t *rank,
                                    int32_t *order, int32_t *sorted)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows)
        return;
    order[rank[i]] = (int32_t)i;
    sorted[rank[i]] = ids[i];
}

/* Block (p, c): if place p is the first of its id, all rows of that id are added in order, columns
 * [c GRAD_COLS, ...). */
template <typename T, typename G>
__global__ void __launch_bounds__(GRAD_THREADS)
    embed_grad_kernel(int64_t rows, int64_t n, const int32_t *order, const int32_t *sorted,
                      const T *dy, float scale, G *dtable)
{
    const int64_t place = blockIdx.x, col = (int64_t)blockIdx.y * GRAD_COLS + threadIdx.x * CS_PACK;
    const int32_t id = sorted[place];
    const int32_t before = place > 0 ? sorted[place - 1] : -1;
    if (id < 0 || id == before || col >= n)
        return;
    G *out = dtable + (int64_t)id * n + col;
    float sum[CS_PACK];
    int64_t end = place + 1;
    cs_load_pack(out, n - col, sum);
    while (end < rows && sorted[end] == id)
        end++;
#pragma unroll 4
    for (int64_t p = place; p < end; p++) {
        float v[CS_PACK];
        cs_load_pack(dy + (int64_t)order[p] * n + col, n - col, v);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++)
            sum[j] += v[j] * scale;
    }
    cs_store_pack(out, n - col, sum);
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
                        const void *dy, float scale, void *dtable)
{
    if (rows <= 0 || n <= 0)
        return;
    if (rows > (int64_t)(CS_CUDA_SCRATCH_BYTES / (3 * sizeof(int32_t)))) {
        CS_CUDA_REFUSE(ctx, CS_LIMIT, "embed_grad of %lld rows", (long long)rows);
        return;
    }
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    int32_t *rank = (int32_t *)cs_cuda_handle_of(ctx)->scratch, *order = rank + rows;
    int32_t *sorted = order + rows;
    const unsigned blocks = (unsigned)((rows + RANK_THREADS - 1) / RANK_THREADS);
    CS_CUDA_NOTE(ctx, cudaMemsetAsync(rank, 0, (size_t)rows * sizeof *rank, stream), "embed_grad");
    rank_kernel<<<dim3(blocks, (unsigned)((rows + RANK_IDS - 1) / RANK_IDS)), RANK_THREADS, 0,
                  stream>>>(rows, ids, rank);
    order_kernel<<<blocks, RANK_THREADS, 0, stream>>>(rows, ids, rank, order, sorted);
    const dim3 grid((unsigned)rows, (unsigned)((n + GRAD_COLS - 1) / GRAD_COLS));
    if (ctx->grad == CS_GRAD_BF16)
        embed_grad_kernel<T><<<grid, GRAD_THREADS, 0, stream>>>(
            rows, n, order, sorted, (const T *)dy, scale, (__nv_bfloat16 *)dtable);
    else
        embed_grad_kernel<T><<<grid, GRAD_THREADS, 0, stream>>>(
            rows, n, order, sorted, (const T *)dy, scale, (float *)dtable);
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
                                        const void *, float, void *);                              \
    template void cs_cuda_gather_rows<T>(struct cs_ctx *, int64_t, int64_t, const int32_t *,       \
                                         const void *, void *);                                    \
    template void cs_cuda_scatter_rows<T>(struct cs_ctx *, int64_t, int64_t, const int32_t *,      \
                                          const void *, void *, int);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
