/* Products by expert: how blocks find their rows. How many rows an expert has is known on the device only:
 * there are blocks for the most tiles that any spread of the rows can make, and each finds its expert by
 * itself. */
#ifndef CS_KERNELS_CUDA_GEMM_EXPERTS_TILES_CUH
#define CS_KERNELS_CUDA_GEMM_EXPERTS_TILES_CUH

#include "kernels/cuda/cuda_ops.cuh"

/* Every expert may have one tile that is not full. */
static inline int64_t cs_expert_tiles(const struct cs_moe_groups *groups, int tile)
{
    return groups->places / tile + groups->experts;
}

/* The expert that the block's number falls to, where each has a block for every `tile` of its rows, and
 * *row: of the expert's rows, where the block begins. -1: there are fewer such tiles. All lanes of a warp
 * call it. */
__device__ __forceinline__ int cs_find_expert(const int32_t *first, int experts, int tile,
                                              int number, int64_t *row)
{
    const int lane = (int)threadIdx.x % 32;
    for (int from = 0; from < experts; from += 32) {
        const int e = from + lane;
        const int rows = e < experts ? first[e + 1] - first[e] : 0;
        const int tiles = (rows + tile - 1) / tile;
        int before = tiles;
        for (int d = 1; d < 32; d *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, before, d);
            before += lane >= d ? other : 0;
        }
        const int all = __shfl_sync(0xffffffffu, before, 31);
        before -= tiles;
        const unsigned mine =
            __ballot_sync(0xffffffffu, number >= before && number < before + tiles);
        if (mine != 0) {
            const int who = __ffs((int)mine) - 1;
            *row = (int64_t)(number - __shfl_sync(0xffffffffu, before, who)) * tile;
            return from + who;
        }
        number -= all;
    }
    return -1;
}

#endif
