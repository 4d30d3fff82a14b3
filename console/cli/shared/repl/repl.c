/* Takes lines, evaluates chunks, says what they return. */
#include "console/cli/shared/repl/repl.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "lua/help.h"

static enum cs_status evaluate(struct cs_repl *repl, const char *text)
{
    struct cs_script_result result = {0};
    struct cs_buf shown = {0};
    struct cs_err err = {.text = ""};
    enum cs_status status = cs_lua_run_text(repl->lua, "lua", text, &result, &err);
    if (status == CS_OK)
        status = cs_lua_results_text(repl->lua, &shown, &err);
    if (status == CS_OK) {
        repl->out(repl->user, CS_LUA_SAID, cs_buf_str(&shown));
    } else {
        repl->out(repl->user, CS_LUA_WRONG, err.text);
        repl->status = status;
    }
    cs_buf_free(&shown);
    cs_script_result_free(&result);
    return status;
}

static void say_help(struct cs_repl *repl, const char *name)
{
    struct cs_buf out = {0};
    cs_lua_help(name, &out);
    repl->out(repl->user, CS_LUA_SAID, cs_buf_str(&out));
    cs_buf_free(&out);
}

static void say_time(struct cs_repl *repl, const char *text)
{
    char took[40];
    const int64_t from = cs_now_ns();
    if (evaluate(repl, text) != CS_OK)
        return;
    snprintf(took, sizeof took, "%.3f ms\n", (double)(cs_now_ns() - from) * 1e-6);
    repl->out(repl->user, CS_LUA_SAID, took);
}

static void quit(struct cs_repl *repl, const char *text)
{
    (void)text;
    repl->is_over = true;
}

static void list_words(struct cs_repl *repl, const char *text);

/* clang-format off */
static const struct {
    const char *word, *help;
    void (*act)(struct cs_repl *repl, const char *text);
} words[] = {
    {":help", ":help cs.plan  what a function, a method or a value is; also help(cs.plan), ?cs.plan; alone: every function\n", say_help},
    {":time", ":time CHUNK    evaluate it and tell how long it took\n", say_time},
    {":quit", ":quit          leave; so does the end of input (C-d)\n", quit},
    {":",     ":              this list; in a chunk that goes on: give it up\n", list_words},
    {"C-c",   "C-c            end what runs; else give up what is typed\n", NULL}, /* a key */
};

/* clang-format on */

static void list_words(struct cs_repl *repl, const char *text)
{
    (void)text;
    for (size_t i = 0; i < CS_ARRAY_LEN(words); i++)
        repl->out(repl->user, CS_LUA_SAID, words[i].help);
}

/* A line that is no Lua; false: it is. */
static bool take_word(struct cs_repl *repl, const char *line)
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

enum cs_lua_answer cs_repl_line(struct cs_repl *repl, const char *line)
{
    if (repl->begun.len == 0 && take_word(repl, line))
        return repl->is_over ? CS_LUA_QUIT : CS_LUA_DONE;
    if (repl->begun.len > 0 && strcmp(line, ":") == 0) {
        cs_buf_reset(&repl->begun);
        return CS_LUA_DONE;
    }
    if (repl->begun.len > 0)
        cs_buf_addc(&repl->begun, '\n');
    cs_buf_adds(&repl->begun, line);
    if (cs_lua_is_begun(repl->lua, cs_buf_str(&repl->begun)))
        return CS_LUA_MORE;
    cs_repl_end(repl);
    return CS_LUA_DONE;
}

void cs_repl_end(struct cs_repl *repl)
{
    if (repl->begun.len > 0)
        (void)evaluate(repl, cs_buf_str(&repl->begun));
    cs_buf_reset(&repl->begun);
}
