/* Attention without lists, its gradient, and merging against the CPU twin: every mask rule, packed
 * documents, padding, grouped heads, head sizes that are no multiple of anything, rows wider than
 * the heads. */
#include <math.h>
#include <string.h>

#include "core/base/buf.h"
#include "gpu/groups.h"

struct att_args {
    struct cs_attention_shape s;
    struct cs_mask_rule rule;
    int32_t n_segments;
    bool has_words;
};

/* Tensors 0..4 are the plan's arrays. */
static struct cs_mask_plan plan_of(const struct att_args *a, void *const *p)
{
    return (struct cs_mask_plan){.rule = a->rule,
                                 .n_tokens = a->s.tokens,
                                 .doc = p[0],
                                 .pos = p[1],
                                 .item = a->has_words ? p[2] : NULL,
                                 .word = a->has_words ? p[3] : NULL,
                                 .n_segments = a->n_segments,
                                 .segment = p[4]};
}

static void call_forward(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                         const void *args)
{
    const struct att_args *a = args;
    const struct cs_mask_plan plan = plan_of(a, p);
    struct cs_ctx exact = *ctx;
    exact.workspace_bytes = ops->attention_workspace(&a->s, &plan);
    CS_ASSERT(exact.workspace_bytes <= ctx->workspace_bytes);
    ops->attention(&exact, &a->s, &plan, p[5], p[6], p[7], p[8], p[9]);
}

static void call_backward(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                          const void *args)
{
    const struct att_args *a = args;
    const struct cs_mask_plan plan = plan_of(a, p);
    struct cs_ctx exact = *ctx;
    exact.workspace_bytes = ops->attention_workspace(&a->s, &plan);
    CS_ASSERT(exact.workspace_bytes <= ctx->workspace_bytes);
    ops->attention_grad(&exact, &a->s, &plan, p[5], p[6], p[7], p[8], p[9], p[10], p[11], p[12],
                        p[13]);
}

/* Documents of random length with stretches of text and of modality items, some padding. */
static void fill_tokens(struct lab *lab, struct att_args *a, struct lab_case *c)
{
    const int32_t n = a->s.tokens;
    int32_t *doc = lab_raw(lab, c, LAB_I32, n)->host, *pos = lab_raw(lab, c, LAB_I32, n)->host;
    int32_t *item = lab_raw(lab, c, LAB_I32, n)->host;
    uint64_t *word = lab_raw(lab, c, LAB_U64, n)->host;
    int32_t *segment = lab_raw(lab, c, LAB_I32, n + 2)->host;
    int32_t left = 0, d = -1;
    for (int32_t i = 0; i < n; i++) {
        const bool is_new = left-- == 0;
        if (is_new) {
            d++;
            left = lab_between(lab, 0, 2) == 0 ? lab_between(lab, 0, 6) : lab_between(lab, 30, 300);
        }
        doc[i] = d;
        pos[i] = is_new ? 0 : pos[i - 1] + 1;
        const bool goes_on = !is_new && lab_between(lab, 0, 9) > 0;
        item[i] = goes_on ? item[i - 1] : lab_between(lab, 0, 1) ? i : -1;
        word[i] = goes_on        ? word[i - 1]
                  : item[i] >= 0 ? CS_MASK_MODALITY(lab_between(lab, 0, 2))
                                 : CS_MASK_TEXT | CS_MASK_MODALITY(lab_between(lab, 0, 2));
        if (lab_between(lab, 0, 29) == 0)
            word[i] = 0;
    }
    a->n_segments = cs_mask_segments(doc, n, segment);
}

static void one_forward(struct lab *lab, struct att_args a)
{
    struct lab_case c = {.what = "attention", .call = call_forward, .args = &a};
    const int64_t n = a.s.tokens;
    fill_tokens(lab, &a, &c);
    lab_real(lab, &c, LAB_ACT, n * a.s.q_stride, -2, 2);
    lab_real(lab, &c, LAB_ACT, n * a.s.kv_stride, -2, 2);
    lab_real(lab, &c, LAB_ACT, n * a.s.kv_stride, -2, 2);
    lab_output(lab, &c, LAB_ACT, n * a.s.o_stride, lab_is_bf16(lab) ? 4e-3 : 1e-5, 1e-5);
    lab_output(lab, &c, LAB_F32, (int64_t)a.s.heads * n, 1e-5, 1e-6);
    lab_run(lab, &c);
}

static void one_backward(struct lab *lab, struct att_args a)
{
    struct lab_case c = {.what = "attention_grad", .call = call_backward, .args = &a};
    const int64_t n = a.s.tokens;
    const double rel = lab_is_bf16(lab) ? 4e-3 : 1e-4, scale = 2e-5;
    fill_tokens(lab, &a, &c);
    lab_real(lab, &c, LAB_ACT, n * a.s.q_stride, -2, 2);
    lab_real(lab, &c, LAB_ACT, n * a.s.kv_stride, -2, 2);
    lab_real(lab, &c, LAB_ACT, n * a.s.kv_stride, -2, 2);
    float *o = lab_output(lab, &c, LAB_ACT, n * a.s.o_stride, 0, 0)->host;
    float *lse = lab_output(lab, &c, LAB_F32, (int64_t)a.s.heads * n, 0, 0)->host;
    void *p[LAB_TENSORS];
    for (int i = 0; i < c.n; i++)
        p[i] = c.t[i].host;
    call_forward(lab->cpu, &lab->host_ctx, p, &a);
    for (int64_t i = 0; i < n * a.s.o_stride; i++)
        o[i] = lab_round(lab, o[i]);
    (void)lse;
    lab_real(lab, &c, LAB_ACT, n * a.s.o_stride, -1, 1);
    /* dq and dk hang on dP - D: with one key in sight both are the same sum in two orders, and only
     * rounding (some 1e-7 of sums of head_dim products of size 1) is left of them */
    lab_output(lab, &c, LAB_ACT, n * a.s.q_stride, rel, scale)->floor = 2e-6;
    lab_output(lab, &c, LAB_ACT, n * a.s.kv_stride, rel, scale)->floor = 2e-6;
    lab_output(lab, &c, LAB_ACT, n * a.s.kv_stride, rel, scale);
    lab_run(lab, &c);
}

struct merge_args {
    struct cs_attention_shape s;
    int32_t parts;
};

static void call_merge(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct merge_args *a = args;
    ops->attention_merge(ctx, &a->s, a->parts, (int64_t)a->s.tokens * a->s.o_stride, p[0], p[1],
                         p[2], p[3]);
}

/* Parts of which some see nothing in a row. */
static void one_merge(struct lab *lab, struct merge_args a)
{
    struct lab_case c = {.what = "attention_merge", .call = call_merge, .args = &a};
    const int64_t n = (int64_t)a.s.tokens * a.s.o_stride, rows = (int64_t)a.s.heads * a.s.tokens;
    lab_real(lab, &c, LAB_ACT, a.parts * n, -2, 2);
    float *lse = lab_real(lab, &c, LAB_F32, a.parts * rows, -9, 9)->host;
    for (int64_t i = 0; i < a.parts * rows; i++)
        lse[i] = lab_between(lab, 0, 2) == 0 ? -INFINITY : lse[i];
    lab_output(lab, &c, LAB_ACT, n, lab_is_bf16(lab) ? 4e-3 : 1e-5, 1e-5);
    lab_output(lab, &c, LAB_F32, rows, 1e-5, 1e-6);
    lab_run(lab, &c);
}

static void merges(struct lab *lab)
{
    static const int sizes[][4] = {
        {1,   1, 64,  1}, /* tokens, heads, head_dim, parts */
        {77,  3, 72,  2},
        {500, 8, 128, 5},
        {33,  2, 256, 3}
    };
    for (int i = 0; i < 4; i++) {
        const int *n = sizes[i];
        one_merge(lab, (struct merge_args){
                           .s = {.tokens = n[0],
                                 .heads = n[1],
                                 .head_dim = n[2],
                                 .o_stride = n[1] * n[2] + 8 * (i & 1)},
                           .parts = n[3]
        });
    }
    lab_group(lab, "attention_merge");
}

static struct att_args make(enum cs_mask_kind kind, int tokens, int heads, int kv_heads, int dim,
                            int pad, float softcap)
{
    return (struct att_args){
        .s = {.tokens = tokens,
              .heads = heads,
              .kv_heads = kv_heads,
              .head_dim = dim,
              .q_stride = heads * dim + pad,
              .kv_stride = kv_heads * dim + pad,
              .o_stride = heads * dim,
              .scale = 1.0f / sqrtf((float)dim),
              .softcap = softcap},
        .rule = {.kind = kind, .window = 19, .prefix = 23},
        .has_words = true
    };
}

static int cases(struct lab *lab, struct att_args *out)
{
    (void)lab;
    static const int dims[] = {64, 72, 128, 16, 80, 256, 33, 96};
    static const int lengths[] = {1, 31, 33, 127, 128, 129, 300, 513};
    int n = 0;
    for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
        out[n++] = make((enum cs_mask_kind)kind, 300, 4, 2, dims[kind % 8], 8, 0.0f);
        out[n++] = make((enum cs_mask_kind)kind, lengths[kind % 8], 6, 2, 64, 3, 0.0f);
    }
    for (int i = 0; i < 8; i++)
        out[n++] = make(CS_MASK_ITEM, lengths[i], 2, 1, dims[i], 0, 0.0f);
    out[n++] = make(CS_MASK_IMAGE_BIDIR, 300, 4, 2, 512, 0, 0.0f);
    out[n++] = make(CS_MASK_CAUSAL, 200, 4, 1, 64, 0, 5.0f);
    out[n++] = make(CS_MASK_CAUSAL, 0, 4, 1, 64, 0, 0.0f);
    out[n++] = make(CS_MASK_FULL, 700, 16, 16, 72, 0, 0.0f);
    out[n] = make(CS_MASK_CAUSAL, 400, 8, 2, 128, 0, 0.0f);
    out[n++].has_words = false;
    return n;
}

void group_attention(struct lab *lab)
{
    struct att_args a[64];
    const int n = cases(lab, a);
    for (int i = 0; i < n; i++)
        one_forward(lab, a[i]);
    lab_group(lab, "attention");
    for (int i = 0; i < n; i++)
        one_backward(lab, a[i]);
    lab_group(lab, "attention_grad");
    merges(lab);
}
