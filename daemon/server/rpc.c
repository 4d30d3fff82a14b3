/* Requests of consoles: one table, one handler each. A message is checked against the schema before it
 * comes here; a handler either replies or fails with the request's id. */
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "server/conn.h"
#include "server/job.h"

enum { MAX_LOG_BYTES = 1 << 20 };

struct call {
    struct cs_server *server;
    struct cs_conn *conn;
    const json_t *request;
    json_t *reply; /* filled by the handler */
    bool is_deferred; /* the reply comes later */
};

static enum cs_status find_job(const struct call *c, struct cs_job **job, struct cs_err *err)
{
    int64_t id = cs_msg_int(c->request, "job", 0);
    *job = cs_job_find(c->server, id);
    if (!*job)
        return cs_fail(err, CS_NOT_FOUND, "there is no job %lld", (long long)id);
    return CS_OK;
}

static enum cs_status do_ping(struct call *c, struct cs_err *err)
{
    (void)err;
    cs_msg_set_int(c->reply, "wall_ns", cs_wall_ns());
    return CS_OK;
}

static enum cs_status do_jobs(struct call *c, struct cs_err *err)
{
    int64_t limit = cs_msg_int(c->request, "limit", 1000);
    json_t *jobs = json_array();
    (void)err;
    for (size_t i = c->server->n_jobs; i-- > 0 && (int64_t)json_array_size(jobs) < limit;)
        json_array_append_new(jobs, cs_job_object(c->server->jobs[i]));
    cs_msg_set(c->reply, "jobs", jobs);
    return CS_OK;
}

static enum cs_status do_submit(struct call *c, struct cs_err *err)
{
    int64_t id = 0;
    const struct passwd *user = getpwuid(getuid());
    CS_TRY(cs_job_submit(c->server, cs_msg_obj(c->request, "spec"),
                         cs_msg_str(c->request, "plan_hash", ""),
                         cs_msg_bool(c->request, "replan", false), user ? user->pw_name : "?", &id,
                         err));
    cs_msg_set_int(c->reply, "job", id);
    return CS_OK;
}

static json_t *read_document(const struct cs_job *job, const char *name)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    struct cs_err err;
    json_t *out = NULL;
    if (cs_path(path, &err, "%s/%s", job->row.dir, name) == CS_OK &&
        cs_read_file(path, CS_LINE_MAX, &text, &err) == CS_OK)
        (void)!cs_line_parse(cs_buf_str(&text), text.len, &out, &err);
    cs_buf_free(&text);
    return out;
}

static enum cs_status do_show(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(find_job(c, &job, err));
    json_t *spec = read_document(job, "spec.json"), *plan = read_document(job, "plan.json");
    cs_msg_set(c->reply, "job", cs_job_object(job));
    if (spec)
        cs_msg_set(c->reply, "spec", spec);
    if (plan)
        cs_msg_set(c->reply, "plan", plan);
    return CS_OK;
}

static enum cs_status give_order(struct call *c, enum cs_status (*order)(struct cs_job *, struct cs_err *),
                                 struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(find_job(c, &job, err));
    CS_TRY(order(job, err));
    cs_msg_set_int(c->reply, "job", job->row.id);
    return CS_OK;
}

static enum cs_status do_pause(struct call *c, struct cs_err *err)
{
    return give_order(c, cs_job_pause, err);
}

static enum cs_status do_resume(struct call *c, struct cs_err *err)
{
    return give_order(c, cs_job_resume, err);
}

static enum cs_status do_checkpoint(struct call *c, struct cs_err *err)
{
    return give_order(c, cs_job_checkpoint, err);
}

static enum cs_status do_stop(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(find_job(c, &job, err));
    CS_TRY(cs_job_stop(job, cs_msg_bool(c->request, "now", false), err));
    cs_msg_set_int(c->reply, "job", job->row.id);
    return CS_OK;
}

static enum cs_status do_wait(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(find_job(c, &job, err));
    if (cs_job_is_over(job)) {
        cs_msg_set(c->reply, "job", cs_job_object(job));
    } else {
        cs_conn_wait(c->conn, c->request, job->row.id);
        c->is_deferred = true;
    }
    return CS_OK;
}

static enum cs_status do_metrics(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(find_job(c, &job, err));
    json_t *rows = json_array();
    cs_msg_set(c->reply, "columns", cs_db_step_columns());
    cs_msg_set(c->reply, "rows", rows);
    return cs_db_steps(c->server->db, job->row.id, cs_msg_int(c->request, "after_step", -1),
                       cs_msg_int(c->request, "limit", 10000), cs_msg_int(c->request, "every", 1), rows,
                       err);
}

static enum cs_status do_events(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(find_job(c, &job, err));
    json_t *rows = json_array();
    cs_msg_set(c->reply, "events", rows);
    return cs_db_notes(c->server->db, job->row.id, cs_msg_int(c->request, "limit", 100), rows, err);
}

static void log_name(int64_t rank, char *out, size_t cap)
{
    if (rank == -1)
        snprintf(out, cap, "feeder.log");
    else if (rank == -2)
        snprintf(out, cap, "runner.log");
    else
        snprintf(out, cap, "%lld.log", (long long)rank);
}

/* offset of the last `lines` lines of bytes[0, n) */
static size_t tail_of(const char *bytes, size_t n, int64_t lines)
{
    size_t at = n;
    if (at && bytes[at - 1] == '\n')
        at--;
    while (at > 0 && lines > 0)
        if (bytes[--at] == '\n' && --lines == 0)
            return at + 1;
    return 0;
}

static enum cs_status do_log(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    char path[CS_PATH_CAP], name[32];
    CS_TRY(find_job(c, &job, err));
    int64_t offset = cs_msg_int(c->request, "offset", -1);
    int64_t limit = cs_msg_int(c->request, "limit", 100);
    log_name(cs_msg_int(c->request, "rank", 0), name, sizeof(name));
    CS_TRY(cs_path(path, err, "%s/logs/%s", job->row.dir, name));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return cs_fail(err, CS_NOT_FOUND, "job %lld has no log %s", (long long)job->row.id, name);
    off_t end = lseek(fd, 0, SEEK_END);
    bool is_tail = offset < 0;
    if (is_tail)
        offset = end > MAX_LOG_BYTES ? end - MAX_LOG_BYTES : 0;
    char *bytes = malloc(MAX_LOG_BYTES);
    ssize_t n = bytes ? pread(fd, bytes, MAX_LOG_BYTES, offset) : -1;
    close(fd);
    if (n < 0) {
        free(bytes);
        return cs_fail_errno(err, "reading %s", path);
    }
    json_t *lines = json_array();
    size_t at = is_tail ? tail_of(bytes, (size_t)n, limit) : 0;
    while (at < (size_t)n && (int64_t)json_array_size(lines) < limit) {
        const char *newline = memchr(bytes + at, '\n', (size_t)n - at);
        if (!newline)
            break;
        json_array_append_new(lines, cs_json_bytes(bytes + at, (size_t)(newline - bytes) - at));
        at = (size_t)(newline - bytes) + 1;
    }
    free(bytes);
    cs_msg_set(c->reply, "lines", lines);
    cs_msg_set_int(c->reply, "next", offset + (int64_t)at);
    return CS_OK;
}

static enum cs_status do_sub_open(struct call *c, struct cs_err *err)
{
    int64_t sub = cs_conn_subscribe(c->conn, cs_msg_int(c->request, "job", 0),
                                    cs_msg_bool(c->request, "gauges", true),
                                    cs_msg_bool(c->request, "events", true),
                                    cs_msg_bool(c->request, "logs", false));
    if (sub < 0)
        return cs_fail(err, CS_LIMIT, "a connection has no more subscriptions; close one");
    cs_msg_set_int(c->reply, "sub", sub);
    return CS_OK;
}

static enum cs_status do_sub_close(struct call *c, struct cs_err *err)
{
    if (!cs_conn_unsubscribe(c->conn, cs_msg_int(c->request, "sub", 0)))
        return cs_fail(err, CS_NOT_FOUND, "there is no such subscription");
    return CS_OK;
}

static enum cs_status do_node(struct call *c, struct cs_err *err)
{
    struct sysinfo info;
    json_t *devices = json_array();
    (void)err;
    for (int64_t i = 0; i < c->server->config.cpu_devices; i++) {
        json_t *d = json_object();
        json_object_set_new(d, "name", json_sprintf("cpu:%lld", (long long)i));
        json_array_append_new(devices, d);
    }
    cs_msg_set_str(c->reply, "node", c->server->node);
    cs_msg_set_str(c->reply, "version", CORNSTARCH_VERSION);
    cs_msg_set_int(c->reply, "pid", getpid());
    cs_msg_set(c->reply, "devices", devices);
    cs_msg_set_int(c->reply, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    if (sysinfo(&info) == 0) {
        cs_msg_set_int(c->reply, "mem_bytes", (int64_t)(info.totalram * info.mem_unit));
        cs_msg_set_int(c->reply, "mem_free_bytes", (int64_t)(info.freeram * info.mem_unit));
    }
    cs_msg_set_int(c->reply, "started_ns", c->server->started_ns);
    cs_msg_set_str(c->reply, "state_dir", c->server->state_dir);
    cs_msg_set_bool(c->reply, "draining", c->server->is_draining);
    return CS_OK;
}

static enum cs_status do_daemon_stop(struct call *c, struct cs_err *err)
{
    (void)err;
    cs_server_stop(c->server);
    return CS_OK;
}

static enum cs_status do_drain(struct call *c, struct cs_err *err)
{
    int64_t running = 0;
    struct cs_err ignored;
    (void)err;
    c->server->is_draining = true;
    for (size_t i = 0; i < c->server->n_jobs; i++) {
        running += !cs_job_is_over(c->server->jobs[i]);
        (void)!cs_job_pause(c->server->jobs[i], &ignored);
    }
    cs_msg_set_int(c->reply, "jobs", running);
    return CS_OK;
}

static const struct {
    const char *type;
    enum cs_status (*handle)(struct call *call, struct cs_err *err);
} handlers[] = {
    {"ping",           do_ping       },
    {"jobs.list",      do_jobs       },
    {"job.submit",     do_submit     },
    {"job.show",       do_show       },
    {"job.pause",      do_pause      },
    {"job.resume",     do_resume     },
    {"job.checkpoint", do_checkpoint },
    {"job.stop",       do_stop       },
    {"job.wait",       do_wait       },
    {"job.metrics",    do_metrics    },
    {"job.events",     do_events     },
    {"job.log",        do_log        },
    {"sub.open",       do_sub_open   },
    {"sub.close",      do_sub_close  },
    {"node.show",      do_node       },
    {"daemon.stop",    do_daemon_stop},
    {"daemon.drain",   do_drain      },
};

void cs_rpc_handle(struct cs_server *server, struct cs_conn *conn, const json_t *request)
{
    struct cs_err err;
    struct call call = {.server = server, .conn = conn, .request = request};
    for (size_t i = 0; i < CS_ARRAY_LEN(handlers); i++) {
        if (strcmp(handlers[i].type, cs_msg_type(request)) != 0)
            continue;
        call.reply = cs_msg_reply(request);
        enum cs_status st = handlers[i].handle(&call, &err);
        if (st == CS_OK && !call.is_deferred) {
            cs_conn_reply(conn, call.reply);
            return;
        }
        json_decref(call.reply);
        if (st != CS_OK)
            cs_conn_fail(conn, request, &err);
        return;
    }
    (void)cs_fail(&err, CS_UNSUPPORTED, "E_UNKNOWN_TYPE: a daemon does not answer '%s'",
                  cs_msg_type(request));
    cs_conn_fail(conn, request, &err);
}
