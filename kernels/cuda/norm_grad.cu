/* LayerNorm and RMSNorm backward. dx is OVERWRITTEN, dw and db ACCUMULATED: every block adds its
 * rows in registers and leaves one partial sum, the partial sums are added in a fixed order.
 * Formulas: kernels/cpu/norm.c. */
#include "kernels/cuda/colsum.cuh"
#include "kernels/cuda/norm.cuh"

/* Processors for which blocks that leave a partial sum are counted, whatever the card: the order of
 * the sums is the same everywhere. */
#define PROCESSORS 132

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
template <int P, int L, int GROUPS>
__device__ inline void leave_part(int64_t n, float (*mine)[CS_PACK], float *sums, float *part)
{
    const int t = cs_in_group<L, GROUPS>(), group = cs_group<L, GROUPS>();
    if constexpr (GROUPS > 1) {
        for (int turn = 0; turn < GROUPS; turn++) {
            __syncthreads();
            if (group == turn)
#pragma unroll
                for (int p = 0; p < P; p++)
#pragma unroll
                    for (int i = 0; i < CS_PACK; i++) {
                        float *at = &sums[(p * CS_PACK + i) * L + t];
                        mine[p][i] = turn == 0 ? mine[p][i] : *at + mine[p][i];
                        *at = mine[p][i];
                    }
        }
        __syncthreads();
    }
    if (group == GROUPS - 1) /* which has the sum of all */
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int64_t col = (p * L + t) * CS_PACK;
            if (col < n)
                cs_store_pack(part + col, n - col, mine[p]);
        }
}

template <typename T, int P, int R> struct grad_rows {
    cs_pack_words<T> x[R][P], dy[R][P], dx_in[R][P];
    float2 stat[R]; /* mean, rstd */
};

/* Rows first ... of a group, for its thread t; zeros where there is no row or column */
template <typename T, bool WHOLE, int P, int L, int R>
__device__ inline void load_rows(const struct grad_args &g, int64_t first, int t,
                                 struct grad_rows<T, P, R> *to)
{
    const int n = (int)g.n;
#pragma unroll
    for (int r = 0; r < R; r++) {
        const bool is_there = first + r < g.rows;
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int col = (p * L + t) * CS_PACK, count = is_there ? n - col : 0;
            const int64_t at = (first + r) * n + col;
            to->x[r][p] = cs_load_words<WHOLE>((const T *)g.x + at, count);
            to->dy[r][p] = cs_load_words<WHOLE>((const T *)g.dy + at, count);
            to->dx_in[r][p] =
                cs_load_words<WHOLE>((const T *)g.dx_in + at, g.dx_in != nullptr ? count : 0);
        }
        to->stat[r] = is_there ? *(const float2 *)(g.stat + 2 * (first + r)) : float2{0.0f, 0.0f};
    }
}

/* What the normalised row was multiplied with */
template <bool IS_LAYER, typename T>
__device__ inline void weights(const struct grad_args &g, const cs_pack_words<T> &w,
                               float out[CS_PACK])
{
    cs_unpack(w, out);
    if constexpr (!IS_LAYER)
#pragma unroll
        for (int i = 0; i < CS_PACK; i++)
            out[i] += g.offset;
}

template <typename T, bool IS_LAYER, bool WANTS_SUMS, bool WHOLE, int P, int L, int R, int BLOCK,
          int LEAST, bool AHEAD>
__global__ void __launch_bounds__(BLOCK, sizeof(T) == 2 && WHOLE ? LEAST : 1)
    norm_grad_kernel(struct grad_args g)
{
    constexpr int GROUPS = BLOCK / L, SUMS = IS_LAYER ? 2 : 1; /* of a row: g h, g */
    __shared__ struct cs_norm_slots<R * SUMS, BLOCK> slots;
    __shared__ float block_sums[WANTS_SUMS && GROUPS > 1 ? P * CS_PACK * L : 1];
    const int t = cs_in_group<L, GROUPS>(), n = (int)g.n;
    const float inv_n = 1.0f / (float)n;
    const int64_t step = (int64_t)gridDim.x * GROUPS * R;
    cs_pack_words<T> w[P];
    float dw[WANTS_SUMS ? P : 1][CS_PACK] = {}, db[WANTS_SUMS && IS_LAYER ? P : 1][CS_PACK] = {};
    struct grad_rows<T, P, R> next;
    int turn = 0;
#pragma unroll
    for (int p = 0; p < P; p++) {
        const int col = (p * L + t) * CS_PACK;
        w[p] = cs_load_words<WHOLE>((const T *)g.w + col, n - col);
    }
    int64_t begin = (int64_t)blockIdx.x * GROUPS * R;
    const int mine = cs_group<L, GROUPS>() * R;
    if constexpr (AHEAD)
        load_rows<T, WHOLE, P, L, R>(g, begin + mine, t, &next);
    for (; begin < g.rows; begin += step) {
        const int64_t first = begin + mine;
        struct grad_rows<T, P, R> now;
        if constexpr (AHEAD) {
            now = next;
            load_rows<T, WHOLE, P, L, R>(g, first + step, t, &next);
        } else {
            load_rows<T, WHOLE, P, L, R>(g, first, t, &now);
        }
        float sum[R * SUMS] = {}, v[CS_PACK], dy[CS_PACK], weight[CS_PACK];
#pragma unroll
        for (int p = 0; p < P; p++) {
            weights<IS_LAYER>(g, w[p], weight);
#pragma unroll
            for (int r = 0; r < R; r++) {
                const float mean = now.stat[r].x, rstd = now.stat[r].y;
                cs_unpack(now.x[r][p], v);
                cs_unpack(now.dy[r][p], dy);
#pragma unroll
                for (int i = 0; i < CS_PACK; i++) { /* dy is 0 after the end of the row */
                    const float h = (v[i] - mean) * rstd, gr = dy[i] * weight[i];
                    sum[r * SUMS] += gr * h;
                    if constexpr (IS_LAYER)
                        sum[r * SUMS + SUMS - 1] += gr;
                    if constexpr (WANTS_SUMS)
                        dw[p][i] += dy[i] * h;
                    if constexpr (WANTS_SUMS && IS_LAYER)
                        db[p][i] += dy[i];
                }
            }
        }
        cs_group_sums<R * SUMS, L, BLOCK>(&slots, turn++, sum);
#pragma unroll
        for (int i = 0; i < R * SUMS; i++)
            sum[i] *= inv_n;
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int col = (p * L + t) * CS_PACK;
            weights<IS_LAYER>(g, w[p], weight);
#pragma unroll
            for (int r = 0; r < R; r++) {
                const float mean = now.stat[r].x, rstd = now.stat[r].y;
                const float less_h = -sum[r * SUMS] * rstd;
                const float less = IS_LAYER ? -sum[r * SUMS + SUMS - 1] * rstd : 0.0f;
                float out[CS_PACK];
                cs_unpack(now.x[r][p], v);
                cs_unpack(now.dy[r][p], dy);
                cs_unpack(now.dx_in[r][p], out);
#pragma unroll
                for (int i = 0; i < CS_PACK; i++) {
                    const float h = (v[i] - mean) * rstd, gr = dy[i] * weight[i];
                    out[i] += gr * rstd + (h * less_h + less);
                }
                cs_store_words<WHOLE>((T *)g.dx + (first + r) * n + col,
                                      first + r < g.rows ? n - col : 0, out);
            }
        }
    }
    if constexpr (WANTS_SUMS) {
        cs_colsum_early(); /* cs_colsum_add may be put beside this one */
        float *part = g.part + (int64_t)blockIdx.x * n;
        leave_part<P, L, GROUPS>(n, dw, block_sums, part);
        if constexpr (IS_LAYER)
            leave_part<P, L, GROUPS>(n, db, block_sums, part + (int64_t)gridDim.x * n);
    }
}

/* ---- rows that do not fit registers: one block a row, sums of columns in a pass of their own - */

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
static void launch_wide(struct cs_ctx *ctx, const struct grad_args *g, void *dw, void *db)
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
    int threads, rows; /* of a block; rows that it works on at a time */
    int most;          /* blocks that leave a partial sum */
};

/* P packs a thread, groups of L threads, R rows of each, THREADS in a block, at least LEAST blocks
 * on a processor, the next rows on their way while these are worked on */
#define HELD(P, L, R, THREADS, LEAST, AHEAD)                                                       \
    {                                                                                              \
        norm_grad_kernel<T, IS_LAYER, WANTS_SUMS, WHOLE, P, L, R, THREADS, LEAST, AHEAD>, THREADS, \
            THREADS / L *R, LEAST *PROCESSORS                                                      \
    }

template <typename T, bool IS_LAYER, bool WANTS_SUMS, bool WHOLE>
static struct choice pick(int64_t n)
{
    if (n <= 128)
        return HELD(1, 16, 2, 256, 2, false);
    if (n <= 256)
        return HELD(1, 32, 2, 256, 2, false);
    if (n <= 512)
        return HELD(1, 64, 2, 256, 2, false);
    /* a row of RMSNorm takes fewer registers */
    if constexpr (IS_LAYER) {
        if (n <= 1024)
            return HELD(1, 128, 4, 128, 4, false);
        if (n <= 1280)
            return HELD(1, 160, 4, 160, 3, false);
        if (n <= 2048)
            return HELD(1, 256, 4, 256, 2, false);
        if (n <= 4096)
            return HELD(2, 256, 1, 256, 2, false);
    } else {
        if (n <= 1024)
            return HELD(1, 128, 1, 128, 8, true);
        if (n <= 1280)
            return HELD(1, 160, 1, 160, 6, true);
        if (n <= 2048)
            return HELD(1, 256, 1, 256, 4, true);
        if (n <= 4096)
            return HELD(2, 256, 1, 256, 2, true);
    }
    return HELD(4, 256, 1, 256, 1, false);
}

template <typename T, bool IS_LAYER>
static void launch(struct cs_ctx *ctx, struct grad_args *g, void *dw, void *db)
{
    const int64_t n = g->n;
    const bool wants_sums = dw != nullptr || db != nullptr;
    const bool is_whole = cs_is_whole(n, g->x) && cs_is_whole(n, g->w) && cs_is_whole(n, g->dy) &&
                          cs_is_whole(n, g->dx_in) && cs_is_whole(n, g->dx);
    if (n > CS_NORM_WIDEST || (!IS_LAYER && db != nullptr)) {
        launch_wide<T, IS_LAYER>(ctx, g, dw, db);
        return;
    }
    const struct choice c =
        wants_sums
            ? (is_whole ? pick<T, IS_LAYER, true, true>(n) : pick<T, IS_LAYER, true, false>(n))
            : (is_whole ? pick<T, IS_LAYER, false, true>(n) : pick<T, IS_LAYER, false, false>(n));
    const int64_t fit = (int64_t)(CS_CUDA_SCRATCH_BYTES / sizeof(float)) / (2 * n);
    const unsigned blocks =
        cs_even_blocks((g->rows + c.rows - 1) / c.rows, c.most < fit ? c.most : fit);
    g->part = (float *)cs_cuda_handle_of(ctx)->scratch;
    c.kernel<<<blocks, (unsigned)c.threads, 0, cs_cuda_stream_of(ctx)>>>(*g);
    CS_CUDA_LAUNCHED(ctx, "norm_grad");
    if (wants_sums && IS_LAYER)
        cs_colsum_finish<2>(ctx, n, (int)blocks, g->part, dw, db);
    else if (wants_sums)
        cs_colsum_finish<1>(ctx, n, (int)blocks, g->part, dw, nullptr);
}

template <typename T>
void cs_cuda_norm_grad(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float offset,
                       const void *x, const void *w, const float *stat, const void *dy,
                       const void *dx_in, void *dx, void *dw, void *db)
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
                                       const void *, void *, void *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
