/* doctor: is everything there that a job needs on this machine. */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/shared/cli_screen.h"
#include "console/link/paths.h"
#include "console/link/start.h"
#include "core/base/say.h"
#include "core/base/system/environment.h"
#include "core/base/units.h"
#include "core/program/dirs.h"
#include "core/program/process.h"
#include "core/wire/wire.h"

/* NOTE: a matter of taste, or nothing that commands stumble over */
enum level { OK, NOTE, BAD };

static void add_check(json_t *checks, const char *name, enum level level, const char *text)
{
    static const char *const words[] = {[OK] = "ok", [NOTE] = "note", [BAD] = "BAD"};
    json_t *row = json_object();
    cs_msg_set_str(row, "name", name);
    cs_msg_set_bool(row, "ok", level == OK);
    cs_msg_set_str(row, "level", words[level]);
    cs_msg_set_str(row, "text", text);
    json_array_append_new(checks, row);
}

static void check_terminal(json_t *checks)
{
    char text[200];
    const char *term = getenv("TERM");
    bool ok = cs_cli_has_screen();
    snprintf(text, sizeof text, "TERM=%.60s%s", term ? term : "(unset)",
             ok ? "" : ": no screen here, commands and --plain work");
    add_check(checks, "terminal", ok ? OK : NOTE, text);
    const char *codeset = nl_langinfo(CODESET);
    bool is_utf8 = strcmp(codeset, "UTF-8") == 0;
    snprintf(text, sizeof text, "%.60s%s", codeset,
             is_utf8 ? ": test card \342\226\201\342\226\203\342\226\205\342\226\207 \342\240\213"
                       "\342\240\231 \342\224\202\342\224\200 (eight signs, all of one width)"
                     : ": the screen uses ASCII; set LC_ALL=C.UTF-8 for lines and blocks");
    add_check(checks, "locale", is_utf8 ? OK : NOTE, text);
}

static void check_programs(json_t *checks)
{
    static const char *const programs[] = {"cornstarchd", "cornstarch-runner", "cornstarch-feeder",
                                           "cornstarch-worker"};
    char self[CS_PATH_CAP], path[CS_PATH_CAP], text[CS_PATH_CAP + 64];
    struct cs_err err;
    if (cs_dir_self(self, &err) != CS_OK) {
        add_check(checks, "programs", BAD, err.text);
        return;
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(programs); i++) {
        bool ok =
            cs_path(path, &err, "%s/%s", self, programs[i]) == CS_OK && access(path, X_OK) == 0;
        snprintf(text, sizeof text, "%s%s", path, ok ? "" : ": not there; build or install it");
        add_check(checks, programs[i], ok ? OK : BAD, text);
    }
}

/* Jobs whose runner cannot be reached, and what the daemon found at its start. */
static void check_world(struct cs_cmd *cmd, json_t *checks)
{
    json_t *node = NULL;
    struct cs_err err;
    if (cs_client_call(cmd->client, cs_msg_new("node.show"), &node, &err) != CS_OK) {
        add_check(checks, "jobs", BAD, err.text);
        return;
    }
    const char *warning = cs_msg_str(node, "warning", "");
    if (json_array_size(cs_msg_arr(node, "deaf")) > 0)
        add_check(checks, "jobs", BAD, warning);
    else if (warning[0])
        add_check(checks, "history", NOTE, warning);
    json_decref(node);
}

/* One that runs must answer; none is fine where the next command can start one (the other rows). */
static void check_daemon(struct cs_cmd *cmd, json_t *checks)
{
    char text[CS_PATH_CAP + 200], path[CS_PATH_CAP];
    struct cs_err err;
    int fd;
    bool is_deaf = false;
    cmd->base = event_base_new();
    CS_ASSERT(cmd->base != NULL);
    enum cs_status status = cs_client_connect_running(cmd->base, cmd->socket, &cmd->client, &err);
    if (status == CS_UNREACHABLE && !cmd->socket &&
        cs_client_dial_own(path, &fd, &is_deaf, &err) == CS_OK)
        close(fd);
    if (status != CS_OK) {
        const bool is_none = status == CS_UNREACHABLE && !cmd->socket && !is_deaf;
        snprintf(text, sizeof text, "%s%s", err.text,
                 is_none ? "; the next command starts one" : "");
        add_check(checks, "daemon", is_none ? OK : BAD, text);
        return;
    }
    const json_t *hello = cs_client_hello(cmd->client);
    const char *version = cs_msg_str(hello, "version", "?");
    bool is_same = strcmp(version, CORNSTARCH_VERSION) == 0;
    snprintf(text, sizeof text, "version %s at %s%s", version, cs_client_path(cmd->client),
             is_same ? ""
                     : ": another version than this program; 'daemon stop' lets the next "
                       "command start the new one");
    add_check(checks, "daemon", is_same ? OK : BAD, text);
    check_world(cmd, checks);
}

/* Where sockets are: a command fails where this cannot be used. */
static void check_runtime(json_t *checks)
{
    char path[CS_PATH_CAP], text[CS_PATH_CAP + 600], why[500] = "";
    struct cs_err err;
    const char *given = cs_variable_text(CS_VAR_RUNTIME_DIR);
    enum cs_status status = cs_client_socket(path, &err);
    if (status == CS_OK) {
        *strrchr(path, '/') = '\0';
        status = cs_dir_check_writable(path, &err);
    }
    if (status == CS_OK && !given)
        status = cs_dir_runtime_why(path, why, sizeof why, &err);
    if (status != CS_OK) {
        add_check(checks, "runtime directory", BAD, err.text);
        return;
    }
    snprintf(text, sizeof text, "%s%s%s", path, why[0] ? ", because " : "", why);
    add_check(checks, "runtime directory", OK, text);
}

static void check_state(json_t *checks)
{
    enum { LEAST_BYTES = 1 << 30 };

    char dir[CS_PATH_CAP], text[CS_PATH_CAP + 100], bytes[CS_UNITS_CAP];
    struct statvfs fs;
    struct cs_err err;
    if (cs_client_state_dir(dir, &err) != CS_OK || cs_dir_check_writable(dir, &err) != CS_OK) {
        add_check(checks, "state directory", BAD, err.text);
        return;
    }
    if (statvfs(dir, &fs) != 0) {
        add_check(checks, "disk", BAD, "cannot ask the file system of the state directory");
        return;
    }
    uint64_t unused = (uint64_t)fs.f_bavail * fs.f_frsize;
    cs_bytes_print(bytes, sizeof bytes, unused);
    snprintf(text, sizeof text, "%s free at %s%s", bytes, dir,
             unused < LEAST_BYTES ? ": checkpoints may not fit" : "");
    add_check(checks, "disk", unused >= LEAST_BYTES ? OK : BAD, text);
}

/* What every pair of ranks and every console takes one of. */
static void check_files(json_t *checks)
{
    enum { FEW = 256 };

    char text[200];
    const int64_t files = cs_process_files();
    snprintf(text, sizeof text, "%lld open file%s%s", (long long)files, CS_PLURAL(files),
             files < FEW ? ": too few for jobs of more than a handful of ranks; raise ulimit -Hn"
                         : "");
    add_check(checks, "open files", files < FEW ? BAD : OK, text);
}

static bool print_checks(const json_t *checks, bool is_quiet)
{
    size_t i;
    json_t *row;
    bool all = true;
    json_array_foreach(checks, i, row)
    {
        const char *level = cs_msg_str(row, "level", "");
        all = all && strcmp(level, "BAD") != 0;
        if (!is_quiet)
            cs_say(stdout, "%-5s %-18s %s\n", level, cs_msg_str(row, "name", ""),
                   cs_msg_str(row, "text", ""));
    }
    return all;
}

static enum cs_status doctor(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *checks = json_array();
    setlocale(LC_CTYPE, "");
    add_check(checks, "version", OK, "cornstarch-console " CORNSTARCH_VERSION);
    check_programs(checks);
    check_terminal(checks);
    check_daemon(cmd, checks);
    check_runtime(checks);
    check_state(checks);
    check_files(checks);
    cmd->exit_code = print_checks(checks, cmd->json) ? 0 : 1;
    if (!cmd->json) {
        json_decref(checks);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.doctor/1");
    cs_msg_set(doc, "checks", checks);
    return cs_cmd_print_doc(doc, err);
}

const struct cs_command cs_command_doctor = {
    .name = "doctor",
    .role = CS_ROLE_VIEWER,
    .usage = "[options]",
    .help = "check terminal, daemon, directories, limits and versions",
    .run = doctor,
    CS_COMMAND_NO_OPTIONS,
};
