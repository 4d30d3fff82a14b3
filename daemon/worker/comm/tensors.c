/* Sums gradients over the ranks that share a stage, and gathers what they have of a parameter. */
#include "worker/comm/tensors.h"

#include <stdlib.h>
#include <string.h>

struct cs_tensor_ranks {
    struct cs_comm *comm;
    struct cs_params *params;
    int n, at, first, deadline_ms;
    struct cs_xfer *xfer; /* two for each part of a gradient that comes or goes */
    float *theirs;        /* those that come, one behind the other */
    float *whole, *piece; /* of the largest parameter; NULL: nothing was collected yet */
};

static bool is_summed(const struct cs_shard *t)
{
    return t->grad != NULL && t->part != NULL && t->part->is_summed;
}

/* the first of the ranks that have the same of it as this one */
static int first_holder(const struct cs_tensor_ranks *r, const struct cs_shard *t)
{
    return r->first + r->at - t->part->holder;
}

/* Everybody sends what it has to all that have the same: these are norms of heads, keys that repeat. */
static enum cs_status exchange_parts(struct cs_tensor_ranks *r, struct cs_err *err)
{
    float *theirs = r->theirs;
    int n = 0;
    for (int32_t i = 0; i < r->params->n; i++) {
        const struct cs_shard *t = &r->params->shard[i];
        for (int k = 0; is_summed(t) && k < t->part->holders; k++) {
            const size_t bytes = (size_t)t->param->count * sizeof(float);
            if (k == t->part->holder)
                continue;
            r->xfer[n++] = (struct cs_xfer){
                .peer = first_holder(r, t) + k, .data = t->grad, .bytes = bytes, .is_send = 1};
            r->xfer[n++] =
                (struct cs_xfer){.peer = first_holder(r, t) + k, .data = theirs, .bytes = bytes};
            theirs += t->param->count;
        }
    }
    return n > 0 ? r->comm->table->exchange(r->comm, r->xfer, n, r->deadline_ms, err) : CS_OK;
}

static void add_parts(const struct cs_shard *t, const float *theirs)
{
    float *grad = t->grad;
    const int64_t n = t->param->count;
    for (int64_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int k = 0; k < t->part->holders; k++)
            sum += k == t->part->holder ? grad[i] : theirs[(k - (k > t->part->holder)) * n + i];
        grad[i] = sum;
    }
}

enum cs_status cs_tensor_ranks_reduce(struct cs_tensor_ranks *ranks, struct cs_err *err)
{
    if (ranks == NULL)
        return CS_OK;
    const float *theirs = ranks->theirs;
    CS_TRY(exchange_parts(ranks, err));
    for (int32_t i = 0; i < ranks->params->n; i++) {
        const struct cs_shard *t = &ranks->params->shard[i];
        if (!is_summed(t))
            continue;
        add_parts(t, theirs);
        theirs += (t->part->holders - 1) * t->param->count;
    }
    return CS_OK;
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

/* what another rank of the stage has of it */
static struct cs_tp_part part_of(const struct cs_tensor_ranks *r, const struct cs_shard *t, int at)
{
    struct cs_tp_part part;
    cs_tp_part_of(r->params->view.whole, t->whole, (struct cs_tp){r->n, at}, &part);
    return part;
}

static enum cs_status receive_whole(struct cs_tensor_ranks *r, const struct cs_shard *t,
                                    const float *own, struct cs_err *err)
{
    const int64_t row = t->whole->count / t->whole->dim[t->part->dim];
    cs_tp_put(t->part, t->whole, own, r->whole);
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
    if (r == NULL || shard->part->dim < 0)
        return CS_OK;
    if (r->at > 0) {
        struct cs_xfer x = {.peer = r->first,
                            .data = (void *)(uintptr_t)own,
                            .bytes = (size_t)shard->param->count * sizeof *own,
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
    size_t floats = 1, n = 1;
    for (int32_t i = 0; i < r->params->n; i++) {
        const struct cs_shard *t = &r->params->shard[i];
        const size_t others = is_summed(t) ? (size_t)t->part->holders - 1 : 0;
        floats += others * (size_t)t->param->count;
        n += 2 * others;
    }
    r->theirs = malloc(floats * sizeof *r->theirs);
    r->xfer = calloc(n, sizeof *r->xfer);
    return r->theirs != NULL && r->xfer != NULL
               ? CS_OK
               : cs_fail(err, CS_NO_MEMORY, "no memory for the gradients of %d ranks", r->n);
}

enum cs_status cs_tensor_ranks_new(int rank, struct cs_params *params, struct cs_comm *comm,
                                   int deadline_ms, struct cs_tensor_ranks **out,
                                   struct cs_err *err)
{
    const struct cs_tp tp = params->tp;
    *out = NULL;
    if (tp.ranks <= 1)
        return CS_OK;
    if (comm == NULL)
        return cs_fail(err, CS_INVALID, "%d ranks of a stage need a transport", tp.ranks);
    if (params->device->mem != NULL)
        return cs_fail(err, CS_UNSUPPORTED, "tensor parallelism runs on CPU ranks only yet");
    struct cs_tensor_ranks *r = calloc(1, sizeof *r);
    if (r == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the ranks of a stage");
    *r = (struct cs_tensor_ranks){.comm = comm,
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
    free(ranks->xfer);
    free(ranks->theirs);
    free(ranks->whole);
    free(ranks->piece);
    free(ranks);
}
