/* Connects to runners and takes what they report. */
#include "server/life/runner_link.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "core/wire/metric.h"
#include "core/wire/wire.h"
#include "net/conn.h"
#include "net/unix.h"
#include "server/callers/caller.h"
#include "server/life/ending.h"

/* A runner ends its processes within a few seconds, and what they have on devices takes some more. */
enum { SECOND_NS = 1000000000, STOP_NOW_S = 30 };

void cs_runner_socket(const struct cs_job *job, char *out, size_t cap)
{
    snprintf(out, cap, "%s/job-%lld.sock", job->server->runtime_dir, (long long)job->row.id);
}

/* The end of a connection is not the end of a runner: the next tick connects again or finds it
 * gone. */
static void lose_runner(struct cs_job *job)
{
    job->deadline_ns = cs_now_ns();
    job->retry_ns = 0;
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

/* Who works on its ranks is asked for when they have all started. */
static void take_pids(struct cs_job *job, const struct cs_job_state_row *row, const json_t *m)
{
    struct cs_err ignored;
    if (cs_msg_arr(m, "pids")) {
        json_decref(job->pids);
        job->pids = json_incref(cs_msg_arr(m, "pids"));
    } else if (row->state == CS_STATE_RUN && job->pids == NULL) {
        (void)!cs_job_tell(job, cs_msg_request("runner.status", 1), &ignored);
    }
    if (cs_job_state_is_final(row)) {
        json_decref(job->pids);
        job->pids = NULL;
    }
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
    take_pids(job, row, m);
    if (cs_job_state_is_final(row))
        cs_job_import(job);
    cs_job_take_state(job, row, m);
}

static void on_step(struct cs_job *job, const json_t *m)
{
    if (strcmp(cs_msg_str(m, "kind", "train"), "train") == 0) {
        job->row.step = cs_msg_int(m, "step", 0) + 1;
        job->row.loss = cs_msg_num(m, "loss", (double)NAN);
        job->row.step_ns = cs_msg_int(m, "step_ns", job->row.step_ns);
        job->row.bubble = cs_metric_get(m, "bubble");
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
        if (job->row.stop != CS_STOP_NONE) /* the link before may have ended with it unread */
            cs_job_send_stop(job);
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
    if (job->row.stop == CS_STOP_NOW && job->stop_by_ns == 0)
        job->stop_by_ns = cs_now_ns() + STOP_NOW_S * (int64_t)SECOND_NS;
    job->is_stop_untold = job->link == NULL;
    if (job->is_stop_untold)
        return;
    json_t *message = cs_msg_new("runner.stop");
    cs_msg_set_bool(message, "now", job->row.stop == CS_STOP_NOW);
    struct cs_err err;
    (void)!cs_job_tell(job, message, &err); /* there is a link */
}

/* Where it was told to listen, else where it says that it does: the socket of a runner moves when
 * its directory is gone, and the daemon before us may have had another runtime directory. */
static enum cs_status dial_runner(const struct cs_job *job, int *fd, struct cs_err *err)
{
    char path[CS_PATH_CAP + 32];
    cs_runner_socket(job, path, sizeof path);
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

void cs_runner_connect(struct cs_job *job)
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
        return;
    }
    if (status != CS_UNREACHABLE)
        cs_log(job->server->log, CS_WARN, "runner.connect", CS_KV("job", job->row.id),
               CS_KV("error", (const char *)err.text));
    if (status != CS_UNREACHABLE || cs_now_ns() < job->deadline_ns)
        return;
    if (job->runner_pid) { /* it never opened its socket; our child: its end is told by a signal */
        if (job->is_stop_untold)
            job->is_runner_ended = kill(job->runner_pid, SIGKILL) == 0;
        return;
    }
    if (cs_runner_is_alive(job)) /* its socket is gone: the journal still tells */
        job->retry_ns = cs_now_ns() + SECOND_NS;
    else
        cs_job_settle(job, -1);
}
