/* From argv to an exit code: finds the command, parses its options, runs it, reports its error. */
#include "console/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "console/cli/command/cmd.h"
#include "console/cli/docs/command_docs.h"
#include "console/cli/docs/screen_options.h"
#include "console/cli/shared/cli_screen.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/base/system/environment.h"
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
        cs_str_escape(&text, err->text, strlen(err->text), false); /* no line of its own */
        cs_say(stderr, "cornstarch-console: %s\n", cs_buf_str(&text));
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

static int top_option(const struct cs_commands *all, char **argv)
{
    struct cs_buf text = {0};
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        cs_commands_help(all, cs_cmd_width(), &text);
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

static int run_command(const struct cs_commands *all, const struct cs_command *command, int argc,
                       char **argv, bool is_json)
{
    struct cs_option options[MAX_OPTIONS];

    union {
        struct cs_cmd_common common;
        max_align_t align;
        unsigned char bytes[CS_COMMAND_VALUES];
    } values = {.bytes = {0}};
    struct cs_cmd cmd = {.all = all, .command = command, .values = &values};
    struct cs_args args;
    struct cs_err err = {.status = CS_OK};
    char name[64];
    CS_ASSERT(command->values_size <= sizeof values);
    size_t n = cs_command_options(command, options, MAX_OPTIONS);
    struct cs_cli cli = cs_command_cli(command, options, n, name, sizeof name);
    enum cs_status status = cs_options_parse(&cli, argc, argv, &values, &args, &err);
    if (status != CS_OK) {
        const size_t len = strlen(err.text);
        if (!strstr(err.text, " --help"))
            snprintf(err.text + len, sizeof err.text - len, "; see '%s --help'", name);
        return report(&err, is_json);
    }
    if (args.wants_help) {
        print_help(&cli);
        return 0;
    }
    if (args.wants_version) {
        cs_say(stdout, "cornstarch-console %s\n", CORNSTARCH_VERSION);
        return 0;
    }
    if (cs_environment_check(&err) != CS_OK)
        return report(&err, is_json);
    cmd.json = values.common.json;
    cmd.socket = values.common.socket;
    cmd.n = args.n;
    cmd.args = args.items;
    status = command->run(&cmd, &err);
    if (status == CS_OK)
        status = close_output(&err);
    cs_client_free(cmd.client);
    if (cmd.base)
        event_base_free(cmd.base);
    return status == CS_OK ? cmd.exit_code : report(&err, is_json);
}

/* "--color never": the value of an option of the screen is the next word */
static bool takes_next(const char *word)
{
    size_t n = 0;
    const struct cs_option *options = cs_cli_screen_options(&n);
    for (size_t i = 0; i < n; i++) {
        const char letter[] = {'-', options[i].letter, '\0'};
        const bool is_it = cs_str_starts(word, "--") ? strcmp(word + 2, options[i].name) == 0
                                                     : options[i].letter && !strcmp(word, letter);
        if (is_it)
            return options[i].type != CS_OPT_FLAG;
    }
    return false;
}

/* Place of the command's first word: options that all commands have may stand before it. */
static int find_words(int argc, char *const *argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-')
        i += takes_next(argv[i]) ? 2 : 1;
    return i < argc ? i : argc;
}

/* [name] [options] COMMAND [rest] becomes [name] [options] [rest] */
static void remove_words(int at, int words, int argc, char **argv)
{
    memmove(argv + at, argv + at + words, (size_t)(argc - at - words + 1) * sizeof *argv);
}

/* "model --help": the commands of the group */
static bool show_group(const struct cs_commands *all, const char *group)
{
    struct cs_buf list = {0};
    bool is_group = cs_command_group_help(all, group, &list);
    if (is_group)
        cs_say(stdout, "commands of %s:\n%s", group, cs_buf_str(&list));
    cs_buf_free(&list);
    return is_group;
}

int cs_cli_main(const struct cs_commands *all, int argc, char **argv)
{
    struct cs_err err;
    const struct cs_command *command;
    int words, code = 0, at = find_words(argc, argv);
    bool is_json = wants_json(argc, argv);
    if (argc >= 2 && (code = top_option(all, argv)) >= 0)
        return code;
    if (at >= argc) {
        code = 0;
        if (cs_environment_check(&err) != CS_OK)
            return report(&err, is_json);
        return cs_cli_screen(all, argc, argv, &code, &err) == CS_OK ? code : report(&err, is_json);
    }
    if (argc - at == 2 && strcmp(argv[at + 1], "--help") == 0 && show_group(all, argv[at]))
        return 0;
    if (cs_command_find(all, argc - at, argv + at, &command, &words, &err) != CS_OK)
        return report(&err, is_json);
    remove_words(at, words, argc, argv);
    return run_command(all, command, argc - words, argv, is_json);
}
