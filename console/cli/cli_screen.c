/* See cli_screen.h. */
#include "console/cli/cli_screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/cli.h"
#include "console/screen/ui.h"

struct screen_values {
    bool plain, read_only, json;
    const char *socket;
    int color, glyphs;
};

static const char *const colors[] = {"auto", "always", "never", NULL};
static const char *const glyph_sets[] = {"auto", "utf8", "ascii", NULL};

#define AT(field) offsetof(struct screen_values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"plain", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "the list of jobs as text", AT(plain)},
    {"read-only", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "give no orders to jobs", AT(read_only)},
    {"color", 0, CS_OPT_ENUM, 0, 0, "auto", NULL, colors, "colours; auto obeys NO_COLOR", AT(color)},
    {"glyphs", 0, CS_OPT_ENUM, 0, 0, "auto", NULL, glyph_sets, "characters to draw with", AT(glyphs)},
    {"socket", 'S', CS_OPT_STRING, 0, 0, NULL, "PATH", NULL, "the daemon's socket; default: your own daemon, started when needed", AT(socket)},
    {"json", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "the list of jobs as a document", AT(json)},
};

/* clang-format on */

const struct cs_option *cs_cli_screen_options(size_t *n)
{
    *n = CS_ARRAY_LEN(options);
    return options;
}

static const struct cs_cli program = {
    .name = "cornstarch-console",
    .version = CORNSTARCH_VERSION,
    .summary = "opens the console; 'cornstarch-console help' lists the commands",
    .usage = "[options]",
    .options = options,
    .n_options = CS_ARRAY_LEN(options),
};

bool cs_cli_has_screen(void)
{
    const char *term = getenv("TERM");
    return isatty(0) && isatty(1) && term && *term && strcmp(term, "dumb") != 0;
}

static enum cs_status show(struct cs_cmd *cmd, const struct cs_ui_options *ui, struct cs_err *err)
{
    struct cs_ui_result result = {0};
    CS_TRY(cs_cmd_connect(cmd, err));
    CS_TRY(cs_ui_run(cmd->base, cmd->client, ui, &result, err));
    cs_client_on_message(cmd->client, NULL, NULL);
    cs_client_on_state(cmd->client, NULL, NULL);
    cmd->exit_code = result.is_over ? result.exit : 0;
    return CS_OK;
}

/* What a terminal without a screen gets: the jobs. */
static enum cs_status list_jobs(struct cs_cmd *cmd, struct cs_err *err)
{
    cmd->v.limit = 1000;
    return cs_cmd_jobs(cmd, err);
}

enum cs_status cs_cli_screen(int argc, char **argv, int *exit_code, struct cs_err *err)
{
    struct screen_values v = {0};
    struct cs_args args;
    struct cs_cmd cmd = {0};
    CS_TRY(cs_options_parse(&program, argc, argv, &v, &args, err));
    if (args.wants_help || args.wants_version)
        return CS_OK; /* answered before */
    cmd.v.socket = v.socket;
    cmd.v.json = v.json;
    struct cs_ui_options ui = {
        .is_read_only = v.read_only, .color = colors[v.color], .glyphs = glyph_sets[v.glyphs]};
    enum cs_status st = CS_UNSUPPORTED;
    if (!v.plain && !v.json && cs_cli_has_screen())
        st = show(&cmd, &ui, err);
    if (st == CS_UNSUPPORTED)
        st = list_jobs(&cmd, err);
    *exit_code = cmd.exit_code;
    cs_client_free(cmd.client);
    if (cmd.base)
        event_base_free(cmd.base);
    return st;
}

enum cs_status cs_cli_screen_on_store(struct cs_store *store, struct cs_err *err)
{
    const struct cs_ui_options ui = {.store = store};
    struct cs_ui_result result = {0};
    struct event_base *base = event_base_new();
    if (!base)
        return cs_fail(err, CS_INTERNAL, "no event loop");
    enum cs_status st = cs_ui_run(base, NULL, &ui, &result, err);
    event_base_free(base);
    return st;
}

enum cs_status cs_cli_screen_on_job(struct cs_cmd *cmd, int64_t job, struct cs_err *err)
{
    struct cs_ui_options ui = {.job = job, .is_watching = true};
    return show(cmd, &ui, err);
}
