/* Communicators of GPUs whose other ranks do not come, stand still or are gone: whoever waits for them gives up in time,
 * and nothing that a thread still uses is freed. The plugin's own code over a library that is pretended
 * (support/nccl/fake.h); 60 s are 2 here. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/nccl/fake.h"

#ifdef __SANITIZE_ADDRESS__
/* what a thread uses that is left behind stays till the process ends */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:open_comm\n";
}
#endif

enum { RANKS = 2 };

struct rank {
    pthread_t thread;
    char id[CS_DEVICE_COMM_ID];
    enum cs_device_comm_kind kind;
    int rank;
    void *comm;
    enum cs_status status;
    struct cs_err err;
};

static void *open_rank(void *arg)
{
    struct rank *r = arg;
    r->status = cs_cuda_comm_ops.open(r->id, r->rank, RANKS, r->kind, &r->comm, &r->err);
    return NULL;
}

static void *close_rank(void *arg)
{
    const struct rank *r = arg;
    cs_cuda_comm_ops.close(r->comm);
    return NULL;
}

/* the first n of two ranks */
static void run(struct rank *rank, int n, void *(*what)(void *))
{
    for (int r = 0; r < n; r++)
        assert_int_equal(pthread_create(&rank[r].thread, NULL, what, &rank[r]), 0);
    for (int r = 0; r < n; r++)
        pthread_join(rank[r].thread, NULL);
}

static void begin(struct rank rank[RANKS], enum cs_device_comm_kind kind)
{
    memset(rank, 0, RANKS * sizeof *rank);
    assert_int_equal(cs_cuda_comm_ops.new_id(rank[0].id, NULL), CS_OK);
    for (int r = 0; r < RANKS; r++) {
        memcpy(rank[r].id, rank[0].id, sizeof rank[r].id);
        rank[r].kind = kind;
        rank[r].rank = r;
    }
}

static int reset(void **state)
{
    (void)state;
    fake_nccl_release();
    fake_nccl_reset();
    return 0;
}

static void ranks_that_come_open_and_close(void **state)
{
    (void)state;
    for (int kind = 0; kind <= CS_DEVICE_COMM_TOTALS; kind++) {
        struct rank rank[RANKS];
        begin(rank, (enum cs_device_comm_kind)kind);
        run(rank, RANKS, open_rank);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(rank[r].status, CS_OK);
            assert_non_null(rank[r].comm);
        }
        run(rank, RANKS, close_rank);
        assert_int_equal(fake_nccl_destroyed(), RANKS * (kind + 1));
    }
    assert_int_equal(fake_nccl_aborted(), 0);
}

/* Its thread is in the library with the communicator, which nobody may end then. */
static void who_waits_for_a_rank_that_never_comes_leaves_it_behind(void **state)
{
    struct rank rank[RANKS];
    (void)state;
    begin(rank, CS_DEVICE_COMM_LANE);
    run(rank, 1, open_rank);
    assert_int_equal(rank[0].status, CS_TIMEOUT);
    assert_non_null(strstr(rank[0].err.text, "opening a communicator: other ranks did not come"));
    assert_null(rank[0].comm);
    assert_int_equal(fake_nccl_aborted(), 0);
    fake_nccl_release(); /* the thread goes on and ends */
    assert_int_equal(fake_nccl_aborted(), 0);
}

static void *release(void *arg)
{
    (void)arg;
    fake_nccl_release();
    return NULL;
}

static void a_peer_that_is_gone_is_told_by_the_library(void **state)
{
    struct rank rank[RANKS];
    pthread_t other;
    (void)state;
    begin(rank, CS_DEVICE_COMM_GROUP);
    assert_int_equal(pthread_create(&other, NULL, release, NULL), 0);
    run(rank, 1, open_rank);
    pthread_join(other, NULL);
    assert_int_equal(rank[0].status, CS_PEER_GONE);
    assert_non_null(strstr(rank[0].err.text, "remote process exited; a socket was closed"));
    assert_null(rank[0].comm);
    assert_int_equal(fake_nccl_aborted(), 1);
}

/* what the host lacks is no peer that is gone: it is told, with what to do */
static void what_the_host_lacks_is_told_with_advice(void **state)
{
    enum { CUDA = 1, SYSTEM = 2, INTERNAL = 3 }; /* NCCL's codes */

    static const struct {
        int code;
        const char *said;
        enum cs_status status;
        const char *advice;
    } cases[] = {
        {SYSTEM,
         "Error while creating shared memory segment /dev/shm/nccl-Ab (size 9), error: No space "
         "left on device (28)",                                                       CS_NO_SPACE,  "make /dev/shm larger"},
        {SYSTEM,   "Call to open failed: Too many open files",                        CS_LIMIT,     "ulimit -n"           },
        {SYSTEM,   "Call to pthread_create failed: Resource temporarily unavailable", CS_LIMIT,
         "ulimit -u"                                                                                                      },
        {SYSTEM,   "Failed to malloc 4096 bytes",                                     CS_NO_MEMORY, "host's memory"       },
        {CUDA,     "Cuda failure 2 'out of memory'",                                  CS_NO_MEMORY, "GPU's memory"        },
        {SYSTEM,   "Call to connect failed: Connection refused",                      CS_PEER_GONE, ""                    },
        {SYSTEM,   "NET/Socket : No usable listening interface found",                CS_IO,        ""                    },
        {CUDA,     "Cuda failure 700 'an illegal memory access was encountered'",     CS_INTERNAL,  ""                    },
        {INTERNAL, "out of memory",                                                   CS_INTERNAL,  ""                    },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rank rank[RANKS];
        begin(rank, CS_DEVICE_COMM_GROUP);
        fake_nccl_fail(cases[i].code, cases[i].said);
        run(rank, 1, open_rank);
        assert_int_equal(rank[0].status, cases[i].status);
        assert_int_equal(rank[0].err.status, cases[i].status);
        assert_non_null(strstr(rank[0].err.text, cases[i].said));
        assert_non_null(strstr(rank[0].err.text, cases[i].advice));
    }
}

static void what_goes_wrong_beside_calls_is_told_as_what_it_is(void **state)
{
    struct rank rank[RANKS];
    struct cs_err err = {0};
    (void)state;
    begin(rank, CS_DEVICE_COMM_GROUP);
    run(rank, RANKS, open_rank);
    assert_int_equal(cs_cuda_comm_ops.check(rank[0].comm, &err), CS_OK);
    fake_nccl_fail(2, "Failed to malloc 8 bytes");
    assert_int_equal(cs_cuda_comm_ops.check(rank[0].comm, &err), CS_NO_MEMORY);
    fake_nccl_fail(6, "socketProgress: Connection closed by remote peer");
    assert_int_equal(cs_cuda_comm_ops.check(rank[0].comm, &err), CS_PEER_GONE);
    fake_nccl_fail(0, "");
    run(rank, RANKS, close_rank);
}

static void
a_peer_that_stands_still_before_the_first_message_is_waited_for_within_a_time(void **state)
{
    struct rank rank[RANKS];
    (void)state;
    begin(rank, CS_DEVICE_COMM_TOTALS);
    fake_nccl_stop(FAKE_MESSAGE);
    run(rank, RANKS, open_rank);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(rank[r].status, CS_PEER_GONE);
        assert_non_null(
            strstr(rank[r].err.text, "the first message: other ranks did not take part"));
        assert_null(rank[r].comm);
    }
    assert_int_equal(fake_nccl_aborted(), RANKS);
}

static void a_peer_that_does_not_close_is_waited_for_within_a_time(void **state)
{
    struct rank rank[RANKS];
    (void)state;
    begin(rank, CS_DEVICE_COMM_BULK);
    run(rank, RANKS, open_rank);
    assert_int_equal(rank[0].status, CS_OK);
    assert_int_equal(rank[1].status, CS_OK);
    fake_nccl_stop(FAKE_CLOSE);
    run(rank, RANKS, close_rank); /* ends */
    assert_int_equal(fake_nccl_destroyed(), 0);
    assert_int_equal(fake_nccl_aborted(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(ranks_that_come_open_and_close, reset),
        cmocka_unit_test_teardown(who_waits_for_a_rank_that_never_comes_leaves_it_behind, reset),
        cmocka_unit_test_teardown(a_peer_that_is_gone_is_told_by_the_library, reset),
        cmocka_unit_test_teardown(what_the_host_lacks_is_told_with_advice, reset),
        cmocka_unit_test_teardown(what_goes_wrong_beside_calls_is_told_as_what_it_is, reset),
        cmocka_unit_test_teardown(
            a_peer_that_stands_still_before_the_first_message_is_waited_for_within_a_time, reset),
        cmocka_unit_test_teardown(a_peer_that_does_not_close_is_waited_for_within_a_time, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
