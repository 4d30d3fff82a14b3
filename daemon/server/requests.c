/* Requests of consoles: one table, one handler each. A message is checked against the schema before
 * it comes here; a handler either replies or fails with the request's id. */
#include "server/requests.h"

#include <pwd.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "core/model/spec.h"
#include "core/wire/wire.h"
#include "server/callers/roles.h"
#include "server/jobs/job_dir.h"
#include "server/life/ending.h"
#include "server/life/job_orders.h"
#include "server/life/resume_check.h"
#include "server/request_call.h"
#include "server/server.h"

enum {
    MAX_PLAN_BYTES = 10 << 20, /* with a specification of 4 MiB below the line limit */
    MAX_ROWS = 20000           /* of a series: 13 values each, far below what a reader takes */
};

static enum cs_status do_ping(struct cs_call *c, struct cs_err *err)
{
    (void)err;
    cs_msg_set_int(c->reply, "wall_ns", cs_wall_ns());
    return CS_OK;
}

/* What the console knew of the job when it was submitted: `show` repeats it. */
static void note_warnings(struct cs_job *job, const json_t *warnings)
{
    for (size_t i = 0; job && i < json_array_size(warnings); i++)
        cs_job_note(job, "warn", json_string_value(json_array_get(warnings, i)));
}

static enum cs_status do_submit(struct cs_call *c, struct cs_err *err)
{
    int64_t id = 0;
    const struct passwd *user = getpwuid(cs_caller_uid(c->caller));
    const struct cs_submit submit = {
        .spec = cs_msg_obj(c->request, "spec"),
        .plan_hash = cs_msg_str(c->request, "plan_hash", ""),
        .is_replan = cs_msg_bool(c->request, "replan", false),
        .ranks = cs_msg_int(c->request, "ranks", 0),
        .owner = user ? user->pw_name : "?",
        .labels = {.add = cs_msg_arr(c->request, "tags"),
                   .note = cs_msg_str(c->request, "note", NULL)}
    };
    CS_TRY(cs_job_submit(c->server, &submit, &id, err));
    note_warnings(cs_job_find(c->server, id), cs_msg_arr(c->request, "warnings"));
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

static enum cs_status do_show(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(cs_call_job(c, &job, err));
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

static enum cs_status give_order(struct cs_call *c,
                                 enum cs_status (*order)(struct cs_job *, struct cs_err *),
                                 struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(cs_call_job(c, &job, err));
    CS_TRY(order(job, err));
    cs_msg_set_int(c->reply, "job", job->row.id);
    return CS_OK;
}

static enum cs_status do_pause(struct cs_call *c, struct cs_err *err)
{
    return give_order(c, cs_job_pause, err);
}

static enum cs_status do_resume(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(cs_call_job(c, &job, err));
    c->is_deferred = true;
    return cs_resume_check_begin(job, c->caller, c->request, err);
}

static enum cs_status do_checkpoint(struct cs_call *c, struct cs_err *err)
{
    return give_order(c, cs_job_checkpoint, err);
}

static enum cs_status do_stop(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(cs_call_job(c, &job, err));
    CS_TRY(cs_job_stop(job, cs_msg_bool(c->request, "now", false), err));
    cs_resume_check_withdraw(job);
    cs_msg_set_int(c->reply, "job", job->row.id);
    return CS_OK;
}

static enum cs_status do_wait(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(cs_call_job(c, &job, err));
    if (cs_job_is_over(job)) {
        cs_msg_set(c->reply, "job", cs_job_object(job));
    } else {
        CS_TRY(cs_caller_wait(c->caller, c->request, job->row.id, err));
        c->is_deferred = true;
    }
    return CS_OK;
}

static enum cs_status do_metrics(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    int64_t next = -1, limit = cs_msg_int(c->request, "limit", 10000);
    CS_TRY(cs_call_job(c, &job, err));
    cs_job_import(job); /* what the runner wrote a moment ago belongs to the answer */
    json_t *rows = json_array();
    const struct cs_step_query query = {.job = job->row.id,
                                        .after = cs_msg_int(c->request, "after_step", -1),
                                        .limit = limit < MAX_ROWS ? limit : MAX_ROWS,
                                        .every = cs_msg_int(c->request, "every", 1),
                                        .is_folded = cs_msg_bool(c->request, "fold", false)};
    cs_msg_set(c->reply, "columns", cs_db_step_columns(query.is_folded));
    cs_msg_set(c->reply, "rows", rows);
    cs_caller_flush(c->caller); /* a long history takes its time */
    CS_TRY(cs_db_steps(c->server->db, &query, rows, &next, err));
    if (next >= 0)
        cs_msg_set_int(c->reply, "next", next);
    return CS_OK;
}

static enum cs_status do_events(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    CS_TRY(cs_call_job(c, &job, err));
    cs_job_import(job); /* what the runner wrote a moment ago belongs to the answer */
    json_t *rows = json_array();
    cs_msg_set(c->reply, "events", rows);
    return cs_db_notes(c->server->db, job->row.id, cs_msg_int(c->request, "limit", 100), rows, err);
}

static enum cs_status do_sub_open(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    if (cs_msg_int(c->request, "job", 0) > 0)
        CS_TRY(cs_call_job(c, &job, err));
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

static enum cs_status do_sub_close(struct cs_call *c, struct cs_err *err)
{
    if (!cs_feed_close(cs_caller_feed(c->caller), cs_msg_int(c->request, "sub", 0)))
        return cs_fail(err, CS_NOT_FOUND, "there is no such subscription");
    return CS_OK;
}

static enum cs_status do_daemon_stop(struct cs_call *c, struct cs_err *err)
{
    (void)err;
    cs_server_stop(c->server);
    return CS_OK;
}

static enum cs_status do_drain(struct cs_call *c, struct cs_err *err)
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

static enum cs_status do_hello(struct cs_call *c, struct cs_err *err)
{
    (void)c;
    return cs_fail(err, CS_STATE, "hello was said already on this connection");
}

static const struct {
    enum cs_msg_id request;
    enum cs_status (*handle)(struct cs_call *call, struct cs_err *err);
} handlers[] = {
    {CS_MSG_HELLO,          do_hello         },
    {CS_MSG_PING,           do_ping          },
    {CS_MSG_JOBS_LIST,      cs_request_jobs  },
    {CS_MSG_JOB_SUBMIT,     do_submit        },
    {CS_MSG_JOB_SHOW,       do_show          },
    {CS_MSG_JOB_PAUSE,      do_pause         },
    {CS_MSG_JOB_RESUME,     do_resume        },
    {CS_MSG_JOB_CHECKPOINT, do_checkpoint    },
    {CS_MSG_JOB_STOP,       do_stop          },
    {CS_MSG_JOB_LABEL,      cs_request_label },
    {CS_MSG_JOB_REMOVE,     cs_request_remove},
    {CS_MSG_JOB_WAIT,       do_wait          },
    {CS_MSG_JOB_METRICS,    do_metrics       },
    {CS_MSG_JOB_EVENTS,     do_events        },
    {CS_MSG_JOB_LOG,        cs_request_log   },
    {CS_MSG_JOB_LOGS,       cs_request_logs  },
    {CS_MSG_SUB_OPEN,       do_sub_open      },
    {CS_MSG_SUB_CLOSE,      do_sub_close     },
    {CS_MSG_NODE_SHOW,      cs_request_node  },
    {CS_MSG_DAEMON_STOP,    do_daemon_stop   },
    {CS_MSG_DAEMON_DRAIN,   do_drain         },
};

static enum cs_status answer(struct cs_call *c, struct cs_err *err)
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
    struct cs_call call = {
        .server = server, .caller = caller, .request = request, .reply = cs_msg_reply(request)};
    enum cs_status status = answer(&call, &err);
    if (status != CS_OK)
        cs_caller_fail(caller, request, &err);
    if (status == CS_OK && !call.is_deferred)
        cs_caller_reply(caller, call.reply);
    else
        json_decref(call.reply);
}
