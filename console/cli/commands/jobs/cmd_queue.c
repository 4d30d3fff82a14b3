/* queue: what waits, in the order in which it starts, and for what. */
#include <stdio.h>
#include <string.h>

#include "console/cli/command/registry.h"
#include "console/cli/shared/job_ids.h"
#include "core/base/say.h"
#include "core/base/system/clock.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/wire/wire.h"

static const struct cs_column columns[] = {
    {"PLACE",   5, 0,  0, CS_ALIGN_RIGHT},
    {"ID",      2, 0,  0, CS_ALIGN_RIGHT},
    {"NAME",    4, 32, 0, CS_ALIGN_LEFT },
    {"OWNER",   3, 16, 4, CS_ALIGN_LEFT },
    {"NEEDS",   5, 0,  1, CS_ALIGN_LEFT },
    {"WAITING", 7, 0,  2, CS_ALIGN_RIGHT},
    {"REASON",  6, 90, 3, CS_ALIGN_LEFT },
};

static void add_job(struct cs_table *table, const json_t *job)
{
    char place[32] = "-", id[32], needs[48], waiting[32] = "-";
    const int64_t waits_ns = cs_wall_ns() - cs_msg_int(job, "submitted_ns", 0);
    const bool is_gpu = strcmp(cs_msg_str(job, "device", "cpu"), "cuda") == 0;
    if (cs_msg_int(job, "place", 0) > 0)
        snprintf(place, sizeof place, "%lld", (long long)cs_msg_int(job, "place", 0));
    snprintf(id, sizeof id, "%lld", (long long)cs_msg_int(job, "id", 0));
    snprintf(needs, sizeof needs, "%lld %s", (long long)cs_msg_int(job, "ranks", 0),
             is_gpu ? "GPU" : "CPU");
    if (waits_ns > 0)
        cs_duration_print(waiting, sizeof waiting, (uint64_t)waits_ns);
    const char *cells[] = {
        place, id,      cs_msg_str(job, "name", ""),  cs_msg_str(job, "owner", "-"),
        needs, waiting, cs_msg_str(job, "reason", "")};
    cs_table_add(table, cells);
}

static enum cs_status queue(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct cs_job_filter filter = {.states = "queued"};
    json_t *reply = NULL, *first = json_array();
    CS_TRY(cs_cmd_find_jobs(cmd, &filter, CS_JOB_IDS_MAX, &reply, err));
    const json_t *jobs = cs_msg_arr(reply, "jobs");
    for (size_t i = json_array_size(jobs); i-- > 0;) /* they come newest first */
        json_array_append(first, json_array_get(jobs, i));
    json_decref(reply);
    if (cmd->json) {
        json_t *doc = cs_doc_new("cornstarch.jobs/1");
        cs_msg_set(doc, "jobs", first);
        return cs_cmd_print_doc(doc, err);
    }
    struct cs_table *table = cs_table_new(columns, CS_ARRAY_LEN(columns));
    struct cs_buf text = {0};
    for (size_t i = 0; i < json_array_size(first); i++)
        add_job(table, json_array_get(first, i));
    if (json_array_size(first) > 0)
        cs_table_render(table, cs_cmd_width(), true, &text);
    else
        cs_buf_adds(&text, "no job waits\n");
    cs_cmd_print(&text);
    cs_table_free(table);
    cs_buf_free(&text);
    json_decref(first);
    return CS_OK;
}

const struct cs_command cs_command_queue = {
    .name = "queue",
    .role = CS_ROLE_VIEWER,
    .usage = "[options]",
    .help = "the jobs that wait, in the order in which they start, and for what",
    .run = queue,
    CS_COMMAND_NO_OPTIONS,
};
