/* Settles jobs whose runner is gone: by the state that it wrote last, else by how it ended. */
#include "server/life/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/wire/wire.h"
#include "server/jobs/job_dir.h"
#include "server/jobs/journal.h"

void cs_job_fail(struct cs_job *job, const char *reason)
{
    cs_job_set_state(job, &(struct cs_job_change){.state = CS_STATE_FAILED, .reason = reason});
}

void cs_job_fail_gone(struct cs_job *job)
{
    struct cs_err err;
    (void)cs_fail(&err, CS_NOT_FOUND, "its directory %.900s was removed", job->row.dir);
    cs_job_fail(job, err.text);
}

bool cs_runner_is_alive(const struct cs_job *job)
{
    int fd = open(job->row.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd == -1)
        return false;
    bool is_alive = flock(fd, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK;
    close(fd);
    return is_alive;
}

void cs_job_import(struct cs_job *job)
{
    struct cs_err err;
    const bool was_behind = job->is_behind;
    job->is_behind = cs_journal_import(job, &err) != CS_OK;
    if (job->is_behind && !was_behind)
        cs_job_cannot_write(job, "journal.import", &err);
    if (was_behind && !job->is_behind)
        cs_log(job->server->log, CS_INFO, "journal.caught_up", CS_KV("job", job->row.id));
}

bool cs_job_last_words(const struct cs_job *job, const char *name, char *out, size_t cap)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0}, clean = {0};
    struct cs_err err;
    bool is_said = false;
    out[0] = '\0';
    if (cs_path(path, &err, "%s/logs/%s", job->row.dir, name) == CS_OK &&
        cs_read_file(path, 1 << 20, &text, &err) == CS_OK && text.len) {
        while (text.len && text.data[text.len - 1] == '\n')
            text.data[--text.len] = '\0';
        const char *line = strrchr(text.data, '\n');
        line = line ? line + 1 : text.data;
        static const char prefix[] = "cornstarch-runner: ";
        is_said = cs_str_starts(line, prefix);
        line += is_said ? sizeof(prefix) - 1 : 0;
        cs_str_escape(&clean, line, strlen(line), false);
        snprintf(out, cap, "%s", cs_buf_str(&clean));
    }
    cs_buf_free(&text);
    cs_buf_free(&clean);
    return is_said;
}

void cs_job_forget_words(const struct cs_job *job, const char *name)
{
    char path[CS_PATH_CAP];
    if (cs_path(path, NULL, "%s/logs/%s", job->row.dir, name) == CS_OK)
        (void)unlink(path); /* mostly there is none */
}

/* 0: not known. What state.json says holds while the lock is held, unless it is of an earlier runner. */
static pid_t pid_of_runner(const struct cs_job *job)
{
    if (job->runner_pid != 0 || !cs_runner_is_alive(job))
        return job->runner_pid;
    json_t *state = cs_job_read_state_file(job);
    const bool is_its = cs_msg_int(state, "generation", -1) >= job->row.generation;
    const pid_t pid = is_its ? (pid_t)cs_msg_int(state, "pid", 0) : 0;
    json_decref(state);
    return pid;
}

void cs_job_end_runner(struct cs_job *job)
{
    if (job->stop_by_ns == 0 || cs_now_ns() < job->stop_by_ns || job->is_runner_ended)
        return;
    const pid_t pid = pid_of_runner(job);
    job->is_runner_ended = pid > 0 && kill(pid, SIGKILL) == 0;
    if (job->is_runner_ended)
        cs_log(job->server->log, CS_WARN, "runner.killed", CS_KV("job", job->row.id),
               CS_KV("pid", pid));
}

/* state: state.json, which may know of one that nobody told us of */
static void say_resume(const struct cs_job *job, const json_t *state, char *out, size_t cap)
{
    const int64_t written = cs_msg_int(state, "checkpoint_step", -1);
    const int64_t step = written > job->row.checkpoint_step ? written : job->row.checkpoint_step;
    if (step >= 0)
        snprintf(out, cap, "resume goes on from the checkpoint of step %lld", (long long)step);
    else
        snprintf(out, cap, "it has no checkpoint: resume begins anew");
}

/* It ended without a final state: why, from the status of our child (-1: it was not ours). */
static void settle_silent(struct cs_job *job, const json_t *state, int status)
{
    char words[700], reason[1000], then[100];
    if (!cs_job_dir_is_there(&job->row)) {
        cs_job_fail_gone(job);
        return;
    }
    if (job->is_runner_ended) {
        cs_job_set_state(job,
                         &(struct cs_job_change){.state = CS_STATE_CANCELLED,
                                                 .reason = "stopped on request: its runner did "
                                                           "not answer, and was ended"});
        return;
    }
    const int code = status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    const bool is_said = cs_job_last_words(job, "runner.err", words, sizeof(words));
    if (code != 0 || (status == -1 && is_said)) {
        if (words[0] == '\0')
            snprintf(words, sizeof words, "its runner ended with code %d and said nothing of why",
                     code);
        cs_job_set_state(
            job, &(struct cs_job_change){.state = CS_STATE_FAILED,
                                         .reason = words,
                                         .is_plan_invalid = code == cs_status_exit(CS_PLAN)});
        return;
    }
    say_resume(job, state, then, sizeof then);
    if (status != -1 && WIFSIGNALED(status))
        snprintf(reason, sizeof(reason), "its runner was ended by signal %d (%s); %s",
                 WTERMSIG(status), strsignal(WTERMSIG(status)), then);
    else
        snprintf(reason, sizeof(reason), "its runner ended without a word; %s", then);
    cs_job_set_state(job, &(struct cs_job_change){.state = CS_STATE_LOST, .reason = reason});
}

/* Fields that runner.state, runner.status replies and state.json share. A runner counts the last
 * finished step from 0, -1 for none; a job shows how many steps are finished. */
static void take_progress(struct cs_job *job, const json_t *message)
{
    struct cs_job_row *row = &job->row;
    if (cs_msg_int(message, "step", -2) >= -1)
        row->step = cs_msg_int(message, "step", -1) + 1;
    row->generation = cs_msg_int(message, "generation", row->generation);
    row->checkpoint_step = cs_msg_int(message, "checkpoint_step", row->checkpoint_step);
    row->predicted_step_ns = cs_msg_int(message, "predicted_step_ns", row->predicted_step_ns);
    if (cs_msg_arr(message, "alarms"))
        cs_job_set_alarms(job, json_deep_copy(cs_msg_arr(message, "alarms")));
    const char *hash = cs_msg_str(message, "plan_hash", NULL);
    if (hash && hash[0])
        snprintf(row->plan_hash, sizeof(row->plan_hash), "%s", hash);
}

/* A stop that came while the runner ended for a pause holds all the same. */
void cs_job_take_state(struct cs_job *job, const struct cs_job_state_row *row,
                       const json_t *message)
{
    const bool is_stopped = job->row.stop != CS_STOP_NONE;
    take_progress(job, message);
    cs_job_set_state(job,
                     &(struct cs_job_change){.state = row->state,
                                             .reason = cs_msg_str(message, "reason", NULL),
                                             .is_plan_invalid = cs_msg_int(message, "exit", 0) ==
                                                                cs_status_exit(CS_PLAN),
                                             .is_in_journal = true,
                                             .wall_ns = cs_msg_int(message, "wall_ns", 0)});
    if (row->state == CS_STATE_PAUSED && is_stopped)
        cs_job_set_state(job, &(struct cs_job_change){.state = CS_STATE_CANCELLED,
                                                      .reason = "stopped on request"});
}

bool cs_job_state_is_final(const struct cs_job_state_row *row)
{
    return row->phase == CS_PHASE_RESTING || row->phase == CS_PHASE_ENDED;
}

/* The runner is gone: state.json tells how it ended, if it could still write it. A state of an
 * earlier generation is not its own. */
void cs_job_settle(struct cs_job *job, int status)
{
    cs_job_import(job);
    json_t *state = cs_job_read_state_file(job);
    const struct cs_job_state_row *row = cs_job_state_find(cs_msg_str(state, "state", ""));
    if (row != NULL && cs_job_state_is_final(row) &&
        cs_msg_int(state, "generation", -1) >= job->row.generation) {
        cs_job_take_state(job, row, state);
    } else {
        settle_silent(job, state, status);
    }
    json_decref(state);
}
