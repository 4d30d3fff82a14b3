/* Keeps jobs and their states: what a job may do in which state is the
 * table of core/wire/job_state.h. Orders ask for states
 * (job_orders.c), runners report them (job_life.c). */
#include "server/jobs/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "core/base/system/io.h"
#include "core/wire/alarm.h"
#include "core/wire/wire.h"
#include "net/conn.h"
#include "server/callers/caller.h"
#include "server/jobs/job_dir.h"
#include "server/jobs/job_labels.h"
#include "server/records/record.h"

/* A history may hold a state of another release: nothing happens to such a job. */
static const struct cs_job_state_row *state_of(const struct cs_job *job)
{
    const struct cs_job_state_row *row = cs_job_state_find(job->row.state);
    return row != NULL ? row : cs_job_state_row(CS_STATE_LOST);
}

bool cs_job_is(const struct cs_job *job, enum cs_job_state state)
{
    return state_of(job)->state == state;
}

bool cs_job_is_live(const struct cs_job *job)
{
    return state_of(job)->phase == CS_PHASE_LIVE;
}

bool cs_job_is_over(const struct cs_job *job)
{
    return state_of(job)->phase == CS_PHASE_RESTING || state_of(job)->phase == CS_PHASE_ENDED;
}

bool cs_job_is_recent(const struct cs_job *job)
{
    static const int64_t linger_ns = INT64_C(300000000000);
    if (!cs_job_is_over(job))
        return true;
    return job->row.ended_ns > 0 && cs_wall_ns() - job->row.ended_ns < linger_ns;
}

bool cs_job_is_deaf(const struct cs_job *job)
{
    return cs_job_is_live(job) && job->link == NULL && cs_now_ns() > job->deadline_ns;
}

struct cs_job *cs_job_find(struct cs_server *server, int64_t id)
{
    for (size_t i = server->n_jobs; i-- > 0;)
        if (server->jobs[i]->row.id == id)
            return server->jobs[i];
    return NULL;
}

struct cs_job *cs_job_add(struct cs_server *server, const struct cs_job_row *row)
{
    if (server->n_jobs == server->cap_jobs) {
        server->cap_jobs = server->cap_jobs ? 2 * server->cap_jobs : 64;
        server->jobs = realloc(server->jobs, server->cap_jobs * sizeof(struct cs_job *));
        CS_ASSERT(server->jobs != NULL);
    }
    struct cs_job *job = calloc(1, sizeof *job);
    CS_ASSERT(job != NULL);
    job->server = server;
    job->row = *row;
    server->jobs[server->n_jobs++] = job;
    return job;
}

void cs_job_free(struct cs_job *job)
{
    cs_conn_free(job->link);
    json_decref(job->alarms);
    json_decref(job->last_row[0]);
    json_decref(job->last_row[1]);
    json_decref(job->notes);
    json_decref(job->pids);
    json_decref(job->resume);
    free(job);
}

/* --- what others see -------------------------------------------------------------------------- */

static void set_positive(json_t *object, const char *key, int64_t value)
{
    if (value > 0)
        cs_msg_set_int(object, key, value);
}

json_t *cs_job_read_state_file(const struct cs_job *job)
{
    return cs_job_dir_get(job->row.dir, "state.json", 1 << 20);
}

void cs_job_set_alarms(struct cs_job *job, json_t *alarms)
{
    json_decref(job->alarms);
    job->alarms = alarms != NULL ? alarms : json_array();
}

/* The state file has them while no runner tells: they are read when somebody wants to see them. */
static void need_alarms(struct cs_job *job)
{
    if (job->alarms != NULL)
        return;
    json_t *state = cs_job_read_state_file(job), *list = json_array();
    const json_t *alarms = cs_msg_arr(state, "alarms");
    for (size_t i = 0; i < json_array_size(alarms); i++)
        if (cs_object_check(json_array_get(alarms, i), "alarm", NULL) == CS_OK)
            (void)cs_alarm_merge(list, json_array_get(alarms, i));
    json_decref(state);
    cs_job_set_alarms(job, list);
}

bool cs_job_take_alarm(struct cs_job *job, const json_t *note)
{
    need_alarms(job);
    return cs_alarm_merge(job->alarms, note);
}

json_t *cs_job_object(struct cs_job *job)
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
    set_positive(o, "stopped_ns", row->stopped_ns);
    if (row->reason[0] || job->waits[0])
        cs_msg_set_str(o, "reason", row->reason[0] ? row->reason : job->waits);
    set_positive(o, "place", job->place);
    set_positive(o, "ranks", row->ranks);
    cs_msg_set_str(o, "device", row->device);
    if (row->tags[0])
        cs_msg_set(o, "tags", cs_job_tags(row));
    if (row->note[0])
        cs_msg_set_str(o, "note", row->note);
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
    if (!isnan(row->bubble))
        cs_msg_set_num(o, "mean_bubble", row->bubble);
    if (row->energy_steps > 0) {
        cs_msg_set_int(o, "energy_mj", row->energy_mj);
        cs_msg_set_int(o, "step_energy_mj", row->energy_mj / row->energy_steps);
    }
    if (row->energy_mj > 0)
        cs_msg_set_num(o, "tokens_per_j",
                       (double)row->energy_tokens / ((double)row->energy_mj / 1000));
    need_alarms(job);
    if (json_array_size(job->alarms) > 0)
        cs_msg_set(o, "alarms", json_deep_copy(job->alarms));
    return o;
}

void cs_job_publish(struct cs_job *job)
{
    json_t *message = cs_msg_new("event.job");
    cs_msg_set(message, "job", cs_job_object(job));
    cs_publish(job->server, CS_CLASS_EVENT, job->row.id, message);
    json_decref(message);
}

/* The record first: at the next start it is believed. A directory that is gone keeps nothing. */
static enum cs_status save(const struct cs_job *job, struct cs_err *err)
{
    if (cs_job_dir_is_there(&job->row))
        CS_TRY(cs_record_write(job->row.dir, &job->row, err));
    return cs_db_job_put(job->server->db, &job->row, true, err);
}

/* A failed write (disk full) is tried again at every tick: what we hold in memory is ahead until
 * then. */
void cs_job_save(struct cs_job *job)
{
    struct cs_err err;
    const bool was_unsaved = job->is_unsaved;
    job->is_unsaved = save(job, &err) != CS_OK;
    if (job->is_unsaved && !was_unsaved)
        cs_job_cannot_write(job, "job.save", &err);
}

/* the first, or another after a pause: what was between does not count as running */
static void take_start(struct cs_job_row *row)
{
    const int64_t now_ns = cs_wall_ns();
    if (row->started_ns == 0)
        row->started_ns = now_ns;
    else if (row->ended_ns > 0 && now_ns > row->ended_ns)
        row->stopped_ns += now_ns - row->ended_ns;
    row->ended_ns = 0;
}

void cs_job_set_state(struct cs_job *job, const struct cs_job_change *to)
{
    const struct cs_job_state_row *state = cs_job_state_row(to->state);
    bool was_over = cs_job_is_over(job);
    bool is_change = strcmp(job->row.state, state->name) != 0;
    snprintf(job->row.state, sizeof(job->row.state), "%s", state->name);
    snprintf(job->row.reason, sizeof(job->row.reason), "%s", to->reason ? to->reason : "");
    job->row.exit_code = to->is_plan_invalid ? cs_status_exit(CS_PLAN) : state->exit_code;
    if (cs_job_is_live(job))
        take_start(&job->row);
    if (cs_job_is_over(job) && !was_over)
        job->row.ended_ns = cs_wall_ns();
    if (cs_job_is_over(job))
        job->row.stop = CS_STOP_NONE;
    cs_job_save(job);
    if (is_change) {
        char text[1100];
        const char *level = state->mood == CS_MOOD_BAD ? "error" : "info";
        snprintf(text, sizeof(text), "%s%s%s", state->name, job->row.reason[0] ? ": " : "",
                 job->row.reason);
        if (!to->is_in_journal)
            cs_job_note(job, level, text);
        else
            cs_job_tell_note(job, to->wall_ns ? to->wall_ns : cs_wall_ns(), level, text);
        cs_log(job->server->log, CS_INFO, "job.state", CS_KV("job", job->row.id),
               CS_KV("state", state->name), CS_KV("reason", (const char *)job->row.reason));
    }
    cs_job_publish(job);
    if (cs_job_is_over(job)) {
        json_t *object = cs_job_object(job);
        cs_callers_job_ended(job->server, job->row.id, object);
        json_decref(object);
    }
}

/* --- orders ----------------------------------------------------------------------------------- */

enum cs_status cs_job_allow(const struct cs_job *job, enum cs_job_command order, const char *verb,
                            struct cs_err *err)
{
    if (state_of(job)->orders & order)
        return CS_OK;
    return cs_fail(err, CS_STATE, "job %lld is %s: it cannot %s now", (long long)job->row.id,
                   job->row.state, verb);
}

enum cs_status cs_job_tell(struct cs_job *job, json_t *message, struct cs_err *err)
{
    if (!job->link) {
        json_decref(message);
        return cs_fail(err, CS_UNREACHABLE, "the runner of job %lld does not answer yet; try again",
                       (long long)job->row.id);
    }
    enum cs_status status = cs_conn_send(job->link, message, err);
    json_decref(message);
    return status;
}

enum cs_status cs_job_pause(struct cs_job *job, struct cs_err *err)
{
    CS_TRY(cs_job_allow(job, CS_ORDER_PAUSE, "pause", err));
    return cs_job_tell(job, cs_msg_new("runner.pause"), err);
}
