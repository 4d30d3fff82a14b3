/* Context parallelism: the keys in parts, each with lists of its own, the results merged by
 * attention_merge; the gradients of every part from the merged result. Against the whole. */
#include <stdio.h>

#include "gpu/attention_cases.h"

enum { PARTS = 3, OF_SINK = 1 /* the part that has it */ };

struct parts {
    struct att_mask mask[PARTS];
    int32_t begin[PARTS + 1];
    char *o, *dq;
    float *lse;
};

static struct cs_ctx exact_ctx(const struct att_lab *lab, const struct att_setup *s,
                               const struct cs_attention_shape *shape,
                               const struct cs_mask_plan *plan)
{
    struct cs_ctx ctx = lab->ctx;
    ctx.workspace_bytes = s->ops->attention_workspace(shape, plan);
    CS_ASSERT(ctx.workspace_bytes <= lab->ctx.workspace_bytes);
    return ctx;
}

static void run_parts(struct att_lab *lab, const struct att_setup *s, struct parts *p)
{
    struct cs_attention_shape shape = s->shape;
    const int64_t o_n = (int64_t)s->c.tokens * shape.o_stride;
    const size_t row = (size_t)shape.kv_stride * s->ops->act_bytes;
    att_fill(lab, s->o, 0xff, s->o_bytes);
    att_fill(lab, s->dkv, 0xff, s->kv_bytes);
    att_fill(lab, s->dsink, ATT_DSINK, (size_t)shape.heads * sizeof *s->dsink);
    for (int i = 0; i < PARTS; i++) {
        char *kv = s->kv + row * (size_t)p->begin[i];
        shape.k_tokens = p->begin[i + 1] - p->begin[i];
        shape.sink = i == OF_SINK ? s->shape.sink : NULL;
        shape.dsink = NULL;
        struct cs_ctx ctx = exact_ctx(lab, s, &shape, &p->mask[i].dev);
        s->ops->attention(&ctx, &shape, &p->mask[i].dev, s->q, kv, kv + s->v_at,
                          p->o + (size_t)i * s->o_bytes,
                          p->lse + (size_t)i * s->lse_bytes / sizeof *p->lse);
    }
    s->ops->attention_merge(&lab->ctx, &shape, PARTS, o_n, p->o, p->lse, s->o, s->lse);
    for (int i = 0; i < PARTS; i++) {
        char *kv = s->kv + row * (size_t)p->begin[i], *dkv = s->dkv + row * (size_t)p->begin[i];
        char *dq = i == 0 ? s->dq : p->dq;
        shape.k_tokens = p->begin[i + 1] - p->begin[i];
        shape.sink = i == OF_SINK ? s->shape.sink : NULL;
        shape.dsink = i == OF_SINK ? s->shape.dsink : NULL;
        struct cs_ctx ctx = exact_ctx(lab, s, &shape, &p->mask[i].dev);
        s->ops->attention_grad(&ctx, &shape, &p->mask[i].dev, s->q, kv, kv + s->v_at, s->o, s->lse,
                               s->d_o, dq, dkv, dkv + s->v_at);
        if (i > 0)
            s->ops->add(&lab->ctx, (int64_t)(s->q_bytes / s->ops->act_bytes), s->dq, dq, s->dq);
    }
    att_no_errors(lab);
}

static bool check(struct att_lab *lab, struct att_oracle *oracle, const struct att_setup *s)
{
    struct parts p = {.o = att_alloc(lab, PARTS * s->o_bytes), .dq = att_alloc(lab, s->q_bytes)};
    struct att_reference exact, eager;
    const struct att_operands x = att_operands_of(s);
    p.lse = att_alloc(lab, PARTS * s->lse_bytes);
    for (int i = 0; i <= PARTS; i++) /* the first part is short */
        p.begin[i] = i == 0 ? 0 : (i == 1 ? s->mask.n_keys / 7 + 1 : s->mask.n_keys * i / PARTS);
    for (int i = 0; i < PARTS; i++) {
        att_mask_part(lab, &s->mask, p.begin[i], p.begin[i + 1], &p.mask[i]);
        att_mask_build(lab, &p.mask[i]);
    }
    run_parts(lab, s, &p);
    att_oracle_run(oracle, &s->shape, &s->plan, &x, &exact, &eager);
    bool is_good = att_check_side(oracle, s, false, &exact, &eager);
    is_good = att_check_side(oracle, s, true, &exact, &eager) && is_good;
    is_good = att_check_sinks(lab, oracle, s, &exact, &eager) && is_good;
    const int64_t bad =
        att_compare_lse(oracle, s->lse, exact.lse, (int64_t)s->shape.heads * s->c.tokens, 2e-4);
    for (int i = 0; i < PARTS; i++)
        att_mask_free(lab, &p.mask[i]);
    att_free(lab, p.o);
    att_free(lab, p.dq);
    att_free(lab, p.lse);
    return is_good && bad == 0;
}

void att_test_merge(struct att_lab *lab)
{
    static const int32_t dims[] = {64, 72, 128, 256};
    struct att_oracle *oracle = att_oracle_new(lab->stream);
    const int passed = lab->passed, failed = lab->failed;
    for (int n = 0; n < 2 * CS_MASK_KINDS; n++) {
        const struct att_case c = {.kind = (enum cs_mask_kind)(n % CS_MASK_KINDS),
                                   .tokens = n < CS_MASK_KINDS ? 300 : 1000,
                                   .dim = dims[n % 4],
                                   .group = n % 3 == 0 ? 4 : 1,
                                   .order = ATT_ZIGZAG,
                                   .path = n % 2 == 0 ? ATT_LISTS : ATT_MMA,
                                   .has_sinks = n / 2 % 2 == 0};
        struct att_setup s;
        att_set_up(lab, &c, &s);
        att_verdict(lab, &c, check(lab, oracle, &s));
        att_tear_down(lab, &s);
    }
    att_oracle_free(oracle);
    printf("%-4s attention in parts, merged: %d passed, %d failed\n",
           lab->failed == failed ? "ok" : "FAIL", lab->passed - passed, lab->failed - failed);
    fflush(stdout);
}
