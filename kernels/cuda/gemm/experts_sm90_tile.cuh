/* What products by expert on Hopper cards share: how a block gets a tile. A tile is 128 x 128, made in steps of
 * 64 of the inner dimension. One warp asks the tensor memory accelerator for both operands of the steps ahead,
 * two warpgroups multiply 64 rows each with those that are there; two blocks share a multiprocessor, so that
 * the end of one tile lies beside the middle of another. Sums run in a fixed order.
 *
 * A tile of rows may reach into the rows of the next expert: what they give is not stored. Where the sum runs
 * over rows (gradients of weights), those behind the expert's last one are made 0 in shared memory. */
#ifndef CS_KERNELS_CUDA_GEMM_EXPERTS_SM90_TILE_CUH
#define CS_KERNELS_CUDA_GEMM_EXPERTS_SM90_TILE_CUH

#include "kernels/cuda/attention/hopper/hopper.cuh"
#include "kernels/cuda/gemm/experts_sm90.cuh"
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

/* 64 rows of the tile: d as hopper_wgmma.cuh says; it is 0 before. Two things that keep the matrix units fed
 * (see them in the SASS): the ring begins here, so its place stays in uniform registers and needs no moves
 * between products; zeros are settled, else a tile without steps may get other registers than the loop and
 * ptxas makes each product wait for the one before (its note C7515). */
template <cs_major A, cs_major B, bool IS_DEEP_ROWS>
__device__ __forceinline__ void multiply(const spot &s, uint32_t base, float (&d)[64])
{
    const uint32_t group = cs_uniform(threadIdx.x / CS_WARPGROUP);
    const uint32_t step_a = A == CS_ROW_K ? 32 : 16 * ROW_BYTES,
                   step_b = B == CS_ROW_K ? 32 : 16 * ROW_BYTES;
    uint32_t before = 0;
    cs_ring<STAGES> stage = {0, 0};
    cs_wgmma_settle<64>(d);
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

/* ---- host ---- */

/* (count, rows, columns) bf16 in boxes of 64 columns and so many rows */
static inline bool map_of(const void *x, int64_t count, int64_t rows, int64_t columns,
                          uint32_t box_rows, CUtensorMap *map)
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

static inline bool is_own(const struct cs_ctx *ctx, int64_t in, int64_t out, const void *a,
                          const void *b, const void *c)
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

static inline unsigned tiles_of(int64_t n)
{
    return (unsigned)((n + TILE - 1) / TILE);
}

template <typename... A, typename... B>
static void launch(struct cs_ctx *ctx, void (*kernel)(A...), dim3 grid, const char *what,
                   const B &...args)
{
    CS_CUDA_NOTE(ctx,
                 cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED),
                 what);
    kernel<<<grid, THREADS, SHARED, cs_cuda_stream_of(ctx)>>>(args...);
    CS_CUDA_LAUNCHED(ctx, what);
}

#endif
