/* Attention backward with mma.sync, heads of 512: as attention/mma_bwd.cuh, with eight warps. Warp g +
 * 4 h has the 16 rows from 16 g on of the block's 64, of S and dP half h of a step's 32 columns, of the
 * sum half h of the 512; P or dS goes through shared memory in between. A pass has registers for one
 * sum: dq, dk and dv in a pass each. Both own matrices and both of a step lie in shared memory whole
 * (197 KiB: one block a multiprocessor); the one that a step needs no more is loaded while the other
 * is multiplied. */
#include "kernels/cuda/attention/mma_bwd.cuh"

template <int PASS_> struct wide {
    using rows = cs_mma_rows<512>;
    static constexpr int PASS = PASS_, STEP = 32, ROWS = CS_MMA_WARPS * 16;
    static constexpr int THREADS = 2 * CS_MMA_THREADS, COLUMNS = STEP / 2,
                         TILES = rows::N_TILES / 2;
    static constexpr bool IS_KEY = PASS != CS_MMA_DQ;
    static constexpr bool HAS_FIRST = PASS != CS_MMA_DV, HAS_SECOND = PASS == CS_MMA_DV;
    using weights = cs_mma_rows<STEP>;
    static constexpr int OWN = ROWS * rows::PITCH, OTHER = STEP * rows::PITCH;
    static constexpr int STAT_BYTES = IS_KEY ? 2 * STEP * 4 : 0;
    static constexpr int X1 = 0, X2 = X1 + OWN, Y1 = X2 + (HAS_FIRST ? OWN : 0), Y2 = Y1 + OTHER;
    static constexpr int WEIGHTS = Y2 + OTHER, STAT = WEIGHTS + ROWS * weights::PITCH;
    static constexpr int LIST = STAT + STAT_BYTES, BYTES = LIST + (int)sizeof(struct cs_mma_steps);
    static_assert(BYTES <= CS_MMA_WIDE_BYTES);

    __device__ __forceinline__ static int part(void)
    {
        return (int)threadIdx.x / CS_MMA_THREADS;
    }
};

/* What a warp has of P or dS (16 rows, 16 columns) to shared memory */
template <class L>
__device__ __forceinline__ static void put(uint8_t *shared, const uint32_t (&x)[1][4])
{
    const int lane = (int)threadIdx.x % 32,
              row = (int)threadIdx.x / 32 % CS_MMA_WARPS * 16 + lane / 4;
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            *(uint32_t *)(shared + L::WEIGHTS + L::weights::at(row + h * 8, L::part() * 2 + n) +
                          lane % 4 * 4) = x[0][n * 2 + h];
}

template <class L, bool CAP>
__global__ void __launch_bounds__(L::THREADS, 1)
    cs_mma_bwd_wide_kernel(const __grid_constant__ struct cs_mma_bwd_args a)
{
    using R = typename L::rows;
    constexpr int N = L::COLUMNS / 8;
    extern __shared__ __align__(128) uint8_t shared[];
    const cs_mma_item w = cs_mma_item_of<L::ROWS>(a.side);
    if (w.rows == 0)
        return;
    cs_mma_bwd_block<L, CAP> block = {a, shared, cs_mma_address(shared), {}, {}, {}, {}};
    const int32_t head = L::IS_KEY ? w.head * a.group : w.head / a.group;
    const int row = block.warp_row(), lane = (int)threadIdx.x % 32;
    const uint32_t own = block.base + (uint32_t)(row * R::PITCH);
    const uint32_t columns = (uint32_t)(L::part() * L::COLUMNS * R::PITCH);
    block.begin(w);
    cs_mma_walk<L::STEP> walk(a.side, (struct cs_mma_steps *)(shared + L::LIST), w.half);
    walk.begin(w.tile, L::IS_KEY ? a.group : 1);
    bool has_step = walk.next();
    if (has_step) {
        block.load_y1(0, head, walk);
        block.load_other(L::Y2, a.y2, head, walk);
    }
    cs_mma_commit();
    while (has_step) {
        const int32_t cell = walk.now().cell[w.half];
        const uint32_t bits =
            cs_mma_bits(a.side, cell, row / 16, walk.from() + L::part() * L::COLUMNS);
        cs_mma_wait<0>();
        __syncthreads();
        float s[1][N][4];
        uint32_t x[1][N / 2][4];
        R::template products<1, N>(s, own + L::X1, block.base + L::Y1 + columns);
        block.probabilities(s[0], x[0], 0, cell, bits);
        if constexpr (L::HAS_FIRST) {
            float dp[1][N][4];
            R::template products<1, N>(dp, own + L::X2, block.base + L::Y2 + columns);
            block.score_gradient(s[0], dp[0], x[0], 0);
        }
        put<L>(shared, x[0]);
        has_step = walk.next();
        __syncthreads();
        /* dS Y1 is next where Y2 is needed no more, P Y2 where Y1 is */
        if (has_step) {
            if constexpr (L::HAS_FIRST)
                block.load_other(L::Y2, a.y2, head, walk);
            else
                block.load_y1(0, head, walk);
        }
        cs_mma_commit();
        uint32_t all[1][L::STEP / 16][4];
        const uint32_t from = block.base + L::WEIGHTS + L::weights::at(row + lane % 16, lane / 16);
#pragma unroll
        for (int k = 0; k < L::STEP / 16; k++)
            cs_mma_matrices(all[0][k], L::weights::later(from, k));
        const uint32_t sum = block.base + (uint32_t)(L::part() * L::TILES * 16);
        if constexpr (L::HAS_FIRST)
            R::template add<1, L::STEP / 8>(block.first, all, sum + L::Y1);
        else
            R::template add<1, L::STEP / 8>(block.second, all, sum + L::Y2);
        __syncthreads();
        if (has_step) {
            if constexpr (L::HAS_FIRST)
                block.load_y1(0, head, walk);
            else
                block.load_other(L::Y2, a.y2, head, walk);
        }
        cs_mma_commit();
    }
    cs_mma_wait<0>(); /* own rows that meet nothing */
    __syncthreads();
    block.end();
}

template <int PASS> static void run(struct cs_ctx *ctx, const struct cs_mma_bwd_args &a)
{
    using L = wide<PASS>;
    auto *kernel =
        a.softcap > 0.0f ? cs_mma_bwd_wide_kernel<L, true> : cs_mma_bwd_wide_kernel<L, false>;
    CS_CUDA_NOTE(ctx,
                 cudaFuncSetAttribute((const void *)kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, L::BYTES),
                 "attention_grad");
    const unsigned blocks = (unsigned)(a.side.n * (CS_MASK_TILE / L::ROWS) * a.side.heads);
    kernel<<<blocks, L::THREADS, L::BYTES, cs_cuda_stream_of(ctx)>>>(a);
    CS_CUDA_LAUNCHED(ctx, "attention_grad");
}

void cs_mma_bwd_wide_queries(struct cs_ctx *ctx, const struct cs_mma_bwd_args &a)
{
    run<CS_MMA_DQ>(ctx, a);
}

void cs_mma_bwd_wide_keys(struct cs_ctx *ctx, const struct cs_mma_bwd_args &a)
{
    run<CS_MMA_DK>(ctx, a);
    run<CS_MMA_DV>(ctx, a);
}
