/* Commands: one table from which the command line, its help, shell completion, the manual page and
 * the console's keys and palette are made. */
#ifndef CS_CONSOLE_COMMAND_H
#define CS_CONSOLE_COMMAND_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "console/link/client.h"
#include "core/base/buf.h"
#include "core/base/options.h"
#include "core/wire/schema.h"

enum cs_confirm { CS_CONFIRM_NONE, CS_CONFIRM_ASK, CS_CONFIRM_TYPE_ID };

/* values of the options of all commands; each command sets its own */
struct cs_cmd_values {
    bool json;
    const char *socket;
    /* run, submit */
    bool plain, detach, replan;
    const char *export_dir;
    /* jobs, metrics, logs */
    int64_t limit, after, every, lines;
    const char *rank;
    bool follow, now;
    /* export, model, data, inspect */
    int dtype; /* index into cs_cmd_dtypes */
    int64_t seed, vocab, train, test, sample;
    const char *text;
    /* lua */
    const char *code;
    bool meta, manual;
    int64_t memory, instructions;
    const char *devices;
    /* dump, help */
    const char *replay, *script, *view, *size, *keys;
    const char *output; /* profile */
    bool screen;        /* plan: in the Plan view */
    bool explain, compare;
    int glyphs; /* enum cs_glyph_set */
    bool list, mdoc;
    int part; /* of the manual, with mdoc: enum cs_manual_part */
    const char *completion;
};

struct cs_command;

struct cs_cmd {
    const struct cs_command *command;
    struct cs_cmd_values v;
    int n;
    char **args; /* positional */
    struct event_base *base;
    struct cs_client *client; /* made by cs_cmd_connect */
    int exit_code;            /* of a command that worked but has something to tell; else 0 */
};

struct cs_command {
    const char *name; /* "jobs", "model init" */
    char key;         /* in the console's views, 0: none */
    enum cs_role role;
    enum cs_confirm confirm;
    const char *usage; /* after the name: "[options] ID" */
    const char *help;
    enum cs_status (*run)(struct cs_cmd *cmd, struct cs_err *err);
    int min_args, max_args; /* max_args -1: any number */
    const struct cs_option *options;
    size_t n_options;
};

extern const char *const cs_cmd_dtypes[];

const struct cs_command *cs_commands(int *n);
/* The commands of a group ("model") with their help, one a line; false: there is no such group */
bool cs_command_group_help(const char *group, struct cs_buf *out);
/* The command that argv[0..n) starts with; *words: of its name. CS_USAGE with the nearest name, or
 * with the list of a group ("model" alone). */
enum cs_status cs_command_find(int n, char *const *argv, const struct cs_command **out, int *words,
                               struct cs_err *err) CS_NODISCARD;
/* every option of a command: its own and those all have; returns how many */
size_t cs_command_options(const struct cs_command *command, struct cs_option *out, size_t cap);
/* parser and help of one command; options must have been filled by cs_command_options */
struct cs_cli cs_command_cli(const struct cs_command *command, const struct cs_option *options,
                             size_t n_options, char *name, size_t name_cap);

/* What is made from the table */
void cs_commands_help(int width, struct cs_buf *out);
/* One line per command: name, key, role, confirmation, min and max arguments (- any), usage, help;
 * then its options as cs_options_list prints them, indented by a tab. Tab-separated. */
void cs_commands_list(struct cs_buf *out);
void cs_commands_mdoc(struct cs_buf *out);                          /* of cornstarch-console.1 */
bool cs_commands_completion(const char *shell, struct cs_buf *out); /* bash, zsh */

/* handlers, by file */
#define CS_COMMAND_HANDLER(name) enum cs_status name(struct cs_cmd *cmd, struct cs_err *err)
CS_COMMAND_HANDLER(cs_cmd_run);
CS_COMMAND_HANDLER(cs_cmd_submit);
CS_COMMAND_HANDLER(cs_cmd_plan);
CS_COMMAND_HANDLER(cs_cmd_profile);
CS_COMMAND_HANDLER(cs_cmd_plan_view); /* cs_cmd_plan unless the view is asked for */
CS_COMMAND_HANDLER(cs_cmd_jobs);
CS_COMMAND_HANDLER(cs_cmd_show);
CS_COMMAND_HANDLER(cs_cmd_metrics);
CS_COMMAND_HANDLER(cs_cmd_logs);
CS_COMMAND_HANDLER(cs_cmd_pause);
CS_COMMAND_HANDLER(cs_cmd_resume);
CS_COMMAND_HANDLER(cs_cmd_stop);
CS_COMMAND_HANDLER(cs_cmd_checkpoint);
CS_COMMAND_HANDLER(cs_cmd_wait);
CS_COMMAND_HANDLER(cs_cmd_node);
CS_COMMAND_HANDLER(cs_cmd_gpus);
CS_COMMAND_HANDLER(cs_cmd_export);
CS_COMMAND_HANDLER(cs_cmd_model_init);
CS_COMMAND_HANDLER(cs_cmd_model_show);
CS_COMMAND_HANDLER(cs_cmd_model_check);
CS_COMMAND_HANDLER(cs_cmd_data_make_shapes);
CS_COMMAND_HANDLER(cs_cmd_data_check);
CS_COMMAND_HANDLER(cs_cmd_inspect);
CS_COMMAND_HANDLER(cs_cmd_lua);
CS_COMMAND_HANDLER(cs_cmd_dump);
CS_COMMAND_HANDLER(cs_cmd_doctor);
CS_COMMAND_HANDLER(cs_cmd_daemon_start);
CS_COMMAND_HANDLER(cs_cmd_daemon_stop);
CS_COMMAND_HANDLER(cs_cmd_daemon_drain);
CS_COMMAND_HANDLER(cs_cmd_daemon_status);
CS_COMMAND_HANDLER(cs_cmd_proxy);
CS_COMMAND_HANDLER(cs_cmd_raw);
CS_COMMAND_HANDLER(cs_cmd_version);
CS_COMMAND_HANDLER(cs_cmd_help);

#endif
