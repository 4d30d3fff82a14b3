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
#include "kernels/cuda/attention/hopper/bwd_sm90_roles.cuh"
#include "kernels/cuda/attention/hopper/sm90_maps.cuh"

/* d (64 keys, DIM) += weight (64 keys, 64 queries) queries (64, DIM) */
template <typename L>
__device__ __forceinline__ void add_weighted(float (&d)[L::DIM / 2], const uint32_t (&weight)[16],
                                             uint32_t queries)
{
    const uint64_t b = cs_wgmma_operand<CS_SWIZZLE_128>(queries, L::QUERY_PANEL);
#pragma unroll
    for (int k = 0; k < CS_BWD_ROWS / 16; k++)
        cs_wgmma<L::DIM>::template rs<CS_ROW_MN>(d, weight + 4 * k, further(b, k * 16 * 128), true);
}

/* What a warpgroup knows of a step as soon as its queries have come, before it issues S. What else
 * there is of it waits in shared memory: registers are short. */
struct ahead {
    int32_t cell; /* of its keys */
    bool is_last; /* of the item */
};

/* This thread's first column of a stage's statistics. */
template <typename L>
__device__ __forceinline__ const float *stat_of(const uint8_t *shared, int32_t stage)
{
    return (const float *)(shared + L::STAT + stage * CS_BWD_STAT_BYTES) + threadIdx.x % 4 * 2;
}

template <typename L>
__device__ __forceinline__ struct ahead look_ahead(const uint8_t *shared, int32_t stage, int wg)
{
    struct step step = {};
    if (threadIdx.x % 32 == 0) /* which also frees it */
        step = ((const struct step *)(shared + L::STEP))[stage];
    return {of_first_lane(wg == 0 ? step.cell[0] : step.cell[1]),
            (of_first_lane(step.flags) & 1) != 0};
}

/* N: columns of dQ that this warpgroup computes. */
template <typename L, int N, bool CAP>
__device__ __forceinline__ void consume(const struct cs_bwd_args &a, uint8_t *shared, int wg)
{
    constexpr int DIM = L::DIM;
    /* row sums that are read before dP is waited for: as many as there are registers for */
    constexpr int EARLY_SUMS = DIM < 128 ? CS_BWD_ROWS : CAP ? 0 : CS_BWD_ROWS / 2;
    const uint32_t base = cs_smem(shared);
    const bool is_elected = threadIdx.x % 32 == 0;
    const uint32_t own_keys = base + L::K + wg * CS_BWD_ROWS * 128;
    const uint32_t own_values = base + L::V + wg * CS_BWD_ROWS * 128;
    const uint32_t dq_keys =
        base + L::K + wg * (DIM > CS_BWD_PANEL ? L::KEY_PANEL : L::DQ_FIRST * 2);

    struct cs_ring<CS_BWD_STAGES> ring = {
        0, 0
    }; /* of queries and of their dO */

    for (uint32_t keys_parity = 0;; keys_parity ^= 1) {
        cs_mbar_wait(base + L::KEYS_FULL, keys_parity);
        const struct item item = read_item(shared + L::ITEM);
        if (item.tile < 0)
            break;
        float dk[DIM / 2] = {}, dv[DIM / 2] = {};
        if (item.count > 0) {
            float s[32];
            cs_mbar_wait(base + L::Q_FULL + 8 * ring.stage, ring.parity);
            struct ahead step = look_ahead<L>(shared, ring.stage, wg);
            cs_wgmma_fence();
            products<L, 64>(s, own_keys, base + L::Q + ring.stage * L::QUERY_BYTES);
            cs_wgmma_commit();
            uint32_t keep = cs_cell_bits<false>(a.bits, step.cell, threadIdx.x % CS_WARPGROUP);
            cs_wgmma_wait<0>();
            for (bool is_last = false; !is_last;) {
                const uint32_t q = base + L::Q + ring.stage * L::QUERY_BYTES;
                const uint32_t d_o = base + L::DO + ring.stage * L::QUERY_BYTES;
                const uint32_t ds_both = base + L::P + ring.stage * 2 * L::P_BYTES;
                float dp[32], dq[N / 2];
                uint32_t p[16], ds[16];
                float2 lse[CS_BWD_ROWS / 8], sum[CS_BWD_ROWS / 8];
                const float *const stat = stat_of<L>(shared, ring.stage);

                cs_mbar_wait(base + L::DO_FULL + 8 * ring.stage, ring.parity);
                if constexpr (!CAP)
                    read_stat<CS_BWD_ROWS>(lse, stat);
                cs_wgmma_fence();
                products<L, 64>(dp, own_values, d_o);
                cs_wgmma_commit();
                hold(s);
                if (step.cell != CS_CELL_ALL)
                    cs_keep<32>(s, keep);
                if constexpr (CAP) /* no registers for it before */
                    read_stat<CS_BWD_ROWS>(lse, stat);
                probabilities<64, CAP>(s, p, lse, a);
                cs_wgmma_fence();
                add_weighted<L>(dv, p, d_o);
                cs_wgmma_commit();

                read_stat<EARLY_SUMS>(sum, stat + CS_BWD_ROWS);
                cs_wgmma_wait<1>(); /* dP */
                hold(dp);
                read_stat<CS_BWD_ROWS - EARLY_SUMS>(sum + EARLY_SUMS / 8,
                                                    stat + CS_BWD_ROWS + EARLY_SUMS);
                score_gradient<64>(s, dp, ds, sum);
                store_packed<64>(ds, ds_both + wg * L::P_BYTES, 0);
                cs_fence_async();
                cs_wgmma_fence();
                add_weighted<L>(dk, ds, q);
                cs_wgmma_commit();
                cs_wgmma_wait<1>(); /* dV */
                if (is_elected)
                    cs_mbar_arrive(base + L::DO_FREE + 8 * ring.stage);

                cs_bar_sync(BAR_DS, 2 * CS_WARPGROUP);
                cs_wgmma_fence();
                query_gradient<L, N>(dq, ds_both, dq_keys);
                cs_wgmma_commit();
                cs_wgmma_wait<1>();         /* dK */
                int32_t half = 0, rank = 0; /* of the first lane */
                if (is_elected) {
                    const struct step *const now = (const struct step *)(shared + L::STEP);
                    half = now[ring.stage].half;
                    rank = now[ring.stage].flags >> 1;
                    cs_mbar_arrive(base + L::Q_FREE + 8 * ring.stage);
                }

                /* After the last step S is computed from whatever is there, keep read again, and
                 * neither is used: a branch around them would make the compiler wait after every
                 * wgmma. */
                is_last = step.is_last;
                ring.step();
                if (!is_last) {
                    cs_mbar_wait(base + L::Q_FULL + 8 * ring.stage, ring.parity);
                    step = look_ahead<L>(shared, ring.stage, wg);
                }
                cs_wgmma_fence();
                products<L, 64>(s, own_keys, base + L::Q + ring.stage * L::QUERY_BYTES);
                cs_wgmma_commit();
                keep = cs_cell_bits<false>(a.bits, step.cell, threadIdx.x % CS_WARPGROUP);
                cs_wgmma_wait<1>(); /* dQ */
                hold(dq);
                hand_over_dq<L, N>(dq, shared, half, rank, wg, (uint32_t)ring.stage);
                cs_wgmma_wait<0>(); /* S */
            }
        }
        if (is_elected)
            cs_mbar_arrive(base + L::KEYS_FREE);
        hold(dk);
        hold(dv);
        store_keys<L, DIM>(a, dk, a.scale, item.tile, item.column, wg, 0, a.dk, a.dk_part);
        store_keys<L, DIM>(a, dv, 1.0f, item.tile, item.column, wg, 0, a.dv, a.dv_part);
    }
    hand_over_end<L>(shared, wg, (uint32_t)ring.stage ^ 1);
}

template <int DIM> using layout = cs_bwd_layout<DIM, CS_MASK_TILE, CS_BWD_STAGES, 1, CS_BWD_STAGES>;

template <int DIM, bool CAP>
__global__ void __launch_bounds__(CS_BWD_THREADS, 1)
    cs_bwd_kernel(const __grid_constant__ struct cs_bwd_maps maps,
                  const __grid_constant__ struct cs_bwd_args a)
{
    using L = layout<DIM>;
    cs_bwd_play<L>(a, maps, [&](uint8_t *shared, int wg) {
        if constexpr (2 * L::DQ_FIRST == DIM)
            consume<L, L::DQ_FIRST, CAP>(a, shared, wg);
        else if (wg == 0)
            consume<L, L::DQ_FIRST, CAP>(a, shared, 0);
        else
            consume<L, DIM - L::DQ_FIRST, CAP>(a, shared, 1);
    });
}

/* --- host ------------------------------------------------------------------------------------ */

template <int DIM>
static void launch(struct cs_ctx *ctx, const struct cs_bwd_maps &maps, const struct cs_bwd_args &a)
{
    cs_bwd_launch<layout<DIM>>(
        ctx, maps, a, a.softcap != 0.0f ? cs_bwd_kernel<DIM, true> : cs_bwd_kernel<DIM, false>);
}

static bool map_statistics(const struct cs_bwd_args &a, CUtensorMap *map)
{
    const struct cs_tensor t = {
        CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        a.stat,
        2,
        {CS_BWD_STAT,       (uint64_t)(a.heads * cs_bwd_halves(a)), 1},
        {CS_BWD_STAT_BYTES, 0                                     },
        {CS_BWD_STAT,                1,                                      1 },
        CU_TENSOR_MAP_SWIZZLE_NONE
    };
    return cs_tensor_map(&t, map);
}

typedef void (*pass_fn)(struct cs_ctx *, const struct cs_bwd_maps &, const struct cs_bwd_args &);

/* The main kernel for heads of dim; NULL: none */
static pass_fn main_pass_of(int32_t dim)
{
    static const struct {
        int32_t dim;
        pass_fn pass;
    } table[] = {
        {64,  launch<64> },
        {72,  launch<72> },
        {80,  launch<80> },
        {96,  launch<96> },
        {128, launch<128>},
        {256, cs_bwd_wide},
    };

    for (const auto &row : table)
        if (row.dim == dim)
            return row.pass;
    return nullptr;
}

static void run(struct cs_ctx *ctx, const struct cs_bwd_maps &maps, const struct cs_bwd_args &a,
                pass_fn main_pass)
{
    main_pass(ctx, maps, a);
    cs_bwd_after(ctx,
                 {a.dq_sum, 0, 1, a.q_row, a.scale, a.head_dim, a.q_stride, (__nv_bfloat16 *)a.dq},
                 a.n_q, a.heads);
    if (a.parts == 1)
        return;
    const int64_t part = (int64_t)a.kv_heads * a.n_k * 2 * CS_BWD_ROWS * a.head_dim;
    cs_bwd_after(ctx,
                 {a.dk_part, part, a.parts, a.k_row, a.scale, a.head_dim, a.kv_stride,
                  (__nv_bfloat16 *)a.dk},
                 a.n_k, a.kv_heads);
    cs_bwd_after(
        ctx,
        {a.dv_part, part, a.parts, a.k_row, 1.0f, a.head_dim, a.kv_stride, (__nv_bfloat16 *)a.dv},
        a.n_k, a.kv_heads);
}

/* Items for every processor, so that the last ones do not leave most of them idle. */
#define ITEMS_PER_PROCESSOR 3
#define PROCESSORS          132

/* Items of a block of columns: two for each processor, so that the longest of the last block are
 * over in time (measured on causal masks), but no more, for the cache. */
#define BLOCK_TILES 256

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
        used += cs_attention_align(bytes);
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
    /* in turn: as few items as possible that wait for each other */
    a.block = s->is_deterministic ? a.kv_heads * a.parts : (BLOCK_TILES + a.n_k - 1) / a.n_k;
    a.scale = s->scale;
    a.softcap = s->softcap;
    const struct cs_attention_scales scales = cs_attention_scales_of(s);
    a.to_log2 = scales.exp2;
    a.to_tanh = scales.tanh;
    a.is_ordered = s->is_deterministic;
    return a;
}

size_t cs_cuda_attention_bwd_sm90_workspace(const struct cs_attention_shape *shape,
                                            const struct cs_mask_plan *mask)
{
    if (main_pass_of(shape->head_dim) == nullptr || shape->tokens <= 0 ||
        !cs_attention_has_lists(shape, mask, 0))
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
    if (main_pass_of(shape->head_dim) == nullptr || !cs_attention_has_lists(shape, mask, all) ||
        cs_attention_capability(ctx) != 90)
        return false;
    if (ctx->workspace_bytes < cs_cuda_attention_bwd_sm90_workspace(shape, mask)) {
        CS_CUDA_REFUSE(ctx, CS_INVALID, "attention_grad: workspace of %zu bytes is too small",
                       ctx->workspace_bytes);
        return true;
    }
    struct cs_bwd_args a = args_of(shape, mask->cells);
    place(&a, (uint8_t *)cs_attention_align((size_t)ctx->workspace));
    a.o = o;
    a.d_o = d_o;
    a.lse = lse;
    a.dq = dq;
    a.dk = dk;
    a.dv = dv;
    const int32_t dim = shape->head_dim;
    const int32_t k_tokens = cs_attention_keys(shape);
    const int32_t keys = dim > 128 ? CS_BWD_ROWS : CS_MASK_TILE; /* of an item */
    const auto map_rows = [&](const void *x, int32_t rows, int32_t heads, int32_t stride,
                              int32_t box, CUtensorMap *map) {
        return cs_attention_map_rows(x, rows, heads, dim, stride, CS_BWD_PANEL, box, map);
    };
    struct cs_bwd_maps maps;
    const bool is_mapped =
        map_rows(q, shape->tokens, shape->heads, shape->q_stride, CS_BWD_ROWS, &maps.q) &&
        map_rows(d_o, shape->tokens, shape->heads, shape->o_stride, CS_BWD_ROWS, &maps.d_o) &&
        map_rows(k, k_tokens, shape->kv_heads, shape->kv_stride, keys, &maps.k) &&
        map_rows(v, k_tokens, shape->kv_heads, shape->kv_stride, keys, &maps.v) &&
        map_statistics(a, &maps.stat);
    if (!is_mapped) {
        CS_CUDA_REFUSE(ctx, CS_INTERNAL, "attention_grad: no tensor map for head size %d", dim);
        return true;
    }
    cs_bwd_before(ctx, a);
    cs_attention_sink_grad(ctx, shape,
                           {a.stat, a.stat + CS_BWD_ROWS, 1.0f, cs_bwd_halves(a) * CS_BWD_ROWS,
                            cs_bwd_halves(a) * CS_BWD_STAT, CS_BWD_STAT});
    run(ctx, maps, a, main_pass_of(dim));
    return true;
}
