/* Calls of products, norms, activations, rows and the loss on a tape. */
#include "worker/device/tape_calls.h"

static void bias_add(struct cs_ctx *ctx, int64_t rows, int64_t n, void *y, int64_t ldy,
                     const void *bias)
{
    PUT(BIAS_ADD, I(rows), I(n), P(y), I(ldy), P(bias));
}

PLAY(bias_add)
{
    o->bias_add(c, w[0].i, w[1].i, w[2].m, w[3].i, w[4].p);
}

static void bias_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *dy, int64_t ld_dy,
                      void *db)
{
    PUT(BIAS_GRAD, I(rows), I(n), P(dy), I(ld_dy), P(db));
}

PLAY(bias_grad)
{
    o->bias_grad(c, w[0].i, w[1].i, w[2].p, w[3].i, w[4].m);
}

static void linear(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *x,
                   int64_t ldx, const void *weight, const void *bias, const void *residual,
                   enum cs_act act, void *pre, void *y)
{
    PUT(LINEAR, I(rows), I(in), I(out), P(x), I(ldx), P(weight), P(bias), P(residual), I(act),
        P(pre), P(y));
}

PLAY(linear)
{
    o->linear(c, w[0].i, w[1].i, w[2].i, w[3].p, w[4].i, w[5].p, w[6].p, w[7].p,
              (enum cs_act)w[8].i, w[9].m, w[10].m);
}

static void linear_dgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *weight, enum cs_act act, const void *pre, void *dx)
{
    PUT(LINEAR_DGRAD, I(rows), I(in), I(out), P(dy), P(weight), I(act), P(pre), P(dx));
}

PLAY(linear_dgrad)
{
    o->linear_dgrad(c, w[0].i, w[1].i, w[2].i, w[3].p, w[4].p, (enum cs_act)w[5].i, w[6].p, w[7].m);
}

static void linear_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *x, void *dw, void *db)
{
    PUT(LINEAR_WGRAD, I(rows), I(in), I(out), P(dy), P(x), P(dw), P(db));
}

PLAY(linear_wgrad)
{
    o->linear_wgrad(c, w[0].i, w[1].i, w[2].i, w[3].p, w[4].p, w[5].m, w[6].m);
}

static void norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                 float offset, const void *x, const void *weight, const void *b, void *y,
                 float *stat)
{
    PUT(NORM, I(kind), I(rows), I(n), D(eps), D(offset), P(x), P(weight), P(b), P(y), P(stat));
}

PLAY(norm)
{
    o->norm(c, (enum cs_norm)w[0].i, w[1].i, w[2].i, FLOAT(w[3]), FLOAT(w[4]), w[5].p, w[6].p,
            w[7].p, w[8].m, w[9].m);
}

static void add_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                     float offset, const void *a, const void *b, const void *weight,
                     const void *bias, void *sum, void *y, float *stat)
{
    PUT(ADD_NORM, I(kind), I(rows), I(n), D(eps), D(offset), P(a), P(b), P(weight), P(bias), P(sum),
        P(y), P(stat));
}

PLAY(add_norm)
{
    o->add_norm(c, (enum cs_norm)w[0].i, w[1].i, w[2].i, FLOAT(w[3]), FLOAT(w[4]), w[5].p, w[6].p,
                w[7].p, w[8].p, w[9].m, w[10].m, w[11].m);
}

static void norm_grad(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float offset,
                      const void *x, const void *weight, const float *stat, const void *dy,
                      const void *dx_in, void *dx, void *dw, void *db)
{
    PUT(NORM_GRAD, I(kind), I(rows), I(n), D(offset), P(x), P(weight), P(stat), P(dy), P(dx_in),
        P(dx), P(dw), P(db));
}

PLAY(norm_grad)
{
    o->norm_grad(c, (enum cs_norm)w[0].i, w[1].i, w[2].i, FLOAT(w[3]), w[4].p, w[5].p, w[6].p,
                 w[7].p, w[8].p, w[9].m, w[10].m, w[11].m);
}

static void norm_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n, float eps,
                       float offset, const void *x, int64_t ld_x, const void *weight,
                       const struct cs_norm_all *all, void *y, int64_t ld_y, float *stat)
{
    PUT(NORM_HEADS, I(rows), I(heads), I(n), D(eps), D(offset), P(x), I(ld_x), P(weight), P(y),
        I(ld_y), P(stat), I(all != NULL ? all->n : 0), P(all != NULL ? all->sum : NULL));
}

/* n 0: of no others */
static const struct cs_norm_all *all_of(words w, struct cs_norm_all *all)
{
    *all = (struct cs_norm_all){w[0].i, w[1].p};
    return all->n > 0 ? all : NULL;
}

PLAY(norm_heads)
{
    struct cs_norm_all all;
    o->norm_heads(c, w[0].i, INT32(w[1]), w[2].i, FLOAT(w[3]), FLOAT(w[4]), w[5].p, w[6].i, w[7].p,
                  all_of(w + 11, &all), w[8].m, w[9].i, w[10].m);
}

static void norm_heads_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                            float offset, const void *x, int64_t ld_x, const void *weight,
                            const float *stat, const struct cs_norm_all *all, const void *dy,
                            int64_t ld_dy, void *dx, int64_t ld_dx, int adds, void *dw)
{
    PUT(NORM_HEADS_GRAD, I(rows), I(heads), I(n), D(offset), P(x), I(ld_x), P(weight), P(stat),
        P(dy), I(ld_dy), P(dx), I(ld_dx), I(adds), P(dw), I(all != NULL ? all->n : 0),
        P(all != NULL ? all->sum : NULL));
}

PLAY(norm_heads_grad)
{
    struct cs_norm_all all;
    o->norm_heads_grad(c, w[0].i, INT32(w[1]), w[2].i, FLOAT(w[3]), w[4].p, w[5].i, w[6].p, w[7].p,
                       all_of(w + 14, &all), w[8].p, w[9].i, w[10].m, w[11].i, (int)w[12].i,
                       w[13].m);
}

static void norm_heads_sums(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                            float offset, const void *x, int64_t ld_x, const void *weight,
                            const float *stat, const void *dy, int64_t ld_dy, float *sum)
{
    PUT(NORM_HEADS_SUMS, I(rows), I(heads), I(n), D(offset), P(x), I(ld_x), P(weight), P(stat),
        P(dy), I(ld_dy), P(sum));
}

PLAY(norm_heads_sums)
{
    o->norm_heads_sums(c, w[0].i, INT32(w[1]), w[2].i, FLOAT(w[3]), w[4].p, w[5].i, w[6].p, w[7].p,
                       w[8].p, w[9].i, w[10].m);
}

static void scale_columns(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                          const void *weight, int32_t step, const void *residual, void *y)
{
    PUT(SCALE_COLUMNS, I(rows), I(n), P(x), P(weight), I(step), P(residual), P(y));
}

PLAY(scale_columns)
{
    o->scale_columns(c, w[0].i, w[1].i, w[2].p, w[3].p, INT32(w[4]), w[5].p, w[6].m);
}

static void scale_columns_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                                const void *dy, void *dw)
{
    PUT(SCALE_COLUMNS_WGRAD, I(rows), I(n), P(x), P(dy), P(dw));
}

PLAY(scale_columns_wgrad)
{
    o->scale_columns_wgrad(c, w[0].i, w[1].i, w[2].p, w[3].p, w[4].m);
}

static void rope(struct cs_ctx *ctx, int64_t rows, int32_t heads, int32_t head_dim, int32_t rot_dim,
                 int64_t ldx, void *x, const float *cos, const float *sin, int inverse)
{
    PUT(ROPE, I(rows), I(heads), I(head_dim), I(rot_dim), I(ldx), P(x), P(cos), P(sin), I(inverse));
}

PLAY(rope)
{
    o->rope(c, w[0].i, INT32(w[1]), INT32(w[2]), INT32(w[3]), w[4].i, w[5].m, w[6].p, w[7].p,
            (int)w[8].i);
}

static void act(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, void *y)
{
    PUT(ACT, I(kind), I(n), P(x), P(y));
}

PLAY(act)
{
    o->act(c, (enum cs_act)w[0].i, w[1].i, w[2].p, w[3].m);
}

static void act_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, const void *dy,
                     void *dx)
{
    PUT(ACT_GRAD, I(kind), I(n), P(x), P(dy), P(dx));
}

PLAY(act_grad)
{
    o->act_grad(c, (enum cs_act)w[0].i, w[1].i, w[2].p, w[3].p, w[4].m);
}

static void gated(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n, const void *gate,
                  const void *up, int64_t ld, void *y)
{
    PUT(GATED, I(kind), I(rows), I(n), P(gate), P(up), I(ld), P(y));
}

PLAY(gated)
{
    o->gated(c, (enum cs_act)w[0].i, w[1].i, w[2].i, w[3].p, w[4].p, w[5].i, w[6].m);
}

static void gated_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n,
                       const void *gate, const void *up, int64_t ld, const void *dy, void *dgate,
                       void *dup, int64_t ld_d)
{
    PUT(GATED_GRAD, I(kind), I(rows), I(n), P(gate), P(up), I(ld), P(dy), P(dgate), P(dup),
        I(ld_d));
}

PLAY(gated_grad)
{
    o->gated_grad(c, (enum cs_act)w[0].i, w[1].i, w[2].i, w[3].p, w[4].p, w[5].i, w[6].p, w[7].m,
                  w[8].m, w[9].i);
}

static void add(struct cs_ctx *ctx, int64_t n, const void *a, const void *b, void *y)
{
    PUT(ADD, I(n), P(a), P(b), P(y));
}

PLAY(add)
{
    o->add(c, w[0].i, w[1].p, w[2].p, w[3].m);
}

static void embed(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                  const void *table, float scale, void *y)
{
    PUT(EMBED, I(rows), I(n), P(ids), P(table), D(scale), P(y));
}

PLAY(embed)
{
    o->embed(c, w[0].i, w[1].i, w[2].p, w[3].p, FLOAT(w[4]), w[5].m);
}

static void embed_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                       const void *dy, float scale, void *dtable)
{
    PUT(EMBED_GRAD, I(rows), I(n), P(ids), P(dy), D(scale), P(dtable));
}

PLAY(embed_grad)
{
    o->embed_grad(c, w[0].i, w[1].i, w[2].p, w[3].p, FLOAT(w[4]), w[5].m);
}

static void gather_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                        const void *x, void *y)
{
    PUT(GATHER_ROWS, I(rows), I(n), P(index), P(x), P(y));
}

PLAY(gather_rows)
{
    o->gather_rows(c, w[0].i, w[1].i, w[2].p, w[3].p, w[4].m);
}

static void scatter_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                         const void *x, void *y, int is_added)
{
    PUT(SCATTER_ROWS, I(rows), I(n), P(index), P(x), P(y), I(is_added));
}

PLAY(scatter_rows)
{
    o->scatter_rows(c, w[0].i, w[1].i, w[2].p, w[3].p, w[4].m, (int)w[5].i);
}

static void linear_xent(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t vocab, const void *x,
                        const void *weight, const int32_t *labels, float softcap, double *loss,
                        double *row_loss, uint8_t *correct, void *dx, void *dw)
{
    PUT(LINEAR_XENT, I(rows), I(in), I(vocab), P(x), P(weight), P(labels), D(softcap), P(loss),
        P(row_loss), P(correct), P(dx), P(dw));
}

PLAY(linear_xent)
{
    o->linear_xent(c, w[0].i, w[1].i, w[2].i, w[3].p, w[4].p, w[5].p, FLOAT(w[6]), w[7].m, w[8].m,
                   w[9].m, w[10].m, w[11].m);
}

cs_tape_player *const cs_tape_layers_play[CS_TAPE_CALLS] = {
    [CS_TAPE_BIAS_ADD] = play_bias_add,
    [CS_TAPE_BIAS_GRAD] = play_bias_grad,
    [CS_TAPE_LINEAR] = play_linear,
    [CS_TAPE_LINEAR_DGRAD] = play_linear_dgrad,
    [CS_TAPE_LINEAR_WGRAD] = play_linear_wgrad,
    [CS_TAPE_NORM] = play_norm,
    [CS_TAPE_ADD_NORM] = play_add_norm,
    [CS_TAPE_NORM_GRAD] = play_norm_grad,
    [CS_TAPE_NORM_HEADS] = play_norm_heads,
    [CS_TAPE_NORM_HEADS_GRAD] = play_norm_heads_grad,
    [CS_TAPE_NORM_HEADS_SUMS] = play_norm_heads_sums,
    [CS_TAPE_SCALE_COLUMNS] = play_scale_columns,
    [CS_TAPE_SCALE_COLUMNS_WGRAD] = play_scale_columns_wgrad,
    [CS_TAPE_ROPE] = play_rope,
    [CS_TAPE_ACT] = play_act,
    [CS_TAPE_ACT_GRAD] = play_act_grad,
    [CS_TAPE_GATED] = play_gated,
    [CS_TAPE_GATED_GRAD] = play_gated_grad,
    [CS_TAPE_ADD] = play_add,
    [CS_TAPE_EMBED] = play_embed,
    [CS_TAPE_EMBED_GRAD] = play_embed_grad,
    [CS_TAPE_GATHER_ROWS] = play_gather_rows,
    [CS_TAPE_SCATTER_ROWS] = play_scatter_rows,
    [CS_TAPE_LINEAR_XENT] = play_linear_xent,
};

void cs_tape_layers(struct cs_ops *tape, const struct cs_ops *device)
{
    tape->bias_add = bias_add;
    tape->bias_grad = bias_grad;
    tape->linear = linear;
    tape->linear_dgrad = linear_dgrad;
    tape->linear_wgrad = linear_wgrad;
    tape->norm = norm;
    tape->add_norm = add_norm;
    tape->norm_grad = norm_grad;
    tape->norm_heads = norm_heads;
    tape->norm_heads_grad = norm_heads_grad;
    tape->norm_heads_sums = norm_heads_sums;
    tape->scale_columns = scale_columns;
    tape->scale_columns_wgrad = scale_columns_wgrad;
    tape->rope = rope;
    tape->act = act;
    tape->act_grad = act_grad;
    tape->gated = gated;
    tape->gated_grad = gated_grad;
    tape->add = add;
    tape->embed = embed;
    tape->embed_grad = embed_grad;
    tape->gather_rows = gather_rows;
    tape->scatter_rows = scatter_rows;
    tape->linear_xent = linear_xent;
    tape->linear_xent_workspace = device->linear_xent_workspace;
}
