/* Attention forward on Hopper: the warpgroup that loads. One thread each of three warps issues TMA
 * copies into the rings of shared memory and waits for stages to be freed. */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_FWD_SM90_LOAD_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_FWD_SM90_LOAD_CUH

#include "kernels/cuda/attention/hopper/fwd_sm90.cuh"

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

__device__ __forceinline__ cs_fwd_item cs_fwd_item_of(const cs_fwd_args &a, const cs_fwd_work &w)
{
    int32_t tile, head;
    if (!cs_fwd_item_at(&a.items, w.item, &tile, &head))
        return {};
    const int32_t row = a.q_row[tile];
    cs_fwd_item item = {row, a.q_row[tile + 1] - row, head, tile, w.first, w.end, 1, 0, 0, 0};
    item.share = w.share;
    item.pieces = cs_fwd_pieces(&a.items, &w, &item.nth_cut, &item.first_share);
    return item;
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
    cs_fwd_work work = {};
    for (;;) {
        work = work.rest > 0 ? cs_fwd_work_behind(work)
                             : cs_fwd_work_of(&a.items, atomicAdd(a.counter, 1));
        const cs_fwd_item item = cs_fwd_item_of(a, work);
        cs_mbar_wait(base + L::ITEM_FREE + 8 * (uint32_t)slot.stage, slot.parity ^ 1);
        items[slot.stage] = item;
        cs_mbar_arrive(base + L::ITEM_FULL + 8 * (uint32_t)slot.stage);
        if (item.rows == 0)
            return;
        slot.step();
        cs_fwd_each_step<S>(a, item, [&](int32_t k_row, const int4 &cell, bool is_last) {
            const uint32_t i = (uint32_t)stage.stage, k_full = base + L::K_FULL + 8 * i;
            cs_mbar_wait(base + L::K_FREE + 8 * i, stage.parity ^ 1);
            const int32_t last = is_last ? CS_FWD_LAST : 0;
            steps[i].flags[0] = cs_fwd_flags<S>(cell.x, cell.y) | last;
            steps[i].flags[1] = cs_fwd_flags<S>(cell.z, cell.w) | last;
            cs_fwd_load_bits<S>(&maps.bits, base + L::BITS + i * S::BITS_BYTES, k_full, cell);
            cs_fwd_load_rows<S>(base + L::K + i * S::K_BYTES, k_full, &maps.k, &maps.k_tail,
                                S::KEYS, item.head / a.group, k_row);
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
        if (item.first < item.end)
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
        cs_fwd_each_step<S>(a, item, [&](int32_t k_row, const int4 &, bool) {
            const uint32_t i = (uint32_t)stage.stage, full = base + L::V_FULL + 8 * i;
            cs_mbar_wait(base + L::V_FREE + 8 * i, stage.parity ^ 1);
            cs_mbar_expect(full, S::K_BYTES);
            cs_fwd_load_rows<S>(base + L::V + i * S::K_BYTES, full, &maps.v, &maps.v_tail, S::KEYS,
                                item.head / a.group, k_row);
            stage.step();
        });
    });
}

#endif
