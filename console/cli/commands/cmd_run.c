/* run and submit: a script's job to the daemon, and watching it to the end. */
#include <stdio.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/shared/cli_screen.h"
#include "console/cli/shared/submit.h"
#include "console/cli/shared/watch.h"
#include "core/base/say.h"
#include "core/wire/wire.h"
#include "store/hf/export.h"

/* --- submit ----------------------------------------------------------------------------------- */

/* How a script becomes a job. */
struct script {
    struct cs_texts set, tags;
    const char *note;
    bool replan;
    int64_t pick;
};

/* clang-format off */
/* what is said of a job when it is submitted */
#define LABEL_OPTIONS(type)                                                                        \
    {"set", 0, CS_OPT_TEXTS, 0, 0, NULL, "NAME=VALUE", NULL, CS_SET_HELP, offsetof(type, script.set)}, \
    {"tag", 't', CS_OPT_TEXTS, 0, 64, NULL, "TAG", NULL, "a tag of the job; may be given several times", offsetof(type, script.tags)}, \
    {"note", 0, CS_OPT_STRING, 0, 1000, NULL, "TEXT", NULL, "a note of the job", offsetof(type, script.note)}, \
    {"pick", 0, CS_OPT_INT, 0, 1000, "0", "N", NULL, "of a job whose plan is a cs.search: its N-th plan; 0: the fastest that jobs run", offsetof(type, script.pick)}

/* clang-format on */

static enum cs_status submit(struct cs_cmd *cmd, const struct script *how, int64_t *job,
                             struct cs_err *err)
{
    struct cs_script_result result;
    struct cs_lua_limits limits = {.set = &how->set, .pick = (int)how->pick};
    CS_TRY(cs_cmd_here(cmd, &limits.here, err));
    CS_TRY(cs_cmd_eval_with(cmd->args[0], true, &limits, &result, err));
    const struct cs_submission what = {.document = result.document,
                                       .ranks = result.ranks,
                                       .replans = how->replan,
                                       .tags = &how->tags,
                                       .note = how->note};
    enum cs_status status = cs_cmd_submit(cmd, &what, job, err);
    cs_script_result_free(&result);
    return status;
}

struct submit_values {
    struct cs_cmd_common common;
    struct script script;
};

/* clang-format off */
static const struct cs_option submit_options[] = {
    {"replan", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "accept another plan than the one that was previewed", offsetof(struct submit_values, script.replan)},
    LABEL_OPTIONS(struct submit_values),
};

/* clang-format on */

static enum cs_status submit_job(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct submit_values *v = cmd->values;
    int64_t job;
    CS_TRY(submit(cmd, &v->script, &job, err));
    return cs_cmd_print_submitted(cmd, job, err);
}

const struct cs_command cs_command_submit = {
    .name = "submit",
    .key = 's',
    .role = CS_ROLE_OWNER,
    .usage = "[options] SCRIPT",
    .help = "submit a job and return",
    .run = submit_job,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(submit_options, struct submit_values),
};

/* --- run -------------------------------------------------------------------------------------- */

struct run_values {
    struct cs_cmd_common common;
    struct script script;
    bool plain, detach;
    const char *export_dir;
};

#define AT(field) offsetof(struct run_values, field)
/* clang-format off */
static const struct cs_option run_options[] = {
    {"plain", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "lines instead of the console", AT(plain)},
    {"detach", 'd', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "submit and return", AT(detach)},
    {"replan", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "accept another plan than the one that was previewed", AT(script.replan)},
    LABEL_OPTIONS(struct run_values),
    {"export", 'o', CS_OPT_STRING, 0, 0, NULL, "DIR", NULL, "write the trained model to DIR at the end", AT(export_dir)},
};

/* clang-format on */
#undef AT

/* Whoever leaves before the end takes the export with them. */
static void say_unexported(int64_t job, const char *export_dir)
{
    if (export_dir)
        cs_say(stderr,
               "cornstarch-console: the job goes on; nothing is exported to %s. When it has ended: "
               "cornstarch-console export %lld %s\n",
               export_dir, (long long)job, export_dir);
}

static enum cs_status run(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct run_values *v = cmd->values;
    int64_t job;
    json_t *reply = NULL;
    if (v->export_dir && v->detach)
        return cs_fail(err, CS_INVALID,
                       "--export is done when the job has ended, and --detach does not wait for "
                       "that: wait for the job, then export it");
    if (v->export_dir) { /* before hours of training, not after them */
        enum cs_status status = cs_export_try(v->export_dir, err);
        if (status != CS_OK)
            return cs_wrap(err, status, "--export");
    }
    CS_TRY(submit(cmd, &v->script, &job, err));
    if (v->detach)
        return cs_cmd_print_submitted(cmd, job, err);
    if (!v->plain && !cmd->json && cs_cli_has_screen()) {
        enum cs_status status = cs_cli_screen_on_job(cmd, job, err);
        if (status != CS_OK && status != CS_UNSUPPORTED)
            return status;
        if (status == CS_OK) { /* left: with the report when it has ended, else with the way back */
            CS_TRY(cs_cmd_show_job(cmd, job, &reply, err));
            bool is_over = cs_cmd_has_settled(cs_msg_obj(reply, "job"));
            json_decref(reply);
            if (!is_over) {
                say_unexported(job, v->export_dir);
                return CS_OK;
            }
        }
    }
    return cs_cmd_watch(cmd, job, cmd->args[0], v->export_dir, err);
}

const struct cs_command cs_command_run = {
    .name = "run",
    .role = CS_ROLE_OWNER,
    .usage = "[options] SCRIPT",
    .help = "submit a job and watch it to the end",
    .run = run,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(run_options, struct run_values),
};
