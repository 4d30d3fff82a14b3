/* Partial results of attention over parts of the keys, merged by their log-sum-exp. */
#include <math.h>

#include "kernels/cpu/cpu.h"

/* lse of all parts of one row of one head, -inf where no part sees anything */
static float merged_lse(int32_t n, const float *part_lse, int64_t stride)
{
    float max = -INFINITY, sum = 0.0f;
    for (int32_t p = 0; p < n; p++)
        max = part_lse[p * stride] > max ? part_lse[p * stride] : max;
    if (max == -INFINITY)
        return max;
    for (int32_t p = 0; p < n; p++)
        sum += expf(part_lse[p * stride] - max);
    return max + logf(sum);
}

void cs_cpu_attention_merge(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                            int32_t n_parts, int64_t part_stride, const void *part_o,
                            const float *part_lse, void *o, float *lse)
{
    (void)ctx;
    const int64_t lse_stride = (int64_t)shape->heads * shape->tokens;
    CS_ASSERT(n_parts >= 1);
    for (int32_t h = 0; h < shape->heads; h++)
        for (int64_t row = 0; row < shape->tokens; row++) {
            const int64_t at_lse = (int64_t)h * shape->tokens + row;
            const int64_t at = row * shape->o_stride + (int64_t)h * shape->head_dim;
            const float all = merged_lse(n_parts, part_lse + at_lse, lse_stride);
            for (int32_t d = 0; d < shape->head_dim; d++) {
                float x = 0.0f;
                for (int32_t p = 0; p < n_parts; p++) {
                    const float own = part_lse[p * lse_stride + at_lse];
                    if (own != -INFINITY)
                        x += expf(own - all) * ((const float *)part_o)[p * part_stride + at + d];
                }
                ((float *)o)[at + d] = x;
            }
            lse[at_lse] = all;
        }
}
