/* The console without a command: its options, then the screen or the list of jobs. */
#include "console/cli/shared/cli_screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/command/cmd.h"
#include "console/cli/docs/screen_options.h"
#include "console/cli/shared/repl/repl.h"
#include "console/screen/ui.h"
#include "console/views/state/state.h"
#include "core/wire/wire.h"

enum { MOST_JOBS = 1000 /* listed where there is no screen */, MOST_COMMANDS = 96 };

bool cs_cli_has_screen(void)
{
    const char *term = getenv("TERM");
    return isatty(0) && isatty(1) && term && *term && strcmp(term, "dumb") != 0;
}

/* for the palette: what the command line has */
static int fill_commands(const struct cs_commands *all, struct cs_screen_command out[MOST_COMMANDS])
{
    int n = 0;
    for (int i = 0; all && i < all->n && n < MOST_COMMANDS; i++)
        out[n++] = (struct cs_screen_command){.name = all->row[i]->name,
                                              .usage = all->row[i]->usage,
                                              .help = all->row[i]->help,
                                              .changes = all->row[i]->role != CS_ROLE_VIEWER};
    return n;
}

static enum cs_status show(struct cs_cmd *cmd, const struct cs_ui_options *ui, struct cs_err *err)
{
    struct cs_ui_result result = {0};
    struct cs_screen_command commands[MOST_COMMANDS];
    struct cs_ui_options own = *ui;
    own.commands = commands;
    own.n_commands = fill_commands(cmd->all, commands);
    own.socket = cmd->socket;
    struct cs_engine engine = {.self = NULL};
    CS_TRY(cs_cmd_connect(cmd, err));
    CS_TRY(cs_repl_engine_new(cmd->socket, ui->is_read_only, &engine, err));
    own.engine = &engine;
    enum cs_status status = cs_ui_run(cmd->base, cmd->client, &own, &result, err);
    cs_repl_engine_free(&engine);
    CS_TRY(status);
    cs_client_on_message(cmd->client, NULL, NULL);
    cs_client_on_state(cmd->client, NULL, NULL);
    cmd->exit_code = result.is_over ? result.exit : 0;
    return CS_OK;
}

static enum cs_status list(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *reply = NULL, *request = cs_msg_new("jobs.list");
    cs_msg_set_int(request, "limit", MOST_JOBS);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    return cs_cmd_print_jobs(cmd, reply, err);
}

enum cs_status cs_cli_screen(const struct cs_commands *all, int argc, char **argv, int *exit_code,
                             struct cs_err *err)
{
    struct cs_screen_values v = {0};
    struct cs_args args;
    struct cs_cmd cmd = {.all = all};
    struct cs_cli program = {
        .name = "cornstarch-console",
        .version = CORNSTARCH_VERSION,
        .summary = "opens the console; 'cornstarch-console help' lists the commands",
        .usage = "[options]",
    };
    program.options = cs_cli_screen_options(&program.n_options);
    CS_TRY(cs_options_parse(&program, argc, argv, &v, &args, err));
    if (args.wants_help || args.wants_version)
        return CS_OK; /* answered before */
    cmd.socket = v.socket;
    cmd.json = v.json;
    struct cs_ui_options ui = {.is_read_only = v.read_only,
                               .has_mouse = v.mouse,
                               .color = cs_screen_colors[v.color],
                               .glyphs = cs_screen_glyphs[v.glyphs]};
    enum cs_status status = CS_UNSUPPORTED;
    if (!v.plain && !v.json && cs_cli_has_screen())
        status = show(&cmd, &ui, err);
    if (status == CS_UNSUPPORTED)
        status = list(&cmd, err);
    *exit_code = cmd.exit_code;
    cs_client_free(cmd.client);
    if (cmd.base)
        event_base_free(cmd.base);
    return status;
}

enum cs_status cs_cli_screen_on_store(const struct cs_cmd *cmd, struct cs_store *store,
                                      cs_cli_pick *pick, void *user, struct cs_err *err)
{
    struct cs_engine engine = {.self = NULL};
    struct cs_screen_command commands[MOST_COMMANDS];
    const struct cs_ui_options ui = {.store = store,
                                     .engine = &engine,
                                     .pick = pick,
                                     .pick_user = user,
                                     .commands = commands,
                                     .n_commands = fill_commands(cmd->all, commands),
                                     .socket = cmd->socket};
    struct cs_ui_result result = {0};
    struct event_base *base = event_base_new();
    if (!base)
        return cs_fail(err, CS_INTERNAL, "no event loop");
    enum cs_status status = cs_repl_engine_new(cmd->socket, false, &engine, err);
    if (status == CS_OK)
        status = cs_ui_run(base, NULL, &ui, &result, err);
    cs_repl_engine_free(&engine);
    event_base_free(base);
    return status;
}

enum cs_status cs_cli_screen_on_job(struct cs_cmd *cmd, int64_t job, struct cs_err *err)
{
    struct cs_ui_options ui = {.job = job, .is_watching = true};
    return show(cmd, &ui, err);
}
