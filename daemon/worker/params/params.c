/* Plans and fills the memory of a rank's parameters; what they are at the start is in
 * params_load.c. */
#include "worker/params/places.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/system/cores.h"
#include "core/base/system/pages.h"
#include "core/base/system/parallel.h"
#include "core/plan/plan_schedule.h"

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

/* is_copy: another rank has it too, and counts it */
static int32_t add_layer(struct cs_params *p, const struct cs_layer *layer, bool is_copy)
{
    for (int32_t i = 0; i < layer->n_params; i++) {
        const struct cs_param *param = &p->graph->params[layer->first_param + i];
        p->shard[p->n++] = (struct cs_shard){.param = param, .is_counted = !is_copy};
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
            add_layer(p, &p->graph->layers[stage->first_layer + l],
                      stage->copies > 1 && stage->index > 0);
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

/* Members of a group lie side by side and one product makes their gradients, so they are new
 * together; so are the two sides of a tied embedding where they share theirs. */
static void share_newness(struct cs_params *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        struct cs_shard *t = &p->shard[i];
        t->is_grad_new = &p->is_grad_new[i];
        for (int32_t j = i - 1; j >= 0 && p->shard[j].param->layer == t->param->layer; j--)
            if (cs_params_group(t->param) > 0 &&
                cs_params_group(p->shard[j].param) == cs_params_group(t->param))
                t->is_grad_new = p->shard[j].is_grad_new;
    }
    if (cs_places_share_tied_grad(p))
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
static enum cs_status take_memory(struct cs_params *p, struct cs_err *err)
{
    int64_t most = 1;
    CS_TRY(cs_device_alloc(p->device, p->weight_bytes, &p->weights, err));
    CS_TRY(cs_device_alloc(p->device, p->state_bytes, &p->state, err));
    cs_device_zero(p->device, p->weights, p->weight_bytes);
    cs_device_zero(p->device, p->state, p->state_bytes);
    if (p->device->mem == NULL && p->n_replicas == 1)
        return CS_OK;
    for (int32_t i = 0; i < p->n; i++)
        most = p->shard[i].param->count > most ? p->shard[i].param->count : most;
    p->staging = cs_alloc_array((size_t)most * (sizeof(float) + p->device->ops->act_bytes));
    if (p->staging == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to load tensors of %lld elements",
                       (long long)most);
    p->staging_count = most;
    return cs_device_sync(p->device, err);
}

/* Matrices of guests are whole on all ranks that share the host's: each makes a part of their gradients. */
static void share_guest(struct cs_params *p, const struct cs_stage *stage)
{
    struct cs_tp_part *parts = (struct cs_tp_part *)(uintptr_t)p->view.part; /* of the own arena */
    for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
        for (int32_t i = 0; i < p->graph->layers[l].n_params; i++) {
            struct cs_tp_part *part = &parts[p->graph->layers[l].first_param + i];
            part->holders = p->tp.ranks;
            part->holder = p->tp.at;
            part->is_summed = true;
        }
}

/* The graph as this rank has it. */
static void view_graph(struct cs_params *p, const struct cs_graph *graph,
                       const struct cs_plan *plan, int rank)
{
    const int32_t own = cs_plan_rank_in_replica(plan, rank);
    struct cs_tp tp[CS_MAX_ENCODERS + 1] = {{0}};
    const struct cs_rank_shape shape = cs_plan_rank_shape(plan, own);
    const struct cs_rank_at at = cs_plan_at(plan, rank);
    p->tp = (struct cs_tp){.ranks = shape.tp, .at = at.tp, .ep = shape.ep, .ep_at = at.ep};
    p->graph = graph;
    if (p->tp.ranks <= 1 && p->tp.ep <= 1)
        return;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == own && !cs_plan_is_guest(plan, s)) {
            tp[plan->stages[s].branch] = p->tp;
            tp[plan->stages[s].branch].splits_rows = plan->stages[s].splits_rows;
        }
    p->arena = cs_arena_new(0);
    cs_tp_view_make(graph, tp, p->arena, &p->view);
    p->graph = p->view.graph;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == own && cs_plan_is_guest(plan, s))
            share_guest(p, &plan->stages[s]);
}

static bool splits_backward(const struct cs_plan *plan)
{
    const struct cs_schedule_info *schedule = NULL; /* plans of numbers alone have none */
    return plan->schedule != NULL &&
           cs_plan_schedule_find(plan->schedule, &schedule, NULL) == CS_OK &&
           schedule->splits_backward;
}

enum cs_status cs_params_new(const struct cs_graph *graph, const struct cs_plan *plan, int rank,
                             struct cs_device *device, struct cs_params **out, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    struct cs_params *p = calloc(1, sizeof *p);
    const size_t room = (size_t)graph->n_params + 1;
    struct cs_places a = {.params = p,
                          .plan = plan,
                          .rank = cs_plan_rank_in_replica(plan, rank),
                          .place = calloc(room, sizeof *a.place),
                          .is_placed = calloc(room, sizeof *a.is_placed),
                          .layer_bytes = calloc((size_t)graph->n_layers + 1, sizeof *a.layer_bytes),
                          .layer_at = calloc((size_t)graph->n_layers + 1, sizeof *a.layer_at)};
    *out = NULL;
    if (p == NULL || a.place == NULL || a.is_placed == NULL || a.layer_bytes == NULL ||
        a.layer_at == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the table of parameters");
        goto out;
    }
    a.splits_backward = splits_backward(plan);
    view_graph(p, graph, plan, rank);
    p->embed_rank = p->head_rank = -1;
    p->n_replicas = cs_plan_holders(plan, a.rank);
    p->replica = cs_plan_holder(plan, rank);
    p->holders[CS_HELD_BY_ALL] = (struct cs_holders){p->n_replicas, p->replica};
    p->holders[CS_HELD_EXPERTS] = (struct cs_holders){
        cs_plan_expert_holders(plan, a.rank), p->replica / cs_plan_rank_shape(plan, a.rank).ep};
    p->shard = calloc((size_t)graph->n_params + 1, sizeof *p->shard);
    p->bucket = calloc((size_t)graph->n_params + 5, sizeof *p->bucket);
    p->index = calloc((size_t)graph->n_params + 1, sizeof *p->index);
    p->is_grad_new = calloc((size_t)graph->n_params + 1, sizeof *p->is_grad_new);
    if (p->shard == NULL || p->index == NULL || p->bucket == NULL || p->is_grad_new == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the table of parameters");
        goto out;
    }
    p->device = device;
    p->threads = cs_cores_each(cs_plan_world(plan));
    p->grad_size = cs_device_keeps_bf16(device) ? sizeof(uint16_t) : sizeof(float);
    add_entries(p, plan, a.rank);
    cs_places_plan(&a);
    cs_places_measure(&a);
    status = take_memory(p, err);
    if (status != CS_OK) {
        status = cs_wrap(err, status, "rank %d needs %zu bytes for parameters, %zu to train them",
                         rank, p->weight_bytes, p->state_bytes);
        goto out;
    }
    cs_places_assign(&a);
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
    free(a.layer_bytes);
    free(a.layer_at);
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

static bool is_settled_with(const struct cs_params *p, const struct cs_shard *t, int32_t bucket)
{
    if (bucket >= 0)
        return t->bucket == bucket;
    return t->bucket < 0 || p->bucket[t->bucket].zero < 2;
}

void cs_params_settle_grads(struct cs_params *params, int32_t bucket)
{
    if (params->device->mem == NULL)
        return; /* also called beside the thread that computes */
    for (int32_t i = 0; i < params->n; i++) {
        const struct cs_shard *t = &params->shard[i];
        if (*t->is_grad_new && is_settled_with(params, t, bucket))
            cs_device_zero(params->device, t->grad, (size_t)t->param->count * params->grad_size);
    }
    for (int32_t i = 0; i < params->n; i++)
        if (is_settled_with(params, &params->shard[i], bucket))
            *params->shard[i].is_grad_new = false;
}

void cs_params_renew_grads(struct cs_params *params, int32_t bucket)
{
    const struct cs_bucket *b = &params->bucket[bucket];
    if (params->device->mem == NULL)
        cs_device_zero(params->device, cs_params_at(params->state, b->grad),
                       (size_t)b->n * params->grad_size);
    for (int32_t i = 0; params->device->mem != NULL && i < params->n; i++)
        if (params->shard[i].bucket == bucket)
            *params->shard[i].is_grad_new = true;
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
    if (!cs_shard_is_whole(params, shard))
        return cs_fail(err, CS_STATE, "no replica has all of %s", shard->param->name);
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

enum { ROUND_AT_ONCE = 1 << 20 };

struct rounding {
    const float *from;
    uint16_t *to;
};

static void round_range(void *user, int64_t first, int64_t n)
{
    const struct rounding *r = user;
    for (int64_t i = first; i < first + n; i++)
        r->to[i] = cs_bf16_from_f32(r->from[i]);
}

enum cs_status cs_params_set(struct cs_params *params, struct cs_shard *shard, const float *host,
                             struct cs_err *err)
{
    const bool is_whole = cs_shard_is_whole(params, shard);
    const size_t n = (size_t)(is_whole ? shard->param->count : shard->own_n);
    const float *from = is_whole ? host : host + shard->own_at;
    void *w = is_whole ? shard->w : shard->own_w;
    if (cs_device_is_f32(params->device)) {
        if (from != w)
            cs_device_copy(params->device, w, from, n * sizeof *from);
        return cs_device_sync(params->device, err);
    }
    if (shard->master != NULL)
        cs_device_copy(params->device, shard->master, host + shard->own_at,
                       (size_t)shard->own_n * sizeof *host);
    uint16_t *acts = staged_acts(params);
    cs_parallel_for(params->threads, (int64_t)n, ROUND_AT_ONCE, round_range,
                    &(struct rounding){from, acts});
    cs_device_copy(params->device, w, acts, n * sizeof *acts);
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
        const bool is_divided = t->grad != NULL || t->bucket >= 0;
        const bool is_stored = (t->grad != NULL || t->is_restored) &&
                               (is_divided ? t->own_n > 0 : cs_params_holders(params, t)->at == 0);
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
    const void *const of[CS_STATES] = {t->master, t->exp_avg, t->exp_avg_sq};
    const bool is_frozen = t->grad == NULL;
    if (is_frozen && which != CS_STATE_MASTER)
        memset(host, 0, n * sizeof *host);
    else if (is_frozen && t->restored != NULL)
        memcpy(host, t->restored + t->own_at, n * sizeof *host);
    else if (of[which] != NULL && !cs_device_keeps_bf16(params->device))
        return cs_device_read(params->device, host, of[which], n * sizeof *host, err);
    else
        return read_bf16(params, which == CS_STATE_MASTER ? t->own_w : of[which], n, host, err);
    return CS_OK;
}
