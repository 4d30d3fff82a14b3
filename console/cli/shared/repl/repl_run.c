/* Lua typed on a terminal, or from a pipe. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/shared/repl/repl.h"
#include "core/base/say.h"
#include "core/wire/wire.h"
#include "lua/help.h"

static atomic_bool stop; /* C-c */

static void on_interrupt(int signal)
{
    (void)signal;
    atomic_store(&stop, true);
}

const atomic_bool *cs_repl_stop(void)
{
    return &stop;
}

enum cs_status cs_repl_ask(void *user, json_t *request, json_t **reply, struct cs_err *err)
{
    struct cs_cmd *cmd = user;
    const bool waits = strcmp(cs_msg_type(request), "job.wait") == 0;
    enum cs_status status = cs_cmd_connect(cmd, err);
    if (status != CS_OK) {
        json_decref(request);
        return status;
    }
    cs_client_set_stop(cmd->client, &stop);
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

/* C-c gives up what was typed. */
static const char *next_line(struct cs_repl *repl, struct cs_typist *typist)
{
    for (;;) {
        const char *line = cs_typist_line(typist, repl->begun.len ? ">> " : "cs> ");
        if (line || !atomic_load(&stop))
            return line;
        atomic_store(&stop, false);
        cs_buf_reset(&repl->begun);
        cs_say(stdout, "\n");
    }
}

static void take_lines(struct cs_repl *repl, struct cs_typist *typist)
{
    const char *line;
    while (!repl->is_over && (line = next_line(repl, typist))) {
        atomic_store(&stop, false); /* of what runs from here on */
        (void)cs_repl_line(repl, line);
        atomic_store(&stop, false);
    }
}

enum cs_status cs_repl_run(struct cs_cmd *cmd, struct cs_lua *lua, struct cs_err *err)
{
    const struct sigaction interrupt = {.sa_handler =
                                            on_interrupt}; /* it ends waiting for a line, too */
    struct sigaction before;
    struct cs_repl repl = {.lua = lua, .out = print};
    const bool has_terminal = isatty(0) && isatty(1);
    CS_TRY(cs_lua_prepare_typing(lua, err));
    struct cs_typist *typist = cs_typist_new(lua, &repl.begun);
    if (has_terminal) {
        sigaction(SIGINT, &interrupt, &before);
        cs_say(stdout, "cornstarch %s, %s; help(), Tab and : tell more\n", CORNSTARCH_VERSION,
               "Lua 5.4");
    }
    take_lines(&repl, typist);
    if (has_terminal)
        sigaction(SIGINT, &before, NULL);
    cs_repl_end(&repl);
    if (repl.status != CS_OK)
        cmd->exit_code = has_terminal ? 0 : cs_status_exit(repl.status);
    cs_typist_free(typist);
    cs_buf_free(&repl.begun);
    return cs_lua_check_set(lua, err);
}
