/* Over communicators of the kind that a job has for such exchanges, so with as much of the device as they take there,
 * and as there on a stream of their own, which waits for what computes and is waited for; sums that nothing runs beside
 * on the device's. */
#include "worker/comm/group.h"
#include "worker/measure/exchanges.h"

enum { SMALL = 64 << 10, LARGE = 64 << 20 };

static const enum cs_device_comm_kind uses[CS_LINK_OPS] = {
    [CS_LINK_SEND] = CS_DEVICE_COMM_COPY_LANE,       [CS_LINK_ALL_GATHER] = CS_DEVICE_COMM_GROUP,
    [CS_LINK_REDUCE_SCATTER] = CS_DEVICE_COMM_GROUP, [CS_LINK_ALL_REDUCE] = CS_DEVICE_COMM_SUMS,
    [CS_LINK_ALL_TO_ALL] = CS_DEVICE_COMM_ROWS,      [CS_LINK_SHIFT] = CS_DEVICE_COMM_SUMS,
};

static const struct cs_device_comm_ops *ops_of(const struct cs_link_rank *m)
{
    return m->device->mem->comm;
}

static size_t part_of(const struct cs_link_rank *m, size_t bytes)
{
    return bytes / (size_t)m->comm->n_ranks / sizeof(float) * sizeof(float);
}

/* from rank 0 to rank 1 */
static enum cs_status send_one(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    const int rank = m->comm->rank;
    const struct cs_device_move move = {
        .data = m->mine, .bytes = bytes, .peer = 1 - rank, .is_send = rank == 0};
    return ops_of(m)->move(m->group[CS_LINK_SEND], &move, 1, m->on, err);
}

static enum cs_status gather(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    return ops_of(m)->all_gather(m->group[CS_LINK_ALL_GATHER], m->mine, m->all, part_of(m, bytes),
                                 m->on, err);
}

static enum cs_status reduce(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    return ops_of(m)->reduce_scatter(m->group[CS_LINK_REDUCE_SCATTER], m->all, m->mine,
                                     part_of(m, bytes) / sizeof(float), CS_GRAD_F32, m->on, err);
}

static enum cs_status all_reduce(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    const bool is_f32 = cs_device_is_f32(m->device);
    return ops_of(m)->all_reduce(m->group[CS_LINK_ALL_REDUCE], m->all,
                                 bytes / m->device->ops->act_bytes,
                                 is_f32 ? CS_GRAD_F32 : CS_GRAD_BF16, m->on, err);
}

static enum cs_status all_to_all(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    struct cs_device_move move[2 * CS_LINK_RANKS];
    const size_t part = part_of(m, bytes);
    int n = 0;
    for (int r = 0; r < m->comm->n_ranks; r++) {
        const size_t at = part * (size_t)r;
        if (r == m->comm->rank)
            continue;
        move[n++] = (struct cs_device_move){(char *)m->mine + at, part, r, 1};
        move[n++] = (struct cs_device_move){(char *)m->all + at, part, r, 0};
    }
    return ops_of(m)->move(m->group[CS_LINK_ALL_TO_ALL], move, n, m->on, err);
}

/* to the next rank, from the one before */
static enum cs_status shift(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    const int n = m->comm->n_ranks, rank = m->comm->rank;
    const struct cs_device_move move[] = {
        {m->mine, bytes, (rank + 1) % n,     1},
        {m->all,  bytes, (rank + n - 1) % n, 0}
    };
    return ops_of(m)->move(m->group[CS_LINK_SHIFT], move, CS_ARRAY_LEN(move), m->on, err);
}

static bool by_copy_engines(const struct cs_link_rank *m, int kind)
{
    return m->group[kind] != NULL && ops_of(m)->moves_by_copy_engines(m->group[kind]) != 0;
}

static bool is_apart(const struct cs_link_rank *m)
{
    return m->on != m->device->stream;
}

static enum cs_status before(struct cs_link_rank *m, int kind, bool is_beside, struct cs_err *err)
{
    const struct cs_device_ops *mem = m->device->mem;
    m->on = kind == CS_LINK_ALL_REDUCE && !is_beside ? m->device->stream : m->side;
    if (!is_apart(m))
        return CS_OK;
    CS_TRY(mem->event_record(m->device->handle, m->asked, m->device->stream, err));
    return mem->stream_wait(m->device->handle, m->side, m->asked, err);
}

static enum cs_status after(struct cs_link_rank *m, struct cs_err *err)
{
    const struct cs_device_ops *mem = m->device->mem;
    if (!is_apart(m))
        return CS_OK;
    CS_TRY(mem->event_record(m->device->handle, m->over, m->side, err));
    return mem->stream_wait(m->device->handle, m->device->stream, m->over, err);
}

/* a message has two ends: larger groups have no channel */
static bool has_kind(const struct cs_link_rank *m, int kind)
{
    return kind != CS_LINK_SEND || m->comm->n_ranks == 2;
}

static enum cs_status open_rank(struct cs_link_rank *m, struct cs_err *err)
{
    int32_t rank[CS_LINK_RANKS];
    for (int r = 0; r < m->comm->n_ranks; r++)
        rank[r] = r;
    const struct cs_device_ops *mem = m->device->mem;
    CS_TRY(mem->stream_create(m->device->handle, &m->side, err));
    CS_TRY(mem->event_create(m->device->handle, &m->asked, err));
    CS_TRY(mem->event_create(m->device->handle, &m->over, err));
    CS_TRY(cs_device_alloc(m->device, m->bytes, (void **)&m->mine, err));
    CS_TRY(cs_device_alloc(m->device, m->bytes, (void **)&m->all, err));
    cs_device_zero(m->device, m->mine, m->bytes);
    cs_device_zero(m->device, m->all, m->bytes);
    for (int k = 0; k < CS_LINK_OPS; k++)
        if (has_kind(m, k))
            CS_TRY(cs_comm_group_open(m->device, rank, m->comm->n_ranks, m->comm->rank, uses[k],
                                      m->comm, CS_LINK_DEADLINE_MS, &m->group[k], err));
    return CS_OK;
}

static void abort_rank(struct cs_link_rank *m)
{
    for (int k = 0; k < CS_LINK_OPS; k++)
        if (m->group[k] != NULL) {
            ops_of(m)->abort(m->group[k]);
            m->group[k] = NULL;
        }
}

/* A communicator closes together with its peers'; where it has failed itself, nobody waits. */
static void close_rank(struct cs_link_rank *m)
{
    struct cs_err err = {0};
    for (int k = 0; k < CS_LINK_OPS; k++)
        if (m->group[k] != NULL && ops_of(m)->check(m->group[k], &err) == CS_OK)
            ops_of(m)->close(m->group[k]);
        else if (m->group[k] != NULL)
            ops_of(m)->abort(m->group[k]);
    const struct cs_device_ops *mem = m->device->mem;
    if (m->over != NULL)
        mem->event_destroy(m->device->handle, m->over);
    if (m->asked != NULL)
        mem->event_destroy(m->device->handle, m->asked);
    if (m->side != NULL)
        mem->stream_destroy(m->device->handle, m->side);
    cs_device_free(m->device, m->mine, m->bytes);
    cs_device_free(m->device, m->all, m->bytes);
}

static enum cs_status settle(struct cs_link_rank *m, struct cs_err *err)
{
    return cs_device_sync(m->device, err);
}

const struct cs_exchanges cs_device_exchanges = {
    .kind = {[CS_LINK_SEND] = {1, send_one},
             [CS_LINK_ALL_GATHER] = {1, gather},
             [CS_LINK_REDUCE_SCATTER] = {1, reduce},
             [CS_LINK_ALL_REDUCE] = {1, all_reduce},
             [CS_LINK_ALL_TO_ALL] = {1, all_to_all},
             [CS_LINK_SHIFT] = {1, shift}},
    .before = before,
    .after = after,
    .small = SMALL,
    .large = LARGE,
    .repeats = 32,
    .by_copy_engines = by_copy_engines,
    .open = open_rank,
    .abort = abort_rank,
    .close = close_rank,
    .settle = settle,
};
