/* Optimizer, sums and refusals. */
#include <string.h>

#include "core/base/buf.h"
#include "gpu/groups.h"

struct adam_args {
    int64_t n;
    struct cs_adamw hyper;
};

static void call_adamw(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct adam_args *g = args;
    ops->adamw(ctx, g->n, &g->hyper, p[0], p[1], p[2], p[3], p[4]);
}

static void call_sumsq(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    ops->sumsq(ctx, *(const int64_t *)args, p[0], p[1]);
}

static void call_adamw_many(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                            const void *args)
{
    const struct lab_list *g = args;
    struct cs_adamw_tensor list[LAB_LIST];
    for (int i = 0; i < LAB_LIST; i++) {
        const int64_t at = g->begin[i];
        list[i] = (struct cs_adamw_tensor){g->begin[i + 1] - at,
                                           i % 2 == 0 ? 0.1f : 0.0f,
                                           (const float *)p[0] + at,
                                           (float *)p[1] + at,
                                           (float *)p[2] + at,
                                           (float *)p[3] + at,
                                           i % 5 == 4 ? NULL
                                                      : (char *)p[4] + (size_t)at * ops->act_bytes};
    }
    ops->adamw_many(ctx, LAB_LIST, list, &g->hyper);
}

static void call_sumsq_many(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                            const void *args)
{
    const struct lab_list *g = args;
    struct cs_sumsq_tensor list[LAB_LIST];
    for (int i = 0; i < LAB_LIST; i++)
        list[i] = (struct cs_sumsq_tensor){g->begin[i + 1] - g->begin[i],
                                           (const float *)p[0] + g->begin[i]};
    ops->sumsq_many(ctx, LAB_LIST, list, p[1]);
}

/* A list gives the bits of single calls; both are compared with the twin. */
static void call_sumsq_one_by_one(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                                  const void *args)
{
    const struct lab_list *g = args;
    call_sumsq_many(ops, ctx, p, args);
    for (int i = 0; i < LAB_LIST; i++)
        ops->sumsq(ctx, g->begin[i + 1] - g->begin[i], (const float *)p[0] + g->begin[i],
                   (double *)p[1] + i);
}

static void test_lists(struct lab *lab)
{
    static const int64_t largest[] = {1, 32768, 32769, 700001};
    for (size_t i = 0; i < CS_ARRAY_LEN(largest); i++) {
        struct lab_list g = {
            .hyper = {1e-3f, 0.9f, 0.95f, 1e-8f, 7.0f, 0.125f, 3}
        };
        lab_cut(lab, &g, largest[i]);
        struct lab_case c = {.what = "adamw_many", .call = call_adamw_many, .args = &g};
        lab_real(lab, &c, LAB_F32, g.total, -1, 1);
        lab_real(lab, &c, LAB_F32, g.total, -1, 1)->rel = 2e-6;
        lab_real(lab, &c, LAB_F32, g.total, -1, 1)->rel = 2e-6;
        lab_real(lab, &c, LAB_F32, g.total, 0, 1)->rel = 2e-6;
        c.t[1].scale = c.t[2].scale = c.t[3].scale = 1e-6;
        lab_output(lab, &c, LAB_ACT, g.total, lab_is_bf16(lab) ? 8e-3 : 2e-6, 1e-6);
        lab_run(lab, &c);
        for (int one = 0; one < 2; one++) {
            struct lab_case s = {.what = "sumsq_many",
                                 .call = one ? call_sumsq_one_by_one : call_sumsq_many,
                                 .args = &g};
            lab_real(lab, &s, LAB_F32, g.total, -1, 1);
            lab_output(lab, &s, LAB_F64, LAB_LIST, 1e-12, 0);
            lab_run(lab, &s);
        }
    }
    lab_group(lab, "lists");
}

static void call_casts(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const int64_t n = *(const int64_t *)args;
    ops->cast_to_act(ctx, n, p[0], p[1]);
    ops->cast_to_f32(ctx, n, p[2], p[3]);
    ops->scale_add(ctx, n, 0.3f, p[0], 0.0f, p[4]);
    ops->scale_add(ctx, n, -1.7f, p[0], 0.9f, p[5]);
    ops->scale_add(ctx, n, 1.0f, p[5], 0.5f, p[5]);
}

static void test_casts(struct lab *lab, const int64_t *size, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct lab_case c = {.what = "casts", .call = call_casts, .args = &size[i]};
        lab_real(lab, &c, LAB_F32, size[i], -3, 3);
        lab_output(lab, &c, LAB_ACT, size[i], lab_is_bf16(lab) ? 3.91e-3 : 0, 0);
        lab_real(lab, &c, LAB_ACT, size[i], -3, 3);
        lab_output(lab, &c, LAB_F32, size[i], 0, 0);
        lab_output(lab, &c, LAB_F32, size[i], 0, 0);
        lab_real(lab, &c, LAB_F32, size[i], -3, 3);
        lab_run(lab, &c);
    }
    lab_group(lab, "casts");
}

static void test_optimizer(struct lab *lab)
{
    static const int64_t size[] = {0, 1, 7, 127, 128, 129, 1000, 3000001};
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        struct adam_args g = {
            size[i], {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.125f, i % 2 == 0 ? 1 : 1000}
        };
        struct lab_case c = {.what = "adamw", .call = call_adamw, .args = &g};
        lab_real(lab, &c, LAB_F32, g.n, -1, 1);
        lab_real(lab, &c, LAB_F32, g.n, -1, 1)->rel = 2e-6;
        lab_real(lab, &c, LAB_F32, g.n, -1, 1)->rel = 2e-6;
        lab_real(lab, &c, LAB_F32, g.n, 0, 1)->rel = 2e-6;
        c.t[1].scale = c.t[2].scale = c.t[3].scale = 1e-6;
        if (i % 3 == 2)
            lab_null(&c);
        else
            lab_output(lab, &c, LAB_ACT, g.n, lab_is_bf16(lab) ? 8e-3 : 2e-6, 1e-6);
        lab_run(lab, &c);
    }
    lab_group(lab, "adamw");
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        struct lab_case c = {.what = "sumsq", .call = call_sumsq, .args = &size[i]};
        lab_real(lab, &c, LAB_F32, size[i], -1, 1);
        lab_output(lab, &c, LAB_F64, 1, 1e-12, 0);
        lab_run(lab, &c);
    }
    lab_group(lab, "sumsq");
    test_casts(lab, size, CS_ARRAY_LEN(size));
}

void group_train(struct lab *lab)
{
    test_optimizer(lab);
    test_lists(lab);
}

/* On a handle of its own: the error stays in it. */
void group_errors(struct lab *lab)
{
    struct cs_err err = {.status = CS_OK};
    void *handle = NULL;
    lab_verdict(lab, "open", lab->device->open(0, &handle, &err) == CS_OK);
    lab_verdict(lab, "no_such_device",
                lab->device->open(4096, &(void *){NULL}, &err) == CS_UNSUPPORTED);
    if (handle == NULL)
        return;
    struct cs_ctx ctx = {.stream = lab->stream, .handle = handle};
    const struct cs_attention_shape s = {.tokens = 4, .heads = 3, .kv_heads = 2, .head_dim = 8};
    const struct cs_mask_plan plan = {.n_tokens = 4, .n_segments = 1};
    lab_verdict(lab, "no_error_yet", lab->device->status(handle, &err) == CS_OK);
    lab->gpu->attention(&ctx, &s, &plan, NULL, NULL, NULL, NULL, NULL);
    lab_verdict(lab, "heads_must_divide",
                lab->device->status(handle, &err) == CS_INVALID &&
                    strstr(err.text, "3 heads, 2 kv heads") != NULL);
    lab->gpu->linear_xent(&ctx, 1, 8, 8, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL);
    lab_verdict(lab, "the_first_error_stays",
                lab->device->status(handle, &err) == CS_INVALID &&
                    strstr(err.text, "3 heads, 2 kv heads") != NULL);
    lab->device->close(handle);
    lab_verdict(lab, "other_handles_are_fine", lab->device->status(lab->handle, &err) == CS_OK);
    lab_group(lab, "errors");
}
