/* Keeps what was typed and said in the Lua view. */
#include "console/views/state/lua_state.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/canvas.h"
#include "console/draw/widget.h"
#include "console/views/state/state.h"
#include "core/base/str.h"

enum { PIECE = 1000 /* columns: longer lines are cut into such */, TAB = 8 };

struct cs_lua_screen *cs_lua_screen_of(struct cs_screen *screen)
{
    if (!screen->lua)
        screen->lua = calloc(1, sizeof *screen->lua);
    CS_ASSERT(screen->lua);
    return screen->lua;
}

static void drop_offers(struct cs_lua_screen *lua)
{
    for (int i = 0; i < lua->n_offers; i++)
        free(lua->offer[i]);
    lua->n_offers = 0;
    lua->has_offers = false;
}

void cs_lua_screen_free(struct cs_lua_screen *lua)
{
    if (!lua)
        return;
    for (int i = 0; i < lua->n_lines; i++)
        free(lua->line[i].text);
    for (int i = 0; i < lua->n_history; i++)
        free(lua->history[i]);
    drop_offers(lua);
    cs_buf_free(&lua->pending);
    cs_buf_free(&lua->ask);
    free(lua);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void add_line(struct cs_lua_screen *lua, enum cs_style style, const char *text, size_t n)
{
    if (lua->n_lines == CS_LUA_LINES) {
        free(lua->line[0].text);
        lua->n_lines--;
        memmove(lua->line, lua->line + 1, (size_t)lua->n_lines * sizeof *lua->line);
    }
    char *copy = strndup(text, n);
    CS_ASSERT(copy);
    lua->line[lua->n_lines++] = (struct cs_lua_line){copy, style};
}

/* Tabs as spaces; what a terminal could take as an order is written out. */
static void clean(struct cs_buf *out, const char *text, size_t n)
{
    struct cs_buf spaced = {0};
    for (size_t i = 0, at = 0; i < n; i++) {
        const size_t spaces = text[i] == '\t' ? TAB - at % TAB : 0;
        for (size_t k = 0; k < spaces; k++)
            cs_buf_addc(&spaced, ' ');
        if (spaces == 0)
            cs_buf_addc(&spaced, text[i]);
        at += spaces ? spaces : 1;
    }
    cs_str_escape(out, cs_buf_str(&spaced), spaced.len, false);
    cs_buf_free(&spaced);
}

static void add_pieces(struct cs_lua_screen *lua, enum cs_style style, const char *text, size_t n)
{
    struct cs_buf line = {0};
    clean(&line, text, n);
    const char *at = cs_buf_str(&line);
    do {
        const size_t piece = cs_wrap_next(at, PIECE);
        add_line(lua, style, at, piece);
        at += piece;
    } while (*at);
    cs_buf_free(&line);
}

void cs_lua_screen_say(struct cs_lua_screen *lua, enum cs_style style, const char *text)
{
    for (const char *at = text; *at;) {
        const size_t n = strcspn(at, "\n");
        add_pieces(lua, style, at, n);
        at += n + (at[n] == '\n');
    }
}

/* --- typing ----------------------------------------------------------------------------------- */

void cs_lua_screen_remember(struct cs_lua_screen *lua, const char *text)
{
    const bool is_same = lua->n_history > 0 && strcmp(lua->history[lua->n_history - 1], text) == 0;
    if (text[0] && !is_same) {
        if (lua->n_history == CS_LUA_HISTORY) {
            free(lua->history[0]);
            lua->n_history--;
            lua->n_known -= lua->n_known > 0;
            memmove(lua->history, lua->history + 1, (size_t)lua->n_history * sizeof *lua->history);
        }
        lua->history[lua->n_history] = strdup(text);
        CS_ASSERT(lua->history[lua->n_history]);
        lua->n_history++;
    }
    lua->at_history = lua->n_history;
}

static void submit(struct cs_lua_screen *lua, const char *line)
{
    struct cs_buf shown = {0};
    cs_buf_addf(&shown, "%s %s", lua->is_begun ? ">>" : "cs>", line);
    add_pieces(lua, CS_STYLE_KEY, cs_buf_str(&shown), shown.len);
    cs_buf_free(&shown);
    cs_lua_screen_remember(lua, line);
    cs_buf_reset(&lua->ask);
    cs_buf_adds(&lua->ask, line);
    drop_offers(lua);
    lua->back = 0;
    lua->want = CS_LUA_RUN;
    lua->is_busy = true;
}

/* What is typed on with, as much as a line takes. */
static void insert(struct cs_lua_screen *lua, const char *text, size_t n)
{
    const bool fits = strlen(lua->edit.text) + n < CS_EDIT_CAP;
    cs_edit_insert(&lua->edit, text, n);
    if (!fits)
        cs_lua_screen_say(lua, CS_STYLE_WARN,
                          "more was pasted than a line takes that is typed; end its lines");
}

/* The next of the lines that wait. */
static void feed(struct cs_lua_screen *lua)
{
    struct cs_buf all = lua->pending;
    const char *text = cs_buf_str(&all), *end = strchr(text, '\n');
    if (lua->is_busy || all.len == 0)
        return;
    lua->pending = (struct cs_buf){0};
    if (end) {
        char *line = strndup(text, (size_t)(end - text));
        CS_ASSERT(line);
        cs_buf_adds(&lua->pending, end + 1);
        submit(lua, line);
        free(line);
    } else {
        insert(lua, text, all.len);
    }
    cs_buf_free(&all);
}

void cs_lua_screen_enter(struct cs_lua_screen *lua)
{
    cs_buf_adds(&lua->pending, lua->edit.text);
    cs_buf_addc(&lua->pending, '\n');
    cs_edit_set(&lua->edit, "");
    feed(lua);
}

/* Up to its last line it is evaluated line by line, as if it were typed. */
void cs_lua_screen_paste(struct cs_lua_screen *lua, const char *text, size_t n)
{
    struct cs_buf lines = {0};
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\r' || text[i] == '\n') {
            if (text[i] == '\n' && i > 0 && text[i - 1] == '\r')
                continue;
            cs_buf_addc(&lines, '\n');
        } else if (text[i]) {
            cs_buf_addc(&lines, text[i]);
        }
    if (!strchr(cs_buf_str(&lines), '\n')) {
        insert(lua, cs_buf_str(&lines), lines.len);
    } else {
        cs_buf_adds(&lua->pending, lua->edit.text);
        cs_buf_adds(&lua->pending, cs_buf_str(&lines));
        cs_edit_set(&lua->edit, "");
        feed(lua);
    }
    cs_buf_free(&lines);
}

void cs_lua_screen_recall(struct cs_lua_screen *lua, int direction)
{
    if (lua->at_history >= lua->n_history)
        cs_str_copy(lua->kept, sizeof lua->kept, lua->edit.text);
    for (int i = lua->at_history + direction; i >= 0 && i < lua->n_history; i += direction)
        if (cs_str_starts(lua->history[i], lua->kept) &&
            strcmp(lua->history[i], lua->edit.text) != 0) {
            lua->at_history = i;
            cs_edit_set(&lua->edit, lua->history[i]);
            return;
        }
    if (direction > 0 && lua->at_history < lua->n_history) {
        lua->at_history = lua->n_history;
        cs_edit_set(&lua->edit, lua->kept);
    }
}

bool cs_lua_screen_break(struct cs_lua_screen *lua)
{
    const bool is_typed = lua->edit.text[0] || lua->has_offers;
    drop_offers(lua);
    cs_buf_reset(&lua->pending);
    if (lua->is_busy) {
        lua->want = CS_LUA_STOP;
        return true;
    }
    cs_edit_set(&lua->edit, "");
    lua->at_history = lua->n_history;
    if (lua->is_begun && !is_typed) { /* a line with ":" alone gives a chunk up */
        submit(lua, ":");
        return true;
    }
    return is_typed;
}

/* --- completion ------------------------------------------------------------------------------- */

void cs_lua_screen_complete(struct cs_lua_screen *lua)
{
    if (lua->is_busy)
        return;
    cs_buf_reset(&lua->ask);
    cs_buf_add(&lua->ask, lua->edit.text, lua->edit.at);
    drop_offers(lua);
    lua->want = CS_LUA_COMPLETE;
}

static size_t word_before(const struct cs_edit *edit)
{
    size_t n = 0;
    while (n < edit->at && (isalnum((unsigned char)edit->text[edit->at - n - 1]) ||
                            edit->text[edit->at - n - 1] == '_'))
        n++;
    return n;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_offers(struct cs_lua_screen *lua)
{
    int n = 0;
    qsort(lua->offer, (size_t)lua->n_offers, sizeof *lua->offer, compare);
    for (int i = 0; i < lua->n_offers; i++)
        if (n > 0 && strcmp(lua->offer[n - 1], lua->offer[i]) == 0)
            free(lua->offer[i]);
        else
            lua->offer[n++] = lua->offer[i];
    lua->n_offers = n;
}

/* What all of them begin with is typed; where that is no more than what stands there, they are shown. */
static void take_offers(struct cs_lua_screen *lua)
{
    sort_offers(lua);
    if (lua->n_offers == 0)
        return;
    const char *first = lua->offer[0];
    size_t same = strlen(first);
    for (int i = 1; i < lua->n_offers; i++) {
        size_t n = 0;
        while (n < same && lua->offer[i][n] == first[n])
            n++;
        same = n;
    }
    const size_t word = word_before(&lua->edit);
    const bool is_more =
        same > word && strncmp(first, lua->edit.text + lua->edit.at - word, word) == 0;
    if (is_more)
        cs_edit_insert(&lua->edit, first + word, same - word);
    lua->has_offers = lua->n_offers > 1 && !is_more;
}

/* --- answers ---------------------------------------------------------------------------------- */

void cs_lua_screen_take(struct cs_lua_screen *lua, enum cs_lua_answer what, const char *text)
{
    if (what == CS_LUA_SAID || what == CS_LUA_WRONG)
        cs_lua_screen_say(lua, what == CS_LUA_SAID ? CS_STYLE_TEXT : CS_STYLE_BAD, text);
    if (what == CS_LUA_OFFER && lua->n_offers < CS_LUA_OFFERS) {
        lua->offer[lua->n_offers] = strdup(text);
        CS_ASSERT(lua->offer[lua->n_offers]);
        lua->n_offers++;
    }
    if (what == CS_LUA_OFFERED)
        take_offers(lua);
    if (what < CS_LUA_MORE)
        return;
    lua->is_begun = what == CS_LUA_MORE;
    lua->is_busy = false;
    lua->is_left = lua->is_left || what == CS_LUA_QUIT;
    feed(lua);
}

void cs_lua_screen_refuse(struct cs_lua_screen *lua, const char *why)
{
    const enum cs_lua_want want = lua->want;
    lua->want = CS_LUA_NOTHING;
    if (want == CS_LUA_RUN) {
        cs_buf_reset(&lua->pending);
        cs_lua_screen_take(lua, CS_LUA_WRONG, why);
    }
    if (want == CS_LUA_RUN || want == CS_LUA_STOP)
        cs_lua_screen_take(lua, CS_LUA_DONE, "");
}
