/* pause, resume, stop, checkpoint: orders to a job. Key, role and help are those of the screen's
 * keys (views/job_orders.h). */
#include <stdio.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "core/base/say.h"
#include "core/wire/wire.h"

/* Sends the order; the reference of the request is taken. `done` is what a person is told then. */
static enum cs_status give(struct cs_cmd *cmd, json_t *request, const char *done,
                           struct cs_err *err)
{
    json_t *reply = NULL;
    int64_t id = cs_msg_int(request, "job", 0);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    json_decref(reply);
    if (!cmd->json) {
        cs_say(stdout, "job %lld: %s\n", (long long)id, done);
        return CS_OK;
    }
    request = cs_msg_new("job.show");
    cs_msg_set_int(request, "job", id);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    json_object_del(reply, "spec");
    json_object_del(reply, "plan");
    enum cs_status status = cs_cmd_print_doc(cs_cmd_job_doc(reply), err);
    json_decref(reply);
    return status;
}

static enum cs_status pause_job(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *request = NULL;
    CS_TRY(cs_cmd_job_request(cmd, cs_job_order_pause.message, &request, err));
    return give(cmd, request, "pausing after this step", err);
}

static enum cs_status checkpoint_job(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *request = NULL;
    CS_TRY(cs_cmd_job_request(cmd, cs_job_order_checkpoint.message, &request, err));
    return give(cmd, request, "a checkpoint follows this step", err);
}

/* --- resume ----------------------------------------------------------------------------------- */

struct resume_values {
    struct cs_cmd_common common;
    bool replan, from_start;
};

/* clang-format off */
static const struct cs_option resume_options[] = {
    {"replan", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "plan again: another plan than previewed is fine", offsetof(struct resume_values, replan)},
    {"from-start", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "begin anew at step 0, whatever is there; the checkpoints are put aside in before-N", offsetof(struct resume_values, from_start)},
};

/* clang-format on */

/* The layout of a script's job; what it trains is compared by the daemon. */
static enum cs_status add_script(struct cs_cmd *cmd, const char *script, json_t *request,
                                 struct cs_err *err)
{
    struct cs_script_result result;
    struct cs_here here;
    CS_TRY(cs_cmd_here(cmd, &here, err));
    CS_TRY(cs_cmd_eval(script, true, &here, NULL, &result, err));
    cs_msg_set_str(request, "plan_hash", cs_msg_str(result.document, "plan_hash", ""));
    cs_msg_set(request, "spec", json_incref(result.document));
    if (result.ranks > 0)
        cs_msg_set_int(request, "ranks", result.ranks);
    cs_script_result_free(&result);
    return CS_OK;
}

static enum cs_status resume_job(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct resume_values *v = cmd->values;
    json_t *request = NULL;
    CS_TRY(cs_cmd_job_request(cmd, cs_job_order_resume.message, &request, err));
    const char *script = cmd->n > 1 ? cmd->args[1] : NULL;
    enum cs_status status = script != NULL ? add_script(cmd, script, request, err) : CS_OK;
    if (status != CS_OK) {
        json_decref(request);
        return status;
    }
    if (v->replan)
        cs_msg_set_bool(request, "replan", true);
    if (v->from_start)
        cs_msg_set_bool(request, "from_start", true);
    return give(cmd, request,
                script != NULL ? "resuming under the layout of the script" : "resuming", err);
}

/* --- stop ------------------------------------------------------------------------------------- */

struct stop_values {
    struct cs_cmd_common common;
    bool now;
};

/* clang-format off */
static const struct cs_option stop_options[] = {
    {"now", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "without a checkpoint", offsetof(struct stop_values, now)},
};

/* clang-format on */

static enum cs_status stop_job(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct stop_values *v = cmd->values;
    json_t *request = NULL;
    CS_TRY(cs_cmd_job_request(cmd, cs_job_order_stop.message, &request, err));
    cs_msg_set_bool(request, "now", v->now);
    return give(cmd, request, v->now ? "stopping now" : "stopping after a checkpoint", err);
}

/* --- rows ------------------------------------------------------------------------------------- */

#define OPTIONS_pause      CS_COMMAND_NO_OPTIONS
#define OPTIONS_resume     CS_COMMAND_OPTIONS(resume_options, struct resume_values)
#define OPTIONS_stop       CS_COMMAND_OPTIONS(stop_options, struct stop_values)
#define OPTIONS_checkpoint CS_COMMAND_NO_OPTIONS

#define ARGS_pause      .usage = "[options] ID", .max_args = 1
#define ARGS_resume     .usage = "[options] ID [SCRIPT]", .max_args = 2
#define ARGS_stop       .usage = "[options] ID", .max_args = 1
#define ARGS_checkpoint .usage = "[options] ID", .max_args = 1

#define ALIASES_pause      NULL
#define ALIASES_resume     "continue"
#define ALIASES_stop       "kill cancel"
#define ALIASES_checkpoint "save"

#define X(id, letter, message, command, least_role, question, text)                                \
    const struct cs_command cs_command_##id = {                                                    \
        .name = #id,                                                                               \
        .key = letter,                                                                             \
        .role = least_role,                                                                        \
        .confirm = question,                                                                       \
        .help = text,                                                                              \
        .aliases = ALIASES_##id,                                                                   \
        .run = id##_job,                                                                           \
        .min_args = 1,                                                                             \
        ARGS_##id,                                                                                 \
        OPTIONS_##id,                                                                              \
    };
CS_JOB_ORDER_TABLE(X)
#undef X
