/* Calls of recurrent layers, mixtures of experts and adapters on a tape, and of what moves parts of rows.
 * One thought with tape.c: a call is written down there and played here. */
#include "worker/device/tape_calls.h"

/* A field that is added must be written below. */
_Static_assert(sizeof(struct cs_delta_shape) == 48, "shape of the delta rule");
_Static_assert(sizeof(struct cs_moe_shape) == 24, "shape of a mixture");
_Static_assert(sizeof(struct cs_moe_routes) == 48, "routes of a mixture");
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

/* ---- recurrent layers: of a mask they read the documents ---- */

enum { DOCUMENTS = 4, DELTA_SHAPE = 8, DELTA_IN = 5 };

#define DOCUMENT_WORDS(m) I((m)->n_tokens), P((m)->doc), I((m)->n_segments), P((m)->segment)
#define DELTA_WORDS(s)                                                                             \
    I((s)->heads), I((s)->key_heads), I((s)->key_dim), I((s)->value_dim), I((s)->q_stride),        \
        I((s)->v_stride), I((s)->o_stride), D((s)->eps)
#define DELTA_IN_WORDS(x) P((x)->q), P((x)->k), P((x)->v), P((x)->g), P((x)->beta)

static struct cs_mask_plan documents_of(words w)
{
    return (struct cs_mask_plan){
        .n_tokens = INT32(w[0]), .doc = w[1].p, .n_segments = INT32(w[2]), .segment = w[3].p};
}

static struct cs_delta_shape delta_shape_of(words w)
{
    return (struct cs_delta_shape){.heads = INT32(w[0]),
                                   .key_heads = INT32(w[1]),
                                   .key_dim = INT32(w[2]),
                                   .value_dim = INT32(w[3]),
                                   .q_stride = w[4].i,
                                   .v_stride = w[5].i,
                                   .o_stride = w[6].i,
                                   .eps = FLOAT(w[7])};
}

static struct cs_delta_in delta_in_of(words w)
{
    return (struct cs_delta_in){w[0].p, w[1].p, w[2].p, w[3].p, w[4].p};
}

static void delta(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                  const struct cs_mask_plan *mask, const struct cs_delta_in *in, void *o)
{
    PUT(DELTA, DOCUMENT_WORDS(mask), DELTA_WORDS(shape), DELTA_IN_WORDS(in), P(o));
}

PLAY(delta)
{
    const struct cs_mask_plan mask = documents_of(w);
    const struct cs_delta_shape shape = delta_shape_of(w + DOCUMENTS);
    const struct cs_delta_in in = delta_in_of(w + DOCUMENTS + DELTA_SHAPE);
    o->delta(c, &shape, &mask, &in, w[DOCUMENTS + DELTA_SHAPE + DELTA_IN].m);
}

static void delta_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const void *d_o, const struct cs_delta_out *out)
{
    PUT(DELTA_GRAD, DOCUMENT_WORDS(mask), DELTA_WORDS(shape), DELTA_IN_WORDS(in), P(d_o),
        P(out->dq), P(out->dk), P(out->dv), P(out->dg), P(out->dbeta));
}

PLAY(delta_grad)
{
    const struct cs_mask_plan mask = documents_of(w);
    const struct cs_delta_shape shape = delta_shape_of(w + DOCUMENTS);
    const struct cs_delta_in in = delta_in_of(w + DOCUMENTS + DELTA_SHAPE);
    w += DOCUMENTS + DELTA_SHAPE + DELTA_IN;
    const struct cs_delta_out out = {w[1].m, w[2].m, w[3].m, w[4].m, w[5].m};
    o->delta_grad(c, &shape, &mask, &in, w[0].p, &out);
}

static void delta_gate(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                       const void *b, int64_t ld, const void *a_log, const void *dt_bias, float *g,
                       float *beta)
{
    PUT(DELTA_GATE, I(rows), I(heads), P(a), P(b), I(ld), P(a_log), P(dt_bias), P(g), P(beta));
}

PLAY(delta_gate)
{
    o->delta_gate(c, w[0].i, INT32(w[1]), w[2].p, w[3].p, w[4].i, w[5].p, w[6].p, w[7].m, w[8].m);
}

static void delta_gate_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                            const void *b, int64_t ld, const void *a_log, const void *dt_bias,
                            const float *dg, const float *dbeta, void *da, void *db, int64_t ld_d,
                            void *da_log, void *ddt_bias)
{
    PUT(DELTA_GATE_GRAD, I(rows), I(heads), P(a), P(b), I(ld), P(a_log), P(dt_bias), P(dg),
        P(dbeta), P(da), P(db), I(ld_d), P(da_log), P(ddt_bias));
}

PLAY(delta_gate_grad)
{
    o->delta_gate_grad(c, w[0].i, INT32(w[1]), w[2].p, w[3].p, w[4].i, w[5].p, w[6].p, w[7].p,
                       w[8].p, w[9].m, w[10].m, w[11].i, w[12].m, w[13].m);
}

static void short_conv(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                       int32_t taps, const void *x, int64_t ldx, const void *weight, void *y,
                       int64_t ldy)
{
    PUT(SHORT_CONV, DOCUMENT_WORDS(mask), I(channels), I(taps), P(x), I(ldx), P(weight), P(y),
        I(ldy));
}

PLAY(short_conv)
{
    const struct cs_mask_plan mask = documents_of(w);
    w += DOCUMENTS;
    o->short_conv(c, &mask, w[0].i, INT32(w[1]), w[2].p, w[3].i, w[4].p, w[5].m, w[6].i);
}

static void short_conv_grad(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                            int32_t taps, const void *x, int64_t ldx, const void *weight,
                            const void *dy, int64_t ldy, void *dx, void *dw)
{
    PUT(SHORT_CONV_GRAD, DOCUMENT_WORDS(mask), I(channels), I(taps), P(x), I(ldx), P(weight), P(dy),
        I(ldy), P(dx), P(dw));
}

PLAY(short_conv_grad)
{
    const struct cs_mask_plan mask = documents_of(w);
    w += DOCUMENTS;
    o->short_conv_grad(c, &mask, w[0].i, INT32(w[1]), w[2].p, w[3].i, w[4].p, w[5].p, w[6].i,
                       w[7].m, w[8].m);
}

/* ---- experts ---- */

enum { MOE = 10 };

#define MOE_WORDS(s, r)                                                                            \
    I((s)->experts), I((s)->top_k), I((s)->is_normed), I((s)->counted), P((r)->expert),            \
        P((r)->place), P((r)->token), P((r)->first), P((r)->load), P((r)->weight)
#define GROUP_WORDS(g) P((g)->first), I((g)->experts), I((g)->places)

static struct cs_moe_shape moe_shape_of(words w)
{
    return (struct cs_moe_shape){INT32(w[0]), INT32(w[1]), w[2].i != 0, w[3].i};
}

static struct cs_moe_routes routes_of(words w)
{
    return (struct cs_moe_routes){w[4].m, w[5].m, w[6].m, w[7].m, w[8].m, w[9].m};
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

static void moe_route_grad(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                           const void *logits, const struct cs_moe_routes *routes,
                           const float *dweight, float balance, void *dlogits)
{
    PUT(MOE_ROUTE_GRAD, MOE_WORDS(shape, routes), I(rows), P(logits), P(dweight), D(balance),
        P(dlogits));
}

PLAY(moe_route_grad)
{
    const struct cs_moe_shape shape = moe_shape_of(w);
    const struct cs_moe_routes routes = routes_of(w);
    w += MOE;
    o->moe_route_grad(c, &shape, w[0].i, w[1].p, &routes, w[2].p, FLOAT(w[3]), w[4].m);
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
    [CS_TAPE_SCALE_ROWS] = play_scale_rows,
    [CS_TAPE_SCALE_ROWS_GRAD] = play_scale_rows_grad,
    [CS_TAPE_SUM_ROWS] = play_sum_rows,
    [CS_TAPE_DELTA] = play_delta,
    [CS_TAPE_DELTA_GRAD] = play_delta_grad,
    [CS_TAPE_DELTA_GATE] = play_delta_gate,
    [CS_TAPE_DELTA_GATE_GRAD] = play_delta_gate_grad,
    [CS_TAPE_SHORT_CONV] = play_short_conv,
    [CS_TAPE_SHORT_CONV_GRAD] = play_short_conv_grad,
    [CS_TAPE_MOE_ROUTE] = play_moe_route,
    [CS_TAPE_MOE_ROUTE_GRAD] = play_moe_route_grad,
    [CS_TAPE_MOE_LINEAR] = play_moe_linear,
    [CS_TAPE_MOE_LINEAR_DGRAD] = play_moe_linear_dgrad,
    [CS_TAPE_MOE_LINEAR_WGRAD] = play_moe_linear_wgrad,
    [CS_TAPE_XENT_PART] = play_xent_part,
    [CS_TAPE_XENT_JOIN] = play_xent_join,
    [CS_TAPE_XENT_PART_GRAD] = play_xent_part_grad,
};

void cs_tape_parts(struct cs_ops *tape, const struct cs_ops *device)
{
    tape->gemm = gemm;
    tape->gemm_wgrad = gemm_wgrad;
    tape->copy_heads = copy_heads;
    tape->scale_rows = scale_rows;
    tape->scale_rows_grad = scale_rows_grad;
    tape->sum_rows = sum_rows;
    tape->delta = delta;
    tape->delta_grad = delta_grad;
    tape->delta_gate = delta_gate;
    tape->delta_gate_grad = delta_gate_grad;
    tape->delta_workspace = device->delta_workspace;
    tape->short_conv = short_conv;
    tape->short_conv_grad = short_conv_grad;
    tape->moe_route = moe_route;
    tape->moe_route_grad = moe_route_grad;
    tape->moe_linear = moe_linear;
    tape->moe_linear_dgrad = moe_linear_dgrad;
    tape->moe_linear_wgrad = moe_linear_wgrad;
    tape->xent_part = xent_part;
    tape->xent_join = xent_join;
    tape->xent_part_grad = xent_part_grad;
}
