/* Commands about jobs that exist: jobs, show, metrics, logs, the orders, wait. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "console/cli/cli.h"
#include "console/draw/fmt.h"
#include "core/base/clock.h"
#include "core/base/str.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/wire/wire.h"

/* --- jobs ------------------------------------------------------------------------------------- */

static const struct cs_column job_columns[] = {
    {"ID",      2, 0,  0, CS_ALIGN_RIGHT},
    {"NAME",    4, 32, 0, CS_ALIGN_LEFT },
    {"OWNER",   3, 16, 5, CS_ALIGN_LEFT },
    {"STATE",   5, 0,  0, CS_ALIGN_LEFT },
    {"STEP",    4, 0,  0, CS_ALIGN_RIGHT},
    {"LOSS",    4, 0,  1, CS_ALIGN_RIGHT},
    {"EXACT",   5, 0,  3, CS_ALIGN_RIGHT},
    {"STEP MS", 5, 0,  4, CS_ALIGN_RIGHT},
    {"BUBBLE",  6, 0,  6, CS_ALIGN_RIGHT},
    {"ELAPSED", 7, 0,  2, CS_ALIGN_RIGHT},
    {"REASON",  6, 60, 7, CS_ALIGN_LEFT },
};

static void number(char out[32], const json_t *job, const char *key, double scale, int decimals,
                   const char *unit)
{
    double value = 0;
    const json_t *item = json_object_get(job, key);
    if (!item || json_is_null(item) || !cs_json_to_num(item, &value))
        snprintf(out, 32, "-");
    else
        snprintf(out, 32, "%.*f%s", decimals, value * scale, unit);
}

static void mean_bubble(char out[32], const json_t *job)
{
    const json_t *list = cs_msg_arr(job, "bubble"), *item;
    double sum = 0, value;
    size_t i, n = json_array_size(list);
    for (i = 0; i < n; i++) {
        item = json_array_get(list, i);
        sum += cs_json_to_num(item, &value) ? value : 0;
    }
    if (n)
        snprintf(out, 32, "%.1f%%", 100 * sum / (double)n);
    else
        snprintf(out, 32, "-");
}

static void elapsed(char out[32], const json_t *job)
{
    int64_t start = cs_msg_int(job, "started_ns", 0), end = cs_msg_int(job, "ended_ns", 0);
    snprintf(out, 32, "-");
    if (end <= start)
        end = cs_wall_ns();
    if (start > 0 && end > start)
        cs_duration_print(out, 32, (uint64_t)(end - start));
}

static void add_job(struct cs_table *table, const json_t *job)
{
    char id[32], step[64], loss[32], exact[32], step_ms[32], bubble[32], time[32];
    snprintf(id, sizeof(id), "%lld", (long long)cs_msg_int(job, "id", 0));
    snprintf(step, sizeof(step), "%lld/%lld", (long long)cs_msg_int(job, "step", 0),
             (long long)cs_msg_int(job, "steps", 0));
    number(loss, job, "loss", 1, 4, "");
    number(exact, job, "exact_match", 1, 3, "");
    number(step_ms, job, "step_ns", 1e-6, 2, "");
    mean_bubble(bubble, job);
    elapsed(time, job);
    const char *cells[] = {id,
                           cs_msg_str(job, "name", ""),
                           cs_msg_str(job, "owner", "-"),
                           cs_msg_str(job, "state", "-"),
                           step,
                           loss,
                           exact,
                           step_ms,
                           bubble,
                           time,
                           cs_msg_str(job, "reason", "")};
    cs_table_add(table, cells);
}

enum cs_status cs_cmd_jobs(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *reply = NULL, *request = cs_msg_new("jobs.list"), *job;
    struct cs_buf text = {0};
    size_t i;
    cs_msg_set_int(request, "limit", cmd->v.limit);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    json_t *jobs = cs_msg_arr(reply, "jobs");
    if (cmd->v.json) {
        json_t *doc = cs_doc_new("cornstarch.jobs/1");
        cs_msg_set(doc, "jobs", json_incref(jobs));
        json_decref(reply);
        return cs_cmd_print_doc(doc, err);
    }
    struct cs_table *table = cs_table_new(job_columns, CS_ARRAY_LEN(job_columns));
    json_array_foreach(jobs, i, job) add_job(table, job);
    cs_table_render(table, cs_cmd_width(), true, &text);
    cs_cmd_print(&text);
    cs_table_free(table);
    cs_buf_free(&text);
    json_decref(reply);
    return CS_OK;
}

/* --- show ------------------------------------------------------------------------------------- */

static void put_text(struct cs_buf *out, const char *name, const char *value)
{
    struct cs_buf safe = {0};
    if (value && *value) {
        cs_str_escape(&safe, value, strlen(value), false);
        cs_buf_addf(out, "%-12s %s\n", name, cs_buf_str(&safe));
    }
    cs_buf_free(&safe);
}

static void put_time(struct cs_buf *out, const char *name, int64_t wall_ns)
{
    char text[CS_ISO_CAP];
    if (wall_ns <= 0)
        return;
    cs_iso_print(text, sizeof(text), wall_ns);
    put_text(out, name, text);
}

static void put_job(struct cs_buf *out, const json_t *job)
{
    char text[160], predicted[32], measured[32], loss[32], exact[32], bubble[32];
    snprintf(text, sizeof(text), "%lld", (long long)cs_msg_int(job, "id", 0));
    put_text(out, "job", text);
    put_text(out, "name", cs_msg_str(job, "name", ""));
    put_text(out, "owner", cs_msg_str(job, "owner", ""));
    put_text(out, "state", cs_msg_str(job, "state", ""));
    put_text(out, "reason", cs_msg_str(job, "reason", ""));
    number(loss, job, "loss", 1, 4, "");
    number(exact, job, "exact_match", 1, 4, "");
    snprintf(text, sizeof(text), "%lld of %lld   loss %s   exact match %s",
             (long long)cs_msg_int(job, "step", 0), (long long)cs_msg_int(job, "steps", 0), loss,
             exact);
    put_text(out, "step", text);
    number(predicted, job, "predicted_step_ns", 1e-6, 2, " ms");
    number(measured, job, "step_ns", 1e-6, 2, " ms");
    mean_bubble(bubble, job);
    snprintf(text, sizeof(text), "predicted %s   measured %s   bubble %s", predicted, measured,
             bubble);
    put_text(out, "step time", text);
    cs_fmt_energy(text, sizeof(text), cs_msg_int(job, "energy_mj", -1),
                  cs_msg_int(job, "step_energy_mj", -1),
                  cs_msg_num(job, "tokens_per_j", (double)NAN));
    put_text(out, "energy", text);
    put_time(out, "submitted", cs_msg_int(job, "submitted_ns", 0));
    put_time(out, "started", cs_msg_int(job, "started_ns", 0));
    put_time(out, "ended", cs_msg_int(job, "ended_ns", 0));
    if (cs_msg_int(job, "checkpoint_step", -1) >= 0) {
        snprintf(text, sizeof(text), "step %lld", (long long)cs_msg_int(job, "checkpoint_step", 0));
        put_text(out, "checkpoint", text);
    }
    put_text(out, "directory", cs_msg_str(job, "dir", ""));
    put_text(out, "spec", cs_msg_str(job, "spec_hash", ""));
    put_text(out, "plan", cs_msg_str(job, "plan_hash", ""));
}

static json_t *job_doc(const json_t *reply)
{
    json_t *doc = cs_doc_new("cornstarch.jobinfo/1");
    static const char *const keys[] = {"job", "spec", "plan"};
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++)
        if (cs_msg_obj(reply, keys[i]))
            cs_msg_set(doc, keys[i], json_incref(cs_msg_obj(reply, keys[i])));
    return doc;
}

static enum cs_status print_job(const struct cs_cmd *cmd, const json_t *reply, struct cs_err *err)
{
    struct cs_buf text = {0};
    if (cmd->v.json)
        return cs_cmd_print_doc(job_doc(reply), err);
    put_job(&text, cs_msg_obj(reply, "job"));
    cs_cmd_print(&text);
    cs_buf_free(&text);
    return CS_OK;
}

static enum cs_status job_request(struct cs_cmd *cmd, const char *type, json_t **request,
                                  struct cs_err *err)
{
    int64_t id;
    CS_TRY(cs_cmd_job_id(cmd, cmd->args[0], &id, err));
    *request = cs_msg_new(type);
    cs_msg_set_int(*request, "job", id);
    return CS_OK;
}

static void put_notes(struct cs_buf *out, const json_t *events)
{
    char time[CS_ISO_CAP];
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *row = json_array_get(events, i);
        const char *text = json_string_value(json_array_get(row, 2));
        cs_iso_print(time, sizeof(time), json_integer_value(json_array_get(row, 0)));
        cs_buf_addf(out, "%s%s  ", i ? "" : "\n", time);
        cs_str_escape(out, text ? text : "", text ? strlen(text) : 0, false);
        cs_buf_addc(out, '\n');
    }
}

enum cs_status cs_cmd_show(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *request = NULL, *reply = NULL, *notes = NULL;
    struct cs_buf text = {0};
    CS_TRY(job_request(cmd, "job.show", &request, err));
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    enum cs_status st = print_job(cmd, reply, err);
    if (st == CS_OK && !cmd->v.json) {
        request = cs_msg_new("job.events");
        cs_msg_set_int(request, "job", cs_msg_int(cs_msg_obj(reply, "job"), "id", 0));
        cs_msg_set_int(request, "limit", 20);
        st = cs_cmd_call(cmd, request, &notes, err);
        if (st == CS_OK)
            put_notes(&text, cs_msg_arr(notes, "events"));
        cs_cmd_print(&text);
    }
    json_decref(reply);
    json_decref(notes);
    cs_buf_free(&text);
    return st;
}

/* --- metrics ---------------------------------------------------------------------------------- */

static void cell_text(char out[64], const json_t *value)
{
    if (json_is_integer(value))
        snprintf(out, 64, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, 64, "%.6g", json_real_value(value));
    else if (json_is_string(value))
        snprintf(out, 64, "%s", json_string_value(value));
    else
        snprintf(out, 64, "-");
}

static void print_rows(const json_t *columns, const json_t *rows)
{
    struct cs_column column[CS_TABLE_COLUMNS] = {{0}};
    char text[CS_TABLE_COLUMNS][64];
    const char *cells[CS_TABLE_COLUMNS];
    struct cs_buf out = {0};
    int n = (int)json_array_size(columns);
    n = n > CS_TABLE_COLUMNS ? CS_TABLE_COLUMNS : n;
    for (int i = 0; i < n; i++)
        column[i] = (struct cs_column){json_string_value(json_array_get(columns, (size_t)i)), 4, 0,
                                       i < 3 ? 0 : i, CS_ALIGN_RIGHT};
    struct cs_table *table = cs_table_new(column, n);
    for (size_t r = 0; r < json_array_size(rows); r++) {
        for (int i = 0; i < n; i++) {
            cell_text(text[i], json_array_get(json_array_get(rows, r), (size_t)i));
            cells[i] = text[i];
        }
        cs_table_add(table, cells);
    }
    cs_table_render(table, cs_cmd_width(), true, &out);
    cs_cmd_print(&out);
    cs_table_free(table);
    cs_buf_free(&out);
}

enum cs_status cs_cmd_metrics(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *request = NULL, *reply = NULL;
    CS_TRY(job_request(cmd, "job.metrics", &request, err));
    int64_t id = cs_msg_int(request, "job", 0);
    cs_msg_set_int(request, "after_step", cmd->v.after);
    cs_msg_set_int(request, "every", cmd->v.every);
    cs_msg_set_int(request, "limit", cmd->v.limit);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    enum cs_status st = CS_OK;
    if (cmd->v.json) {
        json_t *doc = cs_doc_new("cornstarch.metrics/1");
        cs_msg_set_int(doc, "job", id);
        cs_msg_set(doc, "columns", json_incref(cs_msg_arr(reply, "columns")));
        cs_msg_set(doc, "rows", json_incref(cs_msg_arr(reply, "rows")));
        st = cs_cmd_print_doc(doc, err);
    } else {
        print_rows(cs_msg_arr(reply, "columns"), cs_msg_arr(reply, "rows"));
    }
    json_decref(reply);
    return st;
}

/* --- logs ------------------------------------------------------------------------------------- */

static enum cs_status log_rank(const char *text, int64_t *rank, struct cs_err *err)
{
    static const struct {
        const char *name;
        int64_t rank;
    } names[] = {
        {"feeder", -1},
        {"runner", -2},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++)
        if (strcmp(text, names[i].name) == 0) {
            *rank = names[i].rank;
            return CS_OK;
        }
    if (!cs_str_to_i64(text, rank) || *rank < 0 || *rank > 65536)
        return cs_fail(err, CS_USAGE,
                       "--rank is the number of a rank, 'feeder' or 'runner', not '%.100s'", text);
    return CS_OK;
}

static enum cs_status ask_log(struct cs_cmd *cmd, int64_t job, int64_t rank, int64_t offset,
                              json_t **reply, struct cs_err *err)
{
    json_t *request = cs_msg_new("job.log");
    cs_msg_set_int(request, "job", job);
    cs_msg_set_int(request, "rank", rank);
    cs_msg_set_int(request, "offset", offset);
    cs_msg_set_int(request, "limit", offset < 0 ? cmd->v.lines : 1000);
    return cs_cmd_call(cmd, request, reply, err);
}

static void print_lines(const json_t *lines)
{
    struct cs_buf text = {0};
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        cs_str_escape(&text, json_string_value(line), json_string_length(line), false);
        cs_buf_addc(&text, '\n');
    }
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static enum cs_status is_over(struct cs_cmd *cmd, int64_t job, bool *over, struct cs_err *err)
{
    static const char *const live[] = {"QUEUED", "RESERVED", "STARTING",
                                       "RUN",    "PAUSING",  "STOPPING"};
    json_t *request = cs_msg_new("job.show"), *reply = NULL;
    cs_msg_set_int(request, "job", job);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    const char *state = cs_msg_str(cs_msg_obj(reply, "job"), "state", "");
    *over = true;
    for (size_t i = 0; i < CS_ARRAY_LEN(live); i++)
        *over = *over && strcmp(state, live[i]) != 0;
    json_decref(reply);
    return CS_OK;
}

static enum cs_status follow(struct cs_cmd *cmd, int64_t job, int64_t rank, int64_t offset,
                             struct cs_err *err)
{
    const struct timespec pause = {.tv_nsec = 300000000};
    for (bool over = false, was_over = false; !was_over;) {
        json_t *reply = NULL;
        was_over = over;
        CS_TRY(ask_log(cmd, job, rank, offset, &reply, err));
        size_t n = json_array_size(cs_msg_arr(reply, "lines"));
        print_lines(cs_msg_arr(reply, "lines"));
        fflush(stdout);
        offset = cs_msg_int(reply, "next", offset);
        json_decref(reply);
        if (n > 0) { /* more may wait, also after the end */
            was_over = false;
            continue;
        }
        if (was_over)
            break;
        CS_TRY(is_over(cmd, job, &over, err));
        if (!over)
            nanosleep(&pause, NULL);
    }
    return CS_OK;
}

enum cs_status cs_cmd_logs(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *reply = NULL;
    int64_t job, rank;
    CS_TRY(log_rank(cmd->v.rank, &rank, err));
    if (cmd->v.follow && cmd->v.json)
        return cs_fail(err, CS_USAGE, "--follow and --json do not go together");
    CS_TRY(cs_cmd_job_id(cmd, cmd->args[0], &job, err));
    CS_TRY(ask_log(cmd, job, rank, -1, &reply, err));
    enum cs_status st = CS_OK;
    if (cmd->v.json) {
        json_t *doc = cs_doc_new("cornstarch.log/1");
        cs_msg_set_int(doc, "job", job);
        cs_msg_set_int(doc, "rank", rank);
        cs_msg_set(doc, "lines", json_incref(cs_msg_arr(reply, "lines")));
        st = cs_cmd_print_doc(doc, err);
    } else {
        print_lines(cs_msg_arr(reply, "lines"));
        if (cmd->v.follow)
            st = follow(cmd, job, rank, cs_msg_int(reply, "next", 0), err);
    }
    json_decref(reply);
    return st;
}

/* --- orders ----------------------------------------------------------------------------------- */

static enum cs_status order(struct cs_cmd *cmd, const char *type, const char *done,
                            struct cs_err *err)
{
    json_t *request = NULL, *reply = NULL;
    CS_TRY(job_request(cmd, type, &request, err));
    int64_t id = cs_msg_int(request, "job", 0);
    if (strcmp(type, "job.stop") == 0)
        cs_msg_set_bool(request, "now", cmd->v.now);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    json_decref(reply);
    if (!cmd->v.json) {
        printf("job %lld: %s\n", (long long)id, done);
        return CS_OK;
    }
    request = cs_msg_new("job.show");
    cs_msg_set_int(request, "job", id);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    json_object_del(reply, "spec");
    json_object_del(reply, "plan");
    enum cs_status st = cs_cmd_print_doc(job_doc(reply), err);
    json_decref(reply);
    return st;
}

enum cs_status cs_cmd_pause(struct cs_cmd *cmd, struct cs_err *err)
{
    return order(cmd, "job.pause", "pausing after this step", err);
}

enum cs_status cs_cmd_resume(struct cs_cmd *cmd, struct cs_err *err)
{
    return order(cmd, "job.resume", "resuming", err);
}

enum cs_status cs_cmd_stop(struct cs_cmd *cmd, struct cs_err *err)
{
    return order(cmd, "job.stop", cmd->v.now ? "stopping now" : "stopping after a checkpoint", err);
}

enum cs_status cs_cmd_checkpoint(struct cs_cmd *cmd, struct cs_err *err)
{
    return order(cmd, "job.checkpoint", "a checkpoint follows this step", err);
}

enum cs_status cs_cmd_wait(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *request = NULL, *reply = NULL;
    CS_TRY(cs_cmd_connect(cmd, err));
    CS_TRY(job_request(cmd, "job.wait", &request, err));
    CS_TRY(cs_client_call_for(cmd->client, request, 0, &reply, err));
    const json_t *job = cs_msg_obj(reply, "job");
    cmd->exit_code = (int)cs_msg_int(job, "exit", 0);
    enum cs_status st = CS_OK;
    if (cmd->v.json)
        st = cs_cmd_print_doc(job_doc(reply), err);
    else
        printf("job %lld: %s%s%s\n", (long long)cs_msg_int(job, "id", 0),
               cs_msg_str(job, "state", ""), cs_msg_str(job, "reason", "")[0] ? ": " : "",
               cs_msg_str(job, "reason", ""));
    json_decref(reply);
    return st;
}
