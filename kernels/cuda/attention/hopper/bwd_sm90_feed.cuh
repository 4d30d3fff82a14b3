/* The warps of the backward kernels that feed them and take their dQ: one warp walks the lists of
 * the mask and loads by TMA, one warp for each consumer warpgroup adds its dQ to memory with the
 * copy engine. L is the layout of shared memory of a kernel. */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_BWD_SM90_FEED_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_BWD_SM90_FEED_CUH

#include "kernels/cuda/attention/hopper/bwd_sm90.cuh"

enum { BAR_DS = 1 }; /* named barrier */

#define CONSUMER_WARPS 8

/* What the producer says about a step, next to its queries: cells of 64 keys each (the second is
 * not used by items of 64 keys), which sum of dQ, rank << 1 | is last of the item. */
struct step {
    int32_t cell[2], half, flags;
};

/* A work item: some keys of a tile and a column of heads (see cs_bwd_args). */
struct item {
    int32_t tile; /* -1: no more */
    int32_t part; /* of the tile, 0 or 1 where an item has 64 keys */
    int32_t column, count;
};

/* Shared memory of a kernel for heads of COLUMNS: bytes from a 1024-byte boundary. KEY_ROWS: keys
 * of an item. Dq columns are handed over in PIECES by each warpgroup, the first has DQ_FIRST. */
template <int COLUMNS, int KEY_ROWS, int STAGES_DO, int PIECES, int STAGES_P> struct cs_bwd_layout {
    static constexpr int DIM = COLUMNS, KEYS = KEY_ROWS, DO_STAGES = STAGES_DO;
    static constexpr int DQ_PIECES = PIECES, TILE_PARTS = CS_MASK_TILE / KEYS;
    static constexpr int PANELS = (DIM + CS_BWD_PANEL - 1) / CS_BWD_PANEL;
    static constexpr int K_STEPS = (DIM + 15) / 16; /* columns past DIM are zeros */
    static constexpr int KEY_PANEL = KEYS * 128, KEY_BYTES = PANELS * KEY_PANEL;
    static constexpr int QUERY_PANEL = CS_BWD_ROWS * 128, QUERY_BYTES = PANELS * QUERY_PANEL;
    static constexpr int P_BYTES = CS_BWD_ROWS * 128; /* (64 keys, 64 queries) of P or dS */
    /* columns of dQ by warpgroup: whole panels each, what is left of the second, half a panel */
    static constexpr int DQ_FIRST = DIM <= CS_BWD_PANEL ? DIM / 2 : DIM > 128 ? DIM / 2 : 64;
    static constexpr int DQ_PIECE = DQ_FIRST / DQ_PIECES;

    static constexpr int K = 0;
    static constexpr int V = K + KEY_BYTES;
    static constexpr int Q = V + KEY_BYTES;
    static constexpr int DO = Q + CS_BWD_STAGES * QUERY_BYTES;
    static constexpr int P = DO + DO_STAGES * QUERY_BYTES;
    static constexpr int DQ = P + STAGES_P * 2 * P_BYTES;
    static constexpr int STAT = DQ + CS_BWD_ROWS * 4 * DIM / DQ_PIECES;
    static constexpr int STEP = STAT + CS_BWD_STAGES * CS_BWD_STAT_BYTES;
    static constexpr int ITEM = STEP + CS_BWD_STAGES * (int)sizeof(struct step);
    static constexpr int ADD = ITEM + 16; /* (warpgroup) int2: half, rank; half -1: no more */
    static constexpr int KEYS_FULL = ADD + 16, KEYS_FREE = KEYS_FULL + 8;
    static constexpr int Q_FULL = KEYS_FREE + 8, Q_FREE = Q_FULL + 8 * CS_BWD_STAGES;
    static constexpr int DO_FULL = Q_FREE + 8 * CS_BWD_STAGES;
    static constexpr int DO_FREE = DO_FULL + 8 * DO_STAGES;
    static constexpr int DQ_FULL = DO_FREE + 8 * DO_STAGES,
                         DQ_FREE = DQ_FULL + 16;      /* (warpgroup) */
    static constexpr int BYTES = DQ_FREE + 16 + 1024; /* room to align */
    static_assert(BYTES <= 232448, "shared memory of a Hopper block");
};

template <typename L> __device__ __forceinline__ void init_barriers(uint32_t base)
{
    cs_mbar_init(base + L::KEYS_FULL, 1);
    cs_mbar_init(base + L::KEYS_FREE, CONSUMER_WARPS);
    for (int i = 0; i < CS_BWD_STAGES; i++) {
        cs_mbar_init(base + L::Q_FULL + 8 * i, 1);
        cs_mbar_init(base + L::Q_FREE + 8 * i, CONSUMER_WARPS);
    }
    for (int i = 0; i < L::DO_STAGES; i++) {
        cs_mbar_init(base + L::DO_FULL + 8 * i, 1);
        cs_mbar_init(base + L::DO_FREE + 8 * i, CONSUMER_WARPS);
    }
    for (int i = 0; i < 2; i++) {
        cs_mbar_init(base + L::DQ_FULL + 8 * i, CONSUMER_WARPS / 2);
        cs_mbar_init(base + L::DQ_FREE + 8 * i, 1);
    }
    cs_mbar_init_done();
}

__device__ __forceinline__ int32_t of_first_lane(int32_t x)
{
    return __shfl_sync(0xffffffffu, x, 0);
}

/* What the producer says, read by the lane that frees it later: no other lane can be late. */
__device__ __forceinline__ int32_t read_by_one(const int32_t *from)
{
    return of_first_lane(threadIdx.x % 32 == 0 ? *from : 0);
}

__device__ __forceinline__ struct item read_item(const void *from)
{
    int4 x = {0, 0, 0, 0};
    if (threadIdx.x % 32 == 0)
        x = *(const int4 *)from;
    return {of_first_lane(x.x), of_first_lane(x.y), of_first_lane(x.z), of_first_lane(x.w)};
}

/* --- producer -------------------------------------------------------------------------------- */

/* Its lanes walk in step; which of them does something is said at each function. */
template <typename L> struct producer {
    const struct cs_bwd_args &a;
    const struct cs_bwd_maps &maps;
    uint8_t *shared;
    uint32_t base;
    struct cs_ring<CS_BWD_STAGES> q;
    struct cs_ring<L::DO_STAGES> d_o;
    uint32_t keys_parity;
    bool has_keys; /* those of the item are on their way */

    __device__ __forceinline__ void rows(uint32_t to, int panel_bytes, const CUtensorMap &map,
                                         uint32_t full, int32_t row, int32_t head) const
    {
        for (int p = 0; p < L::PANELS; p++)
            cs_tma_load(base + to + p * panel_bytes, &map, full, p * CS_BWD_PANEL, head, row);
    }

    /* One lane: the item becomes known with its keys. */
    __device__ __forceinline__ void keys(struct item w) const
    {
        const uint32_t full = base + L::KEYS_FULL;
        cs_mbar_wait(base + L::KEYS_FREE, keys_parity);
        *(int4 *)(shared + L::ITEM) = make_int4(w.tile, w.part, w.column, w.count);
        if (w.tile < 0) {
            cs_mbar_arrive(full);
            return;
        }
        const int32_t row = a.k_row[w.tile] + w.part * L::KEYS, head = w.column / a.parts;
        cs_mbar_expect(full, 2 * L::KEY_BYTES);
        rows(L::K, L::KEY_PANEL, maps.k, full, row, head);
        rows(L::V, L::KEY_PANEL, maps.v, full, row, head);
    }

    /* One lane: what a step needs. */
    __device__ __forceinline__ void queries(int4 step, int32_t row, int32_t head) const
    {
        const uint32_t q_full = base + L::Q_FULL + 8 * q.stage;
        const uint32_t do_full = base + L::DO_FULL + 8 * d_o.stage;
        cs_mbar_wait(base + L::Q_FREE + 8 * q.stage, q.parity ^ 1);
        *((int4 *)(shared + L::STEP) + q.stage) = step;
        cs_mbar_expect(q_full, L::QUERY_BYTES + CS_BWD_STAT_BYTES);
        rows(L::Q + q.stage * L::QUERY_BYTES, L::QUERY_PANEL, maps.q, q_full, row, head);
        cs_tma_load(base + L::STAT + q.stage * CS_BWD_STAT_BYTES, &maps.stat, q_full, 0, step.z);
        cs_mbar_wait(base + L::DO_FREE + 8 * d_o.stage, d_o.parity ^ 1);
        cs_mbar_expect(do_full, L::QUERY_BYTES);
        rows(L::DO + d_o.stage * L::QUERY_BYTES, L::QUERY_PANEL, maps.d_o, do_full, row, head);
    }

    /* All lanes: the list of the item's tile for one query head. Each lane reads one of 32 entries
     * ahead, and loads for it when its turn comes. */
    __device__ __forceinline__ void list(struct item w, int32_t head, bool is_last_head)
    {
        const int lane = (int)threadIdx.x % 32;
        for (int32_t e0 = 0; e0 < w.count; e0 += 32) {
            const bool is_entry = e0 + lane < w.count;
            const bool is_last = is_last_head && e0 + lane == w.count - 1;
            uint32_t entry = 0;
            int4 c = {CS_CELL_NONE, CS_CELL_NONE, CS_CELL_NONE, CS_CELL_NONE};
            int32_t row = 0;
            if (is_entry) {
                const int64_t at = (int64_t)w.tile * a.by_k.stride + e0 + lane;
                entry = a.by_k.entry[at];
                c = *(const int4 *)a.by_k.cell[at];
                row = a.q_row[entry & 0xffff];
            }
            if (L::TILE_PARTS == 2) { /* own keys only */
                c.x = w.part == 0 ? c.x : c.y;
                c.z = w.part == 0 ? c.z : c.w;
                c.y = c.w = CS_CELL_NONE;
            }
            /* in turn: nobody may be left out, the next rank would wait for it; and something must
             * end an item of 64 keys, even if the last tile meets the other 64 keys only */
            const bool has_top =
                is_entry && (a.is_ordered || c.x != CS_CELL_NONE || c.y != CS_CELL_NONE);
            const bool has_low =
                is_entry && (a.is_ordered || c.z != CS_CELL_NONE || c.w != CS_CELL_NONE ||
                             (L::TILE_PARTS == 2 && is_last && !has_top));
            const uint32_t tops = __ballot_sync(0xffffffffu, has_top);
            const uint32_t lows = __ballot_sync(0xffffffffu, has_low);
            const int32_t half = head * (int32_t)cs_bwd_halves(a) + 2 * (int32_t)(entry & 0xffff);
            const int32_t flags = ((int32_t)(entry >> 16) * L::TILE_PARTS + w.part) << 1;
            const int32_t n = 2 * min(32, w.count - e0);
#pragma unroll 1
            for (int32_t i = 0; i < n; i++) { /* halves */
                const bool is_low = i & 1;
                if (((is_low ? lows : tops) >> (i / 2) & 1) == 0)
                    continue;
                if (lane == i / 2)
                    queries(make_int4(is_low ? c.z : c.x, is_low ? c.w : c.y, half + is_low,
                                      flags | (is_last && (is_low || !has_low))),
                            row + is_low * CS_BWD_ROWS, head);
                __syncwarp(); /* nobody overtakes: a barrier knows only this phase and the next */
                q.step();
                d_o.step();
                item_keys(w);
            }
        }
    }

    /* All lanes: load the keys, unless done. Called after the first queries of an item, which so
     * are on their way while the item before ends. */
    __device__ __forceinline__ void item_keys(struct item w)
    {
        if (has_keys)
            return;
        if (threadIdx.x % 32 == 0)
            keys(w);
        __syncwarp();
        has_keys = true;
        keys_parity ^= 1;
    }
};

/* The item with this number. Columns are taken in blocks, so that what the items at work read and
 * add to fits the L2 cache; inside a block the longest tiles come first, in turn: in ascending
 * order, so that nobody waits for an item that has not started. */
template <typename L>
__device__ __forceinline__ struct item item_of(const struct cs_bwd_args &a, int32_t number)
{
    const int32_t columns = a.kv_heads * a.parts, tiles = a.n_k * L::TILE_PARTS;
    if (number >= tiles * columns)
        return {-1, 0, 0, 0};
    const int32_t before = number / (tiles * a.block) * a.block; /* columns of earlier blocks */
    const int32_t width = min(a.block, columns - before), in_block = number - before * tiles;
    const int32_t nth = in_block / width, tile = nth / L::TILE_PARTS;
    struct item w;
    w.tile = a.is_ordered ? tile : a.by_k.order[tile];
    w.part = nth % L::TILE_PARTS;
    w.column = before + in_block % width;
    w.count = a.by_k.count[w.tile];
    return w;
}

template <typename L>
__device__ __forceinline__ void produce(const struct cs_bwd_args &a, const struct cs_bwd_maps &maps,
                                        uint8_t *shared)
{
    struct producer<L> to = {
        a, maps, shared, cs_smem(shared), {0, 0}, {0, 0}, 1, false
    };

    for (bool is_end = false; !is_end;) {
        const int32_t number = threadIdx.x % 32 == 0 ? atomicAdd(a.next, 1) : 0;
        const struct item w = item_of<L>(a, __shfl_sync(0xffffffffu, number, 0));
        is_end = w.tile < 0;
        to.has_keys = false;
        const int32_t head = w.column * a.heads_per_item; /* parts of a group are neighbours */
        for (int32_t h = 0; h < (w.count > 0 ? a.heads_per_item : 0); h++)
            to.list(w, head + h, h == a.heads_per_item - 1);
        to.item_keys(w);
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

/* One lane: what a warpgroup hands over, piece after piece: 64 rows of some columns in fragment
 * order. A turn begins with the first piece of a half and ends when the last one is in memory. */
template <typename L>
__device__ __forceinline__ void add_dq(const struct cs_bwd_args &a, uint8_t *shared, int wg)
{
    const int first = CS_BWD_ROWS * L::DQ_FIRST * wg; /* floats */
    const int floats = CS_BWD_ROWS * (wg == 0 ? L::DQ_FIRST : L::DIM - L::DQ_FIRST) / L::DQ_PIECES;
    const uint32_t base = cs_smem(shared);
    const uint32_t from = base + L::DQ + wg * CS_BWD_ROWS * L::DQ_PIECE * 4;
    uint32_t parity = 0;
    for (int piece = 0;; piece = (piece + 1) % L::DQ_PIECES, parity ^= 1) {
        cs_mbar_wait(base + L::DQ_FULL + 8 * wg, parity);
        const int2 what = *((const int2 *)(shared + L::ADD) + wg);
        if (what.x < 0)
            break;
        int32_t *turn = a.turn + 2 * (int64_t)what.x + wg;
        if (a.is_ordered && piece == 0) {
            while (load_acquire(turn) != what.y) {
            }
            fence_global_async();
        }
        cs_bulk_add_f32(a.dq_sum + (int64_t)what.x * CS_BWD_ROWS * L::DIM + first + piece * floats,
                        from, (uint32_t)floats * 4);
        cs_bulk_commit();
        cs_bulk_wait_read<0>();
        cs_mbar_arrive(base + L::DQ_FREE + 8 * wg);
        if (a.is_ordered && piece == L::DQ_PIECES - 1) {
            cs_bulk_wait<0>();
            fence_global_async();
            store_release(turn, what.y + 1);
        }
    }
    cs_bulk_wait<0>();
}

/* A warpgroup's columns of dQ to its stage, for the lane that adds them. half, rank: known to the
 * first lanes of warps. parity: of what is handed over, 1 first. */
template <typename L, int N>
__device__ __forceinline__ void hand_over_dq(const float *dq, uint8_t *shared, int32_t half,
                                             int32_t rank, int wg, uint32_t parity)
{
    const int t = (int)threadIdx.x % CS_WARPGROUP;
    uint8_t *stage = shared + L::DQ + wg * CS_BWD_ROWS * L::DQ_PIECE * 4 + t * 16;
    cs_mbar_wait(cs_smem(shared) + L::DQ_FREE + 8 * wg, parity);
#pragma unroll
    for (int i = 0; i < N / 8; i++)
        *(float4 *)(stage + i * 2048) =
            make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
    cs_fence_async();
    __syncwarp();
    if (t == 0)
        *((int2 *)(shared + L::ADD) + wg) = make_int2(half, rank);
    if (t % 32 == 0)
        cs_mbar_arrive(cs_smem(shared) + L::DQ_FULL + 8 * wg);
}

template <typename L>
__device__ __forceinline__ void hand_over_end(uint8_t *shared, int wg, uint32_t parity)
{
    if (threadIdx.x % 32 != 0)
        return;
    cs_mbar_wait(cs_smem(shared) + L::DQ_FREE + 8 * wg, parity);
    if (threadIdx.x % CS_WARPGROUP == 0)
        *((int2 *)(shared + L::ADD) + wg) = make_int2(-1, 0);
    cs_mbar_arrive(cs_smem(shared) + L::DQ_FULL + 8 * wg);
}

#endif
