/* Gradients in bf16, and the optimizer that has nothing else: against the CPU twin, AdamW and sums
 * of one row to the bit. */
#include <string.h>

#include "core/base/buf.h"
#include "gpu/groups.h"

#define ULP 7.9e-3 /* of bf16: sums of another order may round to the next number */

/* context whose gradients are bf16 */
static struct cs_ctx narrow(const struct cs_ctx *ctx)
{
    struct cs_ctx own = *ctx;
    own.grad = CS_GRAD_BF16;
    return own;
}

/* gradients that are there already; a sum that nearly cancels keeps the noise of its terms */
static void gradient(struct lab *lab, struct lab_case *c, int64_t n, double scale)
{
    struct lab_tensor *t = lab_real(lab, c, LAB_BF16, n, -0.1f, 0.1f);
    t->rel = ULP;
    t->scale = scale;
}

struct wgrad_args {
    int64_t rows, in, out, ld_dy, ldx;
};

static void call_gemm_wgrad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                            const void *args)
{
    const struct wgrad_args *g = args;
    struct cs_ctx own = narrow(ctx);
    ops->gemm_wgrad(&own, g->rows, g->out, g->in, p[0], g->ld_dy, p[1], g->ldx, p[2]);
}

static void call_linear_wgrad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                              const void *args)
{
    const struct wgrad_args *g = args;
    struct cs_ctx own = narrow(ctx);
    ops->linear_wgrad(&own, g->rows, g->in, g->out, p[0], p[1], p[2], p[3]);
}

static void test_wgrad(struct lab *lab)
{
    static const struct wgrad_args size[] = {
        {0,    8,   8,    0, 0},
        {1,    3,   5,    0, 0},
        {33,   17,  40,   8, 5},
        {700,  64,  128,  0, 0},
        {256,  520, 24,   0, 8},
        {4096, 256, 384,  0, 0},
        {1000, 64,  1003, 0, 0},
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        struct wgrad_args g = size[i];
        g.ld_dy += g.out;
        g.ldx += g.in;
        struct lab_case c = {.what = "gemm_wgrad", .call = call_gemm_wgrad, .args = &g};
        lab_real(lab, &c, LAB_ACT, g.rows * g.ld_dy, -1, 1);
        lab_real(lab, &c, LAB_ACT, g.rows * g.ldx, -1, 1);
        gradient(lab, &c, g.out * g.in, 1e-4);
        lab_run(lab, &c);
        struct lab_case l = {.what = "linear_wgrad", .call = call_linear_wgrad, .args = &size[i]};
        lab_real(lab, &l, LAB_ACT, g.rows * g.out, -1, 1);
        lab_real(lab, &l, LAB_ACT, g.rows * g.in, -1, 1);
        gradient(lab, &l, g.out * g.in, 1e-4);
        gradient(lab, &l, g.out, 1e-4);
        lab_run(lab, &l);
    }
    lab_group(lab, "wgrad bf16");
}

struct sums_args {
    enum cs_norm kind;
    int64_t rows, n;
};

static void call_bias_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                           const void *args)
{
    const struct sums_args *g = args;
    struct cs_ctx own = narrow(ctx);
    ops->bias_grad(&own, g->rows, g->n, p[0], g->n, p[1]);
}

static void call_norm_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                           const void *args)
{
    const struct sums_args *g = args;
    struct cs_ctx own = narrow(ctx);
    ops->norm_grad(&own, g->kind, g->rows, g->n, 0.0f, p[0], p[1], p[2], p[3], NULL, p[4], p[5],
                   p[6]);
}

static void one_norm(struct lab *lab, struct sums_args g)
{
    struct lab_case c = {.what = "norm_grad", .call = call_norm_grad, .args = &g};
    const double rel = lab_is_bf16(lab) ? ULP : 1e-4, scale = lab_is_bf16(lab) ? 1e-3 : 1e-5;
    lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
    lab_real(lab, &c, LAB_ACT, g.n, 0.5f, 1.5f);
    float *stat = lab_real(lab, &c, LAB_F32, g.rows * 2, -0.1f, 0.1f)->host;
    for (int64_t i = 0; i < g.rows; i++) {
        stat[2 * i] = g.kind == CS_NORM_LAYER ? stat[2 * i] : 0.0f;
        stat[2 * i + 1] = 1.7f;
    }
    lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
    lab_output(lab, &c, LAB_ACT, g.rows * g.n, rel, scale);
    gradient(lab, &c, g.n, 1e-4);
    if (g.kind == CS_NORM_LAYER)
        gradient(lab, &c, g.n, 1e-4);
    else
        lab_null(&c);
    lab_run(lab, &c);
}

static void test_sums(struct lab *lab)
{
    static const int64_t size[][2] = {
        {0,    8   },
        {1,    1   },
        {1,    1000},
        {7,    129 },
        {33,   1152},
        {500,  2048},
        {2000, 520 },
        {40,   9000}
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        const struct sums_args g = {CS_NORM_LAYER, size[i][0], size[i][1]};
        struct lab_case c = {.what = "bias_grad", .call = call_bias_grad, .args = &g};
        lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
        gradient(lab, &c, g.n, g.rows > 1 ? 1e-4 : 0.0);
        if (g.rows == 1) /* nothing to sum: one addition and its rounding */
            c.t[1].rel = 0.0;
        lab_run(lab, &c);
        for (int kind = 0; kind < CS_NORM_KINDS; kind++)
            one_norm(lab, (struct sums_args){(enum cs_norm)kind, g.rows, g.n});
    }
    lab_group(lab, "sums bf16");
}

/* Rows of an id are added in one order by both sides. */
static void call_embed_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                            const void *args)
{
    const int64_t *g = args;
    struct cs_ctx own = narrow(ctx);
    ops->embed_grad(&own, g[0], g[1], p[0], p[1], 2.0f, p[2]);
}

static void test_embed(struct lab *lab)
{
    static const int64_t size[][3] = {
        {0,    8,   4 },
        {1,    1,   1 },
        {700,  33,  50},
        {3000, 520, 40}
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        const int64_t rows = size[i][0], n = size[i][1], ids = size[i][2];
        struct lab_case c = {.what = "embed_grad", .call = call_embed_grad, .args = size[i]};
        int32_t *id = lab_raw(lab, &c, LAB_I32, rows)->host;
        for (int64_t r = 0; r < rows; r++)
            id[r] = lab_between(lab, -1, (int)ids - 1);
        lab_real(lab, &c, LAB_ACT, rows * n, -1, 1);
        gradient(lab, &c, ids * n, 0.0);
        c.t[2].rel = 0.0;
        lab_run(lab, &c);
    }
    lab_group(lab, "embed_g bf16");
}

struct xent_args {
    int64_t rows, in, vocab;
};

static void call_xent(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct xent_args *g = args;
    struct cs_ctx own = narrow(ctx);
    own.workspace_bytes = ops->linear_xent_workspace(g->rows, g->in, g->vocab);
    ops->linear_xent(&own, g->rows, g->in, g->vocab, p[0], p[1], p[2], 0.0f, p[3], NULL, NULL, p[4],
                     p[5]);
}

static void test_xent(struct lab *lab)
{
    static const struct xent_args size[] = {
        {1,    8,  2    },
        {129,  64, 1000 },
        {1000, 96, 515  },
        {300,  64, 32003}
    };
    const bool is_bf16 = lab_is_bf16(lab);
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        const struct xent_args g = size[i];
        struct lab_case c = {.what = "linear_xent", .call = call_xent, .args = &g};
        lab_real(lab, &c, LAB_ACT, g.rows * g.in, -0.5f, 0.5f);
        lab_real(lab, &c, LAB_ACT, g.vocab * g.in, -0.5f, 0.5f);
        int32_t *labels = lab_raw(lab, &c, LAB_I32, g.rows)->host;
        for (int64_t r = 0; r < g.rows; r++)
            labels[r] = lab_between(lab, 0, (int)g.vocab - 1);
        *(double *)lab_output(lab, &c, LAB_F64, 1, is_bf16 ? 3e-3 : 1e-5, 0)->host = 0.0;
        lab_output(lab, &c, LAB_ACT, g.rows * g.in, is_bf16 ? 2e-2 : 1e-4, is_bf16 ? 1e-2 : 1e-5);
        gradient(lab, &c, g.vocab * g.in, 1e-2); /* every chunk of rows is a rounding */
        c.t[5].rel = 2e-2;
        lab_run(lab, &c);
    }
    lab_group(lab, "xent bf16");
}

static void call_adamw(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct lab_list *g = args;
    struct cs_adamw_bf16_tensor list[LAB_LIST];
    for (int i = 0; i < LAB_LIST; i++) {
        const int64_t at = g->begin[i];
        list[i] = (struct cs_adamw_bf16_tensor){
            .n = g->begin[i + 1] - at,
            .weight_decay = i % 2 == 0 ? 0.1f : 0.0f,
            .key = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(i + 1),
            .first = i % 3 == 0 ? 0 : ((int64_t)1 << 32) - 1000, /* indices beyond 32 bits */
            .grad = (const uint16_t *)p[0] + at,
            .w = (uint16_t *)p[1] + at,
            .exp_avg = (uint16_t *)p[2] + at,
            .exp_avg_sq = (uint16_t *)p[3] + at};
    }
    ops->adamw_bf16_many(ctx, LAB_LIST, list, &g->hyper);
}

static void call_sumsq(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct lab_list *g = args;
    struct cs_ctx own = narrow(ctx);
    struct cs_sumsq_tensor list[LAB_LIST];
    for (int i = 0; i < LAB_LIST; i++)
        list[i] = (struct cs_sumsq_tensor){g->begin[i + 1] - g->begin[i],
                                           (const uint16_t *)p[0] + g->begin[i]};
    ops->sumsq_many(&own, LAB_LIST, list, p[1]);
}

static void test_optimizer(struct lab *lab)
{
    static const int64_t largest[] = {1, 32768, 32769, 700001};
    for (size_t i = 0; i < CS_ARRAY_LEN(largest); i++) {
        struct lab_list g = {
            .hyper = {1e-3f, 0.9f, 0.999f, 1e-8f, 7.0f, 0.125f, i % 2 == 0 ? 1 : 1000}
        };
        lab_cut(lab, &g, largest[i]);
        struct lab_case c = {.what = "adamw_bf16", .call = call_adamw, .args = &g};
        lab_real(lab, &c, LAB_BF16, g.total, -1, 1);
        struct lab_tensor *w = lab_real(lab, &c, LAB_BF16, g.total, -1, 1);
        /* to the bit, for rel and scale are 0; but a root that is off by the last bit of fp32 lets
         * one rounding in tens of thousands go the other way, by a last bit of bf16 */
        w->rare = 1e-4;
        w->rare_rel = 0x1p-7;
        lab_real(lab, &c, LAB_BF16, g.total, -1, 1);
        lab_real(lab, &c, LAB_BF16, g.total, 0, 1);
        lab_run(lab, &c);
        struct lab_case s = {.what = "sumsq_many", .call = call_sumsq, .args = &g};
        lab_real(lab, &s, LAB_BF16, g.total, -1, 1);
        lab_output(lab, &s, LAB_F64, LAB_LIST, 1e-12, 0);
        lab_run(lab, &s);
    }
    lab_group(lab, "adamw bf16");
}

void group_states(struct lab *lab)
{
    test_wgrad(lab);
    test_sums(lab);
    test_embed(lab);
    test_xent(lab);
    test_optimizer(lab);
}
