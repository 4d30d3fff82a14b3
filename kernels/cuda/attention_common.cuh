/* What the attention kernels have in common, whatever they compute with. */
#ifndef CS_CUDA_ATTENTION_COMMON_CUH
#define CS_CUDA_ATTENTION_COMMON_CUH

#include "kernels/cuda/cuda_ops.cuh"

#define CS_LOG2E 1.4426950408889634f
#define CS_LN2   0.6931471805599453f

/* The end of a row of an online softmax. */
struct cs_attention_end {
    float factor; /* of the sum of its weighted values */
    float lse;
};

/* max: what is subtracted from all scores, -inf before the first one; sum: of exp(score - max);
 * sink: of the head, NULL: none. A row that sees nothing has sum 0. */
__device__ __forceinline__ cs_attention_end cs_attention_end_of(float max, float sum,
                                                                const float *sink)
{
    float factor = 1.0f;
    if (sink != nullptr) {
        const float own = __ldg(sink), top = fmaxf(max, own);
        const float base = top == -INFINITY ? 0.0f : top;
        factor = expf(max - base);
        sum = sum * factor + expf(own - base);
        max = base;
    }
    if (sum == 0.0f)
        return {0.0f, -INFINITY};
    return {factor / sum, max + logf(sum)};
}

__device__ __forceinline__ const float *cs_attention_sink_of(const float *sink, int32_t head)
{
    return sink == nullptr ? nullptr : sink + head;
}

/* What the backward pass knows of the rows, before it has started: two arrays of the same layout,
 * row i of head h at h * per_head + i / 64 * per_64 + i % 64. */
struct cs_attention_rows {
    const float *lse, *sum; /* sum: rowsum(dO o) */
    float to_log2;          /* from what lse holds to -lse / ln 2 */
    int64_t rows, per_head;
    int32_t per_64;
};

/* shape->dsink, where it is wanted (attention_sink.cu). */
void cs_attention_sink_grad(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                            const struct cs_attention_rows &rows);

#endif
