/* LayerNorm and RMSNorm backward. dx is OVERWRITTEN, dw and db ACCUMULATED: every block adds its
 * rows in registers and leaves one partial sum, the partial sums are added in a fixed order.
 * Formulas: kernels/cpu/norm.c. */
#include "kernels/cuda/colsum.cuh"
#include "kernels/cuda/norm.cuh"

/* Blocks that leave a partial sum, whatever the card: the order of the sums is the same everywhere.
 */
#define LAYER_PARTS 264
#define RMS_PARTS   396

/* x, dy, dx_in, dx (rows, n); w (n); stat (rows, 2); part (2, blocks, n): dw, then db */
struct grad_args {
    int64_t rows, n;
    float offset;
    const void *x, *w, *dy, *dx_in;
    const float *stat;
    void *dx;
    float *part;
};

/* The groups' sums of a block, added in the order of groups, to part (n) */
template <int P, int G>
__device__ inline void leave_part(int64_t n, const float (*mine)[CS_PACK], float *sums, float *part)
{
    constexpr int GROUP = 32 * G, GROUPS = CS_NORM_THREADS / GROUP;
    const int t = (int)threadIdx.x % GROUP, group = (int)threadIdx.x / GROUP;
    for (int turn = 0; turn < GROUPS; turn++) {
        __syncthreads();
        if (group == turn)
#pragma unroll
            for (int p = 0; p < P; p++)
#pragma unroll
                for (int i = 0; i < CS_PACK; i++) {
                    float *at = &sums[(p * CS_PACK + i) * GROUP + t];
                    *at = turn == 0 ? mine[p][i] : *at + mine[p][i];
                }
    }
    if (group == GROUPS - 1) /* sums are this group's own last writes */
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int64_t col = (p * GROUP + t) * CS_PACK;
            float v[CS_PACK];
#pragma unroll
            for (int i = 0; i < CS_PACK; i++)
                v[i] = sums[(p * CS_PACK + i) * GROUP + t];
            if (col < n)
                cs_store_pack(part + col, n - col, v);
        }
    __syncthreads();
}

template <typename T, bool IS_LAYER, bool WANTS_SUMS, bool WHOLE, int P, int G>
__global__ void __launch_bounds__(CS_NORM_THREADS, sizeof(T) == 2 && WHOLE && P < 4 ? 2 : 1)
    norm_grad_kernel(struct grad_args g)
{
    __shared__ struct cs_norm_slots slots;
    __shared__ float block_sums[WANTS_SUMS ? P * CS_PACK * 32 * G : 1];
    constexpr int GROUP = 32 * G, GROUPS = CS_NORM_THREADS / GROUP;
    const int t = (int)threadIdx.x % GROUP, n = (int)g.n;
    const float inv_n = 1.0f / (float)n;
    cs_pack_words<T> w[P];
    float dw[WANTS_SUMS ? P : 1][CS_PACK] = {}, db[WANTS_SUMS && IS_LAYER ? P : 1][CS_PACK] = {};
    int turn = 0;
#pragma unroll
    for (int p = 0; p < P; p++) {
        const int col = (p * GROUP + t) * CS_PACK;
        w[p] = cs_load_words<WHOLE>((const T *)g.w + col, n - col);
    }
    for (int64_t row = (int64_t)blockIdx.x * GROUPS + threadIdx.x / GROUP; row < g.rows;
         row += (int64_t)gridDim.x * GROUPS) {
        const int64_t begin = row * n;
        cs_pack_words<T> x[P], d[P], res[P];
        float v[CS_PACK], dy[CS_PACK], weight[CS_PACK];
        float2 sums = {0.0f, 0.0f}; /* g h, g */
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int col = (p * GROUP + t) * CS_PACK;
            x[p] = cs_load_words<WHOLE>((const T *)g.x + begin + col, n - col);
            d[p] = cs_load_words<WHOLE>((const T *)g.dy + begin + col, n - col);
            res[p] = cs_load_words<WHOLE>((const T *)g.dx_in + begin + col,
                                          g.dx_in != nullptr ? n - col : 0);
        }
        const float2 stat = *(const float2 *)(g.stat + 2 * row); /* mean, rstd */
#pragma unroll
        for (int p = 0; p < P; p++) {
            cs_unpack(x[p], v);
            cs_unpack(d[p], dy);
            cs_unpack(w[p], weight);
#pragma unroll
            for (int i = 0; i < CS_PACK; i++) { /* dy is 0 after the end of the row */
                const float h = (v[i] - stat.x) * stat.y, gr = dy[i] * (g.offset + weight[i]);
                sums.x += gr * h;
                if constexpr (IS_LAYER)
                    sums.y += gr;
                if constexpr (WANTS_SUMS)
                    dw[p][i] += dy[i] * h;
                if constexpr (WANTS_SUMS && IS_LAYER)
                    db[p][i] += dy[i];
            }
        }
        sums = cs_group_sum<G>(&slots, turn++, sums);
        const float avg_gh = sums.x * inv_n, avg_g = IS_LAYER ? sums.y * inv_n : 0.0f;
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int col = (p * GROUP + t) * CS_PACK;
            float out[CS_PACK];
            cs_unpack(x[p], v);
            cs_unpack(d[p], dy);
            cs_unpack(w[p], weight);
            cs_unpack(res[p], out);
#pragma unroll
            for (int i = 0; i < CS_PACK; i++) {
                const float h = (v[i] - stat.x) * stat.y, gr = dy[i] * (g.offset + weight[i]);
                out[i] += stat.y * (gr - avg_g - h * avg_gh);
            }
            cs_store_words<WHOLE>((T *)g.dx + begin + col, n - col, out);
        }
    }
    if constexpr (WANTS_SUMS) {
        float *part = g.part + blockIdx.x * g.n;
        leave_part<P, G>(g.n, dw, block_sums, part);
        if constexpr (IS_LAYER)
            leave_part<P, G>(g.n, db, block_sums, part + gridDim.x * g.n);
    }
}

/* ---- rows that do not fit registers: one block a row, sums of columns in a pass of their own ----
 */

template <typename T, bool IS_LAYER>
__global__ void __launch_bounds__(CS_NORM_THREADS) wide_grad_kernel(struct grad_args g)
{
    const int64_t n = g.n;
    const T *w = (const T *)g.w;
    for (int64_t row = blockIdx.x; row < g.rows; row += gridDim.x) {
        const T *x = (const T *)g.x + row * n, *dy = (const T *)g.dy + row * n;
        const float mean = g.stat[2 * row], rstd = g.stat[2 * row + 1];
        float v[CS_PACK], d[CS_PACK], weight[CS_PACK], sum_g = 0.0f, sum_gh = 0.0f;
        for (int64_t c = threadIdx.x * CS_PACK; c < n; c += CS_NORM_THREADS * CS_PACK) {
            cs_load_pack(x + c, n - c, v);
            cs_load_pack(dy + c, n - c, d);
            cs_load_pack(w + c, n - c, weight);
            for (int i = 0; i < CS_PACK; i++) { /* d is 0 after the end of the row */
                const float gr = d[i] * (g.offset + weight[i]);
                sum_g += gr;
                sum_gh += gr * ((v[i] - mean) * rstd);
            }
        }
        const float avg_gh = cs_block_sum(sum_gh) / (float)n;
        const float avg_g = IS_LAYER ? cs_block_sum(sum_g) / (float)n : 0.0f;
        for (int64_t c = threadIdx.x * CS_PACK; c < n; c += CS_NORM_THREADS * CS_PACK) {
            float res[CS_PACK] = {};
            cs_load_pack(x + c, n - c, v);
            cs_load_pack(dy + c, n - c, d);
            cs_load_pack(w + c, n - c, weight);
            if (g.dx_in != nullptr)
                cs_load_pack((const T *)g.dx_in + row * n + c, n - c, res);
            for (int i = 0; i < CS_PACK; i++) {
                const float h = (v[i] - mean) * rstd, gr = d[i] * (g.offset + weight[i]);
                v[i] = res[i] + rstd * (gr - avg_g - h * avg_gh);
            }
            cs_store_pack((T *)g.dx + row * n + c, n - c, v);
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

typedef void kernel_fn(struct grad_args g);

template <typename T, bool IS_LAYER>
static void launch_wide(struct cs_ctx *ctx, const struct grad_args *g, float *dw, float *db)
{
    /* the sums first: dx may overwrite dy */
    if (dw != nullptr || db != nullptr)
        cs_colsum<2>(ctx, g->rows, g->n,
                     norm_term<T>{(const T *)g->x, (const T *)g->dy, g->stat, g->n}, dw, db);
    wide_grad_kernel<T, IS_LAYER>
        <<<cs_blocks(g->rows, 1), CS_NORM_THREADS, 0, cs_cuda_stream_of(ctx)>>>(*g);
    CS_CUDA_LAUNCHED(ctx, "norm_grad");
}

struct choice {
    kernel_fn *kernel;
    int64_t groups; /* rows that a block works on at a time */
};

#define HELD(P, G)                                                                                 \
    {                                                                                              \
        norm_grad_kernel<T, IS_LAYER, WANTS_SUMS, WHOLE, P, G>, CS_NORM_WARPS / G                  \
    }

template <typename T, bool IS_LAYER, bool WANTS_SUMS, bool WHOLE>
static struct choice pick(int64_t n)
{
    if (n <= 256)
        return HELD(1, 1);
    if (n <= 512)
        return HELD(2, 1);
    if (n <= 1024)
        return HELD(2, 2);
    if (n <= 1536)
        return HELD(3, 2);
    if (n <= 2048)
        return HELD(2, 4);
    if (n <= 4096)
        return HELD(2, 8);
    return HELD(4, 8);
}

template <typename T, bool IS_LAYER>
static void launch(struct cs_ctx *ctx, struct grad_args *g, float *dw, float *db)
{
    const int64_t n = g->n;
    const bool wants_sums = dw != nullptr || db != nullptr;
    const bool is_whole = cs_is_whole(n, g->x) && cs_is_whole(n, g->w) && cs_is_whole(n, g->dy) &&
                          cs_is_whole(n, g->dx_in) && cs_is_whole(n, g->dx);
    if (n > CS_NORM_WIDEST || (!IS_LAYER && db != nullptr)) {
        launch_wide<T, IS_LAYER>(ctx, g, dw, db);
        return;
    }
    static_assert(2 * RMS_PARTS * CS_NORM_WIDEST * sizeof(float) <= CS_CUDA_SCRATCH_BYTES,
                  "partial sums fit the scratch");
    const struct choice c =
        wants_sums
            ? (is_whole ? pick<T, IS_LAYER, true, true>(n) : pick<T, IS_LAYER, true, false>(n))
            : (is_whole ? pick<T, IS_LAYER, false, true>(n) : pick<T, IS_LAYER, false, false>(n));
    const unsigned parts = IS_LAYER ? LAYER_PARTS : RMS_PARTS;
    unsigned blocks = cs_blocks(g->rows, c.groups);
    blocks = wants_sums && blocks > parts ? parts : blocks;
    g->part = (float *)cs_cuda_handle_of(ctx)->scratch;
    c.kernel<<<blocks, CS_NORM_THREADS, 0, cs_cuda_stream_of(ctx)>>>(*g);
    CS_CUDA_LAUNCHED(ctx, "norm_grad");
    if (wants_sums && IS_LAYER)
        cs_colsum_finish<2>(ctx, n, (int)blocks, g->part, dw, db);
    else if (wants_sums)
        cs_colsum_finish<1>(ctx, n, (int)blocks, g->part, dw, nullptr);
}

template <typename T>
void cs_cuda_norm_grad(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float offset,
                       const void *x, const void *w, const float *stat, const void *dy,
                       const void *dx_in, void *dx, float *dw, float *db)
{
    const bool is_layer = kind == CS_NORM_LAYER;
    struct grad_args g = {.rows = rows,
                          .n = n,
                          .offset = is_layer ? 0.0f : offset,
                          .x = x,
                          .w = w,
                          .dy = dy,
                          .dx_in = dx_in,
                          .stat = stat,
                          .dx = dx};
    if (rows <= 0 || n <= 0)
        return;
    if (is_layer)
        launch<T, true>(ctx, &g, dw, db);
    else
        launch<T, false>(ctx, &g, dw, db);
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_norm_grad<T>(struct cs_ctx *, enum cs_norm, int64_t, int64_t, float,     \
                                       const void *, const void *, const float *, const void *,    \
                                       const void *, void *, float *, float *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
