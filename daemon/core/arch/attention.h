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

/* One dimension, pairs (i, i + dims / 2) of a head turn; rotations over a grid are kinds to come. */
enum cs_rope_kind { CS_ROPE_NONE, CS_ROPE_DEFAULT, CS_ROPE_LINEAR, CS_ROPE_LLAMA3 };

struct cs_rope {
    enum cs_rope_kind kind;
    int32_t dims; /* first elements of a head that turn, even; the rest stays */
    double theta, factor, low_freq, high_freq;
    int32_t original_positions;
};

struct cs_attention {
    int32_t n_heads, n_kv_heads, head_dim;
    float scale;   /* of the scores: 1 / sqrt(head_dim) */
    float softcap; /* scores become c tanh(s / c); 0: none */
    struct cs_rope rope;
    struct cs_mask_rule rule;
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

/* Both make the same tables and the same lists of tiles. */
bool cs_rope_is_same(const struct cs_rope *a, const struct cs_rope *b);
bool cs_mask_rule_is_same(struct cs_mask_rule a, struct cs_mask_rule b);
/* inv_freq (dims / 2) fp32, computed in fp64 */
void cs_rope_inv_freq(const struct cs_rope *rope, float *inv_freq);

#endif
