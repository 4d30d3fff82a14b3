/* Products by expert on Hopper cards, operands bf16; contracts as moe_linear, moe_linear_dgrad and
 * moe_linear_wgrad in kernels/ops.h. Each does its work and returns true, or touches nothing and returns
 * false: not a card of compute capability 9.0, widths that are not multiples of 8, arrays not aligned to 16
 * bytes. */
#ifndef CS_KERNELS_CUDA_GEMM_EXPERTS_SM90_CUH
#define CS_KERNELS_CUDA_GEMM_EXPERTS_SM90_CUH

#include "kernels/cuda/cuda_ops.cuh"

bool cs_cuda_moe_linear_sm90(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *x, const void *w, void *y);
bool cs_cuda_moe_linear_dgrad_sm90(struct cs_ctx *ctx, const struct cs_moe_groups *groups,
                                   int64_t in, int64_t out, const void *dy, const void *w,
                                   void *dx);
bool cs_cuda_moe_linear_wgrad_sm90(struct cs_ctx *ctx, const struct cs_moe_groups *groups,
                                   int64_t in, int64_t out, const void *dy, const void *x,
                                   void *dw);

#endif
