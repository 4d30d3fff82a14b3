/* Calls of mixtures of experts and adapters on a tape, and of what moves parts of rows. */
#include "worker/device/tape_calls.h"

/* A field that is added must be written below. */
_Static_assert(sizeof(struct cs_moe_shape) == 24, "shape of a mixture");
_Static_assert(sizeof(struct cs_moe_routes) == 40, "routes of a mixture");
_Static_assert(sizeof(struct cs_moe_groups) == 24, "rows by expert");

/* ---- parts of rows ---- */

static void copy_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                       int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head)
{
    PUT(COPY_HEADS, I(rows), I(heads), I(dim), P(x), I(x_row), I(x_head), P(y), I(y_row),
        I(y_head));
}

PLAY(copy_heads)
{
    o->copy_heads(c, w[0].i, INT32(w[1]), w[2].i, w[3].p, w[4].i, w[5].i, w[6].m, w[7].i, w[8].i);
}

static void add_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                      int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head)
{
    PUT(ADD_HEADS, I(rows), I(heads), I(dim), P(x), I(x_row), I(x_head), P(y), I(y_row), I(y_head));
}

PLAY(add_heads)
{
    o->add_heads(c, w[0].i, INT32(w[1]), w[2].i, w[3].p, w[4].i, w[5].i, w[6].m, w[7].i, w[8].i);
}

static void scale_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                       const float *weight, void *y)
{
    PUT(SCALE_ROWS, I(rows), I(n), P(x), P(weight), P(y));
}

PLAY(scale_rows)
{
    o->scale_rows(c, w[0].i, w[1].i, w[2].p, w[3].p, w[4].m);
}

static void scale_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                            const float *weight, const void *dy, void *dx, float *dweight)
{
    PUT(SCALE_ROWS_GRAD, I(rows), I(n), P(x), P(weight), P(dy), P(dx), P(dweight));
}

PLAY(scale_rows_grad)
{
    o->scale_rows_grad(c, w[0].i, w[1].i, w[2].p, w[3].p, w[4].p, w[5].m, w[6].m);
}

static void sum_rows(struct cs_ctx *ctx, int64_t rows, int32_t terms, int64_t n,
                     const int32_t *index, const void *x, const void *residual, void *y)
{
    PUT(SUM_ROWS, I(rows), I(terms), I(n), P(index), P(x), P(residual), P(y));
}

PLAY(sum_rows)
{
    o->sum_rows(c, w[0].i, INT32(w[1]), w[2].i, w[3].p, w[4].p, w[5].p, w[6].m);
}

/* ---- experts ---- */

enum { MOE = 9 };

#define MOE_WORDS(s, r)                                                                            \
    I((s)->experts), I((s)->top_k), I((s)->is_normed), I((s)->counted), P((r)->expert),            \
        P((r)->place), P((r)->token), P((r)->first), P((r)->weight)
#define GROUP_WORDS(g) P((g)->first), I((g)->experts), I((g)->places)

static struct cs_moe_shape moe_shape_of(words w)
{
    return (struct cs_moe_shape){INT32(w[0]), INT32(w[1]), w[2].i != 0, w[3].i};
}

static struct cs_moe_routes routes_of(words w)
{
    return (struct cs_moe_routes){w[4].m, w[5].m, w[6].m, w[7].m, w[8].m};
}

static struct cs_moe_groups groups_of(words w)
{
    return (struct cs_moe_groups){w[0].p, INT32(w[1]), w[2].i};
}

static void moe_route(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                      const void *logits, const struct cs_moe_routes *routes)
{
    PUT(MOE_ROUTE, MOE_WORDS(shape, routes), I(rows), P(logits));
}

PLAY(moe_route)
{
    const struct cs_moe_shape shape = moe_shape_of(w);
    const struct cs_moe_routes routes = routes_of(w);
    o->moe_route(c, &shape, w[MOE].i, w[MOE + 1].p, &routes);
}

static void moe_load(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                     const void *logits, const struct cs_moe_routes *routes, int64_t *load)
{
    PUT(MOE_LOAD, MOE_WORDS(shape, routes), I(rows), P(logits), P(load));
}

PLAY(moe_load)
{
    const struct cs_moe_shape shape = moe_shape_of(w);
    const struct cs_moe_routes routes = routes_of(w);
    o->moe_load(c, &shape, w[MOE].i, w[MOE + 1].p, &routes, w[MOE + 2].m);
}

static void moe_route_grad(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                           const void *logits, const struct cs_moe_routes *routes,
                           const float *dweight, float balance, const int64_t *pairs, void *dlogits)
{
    PUT(MOE_ROUTE_GRAD, MOE_WORDS(shape, routes), I(rows), P(logits), P(dweight), D(balance),
        P(pairs), P(dlogits));
}

PLAY(moe_route_grad)
{
    const struct cs_moe_shape shape = moe_shape_of(w);
    const struct cs_moe_routes routes = routes_of(w);
    w += MOE;
    o->moe_route_grad(c, &shape, w[0].i, w[1].p, &routes, w[2].p, FLOAT(w[3]), w[4].p, w[5].m);
}

static void add_counts(struct cs_ctx *ctx, int64_t n, const int64_t *x, int64_t *y)
{
    PUT(ADD_COUNTS, I(n), P(x), P(y));
}

PLAY(add_counts)
{
    o->add_counts(c, w[0].i, w[1].p, w[2].m);
}

static void moe_linear(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                       int64_t out, const void *x, const void *weight, void *y)
{
    PUT(MOE_LINEAR, GROUP_WORDS(groups), I(in), I(out), P(x), P(weight), P(y));
}

PLAY(moe_linear)
{
    const struct cs_moe_groups groups = groups_of(w);
    o->moe_linear(c, &groups, w[3].i, w[4].i, w[5].p, w[6].p, w[7].m);
}

static void moe_linear_dgrad(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *dy, const void *weight, void *dx)
{
    PUT(MOE_LINEAR_DGRAD, GROUP_WORDS(groups), I(in), I(out), P(dy), P(weight), P(dx));
}

PLAY(moe_linear_dgrad)
{
    const struct cs_moe_groups groups = groups_of(w);
    o->moe_linear_dgrad(c, &groups, w[3].i, w[4].i, w[5].p, w[6].p, w[7].m);
}

static void moe_linear_wgrad(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *dy, const void *x, void *dw)
{
    PUT(MOE_LINEAR_WGRAD, GROUP_WORDS(groups), I(in), I(out), P(dy), P(x), P(dw));
}

PLAY(moe_linear_wgrad)
{
    const struct cs_moe_groups groups = groups_of(w);
    o->moe_linear_wgrad(c, &groups, w[3].i, w[4].i, w[5].p, w[6].p, w[7].m);
}

/* ---- a loss over words of several ranks ---- */

static void xent_part(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *labels,
                      float softcap, void *z, float *stat)
{
    PUT(XENT_PART, I(rows), I(n), P(labels), D(softcap), P(z), P(stat));
}

PLAY(xent_part)
{
    o->xent_part(c, w[0].i, w[1].i, w[2].p, FLOAT(w[3]), w[4].m, w[5].m);
}

static void xent_join(struct cs_ctx *ctx, int64_t rows, int32_t parts, const float *stat,
                      double *loss, double *row_loss, uint8_t *correct, float *whole)
{
    PUT(XENT_JOIN, I(rows), I(parts), P(stat), P(loss), P(row_loss), P(correct), P(whole));
}

PLAY(xent_join)
{
    o->xent_join(c, w[0].i, INT32(w[1]), w[2].p, w[3].m, w[4].m, w[5].m, w[6].m);
}

static void xent_part_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *labels,
                           float softcap, const float *whole, void *z)
{
    PUT(XENT_PART_GRAD, I(rows), I(n), P(labels), D(softcap), P(whole), P(z));
}

PLAY(xent_part_grad)
{
    o->xent_part_grad(c, w[0].i, w[1].i, w[2].p, FLOAT(w[3]), w[4].p, w[5].m);
}

/* ---- products whose factors have row strides of their own (adapters) ---- */

static void gemm(struct cs_ctx *ctx, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                 float alpha, const void *a, int64_t lda, const void *b, int64_t ldb, float beta,
                 void *y, int64_t ldy)
{
    PUT(GEMM, I(trans_a), I(trans_b), I(m), I(n), I(k), D(alpha), P(a), I(lda), P(b), I(ldb),
        D(beta), P(y), I(ldy));
}

PLAY(gemm)
{
    o->gemm(c, (int)w[0].i, (int)w[1].i, w[2].i, w[3].i, w[4].i, FLOAT(w[5]), w[6].p, w[7].i,
            w[8].p, w[9].i, FLOAT(w[10]), w[11].m, w[12].i);
}

static void gemm_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t out, int64_t in, const void *dy,
                       int64_t ld_dy, const void *x, int64_t ldx, void *dw)
{
    PUT(GEMM_WGRAD, I(rows), I(out), I(in), P(dy), I(ld_dy), P(x), I(ldx), P(dw));
}

PLAY(gemm_wgrad)
{
    o->gemm_wgrad(c, w[0].i, w[1].i, w[2].i, w[3].p, w[4].i, w[5].p, w[6].i, w[7].m);
}

/* ---- the tables ---- */

cs_tape_player *const cs_tape_parts_play[CS_TAPE_CALLS] = {
    [CS_TAPE_GEMM] = play_gemm,
    [CS_TAPE_GEMM_WGRAD] = play_gemm_wgrad,
    [CS_TAPE_COPY_HEADS] = play_copy_heads,
    [CS_TAPE_ADD_HEADS] = play_add_heads,
    [CS_TAPE_SCALE_ROWS] = play_scale_rows,
    [CS_TAPE_SCALE_ROWS_GRAD] = play_scale_rows_grad,
    [CS_TAPE_SUM_ROWS] = play_sum_rows,
    [CS_TAPE_MOE_ROUTE] = play_moe_route,
    [CS_TAPE_MOE_LOAD] = play_moe_load,
    [CS_TAPE_MOE_ROUTE_GRAD] = play_moe_route_grad,
    [CS_TAPE_ADD_COUNTS] = play_add_counts,
    [CS_TAPE_MOE_LINEAR] = play_moe_linear,
    [CS_TAPE_MOE_LINEAR_DGRAD] = play_moe_linear_dgrad,
    [CS_TAPE_MOE_LINEAR_WGRAD] = play_moe_linear_wgrad,
    [CS_TAPE_XENT_PART] = play_xent_part,
    [CS_TAPE_XENT_JOIN] = play_xent_join,
    [CS_TAPE_XENT_PART_GRAD] = play_xent_part_grad,
};

void cs_tape_parts(struct cs_ops *tape)
{
    tape->gemm = gemm;
    tape->gemm_wgrad = gemm_wgrad;
    tape->copy_heads = copy_heads;
    tape->add_heads = add_heads;
    tape->scale_rows = scale_rows;
    tape->scale_rows_grad = scale_rows_grad;
    tape->sum_rows = sum_rows;
    tape->moe_route = moe_route;
    tape->moe_load = moe_load;
    tape->moe_route_grad = moe_route_grad;
    tape->add_counts = add_counts;
    tape->moe_linear = moe_linear;
    tape->moe_linear_dgrad = moe_linear_dgrad;
    tape->moe_linear_wgrad = moe_linear_wgrad;
    tape->xent_part = xent_part;
    tape->xent_join = xent_join;
    tape->xent_part_grad = xent_part_grad;
}
