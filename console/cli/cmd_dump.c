/* dump and plan --view: screens of a trace or of a script, without a daemon. */
#include <stdio.h>
#include <string.h>

#include "console/cli/cli.h"
#include "console/cli/cli_screen.h"
#include "console/screen/dump.h"
#include "console/store/store.h"
#include "core/wire/wire.h"

/* --view without a terminal */
enum { TEXT_COLS = 100, TEXT_ROWS = 30 };

/* The specification of a script that returns one plan. */
static enum cs_status eval(const struct cs_cmd *cmd, const char *script, struct cs_here *here,
                           struct cs_script_result *out, struct cs_err *err)
{
    CS_TRY(cs_cmd_here_local(cmd, here, err));
    CS_TRY(cs_cmd_eval(script, false, here, out, err));
    if (out->kind != CS_SCRIPT_SWEEP)
        return CS_OK;
    cs_script_result_free(out);
    return cs_fail(
        err, CS_INVALID,
        "%s returns many plans, and a view shows one; 'cornstarch-console plan %s' lists "
        "them",
        script, script);
}

static enum cs_status print_dump(struct cs_dump *dump, struct cs_err *err)
{
    struct cs_buf text = {0};
    enum cs_status st = cs_dump_replay(dump, &text, err);
    if (st == CS_OK)
        cs_cmd_print(&text);
    cs_buf_free(&text);
    return st;
}

static enum cs_status ask_gpus(struct cs_cmd *cmd, json_t **node, struct cs_err *err)
{
    json_t *request = cs_msg_new("node.show");
    cs_msg_set_bool(request, "gpus", true);
    return cs_cmd_call(cmd, request, node, err);
}

enum cs_status cs_cmd_dump(struct cs_cmd *cmd, struct cs_err *err)
{
    struct cs_script_result result = {0};
    struct cs_dump dump = {.trace = cmd->v.replay,
                           .view = cmd->v.view,
                           .keys = cmd->v.keys,
                           .glyphs = (enum cs_glyph_set)cmd->v.glyphs};
    json_t *node = NULL;
    if (!dump.trace && !cmd->v.script && dump.view && strcmp(dump.view, "gpus") == 0) {
        CS_TRY(ask_gpus(cmd, &node, err));
        dump.node = node;
    } else if (!dump.trace == !cmd->v.script) {
        return cs_fail(err, CS_USAGE,
                       "dump needs --replay TRACE, a job directory's trace file, or --script "
                       "SCRIPT; --view gpus alone asks the daemon");
    }
    enum cs_status st = cs_dump_size(cmd->v.size, &dump.cols, &dump.rows, err);
    if (st == CS_OK && cmd->v.script)
        st = eval(cmd, cmd->v.script, &dump.here, &result, err);
    dump.spec = result.document;
    if (st == CS_OK)
        st = print_dump(&dump, err);
    json_decref(node);
    cs_script_result_free(&result);
    return st;
}

static enum cs_status show(const json_t *spec, const struct cs_here *here, struct cs_err *err)
{
    struct cs_dump dump = {.spec = spec, .here = *here, .cols = TEXT_COLS, .rows = TEXT_ROWS};
    if (!cs_cli_has_screen())
        return print_dump(&dump, err);
    struct cs_store *store = cs_store_new();
    store->here = *here;
    enum cs_status st = cs_store_script(store, spec, err);
    if (st == CS_OK)
        st = cs_cli_screen_on_store(store, err);
    cs_store_free(store);
    return st == CS_UNSUPPORTED ? print_dump(&dump, err) : st;
}

enum cs_status cs_cmd_plan_view(struct cs_cmd *cmd, struct cs_err *err)
{
    struct cs_script_result result = {0};
    struct cs_here here;
    if (!cmd->v.screen)
        return cs_cmd_plan(cmd, err);
    if (cmd->v.json)
        return cs_fail(err, CS_USAGE, "--view draws a screen; leave out --json");
    CS_TRY(eval(cmd, cmd->args[0], &here, &result, err));
    enum cs_status st = show(result.document, &here, err);
    cs_script_result_free(&result);
    return st;
}
