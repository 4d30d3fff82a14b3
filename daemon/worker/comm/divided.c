/* Gradients and weights that replicas divide: sums behind every backward of a layer, weights before every
 * layer. What is whole for a while lies in memory that layers share: that of one on the host, where
 * everything is awaited; of two on a device. There weights are gathered into one of two buffers while the other is
 * read, and gradients are summed while the next layers make theirs: each waits for the sums that read where it writes
 * (params/arrange.c). */
#include <stdlib.h>
#include <string.h>

#include "worker/comm/replicas_state.h"

/* k of all others in turn, so that not everybody begins with the first */
static int other(const struct cs_replica_ranks *of, int k)
{
    return (of->mine + k) % of->n;
}

static char *weights_of(const struct cs_replicas *r, const struct cs_bucket *b, int replica)
{
    const size_t part = (size_t)cs_replicas_part(r, b) * r->device->ops->act_bytes;
    return cs_params_at(r->params->weights, b->w + part * (size_t)replica);
}

int cs_replicas_list_weights(struct cs_replicas *r, const struct cs_bucket *b)
{
    const struct cs_replica_ranks *of = cs_replicas_of(r, b);
    const size_t bytes = (size_t)cs_replicas_part(r, b) * r->device->ops->act_bytes;
    int n = 0;
    for (int k = 1; k < of->n; k++) {
        const int to = other(of, k), peer = of->rank[to];
        r->xfer[n++] = (struct cs_xfer){.peer = peer,
                                        .data = cs_params_at(r->params->weights, b->own_w),
                                        .bytes = bytes,
                                        .is_send = 1};
        r->xfer[n++] = (struct cs_xfer){.peer = peer, .data = weights_of(r, b, to), .bytes = bytes};
    }
    return n;
}

int cs_replicas_list_parts(struct cs_replicas *r, const struct cs_bucket *b, float *grads)
{
    const struct cs_replica_ranks *of = cs_replicas_of(r, b);
    const int64_t n = cs_replicas_part(r, b);
    const size_t bytes = (size_t)n * sizeof(float);
    int n_xfers = 0;
    for (int k = 1; k < of->n; k++) {
        const int to = other(of, k), peer = of->rank[to];
        r->xfer[n_xfers++] =
            (struct cs_xfer){.peer = peer, .data = grads + n * to, .bytes = bytes, .is_send = 1};
        r->xfer[n_xfers++] =
            (struct cs_xfer){.peer = peer, .data = r->theirs + n * to, .bytes = bytes};
    }
    return n_xfers;
}

void cs_replicas_add_parts(const struct cs_replicas *r, const struct cs_bucket *b, const float *own,
                           float *out)
{
    const struct cs_replica_ranks *of = cs_replicas_of(r, b);
    const float *const theirs = r->theirs;
    const int64_t n = cs_replicas_part(r, b);
    for (int64_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int k = 0; k < of->n; k++)
            sum += k == of->mine ? own[i] : theirs[k * n + i];
        out[i] = sum;
    }
}

/* What nobody else has. */
static enum cs_status copy_alone(struct cs_replicas *r, void *to, const void *from, size_t bytes,
                                 struct cs_err *err)
{
    if (to == from)
        return CS_OK;
    return cs_replicas_mem(r)->copy(r->device->handle, r->stream, to, from, bytes, err);
}

enum cs_status cs_replicas_reduce_scatter(struct cs_replicas *r, const struct cs_bucket *b,
                                          void *to, struct cs_err *err)
{
    void *const nccl = cs_replicas_of(r, b)->nccl;
    const void *from = cs_params_at(r->params->state, b->grad);
    const int64_t n = cs_replicas_part(r, b);
    if (nccl == NULL)
        return copy_alone(r, to, from, (size_t)n * r->params->grad_size, err);
    return cs_replicas_mem(r)->comm->reduce_scatter(nccl, from, to, (size_t)n, r->device->grad,
                                                    r->stream, err);
}

enum cs_status cs_replicas_all_gather(struct cs_replicas *r, const struct cs_bucket *b,
                                      struct cs_err *err)
{
    void *const nccl = cs_replicas_of(r, b)->nccl;
    const void *own = cs_params_at(r->params->weights, b->own_w);
    const size_t bytes = (size_t)cs_replicas_part(r, b) * r->device->ops->act_bytes;
    if (nccl == NULL)
        return copy_alone(r, weights_of(r, b, 0), own, bytes, err);
    return cs_replicas_mem(r)->comm->all_gather(nccl, own, weights_of(r, b, 0), bytes, r->stream,
                                                err);
}

bool cs_replicas_divides(const struct cs_replicas *replicas)
{
    return replicas != NULL && replicas->divides;
}

void cs_replicas_forget(struct cs_replicas *r)
{
    if (!cs_replicas_divides(r))
        return;
    memset(r->has_sum, 0, (size_t)r->n_buckets * sizeof *r->has_sum);
    for (int turn = 0; turn < CS_REPLICAS_TURNS; turn++)
        r->holds[turn] = -1;
}

/* within a pass */
static enum cs_status move(struct cs_replicas *r, int n, struct cs_err *err)
{
    if (r->move == NULL)
        return r->comm->table->exchange(r->comm, r->xfer, n, r->deadline_ms, err);
    r->move(r->mover, r->xfer, n);
    return CS_OK;
}

/* ---- weights ---- */

/* the n-th bucket from `from` on with divided weights of the layer; -1: there is none */
static int32_t next_bucket(const struct cs_replicas *r, int32_t layer, int32_t from)
{
    for (int32_t i = from; i < r->params->n_all_buckets; i++)
        if (r->params->bucket[i].first_layer == layer && r->params->bucket[i].zero >= 3)
            return i;
    return -1;
}

static enum cs_status gather_bucket(struct cs_replicas *r, const struct cs_bucket *b,
                                    struct cs_err *err)
{
    if (cs_replicas_mem(r) != NULL)
        return cs_replicas_all_gather(r, b, err);
    memcpy(weights_of(r, b, cs_replicas_of(r, b)->mine), cs_params_at(r->params->weights, b->own_w),
           (size_t)cs_replicas_part(r, b) * r->device->ops->act_bytes);
    return move(r, cs_replicas_list_weights(r, b), err);
}

/* Into the buffer of the layer, which nobody reads behind what was run so far. */
static enum cs_status start_weights(struct cs_replicas *r, int32_t layer, struct cs_err *err)
{
    const int32_t turn = cs_params_turn(r->params, layer);
    int32_t i = next_bucket(r, layer, 0);
    if (i < 0 || r->holds[turn] == layer)
        return CS_OK;
    r->holds[turn] = layer;
    if (cs_replicas_mem(r) != NULL)
        CS_TRY(cs_replicas_after(r, r->stream, r->device->stream, err));
    for (; i >= 0; i = next_bucket(r, layer, i + 1))
        CS_TRY(gather_bucket(r, &r->params->bucket[i], err));
    if (cs_replicas_mem(r) == NULL)
        return CS_OK;
    return cs_replicas_mem(r)->event_record(r->device->handle, r->come[turn], r->stream, err);
}

/* The layer that comes next on this rank, of the stage or of the one that mostly follows, is run in this direction. */
static bool is_run(const struct cs_replicas *r, int32_t layer, int32_t step)
{
    const struct cs_graph *graph = r->params->graph;
    if (layer < 0 || layer >= graph->n_layers)
        return false;
    const struct cs_layer *l = &graph->layers[layer];
    return step > 0 || l->needs_input_grad || l->needs_weight_grad;
}

/* What a bucket's gradients are written to, and read from by a sum. */
static bool shares_memory(const struct cs_replicas *r, int32_t bucket, int32_t other)
{
    const struct cs_bucket *a = &r->params->bucket[bucket], *b = &r->params->bucket[other];
    const size_t size = r->params->grad_size;
    return a->grad < b->grad + (size_t)b->n * size && b->grad < a->grad + (size_t)a->n * size;
}

static bool makes_now(const struct cs_bucket *b, int32_t layer, unsigned made)
{
    return b->zero >= 2 && b->first_layer == layer && (b->made & made) != 0;
}

/* The last sum that reads where the layer writes; -1: none that nobody has waited for. */
static int32_t sum_before(const struct cs_replicas *r, int32_t layer, unsigned made)
{
    int32_t last = -1;
    for (int32_t i = 0; i < r->n_buckets; i++)
        for (int32_t k = 0; makes_now(&r->params->bucket[i], layer, made) && k < r->n_buckets; k++)
            if (r->asked[k] > (last >= 0 ? r->asked[last] : 0) && shares_memory(r, i, k))
                last = k;
    return last;
}

/* Sums are made in the order in which they were asked for: who waits for one has waited for those before. */
static enum cs_status await_sums(struct cs_replicas *r, int32_t layer, unsigned made,
                                 struct cs_err *err)
{
    const int32_t last = sum_before(r, layer, made);
    if (last < 0)
        return CS_OK;
    const int64_t number = r->asked[last];
    for (int32_t i = 0; i < r->n_buckets; i++)
        r->asked[i] = r->asked[i] <= number ? 0 : r->asked[i];
    return cs_replicas_mem(r)->stream_wait(r->device->handle, r->device->stream, r->summed[last],
                                           err);
}

/* Gradients of an adapter's factor are made with the other factor; those of a matrix without any weights. */
static bool reads_in_weight_half(const struct cs_replicas *r, int32_t layer)
{
    for (int32_t i = 0; i < r->params->n; i++)
        if (r->params->shard[i].param->layer == layer &&
            r->params->shard[i].param->role == CS_PARAM_ADAPTER_A)
            return true;
    return false;
}

static enum cs_status enter_on_device(struct cs_replicas *r, int32_t layer, int32_t step,
                                      unsigned made, struct cs_err *err)
{
    const int32_t turn = cs_params_turn(r->params, layer);
    void *const stream = r->device->stream, *const handle = r->device->handle;
    if (r->holds[turn] == layer)
        CS_TRY(cs_replicas_mem(r)->stream_wait(handle, stream, r->come[turn], err));
    CS_TRY(await_sums(r, layer, made, err));
    return step != 0 && is_run(r, layer + step, step) ? start_weights(r, layer + step, err) : CS_OK;
}

enum cs_status cs_replicas_enter(struct cs_replicas *replicas, int32_t layer, int32_t step,
                                 unsigned made, struct cs_err *err)
{
    if (!cs_replicas_divides(replicas))
        return CS_OK;
    if (step != 0 || reads_in_weight_half(replicas, layer))
        CS_TRY(start_weights(replicas, layer, err));
    return cs_replicas_mem(replicas) != NULL ? enter_on_device(replicas, layer, step, made, err)
                                             : CS_OK;
}

/* ---- gradients ---- */

static enum cs_status sum_on_host(struct cs_replicas *r, int32_t bucket, struct cs_err *err)
{
    const struct cs_bucket *b = &r->params->bucket[bucket];
    const int64_t n = cs_replicas_part(r, b);
    float *grads = cs_params_at(r->params->state, b->grad),
          *own = cs_params_at(r->params->state, b->own_grad),
          *part = grads + n * cs_replicas_of(r, b)->mine;
    CS_TRY(move(r, cs_replicas_list_parts(r, b, grads), err));
    cs_replicas_add_parts(r, b, part, r->has_sum[bucket] ? part : own);
    for (int64_t i = 0; r->has_sum[bucket] && i < n; i++)
        own[i] += part[i];
    cs_params_renew_grads(r->params, bucket);
    return CS_OK;
}

/* own += part, on the replicas' stream */
static void add_part(struct cs_replicas *r, void *own, int64_t n)
{
    const struct cs_device *d = r->device;
    const bool is_act = d->ops->act_bytes == r->params->grad_size;
    const struct cs_ops *ops = is_act ? d->ops : d->mem->ops_f32;
    struct cs_ctx ctx = cs_device_ctx(d);
    ctx.stream = r->stream;
    ops->add(&ctx, n, own, r->part, own);
}

static enum cs_status sum_on_device(struct cs_replicas *r, int32_t bucket, struct cs_err *err)
{
    const struct cs_bucket *b = &r->params->bucket[bucket];
    void *own = cs_params_at(r->params->state, b->own_grad);
    cs_params_settle_grads(r->params, bucket);
    CS_TRY(cs_replicas_after(r, r->stream, r->device->stream, err));
    CS_TRY(cs_replicas_reduce_scatter(r, b, r->has_sum[bucket] ? r->part : own, err));
    CS_TRY(cs_replicas_mem(r)->event_record(r->device->handle, r->summed[bucket], r->stream, err));
    r->asked[bucket] = ++r->n_asked;
    if (r->has_sum[bucket])
        add_part(r, own, cs_replicas_part(r, b));
    cs_params_renew_grads(r->params, bucket);
    return CS_OK;
}

enum cs_status cs_replicas_sum_layer(struct cs_replicas *r, int32_t layer, unsigned made,
                                     struct cs_err *err)
{
    for (int32_t i = 0; cs_replicas_divides(r) && i < r->params->n_buckets; i++) {
        const struct cs_bucket *b = &r->params->bucket[i];
        if (b->first_layer != layer || b->zero < 2 || (b->made & made) == 0)
            continue;
        CS_TRY(cs_replicas_mem(r) != NULL ? sum_on_device(r, i, err) : sum_on_host(r, i, err));
        r->has_sum[i] = true;
    }
    return CS_OK;
}

enum cs_status cs_replicas_settle(struct cs_replicas *r, int32_t stage, struct cs_err *err)
{
    if (!cs_replicas_divides(r) || cs_replicas_mem(r) == NULL)
        return CS_OK;
    for (int32_t i = 0; i < r->params->n_buckets; i++) {
        const struct cs_bucket *b = &r->params->bucket[i];
        if (b->stage == stage && b->zero >= 2 && !r->has_sum[i])
            cs_device_zero(r->device, cs_params_at(r->params->state, b->own_grad),
                           (size_t)cs_replicas_part(r, b) * r->params->grad_size);
    }
    return cs_replicas_after(r, r->device->stream, r->stream, err);
}

/* ---- life ---- */

static enum cs_status no_memory(const struct cs_replicas *r, struct cs_err *err)
{
    return cs_fail(err, CS_NO_MEMORY, "no memory for %d buckets of gradients", r->n_buckets);
}

static enum cs_status bind_device(struct cs_replicas *r, struct cs_err *err)
{
    const struct cs_device_ops *mem = cs_replicas_mem(r);
    int64_t most = 0;
    for (int turn = 0; turn < CS_REPLICAS_TURNS; turn++)
        CS_TRY(mem->event_create(r->device->handle, &r->come[turn], err));
    r->summed = calloc((size_t)r->n_buckets + 1, sizeof *r->summed);
    r->asked = calloc((size_t)r->n_buckets + 1, sizeof *r->asked);
    if (r->summed == NULL || r->asked == NULL)
        return no_memory(r, err);
    for (int32_t i = 0; i < r->n_buckets; i++) {
        CS_TRY(mem->event_create(r->device->handle, &r->summed[i], err));
        const int64_t n = cs_replicas_part(r, &r->params->bucket[i]);
        most = r->params->bucket[i].zero >= 2 && n > most ? n : most;
    }
    r->part_bytes = (size_t)most * r->params->grad_size;
    return most > 0 ? cs_device_alloc(r->device, r->part_bytes, &r->part, err) : CS_OK;
}

enum cs_status cs_replicas_bind_divided(struct cs_replicas *r, struct cs_err *err)
{
    for (int32_t i = 0; i < r->params->n_all_buckets; i++)
        r->divides = r->divides || r->params->bucket[i].zero >= 2;
    if (!r->divides)
        return CS_OK;
    r->has_sum = calloc((size_t)r->n_buckets + 1, sizeof *r->has_sum);
    if (r->has_sum == NULL)
        return no_memory(r, err);
    cs_replicas_forget(r);
    return cs_replicas_mem(r) != NULL ? bind_device(r, err) : CS_OK;
}

void cs_replicas_free_divided(struct cs_replicas *r)
{
    for (int turn = 0; turn < CS_REPLICAS_TURNS; turn++)
        if (r->come[turn] != NULL)
            cs_replicas_mem(r)->event_destroy(r->device->handle, r->come[turn]);
    for (int32_t i = 0; r->summed != NULL && i < r->n_buckets; i++)
        if (r->summed[i] != NULL)
            cs_replicas_mem(r)->event_destroy(r->device->handle, r->summed[i]);
    cs_device_free(r->device, r->part, r->part_bytes);
    free(r->summed);
    free(r->asked);
    free(r->has_sum);
}
