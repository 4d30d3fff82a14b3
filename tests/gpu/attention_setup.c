/* Operands of a case of attention, and running it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/mask/span.h"
#include "gpu/attention_cases.h"

void att_describe(const struct att_case *c)
{
    static const char *const path[ATT_PATHS] = {"lists", "lists, mma", "rule", "fp32"};
    printf("    %s, %d tokens, size %d, group %d, %s, %s%s%s%s%s%s\n", cs_mask_kind_name(c->kind),
           (int)c->tokens, (int)c->dim, (int)c->group, att_order_name(c->order), path[c->path],
           c->is_capped ? ", capped" : "", c->has_sinks ? ", sinks" : "",
           c->is_deterministic ? ", deterministic" : "", c->is_tight ? ", tight" : "",
           c->is_steep ? ", steep" : "");
}

static struct cs_attention_shape shape_of(const struct att_case *c, int32_t keys)
{
    const int32_t kv_heads = c->group == 8 || (c->group == 4 && c->tokens > 1024) ? 1 : 2;
    const int32_t gap = c->is_tight ? 0 : 8; /* TMA wants rows of a multiple of 16 bytes */
    struct cs_attention_shape s = {.tokens = c->tokens,
                                   .heads = c->group * kv_heads,
                                   .kv_heads = kv_heads,
                                   .head_dim = c->dim,
                                   .k_tokens = keys,
                                   .scale = (c->is_steep ? 8.0f : 1.0f) / sqrtf((float)c->dim),
                                   .softcap = c->is_capped ? 2.0f : 0.0f,
                                   .is_deterministic = c->is_deterministic};
    s.q_stride = s.heads * s.head_dim + gap;
    s.o_stride = s.heads * s.head_dim + 2 * gap;
    s.kv_stride = 2 * s.kv_heads * s.head_dim + gap;
    return s;
}

/* From next to nothing to nearly all of a row. */
static void set_sinks(struct att_lab *lab, struct att_setup *s)
{
    static const float table[] = {1.5f, 4.0f, -3.0f, 6.0f, 0.0f, 8.0f, 2.5f, -INFINITY};
    float sink[8];
    const size_t bytes = (size_t)s->shape.heads * sizeof *sink;
    CS_ASSERT(s->shape.heads <= 8);
    for (int32_t h = 0; h < s->shape.heads; h++)
        sink[h] = table[(h + s->c.tokens) % 8];
    s->sink = att_alloc(lab, bytes);
    s->dsink = att_alloc(lab, bytes);
    att_copy(lab, s->sink, sink, bytes);
    if (s->c.has_sinks) {
        s->shape.sink = s->sink;
        s->shape.dsink = s->dsink;
    }
}

void att_set_up(struct att_lab *lab, const struct att_case *c, struct att_setup *s)
{
    *s = (struct att_setup){.c = *c, .ops = c->path == ATT_F32 ? lab->f32 : lab->bf16};
    att_mask_make(lab, c->kind, c->tokens, c->order, &s->mask);
    att_mask_build(lab, &s->mask);
    s->plan = s->mask.dev;
    s->plan.cells = c->path == ATT_LISTS || c->path == ATT_MMA ? &s->mask.cells : NULL;
    if (c->path == ATT_MMA)
        setenv("CORNSTARCH_ATTENTION_KERNELS", "mma",
               1); /* see kernels/cuda/attention/attention.cu */
    s->c.tokens = s->mask.plan.n_tokens;
    s->shape = shape_of(&s->c, s->mask.n_keys);
    const size_t act = s->ops->act_bytes, q_rows = (size_t)s->c.tokens;
    s->q_bytes = q_rows * (size_t)s->shape.q_stride * act;
    s->kv_bytes = (size_t)s->mask.n_keys * (size_t)s->shape.kv_stride * act;
    s->o_bytes = q_rows * (size_t)s->shape.o_stride * act;
    s->lse_bytes = q_rows * (size_t)s->shape.heads * sizeof(float);
    s->v_at = (size_t)(s->shape.kv_heads * s->shape.head_dim) * act;
    char **const block[] = {&s->q, &s->kv, &s->o, &s->d_o, &s->dq, &s->dkv};
    const size_t bytes[] = {s->q_bytes, s->kv_bytes, s->o_bytes,
                            s->o_bytes, s->q_bytes,  s->kv_bytes};
    for (int i = 0; i < 6; i++)
        *block[i] = att_alloc(lab, bytes[i]);
    s->lse = att_alloc(lab, s->lse_bytes);
    set_sinks(lab, s);
    const bool is_bf16 = act == 2;
    att_random(lab->stream, s->q, is_bf16, (int64_t)(s->q_bytes / act), lab->seed);
    att_random(lab->stream, s->kv, is_bf16, (int64_t)(s->kv_bytes / act), lab->seed + 1);
    att_random(lab->stream, s->d_o, is_bf16, (int64_t)(s->o_bytes / act), lab->seed + 2);
}

void att_tear_down(struct att_lab *lab, struct att_setup *s)
{
    char *const block[] = {s->q, s->kv, s->o, s->d_o, s->dq, s->dkv};
    if (s->c.path == ATT_MMA)
        unsetenv("CORNSTARCH_ATTENTION_KERNELS");
    for (int i = 0; i < 6; i++)
        att_free(lab, block[i]);
    att_free(lab, s->lse);
    att_free(lab, s->sink);
    att_free(lab, s->dsink);
    att_mask_free(lab, &s->mask);
}

void att_run(struct att_lab *lab, const struct att_setup *s)
{
    struct cs_ctx exact = lab->ctx;
    exact.workspace_bytes = s->ops->attention_workspace(&s->shape, &s->plan);
    if (exact.workspace_bytes > lab->ctx.workspace_bytes) {
        att_describe(&s->c);
        printf("    a workspace of %zu bytes\n", exact.workspace_bytes);
        CS_ASSERT(false);
    }
    att_fill(lab, exact.workspace, 0xff, exact.workspace_bytes);
    att_fill(lab, s->o, 0xff, s->o_bytes);
    att_fill(lab, s->lse, 0xff, s->lse_bytes);
    att_fill(lab, s->dq, 0xff, s->q_bytes);
    att_fill(lab, s->dkv, 0xff, s->kv_bytes);
    att_fill(lab, s->dsink, ATT_DSINK, (size_t)s->shape.heads * sizeof *s->dsink);
    s->ops->attention(&exact, &s->shape, &s->plan, s->q, s->kv, s->kv + s->v_at, s->o, s->lse);
    att_fill(lab, exact.workspace, 0xff, exact.workspace_bytes);
    s->ops->attention_grad(&exact, &s->shape, &s->plan, s->q, s->kv, s->kv + s->v_at, s->o, s->lse,
                           s->d_o, s->dq, s->dkv, s->dkv + s->v_at);
}
