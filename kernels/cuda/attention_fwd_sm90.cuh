/* The forward pass of attention on Hopper: flash attention with an online softmax over the tiles
 * that a mask has (core/mask/cells.h), persistent blocks, warp specialisation.
 *
 * A block is three warpgroups. The first only loads, by TMA: one warp takes the work items and
 * loads keys and bitmaps, another the values, a third the queries; keys and values go into rings,
 * so that the next item's are there when it begins. The other two warpgroups own 64 query rows each
 * and compute. An item is (query tile, head); blocks take items from a counter, the dearest tiles
 * first.
 *
 * A warpgroup issues the scores of step j + 1 and, behind them, the product of step j with the
 * values; while the tensor cores are busy with the latter it takes the softmax of the former. The
 * two warpgroups take turns at issuing, so that one's softmax hides behind the other's products. A
 * step of which a warpgroup's cells are all empty costs it nothing but its turn.
 *
 * Sources of the algorithm: FlashAttention-3 (arXiv 2407.08608), the online softmax of Milakov and
 * Gimelshein; skipping the rescale of small growths: FlashAttention-4. */
#ifndef CS_CUDA_ATTENTION_FWD_SM90_CUH
#define CS_CUDA_ATTENTION_FWD_SM90_CUH

#include "kernels/cuda/attention_sm90.cuh"
#include "kernels/cuda/hopper.cuh"

/* What the kernel reads besides its tensor maps; all pointers are device memory. */
struct cs_fwd_args {
    int32_t n_q, list_stride;
    const int32_t *q_row, *k_row, *count, *order;
    const uint32_t *entry;
    const int4 *cell;
    int32_t tokens, heads, group; /* group: query heads of a key head */
    int32_t section;              /* heads that are worked on at the same time; see item_at */
    int32_t o_stride;
    float score_scale; /* of q . k, before the soft cap */
    float exp_scale;   /* from (capped) scores to exponents of 2 */
    __nv_bfloat16 *o;
    float *lse;
    int32_t *counter; /* 0 at the start */
};

/* What a head dimension needs. A matrix (rows, DIM) lies in shared memory as boxes of 64 columns
 * under the 128-byte swizzle and, where DIM is no multiple of 64, one narrower box, filled up with
 * zeros by TMA where DIM is no multiple of 16. */
template <int DIM_, int KEYS_, int K_STAGES_, int V_STAGES_, bool IS_CAPPED_> struct cs_fwd_shape {
    static constexpr int DIM = DIM_;
    static constexpr int KEYS = KEYS_; /* of a step: a key tile (128) or a half of one (64) */
    static constexpr int K_STAGES = K_STAGES_; /* steps of which keys are in shared memory, */
    static constexpr int V_STAGES = V_STAGES_; /* and values, which are needed one step later */
    static constexpr bool IS_CAPPED = IS_CAPPED_;

    static constexpr int PADDED = (DIM + 15) / 16 * 16;
    static constexpr int WIDE = DIM / 64 * 64, TAIL = PADDED - WIDE;
    static constexpr int CELLS = KEYS / CS_MASK_CELL; /* of a query half in a step */

    static constexpr int Q_BYTES = CS_MASK_TILE * PADDED * 2; /* two halves, one after the other */
    static constexpr int K_BYTES = KEYS * PADDED * 2;
    static constexpr int BITMAP_BYTES = CS_MASK_TILE * 4; /* of a cell */
    static constexpr int BITS_BYTES = 2 * CELLS * BITMAP_BYTES;
    static_assert(KEYS == 128 || KEYS == 64);
    static_assert(TAIL == 0 || TAIL == 16 || TAIL == 32);
};

enum { CS_FWD_ITEMS = 2 }; /* that are known at the same time */

struct cs_fwd_item {   /* in shared memory */
    int32_t row, rows; /* query rows [row, row + rows); rows 0: no more items */
    int32_t head, tile;
    int32_t is_blind; /* these rows see nothing: there are no steps */
};

/* What a step holds for a warpgroup; the first two are shifted by the number of its cell. */
enum {
    CS_FWD_MASKED = 1, /* some of the cell is forbidden, */
    CS_FWD_BITMAP = 4, /* and a bitmap says what, else all of it */
    CS_FWD_EMPTY = 16, /* no cell allows anything */
    CS_FWD_LAST = 32,  /* of the item */
    CS_FWD_OVER = 64,  /* no step: what comes behind the last one */
};

struct cs_fwd_step {  /* in shared memory */
    int32_t flags[2]; /* of each warpgroup */
};

/* Offsets in shared memory from its first multiple of 1024. */
template <class S> struct cs_fwd_layout {
    static constexpr int Q = 0;
    static constexpr int K = Q + S::Q_BYTES;
    static constexpr int V = K + S::K_STAGES * S::K_BYTES;
    static constexpr int BITS = V + S::V_STAGES * S::K_BYTES;
    static constexpr int BARRIERS = BITS + S::K_STAGES * S::BITS_BYTES;
    static constexpr int ITEM_FULL = BARRIERS, ITEM_FREE = ITEM_FULL + 8 * CS_FWD_ITEMS;
    static constexpr int Q_FULL = ITEM_FREE + 8 * CS_FWD_ITEMS, Q_FREE = Q_FULL + 8;
    static constexpr int K_FULL = Q_FREE + 8, K_FREE = K_FULL + 8 * S::K_STAGES;
    static constexpr int V_FULL = K_FREE + 8 * S::K_STAGES, V_FREE = V_FULL + 8 * S::V_STAGES;
    static constexpr int ITEM = V_FREE + 8 * S::V_STAGES;
    static constexpr int STEP = ITEM + (int)sizeof(cs_fwd_item) * CS_FWD_ITEMS;
    static constexpr int BYTES = STEP + (int)sizeof(cs_fwd_step) * S::K_STAGES;
    static constexpr int ALIGN = 1024;
    static_assert(ALIGN + BYTES <= 232448, "more shared memory than a block can have");
};

enum {
    CS_FWD_THREADS = 3 * CS_WARPGROUP,
    CS_FWD_WARPS = 8,            /* that compute; each frees what it has read */
    CS_FWD_LOAD_REGISTERS = 56,  /* of a thread that loads, */
    CS_FWD_MATH_REGISTERS = 224, /* of one that computes */
    CS_FWD_TURN = 1,             /* named barriers 1 and 2 */
};

struct cs_fwd_maps {
    CUtensorMap q, k, v;                /* boxes of 64 columns */
    CUtensorMap q_tail, k_tail, v_tail; /* the rest */
    CUtensorMap bits;                   /* one bitmap */
};

/* --- items and steps, as both sides count them ------------------------------------------------ */

/* Item number i: heads come in sections, so small that their keys and values stay in the L2 cache
 * while all blocks work on them; in a section the dearest tiles come first, and a tile's heads one
 * after the other. */
__device__ __forceinline__ bool cs_fwd_item_at(const cs_fwd_args &a, int32_t i, int32_t *tile,
                                               int32_t *head)
{
    if (i >= a.n_q * a.heads)
        return false;
    const int32_t per_section = a.n_q * a.section, first = i / per_section * a.section;
    const int32_t heads = min(a.section, a.heads - first), at = i - first * a.n_q;
    *tile = a.order[at / heads];
    *head = first + at % heads;
    return true;
}

/* load(first key row, cells, is last) for every step of a query tile. */
template <class S, class Load>
__device__ __forceinline__ void cs_fwd_each_step(const cs_fwd_args &a, int32_t tile, Load load)
{
    const int32_t count = __ldg(a.count + tile);
    const uint32_t *entry = a.entry + (int64_t)tile * a.list_stride;
    const int4 *cells = a.cell + (int64_t)tile * a.list_stride;
    for (int32_t i = 0; i < count; i++) {
        const int32_t row = __ldg(a.k_row + (__ldg(entry + i) & 0xffff));
        const int4 c = __ldg(cells + i); /* [2 * query half + key half] */
        const bool is_last = i + 1 == count;
        if (S::CELLS == 2) {
            load(row, c, is_last);
            continue;
        }
        const bool has_low = c.x != CS_CELL_NONE || c.z != CS_CELL_NONE;
        const bool has_high = c.y != CS_CELL_NONE || c.w != CS_CELL_NONE;
        if (has_low)
            load(row, {c.x, CS_CELL_NONE, c.z, CS_CELL_NONE}, is_last && !has_high);
        if (has_high)
            load(row + CS_MASK_CELL, {c.y, CS_CELL_NONE, c.w, CS_CELL_NONE}, is_last);
    }
}

/* --- the warpgroup that loads ------------------------------------------------------------------
 */

/* rows (a multiple of 8) of one head from row on */
template <class S>
__device__ __forceinline__ void cs_fwd_load_rows(uint32_t to, uint32_t bar, const CUtensorMap *wide,
                                                 const CUtensorMap *tail, int32_t rows,
                                                 int32_t head, int32_t row)
{
#pragma unroll
    for (int c = 0; c < S::WIDE; c += 64)
        cs_tma_load(to + (uint32_t)(c * 2 * rows), wide, bar, c, head, row);
    if (S::TAIL > 0)
        cs_tma_load(to + (uint32_t)(S::WIDE * 2 * rows), tail, bar, S::WIDE, head, row);
}

/* The bitmaps of a step and, by expect, its keys: all count on one barrier. */
template <class S>
__device__ __forceinline__ void cs_fwd_load_bits(const CUtensorMap *map, uint32_t to, uint32_t bar,
                                                 const int4 &cell)
{
    const int32_t bitmap[4] = {cell.x, cell.y, cell.z, cell.w};
    uint32_t bytes = S::K_BYTES;
#pragma unroll
    for (int c = 0; c < 4; c++)
        bytes += bitmap[c] >= 0 ? S::BITMAP_BYTES : 0;
    cs_mbar_expect(bar, bytes);
#pragma unroll
    for (int c = 0; c < 4; c++)
        if (bitmap[c] >= 0)
            cs_tma_load(to + (uint32_t)((c / 2 * S::CELLS + c % 2) * S::BITMAP_BYTES), map, bar, 0,
                        bitmap[c]);
}

/* low, high: cells of one warpgroup */
template <class S> __device__ __forceinline__ int32_t cs_fwd_flags(int32_t low, int32_t high)
{
    const int32_t of_low =
        (low != CS_CELL_ALL ? CS_FWD_MASKED : 0) | (low >= 0 ? CS_FWD_BITMAP : 0);
    const int32_t of_high =
        (high != CS_CELL_ALL ? CS_FWD_MASKED : 0) | (high >= 0 ? CS_FWD_BITMAP : 0);
    const bool is_empty = low == CS_CELL_NONE && (S::CELLS == 1 || high == CS_CELL_NONE);
    return of_low | of_high << 1 | (is_empty ? CS_FWD_EMPTY : 0);
}

/* One thread: items, keys, bitmaps. */
template <class S>
__device__ __forceinline__ void cs_fwd_load_keys(const cs_fwd_args &a, const cs_fwd_maps &maps,
                                                 uint8_t *shared)
{
    using L = cs_fwd_layout<S>;
    const uint32_t base = cs_smem(shared);
    cs_fwd_item *const items = (cs_fwd_item *)(shared + L::ITEM);
    cs_fwd_step *const steps = (cs_fwd_step *)(shared + L::STEP);
    cs_ring<CS_FWD_ITEMS> slot = {0, 0};
    cs_ring<S::K_STAGES> stage = {0, 0};
    for (;;) {
        int32_t tile, head;
        const bool is_item = cs_fwd_item_at(a, atomicAdd(a.counter, 1), &tile, &head);
        const uint32_t full = base + L::ITEM_FULL + 8 * (uint32_t)slot.stage;
        cs_mbar_wait(base + L::ITEM_FREE + 8 * (uint32_t)slot.stage, slot.parity ^ 1);
        if (!is_item) {
            items[slot.stage].rows = 0;
            cs_mbar_arrive(full);
            return;
        }
        const int32_t row = a.q_row[tile];
        items[slot.stage] = {row, a.q_row[tile + 1] - row, head, tile, a.count[tile] == 0};
        cs_mbar_arrive(full);
        slot.step();
        cs_fwd_each_step<S>(a, tile, [&](int32_t k_row, const int4 &cell, bool is_last) {
            const uint32_t i = (uint32_t)stage.stage, k_full = base + L::K_FULL + 8 * i;
            cs_mbar_wait(base + L::K_FREE + 8 * i, stage.parity ^ 1);
            const int32_t last = is_last ? CS_FWD_LAST : 0;
            steps[i].flags[0] = cs_fwd_flags<S>(cell.x, cell.y) | last;
            steps[i].flags[1] = cs_fwd_flags<S>(cell.z, cell.w) | last;
            cs_fwd_load_bits<S>(&maps.bits, base + L::BITS + i * S::BITS_BYTES, k_full, cell);
            cs_fwd_load_rows<S>(base + L::K + i * S::K_BYTES, k_full, &maps.k, &maps.k_tail,
                                S::KEYS, head / a.group, k_row);
            stage.step();
        });
    }
}

/* load(item) for every item that has steps, in a thread of another warp. */
template <class S, class Load>
__device__ __forceinline__ void cs_fwd_each_item(uint8_t *shared, Load load)
{
    using L = cs_fwd_layout<S>;
    const uint32_t base = cs_smem(shared);
    const cs_fwd_item *const items = (const cs_fwd_item *)(shared + L::ITEM);
    cs_ring<CS_FWD_ITEMS> slot = {0, 0};
    for (;;) {
        cs_mbar_wait(base + L::ITEM_FULL + 8 * (uint32_t)slot.stage, slot.parity);
        const cs_fwd_item item = items[slot.stage];
        cs_mbar_arrive(base + L::ITEM_FREE + 8 * (uint32_t)slot.stage);
        slot.step();
        if (item.rows == 0)
            return;
        if (!item.is_blind)
            load(item);
    }
}

template <class S>
__device__ __forceinline__ void cs_fwd_load_queries(const cs_fwd_maps &maps, uint8_t *shared)
{
    using L = cs_fwd_layout<S>;
    const uint32_t base = cs_smem(shared), full = base + L::Q_FULL;
    uint32_t parity = 1;
    cs_fwd_each_item<S>(shared, [&](const cs_fwd_item &item) {
        cs_mbar_wait(base + L::Q_FREE, parity);
        parity ^= 1;
        cs_mbar_expect(full, S::Q_BYTES);
        for (int half = 0; half < 2; half++)
            cs_fwd_load_rows<S>(base + (uint32_t)(L::Q + half * S::Q_BYTES / 2), full, &maps.q,
                                &maps.q_tail, CS_MASK_CELL, item.head,
                                item.row + half * CS_MASK_CELL);
    });
}

template <class S>
__device__ __forceinline__ void cs_fwd_load_values(const cs_fwd_args &a, const cs_fwd_maps &maps,
                                                   uint8_t *shared)
{
    using L = cs_fwd_layout<S>;
    const uint32_t base = cs_smem(shared);
    cs_ring<S::V_STAGES> stage = {0, 0};
    cs_fwd_each_item<S>(shared, [&](const cs_fwd_item &item) {
        cs_fwd_each_step<S>(a, item.tile, [&](int32_t k_row, const int4 &, bool) {
            const uint32_t i = (uint32_t)stage.stage, full = base + L::V_FULL + 8 * i;
            cs_mbar_wait(base + L::V_FREE + 8 * i, stage.parity ^ 1);
            cs_mbar_expect(full, S::K_BYTES);
            cs_fwd_load_rows<S>(base + L::V + i * S::K_BYTES, full, &maps.v, &maps.v_tail, S::KEYS,
                                item.head / a.group, k_row);
            stage.step();
        });
    });
}

/* --- the warpgroups that compute ---------------------------------------------------------------
 */

/* Where the online softmax of a thread's two rows stands: p = exp2((s - max) * exp_scale). */
struct cs_fwd_rows {
    float max[2], sum[2]; /* sum: of this thread's columns */
};

/* A larger maximum is taken up only when it matters: until then p grows up to 2^8, which neither
 * bf16 nor the fp32 sums mind, and the accumulated output need not be rescaled. */
#define CS_FWD_GROWTH 8.0f

/* Bit i of a bitmap's word: whether the thread's accumulator i of a cell stays. */
template <int N> __device__ __forceinline__ void cs_fwd_keep(float *s, uint32_t bits)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        s[i] = bits >> i & 1 ? s[i] : -INFINITY;
}

/* s = tanh(scale s); the factor after it is in exp_scale */
template <int N> __device__ __forceinline__ void cs_fwd_cap(float *s, float scale)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        s[i] = 1.0f - 2.0f * cs_reciprocal(1.0f + cs_exp2(s[i] * (scale * 2 * CS_LOG2E)));
}

__device__ __forceinline__ float cs_quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float cs_quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Scores become weights; returns the factors by which what both rows have so far must shrink. The
 * rows go side by side and without branches, so that each hides the latency of the other. */
template <int N>
__device__ __forceinline__ float2 cs_fwd_softmax(float *s, float scale, cs_fwd_rows *rows)
{
    float top[2] = {rows->max[0], rows->max[1]}, base[2], shrink[2], more[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        top[0] = fmaxf(top[0], fmaxf(s[i], s[i + 1]));
        top[1] = fmaxf(top[1], fmaxf(s[i + 2], s[i + 3]));
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        top[h] = cs_quad_max(top[h]);
        /* false for -inf - -inf, which is no number */
        const bool is_larger = (top[h] - rows->max[h]) * scale > CS_FWD_GROWTH;
        shrink[h] = is_larger ? cs_exp2((rows->max[h] - top[h]) * scale) : 1.0f;
        rows->max[h] = is_larger ? top[h] : rows->max[h];
        base[h] = rows->max[h] == -INFINITY ? 0.0f : rows->max[h] * scale;
        rows->sum[h] *= shrink[h];
    }
#pragma unroll
    for (int i = 0; i < N; i += 4)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            s[i + 2 * h] = cs_exp2(s[i + 2 * h] * scale - base[h]);
            s[i + 2 * h + 1] = cs_exp2(s[i + 2 * h + 1] * scale - base[h]);
            rows->sum[h] += s[i + 2 * h];
            more[h] += s[i + 2 * h + 1];
        }
    rows->sum[0] += more[0];
    rows->sum[1] += more[1];
    return {shrink[0], shrink[1]};
}

/* word[j] of lane c becomes word[c] of lane j, among the four lanes of a quad */
__device__ __forceinline__ void cs_quad_transpose(uint32_t (&word)[4], int lane)
{
#pragma unroll
    for (int step = 1; step <= 2; step++) {
        const bool is_odd = lane & step;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & step)
                continue;
            const uint32_t got =
                __shfl_xor_sync(0xffffffffu, is_odd ? word[i] : word[i + step], step);
            if (is_odd)
                word[i] = got;
            else
                word[i + step] = got;
        }
    }
}

/* What a step holds for one thread. */
struct cs_fwd_view {
    int32_t flags;
    uint32_t bits[2]; /* of a cell that has a bitmap, else 0 */

    __device__ __forceinline__ bool is(int32_t flag) const
    {
        return flags & flag;
    }
};

/* Everything a computing thread carries. */
template <class S> struct cs_fwd_math {
    using L = cs_fwd_layout<S>;
    static constexpr int OUT = S::PADDED / 2;
    float out[OUT];           /* (64, PADDED): WIDE columns, then TAIL */
    float score[S::KEYS / 2]; /* (64, KEYS) */
    uint32_t weight[S::KEYS / 4];
    cs_fwd_rows rows;
    cs_ring<S::K_STAGES> keys;   /* the present step */
    cs_ring<S::V_STAGES> values; /* the step whose values come next */
    uint32_t base;
    int group, thread;

    __device__ __forceinline__ uint32_t bar(int first, int32_t i) const
    {
        return base + (uint32_t)(first + 8 * i);
    }

    /* Every warp for itself: what it has read may be overwritten. */
    __device__ __forceinline__ void free_stage(int first, int32_t i) const
    {
        __syncwarp();
        if (thread % 32 == 0)
            cs_mbar_arrive(bar(first, i));
    }

    /* Behind the last step of an item the queries are free as well. */
    __device__ __forceinline__ void free_keys(const cs_fwd_view &view) const
    {
        free_stage(L::K_FREE, keys.stage);
        if (view.is(CS_FWD_LAST))
            free_stage(L::Q_FREE, 0);
    }

    __device__ __forceinline__ void free_values(void)
    {
        free_stage(L::V_FREE, values.stage);
        values.step();
    }

    __device__ __forceinline__ void wait_values(void) const
    {
        cs_mbar_wait(bar(L::V_FULL, values.stage), values.parity);
    }

    __device__ __forceinline__ void take_turn(void) const
    {
        cs_bar_sync(CS_FWD_TURN + group, 2 * CS_WARPGROUP);
    }

    __device__ __forceinline__ void give_turn(void) const
    {
        cs_bar_arrive(CS_FWD_TURN + (group ^ 1), 2 * CS_WARPGROUP);
    }

    /* score = q k^T; issued, not waited for */
    __device__ __forceinline__ void issue_scores(uint32_t q, int32_t i)
    {
        /* Else the compiler computes the operands of all steps of k before the loop over keys and
         * keeps them in registers. */
        asm volatile("" : "+r"(q));
        q = cs_uniform(q);
        const uint32_t k = cs_uniform(base + (uint32_t)(L::K + i * S::K_BYTES));
        const uint64_t q_wide = cs_wgmma_operand<CS_SWIZZLE_128>(q);
        const uint64_t k_wide = cs_wgmma_operand<CS_SWIZZLE_128>(k);
        cs_wgmma_settle<S::KEYS / 2>(score);
        cs_wgmma_fence();
#pragma unroll
        for (int c = 0; c < S::WIDE; c += 16) {
            const uint32_t box = (uint32_t)(c / 64 * 128), step = (uint32_t)(c % 64 * 2);
            cs_wgmma<S::KEYS>::template ss<CS_ROW_K, CS_ROW_K>(
                score, cs_wgmma_advance(q_wide, box * CS_MASK_CELL + step),
                cs_wgmma_advance(k_wide, box * S::KEYS + step), c > 0);
        }
        if constexpr (S::TAIL > 0) {
            const uint64_t q_tail = cs_wgmma_operand<2 * S::TAIL>(q + S::WIDE * 2 * CS_MASK_CELL);
            const uint64_t k_tail = cs_wgmma_operand<2 * S::TAIL>(k + S::WIDE * 2 * S::KEYS);
#pragma unroll
            for (uint32_t c = 0; c < S::TAIL; c += 16)
                cs_wgmma<S::KEYS>::template ss<CS_ROW_K, CS_ROW_K>(
                    score, cs_wgmma_advance(q_tail, c * 2), cs_wgmma_advance(k_tail, c * 2), true);
        }
        cs_wgmma_commit();
    }

    /* out += weight v */
    __device__ __forceinline__ void issue_values(int32_t i)
    {
        const uint32_t v = cs_uniform(base + (uint32_t)(L::V + i * S::K_BYTES));
        const uint64_t wide = cs_wgmma_operand<CS_SWIZZLE_128>(v, S::KEYS * 128);
        cs_wgmma_settle<OUT>(out);
        cs_wgmma_fence();
#pragma unroll
        for (uint32_t c = 0; c < S::KEYS; c += 16) {
            cs_wgmma<S::WIDE>::template rs<CS_ROW_MN>(out, weight + c / 4,
                                                      cs_wgmma_advance(wide, c * 128), true);
            if constexpr (S::TAIL > 0)
                cs_wgmma<S::TAIL>::template rs<CS_ROW_MN>(
                    out + S::WIDE / 2, weight + c / 4,
                    cs_wgmma_advance(cs_wgmma_operand<2 * S::TAIL>(v + S::WIDE * 2 * S::KEYS),
                                     c * 2 * S::TAIL),
                    true);
        }
        cs_wgmma_commit();
    }

    /* Drop the scores that the mask forbids. */
    __device__ __forceinline__ void mask(const cs_fwd_view &view)
    {
#pragma unroll
        for (int c = 0; c < S::CELLS; c++)
            if (view.is(CS_FWD_MASKED << c))
                cs_fwd_keep<CS_MASK_CELL / 2>(score + c * CS_MASK_CELL / 2, view.bits[c]);
    }

    /* After the scores have come: to weights, not yet packed. Returns the factors for out. */
    __device__ __forceinline__ float2 soften(const cs_fwd_args &a, const cs_fwd_view &view)
    {
        free_keys(view);
        cs_wgmma_settle<S::KEYS / 2>(score);
        if constexpr (S::IS_CAPPED)
            cs_fwd_cap<S::KEYS / 2>(score, a.score_scale);
        mask(view);
        const float2 factors = cs_fwd_softmax<S::KEYS / 2>(score, a.exp_scale, &rows);
        cs_wgmma_settle<S::KEYS / 2>(score);
        return factors;
    }

    __device__ __forceinline__ void pack(void)
    {
#pragma unroll
        for (int i = 0; i < S::KEYS / 4; i++)
            weight[i] = cs_pack_bf16(score[2 * i], score[2 * i + 1]);
    }

    /* After the values have come. */
    __device__ __forceinline__ void shrink(float2 by)
    {
        cs_wgmma_settle<OUT>(out);
        if (!__any_sync(0xffffffffu, by.x != 1.0f || by.y != 1.0f))
            return;
#pragma unroll
        for (int i = 0; i < OUT; i += 4) {
            out[i] *= by.x;
            out[i + 1] *= by.x;
            out[i + 2] *= by.y;
            out[i + 3] *= by.y;
        }
    }

    /* The present step, as soon as its keys are there. */
    __device__ __forceinline__ cs_fwd_view look(const cs_fwd_step *steps) const
    {
        const int32_t i = keys.stage;
        cs_mbar_wait(bar(L::K_FULL, i), keys.parity);
        const uint32_t bits =
            base + (uint32_t)(L::BITS + i * S::BITS_BYTES + group * S::CELLS * S::BITMAP_BYTES);
        int32_t flags = 0;
        if (thread % 32 == 0) /* which also frees it: no other lane reads what loaders store */
            flags = steps[i].flags[group];
        cs_fwd_view view = {
            (int32_t)cs_uniform((uint32_t)flags), {0, 0}
        };
#pragma unroll
        for (int c = 0; c < S::CELLS; c++)
            if (view.is(CS_FWD_BITMAP << c))
                view.bits[c] = cs_shared_word(bits + (uint32_t)(c * S::BITMAP_BYTES + thread * 4));
        return view;
    }

    __device__ __forceinline__ void skip(const cs_fwd_view &view)
    {
        take_turn();
        give_turn();
        free_keys(view);
        wait_values();
        free_values();
    }

    /* To the step after view; behind the last one, nothing. */
    __device__ __forceinline__ cs_fwd_view advance(const cs_fwd_view &view,
                                                   const cs_fwd_step *steps)
    {
        keys.step();
        if (view.is(CS_FWD_LAST))
            return {
                CS_FWD_EMPTY | CS_FWD_OVER, {0, 0}
            };
        return look(steps);
    }

    /* The first step of a run: nothing to overlap it with but the other warpgroup. */
    __device__ __forceinline__ void begin_run(const cs_fwd_args &a, uint32_t q,
                                              const cs_fwd_view &view)
    {
        take_turn();
        issue_scores(q, keys.stage);
        give_turn();
        cs_wgmma_wait<0>();
        const float2 factors = soften(a, view);
        shrink(factors);
        pack();
    }

    /* The scores of the present step beside the values of the last one; returns the next step. It
     * is looked at between the softmax and the wait for the values: the branches there keep the
     * compiler from doing the softmax behind that wait, where nothing would overlap it. */
    __device__ __forceinline__ cs_fwd_view go_on(const cs_fwd_args &a, uint32_t q,
                                                 const cs_fwd_view &view, const cs_fwd_step *steps)
    {
        take_turn();
        issue_scores(q, keys.stage);
        wait_values();
        issue_values(values.stage);
        give_turn();
        cs_wgmma_wait<1>();
        const float2 factors = soften(a, view);
        const cs_fwd_view next = advance(view, steps);
        cs_wgmma_wait<0>();
        free_values();
        shrink(factors);
        pack();
        return next;
    }

    __device__ __forceinline__ void end_run(void)
    {
        wait_values();
        issue_values(values.stage);
        cs_wgmma_wait<0>();
        cs_wgmma_settle<OUT>(out);
        free_values();
    }

    /* All steps of an item; q: this warpgroup's half of the queries. Runs of steps that concern
     * this warpgroup, with others between them. */
    __device__ __forceinline__ void attend(const cs_fwd_args &a, uint32_t q,
                                           const cs_fwd_step *steps)
    {
        cs_fwd_view view = look(steps);
        while (!view.is(CS_FWD_OVER)) {
            if (view.is(CS_FWD_EMPTY)) {
                skip(view);
                view = advance(view, steps);
                continue;
            }
            begin_run(a, q, view);
            view = advance(view, steps);
            while (!view.is(CS_FWD_EMPTY))
                view = go_on(a, q, view, steps);
            end_run();
        }
    }

    __device__ __forceinline__ void begin_item(void)
    {
#pragma unroll
        for (int i = 0; i < OUT; i++)
            out[i] = 0.0f;
        rows = {
            {-INFINITY, -INFINITY},
            {0.0f,      0.0f     }
        };
    }

    /* out and lse of the rows of this item that exist. Threads of a quad hold neighbouring columns
     * of one row: they exchange them so that each writes 16 bytes. */
    __device__ __forceinline__ void write(const cs_fwd_args &a, const cs_fwd_item &item) const
    {
        const int lane = thread % 4;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int32_t at = group * CS_MASK_CELL + thread / 32 * 16 + thread % 32 / 4 + 8 * h;
            const bool is_row = at < item.rows;
            const float sum = cs_quad_sum(rows.sum[h]);
            const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
            if (is_row && lane == 0)
                a.lse[(int64_t)item.head * a.tokens + item.row + at] =
                    sum > 0.0f ? rows.max[h] * a.exp_scale * CS_LN2 + logf(sum) : -INFINITY;
            __nv_bfloat16 *const to =
                a.o + (int64_t)(item.row + at) * a.o_stride + (int64_t)item.head * S::DIM;
#pragma unroll
            for (int j = 0; j + 4 <= S::DIM / 8; j += 4) {
                uint32_t word[4];
#pragma unroll
                for (int c = 0; c < 4; c++)
                    word[c] = cs_pack_bf16(out[4 * (j + c) + 2 * h] * inverse,
                                           out[4 * (j + c) + 2 * h + 1] * inverse);
                cs_quad_transpose(word, lane);
                if (is_row)
                    *(uint4 *)(to + 8 * (j + lane)) = {word[0], word[1], word[2], word[3]};
            }
#pragma unroll
            for (int j = S::DIM / 32 * 4; j < S::DIM / 8; j++)
                if (is_row)
                    *(uint32_t *)(to + 8 * j + 2 * lane) = cs_pack_bf16(
                        out[4 * j + 2 * h] * inverse, out[4 * j + 2 * h + 1] * inverse);
        }
    }
};

/* By one lane, which also frees it, for the warp. */
__device__ __forceinline__ cs_fwd_item cs_fwd_take_item(const cs_fwd_item *from)
{
    cs_fwd_item item = {};
    if (threadIdx.x % 32 == 0)
        item = *from;
    item.row = __shfl_sync(0xffffffffu, item.row, 0);
    item.rows = __shfl_sync(0xffffffffu, item.rows, 0);
    item.head = __shfl_sync(0xffffffffu, item.head, 0);
    item.is_blind = __shfl_sync(0xffffffffu, item.is_blind, 0);
    return item;
}

template <class S>
__device__ __forceinline__ void cs_fwd_compute(const cs_fwd_args &a, const uint8_t *shared)
{
    using L = cs_fwd_layout<S>;
    cs_fwd_math<S> m;
    m.base = cs_smem(shared);
    m.group = (int)threadIdx.x / CS_WARPGROUP - 1;
    m.thread = (int)threadIdx.x % CS_WARPGROUP;
    m.keys = {0, 0};
    m.values = {0, 0};
    if (m.group == 1)
        m.give_turn();
    const uint32_t q = m.base + (uint32_t)(L::Q + m.group * S::Q_BYTES / 2);
    uint32_t q_parity = 0;
    cs_ring<CS_FWD_ITEMS> slot = {0, 0};
    for (;;) {
        cs_mbar_wait(m.bar(L::ITEM_FULL, slot.stage), slot.parity);
        const cs_fwd_item item =
            cs_fwd_take_item((const cs_fwd_item *)(shared + L::ITEM) + slot.stage);
        m.free_stage(L::ITEM_FREE, slot.stage);
        slot.step();
        if (item.rows == 0)
            return;
        m.begin_item();
        if (!item.is_blind) {
            cs_mbar_wait(m.base + L::Q_FULL, q_parity);
            q_parity ^= 1;
            m.attend(a, q, (const cs_fwd_step *)(shared + L::STEP));
        }
        m.write(a, item);
    }
}

/* --- the kernel --------------------------------------------------------------------------------
 */

template <class S> __device__ __forceinline__ void cs_fwd_init_barriers(uint32_t base)
{
    using L = cs_fwd_layout<S>;
    const auto init = [&](int first, int n, uint32_t arrivals) {
        for (int i = 0; i < n; i++)
            cs_mbar_init(base + (uint32_t)(first + 8 * i), arrivals);
    };
    init(L::ITEM_FULL, CS_FWD_ITEMS, 1);
    init(L::ITEM_FREE, CS_FWD_ITEMS, CS_FWD_WARPS + 2); /* and the loaders of queries, values */
    init(L::Q_FULL, 1, 1);
    init(L::Q_FREE, 1, CS_FWD_WARPS);
    init(L::K_FULL, S::K_STAGES, 1);
    init(L::K_FREE, S::K_STAGES, CS_FWD_WARPS);
    init(L::V_FULL, S::V_STAGES, 1);
    init(L::V_FREE, S::V_STAGES, CS_FWD_WARPS);
    cs_mbar_init_done();
}

template <class S>
__global__ void __launch_bounds__(CS_FWD_THREADS, 1)
    cs_fwd_kernel(const __grid_constant__ cs_fwd_args a, const __grid_constant__ cs_fwd_maps maps)
{
    extern __shared__ uint8_t unaligned[];
    uint8_t *const shared =
        unaligned + (cs_fwd_layout<S>::ALIGN - cs_smem(unaligned) % cs_fwd_layout<S>::ALIGN) %
                        cs_fwd_layout<S>::ALIGN;
    if (threadIdx.x == 0)
        cs_fwd_init_barriers<S>(cs_smem(shared));
    __syncthreads();
    if (threadIdx.x < CS_WARPGROUP) {
        cs_registers_give<CS_FWD_LOAD_REGISTERS>();
        if (threadIdx.x == 0)
            cs_fwd_load_keys<S>(a, maps, shared);
        else if (threadIdx.x == 32)
            cs_fwd_load_values<S>(a, maps, shared);
        else if (threadIdx.x == 64)
            cs_fwd_load_queries<S>(maps, shared);
    } else {
        cs_registers_take<CS_FWD_MATH_REGISTERS>();
        cs_fwd_compute<S>(a, shared);
    }
}

#endif
