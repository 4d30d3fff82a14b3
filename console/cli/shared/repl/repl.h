/* Lua that is typed: a line editor with history and completion where there is a terminal, lines as they come
 * where there is none. */
#ifndef CS_CONSOLE_CLI_SHARED_REPL_REPL_H
#define CS_CONSOLE_CLI_SHARED_REPL_REPL_H

#include "console/cli/command/cmd.h"

/* Until the end of standard input, or :quit. Errors of chunks are printed and typing goes on; without a terminal
 * the exit code of cmd tells that there were some. */
enum cs_status cs_repl_run(struct cs_cmd *cmd, struct cs_lua *lua, struct cs_err *err) CS_NODISCARD;
/* cs_lua_ask of a command: a daemon is started when none runs. user: the struct cs_cmd */
enum cs_status cs_repl_ask(void *user, json_t *request, json_t **reply,
                           struct cs_err *err) CS_NODISCARD;

/* Where lines come from. */
struct cs_typist; /* repl_line.c with libedit, repl_plain.c without */
struct cs_typist *cs_typist_new(struct cs_lua *lua, const struct cs_buf *begun);
/* a line without its end, borrowed until the next call; NULL: no more */
const char *cs_typist_line(struct cs_typist *typist, const char *prompt);
void cs_typist_free(struct cs_typist *typist);

#endif
