/* The socket transport between forked processes over socket pairs: random traffic, crossing
 * messages larger than every buffer, dead and silent peers, abort. An alarm guards against a
 * hang. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/comm.h"

#define RANKS 3

typedef int (*rank_fn)(struct cs_comm *comm, int arg); /* 0: passed */

struct mesh {
    int fd[RANKS][RANKS];
};

static struct mesh make_mesh(int n)
{
    struct mesh m;
    memset(&m, 0xff, sizeof m);
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
            m.fd[i][j] = pair[0];
            m.fd[j][i] = pair[1];
        }
    return m;
}

static void close_rows_but(struct mesh *m, int keep)
{
    for (int i = 0; i < RANKS; i++)
        for (int j = 0; j < RANKS; j++)
            if (i != keep && m->fd[i][j] != -1)
                close(m->fd[i][j]);
}

/* Start rank r of n; the mesh stays open in the parent. */
static pid_t start_rank(struct mesh *m, int r, int n, rank_fn fn, int arg)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    alarm(60);
    close_rows_but(m, r);
    struct cs_comm *comm = NULL;
    int rc = 99;
    if (cs_comm_socket_new(r, n, m->fd[r], &comm, NULL) == CS_OK) {
        rc = fn(comm, arg);
        comm->table->free(comm);
    }
    _exit(rc);
}

static int wait_code(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run_ranks(int n, rank_fn fn, int arg)
{
    struct mesh m = make_mesh(n);
    pid_t pid[RANKS];
    for (int r = 0; r < n; r++)
        pid[r] = start_rank(&m, r, n, fn, arg);
    close_rows_but(&m, -1);
    for (int r = 0; r < n; r++)
        assert_int_equal(wait_code(pid[r]), 0);
}

static uint32_t mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* Byte i of message number k from a to b; both ends can compute it. */
static uint8_t byte_of(int a, int b, int round, int k, size_t i)
{
    return (uint8_t)mix((uint32_t)(((a * 3 + b) * 64 + round) * 8 + k) * 2654435761u + (uint32_t)i);
}

static size_t size_of(int a, int b, int round, int k)
{
    const uint32_t r = mix((uint32_t)(((a * 3 + b) * 64 + round) * 8 + k) + 12345u);
    const size_t classes[] = {0, 1, 100, 5000, 300000};
    return classes[r % 5] + (r % 5 == 0 ? 0 : (r >> 8) % 97);
}

static int messages_of(int a, int b, int round)
{
    return (int)(mix((uint32_t)((a * 3 + b) * 64 + round) + 777u) % 4);
}

struct batch {
    struct cs_xfer x[2 * RANKS * 4];
    int k[2 * RANKS * 4];
    int n;
};

static void batch_free(struct batch *b)
{
    for (int i = 0; i < b->n; i++)
        free(b->x[i].data);
}

static struct batch make_batch(int rank, int n, int round)
{
    struct batch b = {.n = 0};
    for (int p = 0; p < n; p++)
        for (int way = 0; way < 2 && p != rank; way++) {
            const int from = way ? rank : p, to = way ? p : rank;
            for (int k = 0; k < messages_of(from, to, round); k++) {
                const size_t bytes = size_of(from, to, round, k);
                uint8_t *data = malloc(bytes + 1);
                for (size_t i = 0; i <= bytes && data != NULL; i++)
                    data[i] = way ? byte_of(from, to, round, k, i) : 0xee;
                b.k[b.n] = k;
                b.x[b.n++] =
                    (struct cs_xfer){.peer = p, .data = data, .bytes = bytes, .is_send = way};
            }
        }
    return b;
}

static bool batch_arrived(const struct batch *b, int rank, int round)
{
    for (int t = 0; t < b->n; t++) {
        const struct cs_xfer *x = &b->x[t];
        const uint8_t *data = x->data;
        if (!x->is_done)
            return false;
        if (x->is_send)
            continue;
        for (size_t i = 0; i < x->bytes; i++)
            if (data[i] != byte_of(x->peer, rank, round, b->k[t], i))
                return false;
        if (data[x->bytes] != 0xee) /* nothing beyond the end */
            return false;
    }
    return true;
}

static int random_traffic(struct cs_comm *comm, int arg)
{
    (void)arg;
    for (int round = 0; round < 40; round++) {
        struct batch b = make_batch(comm->rank, comm->n_ranks, round);
        const enum cs_status st = comm->table->exchange(comm, b.x, b.n, 30000, NULL);
        const bool is_right = st == CS_OK && batch_arrived(&b, comm->rank, round);
        batch_free(&b);
        if (!is_right)
            return 1 + round;
    }
    return 0;
}

static void random_exchanges_between_three_ranks_arrive_in_order(void **state)
{
    (void)state;
    run_ranks(3, random_traffic, 0);
}

static int posted_traffic(struct cs_comm *comm, int arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        struct batch b = make_batch(comm->rank, comm->n_ranks, round);
        enum cs_status st = CS_OK;
        int done = 0;
        for (int i = 0; i < b.n && st == CS_OK; i++)
            st = comm->table->post(comm, &b.x[i], NULL);
        while (done < b.n && st == CS_OK) {
            done = 0;
            for (int i = 0; i < b.n; i++)
                done += b.x[i].is_done;
            if (done < b.n)
                st = comm->table->progress(comm, -1, 30000, NULL);
        }
        const bool is_right = st == CS_OK && batch_arrived(&b, comm->rank, round);
        batch_free(&b);
        if (!is_right)
            return 1 + round;
    }
    return 0;
}

static void posted_transfers_progress_to_the_same_result(void **state)
{
    (void)state;
    run_ranks(3, posted_traffic, 0);
}

static int crossing(struct cs_comm *comm, int bytes)
{
    uint8_t *buf[2 * RANKS] = {NULL};
    struct cs_xfer x[2 * RANKS];
    int n = 0, rc = 0;
    for (int p = 0; p < comm->n_ranks; p++)
        for (int way = 1; way >= 0 && p != comm->rank; way--) { /* everybody sends first */
            buf[n] = malloc((size_t)bytes);
            if (buf[n] == NULL)
                return 2;
            memset(buf[n], way ? comm->rank + 1 : 0, (size_t)bytes);
            x[n] =
                (struct cs_xfer){.peer = p, .data = buf[n], .bytes = (size_t)bytes, .is_send = way};
            n++;
        }
    rc = comm->table->exchange(comm, x, n, 30000, NULL) != CS_OK;
    for (int i = 0; i < n; i++) {
        if (!x[i].is_send)
            for (int j = 0; j < bytes; j++)
                rc |= buf[i][j] != x[i].peer + 1;
        free(buf[i]);
    }
    return rc;
}

static void messages_larger_than_all_buffers_may_cross(void **state)
{
    (void)state;
    run_ranks(2, crossing, 40 << 20);
    run_ranks(3, crossing, 12 << 20);
}

static int gathers(struct cs_comm *comm, int arg)
{
    (void)arg;
    const size_t bytes[RANKS] = {5, 0, 70000};
    static uint8_t mine[70000], all[70005];
    for (int round = 0; round < 10; round++) {
        memset(mine, comm->rank * 10 + round, sizeof mine);
        memset(all, 0xee, sizeof all);
        if (comm->table->allgather(comm, mine, all, bytes, 30000, NULL) != CS_OK)
            return 1;
        for (size_t i = 0; i < sizeof all; i++)
            if (all[i] != (i < 5 ? 0 : 20) + round)
                return 2;
    }
    return 0;
}

static void allgather_fills_unequal_parts_in_rank_order(void **state)
{
    (void)state;
    run_ranks(3, gathers, 0);
}

static void one_rank_alone_gathers_and_exchanges(void **state)
{
    (void)state;
    const int fds[1] = {-1};
    struct cs_comm *comm = NULL;
    assert_int_equal(cs_comm_socket_new(0, 1, fds, &comm, NULL), CS_OK);
    const size_t bytes[1] = {3};
    char all[4] = "---";
    assert_int_equal(comm->table->allgather(comm, "abc", all, bytes, 0, NULL), CS_OK);
    assert_string_equal(all, "abc");
    assert_int_equal(comm->table->exchange(comm, NULL, 0, 0, NULL), CS_OK);
    assert_int_equal(comm->table->progress(comm, -1, 0, NULL), CS_OK);
    comm->table->free(comm);
}

/* ---- failures; the parent is rank 0 ---- */

static int sleep_for_ever(struct cs_comm *comm, int arg)
{
    (void)comm, (void)arg;
    while (pause() == -1)
        continue; /* until killed */
    return 1;
}

static int send_then_leave(struct cs_comm *comm, int arg)
{
    struct cs_xfer x = {.peer = 0, .data = &arg, .bytes = sizeof arg, .is_send = 1};
    return comm->table->exchange(comm, &x, 1, 10000, NULL) != CS_OK;
}

struct pair {
    pid_t pid;
    struct cs_comm *comm;
};

/* rank 1 runs fn in a child, rank 0 is here */
static struct pair start_pair(rank_fn fn, int arg)
{
    alarm(60);
    struct mesh m = make_mesh(2);
    struct pair p = {.pid = start_rank(&m, 1, 2, fn, arg), .comm = NULL};
    close_rows_but(&m, 0);
    assert_int_equal(cs_comm_socket_new(0, 2, m.fd[0], &p.comm, NULL), CS_OK);
    return p;
}

static void end_pair(struct pair *p)
{
    p->comm->table->free(p->comm);
    kill(p->pid, SIGKILL);
    (void)wait_code(p->pid);
    alarm(0);
}

static void *kill_soon(void *pid)
{
    usleep(50000);
    kill(*(pid_t *)pid, SIGKILL);
    return NULL;
}

static void killed_peer(int is_send)
{
    struct pair p = start_pair(sleep_for_ever, 0);
    static char data[32 << 20];
    struct cs_xfer x = {.peer = 1, .data = data, .bytes = sizeof data, .is_send = is_send};
    pthread_t killer;
    assert_int_equal(pthread_create(&killer, NULL, kill_soon, &p.pid), 0);
    struct cs_err err = {0};
    assert_int_equal(p.comm->table->exchange(p.comm, &x, 1, 0, &err), CS_PEER_GONE);
    assert_non_null(strstr(err.text, "rank 1 is gone"));
    pthread_join(killer, NULL);
    memset(&err, 0, sizeof err);
    const size_t bytes[2] = {1, 1};
    assert_int_equal(p.comm->table->allgather(p.comm, "a", data, bytes, 0, &err), CS_PEER_GONE);
    assert_non_null(strstr(err.text, "rank 1 is gone"));
    end_pair(&p);
}

static void killed_peer_is_named_while_receiving(void **state)
{
    (void)state;
    killed_peer(0);
}

static void killed_peer_is_named_while_sending(void **state)
{
    (void)state;
    killed_peer(1);
}

static void last_words_of_a_peer_arrive_before_its_end(void **state)
{
    (void)state;
    struct pair p = start_pair(send_then_leave, 4711);
    assert_int_equal(wait_code(p.pid), 0);
    int got = 0;
    struct cs_xfer x = {.peer = 1, .data = &got, .bytes = sizeof got};
    assert_int_equal(p.comm->table->exchange(p.comm, &x, 1, 10000, NULL), CS_OK);
    assert_int_equal(got, 4711);
    assert_int_equal(p.comm->table->exchange(p.comm, &x, 1, 10000, NULL), CS_PEER_GONE);
    p.comm->table->free(p.comm);
    alarm(0);
}

static void silent_peer_ends_at_the_deadline(void **state)
{
    (void)state;
    struct pair p = start_pair(sleep_for_ever, 0);
    char data[8];
    struct cs_xfer x = {.peer = 1, .data = data, .bytes = sizeof data};
    assert_int_equal(p.comm->table->post(p.comm, &x, NULL), CS_OK);
    assert_int_equal(p.comm->table->progress(p.comm, -1, 20, NULL), CS_TIMEOUT);
    assert_int_equal(x.is_done, 0); /* still queued: progress may be called again */
    assert_int_equal(p.comm->table->progress(p.comm, -1, 20, NULL), CS_TIMEOUT);
    struct cs_xfer y = {.peer = 1, .data = data, .bytes = sizeof data};
    assert_int_equal(p.comm->table->exchange(p.comm, &y, 1, 20, NULL), CS_TIMEOUT);
    assert_int_equal(p.comm->table->exchange(p.comm, &y, 1, 20, NULL), CS_STATE);
    end_pair(&p);
}

static void wake_descriptor_returns_from_progress(void **state)
{
    (void)state;
    struct pair p = start_pair(sleep_for_ever, 0);
    const int wake = eventfd(1, EFD_CLOEXEC);
    char data[8];
    struct cs_xfer x = {.peer = 1, .data = data, .bytes = sizeof data};
    assert_int_equal(p.comm->table->progress(p.comm, wake, 0, NULL), CS_OK); /* nothing queued */
    assert_int_equal(p.comm->table->post(p.comm, &x, NULL), CS_OK);
    assert_int_equal(p.comm->table->progress(p.comm, wake, 0, NULL), CS_OK);
    eventfd_t count = 0;
    assert_int_equal(eventfd_read(wake, &count), 0);
    assert_int_equal(p.comm->table->progress(p.comm, wake, 20, NULL), CS_TIMEOUT);
    close(wake);
    end_pair(&p);
}

static void *abort_soon(void *comm)
{
    usleep(50000);
    struct cs_comm *c = comm;
    c->table->abort(c);
    return NULL;
}

static void abort_from_another_thread_wakes_a_blocked_call(void **state)
{
    (void)state;
    for (int idle = 0; idle < 2; idle++) { /* blocked on the peer, or on the wake descriptor only */
        struct pair p = start_pair(sleep_for_ever, 0);
        const int wake = eventfd(0, EFD_CLOEXEC);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, abort_soon, p.comm), 0);
        char data[8];
        struct cs_xfer x = {.peer = 1, .data = data, .bytes = sizeof data};
        const enum cs_status st = idle ? p.comm->table->progress(p.comm, wake, 0, NULL)
                                       : p.comm->table->exchange(p.comm, &x, 1, 0, NULL);
        assert_int_equal(st, CS_INTERRUPTED);
        pthread_join(thread, NULL);
        assert_int_equal(p.comm->table->post(p.comm, &x, NULL), CS_INTERRUPTED);
        close(wake);
        end_pair(&p);
    }
}

static int expects_gone(struct cs_comm *comm, int arg)
{
    char data[8];
    (void)arg;
    struct cs_xfer x = {.peer = 0, .data = data, .bytes = sizeof data};
    return comm->table->exchange(comm, &x, 1, 0, NULL) != CS_PEER_GONE;
}

static void abort_wakes_the_peers_too(void **state)
{
    (void)state;
    struct pair p = start_pair(expects_gone, 0);
    p.comm->table->abort(p.comm);
    assert_int_equal(wait_code(p.pid), 0);
    p.comm->table->free(p.comm);
    alarm(0);
}

static void on_signal(int sig)
{
    (void)sig;
}

static void *interrupt_often(void *thread)
{
    for (int i = 0; i < 20; i++) {
        usleep(2000);
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
    }
    return NULL;
}

static int answer_late(struct cs_comm *comm, int arg)
{
    usleep(80000);
    return send_then_leave(comm, arg);
}

/* Rank 0 talks to rank 1 by one thread and to rank 2 by another; both answer all that they get. */
enum { TALKS = 300 };

static bool talk(struct cs_comm *comm, int peer)
{
    for (int i = 0; i < TALKS; i++) {
        int said[64] = {i, peer}, heard[64] = {-1};
        struct cs_xfer x[] = {
            {.peer = peer, .data = said,  .bytes = sizeof said,  .is_send = 1},
            {.peer = peer, .data = heard, .bytes = sizeof heard, .is_send = 0}
        };
        if (comm->table->exchange(comm, x, 2, 30000, NULL) != CS_OK || heard[0] != i + 1 ||
            heard[1] != peer)
            return false;
    }
    return true;
}

static int answer_all(struct cs_comm *comm, int arg)
{
    (void)arg;
    for (int i = 0; comm->rank > 0 && i < TALKS; i++) {
        int heard[64];
        struct cs_xfer in = {.peer = 0, .data = heard, .bytes = sizeof heard},
                       out = {.peer = 0, .data = heard, .bytes = sizeof heard, .is_send = 1};
        if (comm->table->exchange(comm, &in, 1, 30000, NULL) != CS_OK)
            return 1;
        heard[0]++;
        if (comm->table->exchange(comm, &out, 1, 30000, NULL) != CS_OK)
            return 1;
    }
    return 0;
}

static void *talk_to_last(void *shared)
{
    return talk(shared, 2) ? shared : NULL;
}

static int talk_by_two_threads(struct cs_comm *comm, int arg)
{
    struct cs_comm *shared = NULL;
    pthread_t thread;
    void *passed = NULL;
    if (comm->rank > 0)
        return answer_all(comm, arg);
    if (comm->table->share(comm, &shared, NULL) != CS_OK ||
        pthread_create(&thread, NULL, talk_to_last, shared) != 0)
        return 1;
    const bool has_passed = talk(comm, 1);
    pthread_join(thread, &passed);
    shared->table->free(shared);
    return has_passed && passed != NULL ? 0 : 1;
}

static void connections_are_shared_by_two_threads(void **state)
{
    (void)state;
    run_ranks(3, talk_by_two_threads, 0);
}

static void who_shares_is_freed_before_and_leaves_connections_open(void **state)
{
    (void)state;
    struct pair p = start_pair(send_then_leave, 12);
    struct cs_comm *shared = NULL;
    assert_int_equal(p.comm->table->share(p.comm, &shared, NULL), CS_OK);
    shared->table->free(shared);
    int got = 0;
    struct cs_xfer x = {.peer = 1, .data = &got, .bytes = sizeof got};
    assert_int_equal(p.comm->table->exchange(p.comm, &x, 1, 30000, NULL), CS_OK);
    assert_int_equal(got, 12);
    end_pair(&p);
}

static void abort_of_either_ends_both(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        struct pair p = start_pair(sleep_for_ever, 0);
        struct cs_comm *shared = NULL;
        assert_int_equal(p.comm->table->share(p.comm, &shared, NULL), CS_OK);
        struct cs_comm *ends = first ? p.comm : shared, *waits = first ? shared : p.comm;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, abort_soon, ends), 0);
        char data[8];
        struct cs_xfer x = {.peer = 1, .data = data, .bytes = sizeof data};
        assert_int_equal(waits->table->exchange(waits, &x, 1, 0, NULL), CS_INTERRUPTED);
        pthread_join(thread, NULL);
        assert_int_equal(ends->table->post(ends, &x, NULL), CS_INTERRUPTED);
        shared->table->free(shared);
        end_pair(&p);
    }
}

static int expect_number(struct cs_comm *comm, int arg)
{
    int got = 0;
    struct cs_xfer x = {.peer = 0, .data = &got, .bytes = sizeof got};
    return comm->table->exchange(comm, &x, 1, 30000, NULL) == CS_OK && got == arg ? 0 : 1;
}

/* The peer has all of it and ends, though nobody waits here. */
static void pushed_transfers_go_while_nobody_waits(void **state)
{
    (void)state;
    struct pair p = start_pair(expect_number, 77);
    int number = 77, never;
    struct cs_xfer out = {.peer = 1, .data = &number, .bytes = sizeof number, .is_send = 1},
                   in = {.peer = 1, .data = &never, .bytes = sizeof never};
    assert_int_equal(p.comm->table->post(p.comm, &out, NULL), CS_OK);
    assert_int_equal(p.comm->table->post(p.comm, &in, NULL), CS_OK);
    assert_int_equal(p.comm->table->push(p.comm, NULL), CS_OK); /* nothing has come: no error */
    assert_int_equal(out.is_done, 1);
    assert_int_equal(in.is_done, 0);
    assert_int_equal(wait_code(p.pid), 0);
    assert_int_equal(p.comm->table->push(p.comm, NULL), CS_PEER_GONE);
    p.comm->table->free(p.comm);
    alarm(0);
}

static void signals_do_not_end_a_call(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal}, old; /* no SA_RESTART */
    sigaction(SIGUSR1, &action, &old);
    struct pair p = start_pair(answer_late, 5);
    pthread_t self = pthread_self(), thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_often, &self), 0);
    int got = 0;
    struct cs_xfer x = {.peer = 1, .data = &got, .bytes = sizeof got};
    assert_int_equal(p.comm->table->exchange(p.comm, &x, 1, 30000, NULL), CS_OK);
    assert_int_equal(got, 5);
    pthread_join(thread, NULL);
    sigaction(SIGUSR1, &old, NULL);
    end_pair(&p);
}

static void bad_ranks_and_descriptors_are_refused(void **state)
{
    (void)state;
    struct cs_comm *comm = NULL;
    int pipe_fd[2];
    assert_int_equal(pipe(pipe_fd), 0);
    const int no_socket[2] = {-1, pipe_fd[0]}, own[2] = {pipe_fd[0], -1}, none[2] = {-1, -1};
    assert_int_not_equal(cs_comm_socket_new(0, 2, no_socket, &comm, NULL), CS_OK);
    assert_int_equal(cs_comm_socket_new(0, 2, own, &comm, NULL), CS_INVALID);
    assert_int_equal(cs_comm_socket_new(2, 2, none, &comm, NULL), CS_INVALID);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
    assert_null(comm);
    assert_int_equal(cs_comm_socket_new(0, 2, none, &comm, NULL), CS_OK);
    char data[1];
    struct cs_xfer x = {.peer = 1, .data = data, .bytes = 1};
    assert_int_equal(comm->table->post(comm, &x, NULL), CS_INVALID); /* not connected */
    x.peer = 0;
    assert_int_equal(comm->table->post(comm, &x, NULL), CS_INVALID); /* self */
    x = (struct cs_xfer){.peer = 1, .bytes = 0};
    assert_int_equal(comm->table->post(comm, &x, NULL), CS_OK); /* zero bytes need no connection */
    assert_int_equal(x.is_done, 1);
    comm->table->free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_exchanges_between_three_ranks_arrive_in_order),
        cmocka_unit_test(posted_transfers_progress_to_the_same_result),
        cmocka_unit_test(messages_larger_than_all_buffers_may_cross),
        cmocka_unit_test(allgather_fills_unequal_parts_in_rank_order),
        cmocka_unit_test(one_rank_alone_gathers_and_exchanges),
        cmocka_unit_test(killed_peer_is_named_while_receiving),
        cmocka_unit_test(killed_peer_is_named_while_sending),
        cmocka_unit_test(last_words_of_a_peer_arrive_before_its_end),
        cmocka_unit_test(silent_peer_ends_at_the_deadline),
        cmocka_unit_test(wake_descriptor_returns_from_progress),
        cmocka_unit_test(abort_from_another_thread_wakes_a_blocked_call),
        cmocka_unit_test(abort_wakes_the_peers_too),
        cmocka_unit_test(connections_are_shared_by_two_threads),
        cmocka_unit_test(who_shares_is_freed_before_and_leaves_connections_open),
        cmocka_unit_test(abort_of_either_ends_both),
        cmocka_unit_test(pushed_transfers_go_while_nobody_waits),
        cmocka_unit_test(signals_do_not_end_a_call),
        cmocka_unit_test(bad_ranks_and_descriptors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
