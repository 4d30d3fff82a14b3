/* Attention backward for Hopper: dq, dk and dv of all allowed pairs in one pass over the cells of
 * the mask (core/mask/cells.h, by_k); no rule is evaluated. Recomputation and gradients as in
 * FlashAttention; transposed scores, register operands, bulk additions as in FlashAttention-3.
 *
 * A block works on a key tile and one kv head: K and V stay in shared memory, dK and dV in
 * registers (64 rows for each of two warpgroups) over all query heads of the group; where that
 * gives too few items a group is split and its parts are added afterwards. For each half of a
 * query tile, with rows of S and P being keys:
 *     S = K Q^T, dP = V dO^T, P = exp2(S - lse), dS = P (dP - rowsum(dO o))
 *     dV += P dO, dK += dS Q     P and dS are operands in the registers they were computed in
 *     dQ = dS^T K                dS of both warpgroups through shared memory; each gives half of
 *                                the columns, added in fp32 in memory by the copy engine
 * S of the next step is issued before dQ of this one is waited for, so the tensor cores always have
 * work of the same warpgroup while it computes P, dS or stores dQ.
 *
 * Third warpgroup: warp 0 walks the lists and loads, warps 1 and 2 add dQ of one warpgroup each
 * (and wait for their turn in a deterministic run). */
#include "kernels/cuda/attention_bwd_sm90.cuh"

#define PRODUCER_REGISTERS 40
#define CONSUMER_REGISTERS 232
#define THREADS            (3 * CS_WARPGROUP)
#define CONSUMER_WARPS     8

/* Named barriers; + warpgroup where there are two. */
enum { BAR_DS = 1, BAR_DQ_FULL = 2, BAR_DQ_FREE = 4 };

#define DQ_THREADS (CS_WARPGROUP + 32) /* a warpgroup and the warp that adds its dQ */

/* What the producer says about a step, next to its queries: cells of both warpgroups, which sum of
 * dQ, rank << 1 | is last of the item. */
struct step {
    int32_t cell[2], half, flags;
};

/* One tile of work; tile -1: no more. */
struct item {
    int32_t tile, column, steps;
};

/* Places in shared memory, bytes from a 1024-byte boundary. */
template <int DIM> struct layout {
    static constexpr int PANELS = (DIM + CS_BWD_PANEL - 1) / CS_BWD_PANEL;
    static constexpr int K_STEPS = (DIM + 15) / 16; /* columns past DIM are zeros */
    static constexpr int KEY_PANEL = CS_MASK_TILE * 128, KEY_BYTES = PANELS * KEY_PANEL;
    static constexpr int QUERY_PANEL = CS_BWD_ROWS * 128, QUERY_BYTES = PANELS * QUERY_PANEL;
    static constexpr int DS_BYTES = CS_BWD_ROWS * 128; /* (64 keys, 64 queries) */
    /* columns of dQ by warpgroup: a panel each, what is left of the second, or half a panel */
    static constexpr int DQ_FIRST = DIM > CS_BWD_PANEL ? CS_BWD_PANEL : DIM / 2;

    static constexpr int K = 0;
    static constexpr int V = K + KEY_BYTES;
    static constexpr int Q = V + KEY_BYTES;
    static constexpr int DO = Q + CS_BWD_STAGES * QUERY_BYTES;
    static constexpr int DS = DO + CS_BWD_STAGES * QUERY_BYTES; /* (stage, warpgroup) */
    static constexpr int DQ = DS + CS_BWD_STAGES * 2 * DS_BYTES;
    static constexpr int STAT = DQ + CS_BWD_ROWS * DIM * 4;
    static constexpr int STEP = STAT + CS_BWD_STAGES * CS_BWD_STAT_BYTES;
    static constexpr int ITEM = STEP + CS_BWD_STAGES * (int)sizeof(struct step);
    static constexpr int ADD = ITEM + 16; /* (warpgroup) int2: half, rank; half -1: no more */
    static constexpr int BARS = ADD + 16;
    static constexpr int KEYS_FULL = BARS, KEYS_FREE = BARS + 8;
    static constexpr int Q_FULL = BARS + 16, Q_FREE = Q_FULL + 8 * CS_BWD_STAGES;
    static constexpr int DO_FULL = Q_FREE + 8 * CS_BWD_STAGES;
    static constexpr int DO_FREE = DO_FULL + 8 * CS_BWD_STAGES;
    static constexpr int BYTES = DO_FREE + 8 * CS_BWD_STAGES + 1024; /* room to align */
};

struct maps {
    CUtensorMap q, k, v, d_o, stat;
};

/* --- producer -------------------------------------------------------------------------------- */

template <int DIM> struct producer {
    using L = layout<DIM>;
    uint32_t base;
    uint8_t *shared;
    const struct maps *maps;
    struct cs_ring<CS_BWD_STAGES> ring;

    /* Called by one lane. */
    __device__ __forceinline__ void keys(int32_t row, int32_t kv_head) const
    {
        const uint32_t full = base + L::KEYS_FULL;
        cs_mbar_expect(full, 2 * L::KEY_BYTES);
        for (int p = 0; p < L::PANELS; p++)
            cs_tma_load(base + L::K + p * L::KEY_PANEL, &maps->k, full, p * CS_BWD_PANEL, kv_head,
                        row);
        for (int p = 0; p < L::PANELS; p++)
            cs_tma_load(base + L::V + p * L::KEY_PANEL, &maps->v, full, p * CS_BWD_PANEL, kv_head,
                        row);
    }

    __device__ __forceinline__ void queries(struct step s, int32_t row, int32_t head)
    {
        const uint32_t at = ring.stage * L::QUERY_BYTES;
        const uint32_t q_full = base + L::Q_FULL + 8 * ring.stage;
        const uint32_t do_full = base + L::DO_FULL + 8 * ring.stage;
        cs_mbar_wait(base + L::Q_FREE + 8 * ring.stage, ring.parity ^ 1);
        *((int4 *)(shared + L::STEP) + ring.stage) =
            make_int4(s.cell[0], s.cell[1], s.half, s.flags);
        cs_mbar_expect(q_full, L::QUERY_BYTES + CS_BWD_STAT_BYTES);
        for (int p = 0; p < L::PANELS; p++)
            cs_tma_load(base + L::Q + at + p * L::QUERY_PANEL, &maps->q, q_full, p * CS_BWD_PANEL,
                        head, row);
        cs_tma_load(base + L::STAT + ring.stage * CS_BWD_STAT_BYTES, &maps->stat, q_full, 0,
                    s.half);
        cs_mbar_wait(base + L::DO_FREE + 8 * ring.stage, ring.parity ^ 1);
        cs_mbar_expect(do_full, L::QUERY_BYTES);
        for (int p = 0; p < L::PANELS; p++)
            cs_tma_load(base + L::DO + at + p * L::QUERY_PANEL, &maps->d_o, do_full,
                        p * CS_BWD_PANEL, head, row);
        ring.step();
    }
};

/* The list of one key tile for one query head; a lane reads one of 32 entries ahead. */
template <int DIM>
__device__ __forceinline__ void produce_head(const struct cs_bwd_args &a, struct producer<DIM> &to,
                                             int32_t tile, int32_t count, int32_t head,
                                             bool is_last_head)
{
    const int lane = (int)threadIdx.x % 32;
    const int32_t halves = (int32_t)cs_bwd_halves(a);
    for (int32_t e0 = 0; e0 < count; e0 += 32) {
        uint32_t entry = 0;
        int4 cells = {CS_CELL_NONE, CS_CELL_NONE, CS_CELL_NONE, CS_CELL_NONE};
        int32_t row = 0;
        if (e0 + lane < count) {
            const int64_t at = (int64_t)tile * a.by_k.stride + e0 + lane;
            entry = a.by_k.entry[at];
            cells = *(const int4 *)a.by_k.cell[at];
            row = a.q_row[entry & 0xffff];
        }
        for (int32_t i = 0; i < min(32, count - e0); i++) {
            const uint32_t e = __shfl_sync(0xffffffffu, entry, i);
            const int32_t first = __shfl_sync(0xffffffffu, row, i);
            const int4 c = {__shfl_sync(0xffffffffu, cells.x, i),
                            __shfl_sync(0xffffffffu, cells.y, i),
                            __shfl_sync(0xffffffffu, cells.z, i),
                            __shfl_sync(0xffffffffu, cells.w, i)};
            /* in turn: nobody may be left out, the next rank would wait for it */
            const bool has_top = a.is_ordered || c.x != CS_CELL_NONE || c.y != CS_CELL_NONE;
            const bool has_low = a.is_ordered || c.z != CS_CELL_NONE || c.w != CS_CELL_NONE;
            const bool is_last = is_last_head && e0 + i == count - 1;
            const int32_t half = head * halves + 2 * (int32_t)(e & 0xffff);
            const int32_t rank = (int32_t)(e >> 16) << 1;
            if (lane == 0 && has_top)
                to.queries({{c.x, c.y}, half, rank | (is_last && !has_low)}, first, head);
            if (lane == 0 && has_low)
                to.queries({{c.z, c.w}, half + 1, rank | is_last}, first + CS_BWD_ROWS, head);
        }
    }
    __syncwarp();
}

template <int DIM>
__device__ __forceinline__ void produce(const struct cs_bwd_args &a, const struct maps *maps,
                                        uint8_t *shared)
{
    using L = layout<DIM>;
    const int lane = (int)threadIdx.x % 32;
    const uint32_t base = cs_smem(shared);
    const int32_t columns = a.kv_heads * a.parts;
    struct producer<DIM> to = {base, shared, maps, {0, 0}};
    for (uint32_t parity = 1;; parity ^= 1) {
        int32_t next = lane == 0 ? atomicAdd(a.next, 1) : 0;
        next = __shfl_sync(0xffffffffu, next, 0);
        const bool is_end = next >= a.n_k * columns;
        /* in turn: tiles in ascending order, else the longest first */
        const int32_t nth = next / columns, column = next % columns;
        const int32_t tile = is_end ? -1 : a.is_ordered ? nth : a.by_k.order[nth];
        const int32_t count = is_end ? 0 : a.by_k.count[tile];
        cs_mbar_wait(base + L::KEYS_FREE, parity);
        if (lane == 0) {
            *(int4 *)(shared + L::ITEM) = make_int4(tile, column, count, 0);
            if (is_end)
                cs_mbar_arrive(base + L::KEYS_FULL);
            else
                to.keys(a.k_row[tile], column / a.parts);
        }
        if (is_end)
            return;
        const int32_t head = column * a.heads_per_item; /* parts of a group are neighbours */
        for (int32_t h = 0; h < a.heads_per_item; h++)
            produce_head<DIM>(a, to, tile, count, head + h, h == a.heads_per_item - 1);
    }
}

/* --- sums of dQ ------------------------------------------------------------------------------ */

__device__ __forceinline__ int32_t load_acquire(const int32_t *p)
{
    int32_t x;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}

__device__ __forceinline__ void store_release(int32_t *p, int32_t x)
{
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

/* Between the bulk copies of this thread and its ordinary accesses to global memory. */
__device__ __forceinline__ void fence_global_async(void)
{
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

template <int DIM>
__device__ __forceinline__ void add_dq(const struct cs_bwd_args &a, uint8_t *shared, int wg)
{
    using L = layout<DIM>;
    const bool is_elected = threadIdx.x % 32 == 0;
    const int part = wg * CS_BWD_ROWS * L::DQ_FIRST; /* floats */
    const int bytes = CS_BWD_ROWS * 4 * (wg == 0 ? L::DQ_FIRST : DIM - L::DQ_FIRST);
    cs_bar_arrive(BAR_DQ_FREE + wg, DQ_THREADS);
    for (;;) {
        cs_bar_sync(BAR_DQ_FULL + wg, DQ_THREADS);
        const int2 what = *((const int2 *)(shared + L::ADD) + wg);
        if (what.x < 0)
            break;
        int32_t *turn = a.turn + 2 * (int64_t)what.x + wg;
        if (is_elected) {
            if (a.is_ordered) {
                while (load_acquire(turn) != what.y) {
                }
                fence_global_async();
            }
            cs_bulk_add_f32(a.dq_sum + (int64_t)what.x * CS_BWD_ROWS * DIM + part,
                            cs_smem(shared) + L::DQ + part * 4, (uint32_t)bytes);
            cs_bulk_commit();
            cs_bulk_wait_read<0>();
        }
        __syncwarp();
        cs_bar_arrive(BAR_DQ_FREE + wg, DQ_THREADS);
        if (is_elected && a.is_ordered) {
            cs_bulk_wait<0>();
            fence_global_async();
            store_release(turn, what.y + 1);
        }
    }
    if (is_elected)
        cs_bulk_wait<0>();
}

/* --- consumers ------------------------------------------------------------------------------- */

/* The compiler takes an accumulator for finished where its wgmma is issued; after the wait this
 * keeps it from moving uses to before the wait. */
template <int N> __device__ __forceinline__ void hold(float (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(x[i])::"memory");
}

/* Registers whose old values do not matter: the first wgmma overwrites them, which the compiler
 * cannot see (its accumulators are read and written). */
template <int N> __device__ __forceinline__ void forget(float (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "=f"(x[i]));
}

/* The operand bytes further on in shared memory: addresses have no carry out of their field. */
__device__ __forceinline__ uint64_t further(uint64_t operand, uint32_t bytes)
{
    return (operand & 0xffffffff00000000) | ((uint32_t)operand + (bytes >> 4));
}

/* d (64 keys, 64 queries) = keys queries^T, both (64, DIM) */
template <int DIM>
__device__ __forceinline__ void products(float (&d)[32], uint32_t keys, uint32_t queries)
{
    using L = layout<DIM>;
    const uint64_t a = cs_wgmma_operand<CS_SWIZZLE_128>(keys);
    const uint64_t b = cs_wgmma_operand<CS_SWIZZLE_128>(queries);
    forget(d);
#pragma unroll
    for (int k = 0; k < L::K_STEPS; k++)
        cs_wgmma<64>::ss<CS_ROW_K, CS_ROW_K>(d, further(a, k / 4 * L::KEY_PANEL + k % 4 * 32),
                                             further(b, k / 4 * L::QUERY_PANEL + k % 4 * 32),
                                             k > 0);
}

/* d (64 keys, DIM) += weight (64 keys, 64 queries) queries (64, DIM) */
template <int DIM>
__device__ __forceinline__ void add_weighted(float (&d)[DIM / 2], const uint32_t (&weight)[16],
                                             uint32_t queries)
{
    const uint64_t b = cs_wgmma_operand<CS_SWIZZLE_128>(queries, layout<DIM>::QUERY_PANEL);
#pragma unroll
    for (int k = 0; k < CS_BWD_ROWS / 16; k++)
        cs_wgmma<DIM>::template rs<CS_ROW_MN>(d, weight + 4 * k, further(b, k * 16 * 128), true);
}

/* d (64 queries, N) = ds^T keys; ds (128 keys, 64 queries), keys (128, N) */
template <int N>
__device__ __forceinline__ void query_gradient(float (&d)[N / 2], uint32_t ds, uint32_t keys)
{
    const uint64_t a = cs_wgmma_operand<CS_SWIZZLE_128>(ds);
    const uint64_t b = cs_wgmma_operand<CS_SWIZZLE_128>(keys);
    forget(d);
#pragma unroll
    for (int k = 0; k < CS_MASK_TILE / 16; k++)
        cs_wgmma<N>::template ss<CS_ROW_MN, CS_ROW_MN>(d, further(a, k * 16 * 128),
                                                       further(b, k * 16 * 128), k > 0);
}

/* One bit for each of s; see core/mask/cells.h. */
__device__ __forceinline__ void mask_scores(float (&s)[32], uint32_t keep)
{
#pragma unroll
    for (int i = 0; i < 32; i++)
        s[i] = (keep >> i & 1) != 0 ? s[i] : -INFINITY;
}

/* tanh by exp2: the approximate instruction is too coarse under an exponential */
__device__ __forceinline__ float tanh_of(float x)
{
    return 1.0f - 2.0f * cs_reciprocal(1.0f + cs_exp2(2.0f * CS_LOG2E * x));
}

/* Scores to probabilities: packed in p for dV, and times the slope of the cap in s for dS. */
template <bool CAP>
__device__ __forceinline__ void probabilities(float (&s)[32], uint32_t (&p)[16], const float *stat,
                                              const struct cs_bwd_args &a)
{
    const float to_log2 = a.scale * CS_LOG2E;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float2 lse = *(const float2 *)(stat + 8 * j);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float *x = s + 4 * j + 2 * h, slope[2];
            if (CAP) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float t = tanh_of(x[i] * (a.scale / a.softcap));
                    slope[i] = 1.0f - t * t;
                    x[i] = x[i] == -INFINITY ? x[i] : t * (a.softcap * CS_LOG2E);
                }
            }
            const float unit = CAP ? 1.0f : to_log2;
            x[0] = cs_exp2(x[0] * unit + lse.x);
            x[1] = cs_exp2(x[1] * unit + lse.y);
            p[2 * j + h] = cs_pack_bf16(x[0], x[1]);
            if (CAP) {
                x[0] *= slope[0];
                x[1] *= slope[1];
            }
        }
    }
}

/* ds = p (dp - rowsum), packed */
__device__ __forceinline__ void score_gradient(const float (&p)[32], const float (&dp)[32],
                                               uint32_t (&ds)[16], const float *stat)
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float2 sum = *(const float2 *)(stat + CS_BWD_ROWS + 8 * j);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int i = 4 * j + 2 * h;
            ds[2 * j + h] =
                cs_pack_bf16(p[i] * (dp[i] - sum.x), p[i + 1] * (dp[i + 1] - sum.y));
        }
    }
}

/* (64 keys, 64 queries) to shared memory, swizzled as TMA does */
__device__ __forceinline__ void store_ds(const uint32_t (&ds)[16], uint32_t to)
{
    const int t = (int)threadIdx.x % CS_WARPGROUP, lane = t % 32;
    const int row = t / 32 * 16 + lane / 8 % 2 * 8 + lane % 8;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        const int octet = (j + lane / 16) ^ (lane % 8);
        cs_stmatrix(to + row * 128 + octet * 16, ds[2 * j], ds[2 * j + 1], ds[2 * j + 2],
                    ds[2 * j + 3]);
    }
}

/* dQ of this warpgroup to its stage, for the warp that adds it */
template <int N>
__device__ __forceinline__ void hand_over_dq(const float (&dq)[N / 2], uint8_t *stage, int2 *add,
                                             int32_t half, int32_t rank, int wg)
{
    const int t = (int)threadIdx.x % CS_WARPGROUP;
    cs_bar_sync(BAR_DQ_FREE + wg, DQ_THREADS);
#pragma unroll
    for (int i = 0; i < N / 8; i++)
        *(float4 *)(stage + i * 2048 + t * 16) =
            make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    if (t == 0)
        *add = make_int2(half, rank);
    cs_fence_async();
    cs_bar_arrive(BAR_DQ_FULL + wg, DQ_THREADS);
}

/* dK or dV of this warpgroup's 64 keys: rows of bf16, or a part to be added. */
template <int DIM>
__device__ __forceinline__ void store_keys(const struct cs_bwd_args &a, const float (&x)[DIM / 2],
                                           float factor, int32_t tile, int32_t column, int wg,
                                           void *rows, float *part)
{
    const int t = (int)threadIdx.x % CS_WARPGROUP;
    const int32_t kv_head = column / a.parts;
    if (a.parts > 1) {
        const int64_t which =
            (((int64_t)(column % a.parts) * a.kv_heads + kv_head) * a.n_k + tile) * 2 + wg;
        float *to = part + which * CS_BWD_ROWS * DIM + 4 * t;
#pragma unroll
        for (int i = 0; i < DIM / 8; i++)
            *(float4 *)(to + i * 512) =
                make_float4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
        return;
    }
    const int32_t row = a.k_row[tile] + wg * CS_BWD_ROWS + t / 32 * 16 + t % 32 / 4;
    const int32_t end = a.k_row[tile + 1];
    __nv_bfloat16 *to = (__nv_bfloat16 *)rows + (int64_t)row * a.kv_stride +
                        (int64_t)kv_head * DIM + 2 * (t % 4);
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) {
        if (row < end)
            *(uint32_t *)(to + 8 * i) = cs_pack_bf16(x[4 * i] * factor, x[4 * i + 1] * factor);
        if (row + 8 < end)
            *(uint32_t *)(to + 8 * i + (int64_t)8 * a.kv_stride) =
                cs_pack_bf16(x[4 * i + 2] * factor, x[4 * i + 3] * factor);
    }
}

__device__ __forceinline__ uint32_t bits_of(const struct cs_bwd_args &a, int32_t cell)
{
    if (cell < 0)
        return cell == CS_CELL_ALL ? ~0u : 0u;
    return a.bits[(int64_t)cell * CS_WARPGROUP + threadIdx.x % CS_WARPGROUP];
}

/* N: columns of dQ that this warpgroup computes. */
template <int DIM, int N, bool CAP>
__device__ __forceinline__ void consume(const struct cs_bwd_args &a, uint8_t *shared, int wg)
{
    using L = layout<DIM>;
    const uint32_t base = cs_smem(shared);
    const bool is_elected = threadIdx.x % 32 == 0;
    const uint32_t own_keys = base + L::K + wg * CS_BWD_ROWS * 128;
    const uint32_t own_values = base + L::V + wg * CS_BWD_ROWS * 128;
    const uint32_t dq_keys =
        base + L::K + wg * (DIM > CS_BWD_PANEL ? L::KEY_PANEL : L::DQ_FIRST * 2);
    uint8_t *dq_stage = shared + L::DQ + wg * CS_BWD_ROWS * L::DQ_FIRST * 4;
    int2 *add = (int2 *)(shared + L::ADD) + wg;
    struct cs_ring<CS_BWD_STAGES> ring = {0, 0};
    for (uint32_t keys_parity = 0;; keys_parity ^= 1) {
        cs_mbar_wait(base + L::KEYS_FULL, keys_parity);
        const int4 item = *(const int4 *)(shared + L::ITEM);
        if (item.x < 0)
            break;
        float dk[DIM / 2] = {}, dv[DIM / 2] = {};
        if (item.z > 0) {
            float s[32];
            cs_mbar_wait(base + L::Q_FULL + 8 * ring.stage, ring.parity);
            cs_wgmma_fence();
            products<DIM>(s, own_keys, base + L::Q + ring.stage * L::QUERY_BYTES);
            cs_wgmma_commit();
            int4 step = *((const int4 *)(shared + L::STEP) + ring.stage);
            int32_t cell = wg == 0 ? step.x : step.y;
            uint32_t keep = bits_of(a, cell);
            cs_wgmma_wait<0>();
            for (bool is_last = false; !is_last;) {
                const uint32_t q = base + L::Q + ring.stage * L::QUERY_BYTES;
                const uint32_t d_o = base + L::DO + ring.stage * L::QUERY_BYTES;
                const uint32_t ds_both = base + L::DS + ring.stage * 2 * L::DS_BYTES;
                const float *stat =
                    (const float *)(shared + L::STAT + ring.stage * CS_BWD_STAT_BYTES) +
                    threadIdx.x % 4 * 2;
                float dp[32], dq[N / 2];
                uint32_t p[16], ds[16];

                cs_mbar_wait(base + L::DO_FULL + 8 * ring.stage, ring.parity);
                cs_wgmma_fence();
                products<DIM>(dp, own_values, d_o);
                cs_wgmma_commit();
                hold(s);
                if (cell != CS_CELL_ALL)
                    mask_scores(s, keep);
                probabilities<CAP>(s, p, stat, a);
                cs_wgmma_fence();
                add_weighted<DIM>(dv, p, d_o);
                cs_wgmma_commit();

                cs_wgmma_wait<1>(); /* dP */
                hold(dp);
                score_gradient(s, dp, ds, stat);
                store_ds(ds, ds_both + wg * L::DS_BYTES);
                cs_fence_async();
                cs_wgmma_fence();
                add_weighted<DIM>(dk, ds, q);
                cs_wgmma_commit();
                cs_wgmma_wait<1>(); /* dV */
                if (is_elected)
                    cs_mbar_arrive(base + L::DO_FREE + 8 * ring.stage);

                cs_bar_sync(BAR_DS, 2 * CS_WARPGROUP);
                cs_wgmma_fence();
                query_gradient<N>(dq, ds_both, dq_keys);
                cs_wgmma_commit();
                cs_wgmma_wait<1>(); /* dK */
                if (is_elected)
                    cs_mbar_arrive(base + L::Q_FREE + 8 * ring.stage);

                /* After the last step S is computed from whatever is there, and not used: a
                 * branch around it would make the compiler wait after every wgmma. */
                const int32_t half = step.z, rank = step.w >> 1;
                is_last = step.w & 1;
                ring.step();
                if (!is_last)
                    cs_mbar_wait(base + L::Q_FULL + 8 * ring.stage, ring.parity);
                cs_wgmma_fence();
                products<DIM>(s, own_keys, base + L::Q + ring.stage * L::QUERY_BYTES);
                cs_wgmma_commit();
                if (!is_last) {
                    step = *((const int4 *)(shared + L::STEP) + ring.stage);
                    cell = wg == 0 ? step.x : step.y;
                    keep = bits_of(a, cell);
                }
                cs_wgmma_wait<1>(); /* dQ */
                hold(dq);
                hand_over_dq<N>(dq, dq_stage, add, half, rank, wg);
                cs_wgmma_wait<0>(); /* S */
            }
        }
        if (is_elected)
            cs_mbar_arrive(base + L::KEYS_FREE);
        hold(dk);
        hold(dv);
        store_keys<DIM>(a, dk, a.scale, item.x, item.y, wg, a.dk, a.dk_part);
        store_keys<DIM>(a, dv, 1.0f, item.x, item.y, wg, a.dv, a.dv_part);
    }
    cs_bar_sync(BAR_DQ_FREE + wg, DQ_THREADS);
    if (threadIdx.x % CS_WARPGROUP == 0)
        *add = make_int2(-1, 0);
    cs_bar_arrive(BAR_DQ_FULL + wg, DQ_THREADS);
}

template <int DIM>
__device__ __forceinline__ void init_barriers(uint32_t base)
{
    using L = layout<DIM>;
    cs_mbar_init(base + L::KEYS_FULL, 1);
    cs_mbar_init(base + L::KEYS_FREE, CONSUMER_WARPS);
    for (int i = 0; i < CS_BWD_STAGES; i++) {
        cs_mbar_init(base + L::Q_FULL + 8 * i, 1);
        cs_mbar_init(base + L::Q_FREE + 8 * i, CONSUMER_WARPS);
        cs_mbar_init(base + L::DO_FULL + 8 * i, 1);
        cs_mbar_init(base + L::DO_FREE + 8 * i, CONSUMER_WARPS);
    }
    cs_mbar_init_done();
}

template <int DIM, bool CAP>
__global__ void __launch_bounds__(THREADS, 1)
    cs_bwd_kernel(const __grid_constant__ struct maps maps, const __grid_constant__ cs_bwd_args a)
{
    using L = layout<DIM>;
    extern __shared__ uint8_t dynamic[];
    uint8_t *shared = dynamic + (1024 - cs_smem(dynamic) % 1024) % 1024;
    /* from one lane: the compiler sees that they are the same for a warp */
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), wg = warp / 4;
    if (threadIdx.x == 0)
        init_barriers<DIM>(cs_smem(shared));
    __syncthreads();
    if (wg == 2) {
        cs_registers_give<PRODUCER_REGISTERS>();
        if (warp == CONSUMER_WARPS)
            produce<DIM>(a, &maps, shared);
        else if (warp <= CONSUMER_WARPS + 2)
            add_dq<DIM>(a, shared, warp - CONSUMER_WARPS - 1);
    } else {
        cs_registers_take<CONSUMER_REGISTERS>();
        if constexpr (2 * L::DQ_FIRST == DIM)
            consume<DIM, L::DQ_FIRST, CAP>(a, shared, wg);
        else if (wg == 0)
            consume<DIM, L::DQ_FIRST, CAP>(a, shared, 0);
        else
            consume<DIM, DIM - L::DQ_FIRST, CAP>(a, shared, 1);
    }
}

/* --- host ------------------------------------------------------------------------------------ */

/* Rows (tokens, heads, dim) of bf16 in boxes of 64 columns of one head. */
static bool map_rows(const void *x, int32_t tokens, int32_t heads, int32_t dim, int32_t stride,
                     uint32_t rows, CUtensorMap *map)
{
    const struct cs_tensor t = {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                (void *)x,
                                3,
                                {(uint64_t)dim, (uint64_t)heads, (uint64_t)tokens},
                                {(uint64_t)dim * 2, (uint64_t)stride * 2},
                                {CS_BWD_PANEL, 1, rows},
                                CU_TENSOR_MAP_SWIZZLE_128B};
    return cs_tensor_map(&t, map);
}

static bool map_statistics(const struct cs_bwd_args &a, CUtensorMap *map)
{
    const struct cs_tensor t = {CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                                a.stat,
                                2,
                                {CS_BWD_STAT, (uint64_t)(a.heads * cs_bwd_halves(a)), 1},
                                {CS_BWD_STAT_BYTES, 0},
                                {CS_BWD_STAT, 1, 1},
                                CU_TENSOR_MAP_SWIZZLE_NONE};
    return cs_tensor_map(&t, map);
}

template <int DIM, bool CAP>
static void launch(struct cs_ctx *ctx, const struct maps &maps, const struct cs_bwd_args &a)
{
    auto *kernel = cs_bwd_kernel<DIM, CAP>;
    const int bytes = layout<DIM>::BYTES;
    static_assert(layout<DIM>::BYTES <= 232448, "shared memory of a Hopper block");
    CS_CUDA_NOTE(ctx,
                 cudaFuncSetAttribute((const void *)kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                 "attention_grad");
    const int items = a.n_k * a.kv_heads * a.parts;
    const unsigned blocks = (unsigned)min(items, cs_cuda_handle_of(ctx)->processors);
    kernel<<<blocks, THREADS, bytes, cs_cuda_stream_of(ctx)>>>(maps, a);
    CS_CUDA_LAUNCHED(ctx, "attention_grad");
}

typedef void (*launch_fn)(struct cs_ctx *, const struct maps &, const struct cs_bwd_args &);

static launch_fn launch_of(int32_t dim, bool is_capped)
{
    static const struct {
        int32_t dim;
        launch_fn plain, capped;
    } table[] = {
        {64,  launch<64, false>,  launch<64, true> },
        {72,  launch<72, false>,  launch<72, true> },
        {80,  launch<80, false>,  launch<80, true> },
        {96,  launch<96, false>,  launch<96, true> },
        {128, launch<128, false>, launch<128, true>},
    };
    for (const auto &row : table)
        if (row.dim == dim)
            return is_capped ? row.capped : row.plain;
    return nullptr;
}

static void launch_after(struct cs_ctx *ctx, const struct cs_bwd_rows &rows, int32_t tiles,
                         int32_t heads)
{
    const dim3 grid((unsigned)(2 * tiles), (unsigned)heads);
    cs_bwd_after_kernel<<<grid, CS_BWD_ROW_BLOCK, 0, cs_cuda_stream_of(ctx)>>>(rows);
    CS_CUDA_LAUNCHED(ctx, "attention_grad");
}

static void launch_all(struct cs_ctx *ctx, const struct maps &maps, const struct cs_bwd_args &a,
                       launch_fn main_pass)
{
    const dim3 grid((unsigned)cs_bwd_halves(a), (unsigned)a.heads);
    cs_bwd_before_kernel<<<grid, CS_BWD_ROW_BLOCK, 0, cs_cuda_stream_of(ctx)>>>(a);
    CS_CUDA_LAUNCHED(ctx, "attention_grad");
    main_pass(ctx, maps, a);
    launch_after(ctx,
                 {a.dq_sum, 0, 1, a.q_row, a.scale, a.head_dim, a.q_stride, (__nv_bfloat16 *)a.dq},
                 a.n_q, a.heads);
    if (a.parts == 1)
        return;
    const int64_t part = (int64_t)a.kv_heads * a.n_k * 2 * CS_BWD_ROWS * a.head_dim;
    launch_after(ctx,
                 {a.dk_part, part, a.parts, a.k_row, a.scale, a.head_dim, a.kv_stride,
                  (__nv_bfloat16 *)a.dk},
                 a.n_k, a.kv_heads);
    launch_after(ctx,
                 {a.dv_part, part, a.parts, a.k_row, 1.0f, a.head_dim, a.kv_stride,
                  (__nv_bfloat16 *)a.dv},
                 a.n_k, a.kv_heads);
}

/* Items for every processor, so that the last ones do not leave most of them idle. */
#define ITEMS_PER_PROCESSOR 3
#define PROCESSORS          132

static int32_t parts_of(const struct cs_attention_shape *s, const struct cs_mask_cells *cells)
{
    const int32_t group = s->heads / s->kv_heads;
    int32_t parts = 1;
    while (parts < group &&
           (int64_t)cells->n_k * s->kv_heads * parts < ITEMS_PER_PROCESSOR * PROCESSORS)
        do
            parts++;
        while (group % parts != 0);
    return parts;
}

/* Cuts the workspace from at; NULL: measures only. Returns the bytes used. */
static size_t place(struct cs_bwd_args *a, uint8_t *at)
{
    const size_t halves = (size_t)a->heads * (size_t)cs_bwd_halves(*a);
    const size_t keys = a->parts == 1 ? 0
                                      : (size_t)a->parts * (size_t)a->kv_heads * (size_t)a->n_k *
                                            CS_MASK_TILE * (size_t)a->head_dim;
    size_t used = 0;
    const auto take = [&](size_t bytes) {
        uint8_t *p = at == nullptr ? nullptr : at + used;
        used += (bytes + 255) & ~(size_t)255;
        return p;
    };
    a->next = (int32_t *)take(sizeof(int32_t));
    a->turn = (int32_t *)take(halves * 2 * sizeof(int32_t));
    a->stat = (float *)take(halves * CS_BWD_STAT_BYTES);
    a->dq_sum = (float *)take(halves * CS_BWD_ROWS * (size_t)a->head_dim * sizeof(float));
    a->dk_part = (float *)take(keys * sizeof(float));
    a->dv_part = (float *)take(keys * sizeof(float));
    return used;
}

static struct cs_bwd_args args_of(const struct cs_attention_shape *s,
                                  const struct cs_mask_cells *cells)
{
    struct cs_bwd_args a = {};
    a.by_k = cells->by_k;
    a.q_row = cells->q_row;
    a.k_row = cells->k_row;
    a.bits = cells->bits_k;
    a.n_q = cells->n_q;
    a.n_k = cells->n_k;
    a.tokens = s->tokens;
    a.heads = s->heads;
    a.kv_heads = s->kv_heads;
    a.head_dim = s->head_dim;
    a.q_stride = s->q_stride;
    a.kv_stride = s->kv_stride;
    a.o_stride = s->o_stride;
    a.group = s->heads / s->kv_heads;
    a.parts = parts_of(s, cells);
    a.heads_per_item = a.group / a.parts;
    a.scale = s->scale;
    a.softcap = s->softcap;
    a.is_ordered = s->is_deterministic;
    return a;
}

#define ALIGN(bytes) (((size_t)(bytes) + 255) & ~(size_t)255)

static bool is_own_shape(const struct cs_attention_shape *s, const struct cs_mask_plan *mask)
{
    return mask->cells != nullptr && launch_of(s->head_dim, false) != nullptr && s->tokens > 0 &&
           s->heads > 0 && s->kv_heads > 0 && s->heads % s->kv_heads == 0 && s->heads <= 65535 &&
           s->q_stride % 8 == 0 && s->kv_stride % 8 == 0 && s->o_stride % 8 == 0 &&
           mask->cells->n_q > 0 && mask->cells->n_k > 0;
}

static bool is_hopper(const struct cs_ctx *ctx)
{
    int major = 0, minor = 0;
    const int device = cs_cuda_handle_of(ctx)->device;
    return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) ==
               cudaSuccess &&
           major == 9 && minor == 0;
}

size_t cs_cuda_attention_bwd_sm90_workspace(const struct cs_attention_shape *shape,
                                            const struct cs_mask_plan *mask)
{
    if (!is_own_shape(shape, mask))
        return 0;
    struct cs_bwd_args a = args_of(shape, mask->cells);
    return 256 + place(&a, nullptr);
}

bool cs_cuda_attention_bwd_sm90(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                                const struct cs_mask_plan *mask, const void *q, const void *k,
                                const void *v, const void *o, const float *lse, const void *d_o,
                                void *dq, void *dk, void *dv)
{
    const uintptr_t all = (uintptr_t)q | (uintptr_t)k | (uintptr_t)v | (uintptr_t)o |
                          (uintptr_t)d_o | (uintptr_t)dq | (uintptr_t)dk | (uintptr_t)dv;
    if (!is_own_shape(shape, mask) || all % 16 != 0 || !is_hopper(ctx))
        return false;
    if (ctx->workspace_bytes < cs_cuda_attention_bwd_sm90_workspace(shape, mask)) {
        CS_CUDA_REFUSE(ctx, CS_INVALID, "attention_grad: workspace of %zu bytes is too small",
                       ctx->workspace_bytes);
        return true;
    }
    struct cs_bwd_args a = args_of(shape, mask->cells);
    place(&a, (uint8_t *)ALIGN(ctx->workspace));
    a.o = o;
    a.d_o = d_o;
    a.lse = lse;
    a.dq = dq;
    a.dk = dk;
    a.dv = dv;
    const int32_t dim = shape->head_dim;
    const int32_t k_tokens = shape->k_tokens > 0 ? shape->k_tokens : shape->tokens;
    struct maps maps;
    const bool is_mapped =
        map_rows(q, shape->tokens, shape->heads, dim, shape->q_stride, CS_BWD_ROWS, &maps.q) &&
        map_rows(d_o, shape->tokens, shape->heads, dim, shape->o_stride, CS_BWD_ROWS, &maps.d_o) &&
        map_rows(k, k_tokens, shape->kv_heads, dim, shape->kv_stride, CS_MASK_TILE, &maps.k) &&
        map_rows(v, k_tokens, shape->kv_heads, dim, shape->kv_stride, CS_MASK_TILE, &maps.v) &&
        map_statistics(a, &maps.stat);
    if (!is_mapped) {
        CS_CUDA_REFUSE(ctx, CS_INTERNAL, "attention_grad: no tensor map for head size %d", dim);
        return true;
    }
    launch_all(ctx, maps, a, launch_of(dim, shape->softcap != 0.0f));
    return true;
}
