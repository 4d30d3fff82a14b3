/* Divides the two blocks of a rank's parameters: weights; gradients with what the optimizer keeps.
 *
 *   weights   buckets, whole or own parts; other frozen ones; buffers for what is whole for a while
 *   state     gradients: of buckets, whole or own parts; the head's of a tied table; buffers
 *             then own parts of all trained buckets: first moments, second ones, masters */
#include "core/plan/cost/stage/zero.h"
#include "worker/params/places.h"

static int64_t own_of(const struct cs_params *p, const struct cs_bucket *b)
{
    return b->n / p->holders[b->held].n;
}

/* Lays out one of the blocks: what stays of a bucket, from *at on. */
static void stay(const struct cs_params *p, const struct cs_bucket *b, bool is_divided, size_t size,
                 size_t *at, size_t *whole, size_t *own)
{
    const size_t part = (size_t)own_of(p, b) * size;
    *whole = *at;
    *own = is_divided ? *at : *at + part * (size_t)p->holders[b->held].at;
    *at += is_divided ? part : (size_t)b->n * size;
}

static bool is_for_a_while(const struct cs_bucket *b, bool is_grads)
{
    return b->zero >= (is_grads ? 2 : 3);
}

/* elements of buckets of the same layer before this one */
static int64_t before(const struct cs_params *p, int32_t bucket, bool is_grads)
{
    int64_t n = 0;
    for (int32_t i = 0; i < bucket; i++)
        if (p->bucket[i].first_layer == p->bucket[bucket].first_layer &&
            is_for_a_while(&p->bucket[i], is_grads))
            n += p->bucket[i].n;
    return n;
}

/* Buffers of weights behind *at, each as large as the largest layer that uses it. */
static void take_turns(struct cs_params *p, size_t size, size_t *at)
{
    for (int32_t turn = 0; turn < p->n_turns; turn++) {
        size_t most = 0;
        for (int32_t i = 0; i < p->n_all_buckets; i++) {
            struct cs_bucket *b = &p->bucket[i];
            if (!is_for_a_while(b, false) || cs_params_turn(p, b->first_layer) != turn)
                continue;
            const size_t skip = (size_t)before(p, i, false) * size;
            b->w = *at + skip;
            most = skip + (size_t)b->n * size > most ? skip + (size_t)b->n * size : most;
        }
        *at += most;
    }
}

/* Gradients share as much memory, each layer where it waits for none that has just been made. */
static void share_room(struct cs_places *a, size_t size, size_t *at)
{
    struct cs_params *p = a->params;
    const int32_t n = p->graph->n_layers;
    int64_t *const bytes = a->layer_bytes, *const place = a->layer_at;
    for (int32_t l = 0; l < n; l++)
        bytes[l] = 0;
    for (int32_t i = 0; i < p->n_buckets; i++)
        if (is_for_a_while(&p->bucket[i], true))
            bytes[p->bucket[i].first_layer] += p->bucket[i].n * (int64_t)size;
    const int64_t room = cs_zero_room(bytes, n, p->n_turns);
    cs_zero_places(bytes, n, room, place);
    for (int32_t i = 0; i < p->n_buckets; i++) {
        struct cs_bucket *b = &p->bucket[i];
        if (is_for_a_while(b, true))
            b->grad = *at + (size_t)place[b->first_layer] + (size_t)before(p, i, true) * size;
    }
    *at += (size_t)room;
}

void cs_places_measure(struct cs_places *places)
{
    struct cs_places *a = places;
    struct cs_params *p = a->params;
    const bool has_masters = !cs_device_is_f32(p->device) && !cs_device_keeps_bf16(p->device);
    const size_t act = p->device->ops->act_bytes, size = p->grad_size;
    size_t weights = 0, grads = 0;
    p->n_turns = p->device->mem != NULL ? 2 : 1;
    for (int32_t i = 0; i < p->n_all_buckets; i++) {
        struct cs_bucket *b = &p->bucket[i];
        stay(p, b, b->zero >= 3, act, &weights, &b->w, &b->own_w);
        if (i < p->n_buckets)
            stay(p, b, b->zero >= 2, size, &grads, &b->grad, &b->own_grad);
    }
    a->weights = weights;
    weights += (size_t)(a->at - a->n_in_buckets) * act;
    a->grads = grads;
    grads += (size_t)a->n_tied * size;
    take_turns(p, act, &weights);
    share_room(a, size, &grads);
    p->weight_bytes = weights;
    p->grad_bytes = grads;
    p->state_bytes = grads + (size_t)(a->n_trained_own * (has_masters ? 3 : 2)) * size;
}

/* where an element of gradients is among this replica's parts of the buckets */
static int64_t own_place(const struct cs_params *p, const struct cs_shard *t)
{
    const struct cs_bucket *b = &p->bucket[t->bucket];
    const int64_t begin = b->at + own_of(p, b) * p->holders[b->held].at;
    return b->own_at + (t->own_n == 0 ? 0 : t->at + t->own_at - begin);
}

/* elements of the own part of a bucket before those of the entry */
static size_t within_own(const struct cs_params *p, const struct cs_shard *t)
{
    return (size_t)(own_place(p, t) - p->bucket[t->bucket].own_at);
}

static void assign_state(struct cs_params *p, const struct cs_places *a, struct cs_shard *t)
{
    const struct cs_bucket *b = &p->bucket[t->bucket];
    const bool has_masters = !cs_device_is_f32(p->device) && !cs_device_keeps_bf16(p->device);
    const size_t size = p->grad_size, own = (size_t)a->n_trained_own * size;
    char *m = (char *)p->state + p->grad_bytes, *v = m + own, *apart = v + own;
    const size_t place = (size_t)own_place(p, t) * size;
    t->grad = cs_params_at(p->state, b->grad + (size_t)(t->at - b->at) * size);
    t->own_grad = cs_params_at(p->state, b->own_grad + within_own(p, t) * size);
    t->exp_avg = m + place;
    t->exp_avg_sq = v + place;
    if (has_masters)
        t->master = (float *)(void *)(apart + place);
}

static void assign_one(struct cs_params *p, const struct cs_places *a, struct cs_shard *t,
                       int64_t at)
{
    const size_t act = p->device->ops->act_bytes;
    t->own_n = t->param->count;
    if (t->bucket < 0) {
        t->w = t->own_w =
            cs_params_at(p->weights, a->weights + (size_t)(at - a->n_in_buckets) * act);
    } else {
        const struct cs_bucket *b = &p->bucket[t->bucket];
        t->at = at;
        cs_params_part(p, t, cs_params_holders(p, t)->at, &t->own_at, &t->own_n);
        t->w = cs_params_at(p->weights, b->w + (size_t)(at - b->at) * act);
        t->own_w = cs_params_at(p->weights, b->own_w + within_own(p, t) * act);
    }
    t->master = cs_device_is_f32(p->device) ? t->own_w : NULL;
    if (t->param->is_trainable)
        assign_state(p, a, t);
}

/* Both ends of a tied embedding are here: one set of weights. */
static void assign_view(struct cs_params *p, const struct cs_places *a)
{
    struct cs_shard *t = p->tied;
    const struct cs_shard *embed = p->embed;
    t->w = embed->w;
    t->own_w = embed->own_w;
    t->master = embed->master;
    t->own_at = embed->own_at;
    t->own_n = embed->own_n;
    if (!t->param->is_trainable)
        return;
    t->at = embed->at;
    t->grad = cs_places_share_tied_grad(p) ? embed->grad : cs_params_at(p->state, a->grads);
    t->own_grad = (char *)t->grad + (size_t)t->own_at * p->grad_size;
}

void cs_places_assign(const struct cs_places *places)
{
    struct cs_params *p = places->params;
    p->grads = p->state;
    for (int32_t i = 0; i < p->n; i++) {
        struct cs_shard *t = &p->shard[places->place[i].shard];
        if (!cs_places_is_view(p, t))
            assign_one(p, places, t, places->place[i].at);
    }
    if (p->tied != NULL && p->embed != NULL)
        assign_view(p, places);
}
