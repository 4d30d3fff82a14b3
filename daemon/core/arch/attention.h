/* Attention as one kind of layer does it: heads, rotation, who sees whom. A model has a small table
 * of kinds (struct cs_arch) and every block names its own: full and sliding layers of one model
 * differ in the rule, later ones in rotation and head size too. Encoders are described the same way.
 *
 * Which kinds there are is read from the config.json (attention.c, rope.c); the job's mask then
 * takes the place of the causal rule (graph.c). */
#ifndef CS_MODEL_ATTENTION_H
#define CS_MODEL_ATTENTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/mask/rule.h"

/* Which position of a row turns a pair (i, i + dims / 2) of a head. */
enum cs_rope_axes {
    CS_ROPE_LINE,        /* the one that there is */
    CS_ROPE_SECTIONS,    /* of time, height and width: section[0] pairs each, one after the other */
    CS_ROPE_INTERLEAVED, /* the same in turn, as far as 3 section[axis]; the rest of time */
    CS_ROPE_HALVES,      /* height the first half, width the second, the same frequencies in both */
    CS_ROPE_ALTERNATE,   /* the same halves, of frequencies that they take in turn */
    CS_ROPE_APART /* width turns the first half of the head, height the second, each as a head of its own */
};

enum cs_rope_kind {
    CS_ROPE_NONE,
    CS_ROPE_DEFAULT,
    CS_ROPE_LINEAR,
    CS_ROPE_DYNAMIC,
    CS_ROPE_LLAMA3,
    CS_ROPE_YARN,
    CS_ROPE_LONGROPE,
    CS_ROPE_PROPORTIONAL
};

/* The meaning of the numbers by kind: rope_freq.c. */
struct cs_rope {
    enum cs_rope_kind kind;
    enum cs_rope_axes axes;
    int32_t dims; /* first elements of a head that turn, even; the rest stays */
    double theta, factor, low_freq, high_freq;
    int32_t original_positions;
    bool is_truncated;   /* YaRN: its bounds are whole */
    double share;        /* proportional: of the pairs that turn */
    double amplitude;    /* cosine and sine are multiplied with it; 0: 1 */
    double query_growth; /* queries are multiplied with cs_rope_query_scale; 0: they are not */
    int32_t section[3];
    const float *divisor,
        *long_divisor; /* LongRoPE: (dims / 2), in the arena of the architecture */
};

/* Encoders: rows see each other inside of these, as their rule says. */
enum cs_inside { CS_INSIDE_ITEM, CS_INSIDE_FRAME, CS_INSIDE_WINDOW, CS_INSIDES };

struct cs_attention {
    int32_t n_heads, n_kv_heads, head_dim;
    float scale;   /* of the scores: 1 / sqrt(head_dim), or of what the family has instead */
    float softcap; /* scores become c tanh(s / c); 0: none */
    struct cs_rope rope;
    struct cs_mask_rule rule;
    bool
        is_k_eq_v; /* values are the keys as the product made them: there is no tensor for values */
    enum cs_inside inside;
    int32_t window_rows; /* of a window of CS_INSIDE_WINDOW */
};

enum { CS_ATTENTIONS = 4 }; /* kinds of one model */

/* columns of the queries of all heads, and of the keys (the values) of all */
static inline int64_t cs_attention_q_width(const struct cs_attention *a)
{
    return (int64_t)a->n_heads * a->head_dim;
}

static inline int64_t cs_attention_kv_width(const struct cs_attention *a)
{
    return (int64_t)a->n_kv_heads * a->head_dim;
}

/* columns of what one product makes: queries, keys and, unless keys serve for both, values */
static inline int64_t cs_attention_made_width(const struct cs_attention *a)
{
    return cs_attention_q_width(a) + (a->is_k_eq_v ? 1 : 2) * cs_attention_kv_width(a);
}

/* Both make the same tables and the same lists of tiles. */
bool cs_rope_is_same(const struct cs_rope *a, const struct cs_rope *b);
bool cs_mask_rule_is_same(struct cs_mask_rule a, struct cs_mask_rule b);
/* inv_freq (dims / 2) fp32, computed in fp64: the frequency of every pair, APART first those of the
 * head's first half */
void cs_rope_inv_freq(const struct cs_rope *rope, float *inv_freq);
/* those of documents of that many rows, more than original_positions; false: they have no others */
bool cs_rope_inv_freq_long(const struct cs_rope *rope, int32_t n_rows, float *inv_freq);
/* The position that turns a pair: 0 the one of a line or time, 1 height, 2 width. */
int cs_rope_axis(const struct cs_rope *rope, int32_t pair);
/* What queries of that position are multiplied with. */
double cs_rope_query_scale(const struct cs_rope *rope, int32_t position);

#endif
