/* Operators of mixtures of experts and of parts of rows against their CPU twins: experts without
 * rows, with one, with several tiles of them; sizes that are no multiple of a tile; more tiles than a
 * GPU works on at once; gradients in both types, new ones where only NaN is. */
#include <math.h>

#include "core/base/buf.h"
#include "gpu/groups.h"
#include "kernels/round.h"

struct moe_case {
    struct cs_moe_shape s;
    int64_t rows, in, out;
    float balance;
    enum cs_grad_type grad;
    bool is_new;
};

/* tensors `at` and the four behind it */
static struct cs_moe_routes routes_of(void *const *p, int at)
{
    return (struct cs_moe_routes){p[at], p[at + 1], p[at + 2], p[at + 3], p[at + 4]};
}

static void call_route(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct moe_case *a = args;
    const struct cs_moe_routes r = routes_of(p, 1);
    ops->moe_route(ctx, &a->s, a->rows, p[0], &r);
}

static void call_route_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                            const void *args)
{
    const struct moe_case *a = args;
    const struct cs_moe_routes r = routes_of(p, 1);
    ops->moe_route(ctx, &a->s, a->rows, p[0], &r);
    ops->moe_load(ctx, &a->s, a->rows, p[0], &r, p[6]);
    ops->moe_route_grad(ctx, &a->s, a->rows, p[0], &r, p[7], a->balance, p[6], p[8]);
}

static void one_route(struct lab *lab, struct moe_case a)
{
    const int64_t pairs = a.rows * a.s.top_k;
    for (int is_grad = 0; is_grad < 2; is_grad++) {
        struct lab_case c = {.what = is_grad ? "moe_route_grad" : "moe_route",
                             .call = is_grad ? call_route_grad : call_route,
                             .args = &a};
        const double rel = lab_is_bf16(lab) ? 4e-3 : 1e-4;
        lab_real(lab, &c, LAB_ACT, a.rows * a.s.experts, -4, 4);
        lab_output(lab, &c, LAB_I32, pairs, 0, 0);
        lab_output(lab, &c, LAB_I32, pairs, 0, 0);
        lab_output(lab, &c, LAB_I32, pairs, 0, 0);
        lab_output(lab, &c, LAB_I32, a.s.experts + 1, 0, 0);
        lab_output(lab, &c, LAB_F32, pairs, 1e-5, 1e-6);
        if (is_grad) {
            int64_t *load = lab_output(lab, &c, LAB_I64, CS_MOE_LOADS * a.s.experts, 1e-5, 0)->host;
            for (int32_t e = 0; e < CS_MOE_LOADS * a.s.experts; e++)
                load[e] = lab_between(lab, 0, 3); /* of other layers */
            lab_real(lab, &c, LAB_F32, pairs, -1, 1);
            lab_output(lab, &c, LAB_ACT, a.rows * a.s.experts, rel, 1e-5);
        }
        lab_run(lab, &c);
    }
}

static void call_counts(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                        const void *args)
{
    ops->add_counts(ctx, *(const int64_t *)args, p[0], p[1]);
}

static void one_counts(struct lab *lab, int64_t n)
{
    struct lab_case c = {.what = "add_counts", .call = call_counts, .args = &n};
    for (int k = 0; k < 2; k++) {
        int64_t *x = lab_raw(lab, &c, LAB_I64, n)->host;
        for (int64_t i = 0; i < n; i++)
            x[i] = (int64_t)lab_between(lab, 0, 1 << 20) << 20;
    }
    lab_run(lab, &c);
}

/* ---- products: tensor 0 is where experts' rows begin ---- */

static struct cs_moe_groups groups_of(const struct moe_case *a, void *const *p)
{
    return (struct cs_moe_groups){p[0], a->s.experts, a->rows};
}

static void call_linear(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                        const void *args)
{
    const struct moe_case *a = args;
    const struct cs_moe_groups g = groups_of(a, p);
    ops->moe_linear(ctx, &g, a->in, a->out, p[1], p[2], p[3]);
}

static void call_dgrad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct moe_case *a = args;
    const struct cs_moe_groups g = groups_of(a, p);
    ops->moe_linear_dgrad(ctx, &g, a->in, a->out, p[1], p[2], p[3]);
}

static void call_wgrad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct moe_case *a = args;
    const struct cs_moe_groups g = groups_of(a, p);
    struct cs_ctx of_grad = *ctx;
    of_grad.grad = a->grad;
    of_grad.is_grad_new = a->is_new;
    ops->moe_linear_wgrad(&of_grad, &g, a->in, a->out, p[1], p[2], p[3]);
}

/* a few experts get most rows, some none; s.counted places at both ends are of experts that are elsewhere */
static void fill_first(struct lab *lab, const struct moe_case *a, int32_t *first)
{
    int32_t left = (int32_t)(a->rows - 2 * a->s.counted);
    first[0] = (int32_t)a->s.counted;
    for (int32_t e = 0; e < a->s.experts; e++) {
        const int32_t most = e % 3 == 1 ? 0 : left;
        const int32_t n = e + 1 == a->s.experts ? left : lab_between(lab, 0, most);
        first[e + 1] = first[e] + n;
        left -= n;
    }
}

static void add_grad(struct lab *lab, struct lab_case *c, const struct moe_case *a, int64_t n)
{
    const bool is_bf16 = a->grad == CS_GRAD_BF16;
    struct lab_tensor *dw = lab_real(lab, c, is_bf16 ? LAB_BF16 : LAB_F32, n, -1, 1);
    dw->rel = is_bf16 ? 7.9e-3 : 1e-4;
    dw->scale = 1e-4;
    for (int64_t i = 0; a->is_new && a->rows > 0 && i < n; i++)
        if (is_bf16)
            ((uint16_t *)dw->host)[i] = CS_ROUND_NAN;
        else
            ((float *)dw->host)[i] = NAN;
}

static void one_product(struct lab *lab, struct moe_case a, const char *what, lab_call *call)
{
    struct lab_case c = {.what = what, .call = call, .args = &a};
    const double rel = lab_is_bf16(lab) ? 8e-3 : 1e-4, scale = lab_is_bf16(lab) ? 2e-3 : 1e-5;
    const int64_t w = (int64_t)a.s.experts * a.in * a.out;
    fill_first(lab, &a, lab_raw(lab, &c, LAB_I32, a.s.experts + 1)->host);
    lab_real(lab, &c, LAB_ACT, a.rows * (call == call_linear ? a.in : a.out), -1, 1);
    lab_real(lab, &c, LAB_ACT, call == call_wgrad ? a.rows * a.in : w, -1, 1);
    if (call == call_wgrad) {
        add_grad(lab, &c, &a, w);
    } else {
        const int64_t n = a.rows * (call == call_linear ? a.out : a.in);
        struct lab_tensor *y = lab_real(lab, &c, LAB_ACT, n, -1, 1); /* some stay as they are */
        y->rel = rel;
        y->scale = scale;
    }
    lab_run(lab, &c);
}

/* ---- parts of rows ---- */

struct rows_case {
    int64_t rows, n;
    int32_t terms;
};

static void call_sum(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p, const void *args)
{
    const struct rows_case *a = args;
    ops->sum_rows(ctx, a->rows, a->terms, a->n, p[0], p[1], p[2], p[3]);
}

static void call_scale(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct rows_case *a = args;
    ops->scale_rows(ctx, a->rows, a->n, p[0], p[1], p[2]);
    ops->scale_rows_grad(ctx, a->rows, a->n, p[0], p[1], p[3], p[4], p[5]);
}

static void call_heads(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct rows_case *a = args;
    ops->copy_heads(ctx, a->rows, a->terms, a->n, p[0], a->terms * a->n + 8, a->n, p[1],
                    a->terms * (a->n + 8), a->n + 8);
}

static void call_add_heads(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                           const void *args)
{
    const struct rows_case *a = args;
    ops->add_heads(ctx, a->rows, a->terms, a->n, p[0], a->terms * a->n + 8, a->n, p[1],
                   a->terms * (a->n + 8), a->n + 8);
}

static void one_rows(struct lab *lab, struct rows_case a)
{
    const double rel = lab_is_bf16(lab) ? 4e-3 : 1e-5;
    struct lab_case sum = {.what = "sum_rows", .call = call_sum, .args = &a};
    int32_t *index = lab_raw(lab, &sum, LAB_I32, a.rows * a.terms)->host;
    for (int64_t i = 0; i < a.rows * a.terms; i++)
        index[i] = lab_between(lab, 0, (int)a.rows - 1);
    lab_real(lab, &sum, LAB_ACT, a.rows * a.n, -1, 1);
    if (a.terms % 2 == 0)
        lab_real(lab, &sum, LAB_ACT, a.rows * a.n, -1, 1);
    else
        lab_null(&sum);
    lab_output(lab, &sum, LAB_ACT, a.rows * a.n, rel, 1e-5);
    lab_run(lab, &sum);
    struct lab_case scale = {.what = "scale_rows", .call = call_scale, .args = &a};
    lab_real(lab, &scale, LAB_ACT, a.rows * a.n, -1, 1);
    lab_real(lab, &scale, LAB_F32, a.rows, -1, 1);
    lab_output(lab, &scale, LAB_ACT, a.rows * a.n, rel, 1e-6);
    lab_real(lab, &scale, LAB_ACT, a.rows * a.n, -1, 1);
    lab_output(lab, &scale, LAB_ACT, a.rows * a.n, rel, 1e-6);
    lab_output(lab, &scale, LAB_F32, a.rows, 1e-4, 1e-5);
    lab_run(lab, &scale);
    struct lab_case heads = {.what = "copy_heads", .call = call_heads, .args = &a};
    lab_real(lab, &heads, LAB_ACT, a.rows * (a.terms * a.n + 8), -1, 1);
    lab_real(lab, &heads, LAB_ACT, a.rows * a.terms * (a.n + 8), -1, 1);
    lab_run(lab, &heads);
    struct lab_case added = {.what = "add_heads", .call = call_add_heads, .args = &a};
    lab_real(lab, &added, LAB_ACT, a.rows * (a.terms * a.n + 8), -1, 1);
    struct lab_tensor *out = lab_real(lab, &added, LAB_ACT, a.rows * a.terms * (a.n + 8), -1, 1);
    out->rel = rel;
    out->floor = 1e-6;
    lab_run(lab, &added);
}

void group_experts(struct lab *lab)
{
    static const int32_t routes[][4] = {
        {1,    1,   1,  1  }, /* rows, experts, top_k, counted */
        {63,   4,   2,  40 },
        {500,  128, 8,  500},
        {1000, 512, 10, 700},
        {4096, 60,  4,  0  },
    };
    static const int32_t products[][5] = {
        {1,    1,   8,   8,    0  }, /* places, experts, in, out, elsewhere at each end */
        {0,    3,   16,  16,   0  },
        {70,   4,   48,  80,   0  },
        {1000, 16,  129, 67,   0  },
        {3000, 128, 64,  256,  0  },
        {2048, 8,   512, 384,  0  },
        {1000, 6,   136, 264,  130},
        {700,  5,   65,  40,   3  },
        {5000, 3,   768, 1536, 0  },
        {4000, 40,  264, 392,  9  }, /* tiles of weights: 480 */
        {900,  120, 72,  304,  0  }, /* 360, most experts without rows */
        {300,  2,   264, 2344, 0  }, /* many rows of tiles for one expert */
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(routes); i++)
        one_route(lab, (struct moe_case){
                           .s = {routes[i][1], routes[i][2], i % 2 == 0, routes[i][3]},
                           .rows = routes[i][0],
                           .balance = i % 2 == 0 ? 0.05f : 0.0f
        });
    lab_group(lab, "moe_route");
    one_counts(lab, 0);
    one_counts(lab, 1);
    one_counts(lab, 513);
    lab_group(lab, "add_counts");
    for (size_t i = 0; i < CS_ARRAY_LEN(products); i++) {
        struct moe_case a = {
            .s = {.experts = products[i][1], .counted = products[i][4]},
            .rows = products[i][0],
            .in = products[i][2],
            .out = products[i][3]
        };
        one_product(lab, a, "moe_linear", call_linear);
        one_product(lab, a, "moe_linear_dgrad", call_dgrad);
        for (int way = 0; way < 2 * CS_GRAD_TYPES; way++) {
            a.grad = (enum cs_grad_type)(way / 2);
            a.is_new = way % 2 != 0;
            one_product(lab, a, a.is_new ? "moe_linear_wgrad, new" : "moe_linear_wgrad",
                        call_wgrad);
        }
    }
    lab_group(lab, "moe_linear");
    one_rows(lab, (struct rows_case){1, 1, 1});
    one_rows(lab, (struct rows_case){77, 24, 2});
    one_rows(lab, (struct rows_case){1000, 130, 3});
    one_rows(lab, (struct rows_case){512, 256, 8});
    lab_group(lab, "parts of rows");
}
