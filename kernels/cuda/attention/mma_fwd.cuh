/* What the forward kernels with mma.sync take. */
#ifndef CS_KERNELS_CUDA_ATTENTION_MMA_FWD_CUH
#define CS_KERNELS_CUDA_ATTENTION_MMA_FWD_CUH

#include "kernels/cuda/attention/mma_walk.cuh"

struct cs_mma_fwd_args {
    struct cs_mma_side side;
    const __nv_bfloat16 *q, *k, *v;
    __nv_bfloat16 *o;
    float *lse;
    const float *sink; /* (heads), NULL: none */
    int32_t tokens, group, q_stride, kv_stride, o_stride;
    struct cs_attention_scales scales;
};

typedef void (*cs_mma_fwd_run)(struct cs_ctx *, const struct cs_mma_fwd_args &, bool cap);

/* heads of 512 (attention/mma_fwd_wide.cu) */
void cs_mma_fwd_wide(struct cs_ctx *ctx, const struct cs_mma_fwd_args &a, bool cap);

#endif
