/* Attention over the lists and bitmaps of core/mask/cells.h with the matrix instructions that all
 * cards since compute capability 8.0 have (mma.sync, ldmatrix, cp.async); signatures as in
 * kernels/ops.h, operands bf16. For cards without kernels of their own (attention/hopper/sm90.cuh).
 *
 * Each entry does its work and returns true, or touches nothing and returns false: an older card,
 * no lists, a head_dim other than 64, 72, 80, 96, 128, 256 or 512 (512: on cards whose blocks can have
 * CS_MMA_WIDE_BYTES of shared memory, as Hopper's), strides that are not multiples of 8
 * elements, arrays not aligned to 16 bytes. Tiles may start anywhere and keys may differ from
 * queries. All counts are read on the device, so one captured graph serves every mask with the same
 * tiles. Gradients are the same to the bit from run to run, asked for or not. */
#ifndef CS_KERNELS_CUDA_ATTENTION_MMA_CUH
#define CS_KERNELS_CUDA_ATTENTION_MMA_CUH

#include "kernels/cuda/attention/common.cuh"

bool cs_cuda_attention_fwd_mma(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                               const struct cs_mask_plan *mask, const void *q, const void *k,
                               const void *v, void *o, float *lse);
bool cs_cuda_attention_bwd_mma(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                               const struct cs_mask_plan *mask, const void *q, const void *k,
                               const void *v, const void *o, const float *lse, const void *d_o,
                               void *dq, void *dk, void *dv);

/* Bytes of ctx->workspace that the backward pass needs; the forward pass needs none. */
size_t cs_cuda_attention_bwd_mma_workspace(const struct cs_attention_shape *shape,
                                           const struct cs_mask_plan *mask);

/* Shared memory that the kernels of heads of 512 take at most. */
#define CS_MMA_WIDE_BYTES (216 * 1024)

/* May these kernels work with this shape and plan on the card of ctx? any: all addresses or-ed */
static inline bool cs_mma_is_own(const struct cs_ctx *ctx, const struct cs_attention_shape *s,
                                 const struct cs_mask_plan *mask, uintptr_t any)
{
    return cs_attention_has_lists(s, mask, any) && cs_attention_capability(ctx) >= 80 &&
           (s->head_dim <= 256 || cs_cuda_shared_most(ctx) >= CS_MMA_WIDE_BYTES);
}

#endif
