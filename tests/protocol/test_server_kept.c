/* What a daemon keeps over restarts and on a full disk: alarms, rows, what it notes; with
 * tests/support/fake_runner.c as the runner. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/wire/wire.h"
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

/* --- alarms ----------------------------------------------------------------------------------- */

static void expect_alarm_of(const json_t *job)
{
    const json_t *alarms = cs_msg_arr(job, "alarms"), *alarm = json_array_get(alarms, 0);
    assert_int_equal(json_array_size(alarms), 1);
    assert_string_equal(cs_msg_str(alarm, "rule", ""), "loss_odd");
    assert_string_equal(cs_msg_str(alarm, "level", ""), "warn");
    assert_string_equal(cs_msg_str(alarm, "text", ""), "the loss is odd in 3 steps");
    assert_int_equal(cs_msg_int(alarm, "count", 0), 3);
    assert_int_equal(cs_msg_int(alarm, "step", -1), 2);
}

static void expect_alarm(int64_t job)
{
    json_t *show = test_ask(n.c, "job.show", job), *list = test_client_call(n.c, "jobs.list", NULL);
    const json_t *jobs = cs_msg_arr(list, "jobs");
    size_t seen = 0;
    expect_alarm_of(cs_msg_obj(show, "job"));
    for (size_t i = 0; i < json_array_size(jobs); i++)
        if (cs_msg_int(json_array_get(jobs, i), "id", 0) == job) {
            expect_alarm_of(json_array_get(jobs, i));
            seen++;
        }
    assert_int_equal(seen, 1);
    json_decref(show);
    json_decref(list);
}

static void restart_and_expect_alarm(int64_t job, const char *state, void (*meanwhile)(void))
{
    test_node_stop(&n, SIGKILL);
    meanwhile();
    test_node_start(&n);
    test_expect_state(n.c, job, state, "");
    expect_alarm(job);
}

static void nothing(void)
{
}

static void remove_history(void)
{
    test_node_remove_history(&n);
}

static void remove_history_and_states(void)
{
    char command[400];
    test_node_remove_history(&n);
    snprintf(command, sizeof command, "rm %s/*/state.json", test_node_state(&n, "jobs"));
    assert_int_equal(system(command), 0);
}

static void alarms_of_a_job_stay_whoever_tells_them(void **state)
{
    (void)state;
    int64_t job = test_submit(n.c, "ms=1,alarm=3,gate=20", 40, 2);
    test_wait_steps(&n.d, job, 20);
    test_wait_rows(n.c, job, 20);
    expect_alarm(job); /* from the running one */
    restart_and_expect_alarm(job, "RUN", nothing);
    test_let(&n.d, job, 40);
    test_expect_state(n.c, job, "DONE", "");
    expect_alarm(job);
    restart_and_expect_alarm(job, "DONE", nothing);                   /* from its state file */
    restart_and_expect_alarm(job, "DONE", remove_history);            /* from both */
    restart_and_expect_alarm(job, "DONE", remove_history_and_states); /* from its journal */
    int64_t killed = test_submit(n.c, "ms=1,alarm=3,kill=5", 9, 2);
    test_expect_state(n.c, killed, "LOST", "");
    restart_and_expect_alarm(killed, "LOST", nothing);
}

/* --- a full disk ------------------------------------------------------------------------------ */

/* No file of the daemon grows, as on a full disk; its runners are not concerned. */
static void set_disk_full(bool is_full)
{
    const struct rlimit limit = {is_full ? 0 : RLIM_INFINITY, RLIM_INFINITY};
    assert_int_equal(prlimit(n.d.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void expect_behind(void)
{
    test_expect_warning(n.c,
                        "the history is behind the directories of 1 job and follows when it can be "
                        "written again");
}

static void expect_caught_up(int64_t job, int64_t rows)
{
    json_t *node = test_client_call(n.c, "node.show", NULL);
    for (int i = 0; i < 4000 && strstr(cs_msg_str(node, "warning", ""), "behind"); i++) {
        usleep(5000);
        json_decref(node);
        node = test_client_call(n.c, "node.show", NULL);
    }
    assert_string_equal(cs_msg_str(node, "warning", ""), ""); /* nobody has asked for the rows */
    assert_int_equal(test_rows(n.c, job), rows);
    json_decref(node);
}

static void rows_of_a_full_disk_come_when_there_is_room(void **state)
{
    (void)state;
    int64_t job = test_submit(n.c, "ms=1,gate=20,alarm=3", 60, 2);
    test_wait_steps(&n.d, job, 20);
    test_wait_rows(n.c, job, 20);
    set_disk_full(true);
    test_let(&n.d, job, 40);
    test_wait_steps(&n.d, job, 40);
    for (int i = 0; i < 3; i++)
        json_decref(
            test_ask(n.c, "job.show", job)); /* it answers, and refuses nothing that can be done */
    test_let(&n.d, job, 60);
    test_expect_state(n.c, job, "DONE", "");
    assert_int_equal(test_rows(n.c, job), 20);
    expect_behind();
    set_disk_full(false);
    expect_caught_up(job, 60);
    assert_int_equal(test_count_events(n.c, job, "DONE"), 1);
    assert_int_equal(test_count_events(n.c, job, "the loss is odd"), 3);
    test_node_stop(&n, SIGKILL);
    test_node_start(&n);
    test_expect_state(n.c, job, "DONE", "");
    assert_int_equal(test_rows(n.c, job), 60);
    expect_alarm(job);
}

static void what_the_daemon_notes_on_a_full_disk_is_kept(void **state)
{
    (void)state;
    int64_t job = test_submit(n.c, "ms=1,gate=20,kill=30", 60, 2);
    test_wait_steps(&n.d, job, 20);
    test_wait_rows(n.c, job, 20);
    set_disk_full(true);
    test_let(&n.d, job, 60);
    test_expect_state(n.c, job, "LOST", "ended by signal 9");
    assert_int_equal(test_count_events(n.c, job, "ended by signal 9"), 0);
    expect_behind();
    set_disk_full(false);
    expect_caught_up(job, 30);
    assert_int_equal(test_count_events(n.c, job, "ended by signal 9"), 1);
    test_node_stop(&n, SIGKILL);
    test_node_remove_history(&n); /* the note is in the directory too */
    test_node_start(&n);
    test_expect_state(n.c, job, "LOST", "ended by signal 9");
    assert_int_equal(test_rows(n.c, job), 30);
    assert_int_equal(test_count_events(n.c, job, "ended by signal 9"), 1);
}

static void a_daemon_that_ends_on_a_full_disk_loses_nothing(void **state)
{
    (void)state;
    int64_t job = test_submit(n.c, "ms=1,gate=20", 60, 2);
    test_wait_steps(&n.d, job, 20);
    test_wait_rows(n.c, job, 20);
    set_disk_full(true);
    test_let(&n.d, job, 60);
    test_expect_state(n.c, job, "DONE", "");
    test_node_stop(&n, SIGTERM);
    test_node_start(&n);
    test_expect_state(n.c, job, "DONE", "");
    assert_int_equal(test_rows(n.c, job), 60);
    assert_int_equal(test_count_events(n.c, job, "DONE"), 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, end)

/* --- labels, lists and removal ---------------------------------------------------------------- */

static json_t *label(int64_t job, const char *fields)
{
    json_t *request = json_loads(fields, 0, NULL);
    json_object_set_new(request, "job", json_integer(job));
    return test_client_call(n.c, "job.label", request);
}

static void expect_labels(int64_t job, const char *tags, const char *note)
{
    json_t *reply = test_ask(n.c, "job.show", job), *o = cs_msg_obj(reply, "job");
    json_t *want = json_loads(tags, 0, NULL), *none = json_array();
    const json_t *have = cs_msg_arr(o, "tags") ? cs_msg_arr(o, "tags") : none;
    assert_true(json_equal(have, want));
    assert_string_equal(cs_msg_str(o, "note", ""), note);
    json_decref(none);
    json_decref(want);
    json_decref(reply);
}

static void tags_and_notes_are_kept_and_found(void **state)
{
    (void)state;
    int64_t job = test_submit(n.c, "ms=0,word=Blue", 3, 2), other = test_submit(n.c, "ms=0", 3, 2);
    json_decref(test_ask(n.c, "job.wait", job));
    json_decref(test_ask(n.c, "job.wait", other));
    json_decref(label(job, "{\"add\": [\"b\", \"a\", \"b\"], \"note\": \"first, try\"}"));
    json_decref(label(job, "{\"add\": [\"c=1\"], \"remove\": [\"b\", \"none\"]}"));
    expect_labels(job, "[\"a\", \"c=1\"]", "first, try");
    test_expect_error(label(job, "{\"add\": [\"no tag\"]}"), "invalid");
    test_expect_error(label(job, "{\"add\": [\"x,y\"]}"), "invalid");
    expect_labels(job, "[\"a\", \"c=1\"]", "first, try");
    test_node_stop(&n, SIGTERM);
    test_node_start(&n);
    expect_labels(job, "[\"a\", \"c=1\"]", "first, try");

    static const struct {
        const char *request;
        bool has_job, has_other;
    } rows[] = {
        {"{\"tags\": [\"c=1\"]}",                                  true,  false},
        {"{\"tags\": [\"c=1\", \"a\"]}",                           true,  false},
        {"{\"tags\": [\"c\"]}",                                    false, false},
        {"{\"states\": [\"DONE\", \"RUN\"]}",                      true,  true },
        {"{\"states\": [\"FAILED\"]}",                             false, false},
        {"{\"name\": \"BLUE\"}",                                   true,  false},
        {"{\"owner\": \"nobody at all\"}",                         false, false},
        {"{\"states\": [\"DONE\"], \"tags\": [], \"name\": \"\"}", true,  true },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        json_t *reply = test_client_call(n.c, "jobs.list", json_loads(rows[i].request, 0, NULL));
        bool has_job = false, has_other = false;
        json_t *o;
        size_t k;
        json_array_foreach(cs_msg_arr(reply, "jobs"), k, o)
        {
            has_job = has_job || cs_msg_int(o, "id", 0) == job;
            has_other = has_other || cs_msg_int(o, "id", 0) == other;
        }
        json_decref(reply);
        if (has_job != rows[i].has_job || has_other != rows[i].has_other)
            fail_msg("%s", rows[i].request);
    }
}

/* its last runner may still be ending */
static void remove_job(int64_t job)
{
    for (int tries = 0; tries < 6000; tries++) {
        json_t *reply = test_ask(n.c, "job.remove", job);
        const bool is_done = strcmp(cs_msg_type(reply), "job.remove") == 0;
        if (!is_done && !strstr(cs_msg_str(cs_msg_obj(reply, "error"), "text", ""), "still ends"))
            fail_msg("%s", json_dumps(reply, 0));
        json_decref(reply);
        if (is_done)
            return;
        usleep(10000);
    }
    fail_msg("job %lld is never removed", (long long)job);
}

static void a_removed_job_is_gone_and_its_number_stays_used(void **state)
{
    (void)state;
    int64_t live = test_submit(n.c, "ms=5,gate=1", 100, 2);
    json_decref(test_wait_state(n.c, live, "RUN"));
    test_expect_error(test_ask(n.c, "job.remove", live), "state");
    int64_t job = test_submit(n.c, "ms=0", 3, 2);
    json_decref(test_ask(n.c, "job.wait", job));
    char dir[64];
    snprintf(dir, sizeof dir, "jobs/%lld", (long long)job);
    remove_job(job);
    test_expect_error(test_ask(n.c, "job.show", job), "not_found");
    test_expect_error(test_ask(n.c, "job.remove", job), "not_found");
    assert_int_not_equal(access(test_node_state(&n, dir), F_OK), 0);
    json_decref(test_ask(n.c, "job.stop", live));
    json_decref(test_ask(n.c, "job.wait", live));
    test_node_stop(&n, SIGTERM);
    test_node_start(&n);
    test_expect_error(test_ask(n.c, "job.show", job), "not_found");
    assert_true(test_submit(n.c, "ms=0", 3, 2) > job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(alarms_of_a_job_stay_whoever_tells_them),
        TEST(rows_of_a_full_disk_come_when_there_is_room),
        TEST(what_the_daemon_notes_on_a_full_disk_is_kept),
        TEST(a_daemon_that_ends_on_a_full_disk_loses_nothing),
        TEST(tags_and_notes_are_kept_and_found),
        TEST(a_removed_job_is_gone_and_its_number_stays_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
