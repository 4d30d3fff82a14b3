/* Over sockets; the host adds. */
#include <stdlib.h>
#include <string.h>

#include "worker/measure/exchanges.h"
#include "worker/measure/messenger.h"

/* WORK: floats, and how often they are copied, in place of what layers compute between two exchanges */
enum { SMALL = 4096, LARGE = 1 << 20, WORK = 1 << 14, WORK_TIMES = 32 };

/* there and back between ranks 0 and 1; counts as two */
static enum cs_status send_back(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    const int rank = m->comm->rank;
    if (rank > 1)
        return CS_OK;
    for (int i = 0; i < 2; i++) {
        struct cs_xfer x = {
            .peer = 1 - rank, .data = m->mine, .bytes = bytes, .is_send = i == rank};
        CS_TRY(cs_messenger_move(m->messenger, &x, CS_LINK_DEADLINE_MS, err));
    }
    return CS_OK;
}

static void work(struct cs_link_rank *m)
{
    for (int k = 0; k < WORK_TIMES; k++)
        memcpy(m->worked + (k % 2) * WORK, m->worked + (1 - k % 2) * WORK,
               WORK * sizeof *m->worked);
}

static enum cs_status gather(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    size_t part[CS_LINK_RANKS];
    for (int r = 0; r < m->comm->n_ranks; r++)
        part[r] = bytes / (size_t)m->comm->n_ranks;
    return m->comm->table->allgather(m->comm, m->mine, m->all, part, CS_LINK_DEADLINE_MS, err);
}

static enum cs_status all_to_all(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    struct cs_xfer x[2 * CS_LINK_RANKS];
    const size_t part = bytes / (size_t)m->comm->n_ranks;
    int n = 0;
    for (int r = 0; r < m->comm->n_ranks; r++) {
        if (r == m->comm->rank)
            continue;
        x[n++] = (struct cs_xfer){
            .peer = r, .data = (char *)m->mine + part * (size_t)r, .bytes = part, .is_send = 1};
        x[n++] =
            (struct cs_xfer){.peer = r, .data = (char *)m->all + part * (size_t)r, .bytes = part};
    }
    return m->comm->table->exchange(m->comm, x, n, CS_LINK_DEADLINE_MS, err);
}

/* to the next rank, from the one before */
static enum cs_status shift(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    const int n = m->comm->n_ranks, rank = m->comm->rank;
    struct cs_xfer x[] = {
        {.peer = (rank + 1) % n, .data = m->mine, .bytes = bytes,           .is_send = 1},
        {.peer = (rank + n - 1) % n,                      .data = m->all,            .bytes = bytes}
    };
    return m->comm->table->exchange(m->comm, x, CS_ARRAY_LEN(x), CS_LINK_DEADLINE_MS, err);
}

/* parts of all go to their rank, which adds them */
static enum cs_status reduce(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    const size_t n = bytes / (size_t)m->comm->n_ranks / sizeof(float);
    CS_TRY(all_to_all(m, bytes, err));
    for (int r = 0; r < m->comm->n_ranks; r++)
        for (size_t i = 0; r != m->comm->rank && i < n; i++)
            m->mine[i] += m->all[(size_t)r * n + i];
    return CS_OK;
}

/* as layers sum (worker/layer/tensors.c): two ranks send each other all */
static enum cs_status all_reduce(struct cs_link_rank *m, size_t bytes, struct cs_err *err)
{
    if (m->comm->n_ranks == 2) {
        CS_TRY(shift(m, bytes, err));
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            m->mine[i] += m->all[i];
        return CS_OK;
    }
    CS_TRY(reduce(m, bytes, err));
    return gather(m, bytes, err);
}

static enum cs_status open_rank(struct cs_link_rank *m, struct cs_err *err)
{
    m->mine = calloc(1, m->bytes);
    m->all = calloc(1, m->bytes);
    m->worked = calloc(2 * WORK, sizeof *m->worked);
    return m->mine != NULL && m->all != NULL && m->worked != NULL
               ? cs_messenger_new(m->comm, &m->messenger, err)
               : cs_fail(err, CS_NO_MEMORY, "no memory to measure links");
}

static void abort_rank(struct cs_link_rank *m)
{
    (void)m; /* its sockets, which whoever opened them aborts, are all that peers share */
}

static void close_rank(struct cs_link_rank *m)
{
    cs_messenger_free(m->messenger);
    free(m->mine);
    free(m->all);
    free(m->worked);
}

static enum cs_status settle(struct cs_link_rank *m, struct cs_err *err)
{
    (void)m;
    (void)err;
    return CS_OK; /* exchanges return when they are complete */
}

const struct cs_exchanges cs_host_exchanges = {
    .kind = {[CS_LINK_SEND] = {2, send_back},
             [CS_LINK_ALL_GATHER] = {1, gather},
             [CS_LINK_REDUCE_SCATTER] = {1, reduce},
             [CS_LINK_ALL_REDUCE] = {1, all_reduce},
             [CS_LINK_ALL_TO_ALL] = {1, all_to_all},
             [CS_LINK_SHIFT] = {1, shift}},
    .small = SMALL,
    .large = LARGE,
    .repeats = 8,
    .work = work,
    .open = open_rank,
    .abort = abort_rank,
    .close = close_rank,
    .settle = settle,
};
