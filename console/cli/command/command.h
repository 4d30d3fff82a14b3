/* Commands: what one is, and what is made from the table of all of them (cli/registry.h): the command
 * line, its help, shell completion, the manual page.
 *
 * A command is one file cmd_NAME.c with its options, the struct of their values, its row
 * `const struct cs_command cs_command_NAME`, and a line in cli/registry.h. */
#ifndef CS_CONSOLE_CLI_COMMAND_H
#define CS_CONSOLE_CLI_COMMAND_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "console/link/client.h"
#include "console/views/state/job_orders.h"
#include "core/base/buf.h"
#include "core/program/options.h"
#include "core/wire/schema.h"

/* Values of the options that every command has: the first member of each command's own values. */
struct cs_cmd_common {
    bool json;
    const char *socket; /* NULL: your own daemon */
};

struct cs_command;

/* all commands, in the order of help and manual */
struct cs_commands {
    const struct cs_command *const *row;
    int n;
};

/* one command while it runs */
struct cs_cmd {
    const struct cs_commands *all;
    const struct cs_command *command;
    bool json;
    const char *socket;
    const void *values; /* of its options: the struct that its file defines */
    int n;
    char **args; /* positional */
    struct event_base *base;
    struct cs_client *client; /* made by cs_cmd_connect */
    int exit_code;            /* of a command that worked but has something to tell; else 0 */
};

struct cs_command {
    const char *name;    /* "jobs", "model init" */
    const char *aliases; /* other names, separated by spaces: "ls ps"; NULL: none */
    char key;            /* in the console's views, 0: none */
    enum cs_role role;
    enum cs_confirm confirm;
    const char *usage; /* after the name: "[options] ID" */
    const char *help;
    enum cs_status (*run)(struct cs_cmd *cmd, struct cs_err *err);
    int min_args, max_args; /* max_args -1: any number */
    const struct cs_option *options;
    size_t n_options;
    size_t values_size; /* bytes of its values, at most CS_COMMAND_VALUES */
};

enum { CS_COMMAND_VALUES = 1024 };

/* in a command's row: its options and the struct of their values, or none of its own */
#define CS_COMMAND_OPTIONS(table, type)                                                            \
    .options = (table), .n_options = CS_ARRAY_LEN(table), .values_size = sizeof(type)
#define CS_COMMAND_NO_OPTIONS .values_size = sizeof(struct cs_cmd_common)
#define CS_SET_HELP           "what cs.param NAME is in the script; may be given several times"
/* options that several commands have */
#define CS_OPTION_DEVICES(letter, type)                                                            \
    {                                                                                              \
        "devices", letter, CS_OPT_STRING, 0, 0, NULL, "CLASS:N", NULL,                             \
            "what cs.cluster \"here\" is, such as h100-80g:4 or cpu:8; default: what a daemon "    \
            "that runs offers, without one the GPUs of this machine, else 8 CPU ranks",            \
            offsetof(type, devices)                                                                \
    }

/* The commands of a group ("model") with their help, one a line; false: there is no such group */
bool cs_command_group_help(const struct cs_commands *all, const char *group, struct cs_buf *out);
/* The command that argv[0..n) starts with; *words: of its name. CS_USAGE with the nearest name, or
 * with the list of a group ("model" alone). */
enum cs_status cs_command_find(const struct cs_commands *all, int n, char *const *argv,
                               const struct cs_command **out, int *words,
                               struct cs_err *err) CS_NODISCARD;
/* every option of a command: its own (command NULL: none) and those that all have; returns how
 * many */
size_t cs_command_options(const struct cs_command *command, struct cs_option *out, size_t cap);
/* parser and help of one command; options must have been filled by cs_command_options */
struct cs_cli cs_command_cli(const struct cs_command *command, const struct cs_option *options,
                             size_t n_options, char *name, size_t name_cap);

#endif
