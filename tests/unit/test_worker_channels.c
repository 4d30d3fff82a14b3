/* The ways between GPUs, on devices whose communicators only write down what is asked of them: a
 * narrow channel for every edge and direction, and one wide communicator between the two ranks of a
 * tied embedding, which carries the exchange. Ranks are threads that send the ids over sockets. */
#include "core/plan/groups.h"
#include "worker/comm/channels.h"
#include "worker/comm/group.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/ranks.h"

enum { MAX_COMMS = 16, DEADLINE_MS = 60000, BYTES = 24 };

/* one end of a communicator */
struct fake {
    int id; /* the same at both ends; 1 .. */
    int end, n;
    enum cs_device_comm_kind kind;
    bool is_aborted;
    enum cs_status broken; /* CS_OK: it is well */
    int closed_at;         /* 1 .. in the order of closing; 0: not */
    int n_exchanges;
    void *stream;
    int peer_end;
};

/* what a rank's communicators were asked for, in the order of opening */
struct log {
    struct fake comm[MAX_COMMS];
    int n, n_closed;
};

static _Thread_local struct log *mine; /* of the thread's rank */
static pthread_mutex_t ids_lock = PTHREAD_MUTEX_INITIALIZER;
static int n_ids;

static enum cs_status fake_id(char id[CS_DEVICE_COMM_ID], struct cs_err *err)
{
    (void)err;
    pthread_mutex_lock(&ids_lock);
    memset(id, ++n_ids, CS_DEVICE_COMM_ID);
    pthread_mutex_unlock(&ids_lock);
    return CS_OK;
}

static enum cs_status fake_open(const char id[CS_DEVICE_COMM_ID], int rank, int n,
                                enum cs_device_comm_kind kind, void **comm, struct cs_err *err)
{
    (void)err;
    CS_ASSERT(mine->n < MAX_COMMS);
    struct fake *c = &mine->comm[mine->n++];
    *c = (struct fake){.id = id[CS_DEVICE_COMM_ID - 1], .end = rank, .n = n, .kind = kind};
    *comm = c;
    return CS_OK;
}

static enum cs_status fake_move(void *comm, const struct cs_device_move *moves, int n, void *stream,
                                struct cs_err *err)
{
    struct fake *c = comm;
    (void)err;
    assert_int_equal(n, 2);
    assert_true(moves[0].is_send && !moves[1].is_send);
    assert_int_equal(moves[0].peer, moves[1].peer);
    assert_int_equal(moves[0].bytes, moves[1].bytes);
    c->n_exchanges++;
    c->stream = stream;
    c->peer_end = moves[0].peer;
    memcpy(moves[1].data, moves[0].data, moves[0].bytes); /* to see that all of it arrives */
    return CS_OK;
}

static enum cs_status fake_check(void *comm, struct cs_err *err)
{
    const struct fake *c = comm;
    return c->broken != CS_OK ? cs_fail(err, c->broken, "a broken link") : CS_OK;
}

static void fake_abort(void *comm)
{
    struct fake *c = comm;
    c->is_aborted = true;
}

static void fake_close(void *comm)
{
    struct fake *c = comm;
    c->closed_at = ++mine->n_closed;
}

static enum cs_status fake_create(void *handle, void **out, struct cs_err *err)
{
    (void)err;
    *out = handle;
    return CS_OK;
}

static void fake_destroy(void *handle, void *what)
{
    (void)handle;
    (void)what;
}

static const struct cs_device_comm_ops fake_comm = {.new_id = fake_id,
                                                    .open = fake_open,
                                                    .move = fake_move,
                                                    .check = fake_check,
                                                    .abort = fake_abort,
                                                    .close = fake_close};
/* no events: an exchange needs none */
static const struct cs_device_ops fake_device = {
    .comm = &fake_comm, .stream_create = fake_create, .stream_destroy = fake_destroy};

/* ---- ranks ---- */

/* Three stages of an LLM, one after the other, with gradients. */
struct job {
    struct cs_stage stage[3];
    struct cs_edge edge[2];
    struct cs_plan plan;
    struct log log[CS_TEST_MAX_RANKS];
    enum cs_status (*after)(struct job *job, struct cs_channels *channels, int rank,
                            struct cs_err *err);
};

static void job_init(struct job *job)
{
    memset(job, 0, sizeof *job);
    for (int32_t s = 0; s < 3; s++)
        job->stage[s] = (struct cs_stage){.id = s, .rank = s};
    for (int32_t e = 0; e < 2; e++)
        job->edge[e] = (struct cs_edge){.id = e, .from = e, .to = e + 1, .has_grad = true};
    job->plan = (struct cs_plan){.stages = job->stage,
                                 .edges = job->edge,
                                 .n_stages = 3,
                                 .n_edges = 2,
                                 .n_ranks = 3,
                                 .dp = 1,
                                 .is_tied_across = true,
                                 .embed_stage = 0,
                                 .head_stage = 2,
                                 .tied_bytes = BYTES};
    n_ids = 0;
}

static enum cs_status run_rank(void *user, int rank, const int *fds, struct cs_err *err)
{
    struct job *job = user;
    struct cs_device device = {.mem = &fake_device, .handle = &device};
    struct cs_comm *sockets = NULL;
    struct cs_channels *channels = NULL;
    mine = &job->log[rank];
    enum cs_status status = cs_comm_socket_new(rank, cs_plan_world(&job->plan), fds, &sockets, err);
    if (status == CS_OK)
        status = cs_channels_new(&device, &job->plan, rank, sockets, DEADLINE_MS, &channels, err);
    if (status == CS_OK && job->after != NULL)
        status = job->after(job, channels, rank, err);
    cs_channels_free(channels);
    if (sockets != NULL)
        sockets->table->free(sockets);
    return status;
}

static void run(struct job *job)
{
    struct cs_arena *arena = cs_arena_new(0);
    cs_plan_make_groups(&job->plan, arena);
    cs_test_run_ranks(cs_plan_world(&job->plan), run_rank, job);
    cs_arena_free(arena);
}

static int count(const struct log *log, enum cs_device_comm_kind kind)
{
    int n = 0;
    for (int i = 0; i < log->n; i++)
        n += log->comm[i].kind == kind;
    return n;
}

/* NULL: none; the last one that was opened */
static struct fake *wide_of(struct log *log)
{
    struct fake *last = log->n > 0 ? &log->comm[log->n - 1] : NULL;
    return last != NULL && last->kind == CS_DEVICE_COMM_BULK ? last : NULL;
}

/* Both must open and close what they share one after the other, or they wait for each other. */
static void assert_same_order(const struct log *a, const struct log *b)
{
    int at = -1;
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++)
            if (a->comm[i].id == b->comm[k].id) {
                assert_true(k > at);
                assert_int_equal(a->comm[i].kind, b->comm[k].kind);
                assert_int_equal(a->comm[i].end, 1 - b->comm[k].end);
                at = k;
            }
}

static void assert_closed_as_opened(const struct log *log)
{
    for (int i = 0; i < log->n; i++) {
        assert_int_equal(log->comm[i].closed_at, i + 1);
        assert_false(log->comm[i].is_aborted);
    }
}

/* ---- tests ---- */

static void the_ranks_of_a_tied_table_have_one_wide_way(void **state)
{
    static const int channels[3] = {2, 4, 2}; /* none between the first and the last */
    struct job job;
    (void)state;
    job_init(&job);
    run(&job);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(count(&job.log[r], CS_DEVICE_COMM_COPY_LANE), channels[r]);
        assert_int_equal(count(&job.log[r], CS_DEVICE_COMM_BULK), r == 1 ? 0 : 1);
        assert_closed_as_opened(&job.log[r]);
        for (int k = 0; k < r; k++)
            assert_same_order(&job.log[k], &job.log[r]);
    }
    const struct fake *a = wide_of(&job.log[0]), *b = wide_of(&job.log[2]);
    assert_true(a != NULL && b != NULL);
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->n, 2);
}

static void it_comes_after_the_channels_between_the_same_ranks(void **state)
{
    struct job job;
    (void)state;
    job_init(&job);
    job.plan.n_ranks = 2;
    job.stage[2].rank = 1;
    run(&job);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(job.log[r].n, 3);
        assert_true(wide_of(&job.log[r]) != NULL);
        assert_closed_as_opened(&job.log[r]);
    }
    assert_same_order(&job.log[0], &job.log[1]);
}

static void every_replica_has_its_own(void **state)
{
    struct job job;
    (void)state;
    job_init(&job);
    job.plan.dp = 2;
    run(&job);
    for (int k = 0; k < 2; k++) {
        struct log *log = &job.log[3 * k];
        assert_true(wide_of(&log[0]) != NULL && wide_of(&log[2]) != NULL);
        assert_int_equal(wide_of(&log[0])->id, wide_of(&log[2])->id);
    }
    assert_int_not_equal(wide_of(&job.log[0])->id, wide_of(&job.log[3])->id);
}

static void nothing_to_exchange_opens_none(void **state)
{
    enum { NOT_TIED, FROZEN, ONE_RANK, N };

    (void)state;
    for (int how = 0; how < N; how++) {
        struct job job;
        job_init(&job);
        job.plan.is_tied_across = how != NOT_TIED;
        if (how == FROZEN)
            job.plan.tied_bytes = 0;
        if (how == ONE_RANK)
            job.stage[2].rank = 0;
        run(&job);
        for (int r = 0; r < 3; r++)
            assert_int_equal(count(&job.log[r], CS_DEVICE_COMM_BULK), 0);
    }
}

static enum cs_status exchange(struct job *job, struct cs_channels *channels, int rank,
                               struct cs_err *err)
{
    char own[BYTES], theirs[BYTES] = {0};
    memset(own, 1 + rank, sizeof own);
    if (rank == 1)
        return cs_channels_exchange(channels, 0, own, theirs, BYTES, own, NULL) == CS_INTERNAL
                   ? CS_OK
                   : cs_fail(err, CS_INTERNAL, "rank 1 has no end of the table");
    CS_TRY(cs_channels_exchange(channels, 2 - rank, own, theirs, BYTES, &job->log[rank], err));
    return memcmp(own, theirs, BYTES) == 0 ? CS_OK : cs_fail(err, CS_INTERNAL, "not what was sent");
}

static void an_exchange_takes_it_on_the_callers_stream(void **state)
{
    struct job job;
    (void)state;
    job_init(&job);
    job.after = exchange;
    run(&job);
    for (int r = 0; r < 3; r++) {
        const struct fake *wide = wide_of(&job.log[r]);
        for (int i = 0; i < job.log[r].n; i++)
            assert_int_equal(job.log[r].comm[i].n_exchanges, &job.log[r].comm[i] == wide ? 1 : 0);
        if (wide == NULL)
            continue;
        assert_ptr_equal(wide->stream, &job.log[r]);
        assert_int_equal(wide->peer_end, 1 - wide->end);
    }
}

static enum cs_status break_wide(struct job *job, struct cs_channels *channels, int rank,
                                 struct cs_err *err)
{
    struct fake *wide = wide_of(&job->log[rank]);
    struct cs_err why = {0};
    CS_TRY(cs_channels_check(channels, err));
    if (wide == NULL)
        return CS_OK;
    wide->broken = CS_NO_SPACE; /* is not told as a peer that is gone */
    if (cs_channels_check(channels, &why) != CS_NO_SPACE)
        return cs_fail(err, CS_INTERNAL, "what a host lacks goes unnoticed");
    wide->broken = CS_PEER_GONE;
    if (cs_channels_check(channels, &why) != CS_PEER_GONE)
        return cs_fail(err, CS_INTERNAL, "a broken way goes unnoticed");
    return strstr(why.text, rank == 0 ? "with rank 2" : "with rank 0") != NULL
               ? CS_OK
               : cs_fail(err, CS_INTERNAL, "not the peer's rank: %s", why.text);
}

static void one_that_fails_is_noticed_and_aborted(void **state)
{
    struct job job;
    (void)state;
    job_init(&job);
    job.after = break_wide;
    run(&job);
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < job.log[r].n; i++) { /* with a broken one nobody is waited for */
            const bool is_broken = wide_of(&job.log[r]) != NULL;
            assert_int_equal(job.log[r].comm[i].is_aborted, is_broken);
            assert_int_equal(job.log[r].comm[i].closed_at != 0, !is_broken);
        }
}

static enum cs_status abort_all(struct job *job, struct cs_channels *channels, int rank,
                                struct cs_err *err)
{
    (void)job;
    (void)rank;
    (void)err;
    cs_channels_abort(channels);
    return CS_OK;
}

static void an_abort_ends_it_too(void **state)
{
    struct job job;
    (void)state;
    job_init(&job);
    job.after = abort_all;
    run(&job);
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < job.log[r].n; i++) {
            assert_true(job.log[r].comm[i].is_aborted);
            assert_int_equal(job.log[r].comm[i].closed_at, 0);
        }
    assert_true(wide_of(&job.log[0]) != NULL && wide_of(&job.log[2]) != NULL);
}

/* ---- ranks that come late ---- */

/* of three, the last to come: a first rank that tells its id to who is there would begin without it */
enum { GROUP = 3, LATE = 2 };

static _Atomic bool is_late_here;
static _Atomic int n_opened;

static enum cs_status open_of_group(const char id[CS_DEVICE_COMM_ID], int rank, int n,
                                    enum cs_device_comm_kind kind, void **comm, struct cs_err *err)
{
    if (!is_late_here)
        return cs_fail(err, CS_INTERNAL, "rank %d opened a communicator without rank %d", rank,
                       LATE);
    n_opened++;
    return fake_open(id, rank, n, kind, comm, err);
}

static enum cs_status run_late(void *user, int rank, const int *fds, struct cs_err *err)
{
    static const int32_t ranks[GROUP] = {0, 1, LATE};
    const struct cs_device_comm_ops ops = {.new_id = fake_id, .open = open_of_group};
    const struct cs_device_ops mem = {.comm = &ops};
    struct cs_device device = {.mem = &mem};
    struct cs_comm *sockets = NULL;
    struct log *logs = user;
    void *comm = NULL;
    mine = &logs[rank];
    CS_TRY(cs_comm_socket_new(rank, GROUP, fds, &sockets, err));
    if (rank == LATE) {
        usleep(100000);
        is_late_here = true;
    }
    const enum cs_status status = cs_comm_group_open(
        &device, ranks, GROUP, rank, CS_DEVICE_COMM_GROUP, sockets, DEADLINE_MS, &comm, err);
    sockets->table->free(sockets);
    return status;
}

/* Devices wait for each other within a time, which begins when all ranks are there. */
static void nobody_opens_before_all_have_met(void **state)
{
    struct log logs[GROUP] = {0};
    (void)state;
    n_ids = 0;
    cs_test_run_ranks(GROUP, run_late, logs);
    assert_int_equal(n_opened, GROUP);
    for (int r = 0; r < GROUP; r++) {
        assert_int_equal(logs[r].comm[0].id, 1);
        assert_int_equal(logs[r].comm[0].end, r);
        assert_int_equal(logs[r].comm[0].n, GROUP);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ranks_of_a_tied_table_have_one_wide_way),
        cmocka_unit_test(it_comes_after_the_channels_between_the_same_ranks),
        cmocka_unit_test(every_replica_has_its_own),
        cmocka_unit_test(nothing_to_exchange_opens_none),
        cmocka_unit_test(an_exchange_takes_it_on_the_callers_stream),
        cmocka_unit_test(one_that_fails_is_noticed_and_aborted),
        cmocka_unit_test(an_abort_ends_it_too),
        cmocka_unit_test(nobody_opens_before_all_have_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
