/* Lua typed on a terminal, or from a pipe. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/shared/repl/repl.h"
#include "core/base/say.h"
#include "core/wire/wire.h"
#include "lua/help.h"

enum cs_status cs_repl_ask(void *user, json_t *request, json_t **reply, struct cs_err *err)
{
    struct cs_cmd *cmd = user;
    const bool waits = strcmp(cs_msg_type(request), "job.wait") == 0;
    enum cs_status status = cs_cmd_connect(cmd, err);
    if (status != CS_OK) {
        json_decref(request);
        return status;
    }
    return cs_client_call_for(cmd->client, request, waits ? 0 : CS_CLIENT_CALL_NS, reply, err);
}

static void print(void *user, enum cs_lua_answer what, const char *text)
{
    (void)user;
    if (what == CS_LUA_WRONG)
        cs_say(stderr, "%s\n", text);
    else
        cs_say(stdout, "%s", text);
}

enum cs_status cs_repl_run(struct cs_cmd *cmd, struct cs_lua *lua, struct cs_err *err)
{
    struct cs_repl repl = {.lua = lua, .out = print};
    const bool has_terminal = isatty(0) && isatty(1);
    const char *line;
    CS_TRY(cs_lua_prepare_typing(lua, err));
    struct cs_typist *typist = cs_typist_new(lua, &repl.begun);
    if (has_terminal)
        cs_say(stdout, "cornstarch %s, %s; help(), Tab and : tell more\n", CORNSTARCH_VERSION,
               "Lua 5.4");
    while (!repl.is_over && (line = cs_typist_line(typist, repl.begun.len ? ">> " : "cs> ")))
        (void)cs_repl_line(&repl, line);
    cs_repl_end(&repl);
    if (repl.status != CS_OK)
        cmd->exit_code = has_terminal ? 0 : cs_status_exit(repl.status);
    cs_typist_free(typist);
    cs_buf_free(&repl.begun);
    return cs_lua_check_set(lua, err);
}
