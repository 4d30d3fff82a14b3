/* What a daemon finds again when its history is gone or old, and of a submit that was killed; with
 * tests/support/fake_runner.c as the runner. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/system/io.h"
#include "core/wire/wire.h"
#include "tests/support/restarts.h"
#include "tests/support/spec.h"
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

static void remove_history(void)
{
    test_node_remove_history(&n);
}

static void empty_history(void)
{
    test_node_remove_history(&n);
    tmpdir_write(test_node_state(&n, "history.db"), "", 0);
}

static void damage_history(void)
{
    char junk[8192];
    memset(junk, 0xa5, sizeof junk);
    test_node_remove_history(&n);
    tmpdir_write(test_node_state(&n, "history.db"), junk, sizeof junk);
}

static void damage_the_middle(void)
{
    struct stat sb;
    char junk[4096];
    memset(junk, 0xa5, sizeof junk);
    int fd = open(test_node_state(&n, "history.db"), O_WRONLY);
    assert_int_equal(fstat(fd, &sb), 0);
    for (off_t at = 4096; at < sb.st_size; at += 4096)
        assert_int_equal(pwrite(fd, junk, sizeof junk, at), sizeof junk);
    close(fd);
}

static void replace_by_a_directory(void)
{
    test_node_remove_history(&n);
    assert_int_equal(mkdir(test_node_state(&n, "history.db"), 0700), 0);
}

static void replace_by_something_else(void)
{
    char command[600];
    test_node_remove_history(&n);
    snprintf(command, sizeof command,
             "python3 -c 'import sqlite3,sys; c = sqlite3.connect(sys.argv[1]); c.execute(\"create "
             "table job (what text)\"); c.execute(\"pragma user_version = 2\"); c.commit()' %s",
             test_node_state(&n, "history.db"));
    assert_int_equal(system(command), 0);
}

static void rebuild(void)
{
    char command[600];
    snprintf(command, sizeof command,
             "%s/cornstarchd --rebuild --state-dir %s --runtime-dir %s --log-file %s | grep -q '4 "
             "jobs in'",
             getenv("CORNSTARCH_BIN"), test_node_state(&n, ""), tmpdir_path(n.d.dir, "run"),
             tmpdir_path(n.d.dir, "rebuild.log"));
    assert_int_equal(system(command), 0);
}

static void expect_four(const struct test_four *j)
{
    test_expect_state(n.c, j->done, "DONE", "");
    test_expect_state(n.c, j->runs, "RUN", "");
    test_expect_state(n.c, j->stopped, "CANCELLED", "stopped on request");
    test_expect_state(n.c, j->waits, "QUEUED", "");
    assert_int_equal(test_rows(n.c, j->done), 12);
    assert_int_equal(test_rows(n.c, j->runs), 20);
    assert_int_equal(test_count_events(n.c, j->done, "DONE"), 1);
    assert_int_equal(test_count_events(n.c, j->stopped, "stopped on request"), 1);
    json_t *o = test_wait_state(n.c, j->runs, "RUN"); /* what no journal tells */
    assert_int_equal(cs_msg_int(o, "steps", 0), 40);
    assert_true(cs_msg_int(o, "submitted_ns", 0) > 0);
    assert_true(strlen(cs_msg_str(o, "owner", "")) > 0);
    assert_string_equal(cs_msg_str(o, "name", ""), "ms=1,gate=20");
    json_decref(o);
}

static void lose_history(void (*lose)(void), bool is_told)
{
    struct test_four j = test_submit_four(&n);
    test_node_stop(&n, SIGKILL);
    lose();
    test_node_start(&n);
    expect_four(&j);
    if (is_told)
        test_expect_warning(n.c, "4 jobs were missing in the history");
    int64_t next = test_submit(n.c, "ms=0", 3, 2);
    assert_int_equal(next, j.waits + 1);
    test_let(&n.d, j.runs, 40); /* the adopted one goes on, then those that wait */
    test_expect_state(n.c, j.runs, "DONE", "");
    test_expect_state(n.c, j.waits, "DONE", "");
    test_expect_state(n.c, next, "DONE", "");
    assert_int_equal(test_rows(n.c, j.runs), 40);
    assert_int_equal(test_rows(n.c, j.waits), 5);
}

static void a_missing_history_is_made_again(void **state)
{
    (void)state;
    lose_history(remove_history, true);
}

static void an_empty_history_is_made_again(void **state)
{
    (void)state;
    lose_history(empty_history, true);
}

static void a_damaged_history_is_kept_and_made_again(void **state)
{
    (void)state;
    lose_history(damage_history, true);
    test_expect_warning(n.c, "damaged");
    char command[400];
    snprintf(command, sizeof command, "ls %s/history.db.damaged-* >/dev/null",
             test_node_state(&n, ""));
    assert_int_equal(system(command), 0);
}

static void a_history_with_bad_pages_is_made_again(void **state)
{
    (void)state;
    lose_history(damage_the_middle, false); /* how much of it was in the log is not said */
}

static void what_is_no_history_is_set_aside(void **state)
{
    (void)state;
    lose_history(replace_by_a_directory, true);
    test_node_stop(&n, SIGTERM);
    replace_by_something_else();
    test_node_start(&n);
    test_expect_warning(n.c, "5 jobs were missing in the history");
}

/* More than one within a second, and of different kinds: each keeps a name of its own. */
static void nothing_that_is_set_aside_replaces_another(void **state)
{
    (void)state;
    static void (*const lose[])(void) = {replace_by_a_directory, damage_history,
                                         replace_by_something_else, replace_by_a_directory,
                                         damage_history};
    char command[600];
    for (size_t i = 0; i < CS_ARRAY_LEN(lose); i++) {
        test_node_stop(&n, SIGTERM);
        lose[i]();
        test_node_start(&n);
    }
    snprintf(command, sizeof command,
             "cd %s && ls -d history.db.damaged-* | grep -cv -e '-wal$' -e '-shm$' | grep -qx %zu",
             test_node_state(&n, ""), CS_ARRAY_LEN(lose));
    assert_int_equal(system(command), 0);
}

static void the_history_is_made_again_at_will(void **state)
{
    (void)state;
    lose_history(rebuild, false);
}

/* A copy from before: what the directories say holds. */
static void an_old_history_is_behind_its_directories(void **state)
{
    (void)state;
    char command[400];
    int64_t job = test_submit(n.c, "ms=0", 12, 2);
    test_expect_state(n.c, job, "DONE", "");
    int64_t stopped = test_submit(n.c, "ms=1,gate=3", 9, 2);
    test_wait_steps(&n.d, stopped, 3);
    test_node_stop(&n, SIGTERM);
    snprintf(command, sizeof command, "cp %s %s", test_node_state(&n, "history.db"),
             test_node_state(&n, "copy"));
    assert_int_equal(system(command), 0);
    test_node_start(&n);
    json_decref(test_ask(n.c, "job.stop", stopped));
    test_expect_state(n.c, stopped, "CANCELLED", "");
    int64_t runs = test_submit(n.c, "ms=1,gate=20", 40, 2);
    test_wait_steps(&n.d, runs, 20);
    test_node_stop(&n, SIGKILL);
    test_node_remove_history(&n);
    assert_int_equal(rename(test_node_state(&n, "copy"), test_node_state(&n, "history.db")), 0);
    test_node_start(&n);
    test_expect_state(n.c, job, "DONE", "");
    test_expect_state(n.c, stopped, "CANCELLED", "");
    test_expect_state(n.c, runs, "RUN", "");
    assert_int_equal(test_rows(n.c, runs), 20);
}

/* Directories of a release without records, and of nothing. */
static void a_directory_without_a_record_is_taken_in(void **state)
{
    (void)state;
    struct test_four j = test_submit_four(&n);
    test_node_stop(&n, SIGKILL);
    test_node_remove_history(&n);
    for (int64_t i = j.done; i <= j.waits; i++) {
        char name[64];
        snprintf(name, sizeof name, "jobs/%lld/job.json", (long long)i);
        if (i == j.stopped)
            tmpdir_write(test_node_state(&n, name), "{\"name", 6); /* torn */
        else
            assert_int_equal(unlink(test_node_state(&n, name)), 0);
    }
    assert_int_equal(mkdir(test_node_state(&n, "jobs/77"), 0700), 0);
    assert_int_equal(mkdir(test_node_state(&n, "jobs/notes"), 0700), 0);
    test_node_start(&n);
    test_expect_state(n.c, j.done, "DONE", "");
    test_expect_state(n.c, j.runs, "RUN", "");
    test_expect_state(n.c, j.stopped, "LOST", "record is lost");
    assert_int_equal(test_rows(n.c, j.runs), 20);
    assert_int_equal(test_submit(n.c, "ms=0", 3, 2),
                     78); /* an empty directory has its number too */
}

static void numbers_are_never_used_twice(void **state)
{
    (void)state;
    char command[400];
    int64_t job = test_submit(n.c, "ms=0", 3, 2);
    test_expect_state(n.c, job, "DONE", "");
    test_node_stop(&n, SIGTERM);
    test_node_remove_history(&n);
    snprintf(command, sizeof command, "rm -r %s", test_node_state(&n, "jobs"));
    assert_int_equal(system(command), 0);
    test_node_start(&n);
    assert_int_equal(test_submit(n.c, "ms=0", 3, 2), job + 1);
    snprintf(command, sizeof command, "mkdir -p %s/%lld/sub", test_node_state(&n, "jobs"),
             (long long)job + 2);
    assert_int_equal(system(command), 0); /* somebody's copy stands in the way */
    assert_int_equal(test_submit(n.c, "ms=0", 3, 2), job + 3);
}

/* Killed at any moment of a submit: a job has its directory and its specification, or is none. */
static void a_killed_submit_leaves_no_ghost(void **state)
{
    (void)state;
    unsigned seed = 3;
    test_expect_state(n.c, test_submit(n.c, "ms=0", 3, 2), "DONE", "");
    for (int i = 0; i < 16; i++) {
        json_t *spec = cs_test_spec_json(&(struct cs_test_spec){.steps = 3});
        json_t *request = json_pack("{s:s,s:i,s:o}", "type", "job.submit", "id", 7, "spec", spec);
        char *line = json_dumps(request, JSON_COMPACT);
        test_client_text(n.c, line);
        free(line);
        json_decref(request);
        usleep((useconds_t)(rand_r(&seed) % 20000));
        test_node_stop(&n, SIGKILL);
        test_node_start(&n);
    }
    json_t *reply = test_client_call(n.c, "jobs.list", NULL), *jobs = cs_msg_arr(reply, "jobs");
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const char *dir = cs_msg_str(json_array_get(jobs, i), "dir", "");
        assert_true(tmpdir_has(dir, "spec.json"));
        assert_true(tmpdir_has(dir, "job.json"));
    }
    assert_int_equal(tmpdir_count(test_node_state(&n, "jobs")),
                     json_array_size(jobs)); /* and no parts */
    json_decref(reply);
}

/* It is no child of the daemon that finds it: what it said holds, not that nothing is known of its end. */
static void a_runner_that_refuses_while_no_daemon_runs_says_why(void **state)
{
    (void)state;
    int64_t job = test_submit(n.c, "asleep,refuse,gate=0", 3, 2);
    test_node_stop(&n, SIGKILL);
    test_let(&n.d, job, 1);
    test_node_start(&n);
    test_expect_state(n.c, job, "FAILED", "the plan differs from the previewed one");
}

/* What each start begins anew: the words of a runner before it are not those of one that said nothing, whether its end is
 * told by a signal or found by the next daemon. */
static void words_of_an_earlier_runner_are_not_told_again(void **state)
{
    (void)state;
    static const char old[] = "cornstarch-runner: words of yesterday\n";
    char words[600], mine[600], dir[500];
    struct stat sb;
    for (int i = 0; i < 2; i++) {
        const char *reason =
            i == 0 ? "ended with code 3 and said nothing of why" : "without a word";
        int64_t job =
            test_submit(n.c, i == 0 ? "asleep,quit=2,code=3,gate=0" : "asleep,quit=2,gate=0", 9, 2);
        test_let(&n.d, job, 2);
        test_expect_state(n.c, job, i == 0 ? "FAILED" : "LOST", reason);
        snprintf(dir, sizeof dir, "jobs/%lld/logs", (long long)job);
        snprintf(words, sizeof words, "%s/runner.err", test_node_state(&n, dir));
        snprintf(mine, sizeof mine, "%s/mine", test_node_state(&n, dir));
        tmpdir_write(words, old, strlen(old));
        assert_int_equal(link(words, mine), 0);
        test_let(&n.d, job, 0);
        json_decref(test_ask(n.c, "job.resume", job));
        if (i == 1)
            test_node_stop(&n, SIGKILL);
        test_let(&n.d, job, 2);
        if (i == 1)
            test_node_start(&n);
        test_expect_state(n.c, job, i == 0 ? "FAILED" : "LOST", reason);
        assert_true(stat(words, &sb) == 0 && sb.st_size == 0);
        assert_true(stat(mine, &sb) == 0 && sb.st_size == (off_t)strlen(old)); /* another file */
    }
}

/* Who looks why a job failed finds them there, however often the daemon starts. */
static void last_words_stay_beside_the_logs(void **state)
{
    (void)state;
    char dir[500], path[600];
    struct cs_buf text = {0};
    int64_t job = test_submit(n.c, "refuse", 3, 2);
    for (int i = 0; i < 2; i++) {
        test_expect_state(n.c, job, "FAILED", "the plan differs from the previewed one");
        snprintf(dir, sizeof dir, "jobs/%lld/logs", (long long)job);
        snprintf(path, sizeof path, "%s/runner.err", test_node_state(&n, dir));
        assert_int_equal(cs_read_file(path, 4096, &text, NULL), CS_OK);
        assert_string_equal(cs_buf_str(&text),
                            "cornstarch-runner: the plan differs from the previewed one\n");
        cs_buf_free(&text);
        test_node_stop(&n, SIGTERM);
        test_node_start(&n);
    }
}

/* Its runner does not listen yet when the daemon dies that has answered. The next one tells it, also one that knows the
 * job from its directory alone; what is begun anew after that has no stop. */
static void a_stop_outlives_the_daemon_that_took_it(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const bool is_now = i % 2 == 1;
        int64_t job = test_submit(n.c, "asleep,hold,ms=5,gate=0", 60, 2);
        json_t *reply = test_client_call(
            n.c, "job.stop", json_pack("{s:I, s:b}", "job", (json_int_t)job, "now", is_now));
        assert_string_equal(cs_msg_type(reply), "job.stop");
        json_decref(reply);
        test_node_stop(&n, SIGKILL);
        if (i >= 2)
            test_node_remove_history(&n);
        test_let(&n.d, job, 20);
        test_node_start(&n);
        test_expect_state(n.c, job, "CANCELLED", "");
        assert_in_range(test_rows(n.c, job), 0, 20);
        json_decref(test_ask(n.c, "job.resume", job));
        test_let(&n.d, job, 60);
        test_expect_state(n.c, job, "DONE", "");
    }
}

/* Half of a job, as the kill in the middle leaves it. */
static void parts_of_a_submit_are_removed(void **state)
{
    (void)state;
    test_node_stop(&n, SIGTERM);
    assert_int_equal(mkdir(test_node_state(&n, "jobs"), 0700) == 0 || errno == EEXIST, 1);
    assert_int_equal(mkdir(test_node_state(&n, "jobs/4.new"), 0700), 0);
    tmpdir_write(test_node_state(&n, "jobs/4.new/spec.json"), "{}", 2);
    assert_int_equal(mkdir(test_node_state(&n, "jobs/mine.new"), 0700), 0);
    test_node_start(&n);
    assert_false(tmpdir_has(test_node_state(&n, "jobs"), "4.new"));
    assert_true(tmpdir_has(test_node_state(&n, "jobs"), "mine.new"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_missing_history_is_made_again),
        TEST(an_empty_history_is_made_again),
        TEST(a_damaged_history_is_kept_and_made_again),
        TEST(a_history_with_bad_pages_is_made_again),
        TEST(what_is_no_history_is_set_aside),
        TEST(nothing_that_is_set_aside_replaces_another),
        TEST(the_history_is_made_again_at_will),
        TEST(an_old_history_is_behind_its_directories),
        TEST(a_directory_without_a_record_is_taken_in),
        TEST(numbers_are_never_used_twice),
        TEST(a_killed_submit_leaves_no_ghost),
        TEST(a_runner_that_refuses_while_no_daemon_runs_says_why),
        TEST(words_of_an_earlier_runner_are_not_told_again),
        TEST(last_words_stay_beside_the_logs),
        TEST(a_stop_outlives_the_daemon_that_took_it),
        TEST(parts_of_a_submit_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
