/* RMS norms of the heads of a row, each by itself, and scales by column. Activations are OVERWRITTEN
 * (dx: or added to), gradients of weights ACCUMULATED. Formulas: kernels/cpu/heads.c.
 *
 * A head of up to 256 elements is one pack (8 elements) of each of its LANES neighbouring lanes, which
 * have it in registers from the one time it is read to the end; a warp has 32 / LANES heads. Backward
 * a lane's columns are the same in all of its heads, so the sums of the weights' gradients are made on
 * the way: by lane, by block in shared memory, by blocks in the handle's scratch. Wider heads, and those
 * that are some columns of wider ones: a warp a head, which is read twice, or once where its sum comes from
 * elsewhere. */
#include "kernels/cuda/colsum.cuh"

#define WARPS 8

/* x, y (rows, heads, n) with rows ld apart; w (n) or NULL; stat (rows, heads) */
struct heads_args {
    int64_t rows, n, ld_x, ld_y, ld_dx;
    int32_t heads;
    float eps, offset;
    const void *x, *w, *dy;
    void *y, *dx;
    float *stat;
    const float *sum; /* of all columns of a norm over n_all, NULL: of those that are here */
    int64_t n_all;
    bool adds;
};

/* what the normed head is multiplied with */
template <typename T>
__device__ inline void load_weight(const struct heads_args &g, int64_t col, float w[CS_PACK])
{
    if (g.w != nullptr)
        cs_load_pack((const T *)g.w + col, g.n - col, w);
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        w[i] = g.w != nullptr ? w[i] + g.offset : 1.0f;
}

/* of a head by its warp */
template <typename T> __device__ inline float squares(const T *x, int64_t n)
{
    float v[CS_PACK], sum = 0.0f;
    for (int64_t c = threadIdx.x % 32 * CS_PACK; c < n; c += 32 * CS_PACK) {
        cs_load_pack(x + c, n - c, v);
        for (int i = 0; i < CS_PACK; i++)
            sum += v[i] * v[i];
    }
    return cs_warp_sum(sum);
}

/* the sum of g h */
template <typename T>
__device__ inline float dot(const struct heads_args &g, const T *x, const T *dy, float rstd)
{
    float v[CS_PACK], w[CS_PACK], d[CS_PACK], sum = 0.0f;
    for (int64_t c = threadIdx.x % 32 * CS_PACK; c < g.n; c += 32 * CS_PACK) {
        cs_load_pack(x + c, g.n - c, v);
        cs_load_pack(dy + c, g.n - c, d);
        load_weight<T>(g, c, w);
        for (int i = 0; i < CS_PACK; i++) /* d is 0 after the end of the head */
            sum += d[i] * w[i] * (v[i] * rstd);
    }
    return cs_warp_sum(sum);
}

template <typename T>
__global__ void __launch_bounds__(32 * WARPS) heads_kernel(struct heads_args g)
{
    const int64_t item = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    if (item >= g.rows * g.heads)
        return;
    const int64_t row = cs_row_of(item, g.heads), head = item - row * g.heads;
    const T *x = (const T *)g.x + row * g.ld_x + head * g.n;
    T *y = (T *)g.y + row * g.ld_y + head * g.n;
    float v[CS_PACK], w[CS_PACK];
    const float sum = g.sum != nullptr ? g.sum[item] : squares(x, g.n);
    const float rstd = rsqrtf(sum / (float)g.n_all + g.eps);
    for (int64_t c = lane * CS_PACK; c < g.n; c += 32 * CS_PACK) {
        cs_load_pack(x + c, g.n - c, v);
        load_weight<T>(g, c, w);
        for (int i = 0; i < CS_PACK; i++)
            v[i] = v[i] * rstd * w[i];
        cs_store_pack(y + c, g.n - c, v);
    }
    if (lane == 0)
        g.stat[item] = rstd;
}

template <typename T>
__global__ void __launch_bounds__(32 * WARPS) heads_grad_kernel(struct heads_args g)
{
    const int64_t item = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    if (item >= g.rows * g.heads)
        return;
    const int64_t row = cs_row_of(item, g.heads), head = item - row * g.heads;
    const T *x = (const T *)g.x + row * g.ld_x + head * g.n;
    const T *dy = (const T *)g.dy + row * g.ld_y + head * g.n;
    T *dx = (T *)g.dx + row * g.ld_dx + head * g.n;
    const float rstd = g.stat[item];
    const float sum = g.sum != nullptr ? g.sum[item] : dot(g, x, dy, rstd);
    const float avg = sum / (float)g.n_all;
    float v[CS_PACK], w[CS_PACK], d[CS_PACK];
    for (int64_t c = lane * CS_PACK; c < g.n; c += 32 * CS_PACK) {
        float old[CS_PACK] = {};
        cs_load_pack(x + c, g.n - c, v);
        cs_load_pack(dy + c, g.n - c, d);
        load_weight<T>(g, c, w);
        if (g.adds)
            cs_load_pack(dx + c, g.n - c, old);
        for (int i = 0; i < CS_PACK; i++)
            v[i] = old[i] + rstd * (d[i] * w[i] - v[i] * rstd * avg);
        cs_store_pack(dx + c, g.n - c, v);
    }
}

/* the sum of squares of a head's columns that are here, or with dy of g h */
template <typename T>
__global__ void __launch_bounds__(32 * WARPS) heads_sums_kernel(struct heads_args g, float *sum)
{
    const int64_t item = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (item >= g.rows * g.heads)
        return;
    const int64_t row = cs_row_of(item, g.heads), head = item - row * g.heads;
    const T *x = (const T *)g.x + row * g.ld_x + head * g.n;
    const T *dy = (const T *)g.dy + row * g.ld_y + head * g.n;
    const float s = g.dy == nullptr ? squares(x, g.n) : dot(g, x, dy, g.stat[item]);
    if (threadIdx.x % 32 == 0)
        sum[item] = s;
}

/* dy h of a head: a row of the sum; stat NULL: h is x */
template <typename T> struct head_term {
    const T *x, *dy;
    const float *stat;
    int64_t n, ld_x, ld_dy;
    int32_t heads;

    __device__ void operator()(int64_t item, int64_t col, int64_t count,
                               float out[1][CS_PACK]) const
    {
        const int64_t row = cs_row_of(item, heads), head = item - row * heads;
        const float rstd = stat != nullptr ? stat[item] : 1.0f;
        float v[CS_PACK];
        cs_load_pack(x + row * ld_x + head * n + col, count, v);
        cs_load_pack(dy + row * ld_dy + head * n + col, count, out[0]);
        for (int i = 0; i < CS_PACK; i++)
            out[0][i] *= v[i] * rstd;
    }
};

/* ---- heads of one pack a lane ---- */

#define FAST_BLOCKS 1056 /* eight for each of 132 multiprocessors; backward */

template <int LANES> __device__ inline float lanes_sum(float x)
{
#pragma unroll
    for (int width = LANES / 2; width > 0; width /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, width);
    return x;
}

/* Item of the thread in a round of the grid; all lanes of a warp go as many rounds. */
template <int LANES> __device__ inline int64_t item_of(int64_t round)
{
    return (round * gridDim.x + blockIdx.x) * (32 * WARPS / LANES) + threadIdx.x / LANES;
}

template <typename T, int LANES>
__global__ void __launch_bounds__(32 * WARPS) heads_fast_kernel(struct heads_args g)
{
    const int64_t items = g.rows * g.heads, item = item_of<LANES>(0);
    const int64_t col = threadIdx.x % LANES * CS_PACK;
    const int64_t row = cs_row_of(item, g.heads), head = item - row * g.heads;
    const bool is_there = item < items && col < g.n;
    float v[CS_PACK] = {}, w[CS_PACK], sum = 0.0f;
    if (is_there)
        cs_load_pack((const T *)g.x + row * g.ld_x + head * g.n + col, g.n - col, v);
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        sum += v[i] * v[i];
    const float rstd = rsqrtf(lanes_sum<LANES>(sum) / (float)g.n + g.eps);
    if (!is_there)
        return;
    load_weight<T>(g, col, w);
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        v[i] *= rstd * w[i];
    cs_store_pack((T *)g.y + row * g.ld_y + head * g.n + col, g.n - col, v);
    if (col == 0)
        g.stat[item] = rstd;
}

/* part (blocks, n) of the gradient of w, NULL: not needed */
template <typename T, int LANES>
__global__ void __launch_bounds__(32 * WARPS)
    heads_fast_grad_kernel(struct heads_args g, float *part)
{
    __shared__ float sums[32 * WARPS / LANES][LANES * CS_PACK];
    const int64_t items = g.rows * g.heads;
    const int64_t col = threadIdx.x % LANES * CS_PACK;
    float w[CS_PACK] = {}, dw[CS_PACK] = {};
    cs_colsum_early();
    if (col < g.n)
        load_weight<T>(g, col, w);
    for (int64_t round = 0; item_of<LANES>(round) - threadIdx.x / LANES < items; round++) {
        const int64_t item = item_of<LANES>(round);
        const int64_t row = cs_row_of(item, g.heads), head = item - row * g.heads;
        const bool is_there = item < items && col < g.n;
        float v[CS_PACK] = {}, d[CS_PACK] = {}, old[CS_PACK] = {}, sum = 0.0f;
        T *const dx = (T *)g.dx + row * g.ld_dx + head * g.n + col;
        float rstd = 0.0f;
        if (is_there) {
            cs_load_pack((const T *)g.x + row * g.ld_x + head * g.n + col, g.n - col, v);
            cs_load_pack((const T *)g.dy + row * g.ld_y + head * g.n + col, g.n - col, d);
            if (g.adds)
                cs_load_pack(dx, g.n - col, old);
            rstd = g.stat[item];
        }
#pragma unroll
        for (int i = 0; i < CS_PACK; i++) {
            v[i] *= rstd;
            sum += d[i] * w[i] * v[i];
            dw[i] += d[i] * v[i];
        }
        const float avg = lanes_sum<LANES>(sum) / (float)g.n;
#pragma unroll
        for (int i = 0; i < CS_PACK; i++)
            v[i] = old[i] + rstd * (d[i] * w[i] - v[i] * avg);
        if (is_there)
            cs_store_pack(dx, g.n - col, v);
    }
    if (part == nullptr)
        return;
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        sums[threadIdx.x / LANES][col + i] = dw[i];
    __syncthreads();
    for (int64_t i = threadIdx.x; i < g.n; i += 32 * WARPS) {
        float sum = 0.0f;
        for (int k = 0; k < 32 * WARPS / LANES; k++)
            sum += sums[k][i];
        part[(int64_t)blockIdx.x * g.n + i] = sum;
    }
}

/* LANES for heads of n elements; 0: they are too wide */
static int lanes_of(int64_t n)
{
    return n <= 64 ? 8 : n <= 128 ? 16 : n <= 256 ? 32 : 0;
}

static int64_t fast_blocks(const struct heads_args &g)
{
    const int64_t each = 32 * WARPS / lanes_of(g.n);
    return (g.rows * g.heads + each - 1) / each;
}

template <typename T> static void heads_fast(struct cs_ctx *ctx, const struct heads_args &g)
{
    const int lanes = lanes_of(g.n);
    auto *const kernel = lanes == 8    ? heads_fast_kernel<T, 8>
                         : lanes == 16 ? heads_fast_kernel<T, 16>
                                       : heads_fast_kernel<T, 32>;
    kernel<<<(unsigned)fast_blocks(g), 32 * WARPS, 0, cs_cuda_stream_of(ctx)>>>(g);
}

template <typename T>
static void heads_fast_grad(struct cs_ctx *ctx, const struct heads_args &g, void *dw)
{
    const int lanes = lanes_of(g.n);
    const int64_t all = fast_blocks(g), blocks = all < FAST_BLOCKS ? all : FAST_BLOCKS;
    float *const part = dw != nullptr ? (float *)cs_cuda_handle_of(ctx)->scratch : nullptr;
    auto *const kernel = lanes == 8    ? heads_fast_grad_kernel<T, 8>
                         : lanes == 16 ? heads_fast_grad_kernel<T, 16>
                                       : heads_fast_grad_kernel<T, 32>;
    kernel<<<(unsigned)blocks, 32 * WARPS, 0, cs_cuda_stream_of(ctx)>>>(g, part);
    CS_CUDA_LAUNCHED(ctx, "norm_heads_grad");
    if (dw != nullptr)
        cs_colsum_finish<1>(ctx, g.n, (int)blocks, part, dw, nullptr);
}

/* ---- entries ---- */

static unsigned blocks_of(int64_t rows, int32_t heads)
{
    return (unsigned)((rows * heads + WARPS - 1) / WARPS);
}

static void take_all(struct heads_args &g, const struct cs_norm_all *all)
{
    g.sum = all != nullptr ? all->sum : nullptr;
    g.n_all = all != nullptr ? all->n : g.n;
}

template <typename T>
void cs_cuda_norm_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n, float eps,
                        float offset, const void *x, int64_t ld_x, const void *w,
                        const struct cs_norm_all *all, void *y, int64_t ld_y, float *stat)
{
    struct heads_args g = {};
    if (rows <= 0 || heads <= 0)
        return;
    g.rows = rows, g.heads = heads, g.n = n, g.eps = eps, g.offset = offset;
    g.x = x, g.ld_x = ld_x, g.w = w, g.y = y, g.ld_y = ld_y, g.stat = stat;
    take_all(g, all);
    if (lanes_of(n) > 0 && all == nullptr)
        heads_fast<T>(ctx, g);
    else
        heads_kernel<T><<<blocks_of(rows, heads), 32 * WARPS, 0, cs_cuda_stream_of(ctx)>>>(g);
    CS_CUDA_LAUNCHED(ctx, "norm_heads");
}

template <typename T>
void cs_cuda_norm_heads_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                             float offset, const void *x, int64_t ld_x, const void *w,
                             const float *stat, const struct cs_norm_all *all, const void *dy,
                             int64_t ld_dy, void *dx, int64_t ld_dx, int adds, void *dw)
{
    struct heads_args g = {};
    if (rows <= 0 || heads <= 0)
        return;
    g.rows = rows, g.heads = heads, g.n = n, g.offset = offset, g.x = x, g.ld_x = ld_x, g.w = w;
    g.stat = const_cast<float *>(stat), g.dy = dy, g.ld_y = ld_dy, g.dx = dx, g.ld_dx = ld_dx;
    g.adds = adds != 0;
    take_all(g, all);
    if (lanes_of(n) > 0 && all == nullptr) {
        heads_fast_grad<T>(ctx, g, dw);
        return;
    }
    if (dw != nullptr)
        cs_colsum<1>(ctx, rows * heads, n,
                     head_term<T>{(const T *)x, (const T *)dy, stat, n, ld_x, ld_dy, heads}, dw,
                     nullptr);
    heads_grad_kernel<T><<<blocks_of(rows, heads), 32 * WARPS, 0, cs_cuda_stream_of(ctx)>>>(g);
    CS_CUDA_LAUNCHED(ctx, "norm_heads_grad");
}

template <typename T>
void cs_cuda_norm_heads_sums(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                             float offset, const void *x, int64_t ld_x, const void *w,
                             const float *stat, const void *dy, int64_t ld_dy, float *sum)
{
    struct heads_args g = {};
    if (rows <= 0 || heads <= 0)
        return;
    g.rows = rows, g.heads = heads, g.n = n, g.offset = offset, g.x = x, g.ld_x = ld_x, g.w = w;
    g.stat = const_cast<float *>(stat), g.dy = dy, g.ld_y = ld_dy;
    heads_sums_kernel<T><<<blocks_of(rows, heads), 32 * WARPS, 0, cs_cuda_stream_of(ctx)>>>(g, sum);
    CS_CUDA_LAUNCHED(ctx, "norm_heads_sums");
}

template <typename T>
__global__ void scale_kernel(int64_t rows, int64_t n, const T *x, const T *w, int32_t w_step,
                             const T *residual, T *y)
{
    const int64_t packs = (n + CS_PACK - 1) / CS_PACK;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * packs; i += step) {
        const int64_t row = cs_row_of(i, packs), col = (i - row * packs) * CS_PACK;
        const int64_t at = row * n + col;
        float v[CS_PACK], s[CS_PACK], old[CS_PACK] = {};
        cs_load_pack(x + at, n - col, v);
        if (w_step != 0)
            cs_load_pack(w + col, n - col, s);
        if (residual != nullptr)
            cs_load_pack(residual + at, n - col, old);
        for (int j = 0; j < CS_PACK; j++)
            v[j] = v[j] * (w_step != 0 ? s[j] : cs_to_float(w[0])) + old[j];
        cs_store_pack(y + at, n - col, v);
    }
}

template <typename T>
void cs_cuda_scale_columns(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                           const void *w, int32_t w_step, const void *residual, void *y)
{
    if (rows <= 0 || n <= 0)
        return;
    const int64_t packs = (n + CS_PACK - 1) / CS_PACK;
    scale_kernel<T><<<cs_blocks(rows * packs, 256), 256, 0, cs_cuda_stream_of(ctx)>>>(
        rows, n, (const T *)x, (const T *)w, w_step, (const T *)residual, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "scale_columns");
}

template <typename T>
void cs_cuda_scale_columns_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                                 const void *dy, void *dw)
{
    cs_colsum<1>(ctx, rows, n, head_term<T>{(const T *)x, (const T *)dy, nullptr, n, n, n, 1}, dw,
                 nullptr);
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_norm_heads<T>(struct cs_ctx *, int64_t, int32_t, int64_t, float, float,  \
                                        const void *, int64_t, const void *,                       \
                                        const struct cs_norm_all *, void *, int64_t, float *);     \
    template void cs_cuda_norm_heads_grad<T>(struct cs_ctx *, int64_t, int32_t, int64_t, float,    \
                                             const void *, int64_t, const void *, const float *,   \
                                             const struct cs_norm_all *, const void *, int64_t,    \
                                             void *, int64_t, int, void *);                        \
    template void cs_cuda_norm_heads_sums<T>(struct cs_ctx *, int64_t, int32_t, int64_t, float,    \
                                             const void *, int64_t, const void *, const float *,   \
                                             const void *, int64_t, float *);                      \
    template void cs_cuda_scale_columns<T>(struct cs_ctx *, int64_t, int64_t, const void *,        \
                                           const void *, int32_t, const void *, void *);           \
    template void cs_cuda_scale_columns_wgrad<T>(struct cs_ctx *, int64_t, int64_t, const void *,  \
                                                 const void *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
