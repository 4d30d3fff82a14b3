/* The arena of a rank's parameters; see params.h. Loading is in params_load.c. */
#include "worker/params.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"

enum { ALIGN_FLOATS = 16, GROUP_MEMBERS = 3 };

/* Placement inside a layer: roles of one group are neighbours. */
static const struct {
    int group;
    int order;
} places[CS_PARAM_ROLE_COUNT] = {
    [CS_PARAM_Q_W] = {1, 0},
      [CS_PARAM_K_W] = {1, 1},
      [CS_PARAM_V_W] = {1, 2},
    [CS_PARAM_Q_B] = {2, 0},
      [CS_PARAM_K_B] = {2, 1},
      [CS_PARAM_V_B] = {2, 2},
    [CS_PARAM_GATE_W] = {3, 0},
      [CS_PARAM_UP_W] = {3, 1},
};

/* One parameter's place; trainable ones have a second place that gradient and moments share. */
struct place {
    int32_t tensor; /* index in params->tensor */
    int64_t w_at, grad_at;
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

static int32_t add_layer(struct cs_params *p, const struct cs_layer *layer)
{
    for (int32_t i = 0; i < layer->n_params; i++) {
        const struct cs_param *param = &p->graph->params[layer->first_param + i];
        p->tensor[p->n++] = (struct cs_tensor){.param = param, .is_counted = true};
    }
    return layer->n_params;
}

static int by_param_id(const void *a, const void *b)
{
    const struct cs_tensor *x = a, *y = b;
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
    qsort(p->tensor, (size_t)p->n, sizeof *p->tensor, by_param_id);
    for (int32_t i = 0; i < p->graph->n_params; i++)
        p->index[i] = -1;
    for (int32_t i = 0; i < p->n; i++)
        p->index[p->tensor[i].param->id] = i;
    if (!p->graph->is_tied)
        return;
    p->embed_rank = plan->stages[plan->embed_stage].rank;
    p->head_rank = plan->stages[plan->head_stage].rank;
    for (int32_t i = 0; i < p->graph->n_params; i++) {
        const struct cs_param *param = &p->graph->params[i];
        if (!has_embedding_role(p->graph, param))
            continue;
        if (p->embed_rank == rank)
            p->embed = &p->tensor[p->index[i]];
        if (p->head_rank == rank) {
            p->tied = &p->tensor[p->n++];
            *p->tied = (struct cs_tensor){.param = param, .is_tied_head = true};
        }
    }
}

static int64_t align_up(int64_t at)
{
    return (at + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

struct planner {
    const struct cs_params *params;
    struct place *place;
    bool *is_placed; /* (params->n) */
    int32_t n;
    int64_t w_at, grad_at;
};

static void put(struct planner *a, int32_t tensor)
{
    const struct cs_tensor *t = &a->params->tensor[tensor];
    const bool is_view = t->is_tied_head && a->params->embed != NULL;
    a->place[a->n++] = (struct place){tensor, a->w_at, a->grad_at};
    a->is_placed[tensor] = true;
    a->w_at += is_view ? 0 : t->param->count;
    a->grad_at += t->param->is_trainable ? t->param->count : 0;
}

/* Places in the order of layers and groups. Tensors of one group follow each other without a gap in
 * all areas, because a layer's parameters are trained or frozen together. */
static void plan_places(struct planner *a)
{
    const struct cs_params *p = a->params;
    for (int32_t i = 0; i < p->n; i++) {
        const struct cs_param *first = p->tensor[i].param;
        const int group = places[first->role].group;
        if (a->is_placed[i])
            continue;
        a->w_at = align_up(a->w_at);
        a->grad_at = align_up(a->grad_at);
        if (group == 0) {
            put(a, i);
            continue;
        }
        for (int order = 0; order < GROUP_MEMBERS; order++)
            for (int32_t j = i; j < p->n && p->tensor[j].param->layer == first->layer; j++)
                if (places[p->tensor[j].param->role].group == group &&
                    places[p->tensor[j].param->role].order == order)
                    put(a, j);
    }
    a->w_at = align_up(a->w_at);
    a->grad_at = align_up(a->grad_at);
    CS_ASSERT(a->n == p->n);
}

static void assign(struct cs_params *p, const struct place *place, int64_t grad_floats)
{
    const bool is_f32 = cs_device_is_f32(p->device);
    float *grad = p->state, *m = grad + grad_floats, *v = m + grad_floats, *apart = v + grad_floats;
    p->grads = grad;
    p->grad_bytes = (size_t)grad_floats * sizeof(float);
    for (int32_t i = 0; i < p->n; i++) {
        struct cs_tensor *t = &p->tensor[place[i].tensor];
        t->w = (char *)p->weights + (size_t)place[i].w_at * p->device->ops->act_bytes;
        t->master = is_f32 ? t->w : NULL;
        if (!t->param->is_trainable)
            continue;
        t->grad = grad + place[i].grad_at;
        t->exp_avg = m + place[i].grad_at;
        t->exp_avg_sq = v + place[i].grad_at;
        t->master = is_f32 ? t->w : (void *)(apart + place[i].grad_at);
    }
    if (p->tied != NULL && p->embed != NULL) { /* both stages here: one set of weights */
        p->tied->w = p->embed->w;
        p->tied->master = p->embed->master;
        p->tied->exp_avg = p->tied->exp_avg_sq = NULL;
    }
}

/* A group whose members are trained differently has no common gradient matrix. The parameters of a
 * layer are trained together, so this cannot happen with the rules of a job. */
static enum cs_status check_groups(const struct cs_params *p, struct cs_err *err)
{
    for (int32_t i = 0; i < p->n; i++)
        for (int32_t j = i + 1; j < p->n && p->tensor[j].param->layer == p->tensor[i].param->layer;
             j++)
            if (places[p->tensor[i].param->role].group > 0 &&
                places[p->tensor[i].param->role].group == places[p->tensor[j].param->role].group &&
                p->tensor[i].param->is_trainable != p->tensor[j].param->is_trainable)
                return cs_fail(err, CS_UNSUPPORTED,
                               "%s and %s lie in one fused matrix: train or freeze both",
                               p->tensor[i].param->name, p->tensor[j].param->name);
    return CS_OK;
}

/* Both blocks and, where the device has memory of its own, room on the host for one tensor as fp32
 * and as acts. */
static enum cs_status take_memory(struct cs_params *p, int64_t w_acts, int64_t grad_floats,
                                  struct cs_err *err)
{
    const bool is_f32 = cs_device_is_f32(p->device);
    void *state;
    int64_t most = 1;
    p->weight_bytes = (size_t)w_acts * p->device->ops->act_bytes;
    p->state_bytes = (size_t)grad_floats * (is_f32 ? 3 : 4) * sizeof(float);
    CS_TRY(cs_device_alloc(p->device, p->weight_bytes, &p->weights, err));
    CS_TRY(cs_device_alloc(p->device, p->state_bytes, &state, err));
    p->state = state;
    cs_device_zero(p->device, p->weights, p->weight_bytes);
    cs_device_zero(p->device, p->state, p->state_bytes);
    if (p->device->mem == NULL)
        return CS_OK;
    for (int32_t i = 0; i < p->n; i++)
        most = p->tensor[i].param->count > most ? p->tensor[i].param->count : most;
    p->staging = malloc((size_t)most * (sizeof(float) + p->device->ops->act_bytes));
    if (p->staging == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to load tensors of %lld elements",
                       (long long)most);
    p->staging_count = most;
    return cs_device_sync(p->device, err);
}

enum cs_status cs_params_new(const struct cs_graph *graph, const struct cs_plan *plan, int rank,
                             struct cs_device *device, struct cs_params **out, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    struct cs_params *p = calloc(1, sizeof *p);
    const size_t room = (size_t)graph->n_params + 1;
    struct planner a = {.params = p,
                        .place = calloc(room, sizeof *a.place),
                        .is_placed = calloc(room, sizeof *a.is_placed)};
    *out = NULL;
    if (p == NULL || a.place == NULL || a.is_placed == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the table of parameters");
        goto out;
    }
    p->graph = graph;
    p->embed_rank = p->head_rank = -1;
    p->tensor = calloc((size_t)graph->n_params + 1, sizeof *p->tensor);
    p->index = calloc((size_t)graph->n_params + 1, sizeof *p->index);
    if (p->tensor == NULL || p->index == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the table of parameters");
        goto out;
    }
    p->device = device;
    add_entries(p, plan, rank);
    status = check_groups(p, err);
    if (status != CS_OK)
        goto out;
    plan_places(&a);
    status = take_memory(p, a.w_at, a.grad_at, err);
    if (status != CS_OK) {
        status = cs_wrap(err, status, "rank %d needs %zu bytes for parameters, %zu to train them",
                         rank, p->weight_bytes, p->state_bytes);
        goto out;
    }
    assign(p, a.place, a.grad_at);
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
    for (int32_t i = 0; params->tensor != NULL && i < params->n; i++)
        free(params->tensor[i].restored);
    free(params->tensor);
    free(params->index);
    cs_device_free(params->device, params->weights, params->weight_bytes);
    cs_device_free(params->device, params->state, params->state_bytes);
    free(params->zeros);
    free(params->staging);
    free(params);
}

struct cs_tensor *cs_params_find(const struct cs_params *params, int32_t param_id)
{
    const int32_t at = params->index[param_id];
    return at >= 0 ? &params->tensor[at] : NULL;
}

void cs_params_zero_grads(struct cs_params *params)
{
    cs_device_zero(params->device, params->grads, params->grad_bytes);
}

/* Where the acts of a tensor lie in the staging memory: behind its fp32 values. */
static uint16_t *staged_acts(const struct cs_params *p)
{
    return (uint16_t *)(void *)(p->staging + p->staging_count);
}

enum cs_status cs_params_values(struct cs_params *params, const struct cs_tensor *tensor,
                                const float **out, struct cs_err *err)
{
    const size_t n = (size_t)tensor->param->count;
    *out = tensor->restored != NULL ? tensor->restored : tensor->master;
    if (params->staging == NULL || tensor->restored != NULL)
        return CS_OK;
    *out = params->staging;
    if (tensor->master != NULL)
        return cs_device_read(params->device, params->staging, tensor->master, n * sizeof(float),
                              err);
    uint16_t *acts = staged_acts(params);
    CS_TRY(cs_device_read(params->device, acts, tensor->w, n * sizeof *acts, err));
    for (size_t i = 0; i < n; i++)
        params->staging[i] = cs_f32_from_bf16(acts[i]);
    return CS_OK;
}

enum cs_status cs_params_set(struct cs_params *params, struct cs_tensor *tensor, const float *host,
                             struct cs_err *err)
{
    const size_t n = (size_t)tensor->param->count;
    if (tensor->master != NULL && host != tensor->master)
        cs_device_copy(params->device, tensor->master, host, n * sizeof *host);
    if (!cs_device_is_f32(params->device)) {
        uint16_t *acts = staged_acts(params);
        for (size_t i = 0; i < n; i++)
            acts[i] = cs_bf16_from_f32(host[i]);
        cs_device_copy(params->device, tensor->w, acts, n * sizeof *acts);
    }
    return cs_device_sync(params->device, err); /* host is the caller's again */
}

enum cs_status cs_params_hash(struct cs_params *params, const struct cs_tensor *tensor,
                              char out[33], struct cs_err *err)
{
    const float *values;
    CS_TRY(cs_params_values(params, tensor, &values, err));
    cs_xxh3_128_hex(values, (size_t)tensor->param->count * sizeof *values, out);
    return CS_OK;
}

int cs_params_owned(const struct cs_params *params, struct cs_ckpt_param *out)
{
    int n = 0;
    for (int32_t i = 0; i < params->n; i++) {
        const struct cs_tensor *t = &params->tensor[i];
        if (t->is_counted && t->grad != NULL)
            out[n++] = (struct cs_ckpt_param){t->param, t->master, t->exp_avg, t->exp_avg_sq};
        else if (t->is_counted && t->is_restored)
            out[n++] =
                (struct cs_ckpt_param){t->param, t->restored != NULL ? t->restored : t->master,
                                       params->zeros, params->zeros};
    }
    return n;
}
