/* jobs: a list, newest first. */
#include <stdio.h>

#include "console/cli/command/registry.h"
#include "console/cli/shared/job_ids.h"
#include "core/base/say.h"
#include "core/wire/wire.h"

struct values {
    struct cs_cmd_common common;
    struct cs_job_filter filter;
    int64_t limit;
    bool is_ids;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"limit", 'n', CS_OPT_INT, 1, 10000, "1000", NULL, NULL, "at most so many jobs", AT(limit)},
    CS_JOB_FILTER_OPTIONS(struct values, filter),
    {"ids", 'q', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "only their numbers, one a line", AT(is_ids)},
};

/* clang-format on */

static enum cs_status jobs(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    json_t *reply = NULL;
    CS_TRY(cs_cmd_find_jobs(cmd, &v->filter, v->limit, &reply, err));
    if (!v->is_ids || cmd->json)
        return cs_cmd_print_jobs(cmd, reply, err);
    const json_t *jobs = cs_msg_arr(reply, "jobs");
    for (size_t i = 0; i < json_array_size(jobs); i++)
        cs_say(stdout, "%lld\n", (long long)cs_msg_int(json_array_get(jobs, i), "id", 0));
    json_decref(reply);
    return CS_OK;
}

const struct cs_command cs_command_jobs = {
    .name = "jobs",
    .aliases = "ls ps list",
    .key = '1',
    .role = CS_ROLE_VIEWER,
    .usage = "[options]",
    .help = "jobs, newest first: all, or those of a state, tag, owner or name",
    .run = jobs,
    CS_COMMAND_OPTIONS(options, struct values),
};
