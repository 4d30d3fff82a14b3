/* The runner with real processes that compute nothing (support/pretend_ranks.h): how jobs end,
 * resume, pause, fail, and who is named for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/sched/program.h"
#include "core/trace/tracefile.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "runner/runner.h"
#include "support/pretend_ranks.h"
#include "support/spec.h"
#include "support/tmpdir.h"

struct job {
    char *dir; /* $XDG_RUNTIME_DIR of the test; the job is DIR/7 */
    char path[300];
    int steps;
    struct cs_runner_options options;
};

static int setup(void **state)
{
    struct job *job = calloc(1, sizeof *job);
    job->dir = tmpdir_new();
    snprintf(job->path, sizeof job->path, "%s/7", job->dir);
    setenv("XDG_RUNTIME_DIR", job->dir, 1);
    setenv("CORNSTARCH_WORKER", "/proc/self/exe", 1);
    setenv("CORNSTARCH_FEEDER", "/proc/self/exe", 1);
    unsetenv("FAKE_FAULT");
    unsetenv("FAKE_STEP_MS");
    unsetenv("FAKE_LOG_LINES");
    unsetenv("FAKE_EVAL");
    unsetenv("FAKE_NAN");
    unsetenv("FAKE_UNTRAINED");
    job->options = (struct cs_runner_options){
        .job_dir = job->path, .hang_ns = 30000000000, .started_fd = -1, .is_foreground = true};
    *state = job;
    return 0;
}

static int teardown(void **state)
{
    struct job *job = *state;
    tmpdir_free(job->dir);
    free(job);
    return 0;
}

/* vision on one rank, the LLM on two */
static void write_job(struct job *job, int steps, int checkpoint_every, const char *plan_hash)
{
    tmpdir_write(tmpdir_path(job->dir, "train.json"), "[{}]", 4);
    json_t *spec = cs_test_spec_json(&(struct cs_test_spec){
        .llm_pp = 2, .steps = steps, .json = tmpdir_path(job->dir, "train.json")});
    char command[400];
    struct cs_buf text = {0};
    json_object_set_new(spec, "plan_hash", json_string(plan_hash));
    json_object_set_new(
        spec, "checkpoint",
        json_pack("{s:i,s:i,s:s}", "every_steps", checkpoint_every, "keep", 3, "dir", ""));
    snprintf(command, sizeof command, "mkdir -p %s", job->path);
    assert_int_equal(system(command), 0);
    cs_json_pretty(spec, &text);
    tmpdir_write(tmpdir_path(job->path, "spec.json"), text.data, text.len);
    job->steps = steps;
    cs_buf_free(&text);
    json_decref(spec);
}

static pid_t start(const struct job *job)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct cs_err err = {0};
        if (!getenv("TEST_VERBOSE") && !freopen("/dev/null", "w", stderr))
            _exit(99);
        _exit((int)cs_runner_run(&job->options, &err));
    }
    assert_true(pid > 0);
    return pid;
}

static enum cs_status wait_end(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return (enum cs_status)WEXITSTATUS(status);
}

static enum cs_status run(const struct job *job)
{
    return wait_end(start(job));
}

static json_t *state_of(const struct job *job)
{
    json_t *state = json_load_file(tmpdir_path(job->path, "state.json"), 0, NULL);
    assert_non_null(state);
    return state;
}

/* rows of the journal of one type (NULL: all), as a new array; every line must parse and check */
static json_t *journal_of(const struct job *job, const char *type, const char *kind)
{
    size_t n = 0;
    char *text = tmpdir_read(tmpdir_path(job->path, "journal"), &n);
    json_t *out = json_array();
    assert_non_null(text);
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        json_t *row = NULL;
        struct cs_err err = {0};
        assert_non_null(end);
        assert_int_equal(cs_line_parse(line, (size_t)(end - line), &row, &err), CS_OK);
        if (cs_msg_check(row, &err) != CS_OK)
            fail_msg("%s", err.text);
        if ((!type || strcmp(cs_msg_type(row), type) == 0) &&
            (!kind || strcmp(cs_msg_str(row, "kind", ""), kind) == 0))
            json_array_append(out, row);
        json_decref(row);
        line = end + 1;
    }
    free(text);
    return out;
}

static bool has_note(const struct job *job, const char *part)
{
    json_t *notes = journal_of(job, "runner.note", NULL), *note;
    size_t i;
    bool is_found = false;
    json_array_foreach(notes, i, note) is_found =
        is_found || strstr(cs_msg_str(note, "text", ""), part) != NULL;
    json_decref(notes);
    return is_found;
}

/* "" when it cannot be read; files of /proc have no size */
static size_t read_proc(const char *pid, const char *name, char *out, size_t cap)
{
    char path[300];
    snprintf(path, sizeof path, "/proc/%.20s/%s", pid, name);
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(out, 1, cap - 1, file) : 0;
    if (file)
        fclose(file);
    out[n] = '\0';
    return n;
}

/* workers and feeders of this test: by their name and our runtime directory in their environment */
static int count_left(const struct job *job)
{
    static char env[1 << 17], name[256];
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    int n = 0;
    assert_non_null(proc);
    while ((entry = readdir(proc))) {
        read_proc(entry->d_name, "cmdline", name, sizeof name);
        if (strncmp(name, "cornstarch-", 11) != 0)
            continue;
        size_t bytes = read_proc(entry->d_name, "environ", env, sizeof env);
        n += memmem(env, bytes, job->dir, strlen(job->dir)) != NULL;
    }
    closedir(proc);
    return n;
}

static void check_trace(const struct job *job, int steps)
{
    size_t bytes = 0, at = 0;
    char *file = tmpdir_read(tmpdir_path(job->path, "trace"), &bytes);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_trace_head head;
    struct cs_trace_record record;
    const struct cs_span_keys *keys[64] = {0};
    struct cs_err err = {0};
    int n = 0, n_predicted = 0;
    assert_non_null(file);
    assert_int_equal(cs_trace_head_decode(file, bytes, arena, &head, &at, &err), CS_OK);
    assert_int_equal(head.n_ranks, 3);
    assert_string_equal(head.stage[0].name, "vision.0");
    while (cs_trace_record_decode(file, bytes, &at, arena, &record, &err) == CS_OK) {
        if (record.type == CS_TRACE_PROGRAM) {
            keys[record.n_slots] = record.keys;
            continue;
        }
        struct cs_span_step spans;
        const struct cs_span_input in = {.n_ranks = head.n_ranks,
                                         .n_stages = head.n_stages,
                                         .keys = keys[record.n_slots],
                                         .events = record.events};
        assert_non_null(in.keys);
        cs_span_build(&in, arena, &spans);
        uint32_t actions = 0;
        for (int r = 0; r < head.n_ranks; r++)
            actions += in.keys[r].n;
        if (record.type == CS_TRACE_PREDICTED) {
            n_predicted++;
            assert_int_equal(spans.makespan_ns, head.predicted_ns);
            continue;
        }
        assert_int_equal(record.step, n);
        assert_int_equal(spans.n_spans, actions); /* nothing lost, nothing foreign */
        assert_int_equal(spans.n_unknown, 0);
        n++;
    }
    assert_int_equal(n, steps);
    assert_int_equal(n_predicted, 1);
    assert_int_equal(at, bytes);
    cs_arena_free(arena);
    free(file);
}

static void a_run_ends_done_with_all_its_records(void **state)
{
    struct job *job = *state;
    write_job(job, 12, 0, "");
    setenv("FAKE_EVAL", "1", 1);
    assert_int_equal(run(job), CS_OK);
    json_t *end = state_of(job), *row;
    assert_string_equal(cs_msg_str(end, "state", ""), "DONE");
    assert_int_equal(cs_msg_int(end, "step", -1), 11);
    assert_int_equal(cs_msg_int(end, "checkpoint_step", -1), 11);
    assert_int_equal(cs_msg_int(end, "generation", -1), 0);
    assert_int_equal(cs_msg_int(end, "exit", -1), 0);
    assert_int_equal(strlen(cs_msg_str(end, "weights_hash", "")), 64);
    assert_true(cs_msg_num(end, "exact_match", 0) == 0.5);
    json_decref(end);
    json_t *steps = journal_of(job, "runner.step", "train"),
           *evals = journal_of(job, "runner.step", "eval");
    size_t i;
    assert_int_equal(json_array_size(steps), 12);
    json_array_foreach(steps, i, row)
    {
        assert_int_equal(cs_msg_int(row, "step", -1), i);
        assert_true(cs_msg_num(row, "loss", 0) == 5.0 - 0.25 * (double)i);
        assert_true(cs_msg_num(row, "grad_norm", 0) == 1.5);
        assert_int_equal(cs_msg_int(row, "trained_tokens", -1), 40 + (int64_t)i);
        assert_int_equal(cs_msg_int(row, "messages_sent", -1), 9);
        assert_int_equal(json_array_size(cs_msg_arr(row, "bubble")), 3);
        assert_int_equal(json_array_size(cs_msg_arr(row, "stage_bubble")), 3);
        assert_true(cs_msg_int(row, "step_ns", 0) > 0);
    }
    assert_int_equal(json_array_size(evals), 2);
    row = json_array_get(evals, 0);
    assert_int_equal(cs_msg_int(row, "samples", 0), 16);
    assert_int_equal(cs_msg_int(row, "correct", 0), 8);
    json_decref(steps);
    json_decref(evals);
    check_trace(job, 12);
    assert_true(tmpdir_has(job->path, "plan.json"));
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-11/checkpoint.json"));
    assert_true(tmpdir_has(job->path, "logs/2.log"));
    assert_false(tmpdir_has(job->dir, "cornstarch/job-7.sock"));
    assert_int_equal(count_left(job), 0);
}

static void the_22nd_step_calibrates_the_prediction(void **state)
{
    struct job *job = *state;
    write_job(job, 24, 0, "");
    assert_int_equal(run(job), CS_OK);
    size_t bytes = 0, at = 0, n_profile = 0;
    char *file = tmpdir_read(tmpdir_path(job->path, "trace"), &bytes);
    char *profile = tmpdir_read(tmpdir_path(job->path, "profile.json"), &n_profile);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_trace_head head;
    struct cs_trace_record record;
    struct cs_err err = {0};
    json_t *doc = json_loadb(profile, n_profile, 0, NULL), *end = state_of(job);
    int64_t last_ns = 0;
    int n = 0;
    assert_int_equal(cs_msg_int(doc, "steps", 0), 20);
    assert_string_equal(cs_msg_str(doc, "plan_hash", ""), cs_msg_str(end, "plan_hash", "-"));
    assert_int_equal(cs_trace_head_decode(file, bytes, arena, &head, &at, &err), CS_OK);
    while (cs_trace_record_decode(file, bytes, &at, arena, &record, &err) == CS_OK)
        if (record.type == CS_TRACE_PREDICTED) {
            n++;
            last_ns = 0;
            for (int r = 0; r < head.n_ranks; r++)
                for (uint32_t i = 0; i < record.events[r].n; i++)
                    if ((int64_t)record.events[r].event[i].end_ns > last_ns)
                        last_ns = (int64_t)record.events[r].event[i].end_ns;
        }
    assert_int_equal(n, 2);
    assert_int_equal(cs_msg_int(end, "predicted_step_ns", 0), last_ns);
    assert_int_not_equal(last_ns, head.predicted_ns);
    assert_true(has_note(job, "calibrated: predicted step"));
    json_decref(doc);
    json_decref(end);
    cs_arena_free(arena);
    free(file);
    free(profile);
}

static void a_run_does_not_keep_the_profile_of_another(void **state)
{
    struct job *job = *state;
    struct cs_err err = {0};
    write_job(job, 6, 0, ""); /* too short to measure one of its own */
    const char *path = tmpdir_path(job->path, "profile.json");
    assert_int_equal(cs_write_file_atomic(path, "{}", 2, 0600, &err), CS_OK);
    assert_int_equal(run(job), CS_OK);
    assert_int_equal(access(tmpdir_path(job->path, "profile.json"), F_OK), -1);
}

static void check_failure(struct job *job, const char *fault, int rank, const char *const *parts)
{
    write_job(job, 12, 0, "");
    setenv("FAKE_FAULT", fault, 1);
    assert_int_equal(run(job), CS_JOB_FAILED);
    json_t *end = state_of(job);
    const char *reason = cs_msg_str(end, "reason", "");
    assert_string_equal(cs_msg_str(end, "state", ""), "FAILED");
    assert_int_equal(cs_msg_int(end, "exit", -1), 6);
    assert_int_equal(cs_msg_int(cs_msg_obj(end, "culprit"), "rank", -9), rank);
    for (; *parts; parts++)
        if (!strstr(reason, *parts))
            fail_msg("\"%s\" is not in \"%s\"", *parts, reason);
    json_decref(end);
    assert_int_equal(count_left(job), 0);
}

static void a_killed_worker_is_named_with_step_and_action(void **state)
{
    static const char *const parts[] = {"rank 1 (llm.0) died (signal 9) in step 4 at F of slot 0",
                                        "samples 1004", NULL};
    check_failure(*state, "1:4:kill", 1, parts);
}

static void a_failed_worker_is_blamed_not_its_victims(void **state)
{
    static const char *const parts[] = {"rank 2 (llm.1) failed in step 3", "the sky is green",
                                        NULL};
    check_failure(*state, "2:3:error", 2, parts);
}

static void an_exit_code_comes_with_the_last_output(void **state)
{
    static const char *const parts[] = {"rank 0 (vision.0) ended with code 42 in step 5",
                                        "giving up for a reason", NULL};
    check_failure(*state, "0:5:exit", 0, parts);
}

static void a_worker_that_leaves_without_a_word_is_a_failure(void **state)
{
    static const char *const parts[] = {"rank 1 (llm.0) ended with code 0", NULL};
    check_failure(*state, "1:6:mute", 1, parts);
}

static void a_killed_feeder_is_named(void **state)
{
    static const char *const parts[] = {"the feeder died (signal 9)", NULL};
    check_failure(*state, "-1:5:kill", -1, parts);
}

static void a_stopped_rank_is_named_then_fails_the_job(void **state)
{
    struct job *job = *state;
    static const char *const parts[] = {"rank 1 (llm.0) stands still in step 2 at F of slot 0",
                                        "the process is stopped", NULL};
    job->options.hang_ns = 200000000;
    check_failure(job, "1:2:stop", 1, parts);
    assert_true(has_note(job, "rank 1 (llm.0) stands still"));
}

static void a_rank_that_never_gets_ready_fails_the_job(void **state)
{
    struct job *job = *state;
    static const char *const parts[] = {"rank 0 (vision.0) stands still before its first step",
                                        NULL};
    job->options.hang_ns = 200000000;
    check_failure(job, "0:0:ready", 0, parts);
}

static void a_feeder_that_never_gets_ready_fails_the_job(void **state)
{
    struct job *job = *state;
    static const char *const parts[] = {"the feeder stands still", NULL};
    job->options.hang_ns = 200000000;
    check_failure(job, "-1:0:ready", -1, parts);
}

/* every worker of the job, by its name in /proc; the signal, in the order of the processes */
static void signal_workers(const struct job *job, int signal)
{
    static char env[1 << 17], name[256];
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    assert_non_null(proc);
    while ((entry = readdir(proc))) {
        read_proc(entry->d_name, "cmdline", name, sizeof name);
        size_t bytes = read_proc(entry->d_name, "environ", env, sizeof env);
        if (strcmp(name, "cornstarch-worker") == 0 &&
            memmem(env, bytes, job->dir, strlen(job->dir)) != NULL)
            kill(atoi(entry->d_name), signal);
    }
    closedir(proc);
}

static int64_t steps_of(const struct job *job)
{
    json_t *rows = tmpdir_has(job->path, "journal") ? journal_of(job, "runner.step", NULL) : NULL;
    const int64_t n = (int64_t)json_array_size(rows);
    json_decref(rows);
    return n;
}

/* as after a night's sleep of the machine: all stood still, the runner looks before ranks can move */
static void a_runner_that_stood_still_blames_nobody(void **state)
{
    struct job *job = *state;
    write_job(job, 400, 0, "");
    setenv("FAKE_STEP_MS", "20", 1);
    job->options.hang_ns = 200000000;
    pid_t pid = start(job);
    while (steps_of(job) < 5)
        usleep(10000);
    kill(pid, SIGSTOP);
    signal_workers(job, SIGSTOP);
    sleep(5);
    kill(pid, SIGCONT);
    usleep(200000);
    signal_workers(job, SIGCONT);
    assert_int_equal(wait_end(pid), CS_OK);
    assert_true(has_note(job, "the runner itself stood still for"));
    assert_false(has_note(job, "stands still"));
}

static void a_failed_run_resumes_to_the_same_weights(void **state)
{
    struct job *job = *state;
    write_job(job, 10, 3, "");
    assert_int_equal(run(job), CS_OK);
    json_t *whole = state_of(job);
    char command[400];
    snprintf(command, sizeof command, "rm -r %s", job->path);
    assert_int_equal(system(command), 0);
    write_job(job, 10, 3, "");
    setenv("FAKE_FAULT", "1:7:kill", 1);
    assert_int_equal(run(job), CS_JOB_FAILED);
    unsetenv("FAKE_FAULT");
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-5"));
    assert_int_equal(run(job), CS_OK);
    json_t *end = state_of(job);
    assert_string_equal(cs_msg_str(end, "state", ""), "DONE");
    assert_int_equal(cs_msg_int(end, "generation", -1), 1);
    assert_string_equal(cs_msg_str(end, "weights_hash", "a"),
                        cs_msg_str(whole, "weights_hash", "b"));
    assert_true(has_note(job, "going on from the checkpoint of step 5"));
    json_t *trainer = json_load_file(tmpdir_path(job->path, "ckpt/ckpt-9/trainer.json"), 0, NULL);
    assert_int_equal(cs_msg_int(trainer, "tokens", 0), 10 * 40 + 45); /* each step once */
    assert_int_equal(cs_msg_int(trainer, "samples", 0), 80);
    json_decref(trainer);
    json_t *steps = journal_of(job, "runner.step", "train");
    assert_int_equal(cs_msg_int(json_array_get(steps, json_array_size(steps) - 4), "step", -1), 6);
    json_decref(steps);
    /* a finished job started again is done at once */
    assert_int_equal(run(job), CS_OK);
    json_t *again = state_of(job);
    assert_string_equal(cs_msg_str(again, "state", ""), "DONE");
    assert_string_equal(cs_msg_str(again, "weights_hash", "a"),
                        cs_msg_str(whole, "weights_hash", "b"));
    json_decref(again);
    json_decref(end);
    json_decref(whole);
}

static void a_failed_save_does_not_fail_the_run(void **state)
{
    struct job *job = *state;
    write_job(job, 10, 3, "");
    setenv("FAKE_FAULT", "1:5:save", 1);
    assert_int_equal(run(job), CS_OK);
    assert_true(has_note(job, "the checkpoint of step 5 failed"));
    assert_true(has_note(job, "disk full"));
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-2"));
    assert_false(tmpdir_has(job->path, "ckpt/ckpt-5"));
    assert_false(tmpdir_has(job->path, "ckpt/ckpt-5.tmp"));
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-9"));
}

static void a_lost_final_checkpoint_fails_the_run(void **state)
{
    struct job *job = *state;
    write_job(job, 10, 3, "");
    setenv("FAKE_FAULT", "1:9:save", 1);
    assert_int_equal(run(job), CS_JOB_FAILED);
    json_t *end = state_of(job);
    assert_non_null(strstr(cs_msg_str(end, "reason", ""), "final checkpoint of step 9"));
    assert_int_equal(cs_msg_int(end, "checkpoint_step", -1), 8);
    json_decref(end);
}

static void assert_failed(const struct job *job, const char *reason, const char *rule)
{
    json_t *end = state_of(job);
    const json_t *alarms = cs_msg_arr(end, "alarms");
    bool is_told = false;
    assert_string_equal(cs_msg_str(end, "state", ""), "FAILED");
    assert_int_equal(cs_msg_int(end, "exit", -1), 6);
    if (!strstr(cs_msg_str(end, "reason", ""), reason))
        fail_msg("\"%s\" is not in \"%s\"", reason, cs_msg_str(end, "reason", ""));
    for (size_t i = 0; i < json_array_size(alarms); i++)
        is_told = is_told || strcmp(cs_msg_str(json_array_get(alarms, i), "rule", ""), rule) == 0;
    assert_true(is_told);
    json_decref(end);
    assert_int_equal(count_left(job), 0);
}

static void updates_that_are_skipped_in_a_row_fail_the_run(void **state)
{
    struct job *job = *state;
    write_job(job, 200, 7, "");
    setenv("FAKE_NAN", "7", 1);
    setenv("FAKE_STEP_MS", "20", 1); /* they shall not be far ahead when the runner ends them */
    assert_int_equal(run(job), CS_JOB_FAILED);
    assert_failed(job, "5 of 12 updates skipped", "skipped_updates");
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-6/checkpoint.json"));
}

static void a_run_too_short_for_that_has_learned_nothing(void **state)
{
    struct job *job = *state;
    write_job(job, 4, 0, "");
    setenv("FAKE_NAN", "0", 1);
    assert_int_equal(run(job), CS_JOB_FAILED);
    assert_failed(job, "4 of 4 updates skipped", "learned_nothing");
    /* and it stays so: all its steps are done */
    assert_int_equal(run(job), CS_JOB_FAILED);
    assert_failed(job, "4 of 4 updates skipped", "learned_nothing");
}

/* the last step alone breaks the parameters: no rule of the steps before tells */
static void a_final_checkpoint_that_is_not_finite_fails_the_run(void **state)
{
    struct job *job = *state;
    write_job(job, 6, 0, "");
    setenv("FAKE_NAN", "5", 1);
    assert_int_equal(run(job), CS_JOB_FAILED);
    assert_failed(job, "NaN or infinite elements", "nonfinite_weights");
    assert_int_equal(run(job), CS_JOB_FAILED); /* it does not become DONE by asking again */
    assert_failed(job, "NaN or infinite elements", "nonfinite_weights");
}

static void remove_while_it_runs(struct job *job, const char *what, const char *reason)
{
    char command[400];
    write_job(job, 150, 0, "");
    setenv("FAKE_STEP_MS", "20", 1);
    pid_t pid = start(job);
    while (steps_of(job) < 5)
        usleep(10000);
    snprintf(command, sizeof command, "rm -r %s%s", job->path, what);
    assert_int_equal(system(command), 0);
    assert_int_equal(wait_end(pid), CS_JOB_FAILED);
    assert_failed(job, reason, "files_lost");
    assert_true(tmpdir_has(job->path, "ckpt/ckpt-149/checkpoint.json"));
    assert_true(steps_of(job) > 10); /* what came after it was noticed */
}

static void a_journal_that_is_removed_is_noticed(void **state)
{
    remove_while_it_runs(*state, "/journal", "removed meanwhile: the journal after step ");
}

static void a_directory_that_is_removed_is_noticed(void **state)
{
    struct job *job = *state;
    remove_while_it_runs(job, "", "removed meanwhile: the directory after step ");
    assert_true(tmpdir_has(job->path, "spec.json"));
}

static void a_run_without_trained_tokens_fails(void **state)
{
    struct job *job = *state;
    write_job(job, 6, 0, "");
    setenv("FAKE_UNTRAINED", "1", 1);
    setenv("FAKE_EVAL", "1", 1);
    assert_int_equal(run(job), CS_JOB_FAILED);
    assert_failed(job, "no token of its 6 steps was trained", "evaluation");
    assert_failed(job, "no token of its 6 steps was trained", "untrained_steps");
}

static void another_plan_than_previewed_is_refused(void **state)
{
    struct job *job = *state;
    write_job(job, 4, 0, "00000000000000000000000000000000000000000000000000000000000000aa");
    assert_int_equal(run(job), CS_PLAN);
    assert_false(tmpdir_has(job->path, "plan.json"));
    job->options.is_replan = true;
    assert_int_equal(run(job), CS_OK);
}

static int dial(const struct job *job)
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
    struct job *job = *state;
    write_job(job, 40, 0, "");
    setenv("FAKE_STEP_MS", "20", 1);
    pid_t pid = start(job);
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
    assert_int_equal(wait_end(pid), CS_OK);
    close(fd);
    cs_line_reader_free(lines);
    json_t *paused = state_of(job);
    int64_t step = cs_msg_int(paused, "step", -1);
    assert_true(step >= 0 && step < 39);
    assert_int_equal(cs_msg_int(paused, "checkpoint_step", -1), step);
    json_decref(paused);
    setenv("FAKE_STEP_MS", "0", 1);
    assert_int_equal(run(job), CS_OK);
    json_t *steps = journal_of(job, "runner.step", "train");
    assert_int_equal(json_array_size(steps), 40); /* none lost, none twice */
    json_decref(steps);
}

static void stop_now_ends_without_a_checkpoint(void **state)
{
    struct job *job = *state;
    write_job(job, 1000, 0, "");
    setenv("FAKE_STEP_MS", "10", 1);
    pid_t pid = start(job);
    int fd = dial(job);
    struct cs_line_reader *lines = cs_line_reader_new();
    cs_line_reader_limit(lines, 0);
    json_decref(must_hear(fd, lines, "runner.step"));
    say(fd, "{\"type\":\"runner.stop\",\"now\":true}\n");
    assert_int_equal(wait_end(pid), CS_OK);
    close(fd);
    cs_line_reader_free(lines);
    json_t *end = state_of(job);
    assert_string_equal(cs_msg_str(end, "state", ""), "CANCELLED");
    assert_int_equal(cs_msg_int(end, "checkpoint_step", 0), -1);
    json_decref(end);
    assert_int_equal(count_left(job), 0);
}

static void sigterm_pauses_also_when_repeated(void **state)
{
    struct job *job = *state;
    write_job(job, 1000, 0, "");
    setenv("FAKE_STEP_MS", "10", 1);
    pid_t pid = start(job);
    int fd = dial(job);
    struct cs_line_reader *lines = cs_line_reader_new();
    cs_line_reader_limit(lines, 0);
    json_decref(must_hear(fd, lines, "runner.step"));
    for (int i = 0; i < 3; i++) {
        kill(pid, SIGTERM);
        usleep(3000);
    }
    assert_int_equal(wait_end(pid), CS_OK);
    close(fd);
    cs_line_reader_free(lines);
    json_t *end = state_of(job);
    assert_string_equal(cs_msg_str(end, "state", ""), "PAUSED");
    assert_int_equal(cs_msg_int(end, "checkpoint_step", -1), cs_msg_int(end, "step", -2));
    json_decref(end);
}

static void a_killed_runner_leaves_no_process(void **state)
{
    struct job *job = *state;
    write_job(job, 1000, 0, "");
    setenv("FAKE_STEP_MS", "10", 1);
    pid_t pid = start(job);
    int fd = dial(job), status;
    struct cs_line_reader *lines = cs_line_reader_new();
    cs_line_reader_limit(lines, 0);
    json_decref(must_hear(fd, lines, "runner.step"));
    assert_int_equal(count_left(job), 4);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (int i = 0; i < 1000 && count_left(job) > 0; i++)
        usleep(10000);
    assert_int_equal(count_left(job), 0);
    close(fd);
    cs_line_reader_free(lines);
    /* the stale socket and the torn journal do not stop the next run */
    setenv("FAKE_STEP_MS", "0", 1);
    assert_int_equal(run(job), CS_OK);
}

/* As a clean-up of /run does at the end of a session: the socket's file, then all of its directory. */
static void a_removed_control_socket_comes_back(void **state)
{
    struct job *job = *state;
    char command[400];
    write_job(job, 100000, 0, "");
    setenv("FAKE_STEP_MS", "10", 1);
    pid_t pid = start(job);
    close(dial(job));
    snprintf(command, sizeof command, "rm %s/cornstarch/job-7.sock", job->dir);
    assert_int_equal(system(command), 0);
    kill(pid, SIGUSR1); /* look now; it looks by itself as well */
    close(dial(job));
    snprintf(command, sizeof command, "rm -r %s/cornstarch", job->dir);
    assert_int_equal(system(command), 0);
    int fd = dial(job);
    say(fd, "{\"type\":\"runner.stop\",\"now\":true}\n");
    assert_int_equal(wait_end(pid), CS_OK);
    close(fd);
    json_t *notes = journal_of(job, "runner.note", NULL), *ended = state_of(job);
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
    struct job *job = *state;
    write_job(job, 100000, 0, "");
    setenv("FAKE_STEP_MS", "10", 1);
    pid_t pid = start(job);
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
    assert_int_equal(wait_end(pid), CS_OK);
    close(fd);
    close(other);
}

static void a_peer_that_does_not_read_gets_a_gap_marker(void **state)
{
    struct job *job = *state;
    write_job(job, 12, 0, "");
    setenv("FAKE_LOG_LINES", "5000", 1);
    setenv("FAKE_STEP_MS", "100", 1);
    pid_t pid = start(job);
    int fd = dial(job);
    for (int i = 0; i < 2000; i++) { /* do not read until most of the job is over */
        json_t *steps =
            tmpdir_has(job->path, "journal") ? journal_of(job, "runner.step", NULL) : NULL;
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
    assert_int_equal(wait_end(pid), CS_OK);
}

#define LIFE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(int argc, char **argv)
{
    (void)argc;
    pretend_main(argv);
    const struct CMUnitTest tests[] = {
        LIFE(a_run_ends_done_with_all_its_records),
        LIFE(the_22nd_step_calibrates_the_prediction),
        LIFE(a_run_does_not_keep_the_profile_of_another),
        LIFE(a_killed_worker_is_named_with_step_and_action),
        LIFE(a_failed_worker_is_blamed_not_its_victims),
        LIFE(an_exit_code_comes_with_the_last_output),
        LIFE(a_worker_that_leaves_without_a_word_is_a_failure),
        LIFE(a_killed_feeder_is_named),
        LIFE(a_stopped_rank_is_named_then_fails_the_job),
        LIFE(a_rank_that_never_gets_ready_fails_the_job),
        LIFE(a_feeder_that_never_gets_ready_fails_the_job),
        LIFE(a_runner_that_stood_still_blames_nobody),
        LIFE(a_failed_run_resumes_to_the_same_weights),
        LIFE(a_failed_save_does_not_fail_the_run),
        LIFE(a_lost_final_checkpoint_fails_the_run),
        LIFE(updates_that_are_skipped_in_a_row_fail_the_run),
        LIFE(a_run_too_short_for_that_has_learned_nothing),
        LIFE(a_final_checkpoint_that_is_not_finite_fails_the_run),
        LIFE(a_journal_that_is_removed_is_noticed),
        LIFE(a_directory_that_is_removed_is_noticed),
        LIFE(a_run_without_trained_tokens_fails),
        LIFE(another_plan_than_previewed_is_refused),
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
