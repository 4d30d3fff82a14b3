/* Queries, keys and values between the product that makes them and attention: norms of heads, and
 * rotation. Without norms they turn where they lie; with norms what the product made is kept, and what
 * attention reads is made of it both ways. */
#ifndef CS_WORKER_MODEL_HEADS_H
#define CS_WORKER_MODEL_HEADS_H

#include "worker/model/halves/halves.h"

struct cs_head_dims {
    int64_t q, kv; /* columns of queries; of keys, and of values */
    int64_t made;  /* of what the product makes: q + 2 kv, or q + kv where keys are values too */
    int64_t all;   /* q + 2 kv */
};

struct cs_head_dims cs_head_dims(const struct cs_layer_model *l);
/* which of tables->mask, and the slot's */
int32_t cs_mask_index(const struct cs_run *run, const struct cs_layer_model *l);
const struct cs_mask_plan *cs_mask_of(const struct cs_run *run, const struct cs_layer_model *l);

/* Queries (rows, heads, head_dim), keys and values (rows, kv_heads, head_dim), as shape says; float
 * arrays are statistics of norms, NULL: there is none. */
struct cs_heads {
    struct cs_attention_shape shape;
    void *q, *k, *v;
    float *q_stat, *k_stat, *v_stat;
};

/* Where attention's gradients go; they lie like what they are of. */
struct cs_head_grads {
    void *q, *k, *v;
};

/* qkv (rows, made), as the product made it, turns in place; with norms of heads nothing happens. */
void cs_heads_turn(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, void *qkv);
/* what attention reads, of qkv after cs_heads_turn */
struct cs_heads cs_heads_of(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                            void *qkv);
/* of queries and keys that lie in q (rows, q + 2 kv), values where v begins in their place */
struct cs_heads cs_heads_at(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                            void *q, void *v);
struct cs_head_grads cs_head_grads(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                                   void *dqkv);
/* dqkv (rows, made) and the gradients of the norms' weights, once attention has filled `grads` */
void cs_heads_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, const void *qkv,
                  const struct cs_heads *heads, const struct cs_head_grads *grads, void *dqkv);

#endif
