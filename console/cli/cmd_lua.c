/* lua: evaluate a file or a text, print types and reference. */
#include <stdio.h>
#include <string.h>

#include "console/cli/cli.h"
#include "core/wire/wire.h"

static void print_line(void *user, const char *text)
{
    (void)user;
    printf("%s\n", text);
}

/* With --json the result is the only output: what print writes goes to standard error. */
static void print_aside(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "%s\n", text);
}

static enum cs_status evaluate(struct cs_cmd *cmd, struct cs_lua *lua,
                               struct cs_script_result *result, struct cs_buf *shown,
                               struct cs_err *err)
{
    if (cmd->v.code)
        return cs_lua_run_text(lua, "-e", cmd->v.code, result, shown, err);
    return cs_lua_run_file(lua, cmd->args[0], result, err);
}

enum cs_status cs_cmd_lua(struct cs_cmd *cmd, struct cs_err *err)
{
    struct cs_lua *lua = NULL;
    struct cs_script_result result = {0};
    struct cs_buf text = {0};
    struct cs_lua_limits limits = {.memory_bytes = (size_t)cmd->v.memory,
                                   .instructions = cmd->v.instructions};
    if (cmd->v.meta || cmd->v.manual) {
        (cmd->v.meta ? cs_lua_meta : cs_lua_manual)(&text);
        cs_cmd_print(&text);
        cs_buf_free(&text);
        return CS_OK;
    }
    if ((cmd->v.code != NULL) == (cmd->n > 0))
        return cs_fail(err, CS_USAGE, "give either a FILE or -e CODE");
    CS_TRY(cs_cmd_here_local(cmd, &limits.here, err));
    CS_TRY(cs_lua_open(&limits, cmd->v.json ? print_aside : print_line, NULL, &lua, err));
    enum cs_status st = evaluate(cmd, lua, &result, &text, err);
    cs_lua_close(lua);
    if (st == CS_OK && cmd->v.json && result.document)
        cs_json_pretty(result.document, (cs_buf_reset(&text), &text));
    if (st == CS_OK)
        cs_cmd_print(&text);
    cs_buf_free(&text);
    cs_script_result_free(&result);
    return st;
}
