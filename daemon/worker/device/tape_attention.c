/* Calls of attention on a tape: the structs it is given are written by value. */
#include <string.h>

#include "core/mask/cells.h"
#include "worker/device/tape_calls.h"

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

#define SHAPE_WORDS(s)                                                                             \
    I((s)->tokens), I((s)->heads), I((s)->kv_heads), I((s)->head_dim), I((s)->k_tokens),           \
        I((s)->q_stride), I((s)->kv_stride), I((s)->o_stride), D((s)->scale), D((s)->softcap),     \
        P((s)->sink), P((s)->dsink), I((s)->is_deterministic)
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
        SHAPE_WORDS(s),      I(m->rule.kind),     I(m->rule.window), I(m->rule.prefix),
        I(m->n_tokens),      P(m->doc),           P(m->pos),         P(m->item),
        P(m->word),          I(m->n_segments),    P(m->segment),     I(m->keys != NULL),
        I(m->cells != NULL), I(k->n_tokens),      P(k->doc),         P(k->pos),
        P(k->item),          P(k->word),          I(k->n_segments),  P(k->segment),
        I(c->n_q),           I(c->n_k),           P(c->q_row),       P(c->k_row),
        LIST_WORDS(c->by_q), LIST_WORDS(c->by_k), P(c->bits_q),      P(c->bits_k),
        I(c->bitmap_room),   P(c->n_bitmaps),     P(c->pairs),
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

static struct cs_attention_shape shape_of(words w)
{
    return (struct cs_attention_shape){.tokens = INT32(w[0]),
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
}

static void attention_of(words w, struct attention *a)
{
    a->shape = shape_of(w);
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

static void attention_merge(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                            int32_t n_parts, int64_t part_stride, const void *part_o,
                            const float *part_lse, void *o, float *lse)
{
    PUT(ATTENTION_MERGE, SHAPE_WORDS(shape), I(n_parts), I(part_stride), P(part_o), P(part_lse),
        P(o), P(lse));
}

PLAY(attention_merge)
{
    const struct cs_attention_shape shape = shape_of(w);
    w += SHAPE;
    o->attention_merge(c, &shape, INT32(w[0]), w[1].i, w[2].p, w[3].p, w[4].m, w[5].m);
}

cs_tape_player *const cs_tape_attention_play[CS_TAPE_CALLS] = {
    [CS_TAPE_ATTENTION] = play_attention,
    [CS_TAPE_ATTENTION_GRAD] = play_attention_grad,
    [CS_TAPE_ATTENTION_MERGE] = play_attention_merge,
};

void cs_tape_attention(struct cs_ops *tape, const struct cs_ops *device)
{
    tape->attention = attention;
    tape->attention_grad = attention_grad;
    tape->attention_merge = attention_merge;
    tape->attention_workspace = device->attention_workspace;
}
