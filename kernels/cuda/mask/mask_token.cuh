/* A row of a mask plan on the device: struct cs_mask_plan by value, its arrays in device memory. */
#ifndef CS_KERNELS_CUDA_MASK_MASK_TOKEN_CUH
#define CS_KERNELS_CUDA_MASK_MASK_TOKEN_CUH

#include "core/mask/plan.h"

__device__ inline struct cs_mask_token cs_mask_token_of(const struct cs_mask_plan &plan,
                                                        int32_t row)
{
    return {plan.word != nullptr ? plan.word[row] : CS_MASK_TEXT, plan.doc[row], plan.pos[row],
            plan.item != nullptr ? plan.item[row] : -1};
}

#endif
