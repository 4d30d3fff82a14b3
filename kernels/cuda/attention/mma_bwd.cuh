/* Attention backward with mma.sync: dq, dk and dv of all allowed pairs over the cells of a mask; no
 * rule is evaluated. Recomputation and gradients as in FlashAttention (arXiv 2205.14135,
 * 2307.08691).
 *
 * One kernel does either side. A block is four warps that own 16 rows each of half a tile (queries
 * for dq, keys for dk and dv) of one head; the other side's rows come through shared memory, by
 * asynchronous copies. With a row of S and dP being a row of the block's own side:
 *     S = X1 Y1^T, dP = X2 Y2^T, P = exp2(S - lse), dS = P (dP - rowsum(dO o))
 *     first += dS Y1, second += P Y2
 *   queries: X1 = q, X2 = dO, Y1 = k, Y2 = v; first = dq
 *   keys:    X1 = k, X2 = v, Y1 = q, Y2 = dO; first = dk, second = dv; all query heads of the group
 * Sums stay in registers from the first step to the last, in the order of the lists: two passes
 * cost 7 products a cell instead of 5, but add nothing to memory, and give the same bits every
 * time. */
#ifndef CS_KERNELS_CUDA_ATTENTION_MMA_BWD_CUH
#define CS_KERNELS_CUDA_ATTENTION_MMA_BWD_CUH

#include "kernels/cuda/attention/mma_walk.cuh"

struct cs_mma_matrix {
    const __nv_bfloat16 *x;
    int32_t stride;
};

struct cs_mma_bwd_args {
    struct cs_mma_side side;
    struct cs_mma_matrix x1, x2, y1, y2;
    __nv_bfloat16 *first, *second; /* of the strides of x1 */
    const float *log, *sum;        /* (heads, tokens): -lse / ln 2, rowsum(dO o) */
    int32_t tokens, group;
    float scale, softcap;
    struct cs_attention_scales scales;
};

/* What a pass computes. A pass over keys of wide heads has registers for one sum only. */
enum { CS_MMA_DQ = 0, CS_MMA_DK = 1, CS_MMA_DV = 2, CS_MMA_DKV = CS_MMA_DK | CS_MMA_DV };

/* STEP: rows of the other side. STAGES: how many Y1 and Y2 are in shared memory together: 4: those
 * of the next step are loaded beside this one; 3: Y2 when this one needs its own no more; 2: Y1 as
 * well. */
template <int DIM, int STEP_, int STAGES_, int PASS_> struct cs_mma_bwd_layout {
    using rows = cs_mma_rows<DIM>;
    static constexpr int STEP = STEP_, STAGES = STAGES_, PASS = PASS_, ROWS = CS_MMA_WARPS * 16;
    static constexpr int THREADS = CS_MMA_THREADS, COLUMNS = STEP,
                         TILES = rows::N_TILES; /* of a warp */
    static constexpr bool IS_KEY = PASS != CS_MMA_DQ;
    static constexpr bool HAS_FIRST = PASS != CS_MMA_DV, HAS_SECOND = (PASS & CS_MMA_DV) != 0;
    static constexpr int OWN = ROWS * rows::PITCH, OTHER = STEP * rows::PITCH;
    static constexpr int STAT_BYTES = IS_KEY ? 2 * STEP * 4 : 0; /* of a stage: logs, sums */
    static constexpr int X1 = 0, X2 = X1 + OWN, Y1 = X2 + (HAS_FIRST ? OWN : 0);
    static constexpr int Y1_STAGES = STAGES > 2 ? 2 : 1, Y2_STAGES = STAGES > 3 ? 2 : 1;
    static constexpr int Y2 = Y1 + Y1_STAGES * OTHER, STAT = Y2 + Y2_STAGES * OTHER;
    static constexpr int LIST = STAT + Y1_STAGES * STAT_BYTES;
    static constexpr int BYTES = LIST + (int)sizeof(struct cs_mma_steps);
    static_assert(BYTES <= 101376, "shared memory of a block on cards of compute capability 8.9");
    static_assert(OWN % 128 == 0 && OTHER % 128 == 0);

    /* which part of the columns of S (and of what the pass computes) the warp has */
    __device__ __forceinline__ static int part(void)
    {
        return 0;
    }
};

template <class L, bool CAP> struct cs_mma_bwd_block {
    using R = typename L::rows;
    static constexpr int N = L::COLUMNS / 8;
    const struct cs_mma_bwd_args &a;
    uint8_t *const shared;
    const uint32_t base;
    float first[1][L::TILES][4], second[1][L::TILES][4];
    float own_log[2], own_sum[2]; /* of rows r and r + 8, where rows are queries */

    /* without the remainder where there is none: it would take a register that two kernels do not have */
    __device__ __forceinline__ static int warp_row(void)
    {
        const int warp = (int)threadIdx.x / 32;
        return (L::THREADS > CS_MMA_THREADS ? warp % CS_MMA_WARPS : warp) * 16;
    }

    __device__ __forceinline__ void load_own(int to, const cs_mma_matrix &m,
                                             const cs_mma_item &w) const
    {
        R::template load<L::ROWS, L::THREADS>(base + (uint32_t)to,
                                              m.x + (int64_t)w.row * m.stride + w.head * R::DIM,
                                              m.stride, w.rows);
    }

    __device__ __forceinline__ void load_other(int to, const cs_mma_matrix &m, int32_t head,
                                               const cs_mma_walk<L::STEP> &s) const
    {
        R::template load<L::STEP, L::THREADS>(
            base + (uint32_t)to, m.x + (int64_t)s.row() * m.stride + (head + s.round()) * R::DIM,
            m.stride, s.rows());
    }

    /* Y1 of the step that s is at and what is known of its queries */
    __device__ __forceinline__ void load_y1(int stage, int32_t head,
                                            const cs_mma_walk<L::STEP> &s) const
    {
        load_other(L::Y1 + stage * L::OTHER, a.y1, head, s);
        if (!L::IS_KEY || threadIdx.x >= 2 * L::STEP)
            return;
        const int i = (int)threadIdx.x % L::STEP;
        const float *from = ((int)threadIdx.x < L::STEP ? a.log : a.sum) +
                            (int64_t)(head + s.round()) * a.tokens + s.row();
        const bool is_there = i < s.rows();
        cs_mma_copy4(base + (uint32_t)(L::STAT + stage * L::STAT_BYTES) + threadIdx.x * 4,
                     is_there ? from + i : from, is_there);
    }

    /* -lse / ln 2 (or rowsum(dO o)) of accumulators i, i + 1 of column tile n */
    __device__ __forceinline__ float2 stat(int stage, bool is_sum, int n, int h) const
    {
        if (!L::IS_KEY) {
            const float x = is_sum ? own_sum[h] : own_log[h];
            return {x, x};
        }
        const float *from = (const float *)(shared + L::STAT + stage * L::STAT_BYTES);
        return *(const float2 *)(from + (is_sum ? L::STEP : 0) + L::part() * L::COLUMNS + 8 * n +
                                 threadIdx.x % 4 * 2);
    }

    /* Scores to probabilities: packed in p, and times the slope of the cap in s. */
    __device__ __forceinline__ void probabilities(float (&s)[N][4], uint32_t (&p)[N / 2][4],
                                                  int stage, int32_t cell, uint32_t bits) const
    {
        if (cell != CS_CELL_ALL)
            cs_keep<4 * N>(&s[0][0], bits);
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float2 log = stat(stage, false, n, h);
                float x[2], slope[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    x[i] = s[n][2 * h + i];
                    if (CAP) {
                        const float t = cs_tanh_log2(x[i] * a.scales.tanh);
                        slope[i] = 1.0f - t * t;
                        x[i] = x[i] == -INFINITY ? x[i] : t;
                    }
                    x[i] = cs_exp2(x[i] * a.scales.exp2 + (i == 0 ? log.x : log.y));
                }
                p[n / 2][n % 2 * 2 + h] = cs_pack_bf16(x[0], x[1]);
                s[n][2 * h] = CAP ? x[0] * slope[0] : x[0];
                s[n][2 * h + 1] = CAP ? x[1] * slope[1] : x[1];
            }
    }

    /* dS = P (dP - rowsum), packed */
    __device__ __forceinline__ void score_gradient(const float (&p)[N][4], const float (&dp)[N][4],
                                                   uint32_t (&ds)[N / 2][4], int stage) const
    {
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float2 sum = stat(stage, true, n, h);
                ds[n / 2][n % 2 * 2 + h] =
                    cs_pack_bf16(p[n][2 * h] * (dp[n][2 * h] - sum.x),
                                 p[n][2 * h + 1] * (dp[n][2 * h + 1] - sum.y));
            }
    }

    /* A step up to the last use of Y2; ds: for first */
    __device__ __forceinline__ void attend(uint32_t (&ds)[1][N / 2][4], int stage, int32_t cell,
                                           uint32_t bits)
    {
        const uint32_t own = base + (uint32_t)(warp_row() * R::PITCH);
        const uint32_t y2 = base + (uint32_t)(L::Y2 + (L::Y2_STAGES == 2 ? stage : 0) * L::OTHER);
        float s[1][N][4];
        R::template products<1, N>(s, own + L::X1, base + (uint32_t)(L::Y1 + stage * L::OTHER));
        {
            uint32_t p[1][N / 2][4];
            probabilities(s[0], p[0], stage, cell, bits);
            if constexpr (L::HAS_SECOND)
                R::template add<1, N>(second, p, y2);
        }
        if constexpr (L::HAS_FIRST) {
            float dp[1][N][4];
            R::template products<1, N>(dp, own + L::X2, y2);
            score_gradient(s[0], dp[0], ds[0], stage);
        }
    }

    __device__ __forceinline__ void begin(const cs_mma_item &w)
    {
#pragma unroll
        for (int n = 0; n < L::TILES; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                first[0][n][i] = second[0][n][i] = 0.0f;
        load_own(L::X1, a.x1, w);
        if (L::HAS_FIRST)
            load_own(L::X2, a.x2, w);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = warp_row() + h * 8 + (int)threadIdx.x % 32 / 4;
            const int64_t at = (int64_t)w.head * a.tokens + w.row + row;
            const bool is_row = !L::IS_KEY && row < w.rows;
            own_log[h] = is_row ? a.log[at] : 0.0f;
            own_sum[h] = is_row ? a.sum[at] : 0.0f;
        }
    }

    /* after a barrier */
    __device__ __forceinline__ void end(void)
    {
        const cs_mma_item w = cs_mma_item_of<L::ROWS>(a.side);
        const int row = warp_row(), column = L::part() * L::TILES * 8;
        const int64_t at = (int64_t)(w.row + row) * a.x1.stride + w.head * R::DIM + column;
        uint8_t *const own = shared + L::X1 + row * R::PITCH + column * 2;
        const float scale[1][2] = {
            {a.scale, a.scale}
        };
        const float unit[1][2] = {
            {1.0f, 1.0f}
        };
        if (L::HAS_FIRST)
            R::template store<1>(first, scale, own, a.first + at, a.x1.stride, w.rows - row);
        if (L::HAS_SECOND)
            R::template store<1>(second, unit, own, a.second + at, a.x1.stride, w.rows - row);
    }
};

template <class L, bool CAP>
__global__ void __launch_bounds__(CS_MMA_THREADS, 2)
    cs_mma_bwd_kernel(const __grid_constant__ struct cs_mma_bwd_args a)
{
    using R = typename L::rows;
    extern __shared__ __align__(128) uint8_t shared[];
    const cs_mma_item w = cs_mma_item_of<L::ROWS>(a.side);
    if (w.rows == 0)
        return;
    cs_mma_bwd_block<L, CAP> block = {a, shared, cs_mma_address(shared), {}, {}, {}, {}};
    const int32_t half = w.half;
    /* head of the other side: of the first round */
    const int32_t head = L::IS_KEY ? w.head * a.group : w.head / a.group;
    block.begin(w);
    cs_mma_walk<L::STEP> walk(a.side, (struct cs_mma_steps *)(shared + L::LIST), half);
    walk.begin(w.tile, L::IS_KEY ? a.group : 1);
    bool has_step = walk.next();
    if (has_step) {
        block.load_y1(0, head, walk);
        block.load_other(L::Y2, a.y2, head, walk);
    }
    cs_mma_commit();
    for (int stage = 0; has_step;) {
        const int32_t cell = walk.now().cell[half];
        const uint32_t bits = cs_mma_bits(a.side, cell, (int)threadIdx.x / 32, walk.from());
        has_step = walk.next();
        cs_mma_wait<0>();
        __syncthreads();
        if (L::Y1_STAGES == 2 && has_step)
            block.load_y1(stage ^ 1, head, walk);
        if (L::Y2_STAGES == 2 && has_step)
            block.load_other(L::Y2 + (stage ^ 1) * L::OTHER, a.y2, head, walk);
        cs_mma_commit();
        uint32_t ds[1][L::STEP / 16][4];
        block.attend(ds, stage, cell, bits);
        if (L::Y2_STAGES == 1) {
            __syncthreads();
            if (has_step)
                block.load_other(L::Y2, a.y2, head, walk);
        }
        if constexpr (L::HAS_FIRST)
            R::template add<1, L::STEP / 8>(block.first, ds,
                                            block.base + (uint32_t)(L::Y1 + stage * L::OTHER));
        if (L::Y1_STAGES == 1) {
            __syncthreads();
            if (has_step)
                block.load_y1(0, head, walk);
        }
        cs_mma_commit();
        stage = L::Y1_STAGES == 2 ? stage ^ 1 : 0;
    }
    cs_mma_wait<0>(); /* own rows that meet nothing */
    __syncthreads();
    block.end();
}

template <class L, bool CAP>
static void cs_mma_bwd_run(struct cs_ctx *ctx, const struct cs_mma_bwd_args &a)
{
    auto *kernel = cs_mma_bwd_kernel<L, CAP>;
    CS_CUDA_NOTE(ctx,
                 cudaFuncSetAttribute((const void *)kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, L::BYTES),
                 "attention_grad");
    const unsigned blocks = (unsigned)(a.side.n * (CS_MASK_TILE / L::ROWS) * a.side.heads);
    kernel<<<blocks, CS_MMA_THREADS, L::BYTES, cs_cuda_stream_of(ctx)>>>(a);
    CS_CUDA_LAUNCHED(ctx, "attention_grad");
}

/* CAPPED: the layout under a soft cap */
template <class L, class CAPPED = L>
static void cs_mma_bwd_launch(struct cs_ctx *ctx, const struct cs_mma_bwd_args &a)
{
    if (a.softcap > 0.0f)
        cs_mma_bwd_run<CAPPED, true>(ctx, a);
    else
        cs_mma_bwd_run<L, false>(ctx, a);
}

/* The passes; they are there for every head_dim of the entry. */
typedef void (*cs_mma_bwd_pass)(struct cs_ctx *, const struct cs_mma_bwd_args &);

cs_mma_bwd_pass cs_mma_bwd_queries(int32_t head_dim); /* attention/mma_bwd_queries.cu */
cs_mma_bwd_pass cs_mma_bwd_keys(int32_t head_dim);    /* attention/mma_bwd_keys.cu */

/* heads of 512 (attention/mma_bwd_wide.cu) */
void cs_mma_bwd_wide_queries(struct cs_ctx *ctx, const struct cs_mma_bwd_args &a);
void cs_mma_bwd_wide_keys(struct cs_ctx *ctx, const struct cs_mma_bwd_args &a);

#endif
