#include "bench/gpu_mixers.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/buf.h"

/* One causal document: the plan's arrays are pos = row, doc = 0 in the last quarter of ints. */
static void attention(struct bench *b, const int64_t *n, bool is_grad)
{
    const int32_t *pos = ids(b) + (1 << 20), *doc = pos + (1 << 18), *segment = doc + (1 << 18);
    const int32_t heads = (int32_t)n[1], kv = (int32_t)n[2], d = (int32_t)n[3];
    const struct cs_attention_shape s = {.tokens = (int32_t)n[0],
                                         .heads = heads,
                                         .kv_heads = kv,
                                         .head_dim = d,
                                         .q_stride = heads * d,
                                         .kv_stride = kv * d,
                                         .o_stride = heads * d,
                                         .scale = 1.0f / sqrtf((float)d)};
    const struct cs_mask_plan plan = {.rule = {.kind = CS_MASK_CAUSAL},
                                      .n_tokens = s.tokens,
                                      .doc = doc,
                                      .pos = pos,
                                      .n_segments = 1,
                                      .segment = segment};
    if (is_grad)
        b->ops->attention_grad(&b->ctx, &s, &plan, at(b, 0), at(b, 1), at(b, 2), at(b, 8),
                               at_f32(b, 9), at(b, 3), at(b, 10), at(b, 11), at(b, 12));
    else
        b->ops->attention(&b->ctx, &s, &plan, at(b, 0), at(b, 1), at(b, 2), at(b, 8), at_f32(b, 9));
}

void do_attention(struct bench *b, const int64_t *n)
{
    attention(b, n, false);
}

void do_attention_grad(struct bench *b, const int64_t *n)
{
    attention(b, n, true);
}

/* n: rows, heads, key heads, width of keys and values; gates, made once, in quarters 20 and 21 */
static void delta(struct bench *b, const int64_t *n, bool is_grad)
{
    const int32_t *pos = ids(b) + (1 << 20), *doc = pos + (1 << 18), *segment = doc + (1 << 18);
    const int32_t width = (int32_t)n[3];
    const struct cs_delta_shape s = {(int32_t)n[1], (int32_t)n[2], width,        width,
                                     n[2] * width,  n[1] * width,  n[1] * width, 1e-6f};
    const struct cs_mask_plan plan = {
        .n_tokens = (int32_t)n[0], .doc = doc, .n_segments = 1, .segment = segment};
    const struct cs_delta_in in = {at(b, 0), at(b, 1), at(b, 2), at_f32(b, 20), at_f32(b, 21)};
    const struct cs_delta_out out = {at(b, 10), at(b, 11), at(b, 12), at_f32(b, 13), at_f32(b, 14)};
    if (is_grad)
        b->ops->delta_grad(&b->ctx, &s, &plan, &in, at(b, 3), &out);
    else
        b->ops->delta(&b->ctx, &s, &plan, &in, at(b, 8));
}

void do_delta(struct bench *b, const int64_t *n)
{
    delta(b, n, false);
}

void do_delta_grad(struct bench *b, const int64_t *n)
{
    delta(b, n, true);
}

/* n: rows, channels, taps */
void do_conv(struct bench *b, const int64_t *n)
{
    const int32_t *doc = ids(b) + (1 << 20) + (1 << 18);
    const struct cs_mask_plan plan = {.n_tokens = (int32_t)n[0], .doc = doc};
    b->ops->short_conv(&b->ctx, &plan, n[1], (int32_t)n[2], at(b, 0), n[1], at(b, 4), at(b, 8),
                       n[1]);
}

void do_conv_grad(struct bench *b, const int64_t *n)
{
    const int32_t *doc = ids(b) + (1 << 20) + (1 << 18);
    const struct cs_mask_plan plan = {.n_tokens = (int32_t)n[0], .doc = doc};
    b->ops->short_conv_grad(&b->ctx, &plan, n[1], (int32_t)n[2], at(b, 0), n[1], at(b, 4), at(b, 2),
                            n[1], at(b, 8), at_f32(b, 12));
}

void do_gate(struct bench *b, const int64_t *n)
{
    b->ops->delta_gate(&b->ctx, n[0], (int32_t)n[1], at(b, 0), at(b, 1), n[1], at(b, 2), at(b, 3),
                       at_f32(b, 20), at_f32(b, 21));
}

void do_gate_grad(struct bench *b, const int64_t *n)
{
    b->ops->delta_gate_grad(&b->ctx, n[0], (int32_t)n[1], at(b, 0), at(b, 1), n[1], at(b, 2),
                            at(b, 3), at_f32(b, 4), at_f32(b, 5), at(b, 8), at(b, 9), n[1],
                            at_f32(b, 12), at_f32(b, 13));
}

/* n: places, in, out, experts, of do_experts_wgrad also 1: the gradient is new. What experts have differs by
 * a few tens of rows; under SKEWED places one in eight has none and one in eight five times as many. */

static const struct spread {
    int32_t places, experts;
    bool is_skewed;
} spreads[] = {
    {8192,           8,   false},
    {32768,          8,   false},
    {32768,          128, false},
    {131072,         128, false},
    {262144,         128, false},
    {32768 + SKEWED, 128, true },
};

static struct cs_moe_groups groups(const struct bench *b, const int64_t *n)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(spreads); i++)
        if (spreads[i].places == n[0] && spreads[i].experts == n[3])
            return (struct cs_moe_groups){ids(b) + EXPERTS_AT + i * EXPERTS_MOST, (int32_t)n[3],
                                          n[0]};
    fprintf(stderr, "no spread of %lld rows over %lld experts\n", (long long)n[0], (long long)n[3]);
    exit(1);
}

void fill_experts(int32_t *ints)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(spreads); i++) {
        const struct spread *s = &spreads[i];
        int32_t *first = ints + EXPERTS_AT + i * EXPERTS_MOST;
        for (int32_t e = 0; e <= s->experts; e++)
            first[e] = s->places / s->experts * e + (e % s->experts > 0 ? e * e * 7 % 97 - 48 : 0);
        for (int32_t e = 0; s->is_skewed && e < s->experts; e++)
            first[e + 1] = first[e] + (e % 8 == 1   ? 0
                                       : e % 8 == 5 ? 5 * (s->places / s->experts)
                                                    : s->places / s->experts / 2);
    }
}

void do_experts(struct bench *b, const int64_t *n)
{
    const struct cs_moe_groups g = groups(b, n);
    b->ops->moe_linear(&b->ctx, &g, n[1], n[2], at(b, 0), at(b, 4), at(b, 12));
}

void do_experts_dgrad(struct bench *b, const int64_t *n)
{
    const struct cs_moe_groups g = groups(b, n);
    b->ops->moe_linear_dgrad(&b->ctx, &g, n[1], n[2], at(b, 0), at(b, 4), at(b, 12));
}

void do_experts_wgrad(struct bench *b, const int64_t *n)
{
    const struct cs_moe_groups g = groups(b, n);
    struct cs_ctx ctx = b->ctx;
    ctx.is_grad_new = n[4] != 0;
    b->ops->moe_linear_wgrad(&ctx, &g, n[1], n[2], at(b, 0), at(b, 4), at_f32(b, 12));
}
