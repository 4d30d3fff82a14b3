/* Attention forward with mma.sync, heads of 512: as attention/mma_fwd.cu, but 16 rows of 512 sums are
 * more than a warp's registers hold. A block is 64 query rows and eight warps: warp g + 4 h has the 16
 * rows from 16 g on, of scores half h of the 64 keys of a step, of sums half h of the columns. So no
 * product is computed twice: two warps tell each other the largest scores of their rows, and weights go
 * through shared memory. 201 KiB (queries, keys and values of a step whole): one block a
 * multiprocessor; values come while scores are computed, the next keys while sums are. */
#include "kernels/cuda/attention/mma_fwd.cuh"

constexpr int DIM = 512, ROWS = 64, STEP = 64, WARPS = 2 * CS_MMA_WARPS, THREADS = 32 * WARPS;
constexpr int KEYS = STEP / 2, TILES = DIM / 16, N = KEYS / 8; /* of a warp */

using R = cs_mma_rows<DIM>;
using weights = cs_mma_rows<STEP>;

constexpr int Q = 0, K = Q + ROWS * R::PITCH, V = K + STEP * R::PITCH, P = V + STEP * R::PITCH;
constexpr int TOP = P + ROWS * weights::PITCH, LIST = TOP + 2 * ROWS * 4; /* TOP: by half and row */
constexpr int BYTES = LIST + (int)sizeof(struct cs_mma_steps);

static_assert(BYTES <= CS_MMA_WIDE_BYTES);

/* Both warps of the same 16 rows */
__device__ __forceinline__ static void sync_pair(int group)
{
    asm volatile("bar.sync %0, 64;" ::"r"(1 + group) : "memory");
}

/* x of the thread's two rows, as the other warp of the rows has them. Between two exchanges all threads
 * meet. */
__device__ __forceinline__ static void exchange(float *top, int group, int half, float (&x)[2])
{
    const int lane = (int)threadIdx.x % 32, row = group * 16 + lane / 4;
    if (lane % 4 == 0) {
        top[half * ROWS + row] = x[0];
        top[half * ROWS + row + 8] = x[1];
    }
    sync_pair(group);
    x[0] = top[(1 - half) * ROWS + row];
    x[1] = top[(1 - half) * ROWS + row + 8];
}

template <bool CAP>
__global__ void __launch_bounds__(THREADS, 1)
    forward_wide_kernel(const __grid_constant__ struct cs_mma_fwd_args a)
{
    extern __shared__ __align__(128) uint8_t shared[];
    const uint32_t base = cs_mma_address(shared);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int group = warp % CS_MMA_WARPS, half = warp / CS_MMA_WARPS;
    float *const top = (float *)(shared + TOP);
    const cs_mma_item w = cs_mma_item_of<ROWS>(a.side);
    if (w.rows == 0)
        return;
    const int32_t kv = w.head / a.group * DIM;
    cs_mma_walk<STEP> walk(a.side, (struct cs_mma_steps *)(shared + LIST), w.half);
    const auto load = [&](int to, const __nv_bfloat16 *x) {
        R::template load<STEP, THREADS>(base + (uint32_t)to,
                                        x + (int64_t)walk.row() * a.kv_stride + kv, a.kv_stride,
                                        walk.rows());
        cs_mma_commit();
    };
    float o[1][TILES][4] = {};
    cs_softmax_rows r = cs_softmax_rows_new();
    R::template load<ROWS, THREADS>(
        base + Q, a.q + (int64_t)w.row * a.q_stride + (int64_t)w.head * DIM, a.q_stride, w.rows);
    walk.begin(w.tile, 1);
    bool has_step = walk.next();
    if (has_step)
        load(K, a.k);
    while (has_step) {
        const int32_t cell = walk.now().cell[w.half];
        const uint32_t bits = cs_mma_bits(a.side, cell, group, half * KEYS);
        cs_mma_wait<0>();
        __syncthreads();
        load(V, a.v);
        float s[1][N][4];
        R::template products<1, N>(s, base + Q + (uint32_t)(group * 16 * R::PITCH),
                                   base + K + (uint32_t)(half * KEYS * R::PITCH));
        float *const scores = &s[0][0][0];
        if (CAP)
            cs_cap<4 * N>(scores, a.scales.tanh);
        if (cell != CS_CELL_ALL)
            cs_keep<4 * N>(scores, bits);
        const float own[2] = {cs_quad_max(cs_softmax_top<4 * N, 1>(scores)),
                              cs_quad_max(cs_softmax_top<4 * N, 1>(scores + 2))};
        float all[2] = {own[0], own[1]};
        exchange(top, group, half, all);
        all[0] = fmaxf(all[0], own[0]);
        all[1] = fmaxf(all[1], own[1]);
        cs_shrink<4 * TILES>(&o[0][0][0],
                             cs_softmax_below<4 * N, 1>(scores, all, a.scales.exp2, &r));
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(uint32_t *)(shared + P +
                              weights::at(group * 16 + h * 8 + lane / 4, half * N + n) +
                              lane % 4 * 4) = cs_pack_bf16(s[0][n][2 * h], s[0][n][2 * h + 1]);
        has_step = walk.next();
        cs_mma_wait<0>();
        __syncthreads();
        if (has_step)
            load(K, a.k);
        uint32_t p[1][STEP / 16][4];
        const uint32_t rows = base + P + weights::at(group * 16 + lane % 16, lane / 16);
#pragma unroll
        for (int k = 0; k < STEP / 16; k++)
            cs_mma_matrices(p[0][k], weights::later(rows, k));
        R::template add<1, STEP / 8>(o, p, base + V + (uint32_t)(half * DIM));
    }

    cs_mma_commit(); /* queries of rows that see nothing */
    cs_mma_wait<0>();
    __syncthreads();
    const float mine[2] = {cs_quad_sum(r.sum[0]), cs_quad_sum(r.sum[1])};
    float other[2] = {mine[0], mine[1]}, factor[1][2];
    exchange(top, group, half, other);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const cs_attention_end end =
            cs_attention_end_of(r.max[h] * a.scales.exp2 * CS_LN2, mine[h] + other[h],
                                cs_attention_sink_of(a.sink, w.head));
        const int32_t row = group * 16 + h * 8 + lane / 4;
        factor[0][h] = end.factor;
        if (half == 0 && lane % 4 == 0 && row < w.rows)
            a.lse[(int64_t)w.head * a.tokens + w.row + row] = end.lse;
    }
    const int at = group * 16, column = half * TILES * 8;
    R::template store<1>(o, factor, shared + Q + at * R::PITCH + column * 2,
                         a.o + (int64_t)(w.row + at) * a.o_stride + (int64_t)w.head * DIM + column,
                         a.o_stride, w.rows - at);
}

void cs_mma_fwd_wide(struct cs_ctx *ctx, const struct cs_mma_fwd_args &a, bool cap)
{
    auto *kernel = cap ? forward_wide_kernel<true> : forward_wide_kernel<false>;
    CS_CUDA_NOTE(ctx,
                 cudaFuncSetAttribute((const void *)kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES),
                 "attention");
    const unsigned blocks = (unsigned)(a.side.n * (CS_MASK_TILE / ROWS) * a.side.heads);
    kernel<<<blocks, THREADS, BYTES, cs_cuda_stream_of(ctx)>>>(a);
    CS_CUDA_LAUNCHED(ctx, "attention");
}
