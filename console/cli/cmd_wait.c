/* wait: until a job has ended or paused; the exit code says how. */
#include <stdio.h>

#include "console/cli/cmd.h"
#include "console/cli/registry.h"
#include "core/base/say.h"
#include "core/wire/alarm.h"
#include "core/wire/wire.h"

static void say_end(const json_t *job)
{
    const json_t *alarms = cs_msg_arr(job, "alarms");
    cs_say(stdout, "job %lld: %s%s%s\n", (long long)cs_msg_int(job, "id", 0),
           cs_msg_str(job, "state", ""), cs_msg_str(job, "reason", "")[0] ? ": " : "",
           cs_msg_str(job, "reason", ""));
    for (size_t i = 0; i < json_array_size(alarms); i++) {
        struct cs_buf text = {0};
        cs_alarm_print(&text, json_array_get(alarms, i));
        cs_say(stdout, "  %s\n", cs_buf_str(&text));
        cs_buf_free(&text);
    }
}

static enum cs_status wait_for(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *request = NULL, *reply = NULL;
    CS_TRY(cs_cmd_connect(cmd, err));
    CS_TRY(cs_cmd_job_request(cmd, "job.wait", &request, err));
    CS_TRY(cs_client_call_for(cmd->client, request, 0, &reply, err));
    const json_t *job = cs_msg_obj(reply, "job");
    cmd->exit_code = (int)cs_msg_int(job, "exit", 0);
    enum cs_status status = CS_OK;
    if (cmd->json)
        status = cs_cmd_print_doc(cs_cmd_job_doc(reply), err);
    else
        say_end(job);
    json_decref(reply);
    return status;
}

const struct cs_command cs_command_wait = {
    .name = "wait",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] ID",
    .help = "wait until a job has ended or paused; the exit code says how",
    .run = wait_for,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_NO_OPTIONS,
};
