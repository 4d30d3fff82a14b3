/* wait: until a job has ended or paused; the exit code says how. */
#include <stdio.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
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

/* A daemon that dies meanwhile is started again, finds the job, and is asked again; one that somebody
 * has stopped is not. */
static enum cs_status ask(struct cs_cmd *cmd, json_t *request, json_t **reply, struct cs_err *err)
{
    enum { TRIES = 100 };

    enum cs_status status = CS_PEER_GONE;
    for (int i = 0; i < TRIES && status == CS_PEER_GONE; i++) {
        CS_TRY(cs_cmd_connect(cmd, err));
        status = cs_client_call_for(cmd->client, json_incref(request), 0, reply, err);
        if (status != CS_PEER_GONE)
            return status;
        if (cs_client_was_ended(cmd->client))
            return cs_fail(err, CS_PEER_GONE, "the daemon was stopped; the job goes on without it");
        cs_client_free(cmd->client);
        cmd->client = NULL;
    }
    return status;
}

static enum cs_status wait_for(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *request = NULL, *reply = NULL;
    CS_TRY(cs_cmd_connect(cmd, err));
    CS_TRY(cs_cmd_job_request(cmd, "job.wait", &request, err));
    enum cs_status status = ask(cmd, request, &reply, err);
    json_decref(request);
    CS_TRY(status);
    const json_t *job = cs_msg_obj(reply, "job");
    cmd->exit_code = cs_cmd_job_exit(job);
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
