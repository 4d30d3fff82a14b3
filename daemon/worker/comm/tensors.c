/* Sums gradients over the ranks that share a stage, and gathers what they have of a parameter. */
#include "worker/comm/tensors.h"

#include <stdlib.h>
#include <string.h>

struct cs_tensor_ranks {
    struct cs_comm *comm;
    struct cs_context_comm *sharers; /* devices */
    struct cs_params *params;
    int n, at, first, deadline_ms;
    struct cs_device_move
        *move;            /* two for each part of a gradient that comes or goes; peers: places */
    struct cs_xfer *xfer; /* the same over sockets */
    int n_moves;
    int32_t layer;        /* whose gradients are summed now, -1: all that replicas do not divide */
    unsigned made;        /* ... of which kinds (enum cs_made) */
    bool has_sums;        /* some are summed in place */
    void *theirs;         /* the device's memory: those that come, one behind the other */
    size_t theirs_bytes;  /* of all of them */
    float *whole, *piece; /* of the largest parameter; NULL: nothing was collected yet */
    cs_replicas_move_fn *mover;
    void *mover_user;
};

static bool is_summed(const struct cs_shard *t)
{
    return t->grad != NULL && cs_shard_is_summed(t);
}

/* Now: at the end of a step, or behind what makes gradients of a layer that replicas divide. */
static bool is_due(const struct cs_tensor_ranks *r, const struct cs_shard *t)
{
    if (!is_summed(t))
        return false;
    const struct cs_bucket *b = t->bucket >= 0 ? &r->params->bucket[t->bucket] : NULL;
    if (b == NULL || b->zero < 2)
        return r->layer < 0;
    return t->param->layer == r->layer && (b->made & r->made) != 0;
}

/* Devices sum in place what all ranks of the stage have parts of: an encoder whose items they share is large,
 * and nobody has room for it from everybody. */
static bool is_summed_in_place(const struct cs_tensor_ranks *r, const struct cs_shard *t)
{
    return r->params->device->mem != NULL && t->part->holders == r->n;
}

static size_t bytes_of(const struct cs_tensor_ranks *r, const struct cs_shard *t)
{
    return (size_t)t->param->count * r->params->grad_size;
}

/* Everybody sends what it has to all that have the same: these are norms of heads, keys that repeat. */
static void list_moves(struct cs_tensor_ranks *r, int32_t layer, unsigned made)
{
    char *theirs = r->theirs;
    r->layer = layer;
    r->made = made;
    r->n_moves = 0;
    r->has_sums = false;
    for (int32_t i = 0; i < r->params->n; i++) {
        const struct cs_shard *t = &r->params->shard[i];
        r->has_sums = r->has_sums || (is_due(r, t) && is_summed_in_place(r, t));
        for (int k = 0; is_due(r, t) && !is_summed_in_place(r, t) && k < t->part->holders; k++) {
            const int peer = r->at - t->part->holder + k; /* holders follow each other */
            const size_t bytes = bytes_of(r, t);
            if (k == t->part->holder)
                continue;
            r->move[r->n_moves++] = (struct cs_device_move){t->grad, bytes, peer, true};
            r->move[r->n_moves++] = (struct cs_device_move){theirs, bytes, peer, false};
            theirs += bytes;
        }
    }
}

static enum cs_status exchange_parts(struct cs_tensor_ranks *r, bool is_within_pass,
                                     struct cs_err *err)
{
    if (r->n_moves == 0)
        return CS_OK;
    if (r->params->device->mem != NULL)
        return cs_context_comm_move(r->sharers, r->move, r->n_moves, err);
    for (int i = 0; i < r->n_moves; i++) {
        const struct cs_device_move *m = &r->move[i];
        r->xfer[i] = (struct cs_xfer){
            .peer = r->first + m->peer, .data = m->data, .bytes = m->bytes, .is_send = m->is_send};
    }
    if (is_within_pass && r->mover != NULL) {
        r->mover(r->mover_user, r->xfer, r->n_moves);
        return CS_OK;
    }
    return r->comm->table->exchange(r->comm, r->xfer, r->n_moves, r->deadline_ms, err);
}

/* In the order of the holders: those before this rank, its own part, those behind it. */
static void add_parts(const struct cs_tensor_ranks *r, const struct cs_shard *t, char *theirs)
{
    const struct cs_device *d = r->params->device;
    const size_t bytes = bytes_of(r, t);
    const struct cs_ops *ops = d->ops->act_bytes == r->params->grad_size ? d->ops : d->mem->ops_f32;
    struct cs_ctx ctx = cs_device_ctx(d);
    void *sum = t->part->holder > 0 ? theirs : t->grad;
    for (int k = 1; k < t->part->holders; k++) {
        void *const part =
            k == t->part->holder ? t->grad : theirs + (size_t)(k - (k > t->part->holder)) * bytes;
        void *const to = k >= t->part->holder ? t->grad : sum;
        ops->add(&ctx, t->param->count, sum, part, to);
        sum = to;
    }
}

/* All entries of a bucket are: what lies between them is nobody's. */
static bool is_all_summed(const struct cs_tensor_ranks *r, int32_t bucket)
{
    bool is_all = bucket >= 0;
    for (int32_t i = 0; is_all && i < r->params->n; i++) {
        const struct cs_shard *t = &r->params->shard[i];
        is_all = t->bucket != bucket || (is_due(r, t) && is_summed_in_place(r, t));
    }
    return is_all;
}

static enum cs_status sum_one(struct cs_tensor_ranks *r, void *grads, int64_t n, struct cs_err *err)
{
    return cs_context_comm_sum_now(r->sharers, grads, (size_t)n, r->params->device->grad, err);
}

/* Whole buckets where that can be: an encoder has hundreds of small gradients. */
static enum cs_status sum_in_place(struct cs_tensor_ranks *r, struct cs_err *err)
{
    for (int32_t i = 0; i < r->params->n_buckets; i++)
        if (is_all_summed(r, i))
            CS_TRY(sum_one(r, cs_params_at(r->params->state, r->params->bucket[i].grad),
                           r->params->bucket[i].n, err));
    for (int32_t i = 0; i < r->params->n; i++) {
        const struct cs_shard *t = &r->params->shard[i];
        if (is_due(r, t) && is_summed_in_place(r, t) && !is_all_summed(r, t->bucket))
            CS_TRY(sum_one(r, t->grad, t->param->count, err));
    }
    return CS_OK;
}

static enum cs_status sum(struct cs_tensor_ranks *r, struct cs_err *err)
{
    char *theirs = r->theirs;
    for (int32_t i = 0; r->layer >= 0 && i < r->params->n_buckets; i++)
        if (r->params->bucket[i].first_layer == r->layer &&
            (r->params->bucket[i].made & r->made) != 0)
            cs_params_settle_grads(r->params, i);
    if (r->layer < 0)
        cs_params_settle_grads(r->params, -1); /* their backwards are over */
    if (r->has_sums)
        CS_TRY(sum_in_place(r, err));
    CS_TRY(exchange_parts(r, r->layer >= 0, err));
    for (int32_t i = 0; i < r->params->n; i++) {
        const struct cs_shard *t = &r->params->shard[i];
        if (!is_due(r, t) || is_summed_in_place(r, t))
            continue;
        add_parts(r, t, theirs);
        theirs += (size_t)(t->part->holders - 1) * bytes_of(r, t);
    }
    return CS_OK;
}

enum cs_status cs_tensor_ranks_reduce(struct cs_tensor_ranks *ranks, struct cs_err *err)
{
    if (ranks != NULL)
        list_moves(ranks, -1, 0);
    return ranks != NULL && (ranks->n_moves > 0 || ranks->has_sums) ? sum(ranks, err) : CS_OK;
}

enum cs_status cs_tensor_ranks_layer_done(struct cs_tensor_ranks *ranks, int32_t layer,
                                          unsigned made, struct cs_err *err)
{
    if (ranks != NULL)
        list_moves(ranks, layer, made);
    return ranks != NULL && (ranks->n_moves > 0 || ranks->has_sums) ? sum(ranks, err) : CS_OK;
}

void cs_tensor_ranks_move_by(struct cs_tensor_ranks *ranks, cs_replicas_move_fn *move, void *user)
{
    if (ranks == NULL)
        return;
    ranks->mover = move;
    ranks->mover_user = user;
}

static enum cs_status make_whole_room(struct cs_tensor_ranks *r, struct cs_err *err)
{
    int64_t most = 1;
    for (int32_t i = 0; i < r->params->n; i++)
        if (r->params->shard[i].whole->count > most)
            most = r->params->shard[i].whole->count;
    if (r->whole == NULL)
        r->whole = malloc((size_t)most * sizeof *r->whole);
    if (r->piece == NULL)
        r->piece = malloc((size_t)most * sizeof *r->piece);
    return r->whole != NULL && r->piece != NULL
               ? CS_OK
               : cs_fail(err, CS_NO_MEMORY, "no memory for a parameter of %lld elements",
                         (long long)most);
}

/* what a rank of the stage has of it, wherever its expert is */
static struct cs_tp_part part_of(const struct cs_tensor_ranks *r, const struct cs_shard *t, int at)
{
    struct cs_tp_part part;
    cs_tp_part_of(r->params->view.whole, t->whole, (struct cs_tp){.ranks = r->n, .at = at}, &part);
    return part;
}

static enum cs_status receive_whole(struct cs_tensor_ranks *r, const struct cs_shard *t,
                                    const float *own, struct cs_err *err)
{
    const struct cs_tp_part mine = part_of(r, t, r->at);
    const int64_t row = t->whole->count / t->whole->dim[mine.dim];
    cs_tp_put(&mine, t->whole, own, r->whole);
    for (int at = 1; at < r->n; at++) {
        const struct cs_tp_part part = part_of(r, t, at);
        struct cs_xfer x = {.peer = r->first + at,
                            .data = r->piece,
                            .bytes = (size_t)(row * cs_tp_extent(&part)) * sizeof *r->piece};
        CS_TRY(r->comm->table->exchange(r->comm, &x, 1, r->deadline_ms, err));
        cs_tp_put(&part, t->whole, r->piece, r->whole);
    }
    return CS_OK;
}

enum cs_status cs_tensor_ranks_collect(struct cs_tensor_ranks *ranks, const struct cs_shard *shard,
                                       const float *own, const float **out, struct cs_err *err)
{
    struct cs_tensor_ranks *r = ranks;
    *out = own;
    if (r == NULL)
        return CS_OK;
    const struct cs_tp_part mine =
        part_of(r, shard, r->at); /* an expert may have come from others */
    if (mine.dim < 0)
        return CS_OK;
    if (r->at > 0) {
        const int64_t row = shard->whole->count / shard->whole->dim[mine.dim];
        struct cs_xfer x = {.peer = r->first,
                            .data = (void *)(uintptr_t)own,
                            .bytes = (size_t)(row * cs_tp_extent(&mine)) * sizeof *own,
                            .is_send = 1};
        return r->comm->table->exchange(r->comm, &x, 1, r->deadline_ms, err);
    }
    CS_TRY(make_whole_room(r, err));
    *out = r->whole;
    return receive_whole(r, shard, own, err);
}

/* room for all parts of gradients that come */
static enum cs_status make_room(struct cs_tensor_ranks *r, struct cs_err *err)
{
    size_t n = 1;
    for (int32_t i = 0; i < r->params->n; i++) {
        const struct cs_shard *t = &r->params->shard[i];
        const size_t others =
            is_summed(t) && !is_summed_in_place(r, t) ? (size_t)t->part->holders - 1 : 0;
        r->theirs_bytes += others * bytes_of(r, t);
        n += 2 * others;
    }
    r->move = calloc(n, sizeof *r->move);
    r->xfer = calloc(n, sizeof *r->xfer);
    if (r->move == NULL || r->xfer == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the gradients of %d ranks", r->n);
    if (r->theirs_bytes > 0)
        CS_TRY(cs_device_alloc(r->params->device, r->theirs_bytes, &r->theirs, err));
    return CS_OK;
}

enum cs_status cs_tensor_ranks_new(int rank, struct cs_params *params, struct cs_comm *comm,
                                   struct cs_context_comm *sharers, int deadline_ms,
                                   struct cs_tensor_ranks **out, struct cs_err *err)
{
    const struct cs_tp tp = params->tp;
    *out = NULL;
    if (tp.ranks <= 1)
        return CS_OK;
    if (comm == NULL)
        return cs_fail(err, CS_INVALID, "%d ranks of a stage need a transport", tp.ranks);
    if (params->device->mem != NULL && sharers == NULL)
        return cs_fail(err, CS_INVALID, "%d devices of a stage need their communicator", tp.ranks);
    struct cs_tensor_ranks *r = calloc(1, sizeof *r);
    if (r == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the ranks of a stage");
    *r = (struct cs_tensor_ranks){.comm = comm,
                                  .sharers = sharers,
                                  .params = params,
                                  .n = tp.ranks,
                                  .at = tp.at,
                                  .first = rank - tp.at,
                                  .deadline_ms = deadline_ms};
    const enum cs_status status = make_room(r, err);
    if (status != CS_OK) {
        cs_tensor_ranks_free(r);
        return status;
    }
    *out = r;
    return CS_OK;
}

void cs_tensor_ranks_free(struct cs_tensor_ranks *ranks)
{
    if (ranks == NULL)
        return;
    cs_device_free(ranks->params->device, ranks->theirs, ranks->theirs_bytes);
    free(ranks->move);
    free(ranks->xfer);
    free(ranks->whole);
    free(ranks->piece);
    free(ranks);
}
