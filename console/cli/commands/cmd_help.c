/* help: the list of commands, the options of one, and what is generated from the tables. */
#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/docs/command_docs.h"
#include "console/cli/docs/manual.h"
#include "core/wire/wire.h"

static enum cs_status help_of(const struct cs_cmd *cmd, struct cs_buf *out, struct cs_err *err)
{
    struct cs_option options[32];
    const struct cs_command *command;
    char name[64];
    int used;
    CS_TRY(cs_command_find(cmd->all, cmd->n, cmd->args, &command, &used, err));
    size_t n_options = cs_command_options(command, options, CS_ARRAY_LEN(options));
    struct cs_cli cli = cs_command_cli(command, options, n_options, name, sizeof name);
    cs_options_help(&cli, cs_cmd_width(), out);
    if (command->aliases)
        cs_buf_addf(out, "\nother names: %s\n", command->aliases);
    return CS_OK;
}

struct help_values {
    struct cs_cmd_common common;
    bool list, mdoc;
    int part; /* of the manual, with mdoc: enum cs_manual_part */
    const char *completion;
};

#define AT(field) offsetof(struct help_values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"list", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "every command and option, tab-separated", AT(list)},
    {"mdoc", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "the same for the manual page", AT(mdoc)},
    {"part", 0, CS_OPT_ENUM, 0, 0, "commands", NULL, cs_manual_parts, "with --mdoc, another part of the manual pages", AT(part)},
    {"completion", 0, CS_OPT_STRING, 0, 0, NULL, "SHELL", NULL, "script for bash, zsh or fish", AT(completion)},
};

/* clang-format on */
#undef AT

static void set_text(json_t *o, const char *key, const char *text)
{
    if (text && text[0])
        cs_msg_set_str(o, key, text);
}

static json_t *options_of(const struct cs_command *command)
{
    struct cs_option option[32];
    const size_t n = cs_command_options(command, option, CS_ARRAY_LEN(option));
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const char letter[] = {option[i].letter, '\0'};
        json_t *o = json_object();
        set_text(o, "name", option[i].name);
        set_text(o, "letter", letter);
        set_text(o, "argument", option[i].argname);
        set_text(o, "default", option[i].dflt);
        set_text(o, "help", option[i].help);
        json_array_append_new(list, o);
    }
    return list;
}

/* all commands, or the one that is named */
static enum cs_status print_document(const struct cs_cmd *cmd, struct cs_err *err)
{
    const struct cs_command *only = NULL;
    int used;
    if (cmd->n > 0)
        CS_TRY(cs_command_find(cmd->all, cmd->n, cmd->args, &only, &used, err));
    json_t *doc = cs_doc_new("cornstarch.commands/1"), *list = json_array();
    for (int i = 0; i < cmd->all->n; i++) {
        const struct cs_command *command = cmd->all->row[i];
        if (only && only != command)
            continue;
        json_t *o = json_object();
        set_text(o, "name", command->name);
        set_text(o, "usage", command->usage);
        set_text(o, "help", command->help);
        set_text(o, "aliases", command->aliases);
        cs_msg_set(o, "options", options_of(command));
        json_array_append_new(list, o);
    }
    cs_msg_set(doc, "commands", list);
    return cs_cmd_print_doc(doc, err);
}

static enum cs_status help(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct help_values *v = cmd->values;
    struct cs_buf text = {0};
    enum cs_status status = CS_OK;
    if (cmd->json)
        return print_document(cmd, err);
    if (v->list)
        cs_commands_list(cmd->all, &text);
    else if (v->mdoc)
        cs_manual_part(cmd->all, (enum cs_manual_part)v->part, &text);
    else if (v->completion && !cs_commands_completion(v->completion, &text))
        status = cs_fail(err, CS_USAGE, "--completion knows bash, zsh and fish, not '%.60s'",
                         v->completion);
    else if (!v->completion && cmd->n > 0)
        status = help_of(cmd, &text, err);
    else if (!v->completion)
        cs_commands_help(cmd->all, cs_cmd_width(), &text);
    if (status == CS_OK)
        cs_cmd_print(&text);
    cs_buf_free(&text);
    return status;
}

const struct cs_command cs_command_help = {
    .name = "help",
    .key = '?',
    .role = CS_ROLE_VIEWER,
    .usage = "[options] [COMMAND ...]",
    .help = "this list, or the options of a command",
    .run = help,
    .max_args = -1,
    CS_COMMAND_OPTIONS(options, struct help_values),
};
