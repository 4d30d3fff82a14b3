/* The kernel of the forward pass and its entry; see attention/hopper/fwd_sm90.cuh. */
#include "kernels/cuda/attention/hopper/fwd_sm90_load.cuh"
#include "kernels/cuda/attention/hopper/fwd_sm90_math.cuh"
#include "kernels/cuda/attention/hopper/sm90_maps.cuh"

/* --- the kernel ------------------------------------------------------------------------------- */

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

/* --- the entry -------------------------------------------------------------------------------- */

/* Keys and values of the heads that are worked on together: well below the L2 cache (50 MB, of
 * which each half of the chip sees one half near). */
#define CS_FWD_SECTION_BYTES ((int64_t)20 << 20)

/* Multiprocessors of a Hopper card, at most; on more blocks nothing is cut. */
#define CS_FWD_PROCESSORS 132

/* The counter of items and those of the pieces of cut ones. */
static size_t counters_bytes(int32_t cut)
{
    return cs_attention_align(((size_t)1 + 2 * (size_t)cut) * sizeof(int32_t));
}

static size_t pieces_bytes(int32_t shares, int32_t head_dim)
{
    const size_t columns = ((size_t)head_dim + 15) / 16 * 16;
    const size_t piece = CS_MASK_CELL * columns + 4 * CS_WARPGROUP;
    return (size_t)shares * 4 * piece * sizeof(float);
}

static bool map_bits(const struct cs_mask_cells *cells, const void *any, CUtensorMap *map)
{
    const bool has_room = cells->bits_q != nullptr && cells->bitmap_room > 0;
    const struct cs_tensor t = {
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT32,
        .base = has_room ? cells->bits_q : (void *)any, /* else no cell names a bitmap */
        .rank = 2,
        .size = {CS_MASK_TILE,     has_room ? (uint64_t)cells->bitmap_room : 1},
        .stride = {CS_MASK_TILE * 4},
        .box = {CS_MASK_TILE,               1                                           },
        .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    return cs_tensor_map(&t, map);
}

struct inputs {
    const struct cs_attention_shape *shape;
    const struct cs_mask_cells *cells;
    const void *q, *k, *v;
};

template <class S> static bool make_maps(const struct inputs *in, struct cs_fwd_maps *m)
{
    const struct cs_attention_shape *s = in->shape;
    const int32_t k_rows = cs_attention_keys(s);
    const auto all = [&](int32_t columns, CUtensorMap *q, CUtensorMap *k, CUtensorMap *v) {
        return cs_attention_map_rows(in->q, s->tokens, s->heads, S::DIM, s->q_stride, columns,
                                     CS_MASK_CELL, q) &&
               cs_attention_map_rows(in->k, k_rows, s->kv_heads, S::DIM, s->kv_stride, columns,
                                     S::KEYS, k) &&
               cs_attention_map_rows(in->v, k_rows, s->kv_heads, S::DIM, s->kv_stride, columns,
                                     S::KEYS, v);
    };
    return all(64, &m->q, &m->k, &m->v) &&
           (S::TAIL == 0 || all(S::TAIL, &m->q_tail, &m->k_tail, &m->v_tail)) &&
           map_bits(in->cells, in->q, &m->bits);
}

template <class S>
static bool launch(struct cs_ctx *ctx, const struct inputs *in, const struct cs_fwd_args *args)
{
    struct cs_fwd_maps maps;
    memset(&maps, 0, sizeof maps);
    if (!make_maps<S>(in, &maps))
        return false;
    const size_t bytes = cs_fwd_layout<S>::ALIGN + cs_fwd_layout<S>::BYTES;
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    CS_CUDA_NOTE(ctx,
                 cudaFuncSetAttribute(cs_fwd_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)bytes),
                 "attention forward: shared memory");
    CS_CUDA_NOTE(ctx, cudaMemsetAsync(args->counter, 0, counters_bytes(args->items.cut), stream),
                 "attention forward: counters");
    const unsigned blocks = (unsigned)cs_cuda_handle_of(ctx)->processors;
    cs_fwd_kernel<S><<<blocks, CS_FWD_THREADS, bytes, stream>>>(*args, maps);
    CS_CUDA_LAUNCHED(ctx, "attention forward");
    return true;
}

typedef bool (*launch_fn)(struct cs_ctx *, const struct inputs *, const struct cs_fwd_args *);

template <int DIM, int KEYS, int K_STAGES, int V_STAGES> static launch_fn choose(bool is_capped)
{
    return is_capped ? launch<cs_fwd_shape<DIM, KEYS, K_STAGES, V_STAGES, true>>
                     : launch<cs_fwd_shape<DIM, KEYS, K_STAGES, V_STAGES, false>>;
}

/* Stages as many as shared memory takes; NULL: no kernel for this head_dim. */
static launch_fn launch_for(int32_t head_dim, bool is_capped)
{
    switch (head_dim) {
    case 64:
        return choose<64, 128, 4, 4>(is_capped);
    case 72:
        return choose<72, 128, 4, 4>(is_capped);
    case 80:
        return choose<80, 128, 4, 4>(is_capped);
    case 96:
        return choose<96, 128, 4, 3>(is_capped);
    case 128:
        return choose<128, 128, 3, 2>(is_capped);
    case 256:
        return choose<256, 64, 2, 2>(is_capped);
    default:
        return nullptr;
    }
}

static int32_t section_of(const struct cs_attention_shape *s)
{
    const int64_t head_bytes = (int64_t)cs_attention_keys(s) * s->head_dim * 2 * 2;
    const int64_t fit = CS_FWD_SECTION_BYTES / head_bytes;
    const int64_t kv_heads = fit < 1 ? 1 : fit > s->kv_heads ? s->kv_heads : fit;
    return (int32_t)kv_heads * (s->heads / s->kv_heads);
}

size_t cs_cuda_attention_fwd_sm90_workspace(const struct cs_attention_shape *shape,
                                            const struct cs_mask_plan *mask)
{
    if (mask->cells == nullptr)
        return 0;
    int32_t cut, shares;
    cs_fwd_cut(mask->cells->n_q * shape->heads, CS_FWD_PROCESSORS, &cut, &shares);
    return 256 + counters_bytes(cut) + pieces_bytes(shares, shape->head_dim);
}

/* The counters and, where there is room, what is needed to cut items. */
static void place(const struct cs_ctx *ctx, int32_t head_dim, struct cs_fwd_args *a)
{
    struct cs_fwd_items *const items = &a->items;
    uint8_t *const at = (uint8_t *)cs_attention_align((size_t)ctx->workspace);
    cs_fwd_cut(items->n_q * items->heads, cs_cuda_handle_of(ctx)->processors, &items->cut,
               &items->shares);
    if (256 + counters_bytes(items->cut) + pieces_bytes(items->shares, head_dim) >
        ctx->workspace_bytes)
        items->cut = items->shares = 0;
    a->counter = (int32_t *)at;
    a->arrived = a->counter + 1;
    a->piece = (float *)(at + counters_bytes(items->cut));
}

bool cs_cuda_attention_fwd_sm90(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                                const struct cs_mask_plan *mask, const void *q, const void *k,
                                const void *v, void *o, float *lse)
{
    const struct inputs in = {shape, mask->cells, q, k, v};
    const bool is_capped = shape->softcap > 0.0f;
    const launch_fn run = launch_for(shape->head_dim, is_capped);
    const uintptr_t any = (uintptr_t)q | (uintptr_t)k | (uintptr_t)v | (uintptr_t)o;
    if (run == nullptr || !cs_attention_has_lists(shape, mask, any) ||
        cs_attention_capability(ctx) != 90 || ctx->workspace_bytes < 256 + counters_bytes(0))
        return false;
    const struct cs_mask_list *list = &in.cells->by_q;
    struct cs_fwd_args args = {
        .items = {in.cells->n_q, shape->heads, section_of(shape), list->count, list->order, 0, 0},
        .list_stride = list->stride,
        .q_row = in.cells->q_row,
        .k_row = in.cells->k_row,
        .entry = list->entry,
        .cell = (const int4 *)list->cell,
        .tokens = shape->tokens,
        .group = shape->heads / shape->kv_heads,
        .o_stride = shape->o_stride,
        .scales = cs_attention_scales_of(shape),
        .o = (__nv_bfloat16 *)o,
        .lse = lse,
        .sink = shape->sink,
    };
    place(ctx, shape->head_dim, &args);
    return run(ctx, &in, &args);
}
