/* Threads with sockets between them, and which of their errors is told. */
#include "worker/selftest/ranks.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct rank {
    cs_selftest_rank_fn run;
    void *user;
    int rank, fds[CS_SELFTEST_RANKS];
    bool is_started;
    pthread_t thread;
    enum cs_status status;
    struct cs_err err;
};

static void disconnect(struct rank *rank, int n)
{
    for (int i = 0; i < n; i++)
        if (rank->fds[i] >= 0)
            close(rank->fds[i]);
}

static enum cs_status connect_ranks(struct rank *rank, int n, struct cs_err *err)
{
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
                return cs_fail_errno(err, "a socket between ranks %d and %d", a, b);
            rank[a].fds[b] = pair[0];
            rank[b].fds[a] = pair[1];
        }
    return CS_OK;
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    r->status = r->run(r->user, r->rank, r->fds, &r->err);
    return NULL;
}

/* Whoever lost a peer only says what another rank's failure did to it. */
static const struct rank *worst(const struct rank *rank, int n)
{
    const struct rank *found = NULL;
    for (int r = 0; r < n; r++) {
        const bool is_own = rank[r].status != CS_OK && rank[r].status != CS_PEER_GONE;
        if (is_own || (rank[r].status != CS_OK && found == NULL))
            found = &rank[r];
        if (is_own)
            break;
    }
    return found;
}

enum cs_status cs_selftest_run_ranks(int n, cs_selftest_rank_fn run, void *user, struct cs_err *err)
{
    struct rank rank[CS_SELFTEST_RANKS];
    if (n < 1 || n > CS_SELFTEST_RANKS)
        return cs_fail(err, CS_LIMIT, "%d ranks; a test runs 1 to %d", n, CS_SELFTEST_RANKS);
    for (int r = 0; r < n; r++) {
        rank[r] = (struct rank){.run = run, .user = user, .rank = r, .status = CS_OK};
        for (int i = 0; i < n; i++)
            rank[r].fds[i] = -1;
    }
    enum cs_status status = connect_ranks(rank, n, err);
    for (int r = 0; status == CS_OK && r < n; r++) {
        rank[r].is_started = pthread_create(&rank[r].thread, NULL, run_rank, &rank[r]) == 0;
        if (!rank[r].is_started)
            status = cs_fail(err, CS_LIMIT, "no thread for rank %d", r);
    }
    for (int r = 0; r < n; r++)
        if (!rank[r].is_started)
            disconnect(&rank[r], n);
    for (int r = 0; r < n; r++)
        if (rank[r].is_started)
            pthread_join(rank[r].thread, NULL);
    const struct rank *bad = status == CS_OK ? worst(rank, n) : NULL;
    if (bad == NULL)
        return status;
    return cs_fail(err, bad->status, "rank %d: %s", bad->rank, bad->err.text);
}
