/* Writes what happens to the journal, the state file, the log and everybody who is connected. */
#include "runner/state/records.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "net/listener.h"
#include "runner/state/alarms.h"
#include "runner/state/subscribers.h"

static void log_line(struct cs_runner *r, enum cs_log_level level, const char *text)
{
    cs_log(r->log, level, "note", CS_KV("text", text));
}

/* The disk takes rows again: what was lost meanwhile is told, in the journal too. */
static void tell_lost(struct cs_runner *r)
{
    const struct cs_lost_rows lost = r->lost_rows;
    r->lost_rows = (struct cs_lost_rows){0};
    r->is_journal_failed = false;
    if (lost.n > 0)
        cs_run_alarm(r, CS_ALERT_ROWS_LOST, CS_ERROR, lost.to,
                     "%lld %s missing, of steps %lld to %lld: the disk was full", (long long)lost.n,
                     CS_NOUN(lost.n, "row of the journal is", "rows of the journal are"),
                     (long long)lost.from, (long long)lost.to);
}

/* The journal is what a later daemon knows of us. When it cannot be written, training goes on, rows
 * wait in memory, and the first failure is told. */
static void keep(struct cs_runner *r, const json_t *msg)
{
    struct cs_err err = {0};
    if (!r->journal)
        return;
    if (cs_journal_add(r->journal, msg, &err) != CS_OK) {
        const int64_t step = cs_msg_int(msg, "step", r->last_step);
        r->lost_rows.from = r->lost_rows.n++ == 0 ? step : r->lost_rows.from;
        r->lost_rows.to = step;
    }
    if (!cs_journal_waits(r->journal) && r->lost_rows.n == 0) {
        r->is_journal_failed = false;
    } else if (!r->is_journal_failed) {
        r->is_journal_failed = true;
        cs_run_note(r, CS_WARN, "the journal cannot be written, training goes on and rows wait: %s",
                    err.text);
    }
}

void cs_run_sync(struct cs_runner *r)
{
    if (r->journal && cs_journal_sync(r->journal, NULL) == CS_OK && r->is_journal_failed)
        tell_lost(r);
}

void cs_run_sync_last(struct cs_runner *r)
{
    cs_run_sync(r);
    if (r->journal && cs_journal_waits(r->journal)) {
        cs_run_alarm(
            r, CS_ALERT_ROWS_LOST, CS_ERROR, r->last_step,
            "the disk is full at the end of the job: its last rows are not in the journal");
        cs_run_emit_state(r); /* who is connected hears of it */
    }
}

void cs_run_emit(struct cs_runner *r, json_t *msg, bool is_kept)
{
    if (r->number > 0)
        cs_msg_set_int(msg, "job", r->number);
    if (is_kept)
        keep(r, msg);
    cs_subscribers_send(r, msg);
    json_decref(msg);
}

/* The file has the line whole; a message holds this much of it. */
enum { MOST_LINE = 8191 };

void cs_run_emit_log(struct cs_runner *r, int32_t rank, const char *line, size_t n)
{
    json_t *msg = cs_msg_new("runner.log");
    cs_msg_set_int(msg, "rank", rank);
    cs_msg_set(msg, "line", cs_json_bytes(line, n < MOST_LINE ? n : MOST_LINE));
    cs_run_emit(r, msg, false);
}

/* What is said while a line is sent, of a connection that does not take it, stays in the file. */
void cs_run_on_log(void *runner, enum cs_log_level level, const char *line, size_t n)
{
    struct cs_runner *r = runner;
    (void)level;
    if (r->is_log_sent || n == 0)
        return;
    r->is_log_sent = true;
    cs_run_emit_log(r, -2, line, n - 1);
    r->is_log_sent = false;
}

static json_t *note_msg(struct cs_runner *r, enum cs_log_level level, const char *text)
{
    json_t *msg = cs_msg_new("runner.note");
    log_line(r, level, text);
    cs_msg_set_str(msg, "level", cs_log_level_name(level));
    cs_msg_set_str(msg, "text", text);
    cs_msg_set_int(msg, "wall_ns", cs_wall_ns());
    return msg;
}

void cs_run_note(struct cs_runner *r, enum cs_log_level level, const char *fmt, ...)
{
    char text[2000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cs_run_emit(r, note_msg(r, level, text), true);
}

/* An alarm on the wire is a note with the name of its rule. */
static bool is_power_of_ten(int64_t count)
{
    while (count >= 10 && count % 10 == 0)
        count /= 10;
    return count == 1;
}

static void tell_alarm(struct cs_runner *r, enum cs_alert rule, const struct cs_alarm *alarm)
{
    json_t *msg = note_msg(r, alarm->level, alarm->text);
    cs_msg_set_str(msg, "rule", cs_alert_row(rule)->slug);
    cs_msg_set_int(msg, "count", alarm->count);
    if (alarm->step >= 0)
        cs_msg_set_int(msg, "step", alarm->step);
    cs_run_emit(r, msg, true);
}

void cs_run_alarm(struct cs_runner *r, enum cs_alert rule, enum cs_log_level level, int64_t step,
                  const char *fmt, ...)
{
    struct cs_alarm *alarm = &r->alarm[rule];
    const bool is_worse = alarm->count > 0 && level < alarm->level;
    r->is_state_behind = true;
    alarm->count++;
    if (alarm->count > 1 && level > alarm->level)
        return; /* the worse one stays */
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(alarm->text, sizeof alarm->text, fmt, ap);
    va_end(ap);
    alarm->level = level;
    alarm->step = step;
    alarm->wall_ns = cs_wall_ns();
    if (is_worse || is_power_of_ten(alarm->count))
        tell_alarm(r, rule, alarm);
}

json_t *cs_run_state_msg(const struct cs_runner *r)
{
    json_t *msg = cs_msg_new("runner.state");
    cs_msg_set_str(msg, "state", cs_job_state_row(r->state)->name);
    cs_msg_set_int(msg, "step", r->last_step);
    cs_msg_set_int(msg, "steps", r->job.spec->steps);
    cs_msg_set_int(msg, "generation", r->generation.id);
    cs_msg_set_int(msg, "checkpoint_step", r->checkpoint_step);
    cs_msg_set_str(msg, "plan_hash", r->generation.plan->hash);
    cs_msg_set_str(msg, "spec_hash", r->job.spec->hash);
    cs_msg_set_int(msg, "predicted_step_ns", r->predicted_step_ns);
    cs_msg_set_int(msg, "pid", getpid());
    cs_msg_set_int(msg, "wall_ns", cs_wall_ns());
    if (r->reason[0])
        cs_msg_set_str(msg, "reason", r->reason);
    if (r->culprit)
        cs_msg_set(msg, "culprit", json_incref(r->culprit));
    if (r->weights_hash[0])
        cs_msg_set_str(msg, "weights_hash", r->weights_hash);
    if (!isnan(r->exact_match))
        cs_msg_set_num(msg, "exact_match", r->exact_match);
    cs_msg_set(msg, "alarms", cs_run_alarms(r));
    const struct cs_job_state_row *row = cs_job_state_row(r->state);
    if (row->phase == CS_PHASE_RESTING || row->phase == CS_PHASE_ENDED)
        cs_msg_set_int(msg, "exit", row->exit_code);
    return msg;
}

static void write_state_file(struct cs_runner *r, const json_t *msg)
{
    char path[CS_PATH_CAP + 16];
    struct cs_buf text = {0};
    struct cs_err err = {0};
    json_t *doc = json_copy((json_t *)(uintptr_t)msg);
    json_object_del(doc, "type");
    json_object_set_new(doc, "schema", json_string("cornstarch.state/1"));
    if (r->control)
        cs_msg_set_str(doc, "socket", cs_listener_path(r->control));
    snprintf(path, sizeof path, "%s/state.json", r->job.dir);
    cs_json_pretty(doc, &text);
    r->is_state_behind = cs_write_file_atomic(path, text.data, text.len, 0600, &err) != CS_OK;
    if (r->is_state_behind)
        cs_log(r->log, CS_ERROR, "state.write", CS_KV("text", err.text));
    cs_buf_free(&text);
    json_decref(doc);
}

void cs_run_write_state(struct cs_runner *r)
{
    json_t *msg = cs_run_state_msg(r);
    write_state_file(r, msg);
    json_decref(msg);
}

void cs_run_keep_state(struct cs_runner *r)
{
    if (!r->is_state_behind)
        return;
    json_t *msg = cs_run_state_msg(r);
    write_state_file(r, msg);
    cs_run_emit(r, msg, false);
}

void cs_run_emit_state(struct cs_runner *r)
{
    json_t *msg = cs_run_state_msg(r);
    write_state_file(r, msg);
    cs_run_emit(r, msg, true);
}

void cs_run_set_state(struct cs_runner *r, enum cs_job_state state, const char *reason)
{
    char step[24] = ""; /* none is done: nothing is said */
    r->state = state;
    snprintf(r->reason, sizeof r->reason, "%s", reason ? reason : "");
    if (r->last_step >= 0)
        snprintf(step, sizeof step, "%lld", (long long)r->last_step);
    cs_log(r->log, state == CS_STATE_FAILED ? CS_ERROR : CS_INFO, "state",
           CS_KV("state", cs_job_state_row(state)->name), CS_KV("step", (const char *)step),
           CS_KV("reason", (const char *)r->reason));
    cs_run_emit_state(r);
}
