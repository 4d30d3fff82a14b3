/* Jobs from submission to end, with tests/support/fake_runner.c as the runner. */
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
#include "tests/support/daemon.h"
#include "tests/support/spec.h"
#include "tests/support/tmpdir.h"

static struct test_daemon daemon_;
static struct test_client *c;

static int start(void **state)
{
    *state = NULL;
    daemon_ = (struct test_daemon){
        .options = {"--cpu-devices", "8"}
    };
    test_daemon_start(&daemon_);
    c = test_client_open(&daemon_);
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (c)
        test_client_close(c);
    test_daemon_end(&daemon_);
    return 0;
}

static void let(int64_t job, int64_t steps)
{
    test_let(&daemon_, job, steps);
}

static void restart(int signal)
{
    test_client_close(c);
    test_daemon_kill(&daemon_, signal);
    test_daemon_start(&daemon_);
    c = test_client_open(&daemon_);
}

static json_t *ask(const char *type, int64_t job)
{
    return test_client_call(c, type, json_pack("{s:I}", "job", (json_int_t)job));
}

static void order(const char *type, int64_t job)
{
    json_t *reply = ask(type, job);
    if (strcmp(cs_msg_type(reply), type) != 0)
        fail_msg("%s", json_dumps(reply, 0));
    json_decref(reply);
}

static void expect_state(int64_t job, const char *state, const char *reason)
{
    json_t *o = test_wait_state(c, job, state);
    if (!strstr(cs_msg_str(o, "reason", ""), reason))
        fail_msg("job %lld is %s because '%s', not '%s'", (long long)job, state,
                 cs_msg_str(o, "reason", ""), reason);
    json_decref(o);
}

/* steps 0 .. n-1, each exactly once, with the loss of that step */
static void expect_rows(int64_t job, int64_t n)
{
    json_t *reply = ask("job.metrics", job), *rows = cs_msg_arr(reply, "rows");
    assert_int_equal(json_array_size(rows), n);
    for (int64_t i = 0; i < n; i++) {
        json_t *row = json_array_get(rows, (size_t)i);
        double loss = json_number_value(json_array_get(row, 2));
        assert_int_equal(json_integer_value(json_array_get(row, 0)), i);
        assert_true(loss > 9.999 / (double)(i + 1) && loss < 10.001 / (double)(i + 1));
    }
    json_decref(reply);
}

static int64_t count_events(int64_t job, const char *text)
{
    json_t *reply = ask("job.events", job), *events = cs_msg_arr(reply, "events");
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(events); i++)
        n += strcmp(json_string_value(json_array_get(json_array_get(events, i), 2)), text) == 0;
    json_decref(reply);
    return n;
}

static void a_job_runs_from_submission_to_its_end(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=5,gate=3", 40, 2);
    expect_state(job, "RUN", "");
    let(job, 40);
    json_t *reply = ask("job.wait", job), *o = cs_msg_obj(reply, "job");
    assert_string_equal(cs_msg_str(o, "state", ""), "DONE");
    assert_int_equal(cs_msg_int(o, "step", -1), 40);
    assert_int_equal(cs_msg_int(o, "steps", -1), 40);
    assert_int_equal(cs_msg_int(o, "exit", -1), 0);
    assert_true(cs_msg_int(o, "ended_ns", 0) >= cs_msg_int(o, "started_ns", 0));
    json_decref(reply);
    json_decref(ask("job.wait", job)); /* of one that has ended: at once */
    expect_rows(job, 40);
    assert_int_equal(count_events(job, "RUN"), 1);
    assert_int_equal(count_events(job, "DONE"), 1);
    reply = ask("job.show", job);
    assert_string_equal(cs_msg_str(cs_msg_obj(reply, "spec"), "name", ""), "ms=5,gate=3");
    json_decref(reply);
    test_expect_error(ask("job.pause", job), "state");
    test_expect_error(ask("job.resume", job), "state");
    test_expect_error(ask("job.stop", job), "state");
    test_expect_error(ask("job.checkpoint", job), "state");
}

static void metrics_are_cut_at_steps_and_go_on(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=0", 25, 2), after = -1, got = 0;
    json_decref(ask("job.wait", job));
    for (int turns = 0; turns < 10; turns++) {
        json_t *reply = test_client_call(c, "job.metrics",
                                         json_pack("{s:I, s:I, s:i}", "job", (json_int_t)job,
                                                   "after_step", (json_int_t)after, "limit", 10));
        got += (int64_t)json_array_size(cs_msg_arr(reply, "rows"));
        after = cs_msg_int(reply, "next", -1);
        json_decref(reply);
        if (after == -1)
            break;
    }
    assert_int_equal(got, 25);
}

static void a_job_pauses_and_resumes_where_it_was(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=5,hold,gate=20", 60, 2);
    expect_state(job, "RUN", "");
    order("job.checkpoint", job);
    order("job.pause", job);
    json_t *o = test_wait_state(c, job, "PAUSED");
    int64_t paused_at = cs_msg_int(o, "step", -1);
    assert_true(paused_at <= 20);
    assert_int_equal(cs_msg_int(o, "checkpoint_step", -2), paused_at - 1);
    json_decref(o);
    let(job, 60);
    order("job.resume", job); /* at once: the first runner may still be ending */
    o = test_wait_state(c, job, "DONE");
    assert_int_equal(cs_msg_int(o, "generation", -1), 1);
    json_decref(o);
    expect_rows(job, 60);
    assert_int_equal(count_events(job, "checkpoint written"), 1);
}

static void a_stop_that_a_pause_overtakes_holds(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=5,hold,gate=20,overtaken", 60, 2);
    expect_state(job, "RUN", "");
    order("job.stop", job);
    order("job.pause", job);
    expect_state(job, "CANCELLED", "stopped on request");
    order("job.resume", job);
    let(job, 60);
    expect_state(job, "DONE", "");
}

static void a_resume_that_the_runner_refuses_leaves_the_job_at_rest(void **state)
{
    (void)state;
    char path[4200];
    int64_t job = test_submit(c, "ms=5,gate=20,unfit", 60, 2);
    expect_state(job, "RUN", "");
    order("job.pause", job);
    json_t *o = test_wait_state(c, job, "PAUSED");
    snprintf(path, sizeof path, "%s/from-start", cs_msg_str(o, "dir", ""));
    json_decref(o);
    json_t *reply = ask("job.resume", job);
    char *text = json_dumps(reply, JSON_COMPACT);
    assert_non_null(strstr(text, "cannot go on: the only checkpoint is damaged"));
    free(text);
    test_expect_error(reply, "refused");
    expect_state(job, "PAUSED", "");
    assert_int_not_equal(access(path, F_OK), 0);
    let(job, 60);
    json_decref(test_client_call(c, "job.resume", /* whatever is there */
                                 json_pack("{s:I, s:b}", "job", (json_int_t)job, "from_start", 1)));
    assert_int_equal(access(path, F_OK), 0);
    expect_state(job, "DONE", "");
}

static void a_stop_holds_against_a_resume_that_is_looked_at(void **state)
{
    (void)state;
    char dir[4096], path[4200], request[100];
    int64_t job = test_submit(c, "ms=5,gate=20,look", 60, 2);
    expect_state(job, "RUN", "");
    order("job.pause", job);
    json_t *o = test_wait_state(c, job, "PAUSED");
    snprintf(dir, sizeof dir, "%s", cs_msg_str(o, "dir", ""));
    json_decref(o);
    struct test_client *other = test_client_open(&daemon_);
    snprintf(request, sizeof request, "{\"type\":\"job.resume\",\"id\":7,\"job\":%lld}",
             (long long)job);
    test_client_text(other, request);
    snprintf(path, sizeof path, "%s/logs/check.err", dir);
    while (access(path, F_OK) != 0) /* the limit is the test program's */
        usleep(1000);
    order("job.stop", job);
    snprintf(path, sizeof path, "%s/look", dir);
    tmpdir_write(path, "", 0);
    test_expect_error(test_client_next(other), "state");
    test_client_close(other);
    test_wait_runner_gone(&daemon_, job);
    expect_state(job, "CANCELLED", "stopped on request");
    let(job, 60);
    order("job.resume", job); /* an order of its own */
    expect_state(job, "DONE", "");
}

static void stop_ends_a_job_at_any_time(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=10,gate=20", 1000, 2);
    expect_state(job, "RUN", "");
    order("job.stop", job);
    expect_state(job, "CANCELLED", "");
    job = test_submit(c, "ms=10,late=300,gate=20", 1000, 2); /* its socket is not there yet */
    order("job.stop", job);
    expect_state(job, "CANCELLED", "");
}

static void who_waits_hears_of_the_end_once_and_a_dead_waiter_harms_nobody(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=10,gate=20", 1000, 2);
    struct test_client *gone = test_client_open(&daemon_), *here = test_client_open(&daemon_);
    char line[100];
    snprintf(line, sizeof(line), "{\"type\":\"job.wait\",\"id\":7,\"job\":%lld}", (long long)job);
    test_client_text(gone, line);
    test_client_text(here, line);
    test_client_text(here, line);
    test_client_close(gone);
    expect_state(job, "RUN", "");
    order("job.stop", job);
    for (int i = 0; i < 2; i++) {
        json_t *m = test_client_next(here);
        assert_string_equal(cs_msg_type(m), "job.wait");
        assert_int_equal(cs_msg_id(m), 7);
        assert_string_equal(cs_msg_str(cs_msg_obj(m, "job"), "state", ""), "CANCELLED");
        json_decref(m);
    }
    json_decref(test_client_call(here, "ping", NULL)); /* nothing more in between */
    test_client_close(here);
}

static void expect_waiting(int64_t job, int64_t place, const char *reason)
{
    json_t *o = test_wait_state(c, job, "QUEUED");
    assert_int_equal(cs_msg_int(o, "place", 0), place);
    if (strncmp(cs_msg_str(o, "reason", ""), reason, strlen(reason)) != 0)
        fail_msg("job %lld waits because '%s', not '%s'", (long long)job,
                 cs_msg_str(o, "reason", ""), reason);
    json_decref(o);
}

static int64_t place_of(int64_t job)
{
    json_t *reply = ask("job.show", job);
    const int64_t place = cs_msg_int(cs_msg_obj(reply, "job"), "place", 0);
    json_decref(reply);
    return place;
}

static void jobs_queue_in_order_while_devices_are_taken(void **state)
{
    (void)state;
    int64_t a = test_submit(c, "ms=10,gate=20", 1000, 6), b = test_submit(c, "ms=1", 3, 4),
            d = test_submit(c, "ms=1", 3, 2);
    expect_state(a, "RUN", "");
    expect_waiting(b, 1, "it needs 4 CPU ranks, 2 of 8 are free");
    char behind[64]; /* d would fit, but nobody overtakes */
    snprintf(behind, sizeof behind, "behind job %lld; it needs 2 CPU ranks", (long long)b);
    expect_waiting(d, 2, behind);
    json_t *node = test_client_call(c, "node.show", NULL), *devices = cs_msg_arr(node, "devices");
    int64_t held = 0;
    for (size_t i = 0; i < json_array_size(devices); i++)
        held +=
            cs_msg_int(json_array_get(devices, i), "job", 0) == a &&
            strcmp(cs_msg_str(json_array_get(devices, i), "job_name", ""), "ms=10,gate=20") == 0 &&
            cs_msg_str(json_array_get(devices, i), "owner", "")[0] != '\0';
    assert_int_equal(json_array_size(devices), 8);
    assert_int_equal(held, 6);
    json_decref(node);
    int64_t e = test_submit(c, "ms=1", 3, 2);
    expect_waiting(e, 3, behind);
    order("job.stop", d);
    expect_waiting(e, 2, behind); /* one place further */
    order("job.stop", e);
    expect_state(e, "CANCELLED", "stopped on request");
    assert_int_equal(place_of(e), 0);
    order("job.stop", a);
    expect_state(b, "DONE", "");
    struct cs_test_spec large = {.vision_pp = 1, .llm_pp = 8, .llm_layers = 8};
    test_expect_error(
        test_client_call(c, "job.submit", json_pack("{s:o}", "spec", cs_test_spec_json(&large))),
        "plan_invalid");
}

static void a_runner_that_is_killed_leaves_a_lost_job_that_resumes(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=2,kill=10", 20, 2);
    expect_state(job, "LOST", "signal 9");
    expect_rows(job, 10);
    order("job.resume", job); /* dies again, at the same step */
    expect_state(job, "LOST", "signal 9");
    expect_rows(job, 10);
    job = test_submit(c, "ms=2,quit=5", 20, 2);
    expect_state(job, "LOST", "without a word; it has no checkpoint: resume begins anew");
    expect_rows(job, 5);
}

static void a_runner_that_refuses_leaves_a_failed_job_with_its_words(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "refuse", 20, 2);
    json_t *reply = ask("job.wait", job), *o = cs_msg_obj(reply, "job");
    assert_string_equal(cs_msg_str(o, "state", ""), "FAILED");
    assert_string_equal(cs_msg_str(o, "reason", ""), "the plan differs from the previewed one");
    assert_int_equal(cs_msg_int(o, "exit", -1), 4);
    json_decref(reply);
}

/* state.json of the generation before says PAUSED: that is not how the second runner ended */
static void an_old_state_file_does_not_speak_for_a_new_runner(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=5,hold,kill=30,gate=20", 60, 2);
    expect_state(job, "RUN", "");
    order("job.pause", job);
    expect_state(job, "PAUSED", "");
    let(job, 60);
    order("job.resume", job);
    expect_state(job, "LOST", "signal 9");
    expect_rows(job, 30);
}

static void killing_the_daemon_loses_no_step(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=2,hold,gate=20", 120, 2),
            ended = test_submit(c, "ms=1", 30, 2);
    expect_state(job, "RUN", "");
    for (int i = 1; i <= 3; i++) {
        test_client_close(c);
        test_daemon_kill(&daemon_, SIGKILL);
        let(job, 20 + 30 * i); /* while nobody listens */
        test_wait_steps(&daemon_, job, 20 + 30 * i);
        test_daemon_start(&daemon_);
        c = test_client_open(&daemon_);
        expect_state(job, "RUN", "");
    }
    let(job, 120);
    expect_state(job, "DONE", "");
    expect_rows(job, 120);
    assert_int_equal(count_events(job, "RUN"), 1);
    assert_int_equal(count_events(job, "DONE"), 1);
    expect_state(ended, "DONE", "");
    expect_rows(ended, 30);
}

static void a_job_may_end_while_no_daemon_runs(void **state)
{
    (void)state;
    int64_t done = test_submit(c, "ms=5,hold,gate=20", 60, 2),
            dead = test_submit(c, "ms=5,hold,kill=30,gate=20", 60, 2);
    expect_state(done, "RUN", "");
    expect_state(dead, "RUN", "");
    test_client_close(c);
    test_daemon_kill(&daemon_, SIGKILL);
    let(done, 60);
    let(dead, 60);
    test_wait_runner_gone(&daemon_, done);
    test_wait_runner_gone(&daemon_, dead);
    test_daemon_start(&daemon_);
    c = test_client_open(&daemon_);
    expect_state(done, "DONE", "");
    expect_rows(done, 60);
    expect_state(dead, "LOST", "without a word");
    expect_rows(dead, 30);
}

static void sigterm_leaves_runners_alone(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=5,hold,gate=50", 100, 2);
    expect_state(job, "RUN", "");
    test_client_close(c);
    kill(daemon_.pid, SIGTERM);
    assert_int_equal(test_daemon_wait(&daemon_), 0);
    assert_false(tmpdir_has(daemon_.dir, "run/daemon.sock"));
    test_daemon_start(&daemon_);
    c = test_client_open(&daemon_);
    expect_state(job, "RUN", "");
    let(job, 100);
    expect_state(job, "DONE", "");
    expect_rows(job, 100);
}

static void a_runner_without_a_socket_is_followed_by_its_journal(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=5,nosocket,gate=20", 60, 2);
    test_wait_steps(&daemon_, job, 20);
    restart(SIGKILL);
    let(job, 60);
    expect_state(job, "DONE", "");
    expect_rows(job, 60);
}

static void a_broken_connection_is_not_the_end_of_a_runner(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=5,deaf,gate=20", 60, 2);
    test_wait_steps(&daemon_, job, 20);
    restart(SIGKILL); /* adopted: nobody's child */
    let(job, 60);
    expect_state(job, "DONE", "");
    expect_rows(job, 60);
}

static void garbage_from_a_runner_is_skipped(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=5,hold,garbage", 20, 2);
    expect_state(job, "DONE", "");
    expect_rows(job, 20);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};
    assert_int_equal(prlimit(daemon_.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

/* The file size limit plays the full disk. */
static void a_full_disk_refuses_new_jobs_and_loses_nothing_of_the_old(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=5,hold,gate=20", 120, 2),
            short_job = test_submit(c, "ms=5,hold,gate=20", 40, 2);
    expect_state(job, "RUN", "");
    expect_state(short_job, "RUN", "");
    limit_files(4096);
    json_t *spec = cs_test_spec_json(NULL);
    json_t *reply = test_client_call(c, "job.submit", json_pack("{s:o}", "spec", spec));
    assert_string_equal(cs_msg_type(reply), "error");
    assert_non_null(strstr(cs_msg_str(cs_msg_obj(reply, "error"), "text", ""), "database"));
    json_decref(reply);
    assert_int_equal(tmpdir_count(tmpdir_path(daemon_.dir, "state/jobs")), short_job);
    let(short_job, 40);
    expect_state(short_job, "DONE", ""); /* in memory; the database is behind */
    json_decref(test_client_call(c, "jobs.list", NULL));
    limit_files(RLIM_INFINITY);
    let(job, 120);
    expect_state(job, "DONE", "");
    expect_rows(job, 120);
    expect_rows(short_job, 40);
    usleep(600000); /* two ticks: what could not be saved is */
    restart(SIGKILL);
    expect_state(job, "DONE", "");
    expect_state(short_job, "DONE", "");
    expect_rows(short_job, 40);
}

static void a_killed_daemon_finds_its_history_again(void **state)
{
    (void)state;
    unsigned seed = 7;
    int64_t jobs[20];
    for (int i = 0; i < 20; i++) {
        jobs[i] = test_submit(c, "ms=1", 10, 2);
        usleep((useconds_t)(rand_r(&seed) % 30000));
        restart(SIGKILL);
        if (i > 0)
            assert_true(jobs[i] > jobs[i - 1]);
    }
    for (int i = 0; i < 20; i++) {
        json_t *o = test_wait_state(c, jobs[i], "DONE LOST");
        if (strcmp(cs_msg_str(o, "state", ""), "LOST") ==
            0) { /* killed between its row and the fork */
            order("job.resume", jobs[i]);
            json_decref(test_wait_state(c, jobs[i], "DONE"));
        }
        json_decref(o);
        expect_rows(jobs[i], 10);
    }
}

/* A machine under load: the daemon is killed before the runner it started has done anything. */
static void a_runner_that_is_slow_to_come_is_not_lost(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=1,asleep,gate=0", 10, 2);
    restart(SIGKILL);
    usleep(4000000); /* long enough to be given up */
    expect_state(job, "STARTING", "");
    let(job, 10);
    expect_state(job, "DONE", "");
    expect_rows(job, 10);
}

static void a_second_daemon_is_refused(void **state)
{
    (void)state;
    char command[1200];
    const char *bin = getenv("CORNSTARCH_BIN");
    snprintf(command, sizeof(command),
             "%s/cornstarchd --state-dir %s/state --runtime-dir %s/other 2>&1 | grep -q 'another "
             "cornstarchd owns' && "
             "%s/cornstarchd --state-dir %s/state2 --runtime-dir %s/run 2>&1 | grep -q 'another "
             "cornstarchd owns'",
             bin, daemon_.dir, daemon_.dir, bin, daemon_.dir, daemon_.dir);
    assert_int_equal(system(command), 0);
    json_decref(test_client_call(c, "ping", NULL));
}

static void drain_pauses_what_runs_and_ends(void **state)
{
    (void)state;
    struct test_daemon d = {.options = {NULL}};
    test_daemon_start(&d);
    struct test_client *k = test_client_open(&d);
    int64_t job = test_submit(k, "ms=10,late=200,gate=20", 1000, 2);
    json_t *reply = test_client_call(k, "daemon.drain", NULL);
    assert_int_equal(cs_msg_int(reply, "jobs", -1), 1);
    json_decref(reply);
    struct cs_test_spec small = {.steps = 3};
    test_expect_error(
        test_client_call(k, "job.submit", json_pack("{s:o}", "spec", cs_test_spec_json(&small))),
        "refused");
    test_client_close(k);
    assert_int_equal(test_daemon_wait(&d), 0);
    test_daemon_start(&d);
    k = test_client_open(&d);
    json_decref(test_wait_state(k, job, "PAUSED"));
    test_client_close(k);
    test_daemon_end(&d);
}

static void an_idle_daemon_ends_when_asked_to(void **state)
{
    (void)state;
    struct test_daemon d = {
        .options = {"--idle-exit", "3s"}
    };
    test_daemon_start(&d);
    struct test_client *k = test_client_open(&d);
    int64_t job = test_submit(k, "ms=1,gate=20", 120, 2);
    test_client_close(k);
    usleep(3500000); /* the job lives: it stays */
    k = test_client_open(&d);
    test_let(&d, job, 120);
    json_decref(test_wait_state(k, job, "DONE"));
    test_client_close(k);
    assert_int_equal(test_daemon_wait(&d), 0);
    test_daemon_start(&d);
    test_daemon_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_runs_from_submission_to_its_end),
        cmocka_unit_test(metrics_are_cut_at_steps_and_go_on),
        cmocka_unit_test(a_job_pauses_and_resumes_where_it_was),
        cmocka_unit_test(a_stop_that_a_pause_overtakes_holds),
        cmocka_unit_test(a_resume_that_the_runner_refuses_leaves_the_job_at_rest),
        cmocka_unit_test(a_stop_holds_against_a_resume_that_is_looked_at),
        cmocka_unit_test(stop_ends_a_job_at_any_time),
        cmocka_unit_test(who_waits_hears_of_the_end_once_and_a_dead_waiter_harms_nobody),
        cmocka_unit_test(jobs_queue_in_order_while_devices_are_taken),
        cmocka_unit_test(a_runner_that_is_killed_leaves_a_lost_job_that_resumes),
        cmocka_unit_test(a_runner_that_refuses_leaves_a_failed_job_with_its_words),
        cmocka_unit_test(an_old_state_file_does_not_speak_for_a_new_runner),
        cmocka_unit_test(killing_the_daemon_loses_no_step),
        cmocka_unit_test(a_job_may_end_while_no_daemon_runs),
        cmocka_unit_test(sigterm_leaves_runners_alone),
        cmocka_unit_test(a_runner_without_a_socket_is_followed_by_its_journal),
        cmocka_unit_test(a_broken_connection_is_not_the_end_of_a_runner),
        cmocka_unit_test(garbage_from_a_runner_is_skipped),
        cmocka_unit_test(a_full_disk_refuses_new_jobs_and_loses_nothing_of_the_old),
        cmocka_unit_test(a_killed_daemon_finds_its_history_again),
        cmocka_unit_test(a_runner_that_is_slow_to_come_is_not_lost),
        cmocka_unit_test(a_second_daemon_is_refused),
        cmocka_unit_test(drain_pauses_what_runs_and_ends),
        cmocka_unit_test(an_idle_daemon_ends_when_asked_to),
    };
    return cmocka_run_group_tests(tests, start, end);
}
