/* Sums gradients over the replicas of the model and gathers updated weights: over sockets on hosts,
 * over NCCL, beside computing, on devices. */
#include "worker/comm/replicas.h"

#include <stdlib.h>
#include <string.h>

#include "core/plan/groups.h"
#include "worker/comm/group.h"

struct cs_replicas {
    struct cs_device *device;
    struct cs_comm *comm; /* sockets of all ranks */
    struct cs_params *params;
    int n, mine;   /* replicas, this one */
    int32_t *rank; /* (n) this rank's of every replica: the members of its group */
    int deadline_ms;
    struct cs_xfer *xfer; /* (2 n) */
    float *theirs;        /* host: (n) parts of a bucket, one after the other */
    /* devices */
    void *nccl, *stream, *event;
    int32_t n_buckets; /* of params, which may be gone before this is */
    void **arrived;    /* (n_buckets) events: weights are here */
    bool *is_started;  /* (n_buckets) sum is on its way */
    bool *is_awaited;  /* (n_buckets) weights may still be on their way */
    bool *is_late;     /* (n_buckets) ranks of the stage have parts of its gradients, too */
    int32_t n_awaited;
};

static const struct cs_device_ops *mem_of(const struct cs_replicas *r)
{
    return r->device->mem;
}

/* ---- the host: messages over sockets ---- */

/* k of all others in turn, so that not everybody begins with replica 0 */
static int other(const struct cs_replicas *r, int k)
{
    return (r->mine + k) % r->n;
}

static int rank_of(const struct cs_replicas *r, int replica)
{
    return r->rank[replica];
}

static enum cs_status exchange(struct cs_replicas *r, int n, struct cs_err *err)
{
    return r->comm->table->exchange(r->comm, r->xfer, n, r->deadline_ms, err);
}

/* sum in the order of replicas, into this replica's part */
static void add_parts(const struct cs_replicas *r, float *own, int64_t n)
{
    const float *const theirs = r->theirs;
    for (int64_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int k = 0; k < r->n; k++)
            sum += k == r->mine ? own[i] : theirs[k * n + i];
        own[i] = sum;
    }
}

static enum cs_status reduce_on_host(struct cs_replicas *r, const struct cs_bucket *b,
                                     struct cs_err *err)
{
    const int64_t n = b->n / r->n;
    const size_t bytes = (size_t)n * sizeof(float);
    float *grads = cs_params_grad(r->params, b->at);
    int n_xfers = 0;
    for (int k = 1; k < r->n; k++) {
        const int to = other(r, k);
        r->xfer[n_xfers++] = (struct cs_xfer){
            .peer = rank_of(r, to), .data = grads + n * to, .bytes = bytes, .is_send = 1};
        r->xfer[n_xfers++] =
            (struct cs_xfer){.peer = rank_of(r, to), .data = r->theirs + n * to, .bytes = bytes};
    }
    CS_TRY(exchange(r, n_xfers, err));
    add_parts(r, grads + n * r->mine, n);
    return CS_OK;
}

static char *weights_of(const struct cs_replicas *r, const struct cs_bucket *b, int replica)
{
    const size_t act = r->device->ops->act_bytes;
    return (char *)r->params->weights + (size_t)(b->at + b->n / r->n * replica) * act;
}

static enum cs_status gather_on_host(struct cs_replicas *r, const struct cs_bucket *b,
                                     struct cs_err *err)
{
    const size_t bytes = (size_t)(b->n / r->n) * r->device->ops->act_bytes;
    int n_xfers = 0;
    for (int k = 1; k < r->n; k++) {
        const int to = other(r, k);
        r->xfer[n_xfers++] = (struct cs_xfer){.peer = rank_of(r, to),
                                              .data = weights_of(r, b, r->mine),
                                              .bytes = bytes,
                                              .is_send = 1};
        r->xfer[n_xfers++] =
            (struct cs_xfer){.peer = rank_of(r, to), .data = weights_of(r, b, to), .bytes = bytes};
    }
    return exchange(r, n_xfers, err);
}

/* ---- devices: NCCL on a stream of its own ---- */

/* the replicas' stream goes on after what is on the device's, or the other way round */
static enum cs_status after(struct cs_replicas *r, void *stream, void *before, struct cs_err *err)
{
    CS_TRY(mem_of(r)->event_record(r->device->handle, r->event, before, err));
    return mem_of(r)->stream_wait(r->device->handle, stream, r->event, err);
}

static enum cs_status reduce_on_device(struct cs_replicas *r, int32_t bucket, struct cs_err *err)
{
    const struct cs_bucket *b = &r->params->bucket[bucket];
    const int64_t n = b->n / r->n;
    if (r->is_started[bucket])
        return CS_OK;
    r->is_started[bucket] = true;
    return mem_of(r)->comm->reduce_scatter(r->nccl, cs_params_grad(r->params, b->at),
                                           cs_params_grad(r->params, b->at + n * r->mine),
                                           (size_t)n, r->device->grad, r->stream, err);
}

static enum cs_status gather_on_device(struct cs_replicas *r, int32_t bucket, struct cs_err *err)
{
    const struct cs_bucket *b = &r->params->bucket[bucket];
    const size_t bytes = (size_t)(b->n / r->n) * r->device->ops->act_bytes;
    CS_TRY(mem_of(r)->comm->all_gather(r->nccl, weights_of(r, b, r->mine), weights_of(r, b, 0),
                                       bytes, r->stream, err));
    CS_TRY(mem_of(r)->event_record(r->device->handle, r->arrived[bucket], r->stream, err));
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
        CS_TRY(mem_of(r)->stream_wait(r->device->handle, r->device->stream, r->arrived[i], err));
        r->is_awaited[i] = false;
        r->n_awaited--;
    }
    return CS_OK;
}

/* The sum of a bucket can start when a layer's gradients are there: those that ranks which share its
 * matrices add up are not before the end of the step. */
static bool is_due(const struct cs_replicas *r, int32_t bucket, int32_t layer)
{
    return r->params->bucket[bucket].first_layer == layer && !r->is_started[bucket] &&
           !r->is_late[bucket];
}

enum cs_status cs_replicas_layer_done(struct cs_replicas *replicas, int32_t layer,
                                      struct cs_err *err)
{
    struct cs_replicas *r = replicas;
    bool is_ordered = false;
    if (r == NULL || mem_of(r) == NULL)
        return CS_OK;
    for (int32_t i = 0; i < r->params->n_buckets; i++)
        if (is_due(r, i, layer))
            cs_params_settle_grads(r->params, i);
    for (int32_t i = 0; i < r->params->n_buckets; i++) {
        if (!is_due(r, i, layer))
            continue;
        if (!is_ordered)
            CS_TRY(after(r, r->stream, r->device->stream, err));
        is_ordered = true;
        CS_TRY(reduce_on_device(r, i, err));
    }
    return CS_OK;
}

/* ---- both ---- */

void cs_replicas_begin(struct cs_replicas *replicas)
{
    if (replicas != NULL && replicas->is_started != NULL)
        memset(replicas->is_started, 0,
               (size_t)replicas->params->n_buckets * sizeof *replicas->is_started);
}

enum cs_status cs_replicas_reduce(struct cs_replicas *replicas, struct cs_err *err)
{
    struct cs_replicas *r = replicas;
    const bool is_host = mem_of(r) == NULL;
    cs_params_settle_grads(r->params, -1);
    if (!is_host)
        CS_TRY(after(r, r->stream, r->device->stream, err));
    for (int is_late = 0; is_late < 2; is_late++) /* as backwards do: one order on all replicas */
        for (int32_t i = r->params->n_buckets - 1; i >= 0; i--) {
            struct cs_bucket *b = &r->params->bucket[i];
            if ((b->first_layer < 0) == (is_late != 0))
                CS_TRY(is_host ? reduce_on_host(r, b, err) : reduce_on_device(r, i, err));
        }
    return is_host ? CS_OK : after(r, r->device->stream, r->stream, err);
}

enum cs_status cs_replicas_gather(struct cs_replicas *replicas, struct cs_err *err)
{
    struct cs_replicas *r = replicas;
    const bool is_host = mem_of(r) == NULL;
    if (!is_host)
        CS_TRY(after(r, r->stream, r->device->stream, err));
    for (int32_t i = 0; i < r->params->n_buckets; i++)
        CS_TRY(is_host ? gather_on_host(r, &r->params->bucket[i], err)
                       : gather_on_device(r, i, err));
    return CS_OK;
}

/* Replica 0 receives what the others have of the entry. */
static enum cs_status receive_parts(struct cs_replicas *r, const struct cs_shard *t, float *host,
                                    struct cs_err *err)
{
    int n_xfers = 0;
    for (int k = 1; k < r->n; k++) {
        int64_t at, n;
        cs_params_part(r->params, t, k, &at, &n);
        r->xfer[n_xfers++] = (struct cs_xfer){
            .peer = rank_of(r, k), .data = host + at, .bytes = (size_t)n * sizeof *host};
    }
    return exchange(r, n_xfers, err);
}

enum cs_status cs_replicas_collect(struct cs_replicas *replicas, struct cs_params *params,
                                   const struct cs_shard *tensor, enum cs_state which, float *host,
                                   struct cs_err *err)
{
    struct cs_replicas *r = replicas;
    const bool is_first = params->replica == 0;
    float *to = host + (is_first ? tensor->own_at : 0);
    CS_TRY(cs_params_state(params, tensor, which, to, err));
    if (r == NULL || tensor->bucket < 0)
        return CS_OK;
    if (is_first)
        return receive_parts(r, tensor, host, err);
    r->xfer[0] = (struct cs_xfer){.peer = rank_of(r, 0),
                                  .data = host,
                                  .bytes = (size_t)tensor->own_n * sizeof *host,
                                  .is_send = 1};
    return exchange(r, 1, err);
}

/* ---- life ---- */

static enum cs_status open_nccl(struct cs_replicas *r, struct cs_err *err)
{
    CS_TRY(mem_of(r)->stream_create(r->device->handle, &r->stream, err));
    CS_TRY(mem_of(r)->event_create(r->device->handle, &r->event, err));
    return cs_comm_group_open(r->device, r->rank, r->n, r->mine, CS_DEVICE_COMM_GROUP, r->comm,
                              r->deadline_ms, &r->nccl, err);
}

enum cs_status cs_replicas_new(struct cs_device *device, const struct cs_plan *plan, int rank,
                               struct cs_comm *comm, int deadline_ms, struct cs_replicas **out,
                               struct cs_err *err)
{
    *out = NULL;
    const int32_t at = cs_plan_group(plan, CS_GROUP_DP, -1, rank);
    if (at < 0)
        return CS_OK;
    const struct cs_group *group = &plan->group[at];
    if (comm == NULL)
        return cs_fail(err, CS_INVALID, "%d replicas need a transport", group->n);
    struct cs_replicas *r = calloc(1, sizeof *r);
    if (r == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the replicas");
    *r = (struct cs_replicas){.device = device,
                              .comm = comm,
                              .n = group->n,
                              .mine = cs_group_position(group, rank),
                              .rank = malloc((size_t)group->n * sizeof *r->rank),
                              .xfer = calloc(2 * (size_t)group->n, sizeof *r->xfer)};
    enum cs_status status = r->xfer != NULL && r->rank != NULL
                                ? CS_OK
                                : cs_fail(err, CS_NO_MEMORY, "no memory for %d replicas", group->n);
    if (status == CS_OK)
        memcpy(r->rank, group->rank, (size_t)group->n * sizeof *r->rank);
    if (status == CS_OK && device->mem != NULL)
        status = open_nccl(r, err);
    if (status != CS_OK) {
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
        CS_TRY(mem_of(r)->event_create(r->device->handle, &r->arrived[i], err));
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
    if (mem_of(r) != NULL)
        return bind_device(r, err);
    for (int32_t i = 0; i < params->n_buckets; i++)
        most = params->bucket[i].n > most ? params->bucket[i].n : most;
    r->theirs = malloc((size_t)most * sizeof *r->theirs);
    return r->theirs != NULL
               ? CS_OK
               : cs_fail(err, CS_NO_MEMORY, "no memory for the gradients of %d replicas", r->n);
}

void cs_replicas_free(struct cs_replicas *replicas)
{
    struct cs_replicas *r = replicas;
    if (r == NULL)
        return;
    if (cs_replicas_check(r, NULL) != CS_OK) /* a replica is gone: nobody is waited for */
        cs_replicas_abort(r);
    if (r->nccl != NULL)
        mem_of(r)->comm->close(r->nccl);
    for (int32_t i = 0; r->arrived != NULL && i < r->n_buckets; i++)
        if (r->arrived[i] != NULL)
            mem_of(r)->event_destroy(r->device->handle, r->arrived[i]);
    if (r->event != NULL)
        mem_of(r)->event_destroy(r->device->handle, r->event);
    if (r->stream != NULL)
        mem_of(r)->stream_destroy(r->device->handle, r->stream);
    free(r->arrived);
    free(r->is_started);
    free(r->is_awaited);
    free(r->is_late);
    free(r->theirs);
    free(r->xfer);
    free(r->rank);
    free(r);
}

void *cs_replicas_stream(const struct cs_replicas *replicas)
{
    return replicas != NULL ? replicas->stream : NULL;
}

enum cs_status cs_replicas_check(struct cs_replicas *replicas, struct cs_err *err)
{
    struct cs_err why = {0};
    if (replicas == NULL || replicas->nccl == NULL ||
        mem_of(replicas)->comm->check(replicas->nccl, &why) == CS_OK)
        return CS_OK;
    return cs_fail(err, CS_PEER_GONE, "rank %d: messages with its replicas have failed: %s",
                   rank_of(replicas, replicas->mine), why.text);
}

void cs_replicas_abort(struct cs_replicas *replicas)
{
    if (replicas == NULL || replicas->nccl == NULL)
        return;
    mem_of(replicas)->comm->abort(replicas->nccl);
    replicas->nccl = NULL;
}
