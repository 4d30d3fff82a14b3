/* help: the list of commands, the options of one, and what is generated from the tables. */
#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/docs/command_docs.h"
#include "console/cli/docs/manual.h"

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

static enum cs_status help(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct help_values *v = cmd->values;
    struct cs_buf text = {0};
    enum cs_status status = CS_OK;
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
