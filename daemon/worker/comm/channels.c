/* See channels.h. */
#include "worker/comm/channels.h"

#include <stdlib.h>

struct channel {
    int peer;     /* -1: nothing flows */
    int peer_end; /* the peer's rank in comm: 0 or 1 */
    void *comm;
    void *stream; /* NULL: the caller's */
};

struct cs_channels {
    struct cs_device *device;
    int rank, n_ranks;       /* in the replica */
    int first;               /* the replica's rank 0 among all */
    struct channel *channel; /* (n_ranks, 2) by peer: received from, sent to; last: the wide one */
};

static const struct cs_device_comm_ops *nccl_of(const struct cs_channels *l)
{
    return l->device->mem->comm;
}

static struct channel *channel_of(const struct cs_channels *l, int peer, bool is_send)
{
    return &l->channel[2 * peer + (is_send ? 1 : 0)];
}

/* Between the ranks of a tied embedding, both ways; opened and closed after all others. */
static struct channel *wide_of(const struct cs_channels *l)
{
    return &l->channel[2 * l->n_ranks];
}

static int count(const struct cs_channels *l)
{
    return 2 * l->n_ranks + 1;
}

/* pair[from * n + to]: messages flow that way */
static void find_pairs(const struct cs_plan *plan, bool *pair)
{
    const int n = plan->n_ranks;
    for (int32_t e = 0; e < plan->n_edges; e++) {
        const int from = plan->stages[plan->edges[e].from].rank;
        const int to = plan->stages[plan->edges[e].to].rank;
        pair[from * n + to] |= from != to;
        pair[to * n + from] |= from != to && plan->edges[e].has_grad;
    }
}

/* Rank 0 of the two makes the id and sends it over the sockets. */
static enum cs_status connect(struct cs_channels *l, struct channel *channel,
                              enum cs_device_comm_kind kind, struct cs_comm *comm, int deadline_ms,
                              struct cs_err *err)
{
    const bool is_first = channel->peer_end == 1;
    char id[CS_DEVICE_COMM_ID] = {0};
    struct cs_xfer x = {
        .peer = l->first + channel->peer, .data = id, .bytes = sizeof id, .is_send = is_first};
    if (is_first)
        CS_TRY(nccl_of(l)->new_id(id, err));
    CS_TRY(comm->table->exchange(comm, &x, 1, deadline_ms, err));
    return nccl_of(l)->open(id, 1 - channel->peer_end, 2, kind, &channel->comm, err);
}

static enum cs_status open_channel(struct cs_channels *l, int from, int to, struct cs_comm *comm,
                                   int deadline_ms, struct cs_err *err)
{
    const bool is_send = from == l->rank;
    const int peer = is_send ? to : from;
    struct channel *channel = channel_of(l, peer, is_send);
    *channel = (struct channel){.peer = peer, .peer_end = is_send ? 1 : 0};
    CS_TRY(l->device->mem->stream_create(l->device->handle, &channel->stream, err));
    return connect(l, channel, CS_DEVICE_COMM_LANE, comm, deadline_ms, err);
}

static enum cs_status open_channels(struct cs_channels *l, const struct cs_plan *plan,
                                    struct cs_comm *comm, int deadline_ms, struct cs_err *err)
{
    const int n = plan->n_ranks;
    bool *pair = calloc((size_t)n * (size_t)n, sizeof *pair);
    if (pair == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d peers", n);
    find_pairs(plan, pair);
    enum cs_status status = CS_OK;
    for (int i = 0; status == CS_OK && i < n * n; i++)
        if (pair[i] && (i / n == l->rank || i % n == l->rank)) {
            status = open_channel(l, i / n, i % n, comm, deadline_ms, err);
            if (status != CS_OK)
                status =
                    cs_wrap(err, status, "opening the way from rank %d to rank %d", i / n, i % n);
        }
    free(pair);
    return status;
}

static enum cs_status open_wide(struct cs_channels *l, const struct cs_plan *plan,
                                struct cs_comm *comm, int deadline_ms, struct cs_err *err)
{
    if (!plan->is_tied_across || plan->tied_bytes == 0)
        return CS_OK;
    const int embed = plan->stages[plan->embed_stage].rank;
    const int head = plan->stages[plan->head_stage].rank;
    if (embed == head || (l->rank != embed && l->rank != head))
        return CS_OK;
    const bool is_first = l->rank == embed;
    *wide_of(l) = (struct channel){.peer = is_first ? head : embed, .peer_end = is_first ? 1 : 0};
    const enum cs_status status =
        connect(l, wide_of(l), CS_DEVICE_COMM_BULK, comm, deadline_ms, err);
    return status == CS_OK
               ? CS_OK
               : cs_wrap(err, status, "opening the wide way between rank %d and rank %d", embed,
                         head);
}

enum cs_status cs_channels_new(struct cs_device *device, const struct cs_plan *plan, int rank,
                               struct cs_comm *comm, int deadline_ms, struct cs_channels **out,
                               struct cs_err *err)
{
    struct cs_channels *l = calloc(1, sizeof *l);
    *out = NULL;
    if (l != NULL)
        l->channel = calloc(2 * (size_t)plan->n_ranks + 1, sizeof *l->channel);
    if (l == NULL || l->channel == NULL) {
        free(l);
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d peers", plan->n_ranks);
    }
    l->device = device;
    l->rank = rank % plan->n_ranks;
    l->first = rank - l->rank;
    l->n_ranks = plan->n_ranks;
    for (int i = 0; i < count(l); i++)
        l->channel[i].peer = -1;
    enum cs_status status = open_channels(l, plan, comm, deadline_ms, err);
    if (status == CS_OK)
        status = open_wide(l, plan, comm, deadline_ms, err);
    if (status != CS_OK) {
        cs_channels_abort(l);
        cs_channels_free(l);
        return status;
    }
    *out = l;
    return CS_OK;
}

static void close_channel(struct cs_channels *l, struct channel *channel)
{
    if (channel->comm != NULL)
        nccl_of(l)->close(channel->comm);
    if (channel->stream != NULL)
        l->device->mem->stream_destroy(l->device->handle, channel->stream);
}

/* Both ends of a channel close it together: in the order of opening, which is the same on all ranks.
 */
void cs_channels_free(struct cs_channels *channels)
{
    if (channels == NULL)
        return;
    if (cs_channels_check(channels, NULL) != CS_OK)
        cs_channels_abort(channels);
    for (int i = 0; i < channels->n_ranks * channels->n_ranks; i++) {
        const int from = i / channels->n_ranks, to = i % channels->n_ranks;
        if (from != to && (from == channels->rank || to == channels->rank))
            close_channel(channels, channel_of(channels, from == channels->rank ? to : from,
                                               from == channels->rank));
    }
    close_channel(channels, wide_of(channels));
    free(channels->channel);
    free(channels);
}

void *cs_channels_stream(const struct cs_channels *channels, int peer, bool is_send)
{
    return channel_of(channels, peer, is_send)->stream;
}

enum cs_status cs_channels_move(struct cs_channels *channels, int peer, bool is_send, void *data,
                                size_t bytes, struct cs_err *err)
{
    const struct channel *channel = channel_of(channels, peer, is_send);
    if (channel->comm == NULL)
        return cs_fail(err, CS_INTERNAL, "no way %s rank %d", is_send ? "to" : "from", peer);
    return is_send ? nccl_of(channels)->send(channel->comm, data, bytes, channel->peer_end,
                                             channel->stream, err)
                   : nccl_of(channels)->recv(channel->comm, data, bytes, channel->peer_end,
                                             channel->stream, err);
}

enum cs_status cs_channels_exchange(struct cs_channels *channels, int peer, const void *mine,
                                    void *theirs, size_t bytes, void *stream, struct cs_err *err)
{
    const struct channel *wide = wide_of(channels);
    if (wide->comm == NULL || wide->peer != peer)
        return cs_fail(err, CS_INTERNAL, "no wide way between rank %d and rank %d", channels->rank,
                       peer);
    return nccl_of(channels)->exchange(wide->comm, mine, theirs, bytes, wide->peer_end, stream,
                                       err);
}

enum cs_status cs_channels_check(struct cs_channels *channels, struct cs_err *err)
{
    for (int i = 0; i < count(channels); i++) {
        struct cs_err why = {0};
        if (channels->channel[i].comm != NULL &&
            nccl_of(channels)->check(channels->channel[i].comm, &why) != CS_OK)
            return cs_fail(err, CS_PEER_GONE, "rank %d: messages with rank %d have failed: %s",
                           channels->rank, channels->channel[i].peer, why.text);
    }
    return CS_OK;
}

enum cs_status cs_channels_await(struct cs_channels *channels, struct cs_err *err)
{
    const struct cs_device *d = channels->device;
    for (int i = 0; i < count(channels); i++)
        if (channels->channel[i].stream != NULL)
            CS_TRY(d->mem->stream_sync(d->handle, channels->channel[i].stream, err));
    return cs_channels_check(channels, err);
}

void cs_channels_abort(struct cs_channels *channels)
{
    if (channels == NULL)
        return;
    for (int i = 0; i < count(channels); i++) {
        if (channels->channel[i].comm != NULL)
            nccl_of(channels)->abort(channels->channel[i].comm);
        channels->channel[i].comm = NULL;
    }
}
