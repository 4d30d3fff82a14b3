/* Tensor maps of the operands of attention, forward and backward. */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_SM90_MAPS_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_SM90_MAPS_CUH

#include "kernels/cuda/attention/hopper/hopper.cuh"

/* bf16 rows (tokens, heads, dim), stride elements from row to row, in boxes of so many rows and
 * columns (64, 32 or 16: the swizzle is as wide) of one head. What a box has past the last column
 * or row reads as zeros. false: the driver refused it. */
static inline bool cs_attention_map_rows(const void *x, int32_t tokens, int32_t heads, int32_t dim,
                                         int32_t stride, int32_t columns, int32_t rows,
                                         CUtensorMap *map)
{
    const struct cs_tensor t = {
        .type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        .base = (void *)x,
        .rank = 3,
        .size = {(uint64_t)dim,     (uint64_t)heads,      (uint64_t)tokens},
        .stride = {(uint64_t)dim * 2, (uint64_t)stride * 2},
        .box = {(uint32_t)columns,                1,       (uint32_t)rows                },
        .swizzle = columns == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
                   : columns == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                   : CU_TENSOR_MAP_SWIZZLE_32B,
    };
    return cs_tensor_map(&t, map);
}

#endif
