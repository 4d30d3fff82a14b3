/* A table of jobs, newest first: what `jobs` prints, and the console where there is no terminal. */
#include <math.h>
#include <stdio.h>

#include "console/cli/command/cmd.h"
#include "console/draw/fmt.h"
#include "core/base/system/clock.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/wire/alarm.h"
#include "core/wire/wire.h"

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
    {"ALARMS",  6, 0,  2, CS_ALIGN_RIGHT},
    {"TAGS",    4, 32, 6, CS_ALIGN_LEFT },
    {"REASON",  6, 60, 7, CS_ALIGN_LEFT },
};

static void elapsed(char out[32], const json_t *job)
{
    int64_t start = cs_msg_int(job, "started_ns", 0), end = cs_msg_int(job, "ended_ns", 0);
    snprintf(out, 32, "-");
    if (end <= start)
        end = cs_wall_ns();
    end -= cs_msg_int(job, "stopped_ns", 0);
    if (start > 0 && end > start)
        cs_duration_print(out, 32, (uint64_t)(end - start));
}

/* "2 ERROR": how many rules raised some, and the worst level */
static void alarms_of(char out[32], const json_t *job)
{
    const json_t *alarms = cs_msg_arr(job, "alarms");
    snprintf(out, 32, "-");
    if (json_array_size(alarms) > 0)
        snprintf(out, 32, "%zu %s", json_array_size(alarms), cs_alarm_word(cs_alarm_worst(alarms)));
}

static void tags_of(char *out, size_t cap, const json_t *job)
{
    const json_t *tags = cs_msg_arr(job, "tags");
    size_t used = 0;
    snprintf(out, cap, "%s", json_array_size(tags) > 0 ? "" : "-");
    for (size_t i = 0; i < json_array_size(tags) && used < cap; i++)
        used += (size_t)snprintf(out + used, cap - used, "%s%s", i ? " " : "",
                                 json_string_value(json_array_get(tags, i)));
}

static void add_job(struct cs_table *table, const json_t *job)
{
    char id[32], step[64], loss[32], exact[32], step_ms[32], bubble[32], time[32], alarms[32],
        tags[128];
    snprintf(id, sizeof id, "%lld", (long long)cs_msg_int(job, "id", 0));
    snprintf(step, sizeof step, "%lld/%lld", (long long)cs_msg_int(job, "step", 0),
             (long long)cs_msg_int(job, "steps", 0));
    cs_fmt_known_loss(loss, sizeof loss, cs_msg_num(job, "loss", (double)NAN));
    cs_cmd_number(exact, job, "exact_match", 1, 3, "");
    cs_cmd_number(step_ms, job, "step_ns", 1e-6, 2, "");
    cs_cmd_mean_bubble(bubble, job);
    elapsed(time, job);
    alarms_of(alarms, job);
    tags_of(tags, sizeof tags, job);
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
                           alarms,
                           tags,
                           cs_msg_str(job, "reason", "")};
    cs_table_add(table, cells);
}

enum cs_status cs_cmd_print_jobs(struct cs_cmd *cmd, json_t *reply, struct cs_err *err)
{
    json_t *job;
    struct cs_buf text = {0};
    size_t i;
    json_t *jobs = cs_msg_arr(reply, "jobs");
    if (cmd->json) {
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
