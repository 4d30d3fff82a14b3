/* show: everything about one job, and its latest notes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/draw/fmt.h"
#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/wire/alarm.h"
#include "core/wire/wire.h"

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
    cs_iso_print(text, sizeof text, wall_ns);
    put_text(out, name, text);
}

static void put_alarms(struct cs_buf *out, const json_t *alarms)
{
    for (size_t i = 0; i < json_array_size(alarms); i++) {
        struct cs_buf text = {0};
        cs_alarm_print(&text, json_array_get(alarms, i));
        put_text(out, i ? "" : "alarms", cs_buf_str(&text));
        cs_buf_free(&text);
    }
}

static void put_tags(struct cs_buf *out, const json_t *tags)
{
    struct cs_buf text = {0};
    for (size_t i = 0; i < json_array_size(tags); i++)
        cs_buf_addf(&text, "%s%s", i ? " " : "", json_string_value(json_array_get(tags, i)));
    put_text(out, "tags", cs_buf_str(&text));
    cs_buf_free(&text);
}

static void put_job(struct cs_buf *out, const json_t *job)
{
    char text[160], predicted[32], measured[32], loss[32], exact[32], bubble[32];
    snprintf(text, sizeof text, "%lld", (long long)cs_msg_int(job, "id", 0));
    put_text(out, "job", text);
    put_text(out, "name", cs_msg_str(job, "name", ""));
    put_text(out, "owner", cs_msg_str(job, "owner", ""));
    put_text(out, "state", cs_msg_str(job, "state", ""));
    put_text(out, "reason", cs_msg_str(job, "reason", ""));
    if (cs_msg_int(job, "place", 0) > 0) {
        snprintf(text, sizeof text, "place %lld", (long long)cs_msg_int(job, "place", 0));
        put_text(out, "queue", text);
    }
    put_tags(out, cs_msg_arr(job, "tags"));
    put_text(out, "note", cs_msg_str(job, "note", ""));
    put_alarms(out, cs_msg_arr(job, "alarms"));
    cs_fmt_known_loss(loss, sizeof loss, cs_msg_num(job, "loss", (double)NAN));
    cs_cmd_number(exact, job, "exact_match", 1, 4, "");
    snprintf(text, sizeof text, "%lld of %lld   loss %s   exact match %s",
             (long long)cs_msg_int(job, "step", 0), (long long)cs_msg_int(job, "steps", 0), loss,
             exact);
    put_text(out, "step", text);
    cs_cmd_number(predicted, job, "predicted_step_ns", 1e-6, 2, " ms");
    cs_cmd_number(measured, job, "step_ns", 1e-6, 2, " ms");
    cs_cmd_mean_bubble(bubble, job);
    snprintf(text, sizeof text, "predicted %s   measured %s   bubble %s", predicted, measured,
             bubble);
    put_text(out, "step time", text);
    cs_fmt_energy(text, sizeof text, cs_msg_int(job, "energy_mj", -1),
                  cs_msg_int(job, "step_energy_mj", -1),
                  cs_msg_num(job, "tokens_per_j", (double)NAN));
    put_text(out, "energy", text);
    put_time(out, "submitted", cs_msg_int(job, "submitted_ns", 0));
    put_time(out, "started", cs_msg_int(job, "started_ns", 0));
    put_time(out, "ended", cs_msg_int(job, "ended_ns", 0));
    if (cs_msg_int(job, "checkpoint_step", -1) >= 0) {
        snprintf(text, sizeof text, "step %lld", (long long)cs_msg_int(job, "checkpoint_step", 0));
        put_text(out, "checkpoint", text);
    }
    put_text(out, "directory", cs_msg_str(job, "dir", ""));
    put_text(out, "spec", cs_msg_str(job, "spec_hash", ""));
    put_text(out, "plan", cs_msg_str(job, "plan_hash", ""));
}

static enum cs_status print_job(const struct cs_cmd *cmd, const json_t *reply, struct cs_err *err)
{
    struct cs_buf text = {0};
    if (cmd->json)
        return cs_cmd_print_doc(cs_cmd_job_doc(reply), err);
    put_job(&text, cs_msg_obj(reply, "job"));
    cs_cmd_print(&text);
    cs_buf_free(&text);
    return CS_OK;
}

static void put_notes(struct cs_buf *out, const json_t *events)
{
    char time[CS_ISO_CAP];
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *row = json_array_get(events, i);
        const char *text = json_string_value(json_array_get(row, 2));
        cs_iso_print(time, sizeof time, json_integer_value(json_array_get(row, 0)));
        cs_buf_addf(out, "%s%s  ", i ? "" : "\n", time);
        cs_str_escape(out, text ? text : "", text ? strlen(text) : 0, false);
        cs_buf_addc(out, '\n');
    }
}

static enum cs_status show(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *request = NULL, *reply = NULL, *notes = NULL;
    struct cs_buf text = {0};
    CS_TRY(cs_cmd_job_request(cmd, "job.show", &request, err));
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    enum cs_status status = print_job(cmd, reply, err);
    if (status == CS_OK && !cmd->json) {
        request = cs_msg_new("job.events");
        cs_msg_set_int(request, "job", cs_msg_int(cs_msg_obj(reply, "job"), "id", 0));
        cs_msg_set_int(request, "limit", 20);
        status = cs_cmd_call(cmd, request, &notes, err);
        if (status == CS_OK)
            put_notes(&text, cs_msg_arr(notes, "events"));
        cs_cmd_print(&text);
    }
    json_decref(reply);
    json_decref(notes);
    cs_buf_free(&text);
    return status;
}

const struct cs_command cs_command_show = {
    .name = "show",
    .aliases = "info",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] ID",
    .help = "everything about one job",
    .run = show,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_NO_OPTIONS,
};
