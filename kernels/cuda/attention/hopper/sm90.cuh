/* Attention on Hopper cards over the lists and bitmaps of core/mask/cells.h; signatures as in
 * kernels/ops.h, operands bf16. Each entry does its work and returns true, or touches nothing and
 * returns false: not a card of compute capability 9.0, no cells, a head_dim other than 64, 72, 80,
 * 96, 128 or 256, strides that are not multiples of 8 elements, arrays not aligned to 16 bytes.
 * Tiles may start anywhere and keys may differ from queries. All counts are read on the device, so
 * one captured graph serves every mask with the same tiles. */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_SM90_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_SM90_CUH

#include "kernels/cuda/attention/common.cuh"

bool cs_cuda_attention_fwd_sm90(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                                const struct cs_mask_plan *mask, const void *q, const void *k,
                                const void *v, void *o, float *lse);
bool cs_cuda_attention_bwd_sm90(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                                const struct cs_mask_plan *mask, const void *q, const void *k,
                                const void *v, const void *o, const float *lse, const void *d_o,
                                void *dq, void *dk, void *dv);

/* Bytes of ctx->workspace that each of them needs. */
size_t cs_cuda_attention_fwd_sm90_workspace(const struct cs_attention_shape *shape,
                                            const struct cs_mask_plan *mask);
size_t cs_cuda_attention_bwd_sm90_workspace(const struct cs_attention_shape *shape,
                                            const struct cs_mask_plan *mask);

#endif
