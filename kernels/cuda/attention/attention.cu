/* The attention operators: which kernel runs. bf16 with the lists of core/mask/cells.h goes to the
 * kernels of the card where it has some, else to those that every card since 8.0 can run;
 * everything else to the portable path. Also the merging of partial results.
 *
 * For tests and comparisons the environment can take kernels out: CORNSTARCH_ATTENTION_KERNELS=mma
 * leaves out those of the card, =portable those as well that every card can run. Whoever opens the plugin has refused
 * what is neither (core/base/system/environment.h). */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/attention/hopper/sm90.cuh"
#include "kernels/cuda/attention/mma.cuh"
#include "kernels/cuda/attention/portable.cuh"

#define MERGE_THREADS 256

template <typename T> static constexpr bool is_bf16 = sizeof(T) == sizeof(__nv_bfloat16);

enum kernels { PORTABLE, MMA, OWN };

static enum kernels best_kernels(void)
{
    const char *best = getenv("CORNSTARCH_ATTENTION_KERNELS");
    if (best == nullptr)
        return OWN;
    return strcmp(best, "portable") == 0 ? PORTABLE : strcmp(best, "mma") == 0 ? MMA : OWN;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t cs_cuda_attention_workspace(const struct cs_attention_shape *shape,
                                   const struct cs_mask_plan *mask)
{
    const size_t hopper = largest(cs_cuda_attention_fwd_sm90_workspace(shape, mask),
                                  cs_cuda_attention_bwd_sm90_workspace(shape, mask));
    return largest(largest(cs_att_backward_workspace(shape), hopper),
                   cs_cuda_attention_bwd_mma_workspace(shape, mask));
}

template <typename T>
void cs_cuda_attention(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                       const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                       void *o, float *lse)
{
    if (shape->tokens <= 0 || shape->heads <= 0 || !cs_att_check(ctx, shape, mask))
        return;
    const enum kernels best = is_bf16<T> ? best_kernels() : PORTABLE;
    if (best >= OWN && cs_cuda_attention_fwd_sm90(ctx, shape, mask, q, k, v, o, lse))
        return;
    if (best >= MMA && cs_cuda_attention_fwd_mma(ctx, shape, mask, q, k, v, o, lse))
        return;
    cs_att_forward<T>(ctx, shape, mask, q, k, v, o, lse);
}

template <typename T>
void cs_cuda_attention_grad(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                            const struct cs_mask_plan *mask, const void *q, const void *k,
                            const void *v, const void *o, const float *lse, const void *d_o,
                            void *dq, void *dk, void *dv)
{
    if (shape->tokens <= 0 || shape->heads <= 0 || !cs_att_check(ctx, shape, mask))
        return;
    const enum kernels best = is_bf16<T> ? best_kernels() : PORTABLE;
    if (best >= OWN &&
        cs_cuda_attention_bwd_sm90(ctx, shape, mask, q, k, v, o, lse, d_o, dq, dk, dv))
        return;
    if (best >= MMA &&
        cs_cuda_attention_bwd_mma(ctx, shape, mask, q, k, v, o, lse, d_o, dq, dk, dv))
        return;
    cs_att_backward<T>(ctx, shape, mask, q, k, v, o, lse, d_o, dq, dk, dv);
}

/* ---- merging ---- */

/* 2^shift neighbours of a warp have a row of a head, a pack of columns each. They read the own row of every part before
 * o and lse are written, so these may be a part. */
template <typename T>
__global__ void __launch_bounds__(MERGE_THREADS)
    merge_kernel(struct cs_attention_shape s, int32_t n, int64_t part_stride, const T *part_o,
                 const float *part_lse, T *o, float *lse, int32_t shift)
{
    const int64_t i = (int64_t)blockIdx.x * MERGE_THREADS + threadIdx.x, vector = i >> shift;
    const int32_t lanes = 1 << shift, lane = (int32_t)i & (lanes - 1);
    const bool is_there = vector < (int64_t)s.tokens * s.heads;
    const int64_t row = is_there ? cs_row_of(vector, s.heads) : 0,
                  head = is_there ? vector - row * s.heads : 0;
    const int64_t at = row * s.o_stride + head * s.head_dim;
    const int64_t at_lse = head * s.tokens + row;
    const int64_t lse_stride = (int64_t)s.heads * s.tokens;
    float max = -INFINITY, sum = 0.0f;
    for (int32_t p = 0; p < n; p++)
        max = fmaxf(max, part_lse[p * lse_stride + at_lse]);
    const bool sees = max != -INFINITY;
    for (int32_t p = 0; sees && p < n; p++)
        sum += expf(part_lse[p * lse_stride + at_lse] - max);
    const float all = sees ? max + logf(sum) : -INFINITY;
    for (int32_t d = CS_PACK * lane; is_there && d < s.head_dim; d += CS_PACK * lanes) {
        float x[CS_PACK] = {};
        for (int32_t p = 0; sees && p < n; p++) {
            const float own = part_lse[p * lse_stride + at_lse];
            if (own == -INFINITY)
                continue;
            const float weight = expf(own - all);
            float v[CS_PACK];
            cs_load_pack(part_o + p * part_stride + at + d, s.head_dim - d, v);
            for (int j = 0; j < CS_PACK; j++)
                x[j] += weight * v[j];
        }
        cs_store_pack(o + at + d, s.head_dim - d, x);
    }
    __syncwarp();
    if (is_there && lane == 0)
        lse[at_lse] = all;
}

template <typename T>
void cs_cuda_attention_merge(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                             int32_t n_parts, int64_t part_stride, const void *part_o,
                             const float *part_lse, void *o, float *lse)
{
    if (shape->tokens <= 0 || shape->heads <= 0)
        return;
    if (n_parts < 1) {
        CS_CUDA_REFUSE(ctx, CS_INVALID, "attention_merge: %d parts", n_parts);
        return;
    }
    int32_t shift = 0;
    while (shift < 5 && CS_PACK << shift < shape->head_dim)
        shift++;
    const int64_t threads = ((int64_t)shape->tokens * shape->heads) << shift;
    const unsigned blocks = (unsigned)((threads + MERGE_THREADS - 1) / MERGE_THREADS);
    merge_kernel<T><<<blocks, MERGE_THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        *shape, n_parts, part_stride, (const T *)part_o, part_lse, (T *)o, lse, shift);
    CS_CUDA_LAUNCHED(ctx, "attention_merge");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_attention<T>(struct cs_ctx *, const struct cs_attention_shape *,         \
                                       const struct cs_mask_plan *, const void *, const void *,    \
                                       const void *, void *, float *);                             \
    template void cs_cuda_attention_grad<T>(struct cs_ctx *, const struct cs_attention_shape *,    \
                                            const struct cs_mask_plan *, const void *,             \
                                            const void *, const void *, const void *,              \
                                            const float *, const void *, void *, void *, void *);  \
    template void cs_cuda_attention_merge<T>(struct cs_ctx *, const struct cs_attention_shape *,   \
                                             int32_t, int64_t, const void *, const float *,        \
                                             void *, float *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
