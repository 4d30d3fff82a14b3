/* Leads a job through its life with its runner: start, first contact, what it reports, its end; adoption after a
 * restart of the daemon. A runner is alive as long as it holds the lock on the job directory. */
#include "server/job_life.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/str.h"
#include "core/wire/wire.h"
#include "net/conn.h"
#include "net/unix.h"
#include "server/caller.h"
#include "server/history.h"
#include "server/job_dir.h"
#include "server/journal.h"
#include "server/node.h"
#include "server/runner_start.h"

enum { CONNECT_TIMEOUT_S = 20, SECOND_NS = 1000000000 };

/* --- start ------------------------------------------------------------------------------------ */

static void fail_job(struct cs_job *job, const char *reason)
{
    cs_job_set_state(job, &(struct cs_job_change){.state = CS_STATE_FAILED,
                                                  .reason = reason,
                                                  .exit_code = cs_status_exit(CS_JOB_FAILED)});
}

static void fail_without_directory(struct cs_job *job)
{
    struct cs_err err;
    (void)cs_fail(&err, CS_NOT_FOUND, "its directory %.900s was removed", job->row.dir);
    fail_job(job, err.text);
}

/* Never asked about a child of ours: the question takes the lock for a moment. */
static bool is_runner_alive(const struct cs_job *job)
{
    int fd = open(job->row.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd == -1)
        return false;
    bool is_alive = flock(fd, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK;
    close(fd);
    return is_alive;
}

/* The runner gets its lock from us, so that a runner that is only coming up counts as alive. false:
 * the job's last runner still holds it. *fd -1: the directory cannot be opened; the runner will say so. */
static bool take_lock(const struct cs_job *job, int *fd)
{
    *fd = open(job->row.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd == -1 || flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    close(*fd);
    return false;
}

static void socket_of(const struct cs_job *job, char *out, size_t cap)
{
    snprintf(out, cap, "%s/job-%lld.sock", job->server->runtime_dir, (long long)job->row.id);
}

static enum cs_status start_runner(struct cs_job *job, int lock_fd, struct cs_err *err)
{
    const struct cs_here devices = cs_node_here(job->server);
    char socket[CS_PATH_CAP + 32], visible[4000], lease[8192], here[64];
    socket_of(job, socket, sizeof socket);
    cs_node_visible(job, visible, sizeof visible);
    cs_node_rank_devices(job, lease, sizeof lease);
    cs_here_print(&devices, here, sizeof here);
    const struct cs_runner_start start = {.job = job->row.id,
                                          .dir = job->row.dir,
                                          .socket = socket,
                                          .visible = visible,
                                          .lease = lease,
                                          .here = here,
                                          .lock_fd = lock_fd};
    return cs_runner_start(&start, &job->runner_pid, err);
}

/* STARTING is on disk before the fork: whatever happens to us, nobody starts a second runner. */
static void start(struct cs_job *job, int lock_fd)
{
    struct cs_err err;
    json_t *state = cs_job_read_state_file(job);
    job->row.generation = cs_msg_int(state, "generation", -1) + 1; /* as the runner counts */
    json_decref(state);
    job->deadline_ns = cs_now_ns() + (int64_t)CONNECT_TIMEOUT_S * SECOND_NS;
    job->retry_ns = 0;
    job->pending_stop = CS_STOP_NONE;
    job->is_pause_sent = false;
    cs_node_lease(job);
    cs_job_set_state(job,
                     &(struct cs_job_change){.state = CS_STATE_STARTING, .is_in_journal = true});
    if (start_runner(job, lock_fd, &err) != CS_OK)
        fail_job(job, err.text);
}

/* Says so once, and again when the figures change. */
static void tell_too_large(struct cs_job *job, int64_t offered)
{
    char reason[200];
    snprintf(reason, sizeof reason, "it needs %lld %s, this node offers %lld now",
             (long long)job->row.ranks, cs_job_is_on_gpus(job) ? "GPUs" : "CPU devices",
             (long long)offered);
    if (strcmp(reason, job->row.reason) != 0)
        cs_job_set_state(job, &(struct cs_job_change){.state = CS_STATE_QUEUED, .reason = reason});
}

/* First come, first served: false when those behind it must wait. One that this node could never
 * take, since it was started with fewer devices, is passed by. */
static bool start_next(struct cs_job *job)
{
    struct cs_server *server = job->server;
    const bool is_gpu = cs_job_is_on_gpus(job);
    const int64_t offered = cs_node_offers(server, is_gpu);
    int lock_fd;
    if (job->runner_pid || job->link)
        return false;
    if (!cs_job_dir_is_there(&job->row)) {
        fail_without_directory(job);
        return true;
    }
    if (job->row.ranks > offered) {
        tell_too_large(job, offered);
        return true;
    }
    /* the job's last runner may still be ending */
    if (cs_node_held(server, is_gpu) + job->row.ranks > offered || !take_lock(job, &lock_fd))
        return false;
    start(job, lock_fd);
    if (lock_fd != -1)
        close(lock_fd);
    return true;
}

void cs_jobs_start_queued(struct cs_server *server)
{
    for (size_t i = 0; i < server->n_jobs && !server->is_draining && !server->is_stopping; i++)
        if (cs_job_is(server->jobs[i], CS_STATE_QUEUED) && !start_next(server->jobs[i]))
            break;
}

/* --- end -------------------------------------------------------------------------------------- */

static void import(struct cs_job *job)
{
    struct cs_err err;
    if (cs_journal_import(job, &err) != CS_OK)
        cs_log(job->server->log, CS_WARN, "journal.import", CS_KV("job", job->row.id),
               CS_KV("error", (const char *)err.text));
}

/* What a runner that could not even begin said last: "cornstarch-runner: TEXT". */
static void last_words(const struct cs_job *job, char *out, size_t cap)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0}, clean = {0};
    struct cs_err err;
    out[0] = '\0';
    if (cs_path(path, &err, "%s/logs/runner.err", job->row.dir) == CS_OK &&
        cs_read_file(path, 1 << 20, &text, &err) == CS_OK && text.len) {
        while (text.len && text.data[text.len - 1] == '\n')
            text.data[--text.len] = '\0';
        const char *line = strrchr(text.data, '\n');
        line = line ? line + 1 : text.data;
        static const char prefix[] = "cornstarch-runner: ";
        if (cs_str_starts(line, prefix))
            line += sizeof(prefix) - 1;
        cs_str_escape(&clean, line, strlen(line), false);
        snprintf(out, cap, "%s", cs_buf_str(&clean));
    }
    cs_buf_free(&text);
    cs_buf_free(&clean);
}

/* It ended without a final state: why, from the status of our child (-1: it was not ours). */
static void settle_silent(struct cs_job *job, int status)
{
    char words[700], reason[1000];
    if (!cs_job_dir_is_there(&job->row)) {
        fail_without_directory(job);
        return;
    }
    int code = status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (code != 0) {
        last_words(job, words, sizeof(words));
        snprintf(reason, sizeof(reason), "%s",
                 words[0] ? words : "its runner could not start; see logs/runner.err");
        cs_job_set_state(job, &(struct cs_job_change){.state = CS_STATE_FAILED,
                                                      .reason = reason,
                                                      .exit_code = code < 7 ? code : 6});
        return;
    }
    if (status != -1 && WIFSIGNALED(status))
        snprintf(
            reason, sizeof(reason),
            "its runner was ended by signal %d (%s); resume goes on from the newest checkpoint",
            WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(reason, sizeof(reason),
                 "its runner ended without a word; resume goes on from the newest checkpoint");
    cs_job_set_state(job, &(struct cs_job_change){.state = CS_STATE_LOST,
                                                  .reason = reason,
                                                  .exit_code = cs_status_exit(CS_JOB_FAILED)});
}

static void take_progress(struct cs_job *job, const json_t *message);

static bool is_final(const struct cs_job_state_row *row)
{
    return row->phase == CS_PHASE_RESTING || row->phase == CS_PHASE_ENDED;
}

/* The runner is gone: state.json tells how it ended, if it could still write it. A state of an
 * earlier generation is not its own. */
static void settle(struct cs_job *job, int status)
{
    import(job);
    json_t *state = cs_job_read_state_file(job);
    const struct cs_job_state_row *row = cs_job_state_find(cs_msg_str(state, "state", ""));
    if (row != NULL && is_final(row) &&
        cs_msg_int(state, "generation", -1) >= job->row.generation) {
        take_progress(job, state);
        cs_job_set_state(job, &(struct cs_job_change){.state = row->state,
                                                      .reason = cs_msg_str(state, "reason", NULL),
                                                      .exit_code = cs_msg_int(state, "exit", 0),
                                                      .is_in_journal = true});
    } else {
        settle_silent(job, status);
    }
    json_decref(state);
}

static void child_ended(struct cs_job *job, int status)
{
    job->runner_pid = 0;
    if (job->link != NULL)
        cs_conn_drain(job->link);
    cs_conn_free(job->link);
    job->link = NULL;
    if (cs_job_is_live(job))
        settle(job, status);
    else
        import(job);
}

void cs_jobs_reap(struct cs_server *server)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < server->n_jobs; i++)
            if (server->jobs[i]->runner_pid == pid) {
                child_ended(server->jobs[i], status);
                break;
            }
    cs_jobs_start_queued(server);
}

/* The end of a connection is not the end of a runner: the next tick connects again or finds it
 * gone. */
static void lose_runner(struct cs_job *job)
{
    job->deadline_ns = cs_now_ns();
    job->retry_ns = 0;
}

/* --- what runners report ---------------------------------------------------------------------- */

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

static void forward(struct cs_job *job, const json_t *message, const char *type,
                    enum cs_event_class class)
{
    json_t *event = json_copy((json_t *)(uintptr_t)message);
    CS_ASSERT(event != NULL);
    cs_msg_set_str(event, "type", type);
    json_object_del(event, "id");
    cs_msg_set_int(event, "job", job->row.id);
    cs_publish(job->server, class, job->row.id, event);
    json_decref(event);
}

/* A final state is the last thing a runner says: everything before it is in the journal by then. */
static void on_state(struct cs_job *job, const json_t *m)
{
    const char *name = cs_msg_str(m, "state", "");
    const struct cs_job_state_row *row = cs_job_state_find(name);
    if (row == NULL || row->phase == CS_PHASE_WAITING) {
        cs_log(job->server->log, CS_WARN, "runner.state", CS_KV("job", job->row.id),
               CS_KV("state", name));
        return;
    }
    if (!cs_job_is_live(job))
        return; /* an echo: the job has ended or waits for its next runner */
    if (is_final(row))
        import(job);
    take_progress(job, m);
    cs_job_set_state(job, &(struct cs_job_change){.state = row->state,
                                                  .reason = cs_msg_str(m, "reason", NULL),
                                                  .exit_code = cs_msg_int(m, "exit", 0),
                                                  .is_in_journal = true});
}

static void on_step(struct cs_job *job, const json_t *m)
{
    if (strcmp(cs_msg_str(m, "kind", "train"), "train") == 0) {
        job->row.step = cs_msg_int(m, "step", 0) + 1;
        job->row.loss = cs_msg_num(m, "loss", (double)NAN);
        job->row.step_ns = cs_msg_int(m, "step_ns", job->row.step_ns);
    }
    forward(job, m, "event.step", CS_CLASS_GAUGE);
}

static void on_spans(struct cs_job *job, const json_t *m)
{
    forward(job, m, "event.spans", CS_CLASS_GAUGE);
}

static void on_log(struct cs_job *job, const json_t *m)
{
    forward(job, m, "event.log", CS_CLASS_LOG);
}

static void on_note(struct cs_job *job, const json_t *m)
{
    if (cs_job_take_alarm(job, m))
        cs_job_publish(job);
    forward(job, m, "event.note", CS_CLASS_EVENT);
}

static void on_hello(struct cs_job *job, const json_t *m)
{
    struct cs_err err;
    struct cs_peer peer;
    enum cs_status status = cs_hello_check(m, &peer, &err);
    if (status == CS_OK && cs_msg_int(m, "job", 0) != job->row.id)
        status = cs_fail(&err, CS_STATE, "the runner on its socket works on job %lld",
                         (long long)cs_msg_int(m, "job", 0));
    if (status == CS_OK) {
        job->row.generation = cs_msg_int(m, "generation", job->row.generation);
        return;
    }
    cs_log(job->server->log, CS_ERROR, "runner.hello", CS_KV("job", job->row.id),
           CS_KV("error", (const char *)err.text));
    cs_conn_free(job->link);
    job->link = NULL;
    lose_runner(job);
    job->retry_ns = cs_now_ns() + 10 * (int64_t)SECOND_NS;
}

static void on_message(void *user, const json_t *message)
{
    struct cs_job *job = user;

    static const struct {
        const char *type;
        void (*handle)(struct cs_job *, const json_t *);
    } handlers[] = {
        {"runner.hello",  on_hello},
        {"runner.status", on_state},
        {"runner.state",  on_state},
        {"runner.step",   on_step },
        {"runner.spans",  on_spans},
        {"runner.log",    on_log  },
        {"runner.note",   on_note },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(handlers); i++)
        if (strcmp(cs_msg_type(message), handlers[i].type) == 0) {
            handlers[i].handle(job, message);
            return;
        }
}

/* A line that is no message must not take the others with it. */
static void on_bad(void *user, const struct cs_err *err)
{
    const struct cs_job *job = user;
    cs_log(job->server->log, CS_WARN, "runner.message", CS_KV("job", job->row.id),
           CS_KV("error", (const char *)err->text));
}

static void on_closed(void *user, const struct cs_err *why)
{
    struct cs_job *job = user;
    (void)why;
    cs_conn_free(job->link);
    job->link = NULL;
    lose_runner(job);
}

static const struct cs_conn_calls runner_calls = {
    .on_message = on_message, .on_bad = on_bad, .on_closed = on_closed};

void cs_job_send_stop(struct cs_job *job)
{
    json_t *message = cs_msg_new("runner.stop");
    cs_msg_set_bool(message, "now", job->pending_stop == CS_STOP_NOW);
    job->pending_stop = CS_STOP_NONE;
    struct cs_err err;
    (void)!cs_job_tell(job, message, &err); /* there is a link */
}

/* Where it was told to listen, else where it says that it does: the socket of a runner moves when
 * its directory is gone, and the daemon before us may have had another runtime directory. */
static enum cs_status dial_runner(const struct cs_job *job, int *fd, struct cs_err *err)
{
    char path[CS_PATH_CAP + 32];
    socket_of(job, path, sizeof path);
    enum cs_status status = cs_unix_connect(path, false, "runner", fd, err);
    if (status == CS_OK)
        return status;
    json_t *state = cs_job_read_state_file(job);
    const char *said = cs_msg_str(state, "socket", "");
    if (said[0] && strcmp(said, path) != 0)
        status = cs_unix_connect(said, false, "runner", fd, err);
    json_decref(state);
    return status;
}

static void connect_runner(struct cs_job *job)
{
    struct cs_err err;
    int fd;
    if (cs_now_ns() < job->retry_ns)
        return;
    enum cs_status status = dial_runner(job, &fd, &err);
    if (status == CS_OK) {
        const struct cs_conn_options options = {.base = job->server->base, .checks_schema = true};
        job->link = cs_conn_new(fd, &options, &runner_calls, job);
        job->deadline_ns = 0;
        (void)!cs_job_tell(job, cs_msg_request("runner.status", 1), &err);
        if (job->pending_stop)
            cs_job_send_stop(job);
        return;
    }
    if (status != CS_UNREACHABLE)
        cs_log(job->server->log, CS_WARN, "runner.connect", CS_KV("job", job->row.id),
               CS_KV("error", (const char *)err.text));
    if (status != CS_UNREACHABLE || cs_now_ns() < job->deadline_ns)
        return;
    if (job->runner_pid) { /* it never opened its socket; our child: its end is told by a signal */
        if (job->pending_stop)
            kill(job->runner_pid, SIGKILL);
        return;
    }
    if (is_runner_alive(job)) /* its socket is gone: the journal still tells */
        job->retry_ns = cs_now_ns() + SECOND_NS;
    else
        settle(job, -1);
}

/* --- load, tick, free ------------------------------------------------------------------------- */

/* The history says that it is over, and somebody is at work in its directory: it is an old copy. A job
 * that waits may have its last runner still ending, and is left alone. */
static void adopt_running(struct cs_job *job)
{
    json_t *state = cs_job_read_state_file(job);
    const struct cs_job_state_row *row = cs_job_state_find(cs_msg_str(state, "state", ""));
    const bool is_live = row != NULL && row->phase == CS_PHASE_LIVE;
    job->row.ended_ns = 0;
    cs_job_set_state(job, &(struct cs_job_change){.state = is_live ? row->state : CS_STATE_STARTING,
                                                  .is_in_journal = is_live});
    json_decref(state);
}

enum cs_status cs_jobs_load(struct cs_server *server, struct cs_err *err)
{
    CS_TRY(cs_history_load(server, err));
    for (size_t i = 0; i < server->n_jobs; i++) {
        struct cs_job *job = server->jobs[i];
        import(job); /* rows that came while nobody listened, also of jobs that have ended */
        if (cs_job_is_over(job) && is_runner_alive(job))
            adopt_running(job);
        if (!cs_job_is_live(job))
            continue;
        job->deadline_ns = cs_now_ns(); /* a living runner answers, or holds its lock */
        cs_log(server->log, CS_INFO, "job.adopt", CS_KV("job", job->row.id));
        connect_runner(job);
    }
    return CS_OK;
}

static void drain(struct cs_job *job)
{
    struct cs_err ignored;
    if (!job->is_pause_sent && cs_job_is(job, CS_STATE_RUN))
        job->is_pause_sent = cs_job_pause(job, &ignored) == CS_OK;
}

void cs_jobs_tick(struct cs_server *server)
{
    for (size_t i = 0; i < server->n_jobs; i++) {
        struct cs_job *job = server->jobs[i];
        if (job->is_unsaved)
            cs_job_save(job);
        if (!cs_job_is_live(job))
            continue;
        if (!job->link)
            connect_runner(job);
        int64_t before = job->row.journal_offset;
        import(job);
        if (job->row.journal_offset != before)
            cs_job_publish(job);
        if (server->is_draining)
            drain(job);
    }
    cs_jobs_start_queued(server);
}

void cs_jobs_free(struct cs_server *server)
{
    for (size_t i = 0; i < server->n_jobs; i++) {
        cs_conn_free(server->jobs[i]->link);
        json_decref(server->jobs[i]->alarms);
        free(server->jobs[i]);
    }
    free(server->jobs);
    server->jobs = NULL;
    server->n_jobs = 0;
}
