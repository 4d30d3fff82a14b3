/* A block makes a tile of 128 x 128 in steps of 64 of the inner dimension. One warp asks the tensor memory
 * accelerator for both operands of the steps ahead, two warpgroups multiply 64 rows each with those that are
 * there; two blocks share a multiprocessor, so that the end of one tile lies beside the middle of another.
 * Sums run in a fixed order.
 *
 * A tile of rows may reach into the rows of the next expert: what they give is not stored. Where the sum runs
 * over rows (gradients of weights), those behind the expert's last one are made 0 in shared memory. */
#include "kernels/cuda/gemm/experts_sm90.cuh"

#include "kernels/cuda/attention/hopper/hopper.cuh"
#include "kernels/cuda/gemm/experts_tiles.cuh"

#define TILE      128 /* rows and columns of a block's tile */
#define STEP      64  /* of the inner dimension */
#define STAGES    3
#define CONSUMERS 256 /* threads that multiply, behind them one warp that loads */
#define THREADS   (CONSUMERS + 32)
#define ROW_BYTES 128 /* of a box: 64 elements */
#define BOX_BYTES (64 * ROW_BYTES)
#define OPERAND   (2 * BOX_BYTES) /* bytes of a step of a or b */
#define BARS      (STAGES * 2 * OPERAND)
#define SHARED    (1024 + BARS + 2 * 8 * STAGES) /* the first is for alignment */

/* c (m, n) = op(a) op(b), one of it for each expert */
struct product {
    const int32_t *first;
    int32_t experts;
    int64_t m, n, k; /* m 0: the expert's rows; k 0: the expert's rows */
    void *c;
    bool is_new; /* gradients: c is overwritten, else added to */
};

struct maps {
    CUtensorMap a, b;
};

/* where a block works: its expert, the first of the expert's rows, its own tile and how deep it is */
struct spot {
    int expert;
    int64_t at, row, col, m, depth;
};

/* Where element (tile row or column `along`, inner `deep`) of an operand begins, as the box of a map. */
template <cs_major MAJOR>
__device__ __forceinline__ void load_operand(uint32_t to, const CUtensorMap *map, uint32_t bar,
                                             int32_t along, int32_t deep, int32_t expert)
{
    if (MAJOR == CS_ROW_K) {
        cs_tma_load(to, map, bar, deep, along, expert);
    } else {
        cs_tma_load(to, map, bar, along, deep, expert);
        cs_tma_load(to + BOX_BYTES, map, bar, along + 64, deep, expert);
    }
}

/* The loading warp: IS_DEEP_ROWS: the inner dimension are the expert's rows, else the tile's rows are. */
template <cs_major A, cs_major B, bool IS_DEEP_ROWS>
__device__ __forceinline__ void feed(const maps &map, const spot &s, uint32_t base)
{
    cs_ring<STAGES> stage = {0, 0};
    for (int64_t deep = 0; deep < s.depth; deep += STEP, stage.step()) {
        const uint32_t full = base + BARS + 8 * (uint32_t)stage.stage, empty = full + 8 * STAGES,
                       to = base + (uint32_t)stage.stage * 2 * OPERAND;
        cs_mbar_wait(empty, stage.parity ^ 1);
        cs_mbar_expect(full, 2 * OPERAND);
        if (IS_DEEP_ROWS) {
            load_operand<A>(to, &map.a, full, (int32_t)s.row, (int32_t)(s.at + deep), 0);
            load_operand<B>(to + OPERAND, &map.b, full, (int32_t)s.col, (int32_t)(s.at + deep), 0);
        } else {
            load_operand<A>(to, &map.a, full, (int32_t)(s.at + s.row), (int32_t)deep, 0);
            load_operand<B>(to + OPERAND, &map.b, full, (int32_t)s.col, (int32_t)deep, s.expert);
        }
    }
}

/* Both operands of a step lie as 4 boxes of 64 rows each, one after the other: those from `rows` on are 0. */
__device__ __forceinline__ void clear_rows(uint32_t from, int rows)
{
    const int chunks = (STEP - rows) * (ROW_BYTES / 16);
    for (int i = (int)threadIdx.x; i < 4 * chunks; i += CONSUMERS) {
        const uint32_t to =
            from + (uint32_t)(i / chunks * BOX_BYTES + rows * ROW_BYTES + i % chunks * 16);
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
    }
    cs_fence_async();
    cs_bar_sync(1, CONSUMERS);
}

/* 64 rows of the tile: d as hopper_wgmma.cuh says */
template <cs_major A, cs_major B, bool IS_DEEP_ROWS>
__device__ __forceinline__ void multiply(const spot &s, uint32_t base, float (&d)[64])
{
    const uint32_t group = cs_uniform(threadIdx.x / CS_WARPGROUP);
    const uint32_t step_a = A == CS_ROW_K ? 32 : 16 * ROW_BYTES,
                   step_b = B == CS_ROW_K ? 32 : 16 * ROW_BYTES;
    uint32_t before = 0;
    cs_ring<STAGES> stage = {0, 0};
    for (int64_t deep = 0; deep < s.depth; deep += STEP, stage.step()) {
        const uint32_t full = base + BARS + 8 * (uint32_t)stage.stage, empty = full + 8 * STAGES,
                       from = base + (uint32_t)stage.stage * 2 * OPERAND;
        cs_mbar_wait(full, stage.parity);
        if (IS_DEEP_ROWS && s.depth - deep < STEP)
            clear_rows(from, (int)(s.depth - deep));
        const uint64_t a = cs_wgmma_operand<CS_SWIZZLE_128>(from + group * BOX_BYTES),
                       b = cs_wgmma_operand<CS_SWIZZLE_128>(from + OPERAND, BOX_BYTES);
        cs_wgmma_fence();
#pragma unroll
        for (uint32_t i = 0; i < STEP / 16; i++)
            cs_wgmma<TILE>::template ss<A, B>(d, cs_wgmma_advance(a, i * step_a),
                                              cs_wgmma_advance(b, i * step_b), true);
        cs_wgmma_commit();
        cs_wgmma_wait<1>(); /* the step before is over: its stage may be filled again */
        if (before != 0 && threadIdx.x % 32 == 0)
            cs_mbar_arrive(before);
        before = empty;
    }
    cs_wgmma_wait<0>();
    cs_wgmma_settle<64>(d);
}

__device__ __forceinline__ uint32_t pick(const uint32_t (&word)[4], int i)
{
    const uint32_t low = i & 1 ? word[1] : word[0], high = i & 1 ? word[3] : word[2];
    return i & 2 ? high : low;
}

__device__ __forceinline__ uint32_t pair_of(float low, float high)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(const uint32_t *)&both;
}

/* Threads of a quad have two columns each of blocks of eight; they change these, so that each has all of one
 * block in four: 16 bytes. */
__device__ __forceinline__ void store_rows(const product &g, const spot &s, const float (&d)[64])
{
    const int lane = (int)threadIdx.x % 32, quad = lane % 4;
    const int64_t row = s.row + (int)threadIdx.x / 32 * 16 + lane / 4;
    __nv_bfloat16 *const c = (__nv_bfloat16 *)g.c + s.at * g.n;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int j = 0; j < TILE / 8; j += 4) {
            const uint32_t mine[4] = {pair_of(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]),
                                      pair_of(d[4 * j + 2 * h + 4], d[4 * j + 2 * h + 5]),
                                      pair_of(d[4 * j + 2 * h + 8], d[4 * j + 2 * h + 9]),
                                      pair_of(d[4 * j + 2 * h + 12], d[4 * j + 2 * h + 13])};
            uint32_t got[4]; /* [i]: of the thread quad ^ i, of the block `quad` */
#pragma unroll
            for (int i = 0; i < 4; i++)
                got[i] = __shfl_xor_sync(0xffffffffu, pick(mine, quad ^ i), i);
            const int64_t at = row + 8 * h, col = s.col + 8 * (j + quad);
            if (at < s.m && col < g.n)
                *(uint4 *)(c + at * g.n + col) = make_uint4(
                    pick(got, quad), pick(got, 1 ^ quad), pick(got, 2 ^ quad), pick(got, 3 ^ quad));
        }
}

__device__ __forceinline__ float2 get_pair(const float *from)
{
    return *(const float2 *)from;
}

__device__ __forceinline__ float2 get_pair(const __nv_bfloat16 *from)
{
    return __bfloat1622float2(*(const __nv_bfloat162 *)from);
}

__device__ __forceinline__ void put_pair(float *to, float x, float y)
{
    *(float2 *)to = make_float2(x, y);
}

__device__ __forceinline__ void put_pair(__nv_bfloat16 *to, float x, float y)
{
    *(__nv_bfloat162 *)to = __floats2bfloat162_rn(x, y);
}

/* What was there is asked for AHEAD pairs at a time, before the first of them is written: one after the
 * other each would wait for memory. */
template <typename G>
__device__ __forceinline__ void store_gradient(const product &g, const spot &s,
                                               const float (&d)[64])
{
    constexpr int AHEAD = 8;
    const int lane = (int)threadIdx.x % 32;
    const int64_t row = s.row + (int)threadIdx.x / 32 * 16 + lane / 4;
    G *const c = (G *)g.c + s.expert * g.m * g.n;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int64_t at = row + 8 * h, col = s.col + 2 * (lane % 4);
        G *const to = c + at * g.n + col;
        if (at >= g.m)
            continue;
#pragma unroll
        for (int first = 0; first < TILE / 8; first += AHEAD) {
            float2 old[AHEAD] = {};
            if (!g.is_new) {
#pragma unroll
                for (int j = 0; j < AHEAD; j++)
                    if (col + 8 * (first + j) < g.n)
                        old[j] = get_pair(to + 8 * (first + j));
            }
#pragma unroll
            for (int j = 0; j < AHEAD; j++) {
                const float *const sum = d + 4 * (first + j) + 2 * h;
                if (col + 8 * (first + j) < g.n)
                    put_pair(to + 8 * (first + j), old[j].x + sum[0], old[j].y + sum[1]);
            }
        }
    }
}

/* Shared memory from a multiple of 1024 on; barriers are ready for all threads. */
__device__ __forceinline__ uint32_t open_shared(void)
{
    extern __shared__ uint8_t shared[];
    const uint32_t base = (cs_smem(shared) + 1023) & ~1023u;
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < STAGES; i++) {
            cs_mbar_init(base + BARS + 8 * i, 1);
            cs_mbar_init(base + BARS + 8 * (STAGES + i), CONSUMERS / 32);
        }
        cs_mbar_init_done();
    }
    __syncthreads();
    return base;
}

/* y = x w^T (B: CS_ROW_K), or dx = dy w (CS_ROW_MN): rows of the expert, n columns, k inner */
template <cs_major B>
__global__ void __launch_bounds__(THREADS, 2)
    rows_kernel(product g, const __grid_constant__ maps map)
{
    spot s = {.col = (int64_t)blockIdx.x * TILE, .depth = g.k};
    s.expert = cs_find_expert(g.first, g.experts, TILE, (int)blockIdx.y, &s.row);
    if (s.expert < 0)
        return;
    s.at = g.first[s.expert];
    s.m = g.first[s.expert + 1] - s.at;
    const uint32_t base = open_shared();
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x == CONSUMERS)
            feed<CS_ROW_K, B, false>(map, s, base);
        return;
    }
    float d[64] = {};
    multiply<CS_ROW_K, B, false>(s, base, d);
    store_rows(g, s, d);
}

/* dw = dy^T x: m rows, n columns, summed over the expert's rows */
template <typename G>
__global__ void __launch_bounds__(THREADS, 2)
    wgrad_kernel(product g, const __grid_constant__ maps map)
{
    spot s = {.expert = (int)blockIdx.z,
              .row = (int64_t)blockIdx.y * TILE,
              .col = (int64_t)blockIdx.x * TILE};
    s.at = g.first[s.expert];
    s.depth = g.first[s.expert + 1] - s.at;
    if (s.depth == 0 && !g.is_new)
        return;
    const uint32_t base = open_shared();
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x == CONSUMERS)
            feed<CS_ROW_MN, CS_ROW_MN, true>(map, s, base);
        return;
    }
    float d[64] = {};
    multiply<CS_ROW_MN, CS_ROW_MN, true>(s, base, d);
    store_gradient<G>(g, s, d);
}

/* ---- host ---- */

/* (count, rows, columns) bf16 in boxes of 64 columns and so many rows */
static bool map_of(const void *x, int64_t count, int64_t rows, int64_t columns, uint32_t box_rows,
                   CUtensorMap *map)
{
    const struct cs_tensor t = {
        .type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        .base = (void *)x,
        .rank = 3,
        .size = {(uint64_t)columns,     (uint64_t)rows,                 (uint64_t)count},
        .stride = {(uint64_t)columns * 2, (uint64_t)(rows * columns) * 2},
        .box = {64,             box_rows,                              1               },
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    return cs_tensor_map(&t, map);
}

static bool is_own(const struct cs_ctx *ctx, int64_t in, int64_t out, const void *a, const void *b,
                   const void *c)
{
    int major = 0, minor = 0;
    const int device = cs_cuda_handle_of(ctx)->device;
    const uintptr_t any = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c;
    return in % 8 == 0 && out % 8 == 0 && any % 16 == 0 &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) ==
               cudaSuccess &&
           major == 9 && minor == 0;
}

static unsigned tiles_of(int64_t n)
{
    return (unsigned)((n + TILE - 1) / TILE);
}

template <typename K>
static void launch(struct cs_ctx *ctx, K *kernel, dim3 grid, const product &g, const maps &map,
                   const char *what)
{
    CS_CUDA_NOTE(ctx,
                 cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED),
                 what);
    kernel<<<grid, THREADS, SHARED, cs_cuda_stream_of(ctx)>>>(g, map);
    CS_CUDA_LAUNCHED(ctx, what);
}

bool cs_cuda_moe_linear_sm90(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *x, const void *w, void *y)
{
    const product g = {groups->first, groups->experts, 0, out, in, y, false};
    maps map;
    if (!is_own(ctx, in, out, x, w, y) || !map_of(x, 1, groups->places, in, TILE, &map.a) ||
        !map_of(w, groups->experts, out, in, TILE, &map.b))
        return false;
    launch(ctx, rows_kernel<CS_ROW_K>, dim3(tiles_of(out), (unsigned)cs_expert_tiles(groups, TILE)),
           g, map, "moe_linear");
    return true;
}

bool cs_cuda_moe_linear_dgrad_sm90(struct cs_ctx *ctx, const struct cs_moe_groups *groups,
                                   int64_t in, int64_t out, const void *dy, const void *w, void *dx)
{
    const product g = {groups->first, groups->experts, 0, in, out, dx, false};
    maps map;
    if (!is_own(ctx, in, out, dy, w, dx) || !map_of(dy, 1, groups->places, out, TILE, &map.a) ||
        !map_of(w, groups->experts, out, in, STEP, &map.b))
        return false;
    launch(ctx, rows_kernel<CS_ROW_MN>, dim3(tiles_of(in), (unsigned)cs_expert_tiles(groups, TILE)),
           g, map, "moe_linear_dgrad");
    return true;
}

bool cs_cuda_moe_linear_wgrad_sm90(struct cs_ctx *ctx, const struct cs_moe_groups *groups,
                                   int64_t in, int64_t out, const void *dy, const void *x, void *dw)
{
    const product g = {groups->first, groups->experts, out, in, 0, dw, ctx->is_grad_new != 0};
    maps map;
    if (!is_own(ctx, in, out, dy, x, dw) || !map_of(dy, 1, groups->places, out, STEP, &map.a) ||
        !map_of(x, 1, groups->places, in, STEP, &map.b))
        return false;
    launch(ctx, ctx->grad == CS_GRAD_BF16 ? wgrad_kernel<__nv_bfloat16> : wgrad_kernel<float>,
           dim3(tiles_of(in), tiles_of(out), (unsigned)groups->experts), g, map,
           "moe_linear_wgrad");
    return true;
}
