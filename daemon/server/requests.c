/* Requests of consoles: one table, one handler each. A message is checked against the schema before
 * it comes here; a handler either replies or fails with the request's id. */
#include "server/requests.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/str.h"
#include "core/model/spec.h"
#include "core/wire/wire.h"
#include "server/job_dir.h"
#include "server/job_orders.h"
#include "server/journal.h"
#include "server/node.h"
#include "server/roles.h"

enum {
    MAX_LOG_BYTES = 1 << 20,   /* of one answer; escaped at most six times as much */
    MAX_JOBS_BYTES = 8 << 20,  /* likewise, as encoded */
    MAX_PLAN_BYTES = 10 << 20, /* with a specification of 4 MiB below the line limit */
    MAX_ROWS = 20000           /* of a series: 13 values each, far below what a reader takes */
};

struct call {
    struct cs_server *server;
    struct cs_caller *caller;
    const json_t *request;
    json_t *reply;    /* filled by the handler */
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
    size_t bytes = 0;
    (void)err;
    for (size_t i = c->server->n_jobs; i-- > 0 && (int64_t)json_array_size(jobs) < limit;) {
        json_t *job = cs_job_object(c->server->jobs[i]);
        bytes += json_dumpb(job, NULL, 0, JSON_COMPACT) + 1;
        if (bytes > MAX_JOBS_BYTES) {
            json_decref(job);
            break;
        }
        json_array_append_new(jobs, job);
    }
    cs_msg_set(c->reply, "jobs", jobs);
    return CS_OK;
}

static enum cs_status do_submit(struct call *c, struct cs_err *err)
{
    int64_t id = 0;
    const struct passwd *user = getpwuid(cs_caller_uid(c->caller));
    const struct cs_submit submit = {.spec = cs_msg_obj(c->request, "spec"),
                                     .plan_hash = cs_msg_str(c->request, "plan_hash", ""),
                                     .is_replan = cs_msg_bool(c->request, "replan", false),
                                     .ranks = cs_msg_int(c->request, "ranks", 0),
                                     .owner = user ? user->pw_name : "?"};
    CS_TRY(cs_job_submit(c->server, &submit, &id, err));
    cs_msg_set_int(c->reply, "job", id);
    return CS_OK;
}

/* A run with another plan may have left its profile behind. */
static bool is_of_plan(const json_t *profile, const json_t *plan)
{
    const char *hash = cs_msg_str(plan, "hash", "");
    return hash[0] != '\0' && strcmp(cs_msg_str(profile, "plan_hash", ""), hash) == 0;
}

/* Somebody may have removed the directory of a job by hand. */
static json_t *describe(struct cs_job *job)
{
    json_t *o = cs_job_object(job);
    if (!cs_job_dir_is_there(&job->row))
        json_object_set_new(o, "reason",
                            json_sprintf("its directory %.3000s is gone: it can be neither shown "
                                         "nor resumed",
                                         job->row.dir));
    return o;
}

static enum cs_status do_show(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(find_job(c, &job, err));
    json_t *spec = cs_job_dir_get(job->row.dir, "spec.json", CS_SPEC_MAX_BYTES);
    json_t *plan = cs_job_dir_get(job->row.dir, "plan.json", MAX_PLAN_BYTES);
    json_t *profile = cs_job_dir_get(job->row.dir, "profile.json", MAX_PLAN_BYTES);
    cs_msg_set(c->reply, "job", describe(job));
    if (spec)
        cs_msg_set(c->reply, "spec", spec);
    if (plan)
        cs_msg_set(c->reply, "plan", plan);
    if (is_of_plan(profile, plan))
        cs_msg_set(c->reply, "profile", json_incref(profile));
    json_decref(profile);
    return CS_OK;
}

static enum cs_status give_order(struct call *c,
                                 enum cs_status (*order)(struct cs_job *, struct cs_err *),
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
    struct cs_job *job;
    const struct cs_job_relayout how = {
        .spec = cs_msg_obj(c->request, "spec"),
        .plan_hash = cs_msg_str(c->request, "plan_hash", ""),
        .ranks = cs_msg_int(c->request, "ranks", 0),
        .is_replan = cs_msg_bool(c->request, "replan", false),
    };
    CS_TRY(find_job(c, &job, err));
    CS_TRY(cs_job_resume(job, &how, err));
    cs_msg_set_int(c->reply, "job", job->row.id);
    return CS_OK;
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
        CS_TRY(cs_caller_wait(c->caller, c->request, job->row.id, err));
        c->is_deferred = true;
    }
    return CS_OK;
}

/* what the runner wrote a moment ago belongs to the answer */
static void import_news(struct cs_job *job)
{
    struct cs_err err;
    if (cs_journal_import(job, &err) != CS_OK)
        cs_log(job->server->log, CS_WARN, "journal.import", CS_KV("job", job->row.id),
               CS_KV("error", (const char *)err.text));
}

static enum cs_status do_metrics(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    int64_t next = -1, limit = cs_msg_int(c->request, "limit", 10000);
    CS_TRY(find_job(c, &job, err));
    import_news(job);
    json_t *rows = json_array();
    cs_msg_set(c->reply, "columns", cs_db_step_columns());
    cs_msg_set(c->reply, "rows", rows);
    CS_TRY(cs_db_steps(c->server->db, job->row.id, cs_msg_int(c->request, "after_step", -1),
                       limit < MAX_ROWS ? limit : MAX_ROWS, cs_msg_int(c->request, "every", 1),
                       rows, &next, err));
    if (next >= 0)
        cs_msg_set_int(c->reply, "next", next);
    return CS_OK;
}

static enum cs_status do_events(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(find_job(c, &job, err));
    import_news(job);
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

/* Whole lines of bytes[at, n) into an array; returns where they end. A line that fills the whole
 * window is given out in pieces: a reader must get on. */
static size_t take_log_lines(const char *bytes, size_t at, size_t n, int64_t limit, json_t *lines)
{
    if (n == MAX_LOG_BYTES && !memchr(bytes + at, '\n', n - at)) {
        json_array_append_new(lines, cs_json_bytes(bytes + at, n - at));
        return n;
    }
    while (at < n && (int64_t)json_array_size(lines) < limit) {
        const char *newline = memchr(bytes + at, '\n', n - at);
        if (!newline)
            break;
        json_array_append_new(lines, cs_json_bytes(bytes + at, (size_t)(newline - bytes) - at));
        at = (size_t)(newline - bytes) + 1;
    }
    return at;
}

/* *offset -1: the last window of the file, whose first line may be a piece of one */
static enum cs_status read_window(const char *path, int64_t *offset, char *bytes, size_t *n,
                                  struct cs_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd == -1)
        return cs_fail_errno(err, "there is no log %s", path);
    off_t end = lseek(fd, 0, SEEK_END);
    if (*offset < 0)
        *offset = end > MAX_LOG_BYTES ? end - MAX_LOG_BYTES : 0;
    ssize_t got = pread(fd, bytes, MAX_LOG_BYTES, *offset);
    enum cs_status status = got == -1 ? cs_fail_errno(err, "reading %s", path) : CS_OK;
    close(fd);
    *n = got > 0 ? (size_t)got : 0;
    return status;
}

static enum cs_status do_log(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    char path[CS_PATH_CAP], name[32];
    size_t n = 0, at = 0;
    CS_TRY(find_job(c, &job, err));
    int64_t offset = cs_msg_int(c->request, "offset", -1);
    int64_t limit = cs_msg_int(c->request, "limit", 100);
    bool is_tail = offset < 0;
    log_name(cs_msg_int(c->request, "rank", 0), name, sizeof(name));
    CS_TRY(cs_path(path, err, "%s/logs/%s", job->row.dir, name));
    char *bytes = malloc(MAX_LOG_BYTES);
    if (!bytes)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a log");
    enum cs_status status = read_window(path, &offset, bytes, &n, err);
    if (status == CS_OK) {
        json_t *lines = json_array();
        if (is_tail)
            at = tail_of(bytes, n, limit);
        if (is_tail && at == 0 && offset > 0 && memchr(bytes, '\n', n))
            at = (size_t)((char *)memchr(bytes, '\n', n) - bytes) + 1;
        at = take_log_lines(bytes, at, n, limit, lines);
        cs_msg_set(c->reply, "lines", lines);
        cs_msg_set_int(c->reply, "next", offset + (int64_t)at);
    }
    free(bytes);
    return status;
}

static enum cs_status do_sub_open(struct call *c, struct cs_err *err)
{
    struct cs_job *job;
    if (cs_msg_int(c->request, "job", 0) > 0)
        CS_TRY(find_job(c, &job, err));
    const struct cs_sub_wants wants = {.gauges = cs_msg_bool(c->request, "gauges", true),
                                       .events = cs_msg_bool(c->request, "events", true),
                                       .logs = cs_msg_bool(c->request, "logs", false),
                                       .gpus = cs_msg_bool(c->request, "gpus", false)};
    int64_t sub = cs_feed_open(cs_caller_feed(c->caller), cs_msg_int(c->request, "job", 0), &wants);
    if (sub < 0)
        return cs_fail(err, CS_LIMIT, "a connection has no more subscriptions; close one");
    cs_msg_set_int(c->reply, "sub", sub);
    return CS_OK;
}

static enum cs_status do_sub_close(struct call *c, struct cs_err *err)
{
    if (!cs_feed_close(cs_caller_feed(c->caller), cs_msg_int(c->request, "sub", 0)))
        return cs_fail(err, CS_NOT_FOUND, "there is no such subscription");
    return CS_OK;
}

/* Value of "KEY : VALUE" in a file of /proc; "" when it is not there. */
static void proc_value(const char *path, const char *key, char *out, size_t cap)
{
    struct cs_buf text = {0};
    struct cs_err err;
    out[0] = '\0';
    if (cs_read_file(path, 4 << 20, &text, &err) == CS_OK) {
        const char *at = strstr(cs_buf_str(&text), key);
        at = at ? strchr(at, ':') : NULL;
        if (at) {
            at += 1 + strspn(at + 1, " \t");
            snprintf(out, cap, "%.*s", (int)strcspn(at, "\n"), at);
        }
    }
    cs_buf_free(&text);
}

static void set_offer(struct call *c)
{
    const struct cs_here here = cs_node_here(c->server);
    char text[64];
    cs_here_print(&here, text, sizeof text);
    cs_msg_set_str(c->reply, "here", text);
    if (cs_node_driver(c->server)[0])
        cs_msg_set_str(c->reply, "driver", cs_node_driver(c->server));
    if (cs_node_gpus_note(c->server)[0])
        cs_msg_set_str(c->reply, "gpus_note", cs_node_gpus_note(c->server));
}

/* What was amiss at the start, and who cannot be reached now. */
static void set_warning(struct call *c)
{
    char text[2000];
    json_t *deaf = json_array();
    int used = snprintf(text, sizeof text, "%s", c->server->warning);
    for (size_t i = 0; i < c->server->n_jobs && used < (int)sizeof text - 200; i++) {
        const struct cs_job *job = c->server->jobs[i];
        if (!cs_job_is_deaf(job))
            continue;
        json_array_append_new(deaf, json_integer(job->row.id));
        used += snprintf(text + used, sizeof text - (size_t)used,
                         "%sthe runner of job %lld does not answer", used ? "; " : "",
                         (long long)job->row.id);
    }
    if (text[0])
        cs_msg_set_str(c->reply, "warning", text);
    cs_msg_set(c->reply, "deaf", deaf);
}

static enum cs_status do_node(struct call *c, struct cs_err *err)
{
    struct sysinfo info;
    char text[256];
    int64_t available_kib;
    if (!cs_node_is_fresh(c->server)) {
        CS_TRY(cs_caller_wait(c->caller, c->request, 0, err));
        c->is_deferred = true;
        return CS_OK;
    }
    cs_msg_set_str(c->reply, "node", c->server->node);
    cs_msg_set_str(c->reply, "version", CORNSTARCH_VERSION);
    cs_msg_set_int(c->reply, "pid", getpid());
    cs_msg_set(c->reply, "devices",
               cs_node_devices(c->server, cs_msg_bool(c->request, "gpus", false)));
    set_offer(c);
    proc_value("/proc/cpuinfo", "model name", text, sizeof(text));
    if (text[0])
        cs_msg_set_str(c->reply, "cpu", text);
    cs_msg_set_int(c->reply, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    if (sysinfo(&info) == 0)
        cs_msg_set_int(c->reply, "mem_bytes", (int64_t)(info.totalram * info.mem_unit));
    proc_value("/proc/meminfo", "MemAvailable", text, sizeof(text));
    text[strcspn(text, " ")] = '\0';
    if (cs_str_to_i64(text, &available_kib))
        cs_msg_set_int(c->reply, "mem_free_bytes", available_kib * 1024);
    cs_msg_set_int(c->reply, "started_ns", c->server->started_ns);
    cs_msg_set_str(c->reply, "state_dir", c->server->state_dir);
    cs_msg_set_bool(c->reply, "draining", c->server->is_draining);
    set_warning(c);
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
    const bool is_off = cs_msg_bool(c->request, "off", false);
    int64_t n = 0;
    (void)err;
    for (size_t i = 0; i < c->server->n_jobs; i++) {
        struct cs_job *job = c->server->jobs[i];
        n += is_off ? job->is_pause_sent : cs_job_is_live(job);
        job->is_pause_sent = false;
    }
    c->server->is_draining = !is_off; /* the tick tells the runners, or starts what waits */
    cs_msg_set_int(c->reply, "jobs", n);
    return CS_OK;
}

static enum cs_status do_hello(struct call *c, struct cs_err *err)
{
    (void)c;
    return cs_fail(err, CS_STATE, "hello was said already on this connection");
}

static const struct {
    enum cs_msg_id request;
    enum cs_status (*handle)(struct call *call, struct cs_err *err);
} handlers[] = {
    {CS_MSG_HELLO,          do_hello      },
    {CS_MSG_PING,           do_ping       },
    {CS_MSG_JOBS_LIST,      do_jobs       },
    {CS_MSG_JOB_SUBMIT,     do_submit     },
    {CS_MSG_JOB_SHOW,       do_show       },
    {CS_MSG_JOB_PAUSE,      do_pause      },
    {CS_MSG_JOB_RESUME,     do_resume     },
    {CS_MSG_JOB_CHECKPOINT, do_checkpoint },
    {CS_MSG_JOB_STOP,       do_stop       },
    {CS_MSG_JOB_WAIT,       do_wait       },
    {CS_MSG_JOB_METRICS,    do_metrics    },
    {CS_MSG_JOB_EVENTS,     do_events     },
    {CS_MSG_JOB_LOG,        do_log        },
    {CS_MSG_SUB_OPEN,       do_sub_open   },
    {CS_MSG_SUB_CLOSE,      do_sub_close  },
    {CS_MSG_NODE_SHOW,      do_node       },
    {CS_MSG_DAEMON_STOP,    do_daemon_stop},
    {CS_MSG_DAEMON_DRAIN,   do_drain      },
};

static enum cs_status answer(struct call *c, struct cs_err *err)
{
    const struct cs_message *message = cs_schema_find(cs_msg_type(c->request), false);
    for (size_t i = 0; message != NULL && i < CS_ARRAY_LEN(handlers); i++) {
        if (handlers[i].request != message->id)
            continue;
        CS_TRY(cs_role_check(message, cs_caller_role(c->caller), err));
        return handlers[i].handle(c, err);
    }
    return cs_fail(err, CS_UNSUPPORTED, "E_UNKNOWN_TYPE: a daemon does not answer '%s'",
                   cs_msg_type(c->request));
}

void cs_requests_handle(struct cs_server *server, struct cs_caller *caller, const json_t *request)
{
    struct cs_err err;
    struct call call = {
        .server = server, .caller = caller, .request = request, .reply = cs_msg_reply(request)};
    enum cs_status status = answer(&call, &err);
    if (status != CS_OK)
        cs_caller_fail(caller, request, &err);
    if (status == CS_OK && !call.is_deferred)
        cs_caller_reply(caller, call.reply);
    else
        json_decref(call.reply);
}
