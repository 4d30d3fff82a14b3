/* Lines from a terminal with libedit: history in a file, C-r, Tab. Without a terminal lines as they come. */
#include <editline/readline.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/shared/repl/repl.h"
#include "core/base/system/io.h"
#include "core/program/dirs.h"
#include "lua/help.h"

enum { HISTORY = 1000 };

struct cs_typist {
    struct cs_lua *lua;
    const struct cs_buf *begun;
    char *line;
    size_t cap;
    bool has_terminal;
    char history[CS_PATH_CAP]; /* "" nowhere */
    json_t *found;             /* what Tab offers */
    size_t next;
};

static struct cs_typist *typing; /* the library's callbacks carry nothing */

/* The library frees what it is given. */
static char *next_word(const char *word, int state)
{
    (void)word;
    if (state == 0)
        typing->next = 0;
    const char *text = json_string_value(json_array_get(typing->found, typing->next));
    typing->next++;
    return text ? strdup(text) : NULL;
}

static char **complete(const char *word, int from, int to)
{
    struct cs_buf text = {0};
    (void)from;
    (void)to;
    json_decref(typing->found);
    typing->found = json_array();
    cs_buf_adds(&text, cs_buf_str(typing->begun));
    cs_buf_add(&text, rl_line_buffer, (size_t)rl_point);
    cs_lua_complete(typing->lua, cs_buf_str(&text), typing->found);
    cs_buf_free(&text);
    rl_attempted_completion_over = 1; /* no names of files */
    return json_array_size(typing->found) ? rl_completion_matches(word, next_word) : NULL;
}

static void open_history(struct cs_typist *typist)
{
    char dir[CS_PATH_CAP];
    using_history();
    stifle_history(HISTORY);
    if (cs_dir_state(dir, NULL) != CS_OK || cs_mkdirs(dir, NULL) != CS_OK ||
        cs_path(typist->history, NULL, "%s/lua-history", dir) != CS_OK)
        typist->history[0] = '\0';
    else
        (void)!read_history(typist->history);
}

struct cs_typist *cs_typist_new(struct cs_lua *lua, const struct cs_buf *begun)
{
    static char breaks[] = " \t\n\"'.:,;()[]{}<>=+-*/%^#~|&";
    struct cs_typist *typist = calloc(1, sizeof *typist);
    CS_ASSERT(typist);
    *typist =
        (struct cs_typist){.lua = lua, .begun = begun, .has_terminal = isatty(0) && isatty(1)};
    typing = typist;
    if (!typist->has_terminal)
        return typist;
    setlocale(LC_CTYPE, "");
    rl_readline_name = (char *)(uintptr_t) "cornstarch";
    rl_attempted_completion_function = complete;
    rl_basic_word_break_characters = rl_completer_word_break_characters = breaks;
    rl_completion_append_character = '\0';
    rl_catch_signals = 0; /* C-c: repl_run.c */
    open_history(typist);
    return typist;
}

static const char *plain_line(struct cs_typist *typist)
{
    if (getline(&typist->line, &typist->cap, stdin) < 0)
        return NULL;
    typist->line[strcspn(typist->line, "\r\n")] = '\0';
    return typist->line;
}

const char *cs_typist_line(struct cs_typist *typist, const char *prompt)
{
    if (!typist->has_terminal)
        return plain_line(typist);
    free(typist->line);
    typist->line = readline(prompt);
    if (typist->line && typist->line[0])
        add_history(typist->line);
    return typist->line;
}

void cs_typist_free(struct cs_typist *typist)
{
    if (typist->history[0])
        (void)!write_history(typist->history);
    if (typist->has_terminal)
        clear_history();
    json_decref(typist->found);
    free(typist->line);
    free(typist);
    typing = NULL;
}
