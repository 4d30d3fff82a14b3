/* A job of the runner whose processes compute nothing: its files, its run, what it left. */
#include "support/pretend_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "support/pretend_ranks.h"
#include "support/spec.h"
#include "support/tmpdir.h"

int pretend_setup(void **state)
{
    struct pretend_job *job = calloc(1, sizeof *job);
    job->dir = tmpdir_new();
    snprintf(job->path, sizeof job->path, "%s/7", job->dir);
    setenv("XDG_RUNTIME_DIR", job->dir, 1);
    setenv("CORNSTARCH_WORKER", "/proc/self/exe", 1);
    setenv("CORNSTARCH_FEEDER", "/proc/self/exe", 1);
    setenv("CORNSTARCH_PRETEND", "1", 1);
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

int pretend_teardown(void **state)
{
    struct pretend_job *job = *state;
    tmpdir_free(job->dir);
    free(job);
    return 0;
}

/* vision on one rank, the LLM on two */
void pretend_write(struct pretend_job *job, int steps, int checkpoint_every, const char *plan_hash)
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

pid_t pretend_start(const struct pretend_job *job)
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

enum cs_status pretend_wait_end(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return (enum cs_status)WEXITSTATUS(status);
}

enum cs_status pretend_run(const struct pretend_job *job)
{
    return pretend_wait_end(pretend_start(job));
}

json_t *pretend_state(const struct pretend_job *job)
{
    json_t *state = json_load_file(tmpdir_path(job->path, "state.json"), 0, NULL);
    assert_non_null(state);
    return state;
}

/* rows of the journal of one type (NULL: all), as a new array; every line must parse and check */
json_t *pretend_journal(const struct pretend_job *job, const char *type, const char *kind)
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

bool pretend_has_note(const struct pretend_job *job, const char *part)
{
    json_t *notes = pretend_journal(job, "runner.note", NULL), *note;
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
int pretend_count_left(const struct pretend_job *job)
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

/* every worker of the job, by its name in /proc; the signal, in the order of the processes */
void pretend_signal_workers(const struct pretend_job *job, int signal)
{
    static char env[1 << 17], name[256];
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    assert_non_null(proc);
    while ((entry = readdir(proc))) {
        read_proc(entry->d_name, "cmdline", name, sizeof name);
        size_t bytes = read_proc(entry->d_name, "environ", env, sizeof env);
        if (pretend_is(name, "cornstarch-worker") &&
            memmem(env, bytes, job->dir, strlen(job->dir)) != NULL)
            kill(atoi(entry->d_name), signal);
    }
    closedir(proc);
}

int64_t pretend_steps(const struct pretend_job *job)
{
    json_t *rows =
        tmpdir_has(job->path, "journal") ? pretend_journal(job, "runner.step", NULL) : NULL;
    const int64_t n = (int64_t)json_array_size(rows);
    json_decref(rows);
    return n;
}
