/* Records calls of operators with their arguments, plays them, and says which arguments two records
 * share. */
#include "worker/device/tape_calls.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/mask/cells.h"

/* ---- writing ---- */

static union cs_tape_word *grow(struct cs_tape *tape, size_t n)
{
    if (tape->used + n > tape->room) {
        tape->room = 2 * tape->room > tape->used + n ? 2 * tape->room : tape->used + n + 1024;
        tape->word = realloc(tape->word, tape->room * sizeof *tape->word);
        CS_ASSERT(tape->word != NULL);
    }
    union cs_tape_word *out = tape->word + tape->used;
    tape->used += n;
    return out;
}

void cs_tape_put(const struct cs_ctx *ctx, enum cs_tape_call op, words word, size_t n)
{
    struct cs_tape *tape = ctx->handle;
    union cs_tape_word *out = grow(tape, HEAD + n);
    out[HEAD_OP].i = op;
    out[HEAD_WORDS].i = (int64_t)n;
    out[HEAD_SPACE].p = ctx->workspace;
    out[HEAD_BYTES].i = (int64_t)ctx->workspace_bytes;
    out[HEAD_GRAD].i = ctx->grad;
    out[HEAD_NEW].i = ctx->is_grad_new;
    memcpy(out + HEAD, word, n * sizeof *word);
    tape->n_calls++;
}

/* ---- operators: how each is written, and how it is played ---- */

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
                       float offset, const void *x, int64_t ld_x, const void *weight, void *y,
                       int64_t ld_y, float *stat)
{
    PUT(NORM_HEADS, I(rows), I(heads), I(n), D(eps), D(offset), P(x), I(ld_x), P(weight), P(y),
        I(ld_y), P(stat));
}

PLAY(norm_heads)
{
    o->norm_heads(c, w[0].i, INT32(w[1]), w[2].i, FLOAT(w[3]), FLOAT(w[4]), w[5].p, w[6].i, w[7].p,
                  w[8].m, w[9].i, w[10].m);
}

static void norm_heads_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                            float offset, const void *x, int64_t ld_x, const void *weight,
                            const float *stat, const void *dy, int64_t ld_dy, void *dx,
                            int64_t ld_dx, int adds, void *dw)
{
    PUT(NORM_HEADS_GRAD, I(rows), I(heads), I(n), D(offset), P(x), I(ld_x), P(weight), P(stat),
        P(dy), I(ld_dy), P(dx), I(ld_dx), I(adds), P(dw));
}

PLAY(norm_heads_grad)
{
    o->norm_heads_grad(c, w[0].i, INT32(w[1]), w[2].i, FLOAT(w[3]), w[4].p, w[5].i, w[6].p, w[7].p,
                       w[8].p, w[9].i, w[10].m, w[11].i, (int)w[12].i, w[13].m);
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

/* ---- attention: the structs it is given are written by value ---- */

/* A field that is added must be written below. */
_Static_assert(sizeof(struct cs_attention_shape) == 64, "shape of attention");
_Static_assert(sizeof(struct cs_mask_plan) == 80, "mask plan");
_Static_assert(sizeof(struct cs_mask_list) == 40, "lists of tiles");
_Static_assert(sizeof(struct cs_mask_cells) == 144, "cells of a mask");

enum { SHAPE = 13, MASK = 12, KEYS = 7, LISTS = 21, BEHIND = SHAPE + MASK + KEYS + LISTS };

struct attention {
    struct cs_attention_shape shape;
    struct cs_mask_plan mask, keys;
    struct cs_mask_cells cells;
};

#define LIST_WORDS(l) I((l).n), I((l).stride), P((l).count), P((l).entry), P((l).cell), P((l).order)

static void put_attention(const struct cs_ctx *ctx, enum cs_tape_call op,
                          const struct cs_attention_shape *s, const struct cs_mask_plan *m, words w,
                          size_t n)
{
    static const struct cs_mask_cells none;
    static const struct cs_mask_plan no_keys;
    const struct cs_mask_cells *c = m->cells != NULL ? m->cells : &none;
    const struct cs_mask_plan *k = m->keys != NULL ? m->keys : &no_keys;
    const union cs_tape_word by_value[] = {
        I(s->tokens),
        I(s->heads),
        I(s->kv_heads),
        I(s->head_dim),
        I(s->k_tokens),
        I(s->q_stride),
        I(s->kv_stride),
        I(s->o_stride),
        D(s->scale),
        D(s->softcap),
        P(s->sink),
        P(s->dsink),
        I(s->is_deterministic),
        I(m->rule.kind),
        I(m->rule.window),
        I(m->rule.prefix),
        I(m->n_tokens),
        P(m->doc),
        P(m->pos),
        P(m->item),
        P(m->word),
        I(m->n_segments),
        P(m->segment),
        I(m->keys != NULL),
        I(m->cells != NULL),
        I(k->n_tokens),
        P(k->doc),
        P(k->pos),
        P(k->item),
        P(k->word),
        I(k->n_segments),
        P(k->segment),
        I(c->n_q),
        I(c->n_k),
        P(c->q_row),
        P(c->k_row),
        LIST_WORDS(c->by_q),
        LIST_WORDS(c->by_k),
        P(c->bits_q),
        P(c->bits_k),
        I(c->bitmap_room),
        P(c->n_bitmaps),
        P(c->pairs),
    };
    union cs_tape_word all[BEHIND + 16];
    _Static_assert(CS_ARRAY_LEN(by_value) == BEHIND, "every field has a word");
    CS_ASSERT(n <= 16);
    memcpy(all, by_value, sizeof by_value);
    memcpy(all + BEHIND, w, n * sizeof *w);
    cs_tape_put(ctx, op, all, BEHIND + n);
}

static struct cs_mask_list list_of(words w)
{
    return (struct cs_mask_list){.n = INT32(w[0]),
                                 .stride = INT32(w[1]),
                                 .count = w[2].m,
                                 .entry = w[3].m,
                                 .cell = w[4].m,
                                 .order = w[5].m};
}

static void attention_of(words w, struct attention *a)
{
    a->shape = (struct cs_attention_shape){.tokens = INT32(w[0]),
                                           .heads = INT32(w[1]),
                                           .kv_heads = INT32(w[2]),
                                           .head_dim = INT32(w[3]),
                                           .k_tokens = INT32(w[4]),
                                           .q_stride = INT32(w[5]),
                                           .kv_stride = INT32(w[6]),
                                           .o_stride = INT32(w[7]),
                                           .scale = FLOAT(w[8]),
                                           .softcap = FLOAT(w[9]),
                                           .sink = w[10].p,
                                           .dsink = w[11].m,
                                           .is_deterministic = w[12].i != 0};
    w += SHAPE;
    a->mask = (struct cs_mask_plan){
        .rule = {(enum cs_mask_kind)w[0].i, INT32(w[1]), INT32(w[2])},
        .n_tokens = INT32(w[3]),
        .doc = w[4].p,
        .pos = w[5].p,
        .item = w[6].p,
        .word = w[7].p,
        .n_segments = INT32(w[8]),
        .segment = w[9].p,
        .keys = w[10].i != 0 ? &a->keys : NULL,
        .cells = w[11].i != 0 ? &a->cells : NULL
    };
    w += MASK;
    a->keys = (struct cs_mask_plan){.n_tokens = INT32(w[0]),
                                    .doc = w[1].p,
                                    .pos = w[2].p,
                                    .item = w[3].p,
                                    .word = w[4].p,
                                    .n_segments = INT32(w[5]),
                                    .segment = w[6].p};
    w += KEYS;
    a->cells = (struct cs_mask_cells){.n_q = INT32(w[0]),
                                      .n_k = INT32(w[1]),
                                      .q_row = w[2].p,
                                      .k_row = w[3].p,
                                      .by_q = list_of(w + 4),
                                      .by_k = list_of(w + 10),
                                      .bits_q = w[16].m,
                                      .bits_k = w[17].m,
                                      .bitmap_room = INT32(w[18]),
                                      .n_bitmaps = w[19].m,
                                      .pairs = w[20].m};
}

static void attention(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                      const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                      void *o, float *lse)
{
    put_attention(ctx, CS_TAPE_ATTENTION, shape, mask, LIST(P(q), P(k), P(v), P(o), P(lse)), 5);
}

PLAY(attention)
{
    struct attention a;
    attention_of(w, &a);
    w += BEHIND;
    o->attention(c, &a.shape, &a.mask, w[0].p, w[1].p, w[2].p, w[3].m, w[4].m);
}

static void attention_grad(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                           const struct cs_mask_plan *mask, const void *q, const void *k,
                           const void *v, const void *o, const float *lse, const void *d_o,
                           void *dq, void *dk, void *dv)
{
    put_attention(ctx, CS_TAPE_ATTENTION_GRAD, shape, mask,
                  LIST(P(q), P(k), P(v), P(o), P(lse), P(d_o), P(dq), P(dk), P(dv)), 9);
}

PLAY(attention_grad)
{
    struct attention a;
    attention_of(w, &a);
    w += BEHIND;
    o->attention_grad(c, &a.shape, &a.mask, w[0].p, w[1].p, w[2].p, w[3].p, w[4].p, w[5].p, w[6].m,
                      w[7].m, w[8].m);
}

/* ---- memory ---- */

static enum cs_status copy(void *handle, void *stream, void *to, const void *from, size_t bytes,
                           struct cs_err *err)
{
    const struct cs_ctx own = {.handle = handle}, *ctx = &own;
    (void)stream;
    (void)err;
    PUT(COPY, P(to), P(from), I(bytes));
    return CS_OK;
}

static enum cs_status fill(void *handle, void *stream, void *p, int byte, size_t bytes,
                           struct cs_err *err)
{
    const struct cs_ctx own = {.handle = handle}, *ctx = &own;
    (void)stream;
    if (byte != 0)
        return cs_fail(err, CS_INTERNAL, "only zeros are written on a tape");
    PUT(FILL, P(p), I(bytes));
    return CS_OK;
}

/* ---- the tape ---- */

void cs_tape_open(struct cs_tape *tape, struct cs_device *device)
{
    *tape = (struct cs_tape){.device = device};
    tape->mem = (struct cs_device_ops){.version = CS_DEVICE_VERSION, .copy = copy, .fill = fill};
    tape->ops = (struct cs_ops){
        .version = CS_OPS_VERSION,
        .name = "tape",
        .act_bytes = device->ops->act_bytes,
        .bias_add = bias_add,
        .bias_grad = bias_grad,
        .linear = linear,
        .linear_dgrad = linear_dgrad,
        .linear_wgrad = linear_wgrad,
        .norm = norm,
        .add_norm = add_norm,
        .norm_grad = norm_grad,
        .norm_heads = norm_heads,
        .norm_heads_grad = norm_heads_grad,
        .scale_columns = scale_columns,
        .scale_columns_wgrad = scale_columns_wgrad,
        .rope = rope,
        .act = act,
        .act_grad = act_grad,
        .gated = gated,
        .gated_grad = gated_grad,
        .add = add,
        .embed = embed,
        .embed_grad = embed_grad,
        .gather_rows = gather_rows,
        .scatter_rows = scatter_rows,
        .attention = attention,
        .attention_grad = attention_grad,
        .attention_workspace = device->ops->attention_workspace,
        .linear_xent = linear_xent,
        .linear_xent_workspace = device->ops->linear_xent_workspace,
        .device = &tape->mem,
    };
    cs_tape_parts(&tape->ops);
    cs_tape_recurrent(&tape->ops, device->ops);
    cs_tape_front(&tape->ops);
    tape->recorder = *device;
    tape->recorder.ops = &tape->ops;
    tape->recorder.mem = &tape->mem;
    tape->recorder.handle = tape;
}

void cs_tape_close(struct cs_tape *tape)
{
    free(tape->word);
    *tape = (struct cs_tape){.word = NULL};
}

struct cs_ctx cs_tape_ctx(struct cs_tape *tape)
{
    return cs_device_ctx(&tape->recorder);
}

struct cs_tape_mark cs_tape_mark(const struct cs_tape *tape)
{
    return (struct cs_tape_mark){tape->used, tape->n_calls};
}

void cs_tape_clear(struct cs_tape *tape)
{
    tape->used = 0;
    tape->n_calls = 0;
}

void cs_tape_append(struct cs_tape *tape, const struct cs_tape *other, struct cs_tape_mark from,
                    struct cs_tape_mark to)
{
    const size_t n = to.word - from.word;
    CS_ASSERT(tape != other);
    if (n > 0)
        memcpy(grow(tape, n), other->word + from.word, n * sizeof *tape->word);
    tape->n_calls += to.n_calls - from.n_calls;
}

void cs_tape_hash(const struct cs_tape *tape, struct cs_tape_mark from, struct cs_tape_mark to,
                  char out[33])
{
    cs_xxh3_128_hex(tape->word + from.word, (to.word - from.word) * sizeof *tape->word, out);
}

static void play_call(const struct cs_tape *tape, words head)
{
    static cs_tape_player *const play[CS_TAPE_CALLS] = {
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
        [CS_TAPE_ATTENTION] = play_attention,
        [CS_TAPE_ATTENTION_GRAD] = play_attention_grad,
        [CS_TAPE_LINEAR_XENT] = play_linear_xent,
    };
    struct cs_device *d = tape->device;
    const enum cs_tape_call op = (enum cs_tape_call)head[HEAD_OP].i;
    words w = head + HEAD;
    if (op == CS_TAPE_COPY) {
        cs_device_copy(d, w[0].m, w[1].p, (size_t)w[2].i);
    } else if (op == CS_TAPE_FILL) {
        cs_device_zero(d, w[0].m, (size_t)w[1].i);
    } else {
        struct cs_ctx ctx = cs_device_ctx(d);
        ctx.workspace = head[HEAD_SPACE].m;
        ctx.workspace_bytes = (size_t)head[HEAD_BYTES].i;
        ctx.grad = (enum cs_grad_type)head[HEAD_GRAD].i;
        ctx.is_grad_new = (int)head[HEAD_NEW].i;
        cs_tape_player *const *const tables[] = {play, cs_tape_parts_play, cs_tape_recurrent_play,
                                                 cs_tape_front_play};
        size_t t = 0;
        while (tables[t][op] == NULL)
            t++;
        tables[t][op](d->ops, &ctx, w);
    }
}

void cs_tape_play(const struct cs_tape *tape, struct cs_tape_mark from, struct cs_tape_mark to)
{
    for (size_t at = from.word; at < to.word; at += HEAD + (size_t)tape->word[at + HEAD_WORDS].i)
        play_call(tape, tape->word + at);
}
