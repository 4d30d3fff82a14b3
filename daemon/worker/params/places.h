/* Where the parameters of a rank lie in its two blocks of memory: their order, the buckets, and what is
 * whole, own, or whole for a while (params.h). Private to this folder. */
#ifndef CS_WORKER_PARAMS_PLACES_H
#define CS_WORKER_PARAMS_PLACES_H

#include "worker/params/params.h"

/* One parameter's place. Trainable ones are at the same place in weights and gradients, frozen ones
 * behind them, in weights only. */
struct cs_place {
    int32_t shard; /* index in params->shard */
    int64_t at;
};

struct cs_places {
    struct cs_params *params;
    const struct cs_plan *plan;
    int rank;
    bool splits_backward;   /* the plan's schedule */
    struct cs_place *place; /* (params->n) */
    bool *is_placed;        /* (params->n) */
    int32_t n;
    int64_t at;                      /* elements of weights so far */
    int64_t n_trained_own;           /* elements of own parts of all trained buckets */
    int64_t n_in_buckets;            /* of all buckets, whole */
    int64_t *layer_bytes, *layer_at; /* (graph->n_layers + 1) room for arrange.c */
    int64_t n_tied;        /* elements of the head's gradient of a tied table that is here */
    size_t weights, grads; /* bytes: behind those of buckets; of all gradients */
};

int cs_params_group(const struct cs_param *param); /* whom one product reads it with, 0: nobody */
/* the head's entry of a tied embedding whose weights are here as the embedding's */
bool cs_places_is_view(const struct cs_params *p, const struct cs_shard *t);
/* Kept in bf16 for the sake of memory: the head adds to the embedding's gradient where both are on
 * this rank. */
bool cs_places_share_tied_grad(const struct cs_params *p);

/* made.c: when a gradient of a slot is complete; is_split: the schedule splits backwards */
enum cs_made cs_places_made(const struct cs_params *p, const struct cs_shard *t, bool is_split);
/* All entries get their places, in params->shard and buckets; place and is_placed: room for all. */
void cs_places_plan(struct cs_places *places);
/* Bytes of the blocks (params->weight_bytes, grad_bytes, state_bytes), and where buckets lie. */
void cs_places_measure(struct cs_places *places);
/* Pointers into the blocks, which are there now. */
void cs_places_assign(const struct cs_places *places);

#endif
