/* Recurrent blocks of a model: the gated delta rule behind a short convolution (Qwen3.5, Qwen3-Next).
 *
 * One product makes of every row, side by side: queries and keys of n_key_heads heads, values of
 * n_heads heads, the gate z of the output, then strengths b and decays a of every head of values.
 * Source: Qwen3_5GatedDeltaNet of transformers 5. */
#ifndef CS_MODEL_RECURRENT_H
#define CS_MODEL_RECURRENT_H

#include <stdint.h>

struct cs_recurrent {
    int32_t n_heads, n_key_heads; /* of values; of queries and keys, which divides n_heads */
    int32_t key_dim, value_dim;   /* of one head */
    int32_t taps;                 /* of the convolution */
};

enum { CS_RECURRENT_MAX_DIM = 256, CS_RECURRENT_MAX_TAPS = 8, CS_RECURRENT_CHUNK = 64 };

/* columns: of all queries (of all keys), of all values, of what the convolution sees, of the product */
static inline int64_t cs_recurrent_key_width(const struct cs_recurrent *r)
{
    return (int64_t)r->n_key_heads * r->key_dim;
}

static inline int64_t cs_recurrent_value_width(const struct cs_recurrent *r)
{
    return (int64_t)r->n_heads * r->value_dim;
}

static inline int64_t cs_recurrent_conv_width(const struct cs_recurrent *r)
{
    return 2 * cs_recurrent_key_width(r) + cs_recurrent_value_width(r);
}

static inline int64_t cs_recurrent_product_width(const struct cs_recurrent *r)
{
    return cs_recurrent_conv_width(r) + cs_recurrent_value_width(r) + 2 * (int64_t)r->n_heads;
}

#endif
