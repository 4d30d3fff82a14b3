/* daemon start, stop, drain, status: your own daemon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/link/start.h"
#include "core/base/say.h"
#include "core/base/system/clock.h"
#include "core/base/units.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

static enum cs_status say(const struct cs_cmd *cmd, const char *text, struct cs_err *err)
{
    if (!cmd->json) {
        cs_say(stdout, "%s\n", text);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.result/1");
    cs_msg_set_str(doc, "text", text);
    return cs_cmd_print_doc(doc, err);
}

/* a connection to a daemon that runs already */
static enum cs_status connect_running(struct cs_cmd *cmd, struct cs_err *err)
{
    cmd->base = event_base_new();
    if (!cmd->base)
        return cs_fail(err, CS_NO_MEMORY, "no event loop");
    return cs_client_connect_running(cmd->base, cmd->socket, &cmd->client, err);
}

static void status_text(const struct cs_cmd *cmd, const json_t *node, char *out, size_t cap)
{
    char since[CS_ISO_CAP];
    const char *warning = cs_msg_str(node, "warning", "");
    cs_iso_print(since, sizeof since, cs_msg_int(node, "started_ns", 0));
    snprintf(out, cap, "cornstarchd %s, process %lld, since %s, at %s%s%s%s",
             cs_msg_str(node, "version", "?"), (long long)cs_msg_int(node, "pid", 0), since,
             cs_client_path(cmd->client), cs_msg_bool(node, "draining", false) ? ", draining" : "",
             warning[0] ? "\n" : "", warning);
}

/* what a program wants to know of it */
static enum cs_status print_status_doc(const struct cs_cmd *cmd, const json_t *node,
                                       struct cs_err *err)
{
    static const char *const keys[] = {"node",     "version", "pid",    "started_ns", "state_dir",
                                       "draining", "live",    "queued", "warning",    "deaf"};
    json_t *doc = cs_doc_new("cornstarch.daemon/1");
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++) {
        json_t *value = json_object_get(node, keys[i]);
        json_object_set(doc, keys[i], value ? value : json_null());
    }
    cs_msg_set_str(doc, "socket", cs_client_path(cmd->client));
    return cs_cmd_print_doc(doc, err);
}

static enum cs_status print_status(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *node = NULL;
    char text[CS_PATH_CAP + 3000];
    CS_TRY(cs_client_call(cmd->client, cs_msg_new("node.show"), &node, err));
    status_text(cmd, node, text, sizeof text);
    enum cs_status status = cmd->json ? print_status_doc(cmd, node, err) : say(cmd, text, err);
    json_decref(node);
    return status;
}

static enum cs_status start(struct cs_cmd *cmd, struct cs_err *err)
{
    if (cmd->socket)
        return cs_fail(err, CS_USAGE,
                       "daemon start starts your own daemon: leave --socket out, or "
                       "set CORNSTARCH_RUNTIME_DIR");
    CS_TRY(cs_cmd_connect(cmd, err));
    return print_status(cmd, err);
}

static enum cs_status status(struct cs_cmd *cmd, struct cs_err *err)
{
    CS_TRY(connect_running(cmd, err));
    return print_status(cmd, err);
}

static enum cs_status stop(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *reply = NULL;
    CS_TRY(connect_running(cmd, err));
    CS_TRY(cs_client_call(cmd->client, cs_msg_new("daemon.stop"), &reply, err));
    json_decref(reply);
    /* the next command must not meet the daemon that is leaving */
    CS_TRY(cs_client_await_gone(cs_client_path(cmd->client), err));
    return say(cmd, "the daemon has ended; running jobs go on and are found again by the next one",
               err);
}

static enum cs_status set_draining(struct cs_cmd *cmd, bool is_off, struct cs_err *err)
{
    char text[160];
    json_t *reply = NULL, *request = cs_msg_new("daemon.drain");
    if (is_off)
        cs_msg_set_bool(request, "off", true);
    enum cs_status status = connect_running(cmd, err);
    if (status != CS_OK) {
        json_decref(request);
        return status;
    }
    CS_TRY(cs_client_call(cmd->client, request, &reply, err));
    const long long jobs = (long long)cs_msg_int(reply, "jobs", 0);
    json_decref(reply);
    if (is_off)
        snprintf(text, sizeof text,
                 "the daemon takes jobs again; %lld paused meanwhile and wait for 'resume'", jobs);
    else
        snprintf(text, sizeof text, "the daemon takes no more jobs; %lld still run and pause",
                 jobs);
    return say(cmd, text, err);
}

static enum cs_status drain(struct cs_cmd *cmd, struct cs_err *err)
{
    return set_draining(cmd, false, err);
}

static enum cs_status undrain(struct cs_cmd *cmd, struct cs_err *err)
{
    return set_draining(cmd, true, err);
}

const struct cs_command cs_command_daemon_start = {
    .name = "daemon start",
    .role = CS_ROLE_ADMIN,
    .usage = "[options]",
    .help = "start your own daemon",
    .run = start,
    CS_COMMAND_NO_OPTIONS,
};

const struct cs_command cs_command_daemon_stop = {
    .name = "daemon stop",
    .role = CS_ROLE_ADMIN,
    .confirm = CS_CONFIRM_ASK,
    .usage = "[options]",
    .help = "end the daemon; running jobs go on",
    .run = stop,
    CS_COMMAND_NO_OPTIONS,
};

const struct cs_command cs_command_daemon_drain = {
    .name = "daemon drain",
    .role = CS_ROLE_ADMIN,
    .confirm = CS_CONFIRM_ASK,
    .usage = "[options]",
    .help = "take no more jobs, pause those that run, end",
    .run = drain,
    CS_COMMAND_NO_OPTIONS,
};

const struct cs_command cs_command_daemon_undrain = {
    .name = "daemon undrain",
    .role = CS_ROLE_ADMIN,
    .usage = "[options]",
    .help = "take jobs again while it drains; what was paused stays so",
    .run = undrain,
    CS_COMMAND_NO_OPTIONS,
};

const struct cs_command cs_command_daemon_status = {
    .name = "daemon status",
    .role = CS_ROLE_VIEWER,
    .usage = "[options]",
    .help = "is it running, since when, where",
    .run = status,
    CS_COMMAND_NO_OPTIONS,
};
