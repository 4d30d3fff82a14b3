/* jobs: all jobs, newest first. */
#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"

struct values {
    struct cs_cmd_common common;
    int64_t limit;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"limit", 'n', CS_OPT_INT, 1, 10000, "1000", NULL, NULL, "at most so many jobs", AT(limit)},
};

/* clang-format on */

static enum cs_status jobs(struct cs_cmd *cmd, struct cs_err *err)
{
    return cs_cmd_list_jobs(cmd, ((const struct values *)cmd->values)->limit, err);
}

const struct cs_command cs_command_jobs = {
    .name = "jobs",
    .key = '1',
    .role = CS_ROLE_VIEWER,
    .usage = "[options]",
    .help = "all jobs, newest first",
    .run = jobs,
    CS_COMMAND_OPTIONS(options, struct values),
};
