/* Calls of recurrent layers on a tape, written down and played here as in tape.c. Of a mask they read the
 * documents. */
#include "worker/device/tape_calls.h"

/* A field that is added must be written below. */
_Static_assert(sizeof(struct cs_delta_shape) == 48, "shape of the delta rule");
_Static_assert(sizeof(struct cs_delta_pass) == 24, "results of a part of a document");

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

/* rows that are whole documents are a part without neighbours */
static void delta_part(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const float *state, void *o)
{
    PUT(DELTA, DOCUMENT_WORDS(mask), DELTA_WORDS(shape), DELTA_IN_WORDS(in), P(state), P(o));
}

static void delta(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                  const struct cs_mask_plan *mask, const struct cs_delta_in *in, void *o)
{
    delta_part(ctx, shape, mask, in, NULL, o);
}

PLAY(delta)
{
    const struct cs_mask_plan mask = documents_of(w);
    const struct cs_delta_shape shape = delta_shape_of(w + DOCUMENTS);
    const struct cs_delta_in in = delta_in_of(w + DOCUMENTS + DELTA_SHAPE);
    w += DOCUMENTS + DELTA_SHAPE + DELTA_IN;
    o->delta_part(c, &shape, &mask, &in, w[0].p, w[1].m);
}

static void delta_part_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                            const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                            const float *state, const float *d_state, const void *d_o,
                            const struct cs_delta_out *out)
{
    PUT(DELTA_GRAD, DOCUMENT_WORDS(mask), DELTA_WORDS(shape), DELTA_IN_WORDS(in), P(state),
        P(d_state), P(d_o), P(out->dq), P(out->dk), P(out->dv), P(out->dg), P(out->dbeta));
}

static void delta_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const void *d_o, const struct cs_delta_out *out)
{
    delta_part_grad(ctx, shape, mask, in, NULL, NULL, d_o, out);
}

PLAY(delta_grad)
{
    const struct cs_mask_plan mask = documents_of(w);
    const struct cs_delta_shape shape = delta_shape_of(w + DOCUMENTS);
    const struct cs_delta_in in = delta_in_of(w + DOCUMENTS + DELTA_SHAPE);
    w += DOCUMENTS + DELTA_SHAPE + DELTA_IN;
    const struct cs_delta_out out = {w[3].m, w[4].m, w[5].m, w[6].m, w[7].m};
    o->delta_part_grad(c, &shape, &mask, &in, w[0].p, w[1].p, w[2].p, &out);
}

static void delta_pass(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const void *d_o, const struct cs_delta_pass *out)
{
    PUT(DELTA_PASS, DOCUMENT_WORDS(mask), DELTA_WORDS(shape), DELTA_IN_WORDS(in), P(d_o),
        P(out->map), P(out->state), P(out->d_state));
}

PLAY(delta_pass)
{
    const struct cs_mask_plan mask = documents_of(w);
    const struct cs_delta_shape shape = delta_shape_of(w + DOCUMENTS);
    const struct cs_delta_in in = delta_in_of(w + DOCUMENTS + DELTA_SHAPE);
    w += DOCUMENTS + DELTA_SHAPE + DELTA_IN;
    const struct cs_delta_pass out = {w[1].m, w[2].m, w[3].m};
    o->delta_pass(c, &shape, &mask, &in, w[0].p, &out);
}

static void delta_join(struct cs_ctx *ctx, const struct cs_delta_shape *shape, const float *map,
                       bool is_transposed, const float *add, float *state)
{
    PUT(DELTA_JOIN, DELTA_WORDS(shape), P(map), I(is_transposed), P(add), P(state));
}

PLAY(delta_join)
{
    const struct cs_delta_shape shape = delta_shape_of(w);
    w += DELTA_SHAPE;
    o->delta_join(c, &shape, w[0].p, w[1].i != 0, w[2].p, w[3].m);
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

cs_tape_player *const cs_tape_recurrent_play[CS_TAPE_CALLS] = {
    [CS_TAPE_DELTA] = play_delta,           [CS_TAPE_DELTA_GRAD] = play_delta_grad,
    [CS_TAPE_DELTA_PASS] = play_delta_pass, [CS_TAPE_DELTA_JOIN] = play_delta_join,
    [CS_TAPE_DELTA_GATE] = play_delta_gate, [CS_TAPE_DELTA_GATE_GRAD] = play_delta_gate_grad,
    [CS_TAPE_SHORT_CONV] = play_short_conv, [CS_TAPE_SHORT_CONV_GRAD] = play_short_conv_grad,
};

void cs_tape_recurrent(struct cs_ops *tape, const struct cs_ops *device)
{
    tape->delta = delta;
    tape->delta_grad = delta_grad;
    tape->delta_part = delta_part;
    tape->delta_part_grad = delta_part_grad;
    tape->delta_pass = delta_pass;
    tape->delta_join = delta_join;
    tape->delta_gate = delta_gate;
    tape->delta_gate_grad = delta_gate_grad;
    tape->delta_workspace = device->delta_workspace;
    tape->short_conv = short_conv;
    tape->short_conv_grad = short_conv_grad;
}
