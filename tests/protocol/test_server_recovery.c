/* What a daemon finds again: a history that is gone, sockets that are removed, directories that are
 * elsewhere; with tests/support/fake_runner.c as the runner. */
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/wire/wire.h"
#include "net/owner.h"
#include "tests/support/daemon.h"
#include "tests/support/spec.h"
#include "tests/support/tmpdir.h"

static struct test_daemon d;
static struct test_client *c;

static int start(void **state)
{
    (void)state;
    d = (struct test_daemon){
        .options = {"--cpu-devices", "8"}
    };
    test_daemon_start(&d);
    c = test_client_open(&d);
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (c)
        test_client_close(c);
    c = NULL;
    test_daemon_end(&d);
    return 0;
}

static void stop_daemon(int signal)
{
    test_client_close(c);
    c = NULL;
    test_daemon_kill(&d, signal);
}

static void start_daemon(void)
{
    test_daemon_start(&d);
    c = test_client_open(&d);
}

static const char *in_state(const char *name)
{
    char part[300];
    snprintf(part, sizeof part, "state/%s", name);
    return tmpdir_path(d.dir, part);
}

static json_t *ask(const char *type, int64_t job)
{
    return test_client_call(c, type, json_pack("{s:I}", "job", (json_int_t)job));
}

static void expect_state(int64_t job, const char *state, const char *reason)
{
    json_t *o = test_wait_state(c, job, state);
    if (!strstr(cs_msg_str(o, "reason", ""), reason))
        fail_msg("job %lld is %s because '%s', not '%s'", (long long)job, state,
                 cs_msg_str(o, "reason", ""), reason);
    json_decref(o);
}

static int64_t n_rows(int64_t job)
{
    json_t *reply = ask("job.metrics", job);
    int64_t n = (int64_t)json_array_size(cs_msg_arr(reply, "rows"));
    json_decref(reply);
    return n;
}

static void wait_rows(int64_t job, int64_t n)
{
    for (int i = 0; i < 4000 && n_rows(job) < n; i++)
        usleep(5000);
    assert_int_equal(n_rows(job), n);
}

static int64_t count_events(int64_t job, const char *text)
{
    json_t *reply = ask("job.events", job), *events = cs_msg_arr(reply, "events");
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(events); i++)
        n += strstr(json_string_value(json_array_get(json_array_get(events, i), 2)), text) != NULL;
    json_decref(reply);
    return n;
}

static void expect_warning(const char *text)
{
    json_t *node = test_client_call(c, "node.show", NULL);
    if (!strstr(cs_msg_str(node, "warning", ""), text))
        fail_msg("the daemon warns '%s', not '%s'", cs_msg_str(node, "warning", ""), text);
    json_decref(node);
}

/* --- the history ------------------------------------------------------------------------------ */

static void remove_history(void)
{
    static const char *const parts[] = {"history.db", "history.db-wal", "history.db-shm"};
    for (size_t i = 0; i < CS_ARRAY_LEN(parts); i++)
        (void)!unlink(in_state(parts[i]));
}

static void empty_history(void)
{
    remove_history();
    tmpdir_write(in_state("history.db"), "", 0);
}

static void damage_history(void)
{
    char junk[8192];
    memset(junk, 0xa5, sizeof junk);
    remove_history();
    tmpdir_write(in_state("history.db"), junk, sizeof junk);
}

static void damage_the_middle(void)
{
    struct stat sb;
    char junk[4096];
    memset(junk, 0xa5, sizeof junk);
    int fd = open(in_state("history.db"), O_WRONLY);
    assert_int_equal(fstat(fd, &sb), 0);
    for (off_t at = 4096; at < sb.st_size; at += 4096)
        assert_int_equal(pwrite(fd, junk, sizeof junk, at), sizeof junk);
    close(fd);
}

static void replace_by_a_directory(void)
{
    remove_history();
    assert_int_equal(mkdir(in_state("history.db"), 0700), 0);
}

static void replace_by_something_else(void)
{
    char command[600];
    remove_history();
    snprintf(command, sizeof command,
             "python3 -c 'import sqlite3,sys; c = sqlite3.connect(sys.argv[1]); c.execute(\"create "
             "table job (what text)\"); c.execute(\"pragma user_version = 2\"); c.commit()' %s",
             in_state("history.db"));
    assert_int_equal(system(command), 0);
}

static void rebuild(void)
{
    char command[600];
    snprintf(command, sizeof command,
             "%s/cornstarchd --rebuild --state-dir %s --runtime-dir %s --log-file %s | grep -q '4 "
             "jobs in'",
             getenv("CORNSTARCH_BIN"), in_state(""), tmpdir_path(d.dir, "run"),
             tmpdir_path(d.dir, "rebuild.log"));
    assert_int_equal(system(command), 0);
}

/* Four jobs: one has ended, one runs, one was stopped, one waits for the devices of the second. */
struct four {
    int64_t done, runs, stopped, waits;
};

static struct four submit_four(void)
{
    struct four j;
    j.done = test_submit(c, "ms=0", 12, 2);
    expect_state(j.done, "DONE", "");
    j.runs = test_submit(c, "ms=1,gate=20", 40, 8);
    test_wait_steps(&d, j.runs, 20);
    j.stopped = test_submit(c, "ms=1", 7, 2);
    json_decref(ask("job.stop", j.stopped));
    j.waits = test_submit(c, "ms=0", 5, 3);
    return j;
}

static void expect_four(const struct four *j)
{
    expect_state(j->done, "DONE", "");
    expect_state(j->runs, "RUN", "");
    expect_state(j->stopped, "CANCELLED", "stopped on request");
    expect_state(j->waits, "QUEUED", "");
    assert_int_equal(n_rows(j->done), 12);
    assert_int_equal(n_rows(j->runs), 20);
    assert_int_equal(count_events(j->done, "DONE"), 1);
    assert_int_equal(count_events(j->stopped, "stopped on request"), 1);
    json_t *o = test_wait_state(c, j->runs, "RUN"); /* what no journal tells */
    assert_int_equal(cs_msg_int(o, "steps", 0), 40);
    assert_true(cs_msg_int(o, "submitted_ns", 0) > 0);
    assert_true(strlen(cs_msg_str(o, "owner", "")) > 0);
    assert_string_equal(cs_msg_str(o, "name", ""), "ms=1,gate=20");
    json_decref(o);
}

static void lose_history(void (*lose)(void), bool is_told)
{
    struct four j = submit_four();
    stop_daemon(SIGKILL);
    lose();
    start_daemon();
    expect_four(&j);
    if (is_told)
        expect_warning("4 jobs were missing in the history");
    int64_t next = test_submit(c, "ms=0", 3, 2);
    assert_int_equal(next, j.waits + 1);
    test_let(&d, j.runs, 40); /* the adopted one goes on, then those that wait */
    expect_state(j.runs, "DONE", "");
    expect_state(j.waits, "DONE", "");
    expect_state(next, "DONE", "");
    assert_int_equal(n_rows(j.runs), 40);
    assert_int_equal(n_rows(j.waits), 5);
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
    expect_warning("damaged");
    char command[400];
    snprintf(command, sizeof command, "ls %s/history.db.damaged-* >/dev/null", in_state(""));
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
    stop_daemon(SIGTERM);
    replace_by_something_else();
    start_daemon();
    expect_warning("5 jobs were missing in the history");
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
        stop_daemon(SIGTERM);
        lose[i]();
        start_daemon();
    }
    snprintf(command, sizeof command,
             "cd %s && ls -d history.db.damaged-* | grep -cv -e '-wal$' -e '-shm$' | grep -qx %zu",
             in_state(""), CS_ARRAY_LEN(lose));
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
    int64_t job = test_submit(c, "ms=0", 12, 2);
    expect_state(job, "DONE", "");
    int64_t stopped = test_submit(c, "ms=1,gate=3", 9, 2);
    test_wait_steps(&d, stopped, 3);
    stop_daemon(SIGTERM);
    snprintf(command, sizeof command, "cp %s %s", in_state("history.db"), in_state("copy"));
    assert_int_equal(system(command), 0);
    start_daemon();
    json_decref(ask("job.stop", stopped));
    expect_state(stopped, "CANCELLED", "");
    int64_t runs = test_submit(c, "ms=1,gate=20", 40, 2);
    test_wait_steps(&d, runs, 20);
    stop_daemon(SIGKILL);
    remove_history();
    assert_int_equal(rename(in_state("copy"), in_state("history.db")), 0);
    start_daemon();
    expect_state(job, "DONE", "");
    expect_state(stopped, "CANCELLED", "");
    expect_state(runs, "RUN", "");
    assert_int_equal(n_rows(runs), 20);
}

/* Directories of a release without records, and of nothing. */
static void a_directory_without_a_record_is_taken_in(void **state)
{
    (void)state;
    struct four j = submit_four();
    stop_daemon(SIGKILL);
    remove_history();
    for (int64_t i = j.done; i <= j.waits; i++) {
        char name[64];
        snprintf(name, sizeof name, "jobs/%lld/job.json", (long long)i);
        if (i == j.stopped)
            tmpdir_write(in_state(name), "{\"name", 6); /* torn */
        else
            assert_int_equal(unlink(in_state(name)), 0);
    }
    assert_int_equal(mkdir(in_state("jobs/77"), 0700), 0);
    assert_int_equal(mkdir(in_state("jobs/notes"), 0700), 0);
    start_daemon();
    expect_state(j.done, "DONE", "");
    expect_state(j.runs, "RUN", "");
    expect_state(j.stopped, "LOST", "record is lost");
    assert_int_equal(n_rows(j.runs), 20);
    assert_int_equal(test_submit(c, "ms=0", 3, 2), 78); /* an empty directory has its number too */
}

static void numbers_are_never_used_twice(void **state)
{
    (void)state;
    char command[400];
    int64_t job = test_submit(c, "ms=0", 3, 2);
    expect_state(job, "DONE", "");
    stop_daemon(SIGTERM);
    remove_history();
    snprintf(command, sizeof command, "rm -r %s", in_state("jobs"));
    assert_int_equal(system(command), 0);
    start_daemon();
    assert_int_equal(test_submit(c, "ms=0", 3, 2), job + 1);
    snprintf(command, sizeof command, "mkdir -p %s/%lld/sub", in_state("jobs"), (long long)job + 2);
    assert_int_equal(system(command), 0); /* somebody's copy stands in the way */
    assert_int_equal(test_submit(c, "ms=0", 3, 2), job + 3);
}

/* Killed at any moment of a submit: a job has its directory and its specification, or is none. */
static void a_killed_submit_leaves_no_ghost(void **state)
{
    (void)state;
    unsigned seed = 3;
    expect_state(test_submit(c, "ms=0", 3, 2), "DONE", "");
    for (int i = 0; i < 16; i++) {
        json_t *spec = cs_test_spec_json(&(struct cs_test_spec){.steps = 3});
        json_t *request = json_pack("{s:s,s:i,s:o}", "type", "job.submit", "id", 7, "spec", spec);
        char *line = json_dumps(request, JSON_COMPACT);
        test_client_text(c, line);
        free(line);
        json_decref(request);
        usleep((useconds_t)(rand_r(&seed) % 20000));
        stop_daemon(SIGKILL);
        start_daemon();
    }
    json_t *reply = test_client_call(c, "jobs.list", NULL), *jobs = cs_msg_arr(reply, "jobs");
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        const char *dir = cs_msg_str(json_array_get(jobs, i), "dir", "");
        assert_true(tmpdir_has(dir, "spec.json"));
        assert_true(tmpdir_has(dir, "job.json"));
    }
    assert_int_equal(tmpdir_count(in_state("jobs")), json_array_size(jobs)); /* and no parts */
    json_decref(reply);
}

/* Half of a job, as the kill in the middle leaves it. */
static void parts_of_a_submit_are_removed(void **state)
{
    (void)state;
    stop_daemon(SIGTERM);
    assert_int_equal(mkdir(in_state("jobs"), 0700) == 0 || errno == EEXIST, 1);
    assert_int_equal(mkdir(in_state("jobs/4.new"), 0700), 0);
    tmpdir_write(in_state("jobs/4.new/spec.json"), "{}", 2);
    assert_int_equal(mkdir(in_state("jobs/mine.new"), 0700), 0);
    start_daemon();
    assert_false(tmpdir_has(in_state("jobs"), "4.new"));
    assert_true(tmpdir_has(in_state("jobs"), "mine.new"));
}

/* --- directories of jobs ---------------------------------------------------------------------- */

static void remove_job(int64_t job)
{
    char command[400];
    snprintf(command, sizeof command, "rm -r %s/%lld", in_state("jobs"), (long long)job);
    assert_int_equal(system(command), 0);
}

static void expect_no_directory(int64_t job)
{
    char name[32];
    snprintf(name, sizeof name, "%lld", (long long)job);
    assert_false(tmpdir_has(in_state("jobs"), name));
}

static void a_job_whose_directory_is_removed_says_so(void **state)
{
    (void)state;
    struct four j = submit_four();
    remove_job(j.done);
    remove_job(j.waits);
    test_let(&d, j.runs, 40);
    expect_state(j.runs, "DONE", "");
    expect_state(j.done, "DONE", "is gone");
    expect_state(j.waits, "FAILED", "");
    test_expect_error(ask("job.resume", j.waits), "not_found");
    expect_no_directory(j.waits); /* asking makes none */
    stop_daemon(SIGKILL);
    start_daemon();
    expect_state(j.done, "DONE", "is gone");
    assert_int_equal(n_rows(j.done), 12); /* the index has them still */
}

static void a_state_directory_may_move(void **state)
{
    (void)state;
    struct four j = submit_four();
    test_let(&d, j.runs, 40);
    expect_state(j.waits, "DONE", "");
    stop_daemon(SIGTERM);
    char old[300], command[700];
    snprintf(old, sizeof old, "%s", d.dir);
    snprintf(command, sizeof command, "mv %s '%s b'", old, old);
    assert_int_equal(system(command), 0);
    snprintf(d.dir = realloc(d.dir, strlen(old) + 3), strlen(old) + 3, "%s b", old);
    start_daemon();
    json_t *o = test_wait_state(c, j.done, "DONE");
    assert_int_equal(strncmp(cs_msg_str(o, "dir", ""), d.dir, strlen(d.dir)), 0);
    assert_int_equal(n_rows(j.done), 12);
    json_decref(o);
    int64_t next = test_submit(c, "ms=0", 3, 2);
    expect_state(next, "DONE", "");
}

static void fewer_devices_hold_up_nobody_else(void **state)
{
    (void)state;
    struct four j = submit_four();
    stop_daemon(SIGKILL);
    d.options[1] = "2";
    start_daemon();
    expect_state(j.waits, "QUEUED", "");
    test_let(&d, j.runs, 40);
    expect_state(j.runs, "DONE", "");
    int64_t next = test_submit(c, "ms=0", 3, 2);
    expect_state(next, "DONE", "");
    expect_state(j.waits, "QUEUED", "needs 3 CPU devices, this node offers 2");
}

/* --- sockets ---------------------------------------------------------------------------------- */

/* until somebody answers there; the limit is the test program's */
static void expect_back(void)
{
    test_client_close(c);
    for (int i = 0; i < 4000 && !test_daemon_answers(&d); i++)
        usleep(5000);
    c = test_client_open(&d);
    json_decref(test_client_call(c, "ping", NULL));
}

static void a_removed_socket_of_the_daemon_comes_back(void **state)
{
    (void)state;
    char command[400];
    int64_t job = test_submit(c, "ms=1,gate=20", 40, 2);
    test_wait_steps(&d, job, 20);
    assert_int_equal(unlink(d.socket), 0);
    kill(d.pid, SIGUSR1);
    expect_back();
    snprintf(command, sizeof command, "rm -r %s/run", d.dir);
    assert_int_equal(system(command), 0);
    expect_back();
    assert_true(tmpdir_has(tmpdir_path(d.dir, "run"), "daemon.lock"));
    /* nobody else may have what was claimed anew */
    snprintf(command, sizeof command,
             "%s/cornstarchd --state-dir %s/other --runtime-dir %s/run 2>&1 | grep -q 'another "
             "cornstarchd owns .*process %d'",
             getenv("CORNSTARCH_BIN"), d.dir, d.dir, (int)d.pid);
    assert_int_equal(system(command), 0);
    assert_int_equal(unlink(in_state("daemon.lock")), 0);
    for (int i = 0; i < 4000 && !tmpdir_has(in_state(""), "daemon.lock"); i++)
        usleep(5000);
    snprintf(command, sizeof command,
             "%s/cornstarchd --state-dir %s/state --runtime-dir %s/run2 2>&1 | grep -q 'another "
             "cornstarchd owns'",
             getenv("CORNSTARCH_BIN"), d.dir, d.dir);
    assert_int_equal(system(command), 0);
    test_let(&d, job, 40);
    expect_state(job, "DONE", "");
}

static void a_running_job_is_found_from_another_runtime_directory(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=1,gate=20", 40, 2);
    test_wait_steps(&d, job, 20);
    stop_daemon(SIGKILL);
    d.run = "elsewhere";
    start_daemon();
    expect_state(job, "RUN", "");
    json_t *reply = ask("job.checkpoint", job); /* it takes orders, so it is connected */
    for (int i = 0; i < 4000 && strcmp(cs_msg_type(reply), "error") == 0; i++) {
        usleep(5000);
        json_decref(reply);
        reply = ask("job.checkpoint", job);
    }
    assert_string_equal(cs_msg_type(reply), "job.checkpoint");
    json_decref(reply);
    test_let(&d, job, 40);
    expect_state(job, "DONE", "");
}

static void a_lock_says_who_holds_it_and_where(void **state)
{
    (void)state;
    struct cs_owner owner;
    assert_true(cs_owner_find(in_state(""), &owner));
    assert_int_equal(owner.pid, d.pid);
    assert_string_equal(owner.socket, d.socket);
    stop_daemon(SIGKILL);
    assert_false(cs_owner_find(in_state(""), &owner)); /* whatever its file still says */
    tmpdir_write(in_state("daemon.lock"), "{\"pid\":1,\"socket\":\"/nowhere\"}", 29);
    assert_false(cs_owner_find(in_state(""), &owner));
    start_daemon();
    assert_true(cs_owner_find(in_state(""), &owner));
    assert_int_equal(owner.pid, d.pid);
}

/* --- orders ----------------------------------------------------------------------------------- */

static void draining_can_be_undone(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=10,late=300,gate=20", 1000, 2);
    json_decref(test_client_call(c, "daemon.drain", NULL));
    json_t *reply = test_client_call(c, "daemon.drain", json_pack("{s:b}", "off", 1));
    assert_string_equal(cs_msg_type(reply), "daemon.drain");
    json_decref(reply);
    json_t *node = test_client_call(c, "node.show", NULL);
    assert_false(cs_msg_bool(node, "draining", true));
    json_decref(node);
    int64_t next = test_submit(c, "ms=0", 3, 2);
    expect_state(next, "DONE", "");
    json_decref(ask("job.stop", job));
    expect_state(job, "CANCELLED PAUSED", "");
}

static void who_listens_is_told_that_the_end_was_asked_for(void **state)
{
    (void)state;
    struct test_client *other = test_client_open(&d);
    json_decref(test_client_call(c, "daemon.stop", NULL));
    json_t *m = test_client_next(other);
    assert_non_null(m);
    assert_string_equal(cs_msg_type(m), "daemon.end");
    json_decref(m);
    test_client_close(other);
    test_client_close(c);
    c = NULL;
    assert_int_equal(test_daemon_wait(&d), 0);
    start_daemon();
}

static void one_number_of_cpu_devices(void **state)
{
    (void)state;
    stop_daemon(SIGTERM);
    d.options[1] = "12";
    start_daemon();
    json_t *node = test_client_call(c, "node.show", NULL);
    assert_string_equal(cs_msg_str(node, "here", ""), "cpu:12");
    json_decref(node);
    int64_t job = test_submit(c, "ms=0", 3, 9);
    expect_state(job, "DONE", "");
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
    json_t *show = ask("job.show", job), *list = test_client_call(c, "jobs.list", NULL);
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
    stop_daemon(SIGKILL);
    meanwhile();
    start_daemon();
    expect_state(job, state, "");
    expect_alarm(job);
}

static void nothing(void)
{
}

static void remove_history_and_states(void)
{
    char command[400];
    remove_history();
    snprintf(command, sizeof command, "rm %s/*/state.json", in_state("jobs"));
    assert_int_equal(system(command), 0);
}

static void alarms_of_a_job_stay_whoever_tells_them(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=1,alarm=3,gate=20", 40, 2);
    test_wait_steps(&d, job, 20);
    wait_rows(job, 20);
    expect_alarm(job); /* from the running one */
    restart_and_expect_alarm(job, "RUN", nothing);
    test_let(&d, job, 40);
    expect_state(job, "DONE", "");
    expect_alarm(job);
    restart_and_expect_alarm(job, "DONE", nothing);                   /* from its state file */
    restart_and_expect_alarm(job, "DONE", remove_history);            /* from both */
    restart_and_expect_alarm(job, "DONE", remove_history_and_states); /* from its journal */
    int64_t killed = test_submit(c, "ms=1,alarm=3,kill=5", 9, 2);
    expect_state(killed, "LOST", "");
    restart_and_expect_alarm(killed, "LOST", nothing);
}

/* --- a full disk ------------------------------------------------------------------------------ */

/* No file of the daemon grows, as on a full disk; its runners are not concerned. */
static void set_disk_full(bool is_full)
{
    const struct rlimit limit = {is_full ? 0 : RLIM_INFINITY, RLIM_INFINITY};
    assert_int_equal(prlimit(d.pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static void expect_behind(void)
{
    expect_warning("the history is behind the directories of 1 job and follows when it can be "
                   "written again");
}

static void expect_caught_up(int64_t job, int64_t rows)
{
    json_t *node = test_client_call(c, "node.show", NULL);
    for (int i = 0; i < 4000 && strstr(cs_msg_str(node, "warning", ""), "behind"); i++) {
        usleep(5000);
        json_decref(node);
        node = test_client_call(c, "node.show", NULL);
    }
    assert_string_equal(cs_msg_str(node, "warning", ""), ""); /* nobody has asked for the rows */
    assert_int_equal(n_rows(job), rows);
    json_decref(node);
}

static void rows_of_a_full_disk_come_when_there_is_room(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=1,gate=20,alarm=3", 60, 2);
    test_wait_steps(&d, job, 20);
    wait_rows(job, 20);
    set_disk_full(true);
    test_let(&d, job, 40);
    test_wait_steps(&d, job, 40);
    for (int i = 0; i < 3; i++)
        json_decref(ask("job.show", job)); /* it answers, and refuses nothing that can be done */
    test_let(&d, job, 60);
    expect_state(job, "DONE", "");
    assert_int_equal(n_rows(job), 20);
    expect_behind();
    set_disk_full(false);
    expect_caught_up(job, 60);
    assert_int_equal(count_events(job, "DONE"), 1);
    assert_int_equal(count_events(job, "the loss is odd"), 3);
    stop_daemon(SIGKILL);
    start_daemon();
    expect_state(job, "DONE", "");
    assert_int_equal(n_rows(job), 60);
    expect_alarm(job);
}

static void what_the_daemon_notes_on_a_full_disk_is_kept(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=1,gate=20,kill=30", 60, 2);
    test_wait_steps(&d, job, 20);
    wait_rows(job, 20);
    set_disk_full(true);
    test_let(&d, job, 60);
    expect_state(job, "LOST", "ended by signal 9");
    assert_int_equal(count_events(job, "ended by signal 9"), 0);
    expect_behind();
    set_disk_full(false);
    expect_caught_up(job, 30);
    assert_int_equal(count_events(job, "ended by signal 9"), 1);
    stop_daemon(SIGKILL);
    remove_history(); /* the note is in the directory too */
    start_daemon();
    expect_state(job, "LOST", "ended by signal 9");
    assert_int_equal(n_rows(job), 30);
    assert_int_equal(count_events(job, "ended by signal 9"), 1);
}

static void a_daemon_that_ends_on_a_full_disk_loses_nothing(void **state)
{
    (void)state;
    int64_t job = test_submit(c, "ms=1,gate=20", 60, 2);
    test_wait_steps(&d, job, 20);
    wait_rows(job, 20);
    set_disk_full(true);
    test_let(&d, job, 60);
    expect_state(job, "DONE", "");
    stop_daemon(SIGTERM);
    start_daemon();
    expect_state(job, "DONE", "");
    assert_int_equal(n_rows(job), 60);
    assert_int_equal(count_events(job, "DONE"), 1);
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
        TEST(parts_of_a_submit_are_removed),
        TEST(a_job_whose_directory_is_removed_says_so),
        TEST(a_state_directory_may_move),
        TEST(fewer_devices_hold_up_nobody_else),
        TEST(a_removed_socket_of_the_daemon_comes_back),
        TEST(a_running_job_is_found_from_another_runtime_directory),
        TEST(a_lock_says_who_holds_it_and_where),
        TEST(draining_can_be_undone),
        TEST(who_listens_is_told_that_the_end_was_asked_for),
        TEST(one_number_of_cpu_devices),
        TEST(alarms_of_a_job_stay_whoever_tells_them),
        TEST(rows_of_a_full_disk_come_when_there_is_room),
        TEST(what_the_daemon_notes_on_a_full_disk_is_kept),
        TEST(a_daemon_that_ends_on_a_full_disk_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
