/* doctor: is everything there that a job needs on this machine. */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "console/cli/cli_screen.h"
#include "console/cli/cmd.h"
#include "console/cli/registry.h"
#include "console/link/paths.h"
#include "core/base/dirs.h"
#include "core/base/say.h"
#include "core/base/units.h"
#include "core/wire/wire.h"

static void add_check(json_t *checks, const char *name, bool ok, const char *text)
{
    json_t *row = json_object();
    cs_msg_set_str(row, "name", name);
    cs_msg_set_bool(row, "ok", ok);
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
    add_check(checks, "terminal", ok, text);
    const char *codeset = nl_langinfo(CODESET);
    bool is_utf8 = strcmp(codeset, "UTF-8") == 0;
    snprintf(text, sizeof text, "%.60s%s", codeset,
             is_utf8 ? ": test card \342\226\201\342\226\203\342\226\205\342\226\207 \342\240\213"
                       "\342\240\231 \342\224\202\342\224\200 (eight signs, all of one width)"
                     : ": the screen uses ASCII; set LC_ALL=C.UTF-8 for lines and blocks");
    add_check(checks, "locale", is_utf8, text);
}

static void check_programs(json_t *checks)
{
    static const char *const programs[] = {"cornstarchd", "cornstarch-runner", "cornstarch-feeder",
                                           "cornstarch-worker"};
    char self[CS_PATH_CAP], path[CS_PATH_CAP], text[CS_PATH_CAP + 64];
    struct cs_err err;
    if (cs_dir_self(self, &err) != CS_OK) {
        add_check(checks, "programs", false, err.text);
        return;
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(programs); i++) {
        bool ok =
            cs_path(path, &err, "%s/%s", self, programs[i]) == CS_OK && access(path, X_OK) == 0;
        snprintf(text, sizeof text, "%s%s", path, ok ? "" : ": not there; build or install it");
        add_check(checks, programs[i], ok, text);
    }
}

static void check_daemon(struct cs_cmd *cmd, json_t *checks)
{
    char text[CS_PATH_CAP + 200];
    struct cs_err err;
    cmd->base = event_base_new();
    if (!cmd->base ||
        cs_client_connect_running(cmd->base, cmd->socket, &cmd->client, &err) != CS_OK) {
        snprintf(text, sizeof text, "%s%s", cmd->base ? err.text : "no event loop",
                 cmd->socket ? "" : "; the next command starts one");
        add_check(checks, "daemon", cmd->socket == NULL, text);
        return;
    }
    const json_t *hello = cs_client_hello(cmd->client);
    const char *version = cs_msg_str(hello, "version", "?");
    bool is_same = strcmp(version, CORNSTARCH_VERSION) == 0;
    snprintf(text, sizeof text, "version %s at %s%s", version, cs_client_path(cmd->client),
             is_same ? ""
                     : ": another version than this program; 'daemon stop' lets the next "
                       "command start the new one");
    add_check(checks, "daemon", is_same, text);
}

static void check_disk(json_t *checks)
{
    enum { LEAST_BYTES = 1 << 30 };

    char dir[CS_PATH_CAP], text[CS_PATH_CAP + 100], bytes[CS_UNITS_CAP];
    struct statvfs fs;
    struct cs_err err;
    if (cs_client_state_dir(dir, &err) != CS_OK || cs_mkdirs(dir, &err) != CS_OK) {
        add_check(checks, "disk", false, err.text);
        return;
    }
    if (statvfs(dir, &fs) != 0) {
        add_check(checks, "disk", false, "cannot ask the file system of the state directory");
        return;
    }
    uint64_t unused = (uint64_t)fs.f_bavail * fs.f_frsize;
    cs_bytes_print(bytes, sizeof bytes, unused);
    snprintf(text, sizeof text, "%s free at %s%s", bytes, dir,
             unused < LEAST_BYTES ? ": checkpoints may not fit" : "");
    add_check(checks, "disk", unused >= LEAST_BYTES, text);
}

static enum cs_status doctor(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *checks = json_array(), *row;
    size_t i;
    bool all = true;
    setlocale(LC_CTYPE, "");
    add_check(checks, "version", true, "cornstarch-console " CORNSTARCH_VERSION);
    check_programs(checks);
    check_terminal(checks);
    check_daemon(cmd, checks);
    check_disk(checks);
    json_array_foreach(checks, i, row)
    {
        bool ok = cs_msg_bool(row, "ok", false), is_taste = i > 4 && i < 7; /* terminal, locale */
        all = all && (ok || is_taste);
        if (!cmd->json)
            cs_say(stdout, "%-5s %-18s %s\n",
                   ok         ? "ok"
                   : is_taste ? "note"
                              : "BAD",
                   cs_msg_str(row, "name", ""), cs_msg_str(row, "text", ""));
    }
    cmd->exit_code = all ? 0 : 1;
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
    .help = "check terminal, daemon, disk and versions",
    .run = doctor,
    CS_COMMAND_NO_OPTIONS,
};
