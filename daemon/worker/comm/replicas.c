/* Sums gradients over the replicas of the model and gathers updated weights: over sockets on hosts,
 * over NCCL, beside computing, on devices. What they divide is in divided.c. */
#include "worker/comm/replicas.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/system/environment.h"
#include "core/plan/groups.h"
#include "worker/comm/group.h"
#include "worker/comm/replicas_state.h"

/* ---- the host: messages over sockets ---- */

static enum cs_status exchange(struct cs_replicas *r, int n, struct cs_err *err)
{
    return r->comm->table->exchange(r->comm, r->xfer, n, r->deadline_ms, err);
}

static enum cs_status reduce_on_host(struct cs_replicas *r, const struct cs_bucket *b,
                                     struct cs_err *err)
{
    const struct cs_replica_ranks *of = cs_replicas_of(r, b);
    float *grads = cs_params_at(r->params->state, b->grad);
    CS_TRY(exchange(r, cs_replicas_list_parts(r, b, grads), err));
    if (of->n > 1)
        cs_replicas_add_parts(r, b, grads + cs_replicas_part(r, b) * of->mine,
                              cs_params_at(r->params->state, b->own_grad));
    return CS_OK;
}

static enum cs_status gather_on_host(struct cs_replicas *r, const struct cs_bucket *b,
                                     struct cs_err *err)
{
    return exchange(r, cs_replicas_list_weights(r, b), err);
}

/* ---- devices: NCCL on a stream of its own ---- */

static enum cs_status reduce_on_device(struct cs_replicas *r, int32_t bucket, struct cs_err *err)
{
    const struct cs_bucket *b = &r->params->bucket[bucket];
    if (r->is_started[bucket])
        return CS_OK;
    r->is_started[bucket] = true;
    return cs_replicas_reduce_scatter(r, b, cs_params_at(r->params->state, b->own_grad), err);
}

static enum cs_status gather_on_device(struct cs_replicas *r, int32_t bucket, struct cs_err *err)
{
    CS_TRY(cs_replicas_all_gather(r, &r->params->bucket[bucket], err));
    CS_TRY(cs_replicas_mem(r)->event_record(r->device->handle, r->arrived[bucket], r->stream, err));
    r->n_awaited += !r->is_awaited[bucket];
    r->is_awaited[bucket] = true;
    return CS_OK;
}

static bool holds(const struct cs_bucket *b, int32_t layer)
{
    return layer < 0 || (b->first_layer <= layer && layer < b->end_layer);
}

enum cs_status cs_replicas_need(struct cs_replicas *replicas, int32_t layer, struct cs_err *err)
{
    struct cs_replicas *r = replicas;
    for (int32_t i = 0; r != NULL && r->n_awaited > 0 && i < r->params->n_buckets; i++) {
        if (!r->is_awaited[i] || !holds(&r->params->bucket[i], layer))
            continue;
        CS_TRY(cs_replicas_mem(r)->stream_wait(r->device->handle, r->device->stream, r->arrived[i],
                                               err));
        r->is_awaited[i] = false;
        r->n_awaited--;
    }
    return CS_OK;
}

/* The sum of a bucket can start when a layer's gradients are there: those that ranks which share its
 * matrices, or copies of it, add up are not before the end of the step, and what is divided has its own
 * time. */
static bool is_due(const struct cs_replicas *r, int32_t bucket, int32_t layer)
{
    const struct cs_bucket *b = &r->params->bucket[bucket];
    return b->first_layer == layer && b->zero < 2 && !r->is_started[bucket] && !r->is_late[bucket];
}

enum cs_status cs_replicas_layer_done(struct cs_replicas *replicas, int32_t layer, unsigned made,
                                      bool is_last, struct cs_err *err)
{
    struct cs_replicas *r = replicas;
    bool is_ordered = false;
    CS_TRY(cs_replicas_sum_layer(r, layer, made, err));
    if (r == NULL || cs_replicas_mem(r) == NULL || !is_last || (made & CS_MADE_WITH_WEIGHTS) == 0)
        return CS_OK;
    for (int32_t i = 0; i < r->params->n_buckets; i++)
        if (is_due(r, i, layer))
            cs_params_settle_grads(r->params, i);
    for (int32_t i = 0; i < r->params->n_buckets; i++) {
        if (!is_due(r, i, layer))
            continue;
        if (!is_ordered)
            CS_TRY(cs_replicas_after(r, r->stream, r->device->stream, err));
        is_ordered = true;
        CS_TRY(reduce_on_device(r, i, err));
    }
    return CS_OK;
}

/* ---- both ---- */

void cs_replicas_begin(struct cs_replicas *replicas)
{
    cs_replicas_forget(replicas);
    if (replicas != NULL && replicas->is_started != NULL)
        memset(replicas->is_started, 0,
               (size_t)replicas->params->n_buckets * sizeof *replicas->is_started);
}

enum cs_status cs_replicas_reduce(struct cs_replicas *replicas, struct cs_err *err)
{
    struct cs_replicas *r = replicas;
    const bool is_host = cs_replicas_mem(r) == NULL;
    cs_params_settle_grads(r->params, -1);
    if (!is_host)
        CS_TRY(cs_replicas_after(r, r->stream, r->device->stream, err));
    for (int is_late = 0; is_late < 2; is_late++) /* as backwards do: one order on all replicas */
        for (int32_t i = r->params->n_buckets - 1; i >= 0; i--) {
            struct cs_bucket *b = &r->params->bucket[i];
            if ((b->first_layer < 0) == (is_late != 0) && b->zero < 2)
                CS_TRY(is_host ? reduce_on_host(r, b, err) : reduce_on_device(r, i, err));
        }
    return is_host ? CS_OK : cs_replicas_after(r, r->device->stream, r->stream, err);
}

enum cs_status cs_replicas_gather(struct cs_replicas *replicas, struct cs_err *err)
{
    struct cs_replicas *r = replicas;
    const bool is_host = cs_replicas_mem(r) == NULL;
    if (!is_host)
        CS_TRY(cs_replicas_after(r, r->stream, r->device->stream, err));
    for (int32_t i = 0; i < r->params->n_buckets; i++)
        if (r->params->bucket[i].zero < 3)
            CS_TRY(is_host ? gather_on_host(r, &r->params->bucket[i], err)
                           : gather_on_device(r, i, err));
    cs_replicas_forget(r); /* what was whole of others is of weights before this update */
    return CS_OK;
}

/* The first of its holders receives what the others have of the entry. */
static enum cs_status receive_parts(struct cs_replicas *r, const struct cs_replica_ranks *of,
                                    const struct cs_shard *t, float *host, struct cs_err *err)
{
    int n_xfers = 0;
    for (int k = 1; k < of->n; k++) {
        int64_t at, n;
        cs_params_part(r->params, t, k, &at, &n);
        r->xfer[n_xfers++] = (struct cs_xfer){
            .peer = of->rank[k], .data = host + at, .bytes = (size_t)n * sizeof *host};
    }
    return exchange(r, n_xfers, err);
}

enum cs_status cs_replicas_collect(struct cs_replicas *replicas, struct cs_params *params,
                                   const struct cs_shard *tensor, enum cs_state which, float *host,
                                   struct cs_err *err)
{
    struct cs_replicas *r = replicas;
    const bool is_first = cs_params_holders(params, tensor)->at == 0;
    float *to = host + (is_first ? tensor->own_at : 0);
    CS_TRY(cs_params_state(params, tensor, which, to, err));
    if (r == NULL || tensor->bucket < 0)
        return CS_OK;
    const struct cs_replica_ranks *of = cs_replicas_of(r, &params->bucket[tensor->bucket]);
    if (is_first)
        return receive_parts(r, of, tensor, host, err);
    r->xfer[0] = (struct cs_xfer){.peer = of->rank[0],
                                  .data = host,
                                  .bytes = (size_t)tensor->own_n * sizeof *host,
                                  .is_send = 1};
    return exchange(r, 1, err);
}

/* ---- life ---- */

/* for comparisons the environment says whether sums of replicas come before what computes */
static enum cs_status make_stream(struct cs_replicas *r, struct cs_err *err)
{
    return cs_variable_is(CS_VAR_REPLICA_STREAM, "urgent")
               ? cs_replicas_mem(r)->stream_create_urgent(r->device->handle, &r->stream, err)
               : cs_replicas_mem(r)->stream_create(r->device->handle, &r->stream, err);
}

static enum cs_status open_nccl(struct cs_replicas *r, struct cs_err *err)
{
    CS_TRY(make_stream(r, err));
    CS_TRY(cs_replicas_mem(r)->event_create(r->device->handle, &r->event, err));
    for (int i = 0; i < (r->is_spread ? CS_HELDS : 1); i++) {
        struct cs_replica_ranks *of = &r->of[i];
        if (of->n > 1)
            CS_TRY(cs_comm_group_open(r->device, of->rank, of->n, of->mine, CS_DEVICE_COMM_GROUP,
                                      r->comm, r->deadline_ms, &of->nccl, err));
    }
    return CS_OK;
}

/* the members of the rank's group of a kind; it alone where there is none */
static enum cs_status list_ranks(const struct cs_plan *plan, enum cs_group_kind kind, int rank,
                                 struct cs_replica_ranks *out, struct cs_err *err)
{
    const int32_t own = rank, at = cs_plan_group(plan, kind, -1, rank);
    const struct cs_group alone = {.n = 1, .rank = &own};
    const struct cs_group *group = at >= 0 ? &plan->group[at] : &alone;
    *out = (struct cs_replica_ranks){.n = group->n,
                                     .mine = cs_group_position(group, rank),
                                     .rank = malloc((size_t)group->n * sizeof *out->rank)};
    if (out->rank == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d replicas", group->n);
    memcpy(out->rank, group->rank, (size_t)group->n * sizeof *out->rank);
    return CS_OK;
}

static enum cs_status list_all(struct cs_replicas *r, const struct cs_plan *plan, int rank,
                               struct cs_err *err)
{
    r->is_spread = cs_plan_rank_shape(plan, cs_plan_rank_in_replica(plan, rank)).ep > 1;
    CS_TRY(list_ranks(plan, CS_GROUP_DP, rank, &r->of[CS_HELD_BY_ALL], err));
    CS_TRY(list_ranks(plan, r->is_spread ? CS_GROUP_EDP : CS_GROUP_DP, rank,
                      &r->of[CS_HELD_EXPERTS], err));
    r->xfer = calloc(2 * (size_t)r->of[CS_HELD_BY_ALL].n, sizeof *r->xfer);
    if (r->xfer == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d replicas", r->of[CS_HELD_BY_ALL].n);
    return CS_OK;
}

enum cs_status cs_replicas_new(struct cs_device *device, const struct cs_plan *plan, int rank,
                               struct cs_comm *comm, int deadline_ms, struct cs_replicas **out,
                               struct cs_err *err)
{
    *out = NULL;
    const int32_t at = cs_plan_group(plan, CS_GROUP_DP, -1, rank);
    if (at < 0)
        return CS_OK;
    if (comm == NULL)
        return cs_fail(err, CS_INVALID, "%d replicas need a transport", plan->group[at].n);
    struct cs_replicas *r = calloc(1, sizeof *r);
    if (r == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the replicas");
    *r = (struct cs_replicas){.device = device, .comm = comm};
    enum cs_status status = list_all(r, plan, rank, err);
    if (status == CS_OK && device->mem != NULL)
        status = open_nccl(r, err);
    if (status != CS_OK) {
        cs_replicas_abort(r); /* to close together what is open would wait for who did not come */
        cs_replicas_free(r);
        return cs_wrap(err, status, "connecting rank %d with its replicas", rank);
    }
    r->deadline_ms = deadline_ms; /* of steps: how long ranks take to start is not known */
    *out = r;
    return CS_OK;
}

static enum cs_status bind_device(struct cs_replicas *r, struct cs_err *err)
{
    const size_t n = (size_t)r->params->n_buckets + 1;
    r->arrived = calloc(n, sizeof *r->arrived);
    r->is_started = calloc(n, sizeof *r->is_started);
    r->is_awaited = calloc(n, sizeof *r->is_awaited);
    r->is_late = calloc(n, sizeof *r->is_late);
    if (r->arrived == NULL || r->is_started == NULL || r->is_awaited == NULL || r->is_late == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %zu buckets of gradients", n);
    for (int32_t i = 0; i < r->params->n_buckets; i++)
        CS_TRY(cs_replicas_mem(r)->event_create(r->device->handle, &r->arrived[i], err));
    for (int32_t i = 0; i < r->params->n_buckets; i++)
        r->is_late[i] = r->params->bucket[i].has_copies;
    for (int32_t i = 0; i < r->params->n; i++)
        if (r->params->shard[i].bucket >= 0 && cs_shard_is_summed(&r->params->shard[i]))
            r->is_late[r->params->shard[i].bucket] = true;
    return CS_OK;
}

enum cs_status cs_replicas_bind(struct cs_replicas *replicas, struct cs_params *params,
                                struct cs_err *err)
{
    struct cs_replicas *r = replicas;
    int64_t most = 1;
    r->params = params;
    r->n_buckets = params->n_buckets;
    CS_TRY(cs_replicas_bind_divided(r, err));
    if (cs_replicas_mem(r) != NULL)
        return bind_device(r, err);
    for (int32_t i = 0; i < params->n_buckets; i++)
        most = params->bucket[i].n > most ? params->bucket[i].n : most;
    r->theirs = malloc((size_t)most * sizeof *r->theirs);
    return r->theirs != NULL
               ? CS_OK
               : cs_fail(err, CS_NO_MEMORY, "no memory for the gradients of %d replicas",
                         r->of[CS_HELD_BY_ALL].n);
}

void cs_replicas_free(struct cs_replicas *replicas)
{
    struct cs_replicas *r = replicas;
    if (r == NULL)
        return;
    if (cs_replicas_check(r, NULL) != CS_OK) /* a replica is gone: nobody is waited for */
        cs_replicas_abort(r);
    for (int i = 0; i < CS_HELDS; i++)
        if (r->of[i].nccl != NULL)
            cs_replicas_mem(r)->comm->close(r->of[i].nccl);
    for (int32_t i = 0; r->arrived != NULL && i < r->n_buckets; i++)
        if (r->arrived[i] != NULL)
            cs_replicas_mem(r)->event_destroy(r->device->handle, r->arrived[i]);
    cs_replicas_free_divided(r);
    if (r->event != NULL)
        cs_replicas_mem(r)->event_destroy(r->device->handle, r->event);
    if (r->stream != NULL)
        cs_replicas_mem(r)->stream_destroy(r->device->handle, r->stream);
    free(r->arrived);
    free(r->is_started);
    free(r->is_awaited);
    free(r->is_late);
    free(r->theirs);
    free(r->xfer);
    for (int i = 0; i < CS_HELDS; i++)
        free(r->of[i].rank);
    free(r);
}

void cs_replicas_move_by(struct cs_replicas *replicas, cs_replicas_move_fn *move, void *user)
{
    if (replicas == NULL)
        return;
    replicas->move = move;
    replicas->mover = user;
}

void *cs_replicas_stream(const struct cs_replicas *replicas)
{
    return replicas != NULL ? replicas->stream : NULL;
}

enum cs_status cs_replicas_check(struct cs_replicas *replicas, struct cs_err *err)
{
    const struct cs_replica_ranks *own = replicas != NULL ? &replicas->of[CS_HELD_BY_ALL] : NULL;
    struct cs_err why = {0};
    for (int i = 0; replicas != NULL && i < CS_HELDS; i++)
        if (replicas->of[i].nccl != NULL &&
            cs_replicas_mem(replicas)->comm->check(replicas->of[i].nccl, &why) != CS_OK)
            return cs_fail(err, why.status, "rank %d: messages with its replicas have failed: %s",
                           own->rank[own->mine], why.text);
    return CS_OK;
}

void cs_replicas_abort(struct cs_replicas *replicas)
{
    for (int i = 0; replicas != NULL && i < CS_HELDS; i++) {
        if (replicas->of[i].nccl != NULL)
            cs_replicas_mem(replicas)->comm->abort(replicas->of[i].nccl);
        replicas->of[i].nccl = NULL;
    }
}
