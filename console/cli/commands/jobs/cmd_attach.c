/* attach: the screen on a job, or its sentences. */
#include "console/cli/command/registry.h"
#include "console/cli/shared/cli_screen.h"
#include "console/cli/shared/job_ids.h"
#include "console/cli/shared/watch.h"
#include "core/wire/wire.h"

struct values {
    struct cs_cmd_common common;
    bool is_plain;
};

static const struct cs_option options[] = {
    {"plain", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "lines instead of the console",
     offsetof(struct values, is_plain)},
};

/* the newest that is at work, else the newest */
static enum cs_status choose(struct cs_cmd *cmd, int64_t *id, struct cs_err *err)
{
    const struct cs_job_filter filter = {.states = "live"};
    json_t *reply = NULL;
    if (cmd->n > 0)
        return cs_cmd_job_id(cmd, cmd->args[0], id, err);
    CS_TRY(cs_cmd_find_jobs(cmd, &filter, 1, &reply, err));
    *id = cs_msg_int(json_array_get(cs_msg_arr(reply, "jobs"), 0), "id", 0);
    json_decref(reply);
    return *id > 0 ? CS_OK : cs_cmd_job_id(cmd, "latest", id, err);
}

static enum cs_status attach(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    int64_t id;
    CS_TRY(choose(cmd, &id, err));
    if (!v->is_plain && !cmd->json && cs_cli_has_screen()) {
        enum cs_status status = cs_cli_screen_on_job(cmd, id, err);
        if (status != CS_UNSUPPORTED)
            return status;
    }
    return cs_cmd_watch(cmd, id, NULL, NULL, err);
}

const struct cs_command cs_command_attach = {
    .name = "attach",
    .aliases = "watch top",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] [ID]",
    .help = "open the console on a job: without one, the newest that is at work",
    .run = attach,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
