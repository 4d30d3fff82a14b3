/* Gradients of weights that a call is the first to make (is_grad_new), in fp32 and in bf16, against
 * the CPU twin: what lies there is NaN, and must not be read. */
#include <math.h>

#include "core/base/buf.h"
#include "gpu/groups.h"
#include "kernels/round.h"

struct fresh_args {
    int64_t rows, in, out;
    enum cs_norm kind;
    enum cs_grad_type type;
};

static struct cs_ctx fresh(const struct cs_ctx *ctx, const struct fresh_args *g)
{
    struct cs_ctx own = *ctx;
    own.grad = g->type;
    own.is_grad_new = 1;
    return own;
}

static void call_wgrad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct fresh_args *g = args;
    struct cs_ctx own = fresh(ctx, g);
    ops->linear_wgrad(&own, g->rows, g->in, g->out, p[0], p[1], p[2], p[3]);
}

static void call_norm(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct fresh_args *g = args;
    struct cs_ctx own = fresh(ctx, g);
    ops->norm_grad(&own, g->kind, g->rows, g->in, 0.0f, p[0], p[1], p[2], p[3], NULL, p[4], p[5],
                   p[6]);
}

static void call_xent(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct fresh_args *g = args;
    struct cs_ctx own = fresh(ctx, g);
    if (ops->device != NULL) /* in pieces: the second adds to the first */
        own.workspace_bytes =
            ops->linear_xent_workspace(g->rows < 128 ? g->rows : 128, g->in, g->out) + 16384;
    ops->linear_xent(&own, g->rows, g->in, g->out, p[0], p[1], p[2], 0.0f, p[3], NULL, NULL, p[4],
                     p[5]);
}

/* a gradient of which only NaN is there */
static void nothing(struct lab *lab, struct lab_case *c, const struct fresh_args *g, int64_t n,
                    double rel, double scale)
{
    const bool is_bf16 = g->type == CS_GRAD_BF16;
    struct lab_tensor *t = lab_real(lab, c, is_bf16 ? LAB_BF16 : LAB_F32, n, -1, 1);
    t->rel = is_bf16 && rel < 7.9e-3 ? 7.9e-3 : rel;
    t->scale = scale;
    for (int64_t i = 0; i < n; i++)
        if (is_bf16)
            ((uint16_t *)t->host)[i] = CS_ROUND_NAN;
        else
            ((float *)t->host)[i] = NAN;
}

static void one_wgrad(struct lab *lab, const struct fresh_args *g)
{
    struct lab_case c = {.what = "linear_wgrad, new", .call = call_wgrad, .args = g};
    lab_real(lab, &c, LAB_ACT, g->rows * g->out, -1, 1);
    lab_real(lab, &c, LAB_ACT, g->rows * g->in, -1, 1);
    nothing(lab, &c, g, g->out * g->in, 1e-5, 1e-4);
    nothing(lab, &c, g, g->out, 1e-5, 1e-4);
    lab_run(lab, &c);
}

static void one_norm(struct lab *lab, const struct fresh_args *g)
{
    const bool is_bf16 = lab_is_bf16(lab);
    struct lab_case c = {.what = "norm_grad, new", .call = call_norm, .args = g};
    lab_real(lab, &c, LAB_ACT, g->rows * g->in, -1, 1);
    lab_real(lab, &c, LAB_ACT, g->in, 0.5f, 1.5f);
    float *stat = lab_real(lab, &c, LAB_F32, g->rows * 2, -0.1f, 0.1f)->host;
    for (int64_t i = 0; i < g->rows; i++) {
        stat[2 * i] = g->kind == CS_NORM_LAYER ? stat[2 * i] : 0.0f;
        stat[2 * i + 1] = 1.7f;
    }
    lab_real(lab, &c, LAB_ACT, g->rows * g->in, -1, 1);
    lab_output(lab, &c, LAB_ACT, g->rows * g->in, is_bf16 ? 7.9e-3 : 1e-4, is_bf16 ? 1e-3 : 1e-5);
    nothing(lab, &c, g, g->in, 1e-4, 1e-4);
    if (g->kind == CS_NORM_LAYER)
        nothing(lab, &c, g, g->in, 1e-4, 1e-4);
    else
        lab_null(&c);
    lab_run(lab, &c);
}

static void one_xent(struct lab *lab, const struct fresh_args *g)
{
    const bool is_bf16 = lab_is_bf16(lab);
    struct lab_case c = {.what = "linear_xent, new", .call = call_xent, .args = g};
    lab_real(lab, &c, LAB_ACT, g->rows * g->in, -0.5f, 0.5f);
    lab_real(lab, &c, LAB_ACT, g->out * g->in, -0.5f, 0.5f);
    int32_t *labels = lab_raw(lab, &c, LAB_I32, g->rows)->host;
    for (int64_t r = 0; r < g->rows; r++)
        labels[r] = lab_between(lab, 0, (int)g->out - 1);
    *(double *)lab_output(lab, &c, LAB_F64, 1, is_bf16 ? 3e-3 : 1e-5, 0)->host = 0.0;
    lab_output(lab, &c, LAB_ACT, g->rows * g->in, is_bf16 ? 2e-2 : 1e-4, is_bf16 ? 1e-2 : 1e-5);
    nothing(lab, &c, g, g->out * g->in, is_bf16 || g->type == CS_GRAD_BF16 ? 2e-2 : 1e-4, 1e-2);
    lab_run(lab, &c);
}

void group_fresh(struct lab *lab)
{
    static const int64_t size[][3] = {
        {1,   3,   5   },
        {33,  17,  40  },
        {700, 64,  128 },
        {256, 520, 24  },
        {300, 128, 1003}
    };
    for (int type = 0; type < CS_GRAD_TYPES; type++)
        for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
            struct fresh_args g = {.rows = size[i][0],
                                   .in = size[i][1],
                                   .out = size[i][2],
                                   .type = (enum cs_grad_type)type};
            one_wgrad(lab, &g);
            one_xent(lab, &g);
            for (int kind = 0; kind < CS_NORM_KINDS; kind++) {
                g.kind = (enum cs_norm)kind;
                one_norm(lab, &g);
            }
        }
    lab_group(lab, "new gradients");
}
