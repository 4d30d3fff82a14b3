/* The runner with real processes that compute nothing (support/pretend_ranks.h): its control socket, orders,
 * signals and its own death. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "support/pretend_job.h"
#include "support/pretend_ranks.h"
#include "support/tmpdir.h"

static int dial(const struct pretend_job *job)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%.80s/cornstarch/job-7.sock", job->dir);
    for (int i = 0; i < 5000; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
            return fd;
        close(fd);
        usleep(2000);
    }
    fail_msg("no control socket");
    return -1;
}

static void say(int fd, const char *line)
{
    assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
}

/* Read until a message of the type arrives; NULL at the end of stream. */
static json_t *hear(int fd, struct cs_line_reader *lines, const char *type)
{
    for (;;) {
        json_t *msg = NULL;
        char bytes[4096];
        struct cs_err err = {0};
        while (cs_line_next(lines, &msg, &err) == CS_OK && msg) {
            if (cs_msg_check(msg, &err) != CS_OK)
                fail_msg("%s", err.text);
            if (strcmp(cs_msg_type(msg), type) == 0)
                return msg;
            json_decref(msg);
        }
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0)
            return NULL;
        assert_int_equal(cs_line_feed(lines, bytes, (size_t)n, &err), CS_OK);
    }
}

static json_t *must_hear(int fd, struct cs_line_reader *lines, const char *type)
{
    json_t *msg = hear(fd, lines, type);
    if (!msg)
        fail_msg("the stream ended before %s", type);
    return msg;
}

static void pause_checkpoints_and_the_next_run_goes_on(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 40, 0, "");
    setenv("FAKE_STEP_MS", "20", 1);
    pid_t pid = pretend_start(job);
    int fd = dial(job);
    struct cs_line_reader *lines = cs_line_reader_new();
    cs_line_reader_limit(lines, 0);
    json_t *msg = must_hear(fd, lines, "runner.hello");
    assert_int_equal(cs_msg_int(msg, "job", 0), 7);
    assert_int_equal(cs_msg_int(msg, "pid", 0), pid);
    json_decref(msg);
    json_decref(must_hear(fd, lines, "runner.step"));
    msg = must_hear(fd, lines, "runner.spans");
    assert_true(json_array_size(cs_msg_arr(msg, "spans")) > 10);
    json_decref(msg);
    say(fd, "{\"type\":\"runner.status\",\"id\":5}\n{\"type\":\"nonsense\",\"id\":6}\n");
    msg = must_hear(fd, lines, "runner.status");
    assert_int_equal(cs_msg_id(msg), 5);
    assert_string_equal(cs_msg_str(msg, "state", ""), "RUN");
    assert_int_equal(json_array_size(cs_msg_arr(msg, "pids")), 3);
    json_decref(msg);
    json_decref(must_hear(fd, lines, "error"));
    say(fd, "{\"type\":\"runner.pause\"}\n");
    const char *at = "";
    for (msg = NULL; strcmp(at, "PAUSED") != 0; at = cs_msg_str(msg, "state", "")) {
        json_decref(msg);
        msg = must_hear(fd, lines, "runner.state");
    }
    json_decref(msg);
    assert_null(hear(fd, lines, "runner.state"));
    assert_int_equal(pretend_wait_end(pid), CS_OK);
    close(fd);
    cs_line_reader_free(lines);
    json_t *paused = pretend_state(job);
    int64_t step = cs_msg_int(paused, "step", -1);
    assert_true(step >= 0 && step < 39);
    assert_int_equal(cs_msg_int(paused, "checkpoint_step", -1), step);
    json_decref(paused);
    setenv("FAKE_STEP_MS", "0", 1);
    assert_int_equal(pretend_run(job), CS_OK);
    json_t *steps = pretend_journal(job, "runner.step", "train");
    assert_int_equal(json_array_size(steps), 40); /* none lost, none twice */
    json_decref(steps);
}

/* A run of a thousand steps, who listens to it, and that it has made one. */
struct long_run {
    pid_t pid;
    int fd;
    struct cs_line_reader *lines;
};

static struct long_run begin_long_run(struct pretend_job *job)
{
    pretend_write(job, 1000, 0, "");
    setenv("FAKE_STEP_MS", "10", 1);
    struct long_run run = {.pid = pretend_start(job), .lines = cs_line_reader_new()};
    run.fd = dial(job);
    cs_line_reader_limit(run.lines, 0);
    json_decref(must_hear(run.fd, run.lines, "runner.step"));
    return run;
}

static void leave(const struct long_run *run)
{
    close(run->fd);
    cs_line_reader_free(run->lines);
}

static void stop_now_ends_without_a_checkpoint(void **state)
{
    struct pretend_job *job = *state;
    const struct long_run run = begin_long_run(job);
    say(run.fd, "{\"type\":\"runner.stop\",\"now\":true}\n");
    assert_int_equal(pretend_wait_end(run.pid), CS_OK);
    leave(&run);
    json_t *end = pretend_state(job);
    assert_string_equal(cs_msg_str(end, "state", ""), "CANCELLED");
    assert_int_equal(cs_msg_int(end, "checkpoint_step", 0), -1);
    json_decref(end);
    assert_int_equal(pretend_count_left(job), 0);
}

static void sigterm_pauses_also_when_repeated(void **state)
{
    struct pretend_job *job = *state;
    const struct long_run run = begin_long_run(job);
    for (int i = 0; i < 3; i++) {
        kill(run.pid, SIGTERM);
        usleep(3000);
    }
    assert_int_equal(pretend_wait_end(run.pid), CS_OK);
    leave(&run);
    json_t *end = pretend_state(job);
    assert_string_equal(cs_msg_str(end, "state", ""), "PAUSED");
    assert_int_equal(cs_msg_int(end, "checkpoint_step", -1), cs_msg_int(end, "step", -2));
    json_decref(end);
}

static void a_killed_runner_leaves_no_process(void **state)
{
    struct pretend_job *job = *state;
    const struct long_run run = begin_long_run(job);
    int status;
    assert_int_equal(pretend_count_left(job), 4);
    kill(run.pid, SIGKILL);
    assert_int_equal(waitpid(run.pid, &status, 0), run.pid);
    for (int i = 0; i < 1000 && pretend_count_left(job) > 0; i++)
        usleep(10000);
    assert_int_equal(pretend_count_left(job), 0);
    leave(&run);
    /* the stale socket and the torn journal do not stop the next run */
    setenv("FAKE_STEP_MS", "0", 1);
    assert_int_equal(pretend_run(job), CS_OK);
}

/* As a clean-up of /run does at the end of a session: the socket's file, then all of its directory. */
static void a_removed_control_socket_comes_back(void **state)
{
    struct pretend_job *job = *state;
    char command[400];
    pretend_write(job, 100000, 0, "");
    setenv("FAKE_STEP_MS", "10", 1);
    pid_t pid = pretend_start(job);
    close(dial(job));
    snprintf(command, sizeof command, "rm %s/cornstarch/job-7.sock", job->dir);
    assert_int_equal(system(command), 0);
    kill(pid, SIGUSR1); /* look now; it looks by itself as well */
    close(dial(job));
    snprintf(command, sizeof command, "rm -r %s/cornstarch", job->dir);
    assert_int_equal(system(command), 0);
    int fd = dial(job);
    say(fd, "{\"type\":\"runner.stop\",\"now\":true}\n");
    assert_int_equal(pretend_wait_end(pid), CS_OK);
    close(fd);
    json_t *notes = pretend_journal(job, "runner.note", NULL), *ended = pretend_state(job);
    int told = 0;
    for (size_t i = 0; i < json_array_size(notes); i++)
        told += strstr(cs_msg_str(json_array_get(notes, i), "text", ""), "was removed") != NULL;
    assert_int_equal(told, 2);
    assert_non_null(strstr(cs_msg_str(ended, "socket", ""), "/cornstarch/job-7.sock"));
    json_decref(notes);
    json_decref(ended);
}

/* Answers are no events: they are never dropped, so no more is asked than is taken. */
static void who_asks_without_reading_is_not_answered_without_end(void **state)
{
    static const char ping[] = "{\"type\":\"runner.status\",\"id\":5}\n";
    struct pretend_job *job = *state;
    pretend_write(job, 100000, 0, "");
    setenv("FAKE_STEP_MS", "10", 1);
    pid_t pid = pretend_start(job);
    int fd = dial(job), other = dial(job);
    size_t asked = 0, idle = 0;
    const size_t most = (size_t)200 << 20;
    while (asked < most && idle < 100) {
        ssize_t n = send(fd, ping, sizeof ping - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        asked += n > 0 ? (size_t)n : 0;
        idle = n > 0 ? 0 : idle + 1;
        if (n <= 0)
            usleep(10000);
    }
    assert_true(asked < most); /* it stops reading */
    say(other, "{\"type\":\"runner.stop\",\"now\":true}\n");
    assert_int_equal(pretend_wait_end(pid), CS_OK);
    close(fd);
    close(other);
}

static void a_peer_that_does_not_read_gets_a_gap_marker(void **state)
{
    struct pretend_job *job = *state;
    pretend_write(job, 30, 0, "");
    setenv("FAKE_LOG_LINES", "5000", 1);
    setenv("FAKE_STEP_MS", "100", 1);
    pid_t pid = pretend_start(job);
    int fd = dial(job);
    for (int i = 0; i < 2000; i++) { /* do not read until most of the job is over */
        json_t *steps =
            tmpdir_has(job->path, "journal") ? pretend_journal(job, "runner.step", NULL) : NULL;
        size_t n = json_array_size(steps);
        json_decref(steps);
        if (n >= 8)
            break;
        usleep(20000);
    }
    struct cs_line_reader *lines = cs_line_reader_new();
    cs_line_reader_limit(lines, 0);
    json_t *gap = must_hear(fd, lines, "gap");
    assert_true(cs_msg_int(gap, "count", 0) > 100);
    json_decref(gap);
    close(fd);
    cs_line_reader_free(lines);
    assert_int_equal(pretend_wait_end(pid), CS_OK);
}

#define LIFE(test) cmocka_unit_test_setup_teardown(test, pretend_setup, pretend_teardown)

int main(int argc, char **argv)
{
    (void)argc;
    pretend_main(argv);
    const struct CMUnitTest tests[] = {
        LIFE(pause_checkpoints_and_the_next_run_goes_on),
        LIFE(stop_now_ends_without_a_checkpoint),
        LIFE(sigterm_pauses_also_when_repeated),
        LIFE(a_killed_runner_leaves_no_process),
        LIFE(a_removed_control_socket_comes_back),
        LIFE(who_asks_without_reading_is_not_answered_without_end),
        LIFE(a_peer_that_does_not_read_gets_a_gap_marker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
