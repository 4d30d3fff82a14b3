/* Gradients of the weights of experts on Hopper cards: dw (m, n) = dy^T x, summed over an expert's rows; added
 * to what is there, or put in its place where the gradient is new (experts_sm90_tile.cuh makes the tiles).
 *
 * A tile is 64 KiB of fp32 to read and to write, often more work than its product. So a finished tile lies in
 * the ring, which nobody needs any more, and the tensor memory accelerator adds it to memory from there, whole
 * lines at a time; what is there was asked into the L2 when the tile began. Every element is added to once: the
 * same bits in every run.
 *
 * Gradients in bf16 are added to by the threads, whose sum is rounded once. */
#include "kernels/cuda/gemm/experts_sm90_tile.cuh"
#include "kernels/cuda/pack.cuh"

#define BAND       16               /* rows of tiles that blocks go through column by column */
#define PIECE      (16 * ROW_BYTES) /* in shared memory: 32 columns of the 16 rows of a warp */
#define WARP_BYTES (TILE / 32 * PIECE)
#define AHEAD      (16 * TILE / CS_PACK / 32) /* packs of a lane, all read before one is needed */
static_assert(CONSUMERS / 32 * WARP_BYTES <= BARS, "the ring has room for a tile");

struct grad_maps {
    maps of;
    CUtensorMap piece; /* fp32 gradients: what a warp sends at once */
    CUtensorMap there; /* 64 rows of a tile, as they are in memory */
};

/* Where a block works. Blocks that run at the same time make a patch of tiles about as high as wide: that takes
 * the fewest operands, which then stay in the L2. */
__device__ __forceinline__ spot spot_of(const product &g, uint32_t rows, uint32_t cols)
{
    const uint32_t top = blockIdx.x / (BAND * cols) * BAND, in_band = blockIdx.x % (BAND * cols),
                   high = rows - top < BAND ? rows - top : BAND;
    spot s = {.expert = (int)blockIdx.y,
              .row = (int64_t)(top + in_band % high) * TILE,
              .col = (int64_t)(in_band / high) * TILE};
    s.at = g.first[s.expert];
    s.depth = g.first[s.expert + 1] - s.at;
    return s;
}

__device__ __forceinline__ void ask_for_tile(const product &g, const grad_maps &map, const spot &s)
{
    for (int i = 0; i < TILE; i += 64)
        if (s.row + i < g.m)
            cs_tma_prefetch_box(&map.there, (int32_t)s.col, (int32_t)s.row + i, s.expert);
}

/* Where four columns of a warp's 16 rows begin in its part of the ring: as boxes of 32 columns have them. */
__device__ __forceinline__ uint32_t place_of(uint32_t part, int row, int four)
{
    return part + (uint32_t)(four / 8 * PIECE + row * ROW_BYTES + (four % 8 ^ row % 8) * 16);
}

/* 32 columns, which d has as hopper_wgmma.cuh says, to their piece. Rows that are odd take blocks of eight
 * columns in another order: then no two lanes meet in a bank. */
__device__ __forceinline__ void put_piece(uint32_t part, int piece, const float (&d)[64])
{
    const int lane = (int)threadIdx.x % 32, row = lane / 4, other = row % 2 * 2;
#pragma unroll
    for (int j = 4 * piece; j < 4 * piece + 4; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int even = 4 * j + 2 * h, odd = 4 * (j ^ 2) + 2 * h;
            const uint32_t to = place_of(part, row + 8 * h, 2 * (j ^ other) + lane % 4 / 2);
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + lane % 2 * 8),
                         "f"(other ? d[odd] : d[even]), "f"(other ? d[odd + 1] : d[even + 1])
                         : "memory");
        }
}

/* To memory by the accelerator, which lane 0 asks. */
__device__ __forceinline__ void send_piece(const product &g, const grad_maps &map, const spot &s,
                                           uint32_t part, int piece)
{
    const int32_t row = (int32_t)s.row + (int32_t)threadIdx.x / 32 * 16,
                  col = (int32_t)s.col + piece * 32;
    cs_fence_async();
    __syncwarp();
    if (threadIdx.x % 32 != 0 || row >= g.m || col >= g.n)
        return;
    if (g.is_new)
        cs_tma_store(&map.piece, part + piece * PIECE, col, row, s.expert);
    else
        cs_tma_add(&map.piece, part + piece * PIECE, col, row, s.expert);
}

__device__ __forceinline__ float4 get_four(uint32_t from)
{
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(from)
                 : "memory");
    return x;
}

/* To memory by the threads: a lane has eight columns of every other row of its warp. */
__device__ __forceinline__ void add_bf16(const product &g, const spot &s, uint32_t part)
{
    const int lane = (int)threadIdx.x % 32, first = lane / 16, four = 2 * (lane % 16);
    const int64_t row = s.row + (int)threadIdx.x / 32 * 16 + first, col = s.col + 4 * four;
    const int left = (int)(col < g.n && row < g.m ? g.m - row : 0);
    __nv_bfloat16 *const to = (__nv_bfloat16 *)g.c + (s.expert * g.m + row) * g.n + col;
    cs_pack_words<__nv_bfloat16> old[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        old[i] = cs_load_words<true>(to + 2 * i * g.n, g.is_new ? 0 : left - 2 * i);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        const float4 x = get_four(place_of(part, first + 2 * i, four)),
                     y = get_four(place_of(part, first + 2 * i, four + 1));
        const float more[CS_PACK] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
        float sum[CS_PACK];
        cs_unpack(old[i], sum);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++)
            sum[j] += more[j];
        cs_store_words<true>(to + 2 * i * g.n, left - 2 * i, sum);
    }
}

template <bool IS_BF16>
__device__ __forceinline__ void store_tile(const product &g, const grad_maps &map, const spot &s,
                                           uint32_t base, const float (&d)[64])
{
    const uint32_t part = base + threadIdx.x / 32 * WARP_BYTES;
    cs_bar_sync(1, CONSUMERS); /* nobody multiplies what is in the ring any more */
#pragma unroll
    for (int i = 0; i < TILE / 32; i++) {
        put_piece(part, i, d);
        if (!IS_BF16)
            send_piece(g, map, s, part, i);
    }
    if (IS_BF16) {
        __syncwarp();
        add_bf16(g, s, part);
        return;
    }
    cs_bulk_commit();
    cs_bulk_wait_read<0>(); /* shared memory is there as long as the block is */
}

template <bool IS_BF16>
__global__ void __launch_bounds__(THREADS, 2)
    wgrad_kernel(product g, uint32_t rows, uint32_t cols, const __grid_constant__ grad_maps map)
{
    const spot s = spot_of(g, rows, cols);
    if (s.depth == 0 && !g.is_new)
        return;
    const uint32_t base = open_shared();
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x > CONSUMERS)
            return;
        if (!g.is_new)
            ask_for_tile(g, map, s);
        feed<CS_ROW_MN, CS_ROW_MN, true>(map.of, s, base);
        return;
    }
    float d[64] = {};
    multiply<CS_ROW_MN, CS_ROW_MN, true>(s, base, d);
    store_tile<IS_BF16>(g, map, s, base, d);
}

/* ---- host ---- */

/* (experts, m, n) of gradients in boxes */
static bool grad_map_of(const product &g, bool is_bf16, uint32_t columns, uint32_t rows,
                        CUtensorMapSwizzle swizzle, CUtensorMap *map)
{
    const uint64_t line = (uint64_t)g.n * (is_bf16 ? 2 : 4);
    const struct cs_tensor t = {
        .type = is_bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        .base = g.c,
        .rank = 3,
        .size = {(uint64_t)g.n, (uint64_t)g.m,        (uint64_t)g.experts},
        .stride = {line,          line * (uint64_t)g.m},
        .box = {columns,         rows,                    1                   },
        .swizzle = swizzle,
    };
    return cs_tensor_map(&t, map);
}

bool cs_cuda_moe_linear_wgrad_sm90(struct cs_ctx *ctx, const struct cs_moe_groups *groups,
                                   int64_t in, int64_t out, const void *dy, const void *x, void *dw)
{
    const product g = {groups->first, groups->experts, out, in, 0, dw, ctx->is_grad_new != 0};
    const bool is_bf16 = ctx->grad == CS_GRAD_BF16;
    const uint32_t rows = tiles_of(out), cols = tiles_of(in);
    grad_maps map = {};
    if (!is_own(ctx, in, out, dy, x, dw) || !map_of(dy, 1, groups->places, out, STEP, &map.of.a) ||
        !map_of(x, 1, groups->places, in, STEP, &map.of.b) ||
        !grad_map_of(g, is_bf16, TILE, 64, CU_TENSOR_MAP_SWIZZLE_NONE, &map.there) ||
        (!is_bf16 && !grad_map_of(g, false, 32, 16, CU_TENSOR_MAP_SWIZZLE_128B, &map.piece)))
        return false;
    launch(ctx, is_bf16 ? wgrad_kernel<true> : wgrad_kernel<false>,
           dim3(rows * cols, (unsigned)groups->experts), "moe_linear_wgrad", g, rows, cols, map);
    return true;
}
