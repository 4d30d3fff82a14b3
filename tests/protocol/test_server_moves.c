/* What a daemon finds when directories of jobs and sockets are elsewhere or gone, and what it says of orders that end it; with
 * tests/support/fake_runner.c as the runner. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/wire/wire.h"
#include "net/owner.h"
#include "tests/support/restarts.h"
#include "tests/support/tmpdir.h"

static struct test_node n;

static int start(void **state)
{
    (void)state;
    test_node_begin(&n);
    return 0;
}

static int end(void **state)
{
    (void)state;
    test_node_end(&n);
    return 0;
}

/* --- directories of jobs ---------------------------------------------------------------------- */

static void remove_job(int64_t job)
{
    char command[400];
    snprintf(command, sizeof command, "rm -r %s/%lld", test_node_state(&n, "jobs"), (long long)job);
    assert_int_equal(system(command), 0);
}

static void expect_no_directory(int64_t job)
{
    char name[32];
    snprintf(name, sizeof name, "%lld", (long long)job);
    assert_false(tmpdir_has(test_node_state(&n, "jobs"), name));
}

static void a_job_whose_directory_is_removed_says_so(void **state)
{
    (void)state;
    struct test_four j = test_submit_four(&n);
    remove_job(j.done);
    remove_job(j.waits);
    test_let(&n.d, j.runs, 40);
    test_expect_state(n.c, j.runs, "DONE", "");
    test_expect_state(n.c, j.done, "DONE", "is gone");
    test_expect_state(n.c, j.waits, "FAILED", "");
    test_expect_error(test_ask(n.c, "job.resume", j.waits), "not_found");
    expect_no_directory(j.waits); /* asking makes none */
    test_node_stop(&n, SIGKILL);
    test_node_start(&n);
    test_expect_state(n.c, j.done, "DONE", "is gone");
    assert_int_equal(test_rows(n.c, j.done), 12); /* the index has them still */
}

static void a_state_directory_may_move(void **state)
{
    (void)state;
    struct test_four j = test_submit_four(&n);
    test_let(&n.d, j.runs, 40);
    test_expect_state(n.c, j.waits, "DONE", "");
    test_node_stop(&n, SIGTERM);
    char old[300], command[700];
    snprintf(old, sizeof old, "%s", n.d.dir);
    snprintf(command, sizeof command, "mv %s '%s b'", old, old);
    assert_int_equal(system(command), 0);
    snprintf(n.d.dir = realloc(n.d.dir, strlen(old) + 3), strlen(old) + 3, "%s b", old);
    test_node_start(&n);
    json_t *o = test_wait_state(n.c, j.done, "DONE");
    assert_int_equal(strncmp(cs_msg_str(o, "dir", ""), n.d.dir, strlen(n.d.dir)), 0);
    assert_int_equal(test_rows(n.c, j.done), 12);
    json_decref(o);
    int64_t next = test_submit(n.c, "ms=0", 3, 2);
    test_expect_state(n.c, next, "DONE", "");
}

static void fewer_devices_hold_up_nobody_else(void **state)
{
    (void)state;
    struct test_four j = test_submit_four(&n);
    test_node_stop(&n, SIGKILL);
    n.d.options[1] = "2";
    test_node_start(&n);
    test_expect_state(n.c, j.waits, "QUEUED", "");
    test_let(&n.d, j.runs, 40);
    test_expect_state(n.c, j.runs, "DONE", "");
    int64_t next = test_submit(n.c, "ms=0", 3, 2);
    test_expect_state(n.c, next, "DONE", "");
    test_expect_state(n.c, j.waits, "QUEUED", "needs 3 CPU devices, this node offers 2");
}

/* --- sockets ---------------------------------------------------------------------------------- */

/* until somebody answers there; the limit is the test program's */
static void expect_back(void)
{
    test_client_close(n.c);
    for (int i = 0; i < 4000 && !test_daemon_answers(&n.d); i++)
        usleep(5000);
    n.c = test_client_open(&n.d);
    json_decref(test_client_call(n.c, "ping", NULL));
}

static void a_removed_socket_of_the_daemon_comes_back(void **state)
{
    (void)state;
    char command[400];
    int64_t job = test_submit(n.c, "ms=1,gate=20", 40, 2);
    test_wait_steps(&n.d, job, 20);
    assert_int_equal(unlink(n.d.socket), 0);
    kill(n.d.pid, SIGUSR1);
    expect_back();
    snprintf(command, sizeof command, "rm -r %s/run", n.d.dir);
    assert_int_equal(system(command), 0);
    expect_back();
    assert_true(tmpdir_has(tmpdir_path(n.d.dir, "run"), "daemon.lock"));
    /* nobody else may have what was claimed anew */
    snprintf(command, sizeof command,
             "%s/cornstarchd --state-dir %s/other --runtime-dir %s/run 2>&1 | grep -q 'another "
             "cornstarchd owns .*process %d'",
             getenv("CORNSTARCH_BIN"), n.d.dir, n.d.dir, (int)n.d.pid);
    assert_int_equal(system(command), 0);
    assert_int_equal(unlink(test_node_state(&n, "daemon.lock")), 0);
    for (int i = 0; i < 4000 && !tmpdir_has(test_node_state(&n, ""), "daemon.lock"); i++)
        usleep(5000);
    snprintf(command, sizeof command,
             "%s/cornstarchd --state-dir %s/state --runtime-dir %s/run2 2>&1 | grep -q 'another "
             "cornstarchd owns'",
             getenv("CORNSTARCH_BIN"), n.d.dir, n.d.dir);
    assert_int_equal(system(command), 0);
    test_let(&n.d, job, 40);
    test_expect_state(n.c, job, "DONE", "");
}

static void a_running_job_is_found_from_another_runtime_directory(void **state)
{
    (void)state;
    int64_t job = test_submit(n.c, "ms=1,gate=20", 40, 2);
    test_wait_steps(&n.d, job, 20);
    test_node_stop(&n, SIGKILL);
    n.d.run = "elsewhere";
    test_node_start(&n);
    test_expect_state(n.c, job, "RUN", "");
    json_t *reply = test_ask(n.c, "job.checkpoint", job); /* it takes orders, so it is connected */
    for (int i = 0; i < 4000 && strcmp(cs_msg_type(reply), "error") == 0; i++) {
        usleep(5000);
        json_decref(reply);
        reply = test_ask(n.c, "job.checkpoint", job);
    }
    assert_string_equal(cs_msg_type(reply), "job.checkpoint");
    json_decref(reply);
    test_let(&n.d, job, 40);
    test_expect_state(n.c, job, "DONE", "");
}

static void a_lock_says_who_holds_it_and_where(void **state)
{
    (void)state;
    struct cs_owner owner;
    assert_true(cs_owner_find(test_node_state(&n, ""), &owner));
    assert_int_equal(owner.pid, n.d.pid);
    assert_string_equal(owner.socket, n.d.socket);
    test_node_stop(&n, SIGKILL);
    assert_false(cs_owner_find(test_node_state(&n, ""), &owner)); /* whatever its file still says */
    tmpdir_write(test_node_state(&n, "daemon.lock"), "{\"pid\":1,\"socket\":\"/nowhere\"}", 29);
    assert_false(cs_owner_find(test_node_state(&n, ""), &owner));
    test_node_start(&n);
    assert_true(cs_owner_find(test_node_state(&n, ""), &owner));
    assert_int_equal(owner.pid, n.d.pid);
}

/* --- orders ----------------------------------------------------------------------------------- */

static void draining_can_be_undone(void **state)
{
    (void)state;
    int64_t job = test_submit(n.c, "ms=10,late=300,gate=20", 1000, 2);
    json_decref(test_client_call(n.c, "daemon.drain", NULL));
    json_t *reply = test_client_call(n.c, "daemon.drain", json_pack("{s:b}", "off", 1));
    assert_string_equal(cs_msg_type(reply), "daemon.drain");
    json_decref(reply);
    json_t *node = test_client_call(n.c, "node.show", NULL);
    assert_false(cs_msg_bool(node, "draining", true));
    json_decref(node);
    int64_t next = test_submit(n.c, "ms=0", 3, 2);
    test_expect_state(n.c, next, "DONE", "");
    json_decref(test_ask(n.c, "job.stop", job));
    test_expect_state(n.c, job, "CANCELLED", "");
}

static void who_listens_is_told_that_the_end_was_asked_for(void **state)
{
    (void)state;
    struct test_client *other = test_client_open(&n.d);
    json_decref(test_client_call(n.c, "daemon.stop", NULL));
    json_t *m = test_client_next(other);
    assert_non_null(m);
    assert_string_equal(cs_msg_type(m), "daemon.end");
    json_decref(m);
    test_client_close(other);
    test_client_close(n.c);
    n.c = NULL;
    assert_int_equal(test_daemon_wait(&n.d), 0);
    test_node_start(&n);
}

static void one_number_of_cpu_devices(void **state)
{
    (void)state;
    test_node_stop(&n, SIGTERM);
    n.d.options[1] = "12";
    test_node_start(&n);
    json_t *node = test_client_call(n.c, "node.show", NULL);
    assert_string_equal(cs_msg_str(node, "here", ""), "cpu:12");
    json_decref(node);
    int64_t job = test_submit(n.c, "ms=0", 3, 9);
    test_expect_state(n.c, job, "DONE", "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_whose_directory_is_removed_says_so),
        TEST(a_state_directory_may_move),
        TEST(fewer_devices_hold_up_nobody_else),
        TEST(a_removed_socket_of_the_daemon_comes_back),
        TEST(a_running_job_is_found_from_another_runtime_directory),
        TEST(a_lock_says_who_holds_it_and_where),
        TEST(draining_can_be_undone),
        TEST(who_listens_is_told_that_the_end_was_asked_for),
        TEST(one_number_of_cpu_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
