/* See cli.h. */
#include "console/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "console/cli/cli_screen.h"
#include "core/base/str.h"
#include "core/wire/wire.h"

enum { MAX_OPTIONS = 32 };

static bool wants_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

/* An error for people on standard error, for programs as a document on standard output. */
static int report(const struct cs_err *err, bool is_json)
{
    struct cs_buf text = {0};
    if (is_json) {
        json_t *doc = cs_doc_new("cornstarch.error/1"), *body = json_object();
        cs_msg_set_str(body, "status", cs_status_slug(err->status));
        cs_msg_set_str(body, "text", err->text);
        cs_msg_set(doc, "error", body);
        cs_json_pretty(doc, &text);
        json_decref(doc);
        cs_cmd_print(&text);
    } else {
        cs_str_escape(&text, err->text, strlen(err->text), false);
        fprintf(stderr, "cornstarch-console: %s\n", cs_buf_str(&text));
    }
    cs_buf_free(&text);
    return cs_status_exit(err->status);
}

static void print_help(const struct cs_cli *cli)
{
    struct cs_buf text = {0};
    cs_options_help(cli, cs_cmd_width(), &text);
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static int top_option(char **argv)
{
    struct cs_buf text = {0};
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        cs_commands_help(cs_cmd_width(), &text);
    else if (strcmp(argv[1], "--version") == 0)
        cs_buf_addf(&text, "cornstarch-console %s\n", CORNSTARCH_VERSION);
    else
        return -1;
    cs_cmd_print(&text);
    cs_buf_free(&text);
    return 0;
}

static enum cs_status close_output(struct cs_err *err)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return cs_fail_errno(err, "writing to standard output");
    return CS_OK;
}

static int run_command(const struct cs_command *command, int argc, char **argv, bool is_json)
{
    struct cs_option options[MAX_OPTIONS];
    struct cs_cmd cmd = {.command = command};
    struct cs_args args;
    struct cs_err err = {.status = CS_OK};
    char name[64];
    size_t n = cs_command_options(command, options, MAX_OPTIONS);
    struct cs_cli cli = cs_command_cli(command, options, n, name, sizeof(name));
    enum cs_status st = cs_options_parse(&cli, argc, argv, &cmd.v, &args, &err);
    if (st != CS_OK) {
        size_t len = strlen(err.text);
        snprintf(err.text + len, sizeof(err.text) - len, "; see '%s --help'", name);
        return report(&err, is_json);
    }
    if (args.wants_help) {
        print_help(&cli);
        return 0;
    }
    if (args.wants_version) {
        printf("cornstarch-console %s\n", CORNSTARCH_VERSION);
        return 0;
    }
    cmd.n = args.n;
    cmd.args = args.items;
    st = command->run(&cmd, &err);
    if (st == CS_OK)
        st = close_output(&err);
    cs_client_free(cmd.client);
    if (cmd.base)
        event_base_free(cmd.base);
    return st == CS_OK ? cmd.exit_code : report(&err, is_json);
}

/* Place of the command's first word: options that all commands have may stand before it. */
static int find_words(int argc, char *const *argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-')
        i += strcmp(argv[i], "--socket") == 0 || strcmp(argv[i], "-S") == 0 ? 2 : 1;
    return i;
}

/* [name] [options] COMMAND [rest] becomes [name] [options] [rest] */
static void remove_words(int at, int words, int argc, char **argv)
{
    memmove(argv + at, argv + at + words, (size_t)(argc - at - words + 1) * sizeof(*argv));
}

/* "model --help": the commands of the group */
static bool show_group(const char *group)
{
    struct cs_buf list = {0};
    bool is_group = cs_command_group_help(group, &list);
    if (is_group)
        printf("commands of %s:\n%s", group, cs_buf_str(&list));
    cs_buf_free(&list);
    return is_group;
}

int cs_cli_main(int argc, char **argv)
{
    struct cs_err err;
    const struct cs_command *command;
    int words, code = 0, at = find_words(argc, argv);
    bool is_json = wants_json(argc, argv);
    if (argc >= 2 && (code = top_option(argv)) >= 0)
        return code;
    if (at >= argc) {
        code = 0;
        return cs_cli_screen(argc, argv, &code, &err) == CS_OK ? code : report(&err, is_json);
    }
    if (argc - at == 2 && strcmp(argv[at + 1], "--help") == 0 && show_group(argv[at]))
        return 0;
    if (cs_command_find(argc - at, argv + at, &command, &words, &err) != CS_OK)
        return report(&err, is_json);
    remove_words(at, words, argc, argv);
    return run_command(command, argc - words, argv, is_json);
}

/* --- what commands share ---------------------------------------------------------------------- */

enum cs_status cs_cmd_connect(struct cs_cmd *cmd, struct cs_err *err)
{
    if (cmd->client)
        return CS_OK;
    if (!cmd->base)
        cmd->base = event_base_new();
    if (!cmd->base)
        return cs_fail(err, CS_NO_MEMORY, "no event loop");
    return cs_client_connect(cmd->base, cmd->v.socket, &cmd->client, err);
}

enum cs_status cs_cmd_call(struct cs_cmd *cmd, json_t *request, json_t **reply, struct cs_err *err)
{
    enum cs_status st = cs_cmd_connect(cmd, err);
    if (st != CS_OK) {
        json_decref(request);
        return st;
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

enum cs_status cs_cmd_print_doc(json_t *doc, struct cs_err *err)
{
    struct cs_buf text = {0};
    enum cs_status st = cs_doc_check(doc, err);
    if (st == CS_OK) {
        cs_json_pretty(doc, &text);
        cs_cmd_print(&text);
    }
    json_decref(doc);
    cs_buf_free(&text);
    return st == CS_OK ? CS_OK : cs_wrap(err, st, "the document of --json");
}

void cs_cmd_print(const struct cs_buf *text)
{
    fwrite(cs_buf_str(text), 1, text->len, stdout);
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
    fprintf(stderr, "%s\n", text);
}

enum cs_status cs_cmd_eval(const char *path, bool is_job, const struct cs_here *here,
                           struct cs_script_result *out, struct cs_err *err)
{
    const struct cs_lua_limits limits = {.here = *here};
    return cs_cmd_eval_with(path, is_job, &limits, out, err);
}

enum cs_status cs_cmd_eval_with(const char *path, bool is_job, const struct cs_lua_limits *limits,
                                struct cs_script_result *out, struct cs_err *err)
{
    struct cs_lua *lua = NULL;
    *out = (struct cs_script_result){0};
    CS_TRY(cs_lua_open(limits, script_print, NULL, &lua, err));
    enum cs_status st = cs_lua_run_file(lua, path, out, err);
    cs_lua_close(lua);
    CS_TRY(st);
    bool fits = out->kind == CS_SCRIPT_JOB ||
                (!is_job && (out->kind == CS_SCRIPT_PLAN || out->kind == CS_SCRIPT_SWEEP));
    if (fits)
        return CS_OK;
    bool is_plan = out->kind == CS_SCRIPT_PLAN;
    cs_script_result_free(out);
    if (is_plan)
        return cs_fail(err, CS_INVALID,
                       "%s returns a plan, which 'cornstarch-console plan' shows; a "
                       "job needs 'return cs.job { plan = ..., data = ... }'",
                       path);
    return cs_fail(err, CS_INVALID, "%s returns no job: end it with 'return cs.job { ... }'%s",
                   path, is_job ? "" : " or a plan");
}
