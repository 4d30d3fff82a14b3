/* Attention forward with mma.sync: flash attention with an online softmax over the cells that a
 * mask has. A block is four warps that own 32 query rows each (16 where heads are wide) of one
 * head; keys and values go through a ring of slots in shared memory, filled by asynchronous copies
 * one step ahead. Two blocks share a multiprocessor, so that one's softmax hides behind the other's
 * products. Sources of the algorithm: FlashAttention-2 (arXiv 2307.08691), the online softmax of
 * Milakov and Gimelshein; skipping the rescale of small growths: FlashAttention-4. */
#include "kernels/cuda/attention/mma_fwd.cuh"

#define STEP 64 /* keys */
#define N    (STEP / 8)

/* M: tiles of 16 rows of a warp. SLOTS 3: keys of the next step are loaded beside those of this
 * one; 2: beside its values. */
template <int DIM, int M_, int SLOTS_> struct layout {
    using rows = cs_mma_rows<DIM>;
    static constexpr int M = M_, SLOTS = SLOTS_, ROWS = CS_MMA_WARPS * 16 * M;
    static constexpr int SLOT = STEP * rows::PITCH, Q = SLOTS * SLOT;
    static constexpr int LIST = Q + ROWS * rows::PITCH;
    static constexpr int BYTES = LIST + (int)sizeof(struct cs_mma_steps);
    static_assert(BYTES <= 101376, "shared memory of a block on cards of compute capability 8.9");
    static_assert(SLOT % 128 == 0);
};

template <class L, bool CAP>
__global__ void __launch_bounds__(CS_MMA_THREADS, 2)
    forward_kernel(const __grid_constant__ struct cs_mma_fwd_args a)
{
    using R = typename L::rows;
    extern __shared__ __align__(128) uint8_t shared[];
    const uint32_t base = cs_mma_address(shared);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const cs_mma_item first_look = cs_mma_item_of<L::ROWS>(a.side);
    if (first_look.rows == 0)
        return;
    const int32_t half = L::M == 2 ? -1 : first_look.half;
    const int own = L::M == 2 ? warp / 2 : first_look.half; /* half of the tile */
    const int first = L::M == 2 ? warp % 2 * 2 : warp;      /* tile of 16 rows in it */
    const int32_t kv = first_look.head / a.group * R::DIM;
    cs_mma_walk<STEP> walk(a.side, (struct cs_mma_steps *)(shared + L::LIST), half);
    const auto load = [&](int slot, const __nv_bfloat16 *x) {
        R::template load<STEP>(base + (uint32_t)(slot * L::SLOT),
                               x + (int64_t)walk.row() * a.kv_stride + kv, a.kv_stride,
                               walk.rows());
    };

    float o[L::M][R::N_TILES][4] = {};
    cs_softmax_rows r[L::M];
#pragma unroll
    for (int m = 0; m < L::M; m++)
        r[m] = cs_softmax_rows_new();
    R::template load<L::ROWS>(
        base + L::Q, a.q + (int64_t)first_look.row * a.q_stride + (int64_t)first_look.head * R::DIM,
        a.q_stride, first_look.rows);
    walk.begin(first_look.tile, 1);
    bool has_step = walk.next();
    if (has_step) {
        load(0, a.k);
        cs_mma_commit();
        if (L::SLOTS == 3) {
            load(1, a.v);
            cs_mma_commit();
        }
    }
    for (int slot = 0; has_step;) {
        const int k_slot = slot, v_slot = L::SLOTS == 3 ? (slot + 1) % 3 : 1;
        const int32_t cell = walk.now().cell[own];
        uint32_t bits[L::M];
#pragma unroll
        for (int m = 0; m < L::M; m++)
            bits[m] = cs_mma_bits(a.side, cell, first + m, 0);
        if (L::SLOTS == 3)
            has_step = walk.next();

        cs_mma_wait<L::SLOTS - 2>();
        __syncthreads();
        if (L::SLOTS == 2)
            load(1, a.v);
        else if (has_step)
            load((slot + 2) % 3, a.k);
        cs_mma_commit();
        uint32_t p[L::M][N / 2][4];
        if (cell != CS_CELL_NONE) {
            float s[L::M][N][4];
            R::template products<L::M, N>(s, base + L::Q + (uint32_t)(warp * 16 * L::M * R::PITCH),
                                          base + (uint32_t)(k_slot * L::SLOT));
#pragma unroll
            for (int m = 0; m < L::M; m++) {
                float *const scores = &s[m][0][0];
                if (CAP)
                    cs_cap<4 * N>(scores, a.scales.tanh);
                if (cell != CS_CELL_ALL)
                    cs_keep<4 * N>(scores, bits[m]);
                cs_shrink<4 * R::N_TILES>(&o[m][0][0],
                                          cs_softmax<4 * N, 1>(scores, a.scales.exp2, &r[m]));
                cs_mma_pack_left<N>(s[m], p[m]);
            }
        }

        if (L::SLOTS == 2)
            has_step = walk.next();
        cs_mma_wait<L::SLOTS - 2>();
        __syncthreads();
        if (has_step)
            load(k_slot, L::SLOTS == 2 ? a.k : a.v);
        cs_mma_commit();
        if (cell != CS_CELL_NONE)
            R::template add<L::M, N>(o, p, base + (uint32_t)(v_slot * L::SLOT));
        if (L::SLOTS == 3)
            slot = (slot + 2) % 3;
    }

    cs_mma_commit(); /* queries of rows that see nothing */
    cs_mma_wait<0>();
    __syncthreads();
    const cs_mma_item w = cs_mma_item_of<L::ROWS>(a.side);
    float factor[L::M][2];
#pragma unroll
    for (int m = 0; m < L::M; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const cs_attention_end end =
                cs_attention_end_of(r[m].max[h] * a.scales.exp2 * CS_LN2, cs_quad_sum(r[m].sum[h]),
                                    cs_attention_sink_of(a.sink, w.head));
            const int32_t row = (warp * L::M + m) * 16 + h * 8 + lane / 4;
            factor[m][h] = end.factor;
            if (lane % 4 == 0 && row < w.rows)
                a.lse[(int64_t)w.head * a.tokens + w.row + row] = end.lse;
        }
    const int32_t at = warp * 16 * L::M;
    R::template store<L::M>(o, factor, shared + L::Q + at * R::PITCH,
                            a.o + (int64_t)(w.row + at) * a.o_stride + (int64_t)w.head * R::DIM,
                            a.o_stride, w.rows - at);
}

template <int DIM, int M, int SLOTS>
static void launch(struct cs_ctx *ctx, const struct cs_mma_fwd_args &a, bool cap)
{
    using L = layout<DIM, M, SLOTS>;
    auto *kernel = cap ? forward_kernel<L, true> : forward_kernel<L, false>;
    CS_CUDA_NOTE(ctx,
                 cudaFuncSetAttribute((const void *)kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, L::BYTES),
                 "attention");
    const unsigned blocks = (unsigned)(a.side.n * (CS_MASK_TILE / L::ROWS) * a.side.heads);
    kernel<<<blocks, CS_MMA_THREADS, L::BYTES, cs_cuda_stream_of(ctx)>>>(a);
    CS_CUDA_LAUNCHED(ctx, "attention");
}

template <int DIM> static constexpr cs_mma_fwd_run narrow = launch<DIM, 2, 3>;
template <int DIM> static constexpr cs_mma_fwd_run broad = launch<DIM, 1, 2>;

static cs_mma_fwd_run launch_for(int32_t head_dim)
{
    static const struct {
        int32_t dim;
        cs_mma_fwd_run run;
    } table[] = {
        {64,  narrow<64>     },
        {72,  narrow<72>     },
        {80,  narrow<80>     },
        {96,  narrow<96>     },
        {128, narrow<128>    },
        {256, broad<256>     },
        {512, cs_mma_fwd_wide},
    };

    for (const auto &row : table)
        if (row.dim == head_dim)
            return row.run;
    return nullptr;
}

bool cs_cuda_attention_fwd_mma(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                               const struct cs_mask_plan *mask, const void *q, const void *k,
                               const void *v, void *o, float *lse)
{
    const cs_mma_fwd_run run = launch_for(shape->head_dim);
    const uintptr_t any = (uintptr_t)q | (uintptr_t)k | (uintptr_t)v | (uintptr_t)o;
    if (run == nullptr || !cs_mma_is_own(ctx, shape, mask, any))
        return false;
    const int32_t group = shape->heads / shape->kv_heads;
    const struct cs_mma_fwd_args a = {
        .side = cs_mma_side_of(mask->cells, false, shape->heads,
                               group * cs_mma_section(ctx, shape, cs_attention_keys(shape),
                                                      (int64_t)mask->cells->n_q * group)),
        .q = (const __nv_bfloat16 *)q,
        .k = (const __nv_bfloat16 *)k,
        .v = (const __nv_bfloat16 *)v,
        .o = (__nv_bfloat16 *)o,
        .lse = lse,
        .sink = shape->sink,
        .tokens = shape->tokens,
        .group = group,
        .q_stride = shape->q_stride,
        .kv_stride = shape->kv_stride,
        .o_stride = shape->o_stride,
        .scales = cs_attention_scales_of(shape),
    };
    run(ctx, a, shape->softcap > 0.0f);
    return true;
}
