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

static void assign(struct cs_params *p, const struct place *place, int64_t w_floats,
                   int64_t grad_floats)
{
    float *w = p->arena, *grad = w + w_floats, *m = grad + grad_floats, *v = m + grad_floats;
    p->grads = grad;
    p->grad_bytes = (size_t)grad_floats * sizeof(float);
    for (int32_t i = 0; i < p->n; i++) {
        struct cs_tensor *t = &p->tensor[place[i].tensor];
        t->w = w + place[i].w_at;
        if (!t->param->is_trainable)
            continue;
        t->grad = grad + place[i].grad_at;
        t->exp_avg = m + place[i].grad_at;
        t->exp_avg_sq = v + place[i].grad_at;
    }
    if (p->tied != NULL && p->embed != NULL) { /* both stages here: one set of weights */
        p->tied->w = p->embed->w;
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

enum cs_status cs_params_new(const struct cs_graph *graph, const struct cs_plan *plan, int rank,
                             struct cs_params **out, struct cs_err *err)
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
    add_entries(p, plan, rank);
    status = check_groups(p, err);
    if (status != CS_OK)
        goto out;
    plan_places(&a);
    p->bytes = ((size_t)a.w_at + 3 * (size_t)a.grad_at + ALIGN_FLOATS) * sizeof(float);
    p->arena = aligned_alloc(ALIGN_FLOATS * sizeof(float), p->bytes);
    if (p->arena == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "rank %d needs %zu bytes for parameters and optimizer",
                         rank, p->bytes);
        goto out;
    }
    memset(p->arena, 0, p->bytes);
    assign(p, a.place, a.w_at, a.grad_at);
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
    free(params->tensor);
    free(params->index);
    free(params->arena);
    free(params->zeros);
    free(params);
}

struct cs_tensor *cs_params_find(const struct cs_params *params, int32_t param_id)
{
    const int32_t at = params->index[param_id];
    return at >= 0 ? &params->tensor[at] : NULL;
}

void cs_params_zero_grads(struct cs_params *params)
{
    memset(params->grads, 0, params->grad_bytes);
}

void cs_params_hash(const struct cs_tensor *tensor, char out[33])
{
    cs_xxh3_128_hex(tensor->w, (size_t)tensor->param->count * sizeof(float), out);
}

int cs_params_owned(const struct cs_params *params, struct cs_ckpt_param *out)
{
    int n = 0;
    for (int32_t i = 0; i < params->n; i++) {
        const struct cs_tensor *t = &params->tensor[i];
        if (t->is_counted && t->grad != NULL)
            out[n++] = (struct cs_ckpt_param){t->param, t->w, t->exp_avg, t->exp_avg_sq};
        else if (t->is_counted && t->is_restored)
            out[n++] = (struct cs_ckpt_param){t->param, t->w, params->zeros, params->zeros};
    }
    return n;
}
