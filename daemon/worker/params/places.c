/* The order of a rank's parameters, and which of them replicas sum or gather together. */
#include "worker/params/places.h"

enum {
    ALIGN = 16,             /* elements */
    BUCKET_BYTES = 24 << 20 /* what a message between devices needs to be at full speed */
};

int cs_params_group(const struct cs_param *param)
{
    return cs_param_role_group(param->role, param->part).group;
}

static int64_t align_up(int64_t at)
{
    return (at + ALIGN - 1) / ALIGN * ALIGN;
}

bool cs_places_is_view(const struct cs_params *p, const struct cs_shard *t)
{
    return t->is_tied_head && p->embed != NULL;
}

static void put(struct cs_places *a, int32_t shard)
{
    a->place[a->n++] = (struct cs_place){shard, a->at};
    a->is_placed[shard] = true;
    a->at += a->params->shard[shard].param->count;
}

static int order_of(const struct cs_param *param)
{
    return cs_param_role_group(param->role, param->part).order;
}

/* Of the group that begins at entry i the member behind that order, -1: there is none. */
static int32_t next_of_group(const struct cs_params *p, int32_t i, int order)
{
    const struct cs_param *first = p->shard[i].param;
    int32_t next = -1;
    for (int32_t j = i; j < p->n && p->shard[j].param->layer == first->layer; j++) {
        const struct cs_param *param = p->shard[j].param;
        if (cs_params_group(param) == cs_params_group(first) && order_of(param) > order &&
            (next < 0 || order_of(param) < order_of(p->shard[next].param)))
            next = j;
    }
    return next;
}

/* An entry and the rest of its group, which follow each other without a gap: the graph sees to it
 * that they are trained or frozen together. */
static void put_group(struct cs_places *a, int32_t i, int32_t bucket)
{
    struct cs_params *p = a->params;
    const int32_t before = a->n;
    a->at = align_up(a->at);
    if (cs_params_group(p->shard[i].param) == 0)
        put(a, i);
    else
        for (int32_t j = next_of_group(p, i, -1); j >= 0;) {
            put(a, j);
            j = next_of_group(p, i, order_of(p->shard[j].param));
        }
    for (int32_t k = before; k < a->n; k++)
        p->shard[a->place[k].shard].bucket = bucket;
}

static int32_t stage_of(const struct cs_places *a, int32_t layer)
{
    for (int32_t s = 0; s < a->plan->n_stages; s++)
        if (a->plan->stages[s].rank == a->rank && layer >= a->plan->stages[s].first_layer &&
            layer < a->plan->stages[s].first_layer + a->plan->stages[s].n_layers)
            return s;
    return -1;
}

static bool has_embedding_role(const struct cs_graph *graph, const struct cs_param *param)
{
    return param->role == CS_PARAM_EMBED && graph->modules[param->module].kind == CS_MODULE_LLM;
}

/* A tied embedding has a bucket of its own, so that its copies on two ranks are dealt out to the
 * replicas alike. It is summed last: on one rank its gradient is complete when it has met the
 * head's. */
static bool is_late(const struct cs_params *p, const struct cs_shard *t)
{
    return p->graph->is_tied && has_embedding_role(p->graph, t->param);
}

static int32_t holders_of(const struct cs_params *p, const struct cs_bucket *b)
{
    return p->holders[b->held].n;
}

/* what of an entry is divided */
static int32_t zero_of(const struct cs_places *a, const struct cs_shard *t)
{
    if (is_late(a->params, t) || cs_params_holders(a->params, t)->n == 1)
        return 1;
    const int32_t zero = a->plan->stages[stage_of(a, t->param->layer)].zero;
    return zero < 2 ? 1 : zero;
}

static enum cs_made made_of(const struct cs_places *a, const struct cs_shard *t)
{
    return zero_of(a, t) < 2 ? CS_MADE_WITH_WEIGHTS
                             : cs_places_made(a->params, t, a->splits_backward);
}

/* The n-th bucket begins here. */
static void open_bucket(struct cs_places *a, int32_t n, const struct cs_shard *t)
{
    const int32_t layer = t->param->layer;
    struct cs_bucket *b = &a->params->bucket[n];
    *b = (struct cs_bucket){
        .at = a->at,
        .own_at = b->own_at,
        .held = b->held,
        .first_layer = is_late(a->params, t) ? -1 : layer,
        .zero = zero_of(a, t),
        .made = made_of(a, t),
        .stage = t->is_tied_head ? -1 : stage_of(a, layer),
    };
    b->has_copies = b->stage >= 0 && a->plan->stages[b->stage].copies > 1;
}

/* All replicas' parts are equal and begin at multiples of 32 bytes. */
static void close_bucket(struct cs_places *a, int32_t *n)
{
    struct cs_bucket *b = &a->params->bucket[*n];
    const int64_t unit = (int64_t)ALIGN * holders_of(a->params, b);
    a->at = b->at + (a->at - b->at + unit - 1) / unit * unit;
    b->n = a->at - b->at;
    const struct cs_bucket next = {
        .at = a->at, .own_at = b->own_at + b->n / holders_of(a->params, b), .held = b->held};
    *n += b->n > 0;
    a->params->bucket[*n] = next;
}

/* Entries that are held and made so in the order of layers and groups, in buckets; made 0: frozen ones. */
static void fill_buckets(struct cs_places *a, enum cs_held held, enum cs_made made, int32_t *n)
{
    const bool is_trained = made != 0;
    struct cs_params *p = a->params;
    const int64_t most = BUCKET_BYTES / (int64_t)p->grad_size;
    p->bucket[*n].at = a->at;
    p->bucket[*n].held = held;
    for (int32_t i = 0; i < p->n; i++) {
        const struct cs_shard *t = &p->shard[i];
        const struct cs_bucket *b = &p->bucket[*n];
        const int32_t layer = t->param->layer;
        if (t->param->is_trainable != is_trained || a->is_placed[i] || cs_places_is_view(p, t) ||
            cs_params_holders(p, t) != &p->holders[held] || (is_trained && made_of(a, t) != made) ||
            (!is_trained && (is_late(p, t) || zero_of(a, t) < 3)))
            continue;
        const bool is_empty = a->at == b->at;
        const bool is_full = !is_empty && b->end_layer <= layer &&
                             (a->at - b->at >= most || b->first_layer < 0 || b->zero > 1 ||
                              b->stage != stage_of(a, layer));
        if (is_full || (!is_empty && is_late(p, t)))
            close_bucket(a, n);
        if (a->at == p->bucket[*n].at)
            open_bucket(a, *n, t);
        p->bucket[*n].end_layer = layer + 1;
        put_group(a, i, *n);
        if (is_late(p, t))
            close_bucket(a, n);
    }
    close_bucket(a, n);
}

bool cs_places_share_tied_grad(const struct cs_params *p)
{
    return cs_device_keeps_bf16(p->device) && p->tied != NULL && p->embed != NULL;
}

void cs_places_plan(struct cs_places *places)
{
    static const enum cs_made kinds[] = {CS_MADE_WITH_WEIGHTS, CS_MADE_WITH_INPUT, CS_MADE_FORWARD};
    struct cs_places *a = places;
    struct cs_params *p = a->params;
    for (int32_t i = 0; i < p->n; i++)
        p->shard[i].bucket = -1;
    for (int held = 0; held < CS_HELDS; held++)
        for (size_t i = 0; i < CS_ARRAY_LEN(kinds); i++)
            fill_buckets(a, (enum cs_held)held, kinds[i], &p->n_buckets);
    a->n_trained_own = p->bucket[p->n_buckets].own_at;
    p->n_all_buckets = p->n_buckets;
    for (int held = 0; held < CS_HELDS; held++)
        fill_buckets(a, (enum cs_held)held, (enum cs_made)0, &p->n_all_buckets);
    a->n_in_buckets = a->at;
    for (int32_t i = 0; i < p->n; i++)
        if (!a->is_placed[i] && !cs_places_is_view(p, &p->shard[i]))
            put_group(a, i, -1);
    a->at = align_up(a->at);
    if (p->tied != NULL &&
        p->embed != NULL) { /* weights are the embedding's, the gradient its own */
        a->place[a->n++] = (struct cs_place){(int32_t)(p->tied - p->shard), 0};
        if (p->tied->param->is_trainable && !cs_places_share_tied_grad(p))
            a->n_tied = align_up(p->tied->param->count);
    }
    CS_ASSERT(a->n == p->n);
}
