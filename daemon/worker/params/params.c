/* Plans and fills the memory of a rank's parameters; what they are at the start is in
 * params_load.c. */
#include "worker/params/params.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"

enum {
    ALIGN = 16,             /* elements */
    BUCKET_BYTES = 24 << 20 /* what a message between devices needs to be at full speed */
};

static int group_of(const struct cs_param *param)
{
    return cs_param_role_group(param->role, param->part).group;
}

/* One parameter's place. Trainable ones are at the same place in weights and gradients, frozen ones
 * behind them, in weights only. */
struct place {
    int32_t shard; /* index in params->shard */
    int64_t at;
};

static int32_t stage_layers(const struct cs_plan *plan, int rank, int32_t stage,
                            const struct cs_stage **out)
{
    *out = &plan->stages[stage];
    return plan->stages[stage].rank == rank ? plan->stages[stage].n_layers : 0;
}

static bool has_embedding_role(const struct cs_graph *graph, const struct cs_param *param)
{
    return param->role == CS_PARAM_EMBED && graph->modules[param->module].kind == CS_MODULE_LLM;
}

static void link_whole(const struct cs_params *p, struct cs_shard *t)
{
    const int32_t id = t->param->id;
    t->whole = p->view.whole != NULL ? &p->view.whole->params[id] : t->param;
    t->part = p->view.whole != NULL ? &p->view.part[id] : NULL;
}

static int32_t add_layer(struct cs_params *p, const struct cs_layer *layer)
{
    for (int32_t i = 0; i < layer->n_params; i++) {
        const struct cs_param *param = &p->graph->params[layer->first_param + i];
        p->shard[p->n++] = (struct cs_shard){.param = param, .is_counted = true};
        link_whole(p, &p->shard[p->n - 1]);
    }
    return layer->n_params;
}

static int by_param_id(const void *a, const void *b)
{
    const struct cs_shard *x = a, *y = b;
    return (x->param->id > y->param->id) - (x->param->id < y->param->id);
}

/* Entries of all layers of the rank's stages, sorted; index; the tied head's entry last. */
static void add_entries(struct cs_params *p, const struct cs_plan *plan, int rank)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage;
        const int32_t n = stage_layers(plan, rank, s, &stage);
        for (int32_t l = 0; l < n; l++)
            add_layer(p, &p->graph->layers[stage->first_layer + l]);
    }
    qsort(p->shard, (size_t)p->n, sizeof *p->shard, by_param_id);
    for (int32_t i = 0; i < p->graph->n_params; i++)
        p->index[i] = -1;
    for (int32_t i = 0; i < p->n; i++)
        p->index[p->shard[i].param->id] = i;
    if (!p->graph->is_tied)
        return;
    p->embed_rank = plan->stages[plan->embed_stage].rank;
    p->head_rank = plan->stages[plan->head_stage].rank;
    for (int32_t i = 0; i < p->graph->n_params; i++) {
        const struct cs_param *param = &p->graph->params[i];
        if (!has_embedding_role(p->graph, param))
            continue;
        if (p->embed_rank == rank)
            p->embed = &p->shard[p->index[i]];
        if (p->head_rank == rank) {
            p->tied = &p->shard[p->n++];
            *p->tied = (struct cs_shard){.param = param, .is_tied_head = true};
            link_whole(p, p->tied);
        }
    }
}

static int64_t align_up(int64_t at)
{
    return (at + ALIGN - 1) / ALIGN * ALIGN;
}

struct planner {
    struct cs_params *params;
    const struct cs_plan *plan;
    int rank;
    struct place *place;
    bool *is_placed; /* (params->n) */
    int32_t n;
    int64_t at;      /* weights so far */
    int64_t n_grads; /* gradients so far */
};

static bool is_view(const struct cs_params *p, const struct cs_shard *t)
{
    return t->is_tied_head && p->embed != NULL;
}

static void put(struct planner *a, int32_t shard)
{
    a->place[a->n++] = (struct place){shard, a->at};
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
        if (group_of(param) == group_of(first) && order_of(param) > order &&
            (next < 0 || order_of(param) < order_of(p->shard[next].param)))
            next = j;
    }
    return next;
}

/* An entry and the rest of its group, which follow each other without a gap: the graph sees to it
 * that they are trained or frozen together. */
static void put_group(struct planner *a, int32_t i)
{
    const struct cs_params *p = a->params;
    const struct cs_param *first = p->shard[i].param;
    const int group = group_of(first);
    a->at = align_up(a->at);
    if (group == 0) {
        put(a, i);
        return;
    }
    for (int32_t j = next_of_group(p, i, -1); j >= 0;) {
        put(a, j);
        j = next_of_group(p, i, order_of(p->shard[j].param));
    }
}

static int32_t stage_of(const struct planner *a, int32_t layer)
{
    for (int32_t s = 0; s < a->plan->n_stages; s++)
        if (a->plan->stages[s].rank == a->rank && layer >= a->plan->stages[s].first_layer &&
            layer < a->plan->stages[s].first_layer + a->plan->stages[s].n_layers)
            return s;
    return -1;
}

static int32_t holders_of(const struct cs_params *p, const struct cs_bucket *b)
{
    return p->holders[b->held].n;
}

/* All replicas' parts are equal and begin at multiples of 32 bytes. */
static void close_bucket(struct planner *a)
{
    struct cs_params *p = a->params;
    struct cs_bucket *b = &p->bucket[p->n_buckets];
    const int64_t unit = (int64_t)ALIGN * holders_of(p, b);
    a->at = b->at + (a->at - b->at + unit - 1) / unit * unit;
    b->n = a->at - b->at;
    const struct cs_bucket next = {
        .at = a->at, .own_at = b->own_at + b->n / holders_of(p, b), .held = b->held};
    p->n_buckets += b->n > 0;
    p->bucket[p->n_buckets] = next;
}

/* Experts are apart where they are spread over ranks. */
static enum cs_held held_of(const struct cs_params *p, const struct cs_shard *t)
{
    const bool is_spread = p->tp.ep > 1 && cs_param_is_of_expert(t->param);
    return is_spread ? CS_HELD_EXPERTS : CS_HELD_BY_ALL;
}

const struct cs_holders *cs_params_holders(const struct cs_params *params, const struct cs_shard *t)
{
    return &params->holders[held_of(params, t)];
}

/* A tied embedding has a bucket of its own, so that its copies on two ranks are dealt out to the
 * replicas alike. It is summed last: on one rank its gradient is complete when it has met the
 * head's. */
static bool is_late(const struct cs_params *p, const struct cs_shard *t)
{
    return p->graph->is_tied && has_embedding_role(p->graph, t->param);
}

/* Trainable entries that are held so in the order of layers and groups, in buckets. */
static void place_trained(struct planner *a, enum cs_held held)
{
    struct cs_params *p = a->params;
    const int64_t most = BUCKET_BYTES / (int64_t)p->grad_size;
    p->bucket[p->n_buckets].held = held;
    for (int32_t i = 0; i < p->n; i++) {
        const struct cs_shard *t = &p->shard[i];
        struct cs_bucket *b = &p->bucket[p->n_buckets];
        const int32_t layer = t->param->layer;
        if (!t->param->is_trainable || a->is_placed[i] || is_view(p, t) || held_of(p, t) != held)
            continue;
        const bool is_empty = a->at == b->at;
        const bool is_full = !is_empty && b->end_layer <= layer &&
                             (a->at - b->at >= most || b->first_layer < 0 ||
                              stage_of(a, b->first_layer) != stage_of(a, layer));
        if (is_full || (!is_empty && is_late(p, t)))
            close_bucket(a);
        b = &p->bucket[p->n_buckets];
        if (a->at == b->at)
            b->first_layer = is_late(p, t) ? -1 : layer;
        b->end_layer = layer + 1;
        const int32_t before = a->n;
        put_group(a, i);
        for (int32_t k = before; k < a->n; k++)
            p->shard[a->place[k].shard].bucket = p->n_buckets;
        if (is_late(p, t))
            close_bucket(a);
    }
    close_bucket(a);
    a->n_grads = a->at;
}

/* Kept in bf16 for the sake of memory: the head adds to the embedding's gradient where both are on
 * this rank. */
static bool shares_tied_grad(const struct cs_params *p)
{
    return cs_device_keeps_bf16(p->device) && p->tied != NULL && p->embed != NULL;
}

static void plan_places(struct planner *a)
{
    const struct cs_params *p = a->params;
    for (int32_t i = 0; i < p->n; i++)
        p->shard[i].bucket = -1;
    place_trained(a, CS_HELD_BY_ALL);
    place_trained(a, CS_HELD_EXPERTS);
    for (int32_t i = 0; i < p->n; i++)
        if (!a->is_placed[i] && !is_view(p, &p->shard[i]))
            put_group(a, i);
    a->at = align_up(a->at);
    if (p->tied != NULL &&
        p->embed != NULL) { /* weights are the embedding's, the gradient its own */
        a->place[a->n++] = (struct place){(int32_t)(p->tied - p->shard), a->n_grads};
        if (p->tied->param->is_trainable && !shares_tied_grad(p))
            a->n_grads = align_up(a->n_grads + p->tied->param->count);
    }
    CS_ASSERT(a->n == p->n);
}

void cs_params_part(const struct cs_params *params, const struct cs_shard *t, int32_t holder,
                    int64_t *at, int64_t *n)
{
    *at = 0;
    *n = t->param->count;
    if (t->bucket < 0 || cs_params_holders(params, t)->n == 1)
        return;
    const struct cs_bucket *b = &params->bucket[t->bucket];
    const int64_t part = b->n / holders_of(params, b);
    const int64_t begin = b->at + part * holder - t->at, end = begin + part;
    *at = begin < 0 ? 0 : begin > t->param->count ? t->param->count : begin;
    *n = (end < 0 ? 0 : end > t->param->count ? t->param->count : end) - *at;
}

/* where an element of gradients is among this replica's parts of the buckets */
static int64_t own_place(const struct cs_params *p, const struct cs_shard *t)
{
    const struct cs_bucket *b = &p->bucket[t->bucket];
    const int64_t begin = b->at + b->n / holders_of(p, b) * p->holders[b->held].at;
    return b->own_at + (t->own_n == 0 ? 0 : t->at + t->own_at - begin);
}

void *cs_params_grad(const struct cs_params *params, int64_t n)
{
    return (char *)params->grads + (size_t)n * params->grad_size;
}

static void assign(struct cs_params *p, const struct planner *a)
{
    const bool is_f32 = cs_device_is_f32(p->device);
    const struct cs_bucket *last = &p->bucket[p->n_buckets];
    const size_t size = p->grad_size, own = (size_t)last->own_at * size;
    char *m = (char *)p->state + (size_t)a->n_grads * size, *v = m + own, *apart = v + own;
    const bool has_masters = !is_f32 && !cs_device_keeps_bf16(p->device);
    p->grads = p->state;
    p->grad_bytes = (size_t)a->n_grads * size;
    for (int32_t i = 0; i < p->n; i++) {
        const struct place *place = &a->place[i];
        struct cs_shard *t = &p->shard[place->shard];
        if (is_view(p, t)) {
            t->at = place->at;
            t->grad = t->param->is_trainable ? cs_params_grad(p, t->at) : NULL;
            continue;
        }
        t->w = (char *)p->weights + (size_t)place->at * p->device->ops->act_bytes;
        t->master = is_f32 ? t->w : NULL;
        t->own_n = t->param->count;
        if (!t->param->is_trainable)
            continue;
        t->at = place->at;
        t->grad = cs_params_grad(p, t->at);
        cs_params_part(p, t, cs_params_holders(p, t)->at, &t->own_at, &t->own_n);
        const size_t place_bytes = (size_t)own_place(p, t) * size;
        t->exp_avg = m + place_bytes;
        t->exp_avg_sq = v + place_bytes;
        t->master = is_f32        ? (float *)t->w + t->own_at
                    : has_masters ? (float *)(void *)(apart + place_bytes)
                                  : NULL;
    }
    if (p->tied != NULL && p->embed != NULL) { /* both stages here: one set of weights */
        p->tied->w = p->embed->w;
        p->tied->master = p->embed->master;
        p->tied->own_at = p->embed->own_at;
        p->tied->own_n = p->embed->own_n;
        if (shares_tied_grad(p)) {
            p->tied->at = p->embed->at;
            p->tied->grad = p->embed->grad;
        }
    }
}

/* Members of a group lie side by side and one product makes their gradients, so they are new
 * together; so are the two sides of a tied embedding where they share theirs. */
static void share_newness(struct cs_params *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        struct cs_shard *t = &p->shard[i];
        t->is_grad_new = &p->is_grad_new[i];
        for (int32_t j = i - 1; j >= 0 && p->shard[j].param->layer == t->param->layer; j--)
            if (group_of(t->param) > 0 && group_of(p->shard[j].param) == group_of(t->param))
                t->is_grad_new = p->shard[j].is_grad_new;
    }
    if (shares_tied_grad(p))
        p->tied->is_grad_new = p->embed->is_grad_new;
}

/* the first matrix of the product that reads this one, and the columns before it */
static struct cs_shard *product_of(struct cs_params *p, struct cs_shard *t, int64_t *columns)
{
    struct cs_shard *first = t;
    const struct cs_role_group own = cs_param_role_group(t->param->role, t->param->part);
    *columns = 0;
    for (int32_t i = 0; own.group > 0 && i < p->n; i++) {
        struct cs_shard *other = &p->shard[i];
        const struct cs_role_group g = cs_param_role_group(other->param->role, other->param->part);
        if (other->param->layer != t->param->layer || g.group != own.group || g.order >= own.order)
            continue;
        *columns += other->param->dim[0];
        if (g.order < cs_param_role_group(first->param->role, first->param->part).order)
            first = other;
    }
    return first;
}

/* Adapters by the product that they are part of: the graph lists those of a layer together. */
static bool bind_adapters(struct cs_params *p)
{
    const struct cs_graph *graph = p->graph;
    int32_t n = 0;
    p->adapter = calloc((size_t)graph->n_adapters + 1, sizeof *p->adapter);
    for (int32_t i = 0; p->adapter != NULL && i < p->n; i++) {
        struct cs_shard *first = &p->shard[i];
        first->adapter = &p->adapter[n];
        for (int32_t k = 0; k < graph->n_adapters; k++) {
            const struct cs_graph_adapter *g = &graph->adapters[k];
            struct cs_shard *t = cs_params_find(p, g->param);
            int64_t at = 0;
            if (first->is_tied_head || t == NULL || t->param->layer != first->param->layer ||
                product_of(p, t, &at) != first)
                continue;
            p->adapter[n++] = (struct cs_adapter){.a = cs_params_find(p, g->a),
                                                  .b = cs_params_find(p, g->b),
                                                  .at = at,
                                                  .out = t->param->dim[0],
                                                  .rank = g->rank,
                                                  .scale = g->scale};
            first->n_adapters++;
        }
    }
    return p->adapter != NULL;
}

/* Both blocks and, where the device has memory of its own, room on the host for one tensor as fp32
 * and as acts. */
static enum cs_status take_memory(struct cs_params *p, const struct planner *a, struct cs_err *err)
{
    const bool is_f32 = cs_device_is_f32(p->device);
    const bool has_masters = !is_f32 && !cs_device_keeps_bf16(p->device);
    const int64_t own = p->bucket[p->n_buckets].own_at;
    int64_t most = 1;
    p->weight_bytes = (size_t)a->at * p->device->ops->act_bytes;
    p->state_bytes = (size_t)(a->n_grads + own * (has_masters ? 3 : 2)) * p->grad_size;
    CS_TRY(cs_device_alloc(p->device, p->weight_bytes, &p->weights, err));
    CS_TRY(cs_device_alloc(p->device, p->state_bytes, &p->state, err));
    cs_device_zero(p->device, p->weights, p->weight_bytes);
    cs_device_zero(p->device, p->state, p->state_bytes);
    if (p->device->mem == NULL && p->n_replicas == 1)
        return CS_OK;
    for (int32_t i = 0; i < p->n; i++)
        most = p->shard[i].param->count > most ? p->shard[i].param->count : most;
    p->staging = malloc((size_t)most * (sizeof(float) + p->device->ops->act_bytes));
    if (p->staging == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to load tensors of %lld elements",
                       (long long)most);
    p->staging_count = most;
    return cs_device_sync(p->device, err);
}

/* The graph as this rank has it. All branches of its stages are shared by the same ranks. */
static void view_graph(struct cs_params *p, const struct cs_graph *graph,
                       const struct cs_plan *plan, int rank)
{
    const int32_t own = cs_plan_rank_in_replica(plan, rank);
    struct cs_tp tp[CS_MAX_ENCODERS + 1] = {{0}};
    const struct cs_rank_shape shape = cs_plan_rank_shape(plan, own);
    const struct cs_rank_at at = cs_plan_at(plan, rank);
    p->tp = (struct cs_tp){shape.tp, at.tp, shape.ep, at.ep};
    p->graph = graph;
    if (p->tp.ranks <= 1 && p->tp.ep <= 1)
        return;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == own)
            tp[plan->stages[s].branch] = p->tp;
    p->arena = cs_arena_new(0);
    cs_tp_view_make(graph, tp, p->arena, &p->view);
    p->graph = p->view.graph;
}

enum cs_status cs_params_new(const struct cs_graph *graph, const struct cs_plan *plan, int rank,
                             struct cs_device *device, struct cs_params **out, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    struct cs_params *p = calloc(1, sizeof *p);
    const size_t room = (size_t)graph->n_params + 1;
    struct planner a = {.params = p,
                        .plan = plan,
                        .rank = cs_plan_rank_in_replica(plan, rank),
                        .place = calloc(room, sizeof *a.place),
                        .is_placed = calloc(room, sizeof *a.is_placed)};
    *out = NULL;
    if (p == NULL || a.place == NULL || a.is_placed == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the table of parameters");
        goto out;
    }
    view_graph(p, graph, plan, rank);
    p->embed_rank = p->head_rank = -1;
    p->n_replicas = cs_plan_holders(plan, a.rank);
    p->replica = cs_plan_holder(plan, rank);
    p->holders[CS_HELD_BY_ALL] = (struct cs_holders){p->n_replicas, p->replica};
    p->holders[CS_HELD_EXPERTS] = (struct cs_holders){
        cs_plan_expert_holders(plan, a.rank), p->replica / cs_plan_rank_shape(plan, a.rank).ep};
    p->shard = calloc((size_t)graph->n_params + 1, sizeof *p->shard);
    p->bucket = calloc((size_t)graph->n_params + 2, sizeof *p->bucket);
    p->index = calloc((size_t)graph->n_params + 1, sizeof *p->index);
    p->is_grad_new = calloc((size_t)graph->n_params + 1, sizeof *p->is_grad_new);
    if (p->shard == NULL || p->index == NULL || p->bucket == NULL || p->is_grad_new == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the table of parameters");
        goto out;
    }
    p->device = device;
    p->grad_size = cs_device_keeps_bf16(device) ? sizeof(uint16_t) : sizeof(float);
    add_entries(p, plan, a.rank);
    plan_places(&a);
    status = take_memory(p, &a, err);
    if (status != CS_OK) {
        status = cs_wrap(err, status, "rank %d needs %zu bytes for parameters, %zu to train them",
                         rank, p->weight_bytes, p->state_bytes);
        goto out;
    }
    assign(p, &a);
    share_newness(p);
    if (!bind_adapters(p)) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the table of adapters");
        goto out;
    }
    *out = p;
    p = NULL;
out:
    free(a.place);
    free(a.is_placed);
    cs_params_free(p);
    return status;
}

void cs_params_free(struct cs_params *params)
{
    if (params == NULL)
        return;
    for (int32_t i = 0; params->shard != NULL && i < params->n; i++)
        free(params->shard[i].restored);
    free(params->shard);
    free(params->index);
    free(params->bucket);
    free(params->is_grad_new);
    free(params->adapter);
    cs_device_free(params->device, params->weights, params->weight_bytes);
    cs_device_free(params->device, params->state, params->state_bytes);
    free(params->staging);
    cs_arena_free(params->arena);
    free(params);
}

struct cs_shard *cs_params_find(const struct cs_params *params, int32_t param_id)
{
    const int32_t at = params->index[param_id];
    return at >= 0 ? &params->shard[at] : NULL;
}

/* Clearing is a pass over memory, and what is added first would read it again. */
void cs_params_zero_grads(struct cs_params *params)
{
    const bool is_device = params->device->mem != NULL;
    if (!is_device)
        cs_device_zero(params->device, params->grads, params->grad_bytes);
    for (int32_t i = 0; i < params->n; i++)
        *params->shard[i].is_grad_new = is_device && params->shard[i].grad != NULL;
}

void cs_params_settle_grads(struct cs_params *params, int32_t bucket)
{
    if (params->device->mem == NULL)
        return; /* also called beside the thread that computes */
    for (int32_t i = 0; i < params->n; i++) {
        const struct cs_shard *t = &params->shard[i];
        if (*t->is_grad_new && (bucket < 0 || t->bucket == bucket))
            cs_device_zero(params->device, t->grad, (size_t)t->param->count * params->grad_size);
    }
    for (int32_t i = 0; i < params->n; i++)
        if (bucket < 0 || params->shard[i].bucket == bucket)
            *params->shard[i].is_grad_new = false;
}

/* Where the acts of a tensor lie in the staging memory: behind its fp32 values. */
static uint16_t *staged_acts(const struct cs_params *p)
{
    return (uint16_t *)(void *)(p->staging + p->staging_count);
}

enum cs_status cs_params_values(struct cs_params *params, const struct cs_shard *shard,
                                const float **out, struct cs_err *err)
{
    const size_t n = (size_t)shard->param->count;
    const bool is_f32 = cs_device_is_f32(params->device);
    *out = shard->restored != NULL ? shard->restored : shard->w;
    if (shard->restored != NULL || params->device->mem == NULL)
        return CS_OK;
    *out = params->staging;
    if (is_f32)
        return cs_device_read(params->device, params->staging, shard->w, n * sizeof(float), err);
    if (shard->master != NULL && shard->own_n == shard->param->count)
        return cs_device_read(params->device, params->staging, shard->master, n * sizeof(float),
                              err);
    uint16_t *acts = staged_acts(params);
    CS_TRY(cs_device_read(params->device, acts, shard->w, n * sizeof *acts, err));
    for (size_t i = 0; i < n; i++)
        params->staging[i] = cs_f32_from_bf16(acts[i]);
    return CS_OK;
}

enum cs_status cs_params_set(struct cs_params *params, struct cs_shard *shard, const float *host,
                             struct cs_err *err)
{
    const size_t n = (size_t)shard->param->count;
    if (cs_device_is_f32(params->device)) {
        if (host != shard->w)
            cs_device_copy(params->device, shard->w, host, n * sizeof *host);
        return cs_device_sync(params->device, err);
    }
    if (shard->master != NULL)
        cs_device_copy(params->device, shard->master, host + shard->own_at,
                       (size_t)shard->own_n * sizeof *host);
    uint16_t *acts = staged_acts(params);
    for (size_t i = 0; i < n; i++)
        acts[i] = cs_bf16_from_f32(host[i]);
    cs_device_copy(params->device, shard->w, acts, n * sizeof *acts);
    return cs_device_sync(params->device, err); /* host is the caller's again */
}

enum cs_status cs_params_hash(struct cs_params *params, const struct cs_shard *shard, char out[33],
                              struct cs_err *err)
{
    const float *values;
    CS_TRY(cs_params_values(params, shard, &values, err));
    cs_xxh3_128_hex(values, (size_t)shard->param->count * sizeof *values, out);
    return CS_OK;
}

int cs_params_listed(const struct cs_params *params, const struct cs_shard **out)
{
    int n = 0;
    for (int32_t i = 0; i < params->n; i++) {
        const struct cs_shard *t = &params->shard[i];
        const bool is_stored = t->grad != NULL
                                   ? t->own_n > 0
                                   : t->is_restored && cs_params_holders(params, t)->at == 0;
        if (t->is_counted && cs_shard_is_first(t) && is_stored)
            out[n++] = t;
    }
    return n;
}

/* bf16 values become fp32 ones where they lie: in the second half of host, from the front on. */
static enum cs_status read_bf16(struct cs_params *params, const void *from, size_t n, float *host,
                                struct cs_err *err)
{
    char *halves = (char *)host + n * sizeof(uint16_t);
    CS_TRY(cs_device_read(params->device, halves, from, n * sizeof(uint16_t), err));
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, halves + i * sizeof bits, sizeof bits);
        host[i] = cs_f32_from_bf16(bits);
    }
    return CS_OK;
}

enum cs_status cs_params_state(struct cs_params *params, const struct cs_shard *t,
                               enum cs_state which, float *host, struct cs_err *err)
{
    const size_t n = (size_t)t->own_n;
    const uint16_t *const acts = t->w;
    const void *const of[CS_STATES] = {t->master, t->exp_avg, t->exp_avg_sq};
    const bool is_frozen = t->grad == NULL;
    if (is_frozen && which != CS_STATE_MASTER)
        memset(host, 0, n * sizeof *host);
    else if (is_frozen && t->restored != NULL)
        memcpy(host, t->restored, n * sizeof *host);
    else if (!cs_device_keeps_bf16(params->device))
        return cs_device_read(params->device, host, of[which], n * sizeof *host, err);
    else
        return read_bf16(params, which == CS_STATE_MASTER ? acts + t->own_at : of[which], n, host,
                         err);
    return CS_OK;
}
