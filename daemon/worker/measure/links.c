/* Groups of threads with sockets between them run one kind of exchange after the other, small and large. */
#include "worker/measure/links.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "kernels/comm.h"

enum {
    MOST_RANKS = 4,
    SAMPLES = 7,
    REPEATS = 8,
    SMALL = 4096,
    LARGE = 1 << 20,
    DEADLINE_MS = 20000
};

struct member {
    struct cs_comm *comm;
    int fds[MOST_RANKS];
    float *mine, *all; /* (LARGE bytes) each */
    int64_t ns[2];     /* of one exchange, small and large */
    enum cs_status status;
    struct cs_err err;
    pthread_t thread;
};

typedef enum cs_status (*exchange_fn)(struct member *m, size_t bytes, struct cs_err *err);

/* there and back between ranks 0 and 1; counts as two */
static enum cs_status send_back(struct member *m, size_t bytes, struct cs_err *err)
{
    const int rank = m->comm->rank;
    if (rank > 1)
        return CS_OK;
    for (int i = 0; i < 2; i++) {
        struct cs_xfer x = {
            .peer = 1 - rank, .data = m->mine, .bytes = bytes, .is_send = i == rank};
        CS_TRY(m->comm->table->exchange(m->comm, &x, 1, DEADLINE_MS, err));
    }
    return CS_OK;
}

static enum cs_status gather(struct member *m, size_t bytes, struct cs_err *err)
{
    size_t part[MOST_RANKS];
    for (int r = 0; r < m->comm->n_ranks; r++)
        part[r] = bytes / (size_t)m->comm->n_ranks;
    return m->comm->table->allgather(m->comm, m->mine, m->all, part, DEADLINE_MS, err);
}

static enum cs_status all_to_all(struct member *m, size_t bytes, struct cs_err *err)
{
    struct cs_xfer x[2 * MOST_RANKS];
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
    return m->comm->table->exchange(m->comm, x, n, DEADLINE_MS, err);
}

/* parts of all go to their rank, which adds them */
static enum cs_status reduce(struct member *m, size_t bytes, struct cs_err *err)
{
    const size_t n = bytes / (size_t)m->comm->n_ranks / sizeof(float);
    CS_TRY(all_to_all(m, bytes, err));
    for (int r = 0; r < m->comm->n_ranks; r++)
        for (size_t i = 0; r != m->comm->rank && i < n; i++)
            m->mine[i] += m->all[(size_t)r * n + i];
    return CS_OK;
}

static enum cs_status all_reduce(struct member *m, size_t bytes, struct cs_err *err)
{
    CS_TRY(reduce(m, bytes, err));
    return gather(m, bytes, err);
}

static const struct {
    const char *op;
    exchange_fn run;
    int counts; /* exchanges that one call makes */
} kinds[] = {
    {"send",           send_back,  2},
    {"all-gather",     gather,     1},
    {"reduce-scatter", reduce,     1},
    {"all-reduce",     all_reduce, 1},
    {"all-to-all",     all_to_all, 1},
};

/* what all members run now; set before they start */
struct task {
    struct member *member;
    int kind;
};

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static enum cs_status time_kind(struct member *m, int kind, struct cs_err *err)
{
    for (int s = 0; s < 2; s++) {
        int64_t sample[SAMPLES];
        for (int i = -1; i < SAMPLES; i++) { /* the first one warms up */
            const int64_t start = cs_now_ns();
            for (int k = 0; k < REPEATS; k++)
                CS_TRY(kinds[kind].run(m, s == 0 ? SMALL : LARGE, err));
            if (i >= 0)
                sample[i] = (cs_now_ns() - start) / REPEATS / kinds[kind].counts;
        }
        qsort(sample, SAMPLES, sizeof *sample, by_value);
        m->ns[s] = sample[SAMPLES / 2];
    }
    return CS_OK;
}

static void *run_member(void *arg)
{
    const struct task *task = arg;
    task->member->status = time_kind(task->member, task->kind, &task->member->err);
    if (task->member->status != CS_OK)
        task->member->comm->table->abort(task->member->comm); /* nobody waits for it */
    return NULL;
}

static struct cs_profile_link fit(const struct member *m, int kind, int n)
{
    const int64_t more = m->ns[1] > m->ns[0] ? m->ns[1] - m->ns[0] : 1;
    const double rate = (double)(LARGE - SMALL) * 1e9 / (double)more;
    const double latency = (double)m->ns[0] - SMALL * 1e9 / rate;
    return (struct cs_profile_link){.op = kinds[kind].op,
                                    .ranks = n,
                                    .latency_ns = latency > 0 ? (int64_t)latency : 0,
                                    .bytes_per_s = (int64_t)rate};
}

static enum cs_status measure_kind(struct member *member, int n, int kind,
                                   struct cs_profile *profile, struct cs_err *err)
{
    struct task task[MOST_RANKS];
    int started = 0;
    enum cs_status status = CS_OK;
    for (int r = 0; r < n; r++)
        task[r] = (struct task){&member[r], kind};
    while (started < n &&
           pthread_create(&member[started].thread, NULL, run_member, &task[started]) == 0)
        started++;
    if (started < n) {
        status = cs_fail(err, CS_LIMIT, "no thread to measure links with");
        for (int r = 0; r < n; r++)
            member[r].comm->table->abort(member[r].comm);
    }
    for (int r = 0; r < started; r++)
        pthread_join(member[r].thread, NULL);
    for (int r = 0; r < started && status == CS_OK; r++)
        if (member[r].status != CS_OK)
            status = cs_fail(err, member[r].status, "measuring links: %s", member[r].err.text);
    if (status == CS_OK)
        profile->link[profile->n_links++] = fit(&member[0], kind, n);
    return status;
}

static enum cs_status connect_members(struct member *member, int n, struct cs_err *err)
{
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
                return cs_fail_errno(err, "a socket to measure links with");
            member[a].fds[b] = pair[0];
            member[b].fds[a] = pair[1];
        }
    for (int r = 0; r < n; r++) {
        CS_TRY(cs_comm_socket_new(r, n, member[r].fds, &member[r].comm, err));
        for (int i = 0; i < n; i++)
            member[r].fds[i] = -1; /* they are its now */
        member[r].mine = calloc(1, LARGE);
        member[r].all = calloc(1, LARGE);
        if (member[r].mine == NULL || member[r].all == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory to measure links");
    }
    return CS_OK;
}

static void close_members(struct member *member, int n)
{
    for (int r = 0; r < n; r++) {
        if (member[r].comm != NULL)
            member[r].comm->table->free(member[r].comm);
        for (int i = 0; i < n; i++)
            if (member[r].fds[i] >= 0)
                close(member[r].fds[i]);
        free(member[r].mine);
        free(member[r].all);
    }
}

static enum cs_status measure_group(int n, struct cs_profile *profile, struct cs_err *err)
{
    struct member member[MOST_RANKS];
    for (int r = 0; r < n; r++) {
        member[r] = (struct member){.status = CS_OK};
        for (int i = 0; i < MOST_RANKS; i++)
            member[r].fds[i] = -1;
    }
    enum cs_status status = connect_members(member, n, err);
    for (int k = 0; status == CS_OK && k < (int)CS_ARRAY_LEN(kinds); k++)
        if (k > 0 || n == 2) /* a message has two ends */
            status = measure_kind(member, n, k, profile, err);
    close_members(member, n);
    return status;
}

enum cs_status cs_measure_links(struct cs_arena *arena, struct cs_profile *profile,
                                struct cs_err *err)
{
    profile->link = CS_NEW_ARRAY(arena, struct cs_profile_link, 2 * CS_ARRAY_LEN(kinds));
    profile->n_links = 0;
    CS_TRY(measure_group(2, profile, err));
    return measure_group(4, profile, err);
}
