/* Sums, norm, clipping and the update of what this rank trains. */
#include "worker/params/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/philox.h"
#include "core/model/groups.h"

static int owner_of(const struct cs_plan *plan, int32_t layer)
{
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (layer >= plan->stages[s].first_layer &&
            layer < plan->stages[s].first_layer + plan->stages[s].n_layers)
            return plan->stages[s].rank;
    return -1;
}

/* A rank's squares lie together, in the order of parameter ids; ranks in their order. */
static enum cs_status plan_gather(struct cs_optim *o, const struct cs_graph *graph,
                                  const struct cs_plan *plan, struct cs_err *err)
{
    int32_t *count = calloc((size_t)plan->n_ranks + 1, sizeof *count), n = 0;
    if (count == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the optimizer");
    for (int32_t i = 0; i < graph->n_params; i++) {
        const int owner = owner_of(plan, graph->params[i].layer);
        if (!graph->params[i].is_trainable)
            continue;
        if (owner < 0 || owner >= plan->n_ranks) {
            free(count);
            return cs_fail(err, CS_PLAN, "no stage of the plan holds %s", graph->params[i].name);
        }
        o->owner[o->n_counted] = owner;
        o->at[o->n_counted++] = count[owner]++;
    }
    for (int r = 0; r < o->n_ranks; r++) {
        const int32_t its = count[cs_plan_rank_in_replica(plan, r)];
        o->bytes[r] = (size_t)its * sizeof(double);
        o->first[r] = n;
        n += its;
    }
    free(count);
    o->all = calloc((size_t)n + 1, sizeof *o->all);
    return o->all != NULL ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory for the optimizer");
}

static double lr_of(const struct cs_spec *spec, int32_t group)
{
    return group >= 0 && spec->groups[group].lr >= 0 ? spec->groups[group].lr : spec->lr;
}

static double decay_of(const struct cs_spec *spec, int32_t group)
{
    return group >= 0 && spec->groups[group].weight_decay >= 0 ? spec->groups[group].weight_decay
                                                               : spec->weight_decay;
}

static void add_update(struct cs_optim *o, const struct cs_shard *t, int32_t group)
{
    const float decay = t->param->is_decayed ? (float)decay_of(o->spec, group) : 0.0f;
    o->name[o->n_updates] = cs_fnv1a64(t->param->name, strlen(t->param->name));
    if (cs_device_keeps_bf16(o->device))
        o->update_bf16[o->n_updates++] = (struct cs_adamw_bf16_tensor){
            .n = t->own_n,
            .weight_decay = decay,
            .first = t->own_at,
            .grad = t->own_grad,
            .w = t->own_w,
            .exp_avg = t->exp_avg,
            .exp_avg_sq = t->exp_avg_sq,
        };
    else
        o->update[o->n_updates++] = (struct cs_adamw_tensor){
            .n = t->own_n,
            .weight_decay = decay,
            .grad = t->own_grad,
            .master = t->master,
            .exp_avg = t->exp_avg,
            .exp_avg_sq = t->exp_avg_sq,
            .w = t->own_w,
        };
}

/* Updates of one learning rate lie together: those of the optimizer's own first, then group by group. */
static void list_tensors(struct cs_optim *o, const struct cs_graph *graph)
{
    for (int32_t i = 0; i < o->params->n; i++) {
        const struct cs_shard *t = &o->params->shard[i];
        if (t->is_counted && t->grad != NULL)
            o->square[o->n_mine++] =
                (struct cs_sumsq_tensor){cs_shard_is_first(t) ? t->own_n : 0, t->own_grad};
    }
    for (int32_t g = -1; g < o->spec->n_groups; g++) {
        for (int32_t i = 0; i < o->params->n; i++) {
            const struct cs_shard *t = &o->params->shard[i];
            if (t->exp_avg != NULL && t->own_n > 0 && cs_graph_group(graph, o->spec, t->param) == g)
                add_update(o, t, g);
        }
        o->group_end[g + 1] = o->n_updates;
    }
}

static enum cs_status take_device(struct cs_optim *o, const struct cs_shard *tied, size_t n,
                                  struct cs_err *err)
{
    void *p;
    if (tied != NULL && tied->grad != NULL && o->params->embed_rank != o->params->head_rank) {
        o->tied_bytes = (size_t)tied->own_n * o->params->grad_size;
        CS_TRY(cs_device_alloc(o->device, o->tied_bytes, &o->tied_peer, err));
    }
    o->squares = o->mine;
    if (o->device->mem == NULL)
        return CS_OK;
    CS_TRY(cs_device_alloc(o->device, n * sizeof *o->squares, &p, err));
    o->squares = p;
    o->square_bytes = n * sizeof *o->squares;
    return CS_OK;
}

enum cs_status cs_optim_new(const struct cs_spec *spec, const struct cs_graph *graph,
                            const struct cs_plan *plan, struct cs_params *params,
                            struct cs_device *device, int rank, struct cs_optim **out,
                            struct cs_err *err)
{
    const size_t n = (size_t)graph->n_params + 1;
    struct cs_optim *o = calloc(1, sizeof *o);
    *out = NULL;
    if (o == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the optimizer");
    *o = (struct cs_optim){.spec = spec,
                           .plan = plan,
                           .device = device,
                           .params = params,
                           .rank = rank,
                           .n_ranks = cs_plan_world(plan),
                           .bytes = calloc((size_t)cs_plan_world(plan) + 1, sizeof *o->bytes),
                           .first = calloc((size_t)cs_plan_world(plan) + 1, sizeof *o->first),
                           .owner = calloc(n, sizeof *o->owner),
                           .at = calloc(n, sizeof *o->at),
                           .square = calloc(n, sizeof *o->square),
                           .update = calloc(n, sizeof *o->update),
                           .update_bf16 = calloc(n, sizeof *o->update_bf16),
                           .name = calloc(n, sizeof *o->name),
                           .group_end = calloc((size_t)spec->n_groups + 1, sizeof *o->group_end),
                           .mine = calloc(n, sizeof *o->mine)};
    enum cs_status status = CS_OK;
    const struct cs_shard *tied = params->tied != NULL ? params->tied : params->embed;
    if (o->bytes == NULL || o->first == NULL || o->owner == NULL || o->at == NULL ||
        o->mine == NULL || o->square == NULL || o->update == NULL || o->update_bf16 == NULL ||
        o->name == NULL || o->group_end == NULL)
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the optimizer");
    if (status == CS_OK)
        status = take_device(o, tied, n, err);
    if (status == CS_OK)
        status = plan_gather(o, graph, plan, err);
    if (status == CS_OK)
        list_tensors(o, graph);
    if (status != CS_OK) {
        cs_optim_free(o);
        return status;
    }
    *out = o;
    return CS_OK;
}

void cs_optim_free(struct cs_optim *optim)
{
    if (optim == NULL)
        return;
    free(optim->bytes);
    free(optim->first);
    free(optim->owner);
    free(optim->at);
    free(optim->all);
    cs_device_free(optim->device, optim->tied_peer, optim->tied_bytes);
    if (optim->squares != optim->mine)
        cs_device_free(optim->device, optim->squares, optim->square_bytes);
    free(optim->mine);
    free(optim->square);
    free(optim->update);
    free(optim->update_bf16);
    free(optim->name);
    free(optim->group_end);
    free(optim);
}

void cs_optim_begin(struct cs_optim *optim)
{
    cs_params_zero_grads(optim->params);
    optim->is_tied_summed = false;
    optim->grad_norm = 0.0;
    optim->lr = 0.0;
    optim->grad_scale = 0.0f;
    optim->is_skipped = false;
}

bool cs_optim_tied_begin(struct cs_optim *optim, struct cs_tied_exchange *out)
{
    const struct cs_params *p = optim->params;
    const struct cs_shard *own = p->embed != NULL ? p->embed : p->tied;
    if (own == NULL || own->grad == NULL || optim->is_tied_summed)
        return false;
    cs_params_settle_grads(optim->params, -1); /* their backwards are over */
    if (p->embed_rank == p->head_rank) {
        *out = (struct cs_tied_exchange){
            .peer = -1,
            .mine = own->grad,
            .theirs = p->tied->grad,
            .bytes = (size_t)own->param->count * p->grad_size,
        };
        return out->theirs != out->mine; /* one gradient for both: nothing to add */
    }
    *out = (struct cs_tied_exchange){
        .peer = p->embed != NULL ? p->head_rank : p->embed_rank,
        .mine = own->own_grad,
        .theirs = optim->tied_peer,
        .bytes = (size_t)own->own_n * p->grad_size,
    };
    return own->own_n > 0; /* of both ranks' part */
}

/* own = embedding's + head's; addition of two numbers commutes to the bit, so it does not matter
 * which of them is here: both copies of the table get the same sum */
void cs_optim_tied_end(struct cs_optim *optim, const struct cs_tied_exchange *x)
{
    const struct cs_device *d = optim->device;
    const size_t size = optim->params->grad_size;
    const struct cs_ops *ops = d->ops->act_bytes == size ? d->ops : d->mem->ops_f32;
    struct cs_ctx ctx = cs_device_ctx(d);
    ops->add(&ctx, (int64_t)(x->bytes / size), x->mine, x->theirs, x->mine);
    optim->is_tied_summed = true;
}

enum cs_status cs_optim_tied(struct cs_optim *optim, struct cs_comm *comm, int deadline_ms,
                             struct cs_err *err)
{
    struct cs_tied_exchange t;
    if (!cs_optim_tied_begin(optim, &t))
        return CS_OK;
    if (t.peer >= 0) {
        if (comm == NULL)
            return cs_fail(err, CS_INTERNAL, "the tied embedding's other stage cannot be reached");
        const int peer = cs_plan_peer(optim->plan, optim->rank, t.peer);
        struct cs_xfer x[2] = {
            {.peer = peer, .data = t.mine, .bytes = t.bytes, .is_send = 1},
            {.peer = peer,            .data = t.theirs,               .bytes = t.bytes   }
        };
        CS_TRY(comm->table->exchange(comm, x, 2, deadline_ms, err));
    }
    cs_optim_tied_end(optim, &t);
    return CS_OK;
}

enum cs_status cs_optim_tied_here(struct cs_optim *optim, struct cs_err *err)
{
    const struct cs_params *p = optim->params;
    const bool is_here = p->embed_rank >= 0 && p->embed_rank == p->head_rank;
    return is_here ? cs_optim_tied(optim, NULL, 0, err) : CS_OK;
}

/* the square of a parameter's gradient: its parts on all ranks that have it */
static double square_of(const struct cs_optim *o, int32_t i, double before)
{
    const int32_t width = cs_plan_width(o->plan, o->owner[i]);
    double total = before;
    for (int32_t k = 0; k < cs_plan_replicas(o->plan); k++) {
        const int32_t rank = cs_plan_rank_of(o->plan, k, o->owner[i]);
        for (int32_t p = 0; p < width; p++)
            total += o->all[o->first[rank + p] + o->at[i]];
    }
    return total;
}

static double total_of(const struct cs_optim *o)
{
    double total = 0.0;
    for (int32_t i = 0; i < o->n_counted; i++)
        total = square_of(o, i, total);
    return total;
}

enum cs_status cs_optim_norm(struct cs_optim *optim, struct cs_comm *comm, int64_t trained_tokens,
                             int deadline_ms, struct cs_err *err)
{
    struct cs_ctx ctx = cs_device_ctx(optim->device);
    CS_TRY(cs_optim_tied_here(optim, err));
    cs_params_settle_grads(optim->params, -1);
    optim->device->ops->sumsq_many(&ctx, optim->n_mine, optim->square, optim->squares);
    CS_ASSERT((size_t)optim->n_mine * sizeof(double) == optim->bytes[optim->rank]);
    if (optim->squares != optim->mine)
        CS_TRY(cs_device_read(optim->device, optim->mine, optim->squares, optim->bytes[optim->rank],
                              err));
    if (optim->n_ranks > 1)
        CS_TRY(
            comm->table->allgather(comm, optim->mine, optim->all, optim->bytes, deadline_ms, err));
    else
        for (int32_t i = 0; i < optim->n_mine; i++)
            optim->all[i] = optim->mine[i];
    if (trained_tokens <= 0)
        return CS_OK; /* no label, no gradient: grad_scale stays 0 and nothing is updated */
    const double norm = sqrt(total_of(optim)) / (double)trained_tokens;
    optim->grad_norm = norm;
    if (!isfinite(norm)) {
        optim->is_skipped = true;
        optim->n_skipped++;
        return CS_OK;
    }
    const double clip = optim->spec->clip;
    const double factor = clip > 0.0 ? clip / (norm + 1e-6) : 1.0;
    optim->grad_scale = (float)((factor < 1.0 ? factor : 1.0) / (double)trained_tokens);
    return CS_OK;
}

/* What the random bits of a parameter's update are made from. */
static uint64_t key_of(const struct cs_optim *o, int32_t update, int64_t step)
{
    const uint64_t name = o->name[update], count = (uint64_t)step;
    const uint32_t counter[4] = {(uint32_t)count, (uint32_t)(count >> 32), (uint32_t)name,
                                 (uint32_t)(name >> 32)};
    uint32_t out[4];
    cs_philox(o->spec->seed, counter, out);
    return (uint64_t)out[1] << 32 | out[0];
}

void cs_optim_update(struct cs_optim *optim, int64_t step)
{
    const struct cs_spec *spec = optim->spec;
    struct cs_ctx ctx = cs_device_ctx(optim->device);
    optim->lr = spec->lr * cs_spec_lr(spec, step);
    if (optim->grad_scale == 0.0f)
        return;
    struct cs_adamw hyper = {
        .beta1 = (float)spec->beta1,
        .beta2 = (float)spec->beta2,
        .eps = (float)spec->eps,
        .grad_scale = optim->grad_scale,
        .step = step + 1 - optim->n_skipped, /* updates made, this one included */
    };
    const bool keeps_bf16 = cs_device_keeps_bf16(optim->device);
    for (int32_t i = 0; keeps_bf16 && i < optim->n_updates; i++)
        optim->update_bf16[i].key = key_of(optim, i, hyper.step);
    for (int32_t g = -1, at = 0; g < spec->n_groups; at = optim->group_end[++g]) {
        const int32_t n = optim->group_end[g + 1] - at;
        hyper.lr = (float)(lr_of(spec, g) * cs_spec_lr(spec, step));
        if (n > 0 && keeps_bf16)
            optim->device->ops->adamw_bf16_many(&ctx, n, optim->update_bf16 + at, &hyper);
        else if (n > 0)
            optim->device->ops->adamw_many(&ctx, n, optim->update + at, &hyper);
    }
}
