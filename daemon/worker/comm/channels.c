/* Opens, uses and closes the communicators between two GPUs, as the groups of the plan name
 * them. */
#include "worker/comm/channels.h"

#include <stdlib.h>

#include "core/plan/cost/links/windows.h"
#include "core/plan/groups.h"
#include "worker/comm/group.h"

struct channel {
    int peer;     /* -1: nothing flows */
    int peer_end; /* the peer's rank in comm: 0 or 1 */
    void *comm;
    void *stream; /* NULL: the caller's */
};

struct cs_channels {
    struct cs_device *device;
    int rank, n_ranks;       /* of all */
    struct channel *channel; /* (n_ranks, 2) by peer: received from, sent to; last: the wide one */
    int *opened;             /* (n_opened) indices of channels, in the order of opening */
    int n_opened;
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

static enum cs_status connect(struct cs_channels *l, struct channel *channel,
                              enum cs_device_comm_kind kind, struct cs_comm *comm, int deadline_ms,
                              struct cs_err *err)
{
    const int place = 1 - channel->peer_end;
    const int32_t both[2] = {place == 0 ? l->rank : channel->peer,
                             place == 0 ? channel->peer : l->rank};
    l->opened[l->n_opened++] = (int)(channel - l->channel);
    return cs_comm_group_open(l->device, both, 2, place, kind, comm, deadline_ms, &channel->comm,
                              err);
}

/* the member of a group of two that this rank is not */
static int other_of(const struct cs_channels *l, const struct cs_group *group)
{
    return group->rank[0] == l->rank ? group->rank[1] : group->rank[0];
}

static enum cs_status open_channel(struct cs_channels *l, const struct cs_plan *plan,
                                   const struct cs_group *group, struct cs_comm *comm,
                                   int deadline_ms, struct cs_err *err)
{
    const bool is_send = group->of == l->rank;
    const int peer = other_of(l, group);
    struct channel *channel = channel_of(l, peer, is_send);
    *channel = (struct channel){.peer = peer, .peer_end = is_send ? 1 : 0};
    enum cs_status status = l->device->mem->stream_create(l->device->handle, &channel->stream, err);
    if (status == CS_OK)
        status = connect(l, channel,
                         cs_channel_has_window(plan, INT32_MAX, group) ? CS_DEVICE_COMM_COPY_LANE
                                                                       : CS_DEVICE_COMM_LANE,
                         comm, deadline_ms, err);
    return status == CS_OK ? CS_OK
                           : cs_wrap(err, status, "opening the channel from rank %d to rank %d",
                                     group->of, is_send ? peer : l->rank);
}

static enum cs_status open_wide(struct cs_channels *l, const struct cs_plan *plan,
                                const struct cs_group *group, struct cs_comm *comm, int deadline_ms,
                                struct cs_err *err)
{
    const int embed = plan->stages[plan->embed_stage].rank, peer = other_of(l, group);
    *wide_of(l) = (struct channel){
        .peer = peer, .peer_end = cs_plan_rank_in_replica(plan, peer) == embed ? 0 : 1};
    const enum cs_status status =
        connect(l, wide_of(l), CS_DEVICE_COMM_BULK, comm, deadline_ms, err);
    return status == CS_OK
               ? CS_OK
               : cs_wrap(err, status, "opening the wide channel between rank %d and rank %d",
                         group->rank[0], group->rank[1]);
}

/* All groups of a kind that this rank is one of the two members of, in the order of the table. */
static enum cs_status open_all(struct cs_channels *l, const struct cs_plan *plan,
                               enum cs_group_kind kind, struct cs_comm *comm, int deadline_ms,
                               struct cs_err *err)
{
    for (int32_t i = 0; i < plan->n_groups; i++) {
        const struct cs_group *group = &plan->group[i];
        if (group->kind != kind || group->n != 2 || cs_group_position(group, l->rank) < 0)
            continue;
        if (kind == CS_GROUP_CHANNEL)
            CS_TRY(open_channel(l, plan, group, comm, deadline_ms, err));
        else
            CS_TRY(open_wide(l, plan, group, comm, deadline_ms, err));
    }
    return CS_OK;
}

enum cs_status cs_channels_new(struct cs_device *device, const struct cs_plan *plan, int rank,
                               struct cs_comm *comm, int deadline_ms, struct cs_channels **out,
                               struct cs_err *err)
{
    struct cs_channels *l = calloc(1, sizeof *l);
    const int n_ranks = cs_plan_world(plan);
    const size_t n = 2 * (size_t)n_ranks + 1;
    CS_ASSERT(plan->n_groups > 0);
    *out = NULL;
    if (l != NULL) {
        l->channel = calloc(n, sizeof *l->channel);
        l->opened = calloc(n, sizeof *l->opened);
    }
    if (l == NULL || l->channel == NULL || l->opened == NULL) {
        if (l != NULL) {
            free(l->channel);
            free(l->opened);
        }
        free(l);
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d peers", n_ranks);
    }
    l->device = device;
    l->rank = rank;
    l->n_ranks = n_ranks;
    for (int i = 0; i < count(l); i++)
        l->channel[i].peer = -1;
    enum cs_status status = open_all(l, plan, CS_GROUP_CHANNEL, comm, deadline_ms, err);
    if (status == CS_OK)
        status = open_all(l, plan, CS_GROUP_TIED, comm, deadline_ms, err);
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

/* Both ends of a channel close it together, in the order of opening: the same on all ranks. */
void cs_channels_free(struct cs_channels *channels)
{
    if (channels == NULL)
        return;
    if (cs_channels_check(channels, NULL) != CS_OK)
        cs_channels_abort(channels);
    for (int i = 0; i < channels->n_opened; i++)
        close_channel(channels, &channels->channel[channels->opened[i]]);
    free(channels->opened);
    free(channels->channel);
    free(channels);
}

void *cs_channels_stream(const struct cs_channels *channels, int peer, bool is_send)
{
    return channel_of(channels, peer, is_send)->stream;
}

enum cs_status cs_channels_move(struct cs_channels *channels, int peer, bool is_send,
                                const struct cs_device_move *part, int n, struct cs_err *err)
{
    const struct channel *channel = channel_of(channels, peer, is_send);
    if (channel->comm == NULL)
        return cs_fail(err, CS_INTERNAL, "no channel %s rank %d", is_send ? "to" : "from", peer);
    struct cs_device_move *moves = calloc((size_t)n + 1, sizeof *moves);
    if (moves == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the %d parts of a message", n);
    for (int i = 0; i < n; i++)
        moves[i] = (struct cs_device_move){part[i].data, part[i].bytes, channel->peer_end, is_send};
    const enum cs_status status =
        nccl_of(channels)->move(channel->comm, moves, n, channel->stream, err);
    free(moves);
    return status;
}

enum cs_status cs_channels_exchange(struct cs_channels *channels, int peer, void *mine,
                                    void *theirs, size_t bytes, void *stream, struct cs_err *err)
{
    const struct channel *wide = wide_of(channels);
    if (wide->comm == NULL || wide->peer != peer)
        return cs_fail(err, CS_INTERNAL, "no wide channel to rank %d", peer);
    const struct cs_device_move both[] = {
        {mine,   bytes, wide->peer_end, 1},
        {theirs, bytes, wide->peer_end, 0}
    };
    return nccl_of(channels)->move(wide->comm, both, 2, stream, err);
}

enum cs_status cs_channels_check(struct cs_channels *channels, struct cs_err *err)
{
    for (int i = 0; i < count(channels); i++) {
        struct cs_err why = {0};
        if (channels->channel[i].comm != NULL &&
            nccl_of(channels)->check(channels->channel[i].comm, &why) != CS_OK)
            return cs_fail(err, why.status, "rank %d: messages with rank %d have failed: %s",
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
