/* How calls stand on a tape: what tape.c and the files of operators share. Each operator is written
 * by a function with its own signature and played by another. */
#ifndef CS_WORKER_DEVICE_TAPE_CALLS_H
#define CS_WORKER_DEVICE_TAPE_CALLS_H

#include "worker/device/tape.h"

union cs_tape_word {
    int64_t i;
    double d;
    const void *p;
    void *m;
};

_Static_assert(sizeof(union cs_tape_word) == 8, "a word has no padding: hashes are of bytes");

typedef const union cs_tape_word *words;

/* in front of the words of a call: which, how many words follow, and its context */
enum { HEAD_OP, HEAD_WORDS, HEAD_SPACE, HEAD_BYTES, HEAD_GRAD, HEAD_NEW, HEAD };

enum cs_tape_call {
    CS_TAPE_BIAS_ADD,
    CS_TAPE_BIAS_GRAD,
    CS_TAPE_LINEAR,
    CS_TAPE_LINEAR_DGRAD,
    CS_TAPE_LINEAR_WGRAD,
    CS_TAPE_NORM,
    CS_TAPE_ADD_NORM,
    CS_TAPE_NORM_GRAD,
    CS_TAPE_NORM_HEADS,
    CS_TAPE_NORM_HEADS_GRAD,
    CS_TAPE_NORM_HEADS_SUMS,
    CS_TAPE_SCALE_COLUMNS,
    CS_TAPE_SCALE_COLUMNS_WGRAD,
    CS_TAPE_ROPE,
    CS_TAPE_ACT,
    CS_TAPE_ACT_GRAD,
    CS_TAPE_GATED,
    CS_TAPE_GATED_GRAD,
    CS_TAPE_ADD,
    CS_TAPE_EMBED,
    CS_TAPE_EMBED_GRAD,
    CS_TAPE_GATHER_ROWS,
    CS_TAPE_SCATTER_ROWS,
    CS_TAPE_MIX_ROWS,
    CS_TAPE_MIX_ROWS_GRAD,
    CS_TAPE_UNFOLD,
    CS_TAPE_FOLD,
    CS_TAPE_PATCHES,
    CS_TAPE_ATTENTION,
    CS_TAPE_ATTENTION_GRAD,
    CS_TAPE_ATTENTION_MERGE,
    CS_TAPE_LINEAR_XENT,
    CS_TAPE_XENT_PART,
    CS_TAPE_XENT_JOIN,
    CS_TAPE_XENT_PART_GRAD,
    CS_TAPE_GEMM,
    CS_TAPE_GEMM_WGRAD,
    CS_TAPE_DELTA,
    CS_TAPE_DELTA_GRAD,
    CS_TAPE_DELTA_PASS,
    CS_TAPE_DELTA_JOIN,
    CS_TAPE_DELTA_GATE,
    CS_TAPE_DELTA_GATE_GRAD,
    CS_TAPE_SHORT_CONV,
    CS_TAPE_SHORT_CONV_GRAD,
    CS_TAPE_COPY_HEADS,
    CS_TAPE_ADD_HEADS,
    CS_TAPE_SCALE_ROWS,
    CS_TAPE_SCALE_ROWS_GRAD,
    CS_TAPE_SUM_ROWS,
    CS_TAPE_MOE_ROUTE,
    CS_TAPE_MOE_LOAD,
    CS_TAPE_MOE_ROUTE_GRAD,
    CS_TAPE_ADD_COUNTS,
    CS_TAPE_MOE_LINEAR,
    CS_TAPE_MOE_LINEAR_DGRAD,
    CS_TAPE_MOE_LINEAR_WGRAD,
    CS_TAPE_COPY,
    CS_TAPE_FILL,
    CS_TAPE_CALLS
};

/* Room for n more words at the end. */
union cs_tape_word *cs_tape_grow(struct cs_tape *tape, size_t n);
void cs_tape_put(const struct cs_ctx *ctx, enum cs_tape_call op, words word, size_t n);

#define LIST(...) ((const union cs_tape_word[]){__VA_ARGS__})
#define PUT(op, ...)                                                                               \
    cs_tape_put(ctx, CS_TAPE_##op, LIST(__VA_ARGS__), sizeof(LIST(__VA_ARGS__)) / 8)
#define I(v)                                                                                       \
    {                                                                                              \
        .i = (int64_t)(v)                                                                          \
    }
#define D(v)                                                                                       \
    {                                                                                              \
        .d = (double)(v)                                                                           \
    } /* a float comes back as it was */
#define P(v)                                                                                       \
    {                                                                                              \
        .p = (v)                                                                                   \
    }
#define FLOAT(w)   ((float)(w).d)
#define INT32(w)   ((int32_t)(w).i)
#define PLAY(name) static void play_##name(const struct cs_ops *o, struct cs_ctx *c, words w)

typedef void cs_tape_player(const struct cs_ops *o, struct cs_ctx *c, words w);

/* Of a file of operators: how its calls are played, NULL for those of the others; its operators into the
 * table of a tape, questions about them go to the device's. */
extern cs_tape_player *const cs_tape_layers_play[CS_TAPE_CALLS]; /* tape_layers.c */
void cs_tape_layers(struct cs_ops *tape, const struct cs_ops *device);
extern cs_tape_player *const cs_tape_attention_play[CS_TAPE_CALLS]; /* tape_attention.c */
void cs_tape_attention(struct cs_ops *tape, const struct cs_ops *device);
extern cs_tape_player *const cs_tape_parts_play[CS_TAPE_CALLS]; /* tape_parts.c */
void cs_tape_parts(struct cs_ops *tape);
extern cs_tape_player *const cs_tape_recurrent_play[CS_TAPE_CALLS]; /* tape_recurrent.c */
void cs_tape_recurrent(struct cs_ops *tape, const struct cs_ops *device);
extern cs_tape_player *const cs_tape_front_play[CS_TAPE_CALLS]; /* tape_front.c */
void cs_tape_front(struct cs_ops *tape);

#endif
