/* Ranks as threads, every two of them connected by a socket pair. */
#include "support/ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

struct rank {
    cs_test_rank_fn run;
    void *user;
    int rank, fds[CS_TEST_MAX_RANKS];
    enum cs_status status;
    struct cs_err err;
};

static void connect_ranks(struct rank *rank, int n)
{
    for (int a = 0; a < n; a++)
        for (int b = a; b < n; b++) {
            int pair[2] = {-1, -1};
            if (a != b)
                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
            rank[a].fds[b] = pair[0];
            rank[b].fds[a] = pair[1];
        }
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    r->status = r->run(r->user, r->rank, r->fds, &r->err);
    return NULL;
}

void cs_test_run_ranks(int n, cs_test_rank_fn run, void *user)
{
    struct rank rank[CS_TEST_MAX_RANKS];
    pthread_t thread[CS_TEST_MAX_RANKS];
    assert_in_range(n, 1, CS_TEST_MAX_RANKS);
    for (int r = 0; r < n; r++)
        rank[r] = (struct rank){.run = run, .user = user, .rank = r};
    connect_ranks(rank, n);
    for (int r = 0; r < n; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &rank[r]), 0);
    for (int r = 0; r < n; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < n; r++)
        if (rank[r].status != CS_OK)
            fail_msg("rank %d: %s", r, rank[r].err.text);
}
