/* Lua that is typed. What takes lines (repl.c) is the same for a terminal or a pipe (repl_run.c: a line
 * editor with history and completion where there is a terminal, lines as they come where there is none) and
 * for the Lua view (repl_engine.c: on a thread beside the screen). */
#ifndef CS_CONSOLE_CLI_SHARED_REPL_REPL_H
#define CS_CONSOLE_CLI_SHARED_REPL_REPL_H

#include "console/cli/command/cmd.h"
#include "console/screen/engine.h"

/* --- lines ------------------------------------------------------------------------------------ */

struct cs_repl {
    struct cs_lua *lua; /* borrowed */
    void (*out)(void *user, enum cs_lua_answer what,
                const char *text); /* CS_LUA_SAID, CS_LUA_WRONG */
    void *user;
    struct cs_buf begun;   /* lines of a chunk that goes on; freed by the caller */
    bool is_over;          /* :quit */
    enum cs_status status; /* of the last chunk that failed */
};

/* A line: Lua, or one of the words that are none (":help", "?cs.plan"). Returns CS_LUA_MORE, CS_LUA_DONE,
 * CS_LUA_QUIT. */
enum cs_lua_answer cs_repl_line(struct cs_repl *repl, const char *line);
/* The end came: a chunk that goes on fails and says where. */
void cs_repl_end(struct cs_repl *repl);

/* --- on a terminal or a pipe ------------------------------------------------------------------ */

/* Until the end of standard input, or :quit. Errors of chunks are printed and typing goes on; without a terminal
 * the exit code of cmd tells that there were some. */
enum cs_status cs_repl_run(struct cs_cmd *cmd, struct cs_lua *lua, struct cs_err *err) CS_NODISCARD;
/* cs_lua_ask of a command: a daemon is started when none runs. user: the struct cs_cmd */
enum cs_status cs_repl_ask(void *user, json_t *request, json_t **reply,
                           struct cs_err *err) CS_NODISCARD;

/* Becomes true at a C-c on the terminal: limits.stop of the state that cs_repl_run takes. */
const atomic_bool *cs_repl_stop(void);

/* Where lines come from. */
struct cs_typist; /* repl_line.c with libedit, repl_plain.c without */
struct cs_typist *cs_typist_new(struct cs_lua *lua, const struct cs_buf *begun);
/* a line without its end, borrowed until the next call; NULL: no more, or a C-c came */
const char *cs_typist_line(struct cs_typist *typist, const char *prompt);
void cs_typist_free(struct cs_typist *typist);

/* --- beside the screen ------------------------------------------------------------------------ */

/* A state of its own with the limits of a script, and a connection of its own, on a thread; made when it is
 * asked first. socket NULL: the user's own daemon; is_read_only: jobs can be looked at only. */
enum cs_status cs_repl_engine_new(const char *socket, bool is_read_only, struct cs_engine *out,
                                  struct cs_err *err) CS_NODISCARD;
/* Stops what runs. What does not end within a moment is left to the end of the process. */
void cs_repl_engine_free(struct cs_engine *engine);

#endif
