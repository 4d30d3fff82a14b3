/* Exchanges of a group: a stream that follows the device's, and events that the device's follows. */
#include "worker/comm/context_comm.h"

#include <stdlib.h>

#include "core/plan/cost/links/windows.h"
#include "worker/comm/group.h"

_Static_assert(CS_WINDOW_RING_BYTES == (int64_t)CS_DEVICE_COMM_RING_BYTES &&
                   CS_WINDOW_LANE_BYTES == (int64_t)CS_DEVICE_COMM_LANE_BYTES &&
                   (int)CS_WINDOW_RANKS == (int)CS_DEVICE_COMM_RING_RANKS,
               "plans count what communicators take");

struct cs_context_comm {
    struct cs_device *device;
    int rank;         /* of all, for messages to people */
    const char *with; /* whom, the same */
    void *nccl, *stream;
    void *ready;  /* event: what the device's stream had when an exchange was asked for */
    void **moved; /* (n_moved) events: an exchange is complete */
    int n_moved;
    int last; /* of the exchanges that the device's stream does not wait for yet; -1: it waits for all */
};

static const struct cs_device_ops *mem_of(const struct cs_context_comm *c)
{
    return c->device->mem;
}

/* products beside sums take the whole device: who waits for a sum would wait for them */
static const struct kind {
    const char *with;
    enum cs_device_comm_kind comm;
    bool is_urgent;
} kinds[CS_GROUP_KINDS] = {
    [CS_GROUP_CP] = {"its context",                                CS_DEVICE_COMM_ROWS,   false},
    [CS_GROUP_TP] = {"those that share its matrices",              CS_DEVICE_COMM_SUMS,   true },
    [CS_GROUP_EP] = {"those that have its other experts",          CS_DEVICE_COMM_SUMS,   true },
    [CS_GROUP_ITEMS] = {"those that share the items of its encoders", CS_DEVICE_COMM_ROWS,   false},
    [CS_GROUP_COPIES] = {"those that have copies of its encoders",     CS_DEVICE_COMM_TOTALS, false},
};

enum cs_status cs_context_comm_new(struct cs_device *device, const struct cs_plan *plan,
                                   enum cs_group_kind kind, int rank, struct cs_comm *comm,
                                   int deadline_ms, struct cs_context_comm **out,
                                   struct cs_err *err)
{
    const struct kind *k = &kinds[kind];
    *out = NULL;
    const int32_t at = device->mem != NULL ? cs_plan_group(plan, kind, -1, rank) : -1;
    if (at < 0)
        return CS_OK;
    const struct cs_group *group = &plan->group[at];
    struct cs_context_comm *c = calloc(1, sizeof *c);
    if (c == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the ranks of a stage");
    c->device = device;
    c->rank = rank;
    c->with = k->with;
    c->last = -1;
    enum cs_status status = k->is_urgent
                                ? mem_of(c)->stream_create_urgent(device->handle, &c->stream, err)
                                : mem_of(c)->stream_create(device->handle, &c->stream, err);
    if (status == CS_OK)
        status = mem_of(c)->event_create(device->handle, &c->ready, err);
    if (status == CS_OK)
        status = cs_comm_group_open(device, group->rank, group->n, cs_group_position(group, rank),
                                    k->comm, comm, deadline_ms, &c->nccl, err);
    if (status != CS_OK) {
        cs_context_comm_free(c);
        return cs_wrap(err, status, "connecting rank %d with %s", rank, k->with);
    }
    *out = c;
    return CS_OK;
}

void cs_context_comm_free(struct cs_context_comm *context)
{
    struct cs_context_comm *c = context;
    if (c == NULL)
        return;
    if (cs_context_comm_check(c, NULL) != CS_OK) /* a peer is gone: nobody is waited for */
        cs_context_comm_abort(c);
    if (c->nccl != NULL)
        mem_of(c)->comm->close(c->nccl);
    for (int i = 0; i < c->n_moved; i++)
        mem_of(c)->event_destroy(c->device->handle, c->moved[i]);
    if (c->ready != NULL)
        mem_of(c)->event_destroy(c->device->handle, c->ready);
    if (c->stream != NULL)
        mem_of(c)->stream_destroy(c->device->handle, c->stream);
    free(c->moved);
    free(c);
}

static enum cs_status make_events(struct cs_context_comm *c, int n, struct cs_err *err)
{
    if (n <= c->n_moved)
        return CS_OK;
    void **grown = realloc(c->moved, (size_t)n * sizeof *grown);
    if (grown == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d exchanges", n);
    c->moved = grown;
    for (; c->n_moved < n; c->n_moved++)
        CS_TRY(mem_of(c)->event_create(c->device->handle, &c->moved[c->n_moved], err));
    return CS_OK;
}

/* the group's stream goes on after what is on the device's */
static enum cs_status follow(struct cs_context_comm *c, int which, struct cs_err *err)
{
    void *handle = c->device->handle;
    CS_TRY(make_events(c, which + 1, err));
    CS_TRY(mem_of(c)->event_record(handle, c->ready, c->device->stream, err));
    c->last = which;
    return mem_of(c)->stream_wait(handle, c->stream, c->ready, err);
}

enum cs_status cs_context_comm_start(struct cs_context_comm *context, int which,
                                     const struct cs_device_move *moves, int n, struct cs_err *err)
{
    struct cs_context_comm *c = context;
    CS_TRY(follow(c, which, err));
    if (n > 0)
        CS_TRY(mem_of(c)->comm->move(c->nccl, moves, n, c->stream, err));
    return mem_of(c)->event_record(c->device->handle, c->moved[which], c->stream, err);
}

enum cs_status cs_context_comm_sum(struct cs_context_comm *context, int which, void *data, size_t n,
                                   enum cs_grad_type type, struct cs_err *err)
{
    struct cs_context_comm *c = context;
    CS_TRY(follow(c, which, err));
    CS_TRY(mem_of(c)->comm->all_reduce(c->nccl, data, n, type, c->stream, err));
    return mem_of(c)->event_record(c->device->handle, c->moved[which], c->stream, err);
}

enum cs_status cs_context_comm_finish(struct cs_context_comm *context, int which,
                                      struct cs_err *err)
{
    if (which == context->last)
        context->last = -1;
    return mem_of(context)->stream_wait(context->device->handle, context->device->stream,
                                        context->moved[which], err);
}

/* They run in the order of their starts, on one stream: behind the last are all. */
static enum cs_status finish_all(struct cs_context_comm *c, struct cs_err *err)
{
    return c->last >= 0 ? cs_context_comm_finish(c, c->last, err) : CS_OK;
}

enum cs_status cs_context_comm_move(struct cs_context_comm *context,
                                    const struct cs_device_move *moves, int n, struct cs_err *err)
{
    CS_TRY(finish_all(context, err));
    return n > 0
               ? mem_of(context)->comm->move(context->nccl, moves, n, context->device->stream, err)
               : CS_OK;
}

enum cs_status cs_context_comm_sum_now(struct cs_context_comm *context, void *data, size_t n,
                                       enum cs_grad_type type, struct cs_err *err)
{
    CS_TRY(finish_all(context, err));
    return mem_of(context)->comm->all_reduce(context->nccl, data, n, type, context->device->stream,
                                             err);
}

enum cs_status cs_context_comm_check(struct cs_context_comm *context, struct cs_err *err)
{
    struct cs_err why = {0};
    if (context == NULL || context->nccl == NULL ||
        mem_of(context)->comm->check(context->nccl, &why) == CS_OK)
        return CS_OK;
    return cs_fail(err, why.status, "rank %d: messages with %s have failed: %s", context->rank,
                   context->with, why.text);
}

void cs_context_comm_abort(struct cs_context_comm *context)
{
    if (context == NULL || context->nccl == NULL)
        return;
    mem_of(context)->comm->abort(context->nccl);
    context->nccl = NULL;
}
