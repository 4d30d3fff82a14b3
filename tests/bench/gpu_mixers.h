/* What bench_gpu_ops times on, and the operators that mix rows, or send them to experts. Each takes the numbers
 * of its row of the table: what they are stands in front of it (gpu_mixers.c). */
#ifndef CS_BENCH_GPU_MIXERS_H
#define CS_BENCH_GPU_MIXERS_H

#include <stdint.h>

#include "kernels/device.h"
#include "kernels/ops.h"

enum { FIRST, TUNED, BEST, VARIANTS }; /* handles with 0, 8 and 64 candidates for plans */

struct bench {
    const struct cs_ops *ops;
    const struct cs_device_ops *device;
    void *handle, *stream, *begin, *end;
    char *pool, *ints; /* random bf16; int32 below 8192 */
    const struct cs_patch_place *places;
    struct cs_ctx ctx, variant[VARIANTS];
    double copy_gbps, gemm_tflops;
    char *const *only; /* NULL-terminated */
};

static inline char *at(const struct bench *b, int64_t gib_quarters)
{
    return b->pool + ((size_t)gib_quarters << 28);
}

static inline float *at_f32(const struct bench *b, int64_t gib_quarters)
{
    return (float *)(void *)at(b, gib_quarters);
}

static inline const int32_t *ids(const struct bench *b)
{
    return (const int32_t *)(const void *)b->ints;
}

/* Where in ints the first rows of experts are, one spread of rows behind the other (fill_experts). SKEWED: added
 * to a number of places it names uneven ones. */
enum { EXPERTS_AT = (1 << 20) + (1 << 19) + 64, EXPERTS_MOST = 1 << 10, SKEWED = 16 };

void do_attention(struct bench *b, const int64_t *n);
void do_attention_grad(struct bench *b, const int64_t *n);
void do_delta(struct bench *b, const int64_t *n);
void do_delta_grad(struct bench *b, const int64_t *n);
void do_conv(struct bench *b, const int64_t *n);
void do_conv_grad(struct bench *b, const int64_t *n);
void do_gate(struct bench *b, const int64_t *n);
void do_gate_grad(struct bench *b, const int64_t *n);
void fill_experts(int32_t *ints);
void do_experts(struct bench *b, const int64_t *n);
void do_experts_dgrad(struct bench *b, const int64_t *n);
void do_experts_wgrad(struct bench *b, const int64_t *n);

#endif
