/* What commands share: the connection, a job's number, documents and text on standard output, the
 * evaluation of scripts. */
#include "console/cli/command/cmd.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/say.h"
#include "core/base/str.h"
#include "core/wire/wire.h"

/* What the daemon that was just started for this command found amiss; later 'daemon status' tells. */
static void tell_warning(const struct cs_cmd *cmd)
{
    json_t *node = NULL;
    if (!cs_client_has_started(cmd->client) ||
        cs_client_call(cmd->client, cs_msg_new("node.show"), &node, NULL) != CS_OK)
        return;
    if (cs_msg_str(node, "warning", "")[0])
        cs_say(stderr, "cornstarch-console: %s\n", cs_msg_str(node, "warning", ""));
    json_decref(node);
}

enum cs_status cs_cmd_connect(struct cs_cmd *cmd, struct cs_err *err)
{
    if (cmd->client)
        return CS_OK;
    if (!cmd->base)
        cmd->base = event_base_new();
    if (!cmd->base)
        return cs_fail(err, CS_NO_MEMORY, "no event loop");
    CS_TRY(cs_client_connect(cmd->base, cmd->socket, &cmd->client, err));
    tell_warning(cmd);
    return CS_OK;
}

enum cs_status cs_cmd_call(struct cs_cmd *cmd, json_t *request, json_t **reply, struct cs_err *err)
{
    enum cs_status status = cs_cmd_connect(cmd, err);
    if (status != CS_OK) {
        json_decref(request);
        return status;
    }
    return cs_client_call(cmd->client, request, reply, err);
}

static enum cs_status latest_job(struct cs_cmd *cmd, int64_t *id, struct cs_err *err)
{
    json_t *reply = NULL, *request = cs_msg_new("jobs.list");
    cs_msg_set_int(request, "limit", 1);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    const json_t *first = json_array_get(cs_msg_arr(reply, "jobs"), 0);
    *id = cs_msg_int(first, "id", 0);
    json_decref(reply);
    if (*id == 0)
        return cs_fail(err, CS_NOT_FOUND,
                       "there are no jobs yet; 'cornstarch-console run SCRIPT' "
                       "makes one");
    return CS_OK;
}

enum cs_status cs_cmd_job_id(struct cs_cmd *cmd, const char *text, int64_t *id, struct cs_err *err)
{
    if (strcmp(text, "latest") == 0)
        return latest_job(cmd, id, err);
    if (!cs_str_to_i64(text, id) || *id < 1 || *id > INT64_C(9007199254740991))
        return cs_fail(err, CS_USAGE, "'%.100s' is not a job: give its number or 'latest'", text);
    return CS_OK;
}

enum cs_status cs_cmd_job_request(struct cs_cmd *cmd, const char *type, json_t **request,
                                  struct cs_err *err)
{
    int64_t id;
    CS_TRY(cs_cmd_job_id(cmd, cmd->args[0], &id, err));
    *request = cs_msg_new(type);
    cs_msg_set_int(*request, "job", id);
    return CS_OK;
}

json_t *cs_cmd_job_doc(const json_t *reply)
{
    json_t *doc = cs_doc_new("cornstarch.jobinfo/1");
    static const char *const keys[] = {"job", "spec", "plan"};
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++)
        if (cs_msg_obj(reply, keys[i]))
            cs_msg_set(doc, keys[i], json_incref(cs_msg_obj(reply, keys[i])));
    return doc;
}

enum cs_status cs_cmd_print_doc(json_t *doc, struct cs_err *err)
{
    struct cs_buf text = {0};
    enum cs_status status = cs_doc_check(doc, err);
    if (status == CS_OK) {
        cs_json_pretty(doc, &text);
        cs_cmd_print(&text);
    }
    json_decref(doc);
    cs_buf_free(&text);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "the document of --json");
}

void cs_cmd_print(const struct cs_buf *text)
{
    cs_say_text(stdout, text);
}

int cs_cmd_width(void)
{
    struct winsize size;
    if (!isatty(1))
        return 0;
    if (ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

static void script_print(void *user, const char *text)
{
    (void)user;
    cs_say(stderr, "%s\n", text);
}

enum cs_status cs_cmd_eval(const char *path, bool is_job, const struct cs_here *here,
                           const struct cs_texts *set, struct cs_script_result *out,
                           struct cs_err *err)
{
    const struct cs_lua_limits limits = {.here = *here, .set = set};
    return cs_cmd_eval_with(path, is_job, &limits, out, err);
}

static enum cs_status run_script(const char *path, const struct cs_lua_limits *limits,
                                 struct cs_script_result *out, struct cs_err *err)
{
    struct cs_lua *lua = NULL;
    *out = (struct cs_script_result){0};
    CS_TRY(cs_lua_open(limits, script_print, NULL, &lua, err));
    enum cs_status status = cs_lua_run_file(lua, path, out, err);
    if (status == CS_OK && limits->pick > 0 && out->kind == CS_SCRIPT_SWEEP) {
        cs_script_result_free(out);
        status = cs_lua_pick_plan(lua, limits->pick, out, err);
    } else if (status == CS_OK && limits->pick > 0 && !out->found)
        status = cs_fail(err, CS_USAGE, "--pick %d: %s returns no search", limits->pick, path);
    cs_lua_close(lua);
    if (status != CS_OK)
        cs_script_result_free(out);
    return status;
}

enum cs_status cs_cmd_eval_jobs(const char *path, const struct cs_lua_limits *limits,
                                struct cs_script_result *out, struct cs_err *err)
{
    CS_TRY(run_script(path, limits, out, err));
    if (out->kind == CS_SCRIPT_JOBS)
        return CS_OK;
    cs_script_result_free(out);
    return cs_fail(err, CS_INVALID,
                   "%s returns no sweep of jobs: end it with 'return cs.sweep { over = ..., build "
                   "= function(p) return cs.job { ... } end }'",
                   path);
}

enum cs_status cs_cmd_eval_with(const char *path, bool is_job, const struct cs_lua_limits *limits,
                                struct cs_script_result *out, struct cs_err *err)
{
    CS_TRY(run_script(path, limits, out, err));
    bool fits = out->kind == CS_SCRIPT_JOB ||
                (!is_job && (out->kind == CS_SCRIPT_PLAN || out->kind == CS_SCRIPT_SWEEP));
    if (fits)
        return CS_OK;
    bool is_plan = out->kind == CS_SCRIPT_PLAN, is_sweep = out->kind == CS_SCRIPT_JOBS;
    cs_script_result_free(out);
    if (is_sweep)
        return cs_fail(err, CS_INVALID,
                       "%s returns a sweep of jobs, which 'cornstarch-console sweep' runs", path);
    if (is_plan)
        return cs_fail(err, CS_INVALID,
                       "%s returns a plan, which 'cornstarch-console plan' shows; a "
                       "job needs 'return cs.job { plan = ..., data = ... }'",
                       path);
    return cs_fail(err, CS_INVALID, "%s returns no job: end it with 'return cs.job { ... }'%s",
                   path, is_job ? "" : " or a plan");
}
