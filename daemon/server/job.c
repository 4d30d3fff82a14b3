/* See job.h. What a job may do in which state is one table; runners report states, orders ask for them. */
#include "server/job.h"

#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/model/spec.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "server/conn.h"
#include "server/journal.h"
#include "server/runner_link.h"

enum { MAX_JOBS = 10000, CONNECT_TIMEOUT_S = 20 };

enum order { ORDER_PAUSE = 1, ORDER_RESUME = 2, ORDER_STOP = 4, ORDER_CHECKPOINT = 8 };

static const struct state_row {
    const char *name;
    bool is_live; /* a runner should exist */
    bool is_over; /* waiters are answered */
    unsigned orders;
} states[] = {
    {"QUEUED",    false, false, ORDER_STOP                                },
    {"STARTING",  true,  false, ORDER_STOP                                },
    {"RUN",       true,  false, ORDER_PAUSE | ORDER_STOP | ORDER_CHECKPOINT},
    {"PAUSING",   true,  false, ORDER_STOP                                },
    {"PAUSED",    false, true,  ORDER_RESUME | ORDER_STOP                 },
    {"STOPPING",  true,  false, ORDER_STOP                                },
    {"DONE",      false, true,  0                                         },
    {"FAILED",    false, true,  ORDER_RESUME                              },
    {"CANCELLED", false, true,  ORDER_RESUME                              },
    {"LOST",      false, true,  ORDER_RESUME                              },
};

static const struct state_row *state_of(const struct cs_job *job)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(states); i++)
        if (strcmp(states[i].name, job->row.state) == 0)
            return &states[i];
    return &states[CS_ARRAY_LEN(states) - 1];
}

bool cs_job_is_over(const struct cs_job *job)
{
    return state_of(job)->is_over;
}

struct cs_job *cs_job_find(struct cs_server *server, int64_t id)
{
    for (size_t i = server->n_jobs; i-- > 0;)
        if (server->jobs[i]->row.id == id)
            return server->jobs[i];
    return NULL;
}

static struct cs_job *add_job(struct cs_server *server, const struct cs_job_row *row)
{
    if (server->n_jobs == server->cap_jobs) {
        server->cap_jobs = server->cap_jobs ? 2 * server->cap_jobs : 64;
        server->jobs = realloc(server->jobs, server->cap_jobs * sizeof(struct cs_job *));
        CS_ASSERT(server->jobs != NULL);
    }
    struct cs_job *job = calloc(1, sizeof(*job));
    CS_ASSERT(job != NULL);
    job->server = server;
    job->row = *row;
    server->jobs[server->n_jobs++] = job;
    return job;
}

/* --- what others see -------------------------------------------------------------------------- */

static void set_positive(json_t *object, const char *key, int64_t value)
{
    if (value > 0)
        cs_msg_set_int(object, key, value);
}

json_t *cs_job_object(const struct cs_job *job)
{
    const struct cs_job_row *row = &job->row;
    json_t *o = json_object();
    cs_msg_set_int(o, "id", row->id);
    cs_msg_set_str(o, "name", row->name);
    cs_msg_set_str(o, "state", row->state);
    cs_msg_set_int(o, "step", row->step);
    cs_msg_set_int(o, "steps", row->steps);
    if (row->step > 0)
        cs_msg_set_num(o, "loss", row->loss);
    cs_msg_set_str(o, "owner", row->owner);
    set_positive(o, "submitted_ns", row->submitted_ns);
    set_positive(o, "started_ns", row->started_ns);
    set_positive(o, "ended_ns", row->ended_ns);
    if (row->reason[0])
        cs_msg_set_str(o, "reason", row->reason);
    if (cs_job_is_over(job))
        cs_msg_set_int(o, "exit", row->exit_code);
    cs_msg_set_str(o, "spec_hash", row->spec_hash);
    cs_msg_set_str(o, "plan_hash", row->plan_hash);
    cs_msg_set_str(o, "dir", row->dir);
    cs_msg_set_int(o, "generation", row->generation);
    cs_msg_set_int(o, "checkpoint_step", row->checkpoint_step);
    set_positive(o, "predicted_step_ns", row->predicted_step_ns);
    set_positive(o, "step_ns", row->step_ns);
    if (!isnan(row->exact_match))
        cs_msg_set_num(o, "exact_match", row->exact_match);
    return o;
}

static void publish(struct cs_job *job)
{
    json_t *message = cs_msg_new("event.job");
    cs_msg_set(message, "job", cs_job_object(job));
    cs_publish(job->server, CS_CLASS_EVENT, job->row.id, message);
    json_decref(message);
}

static void save(struct cs_job *job, bool is_durable)
{
    struct cs_err err;
    if (cs_db_job_save(job->server->db, &job->row, is_durable, &err) != CS_OK)
        cs_log(job->server->log, CS_ERROR, "job.save", CS_KV("job", job->row.id),
               CS_KV("error", (const char *)err.text));
}

static void note(struct cs_job *job, const char *level, const char *text)
{
    struct cs_err err;
    if (cs_db_note_add(job->server->db, job->row.id, cs_wall_ns(), level, text, &err) != CS_OK)
        cs_log(job->server->log, CS_ERROR, "job.note", CS_KV("error", (const char *)err.text));
}

static void set_state(struct cs_job *job, const char *state, const char *reason, int64_t exit_code)
{
    bool was_over = cs_job_is_over(job);
    bool is_change = strcmp(job->row.state, state) != 0;
    snprintf(job->row.state, sizeof(job->row.state), "%s", state);
    snprintf(job->row.reason, sizeof(job->row.reason), "%s", reason ? reason : "");
    job->row.exit_code = exit_code;
    if (!job->row.started_ns && state_of(job)->is_live)
        job->row.started_ns = cs_wall_ns();
    if (cs_job_is_over(job) && !was_over)
        job->row.ended_ns = cs_wall_ns();
    save(job, true);
    if (is_change) {
        char text[1100];
        snprintf(text, sizeof(text), "%s%s%s", state, job->row.reason[0] ? ": " : "", job->row.reason);
        note(job, strcmp(state, "FAILED") == 0 || strcmp(state, "LOST") == 0 ? "error" : "info", text);
        cs_log(job->server->log, CS_INFO, "job.state", CS_KV("job", job->row.id), CS_KV("state", state),
               CS_KV("reason", (const char *)job->row.reason));
    }
    publish(job);
    if (cs_job_is_over(job)) {
        json_t *object = cs_job_object(job);
        cs_conn_job_ended(job->server, job->row.id, object);
        json_decref(object);
    }
}

/* --- runners ---------------------------------------------------------------------------------- */

static int64_t devices_in_use(const struct cs_server *server)
{
    int64_t n = 0;
    for (size_t i = 0; i < server->n_jobs; i++)
        if (state_of(server->jobs[i])->is_live)
            n += server->jobs[i]->row.ranks;
    return n;
}

static void start(struct cs_job *job)
{
    struct cs_err err;
    if (cs_runner_start(job, &err) != CS_OK) {
        set_state(job, "FAILED", err.text, cs_status_exit(err.status));
        return;
    }
    job->deadline_ns = cs_now_ns() + (int64_t)CONNECT_TIMEOUT_S * 1000000000;
    set_state(job, "STARTING", NULL, 0);
}

static void start_queued(struct cs_server *server)
{
    for (size_t i = 0; i < server->n_jobs && !server->is_draining; i++) {
        struct cs_job *job = server->jobs[i];
        if (strcmp(job->row.state, "QUEUED") != 0)
            continue;
        if (devices_in_use(server) + job->row.ranks > server->config.cpu_devices)
            break; /* first come, first served: nobody overtakes */
        start(job);
    }
}

/* The runner is gone: state.json tells how it ended, if it could still write it. */
static void settle(struct cs_job *job)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    struct cs_err err;
    json_t *state = NULL;
    (void)!cs_journal_import(job, &err);
    if (cs_path(path, &err, "%s/state.json", job->row.dir) == CS_OK &&
        cs_read_file(path, 1 << 20, &text, &err) == CS_OK)
        (void)!cs_line_parse(cs_buf_str(&text), text.len, &state, &err);
    const char *name = cs_msg_str(state, "state", "");
    struct cs_job probe = {0};
    snprintf(probe.row.state, sizeof(probe.row.state), "%s", name);
    if (state && cs_job_is_over(&probe) && strcmp(state_of(&probe)->name, name) == 0) {
        if (cs_msg_int(state, "step", -1) >= 0)
            job->row.step = cs_msg_int(state, "step", 0);
        job->row.checkpoint_step = cs_msg_int(state, "checkpoint_step", job->row.checkpoint_step);
        set_state(job, name, cs_msg_str(state, "reason", NULL), cs_msg_int(state, "exit", 0));
    } else {
        set_state(job, "LOST", "its runner ended without a word; resume continues from the newest checkpoint", 6);
    }
    json_decref(state);
    cs_buf_free(&text);
}

void cs_job_runner_lost(struct cs_job *job)
{
    if (state_of(job)->is_live && !job->runner_pid)
        settle(job); /* adopted: nobody else will tell */
}

void cs_jobs_reap(struct cs_server *server)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (size_t i = 0; i < server->n_jobs; i++) {
            struct cs_job *job = server->jobs[i];
            if (job->runner_pid != pid)
                continue;
            job->runner_pid = 0;
            cs_runner_link_close(job->link);
            job->link = NULL;
            if (state_of(job)->is_live)
                settle(job);
        }
    }
}

static void connect_runner(struct cs_job *job)
{
    struct cs_err err;
    if (cs_runner_link_open(job, &job->link, &err) == CS_OK) {
        job->deadline_ns = 0;
        cs_runner_link_send(job->link, cs_msg_request("runner.status", 1));
    } else if (job->deadline_ns && cs_now_ns() > job->deadline_ns && !job->runner_pid) {
        job->deadline_ns = 0;
        settle(job);
    }
}

/* Fields that runner.state, runner.status replies and state.json share. */
static void take_progress(struct cs_job *job, const json_t *message)
{
    struct cs_job_row *row = &job->row;
    if (cs_msg_int(message, "step", -1) >= 0)
        row->step = cs_msg_int(message, "step", 0);
    row->generation = cs_msg_int(message, "generation", row->generation);
    row->checkpoint_step = cs_msg_int(message, "checkpoint_step", row->checkpoint_step);
    row->predicted_step_ns = cs_msg_int(message, "predicted_step_ns", row->predicted_step_ns);
    const char *hash = cs_msg_str(message, "plan_hash", NULL);
    if (hash && hash[0])
        snprintf(row->plan_hash, sizeof(row->plan_hash), "%s", hash);
}

static void forward(struct cs_job *job, const json_t *message, const char *type,
                    enum cs_event_class class)
{
    json_t *event = json_copy((json_t *)(uintptr_t)message);
    json_object_set_new(event, "type", json_string(type));
    json_object_del(event, "id");
    cs_msg_set_int(event, "job", job->row.id);
    cs_publish(job->server, class, job->row.id, event);
    json_decref(event);
}

static void on_state(struct cs_job *job, const json_t *m)
{
    take_progress(job, m);
    set_state(job, cs_msg_str(m, "state", "LOST"), cs_msg_str(m, "reason", NULL),
              cs_msg_int(m, "exit", 0));
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
    note(job, cs_msg_str(m, "level", "info"), cs_msg_str(m, "text", ""));
    forward(job, m, "event.note", CS_CLASS_EVENT);
}

static void on_hello(struct cs_job *job, const json_t *m)
{
    job->row.generation = cs_msg_int(m, "generation", job->row.generation);
}

void cs_job_runner_message(struct cs_job *job, const json_t *message)
{
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

/* --- orders ----------------------------------------------------------------------------------- */

static enum cs_status allow(const struct cs_job *job, enum order order, const char *verb,
                            struct cs_err *err)
{
    if (state_of(job)->orders & order)
        return CS_OK;
    return cs_fail(err, CS_STATE, "job %lld is %s: it cannot %s now", (long long)job->row.id,
                   job->row.state, verb);
}

static enum cs_status tell(struct cs_job *job, json_t *message, struct cs_err *err)
{
    if (!job->link) {
        json_decref(message);
        return cs_fail(err, CS_UNREACHABLE, "the runner of job %lld does not answer yet; try again",
                       (long long)job->row.id);
    }
    cs_runner_link_send(job->link, message);
    return CS_OK;
}

enum cs_status cs_job_pause(struct cs_job *job, struct cs_err *err)
{
    CS_TRY(allow(job, ORDER_PAUSE, "pause", err));
    return tell(job, cs_msg_new("runner.pause"), err);
}

enum cs_status cs_job_checkpoint(struct cs_job *job, struct cs_err *err)
{
    CS_TRY(allow(job, ORDER_CHECKPOINT, "write a checkpoint", err));
    return tell(job, cs_msg_new("runner.checkpoint"), err);
}

enum cs_status cs_job_resume(struct cs_job *job, struct cs_err *err)
{
    CS_TRY(allow(job, ORDER_RESUME, "resume", err));
    if (job->server->is_draining)
        return cs_fail(err, CS_REFUSED, "the daemon is draining and starts no jobs");
    job->row.ended_ns = 0;
    set_state(job, "QUEUED", NULL, 0);
    start_queued(job->server);
    return CS_OK;
}

enum cs_status cs_job_stop(struct cs_job *job, bool now, struct cs_err *err)
{
    CS_TRY(allow(job, ORDER_STOP, "stop", err));
    if (!state_of(job)->is_live) {
        set_state(job, "CANCELLED", "stopped on request", 6);
        return CS_OK;
    }
    json_t *message = cs_msg_new("runner.stop");
    cs_msg_set_bool(message, "now", now);
    return tell(job, message, err);
}

/* Ranks a spec asks for; the daemon counts, it does not plan. */
static int64_t ranks_of(const struct cs_spec *spec)
{
    int64_t sum = 0, most = 0;
    for (int i = 0; i < spec->n_parallel; i++) {
        sum += spec->parallel[i].pp;
        most = spec->parallel[i].pp > most ? spec->parallel[i].pp : most;
    }
    return strcmp(spec->modality, "encoder-colocated") == 0 ? most : sum;
}

static enum cs_status write_spec(const struct cs_job *job, const json_t *spec, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    CS_TRY(cs_mkdirs(job->row.dir, err));
    CS_TRY(cs_path(path, err, "%s/spec.json", job->row.dir));
    cs_json_canonical(spec, &text);
    enum cs_status st = cs_write_file_atomic(path, cs_buf_str(&text), text.len, 0600, err);
    cs_buf_free(&text);
    return st;
}

enum cs_status cs_job_submit(struct cs_server *server, const json_t *document, const char *plan_hash,
                             bool replan, const char *owner, int64_t *id, struct cs_err *err)
{
    struct cs_spec *spec;
    struct cs_job_row row = {.loss = (double)NAN, .exact_match = (double)NAN, .checkpoint_step = -1};
    if (server->is_draining)
        return cs_fail(err, CS_REFUSED, "the daemon is draining and takes no jobs");
    struct cs_arena *arena = cs_arena_new(0);
    json_t *copy = json_copy((json_t *)(uintptr_t)document);
    if (replan)
        json_object_set_new(copy, "plan_hash", json_string(""));
    else if (plan_hash[0])
        json_object_set_new(copy, "plan_hash", json_string(plan_hash));
    enum cs_status st = cs_spec_read(copy, arena, &spec, err);
    if (st != CS_OK)
        goto out;
    row.ranks = ranks_of(spec);
    if (row.ranks > server->config.cpu_devices) {
        st = cs_fail(err, CS_PLAN, "the plan needs %lld ranks, this node offers %lld CPU devices",
                     (long long)row.ranks, (long long)server->config.cpu_devices);
        goto out;
    }
    snprintf(row.name, sizeof(row.name), "%s", spec->name);
    snprintf(row.state, sizeof(row.state), "QUEUED");
    snprintf(row.owner, sizeof(row.owner), "%s", owner);
    snprintf(row.spec_hash, sizeof(row.spec_hash), "%s", spec->hash);
    snprintf(row.plan_hash, sizeof(row.plan_hash), "%s", spec->plan_hash);
    row.steps = spec->steps;
    row.submitted_ns = cs_wall_ns();
    st = cs_db_job_add(server->db, &row, err);
    if (st != CS_OK)
        goto out;
    struct cs_job *job = add_job(server, &row);
    snprintf(job->row.dir, sizeof(job->row.dir), "%s/jobs/%lld", server->state_dir,
             (long long)row.id);
    st = write_spec(job, copy, err);
    if (st != CS_OK) {
        set_state(job, "FAILED", err ? err->text : "the spec could not be written", 6);
        goto out;
    }
    save(job, true);
    *id = row.id;
    start_queued(server);
    if (strcmp(job->row.state, "QUEUED") == 0)
        publish(job);
out:
    json_decref(copy);
    cs_arena_free(arena);
    return st;
}

/* --- life ------------------------------------------------------------------------------------- */

static void load_one(void *user, const struct cs_job_row *row)
{
    add_job(user, row);
}

enum cs_status cs_jobs_load(struct cs_server *server, struct cs_err *err)
{
    CS_TRY(cs_db_jobs(server->db, MAX_JOBS, load_one, server, err));
    for (size_t i = 0, j = server->n_jobs; i + 1 < j; i++) { /* the database lists newest first */
        struct cs_job *t = server->jobs[i];
        server->jobs[i] = server->jobs[--j];
        server->jobs[j] = t;
    }
    for (size_t i = 0; i < server->n_jobs; i++) {
        struct cs_job *job = server->jobs[i];
        if (!state_of(job)->is_live)
            continue;
        job->deadline_ns = cs_now_ns(); /* a living runner answers at once */
        cs_log(server->log, CS_INFO, "job.adopt", CS_KV("job", job->row.id));
        connect_runner(job);
    }
    return CS_OK;
}

void cs_jobs_tick(struct cs_server *server)
{
    struct cs_err err;
    for (size_t i = 0; i < server->n_jobs; i++) {
        struct cs_job *job = server->jobs[i];
        if (!state_of(job)->is_live)
            continue;
        if (!job->link)
            connect_runner(job);
        int64_t before = job->row.journal_offset;
        if (cs_journal_import(job, &err) != CS_OK)
            cs_log(server->log, CS_WARN, "journal.import", CS_KV("job", job->row.id),
                   CS_KV("error", (const char *)err.text));
        if (job->row.journal_offset != before)
            publish(job);
    }
    start_queued(server);
}

void cs_jobs_free(struct cs_server *server)
{
    for (size_t i = 0; i < server->n_jobs; i++) {
        cs_runner_link_close(server->jobs[i]->link);
        free(server->jobs[i]);
    }
    free(server->jobs);
}
