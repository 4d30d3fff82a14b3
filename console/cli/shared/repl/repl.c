/* Reads chunks, evaluates them, prints what they return. */
#include "console/cli/shared/repl/repl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/wire/wire.h"
#include "lua/help.h"

struct repl {
    struct cs_cmd *cmd;
    struct cs_lua *lua;
    struct cs_typist *typist;
    struct cs_buf begun; /* lines of a chunk that goes on */
    bool has_terminal, is_over;
};

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

static enum cs_status evaluate(struct repl *repl, const char *text)
{
    struct cs_script_result result = {0};
    struct cs_buf shown = {0};
    struct cs_err err = {.text = ""};
    enum cs_status status = cs_lua_run_text(repl->lua, "lua", text, &result, &err);
    if (status == CS_OK)
        status = cs_lua_results_text(repl->lua, &shown, &err);
    if (status == CS_OK) {
        cs_cmd_print(&shown);
    } else {
        cs_say(stderr, "%s\n", err.text);
        repl->cmd->exit_code = repl->has_terminal ? 0 : cs_status_exit(status);
    }
    cs_buf_free(&shown);
    cs_script_result_free(&result);
    return status;
}

static void say_help(struct repl *repl, const char *name)
{
    struct cs_buf out = {0};
    (void)repl;
    cs_lua_help(name, &out);
    cs_cmd_print(&out);
    cs_buf_free(&out);
}

static void say_time(struct repl *repl, const char *text)
{
    const int64_t from = cs_now_ns();
    if (evaluate(repl, text) == CS_OK)
        cs_say(stdout, "%.3f ms\n", (double)(cs_now_ns() - from) * 1e-6);
}

static void quit(struct repl *repl, const char *text)
{
    (void)text;
    repl->is_over = true;
}

static void list_words(struct repl *repl, const char *text);

/* clang-format off */
static const struct {
    const char *word, *help;
    void (*act)(struct repl *repl, const char *text);
} words[] = {
    {":help", ":help cs.plan  what a function, a method or a value is; also help(cs.plan), ?cs.plan; alone: every function", say_help},
    {":time", ":time CHUNK    evaluate it and tell how long it took", say_time},
    {":quit", ":quit          leave; so does the end of input (C-d)", quit},
    {":",     ":              this list; in a chunk that goes on: give it up", list_words},
};

/* clang-format on */

static void list_words(struct repl *repl, const char *text)
{
    (void)repl;
    (void)text;
    for (size_t i = 0; i < CS_ARRAY_LEN(words); i++)
        cs_say(stdout, "%s\n", words[i].help);
}

/* A line that is no Lua; false: it is. */
static bool take_word(struct repl *repl, const char *line)
{
    if (line[0] == '?') {
        say_help(repl, line + 1 + strspn(line + 1, " "));
        return true;
    }
    if (line[0] != ':' || line[1] == ':')
        return false;
    const size_t n = strcspn(line, " ");
    for (size_t i = 0; i < CS_ARRAY_LEN(words); i++)
        if (strlen(words[i].word) == n && strncmp(words[i].word, line, n) == 0) {
            words[i].act(repl, line + n + strspn(line + n, " "));
            return true;
        }
    list_words(repl, NULL);
    return true;
}

static void take_line(struct repl *repl, const char *line)
{
    if (repl->begun.len == 0 && take_word(repl, line))
        return;
    if (repl->begun.len > 0 && strcmp(line, ":") == 0) {
        cs_buf_reset(&repl->begun);
        return;
    }
    if (repl->begun.len > 0)
        cs_buf_addc(&repl->begun, '\n');
    cs_buf_adds(&repl->begun, line);
    if (cs_lua_is_begun(repl->lua, cs_buf_str(&repl->begun)))
        return;
    (void)evaluate(repl, cs_buf_str(&repl->begun));
    cs_buf_reset(&repl->begun);
}

enum cs_status cs_repl_run(struct cs_cmd *cmd, struct cs_lua *lua, struct cs_err *err)
{
    struct repl repl = {.cmd = cmd, .lua = lua, .has_terminal = isatty(0) && isatty(1)};
    const char *line;
    CS_TRY(cs_lua_prepare_typing(lua, err));
    repl.typist = cs_typist_new(lua, &repl.begun);
    if (repl.has_terminal)
        cs_say(stdout, "cornstarch %s, %s; help(), Tab and : tell more\n", CORNSTARCH_VERSION,
               "Lua 5.4");
    while (!repl.is_over && (line = cs_typist_line(repl.typist, repl.begun.len ? ">> " : "cs> ")))
        take_line(&repl, line);
    if (repl.begun.len > 0) /* the end came early: it says where */
        (void)evaluate(&repl, cs_buf_str(&repl.begun));
    cs_typist_free(repl.typist);
    cs_buf_free(&repl.begun);
    return cs_lua_check_set(lua, err);
}
