/* Attention backward for Hopper, heads of 256: as attention/hopper/bwd_sm90.cu, but dK and dV of 128 keys
 * would fill the register file. An item is 64 keys (half a tile); S and dP are split between the
 * warpgroups by queries, dK, dV and dQ by columns, P and dS go through shared memory. */
#include "kernels/cuda/attention/hopper/bwd_sm90_roles.cuh"

#define COLUMNS 128               /* of a warpgroup */
#define QUERIES (CS_BWD_ROWS / 2) /* of a warpgroup */
#define PIECE   (COLUMNS / 2)     /* columns of dQ handed over at once */

using L = cs_bwd_layout<2 * COLUMNS, CS_BWD_ROWS, 1, 2, CS_BWD_STAGES>;

/* d (64 keys, COLUMNS) += weight (64 keys, 64 queries) queries (64, COLUMNS) */
__device__ __forceinline__ void add_weighted(float (&d)[COLUMNS / 2], uint32_t weight,
                                             uint32_t queries)
{
    const uint64_t a = cs_wgmma_operand<CS_SWIZZLE_128>(weight);
    const uint64_t b = cs_wgmma_operand<CS_SWIZZLE_128>(queries, L::QUERY_PANEL);
#pragma unroll
    for (int k = 0; k < CS_BWD_ROWS / 16; k++)
        cs_wgmma<COLUMNS>::ss<CS_ROW_K, CS_ROW_MN>(d, further(a, k * 32), further(b, k * 16 * 128),
                                                   true);
}

template <bool CAP>
__device__ __forceinline__ void consume(const struct cs_bwd_args &a, uint8_t *shared, int wg)
{
    constexpr int OWN_QUERIES = QUERIES * 128; /* bytes of their rows in a panel */
    const uint32_t base = cs_smem(shared);
    const bool is_elected = threadIdx.x % 32 == 0;
    const uint32_t query_columns = wg * (COLUMNS / CS_BWD_PANEL) * L::QUERY_PANEL;
    const uint32_t key_columns = wg * (COLUMNS / CS_BWD_PANEL) * L::KEY_PANEL;

    struct cs_ring<CS_BWD_STAGES> ring = {
        0, 0
    };

    uint32_t do_parity = 0;
    for (uint32_t keys_parity = 0;; keys_parity ^= 1) {
        cs_mbar_wait(base + L::KEYS_FULL, keys_parity);
        const struct item item = read_item(shared + L::ITEM);
        if (item.tile < 0)
            break;
        float dk[COLUMNS / 2] = {}, dv[COLUMNS / 2] = {};
        for (bool is_last = item.count == 0; !is_last; ring.step(), do_parity ^= 1) {
            const uint32_t q = base + L::Q + ring.stage * L::QUERY_BYTES, d_o = base + L::DO;
            const uint32_t p_at = base + L::P + ring.stage * 2 * L::P_BYTES;
            const uint32_t ds_at = p_at + L::P_BYTES;
            const float *stat = (const float *)(shared + L::STAT + ring.stage * CS_BWD_STAT_BYTES) +
                                wg * QUERIES + threadIdx.x % 4 * 2;
            float s[QUERIES / 2], dp[QUERIES / 2], dq[COLUMNS / 2];
            uint32_t p[QUERIES / 4], ds[QUERIES / 4];
            float2 lse[QUERIES / 8], sum[QUERIES / 8];

            cs_mbar_wait(base + L::Q_FULL + 8 * ring.stage, ring.parity);
            cs_wgmma_fence();
            products<L, QUERIES>(s, base + L::K, q + wg * OWN_QUERIES);
            cs_wgmma_commit();
            const struct step *const step = (const struct step *)(shared + L::STEP) + ring.stage;
            const int32_t cell = read_by_one(&step->cell[0]);
            const uint32_t keep =
                cs_cell_bits<false>(a.bits, cell, threadIdx.x % CS_WARPGROUP) >> (wg * QUERIES / 2);
            read_stat<QUERIES>(lse, stat);
            cs_mbar_wait(base + L::DO_FULL, do_parity);
            cs_wgmma_fence();
            products<L, QUERIES>(dp, base + L::V, d_o + wg * OWN_QUERIES);
            cs_wgmma_commit();

            cs_wgmma_wait<1>(); /* S */
            hold(s);
            if (cell != CS_CELL_ALL)
                cs_keep<QUERIES / 2>(s, keep);
            probabilities<QUERIES, CAP>(s, p, lse, a);
            store_packed<QUERIES>(p, p_at, wg * QUERIES / 8);
            read_stat<QUERIES>(sum, stat + CS_BWD_ROWS);
            cs_wgmma_wait<0>(); /* dP */
            hold(dp);
            score_gradient<QUERIES>(s, dp, ds, sum);
            store_packed<QUERIES>(ds, ds_at, wg * QUERIES / 8);
            cs_fence_async();
            cs_bar_sync(BAR_DS, 2 * CS_WARPGROUP);

            cs_wgmma_fence();
            add_weighted(dv, p_at, d_o + query_columns);
            cs_wgmma_commit();
            query_gradient<L, COLUMNS>(dq, ds_at, base + L::K + key_columns);
            cs_wgmma_commit();
            add_weighted(dk, ds_at, q + query_columns);
            cs_wgmma_commit();
            cs_wgmma_wait<2>(); /* dV */
            if (is_elected)
                cs_mbar_arrive(base + L::DO_FREE);
            cs_wgmma_wait<1>(); /* dQ */
            hold(dq);
            int32_t half = 0, flags = 0; /* of the first lane */
            if (is_elected) {
                half = step->half;
                flags = step->flags;
            }
            is_last = of_first_lane(flags) & 1;
            hand_over_dq<L, PIECE>(dq, shared, half, flags >> 1, wg, 1);
            hand_over_dq<L, PIECE>(dq + PIECE / 2, shared, half, flags >> 1, wg, 0);
            cs_wgmma_wait<0>(); /* dK */
            if (is_elected)
                cs_mbar_arrive(base + L::Q_FREE + 8 * ring.stage);
        }
        if (is_elected)
            cs_mbar_arrive(base + L::KEYS_FREE);
        hold(dk);
        hold(dv);
        store_keys<L, COLUMNS>(a, dk, a.scale, item.tile, item.column, item.part, wg * COLUMNS,
                               a.dk, a.dk_part);
        store_keys<L, COLUMNS>(a, dv, 1.0f, item.tile, item.column, item.part, wg * COLUMNS, a.dv,
                               a.dv_part);
    }
    hand_over_end<L>(shared, wg, 1);
}

template <bool CAP>
__global__ void __launch_bounds__(CS_BWD_THREADS, 1)
    cs_bwd_wide_kernel(const __grid_constant__ struct cs_bwd_maps maps,
                       const __grid_constant__ struct cs_bwd_args a)
{
    cs_bwd_play<L>(a, maps, [&](uint8_t *shared, int wg) { consume<CAP>(a, shared, wg); });
}

void cs_bwd_wide(struct cs_ctx *ctx, const struct cs_bwd_maps &maps, const struct cs_bwd_args &a)
{
    cs_bwd_launch<L>(ctx, maps, a,
                     a.softcap != 0.0f ? cs_bwd_wide_kernel<true> : cs_bwd_wide_kernel<false>);
}
