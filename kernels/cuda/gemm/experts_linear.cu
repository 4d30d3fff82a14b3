/* Products of the rows of every expert with the expert's own matrix, and the gradients of both; all
 * experts in one launch (experts_tiles.cuh). Hopper cards have kernels of their own for bf16
 * (experts_sm90.cuh); those here are for other cards, fp32, and widths or addresses that are not aligned.
 *
 * A block makes a tile of 128 x 128 in steps of 32 of the inner dimension, which it reads into
 * registers while it works on those before: bf16 on tensor cores (wmma), fp32 with FMAs. Sums run in
 * a fixed order. */
#include <mma.h>

#include "kernels/cuda/gemm/experts_sm90.cuh"
#include "kernels/cuda/gemm/experts_tiles.cuh"

#define THREADS 256
#define TILE    128 /* rows and columns of a block's tile */
#define STEP    32
#define LOADS   (TILE * STEP / CS_PACK / THREADS) /* packs that a thread brings of each operand */
#define PAD     CS_PACK                           /* columns that keep rows on different banks */

/* c (m, n) = op(a) op(b), one of it for each expert. */
struct product {
    const int32_t *first;
    int32_t experts;
    int64_t m, n, k; /* m 0: the expert's rows; k 0: the expert's rows */
    const void *a, *b;
    void *c;
    bool is_new; /* gradients: c is overwritten, else added to */
};

/* An operand as it lies in memory: `rows` of `columns`, of which a block reads a piece; its inner
 * dimension (over which sums run) is along the columns, or down the rows. */
template <bool IS_INNER_ALONG> struct piece {
    static constexpr int ROWS = IS_INNER_ALONG ? TILE : STEP, COLS = IS_INNER_ALONG ? STEP : TILE;
    static constexpr int LD = COLS + PAD, PACKS = COLS / CS_PACK;
};

template <typename T, bool IS_INNER_ALONG>
__device__ static void load(const T *from, int64_t rows, int64_t columns, int64_t row, int64_t col,
                            cs_pack_words<T> to[LOADS])
{
    using P = piece<IS_INNER_ALONG>;
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int at = (int)threadIdx.x + i * THREADS;
        const int64_t r = row + at / P::PACKS, c = col + at % P::PACKS * CS_PACK;
        to[i] = cs_load_words(from + r * columns + c, r < rows ? columns - c : (int64_t)0);
    }
}

template <typename T, bool IS_INNER_ALONG>
__device__ static void put(const cs_pack_words<T> from[LOADS], T *to)
{
    using P = piece<IS_INNER_ALONG>;
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int at = (int)threadIdx.x + i * THREADS;
        *(cs_pack_words<T> *)(to + at / P::PACKS * P::LD + at % P::PACKS * CS_PACK) = from[i];
    }
}

/* ---- the tile of a block ---- */

template <typename T, bool A_ALONG, bool B_ALONG> struct tile;

/* bf16: eight warps, 64 rows and 32 columns each */
template <bool A_ALONG, bool B_ALONG> struct tile<__nv_bfloat16, A_ALONG, B_ALONG> {
    template <bool ALONG, bool IS_A>
    using order =
        std::conditional_t<ALONG == IS_A, nvcuda::wmma::row_major, nvcuda::wmma::col_major>;
    using frag_a = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __nv_bfloat16,
                                          order<A_ALONG, true>>;
    using frag_b = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __nv_bfloat16,
                                          order<B_ALONG, false>>;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum[4][2];

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < 8; i++)
            nvcuda::wmma::fill_fragment(sum[i / 2][i % 2], 0.0f);
    }

    __device__ void multiply(const __nv_bfloat16 *a, const __nv_bfloat16 *b)
    {
        using A = piece<A_ALONG>;
        using B = piece<B_ALONG>;
        const int warp = (int)threadIdx.x / 32, row = warp / 4 * 64, col = warp % 4 * 32;
#pragma unroll
        for (int k = 0; k < STEP; k += 16) {
            frag_a fa[4];
            frag_b fb[2];
#pragma unroll
            for (int i = 0; i < 4; i++)
                nvcuda::wmma::load_matrix_sync(
                    fa[i], A_ALONG ? a + (row + 16 * i) * A::LD + k : a + k * A::LD + row + 16 * i,
                    A::LD);
#pragma unroll
            for (int j = 0; j < 2; j++)
                nvcuda::wmma::load_matrix_sync(
                    fb[j], B_ALONG ? b + (col + 16 * j) * B::LD + k : b + k * B::LD + col + 16 * j,
                    B::LD);
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    nvcuda::wmma::mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);
        }
    }

    /* put(row, column, value) of every element; shared: 1 KiB a warp */
    template <typename F> __device__ void each(float *shared, F store)
    {
        const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        float *mine = shared + warp * 256;
#pragma unroll
        for (int f = 0; f < 8; f++) {
            nvcuda::wmma::store_matrix_sync(mine, sum[f / 2][f % 2], 16,
                                            nvcuda::wmma::mem_row_major);
            __syncwarp();
            for (int i = lane; i < 256; i += 32)
                store(warp / 4 * 64 + f / 2 * 16 + i / 16, warp % 4 * 32 + f % 2 * 16 + i % 16,
                      mine[i]);
            __syncwarp();
        }
    }
};

/* fp32: every thread has 8 x 8 elements, 16 apart */
template <bool A_ALONG, bool B_ALONG> struct tile<float, A_ALONG, B_ALONG> {
    float sum[8][8];

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < 64; i++)
            sum[i / 8][i % 8] = 0.0f;
    }

    __device__ void multiply(const float *a, const float *b)
    {
        using A = piece<A_ALONG>;
        using B = piece<B_ALONG>;
        const int row = (int)threadIdx.x / 16, col = (int)threadIdx.x % 16;
        for (int k = 0; k < STEP; k++) {
            float x[8], y[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int r = row + 16 * i, c = col + 16 * i;
                x[i] = A_ALONG ? a[r * A::LD + k] : a[k * A::LD + r];
                y[i] = B_ALONG ? b[c * B::LD + k] : b[k * B::LD + c];
            }
#pragma unroll
            for (int i = 0; i < 64; i++)
                sum[i / 8][i % 8] = fmaf(x[i / 8], y[i % 8], sum[i / 8][i % 8]);
        }
    }

    template <typename F> __device__ void each(float *, F store)
    {
        const int row = (int)threadIdx.x / 16, col = (int)threadIdx.x % 16;
#pragma unroll
        for (int i = 0; i < 64; i++)
            store(row + 16 * (i / 8), col + 16 * (i % 8), sum[i / 8][i % 8]);
    }
};

/* a and b of one expert: m, n, k are sizes of the product, row and col where the tile begins */
template <typename T, bool A_ALONG, bool B_ALONG>
__device__ static void make_tile(tile<T, A_ALONG, B_ALONG> &t, T *shared, const T *a, const T *b,
                                 int64_t m, int64_t n, int64_t k, int64_t row, int64_t col)
{
    T *const of_a = shared, *const of_b = shared + piece<A_ALONG>::ROWS * piece<A_ALONG>::LD;
    cs_pack_words<T> next_a[LOADS], next_b[LOADS];
    const auto fetch = [&](int64_t at) {
        load<T, A_ALONG>(a, A_ALONG ? m : k, A_ALONG ? k : m, A_ALONG ? row : at,
                         A_ALONG ? at : row, next_a);
        load<T, B_ALONG>(b, B_ALONG ? n : k, B_ALONG ? k : n, B_ALONG ? col : at,
                         B_ALONG ? at : col, next_b);
    };
    t.clear();
    fetch(0);
    for (int64_t at = 0; at < k; at += STEP) {
        __syncthreads();
        put<T, A_ALONG>(next_a, of_a);
        put<T, B_ALONG>(next_b, of_b);
        __syncthreads();
        if (at + STEP < k)
            fetch(at + STEP);
        t.multiply(of_a, of_b);
    }
    __syncthreads();
}

template <typename T> struct shared_size {
    static constexpr size_t OPERANDS = 2 * TILE * (STEP + PAD) * sizeof(T);
    static constexpr size_t STAGED = sizeof(T) == 2 ? THREADS / 32 * 256 * sizeof(float) : 0;
    static constexpr size_t BYTES = OPERANDS > STAGED ? OPERANDS : STAGED;
};

/* y = x w^T (B_ALONG), or dx = dy w: rows of the expert, n columns, k inner */
template <typename T, bool B_ALONG>
__global__ void __launch_bounds__(THREADS) rows_kernel(product g)
{
    __shared__ __align__(32) char shared[shared_size<T>::BYTES];
    int64_t row;
    const int e = cs_find_expert(g.first, g.experts, TILE, (int)blockIdx.y, &row);
    const int64_t col = (int64_t)blockIdx.x * TILE;
    if (e < 0)
        return;
    const int64_t at = g.first[e], m = g.first[e + 1] - at;
    tile<T, true, B_ALONG> t;
    make_tile(t, (T *)shared, (const T *)g.a + at * g.k, (const T *)g.b + e * g.n * g.k, m, g.n,
              g.k, row, col);
    T *const c = (T *)g.c + at * g.n;
    t.each((float *)shared, [&](int i, int j, float x) {
        if (row + i < m && col + j < g.n)
            c[(row + i) * g.n + col + j] = cs_from_float<T>(x);
    });
}

/* dw = dy^T x: m rows, n columns, summed over the expert's rows */
template <typename T, typename G> __global__ void __launch_bounds__(THREADS) wgrad_kernel(product g)
{
    __shared__ __align__(32) char shared[shared_size<T>::BYTES];
    const int64_t e = blockIdx.z, at = g.first[e], k = g.first[e + 1] - at;
    const int64_t row = (int64_t)blockIdx.y * TILE, col = (int64_t)blockIdx.x * TILE;
    if (k == 0 && !g.is_new)
        return;
    tile<T, false, false> t;
    make_tile(t, (T *)shared, (const T *)g.a + at * g.m, (const T *)g.b + at * g.n, g.m, g.n, k,
              row, col);
    G *const c = (G *)g.c + e * g.m * g.n;
    t.each((float *)shared, [&](int i, int j, float x) {
        if (row + i < g.m && col + j < g.n) {
            G *const to = c + (row + i) * g.n + col + j;
            *to = cs_from_float<G>(g.is_new ? x : cs_to_float(*to) + x);
        }
    });
}

static unsigned tiles_of(int64_t n)
{
    return (unsigned)((n + TILE - 1) / TILE);
}

template <typename T, bool B_ALONG>
static void launch_rows(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t n,
                        int64_t k, const void *a, const void *b, void *c, const char *what)
{
    const product g = {groups->first, groups->experts, 0, n, k, a, b, c, false};
    const int64_t most = cs_expert_tiles(groups, TILE);
    if (groups->places <= 0 || n <= 0)
        return;
    if (most > 65535) {
        CS_CUDA_REFUSE(ctx, CS_LIMIT, "%s of %lld rows", what, (long long)groups->places);
        return;
    }
    if (sizeof(T) == 2 && (B_ALONG ? cs_cuda_moe_linear_sm90(ctx, groups, k, n, a, b, c)
                                   : cs_cuda_moe_linear_dgrad_sm90(ctx, groups, n, k, a, b, c)))
        return;
    const dim3 grid(tiles_of(n), (unsigned)most);
    rows_kernel<T, B_ALONG><<<grid, THREADS, 0, cs_cuda_stream_of(ctx)>>>(g);
    CS_CUDA_LAUNCHED(ctx, what);
}

template <typename T>
void cs_cuda_moe_linear(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                        int64_t out, const void *x, const void *w, void *y)
{
    launch_rows<T, true>(ctx, groups, out, in, x, w, y, "moe_linear");
}

template <typename T>
void cs_cuda_moe_linear_dgrad(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                              int64_t out, const void *dy, const void *w, void *dx)
{
    launch_rows<T, false>(ctx, groups, in, out, dy, w, dx, "moe_linear_dgrad");
}

template <typename T>
void cs_cuda_moe_linear_wgrad(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                              int64_t out, const void *dy, const void *x, void *dw)
{
    const product g = {groups->first,        groups->experts, out, in, 0, dy, x, dw,
                       ctx->is_grad_new != 0};
    if (groups->places <= 0 || in <= 0 || out <= 0)
        return;
    if (sizeof(T) == 2 && cs_cuda_moe_linear_wgrad_sm90(ctx, groups, in, out, dy, x, dw))
        return;
    const dim3 grid(tiles_of(in), tiles_of(out), (unsigned)groups->experts);
    auto *kernel =
        ctx->grad == CS_GRAD_BF16 ? wgrad_kernel<T, __nv_bfloat16> : wgrad_kernel<T, float>;
    kernel<<<grid, THREADS, 0, cs_cuda_stream_of(ctx)>>>(g);
    CS_CUDA_LAUNCHED(ctx, "moe_linear_wgrad");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_moe_linear<T>(struct cs_ctx *, const struct cs_moe_groups *, int64_t,    \
                                        int64_t, const void *, const void *, void *);              \
    template void cs_cuda_moe_linear_dgrad<T>(struct cs_ctx *, const struct cs_moe_groups *,       \
                                              int64_t, int64_t, const void *, const void *,        \
                                              void *);                                             \
    template void cs_cuda_moe_linear_wgrad<T>(struct cs_ctx *, const struct cs_moe_groups *,       \
                                              int64_t, int64_t, const void *, const void *,        \
                                              void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
