/* Products by expert on Hopper cards with a row of the result for every row of the experts (experts_sm90_tile.cuh). */
#include "kernels/cuda/gemm/experts_sm90_tile.cuh"

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

/* ---- host ---- */

bool cs_cuda_moe_linear_sm90(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *x, const void *w, void *y)
{
    const product g = {groups->first, groups->experts, 0, out, in, y, false};
    maps map;
    if (!is_own(ctx, in, out, x, w, y) || !map_of(x, 1, groups->places, in, TILE, &map.a) ||
        !map_of(w, groups->experts, out, in, TILE, &map.b))
        return false;
    launch(ctx, rows_kernel<CS_ROW_K>, dim3(tiles_of(out), (unsigned)cs_expert_tiles(groups, TILE)),
           "moe_linear", g, map);
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
           "moe_linear_dgrad", g, map);
    return true;
}
