/* Lua: what is typed is evaluated beside the screen; lines that were typed and what came of them stand here. */
#include <stdio.h>
#include <string.h>

#include "console/draw/widget.h"
#include "console/views/edit_draw.h"
#include "console/views/state/key_codes.h"
#include "console/views/state/view.h"
#include "core/base/str.h"
#include "core/base/units.h"

enum { OFFER_ROWS = 4, GAP = 2 };

static const char *const intro[] = {
    "Lua 5.4 with cs, as in scripts and in 'cornstarch-console lua'.",
    "cs.jobs() are the jobs, live: cs.jobs()[1].loss, :metrics(), :pause(); cs.lab asks the "
    "planner.",
    "help() lists every function, ?cs.plan tells of one, : lists what is no Lua.",
};

static const struct cs_lua_screen nothing; /* before anything was typed */

static const struct cs_lua_screen *of(const struct cs_screen *screen)
{
    return screen->lua ? screen->lua : &nothing;
}

static bool is_open(const struct cs_screen *screen)
{
    return !of(screen)->is_left;
}

/* --- rows: the lines that the filter lets through --------------------------------------------- */

static int rows_of(const struct cs_screen *screen, int out[CS_LUA_LINES])
{
    const struct cs_lua_screen *lua = of(screen);
    struct cs_needle needle;
    int n = 0;
    cs_needle_make(&needle, screen->filter[CS_VIEW_LUA]);
    for (int i = 0; i < lua->n_lines; i++)
        if (cs_needle_match(&needle, lua->line[i].text, NULL, NULL))
            out[n++] = i;
    cs_needle_free(&needle);
    return n;
}

static int at_row(const struct cs_screen *screen, int n)
{
    return n > 0 ? cs_screen_clamp(n - 1 - of(screen)->back, 0, n - 1) : 0;
}

static int count(const struct cs_store *store, const struct cs_screen *screen)
{
    int rows[CS_LUA_LINES];
    (void)store;
    return rows_of(screen, rows);
}

static int cursor_of(const struct cs_store *store, const struct cs_screen *screen)
{
    return at_row(screen, count(store, screen));
}

static void each(const struct cs_store *store, const struct cs_screen *screen,
                 bool (*take)(void *user, int row, const char *text), void *user)
{
    int rows[CS_LUA_LINES];
    const int n = rows_of(screen, rows);
    (void)store;
    for (int i = 0; i < n; i++)
        if (!take(user, i, of(screen)->line[rows[i]].text))
            return;
}

static void move(struct cs_screen *screen, const struct cs_store *store, int steps)
{
    const int n = count(store, screen);
    if (n > 0)
        cs_lua_screen_of(screen)->back =
            cs_screen_clamp(n - 1 - at_row(screen, n) - steps, 0, n - 1);
}

/* --- drawing ---------------------------------------------------------------------------------- */

static int offer_width(const struct cs_lua_screen *lua)
{
    int width = 1;
    for (int i = 0; i < lua->n_offers; i++) {
        const int n = cs_utf8_width(lua->offer[i], strlen(lua->offer[i]));
        width = n > width ? n : width;
    }
    return width + GAP;
}

static int offer_rows(const struct cs_lua_screen *lua, int width)
{
    if (!lua->has_offers)
        return 0;
    const int columns = width / offer_width(lua) > 0 ? width / offer_width(lua) : 1;
    const int rows = (lua->n_offers + columns - 1) / columns;
    return rows < OFFER_ROWS ? rows : OFFER_ROWS;
}

static void draw_offers(const struct cs_lua_screen *lua, const struct cs_screen *screen,
                        struct cs_area area, int y)
{
    const int wide = offer_width(lua), rows = offer_rows(lua, area.w - 2);
    const int columns = (area.w - 2) / wide > 0 ? (area.w - 2) / wide : 1;
    for (int i = 0; i < lua->n_offers && i < rows * columns; i++) {
        const bool is_last = i == rows * columns - 1 && i + 1 < lua->n_offers;
        char text[80];
        snprintf(text, sizeof text, "%d more", lua->n_offers - i);
        cs_draw_cut(area, 1 + i % columns * wide, y + i / columns, wide - 1, CS_STYLE_DIM,
                    screen->glyphs, is_last ? text : lua->offer[i]);
    }
}

/* The first of the rows that fit above the cursor's, which stands at the bottom; of one that is
 * larger than the room its beginning is shown. */
static int first_row(const struct cs_lua_screen *lua, const int *rows, int cursor, int width,
                     int room, int *used)
{
    int first = cursor;
    *used = 0;
    for (int i = cursor; i >= 0; i--) {
        const int n = cs_wrap_rows(lua->line[rows[i]].text, width);
        if (*used + n > room && i < cursor)
            break;
        *used += n;
        first = i;
    }
    return first;
}

static int draw_lines(const struct cs_screen *screen, struct cs_area area, int room)
{
    int rows[CS_LUA_LINES], used, y = 0;
    const struct cs_lua_screen *lua = of(screen);
    const int n = rows_of(screen, rows), cursor = at_row(screen, n), width = area.w - 2;
    if (n == 0 && lua->n_lines > 0) {
        cs_drawf(area, 1, 0, CS_STYLE_DIM, "no line has \"%.60s\" (f)",
                 screen->filter[CS_VIEW_LUA]);
        return 1;
    }
    for (size_t i = 0; n == 0 && i < CS_ARRAY_LEN(intro) && y < room; i++)
        y += cs_draw_wrap(area, 1, y, width, room - y, CS_STYLE_DIM, screen->glyphs, intro[i]);
    if (n == 0)
        return y;
    for (int i = first_row(lua, rows, cursor, width, room, &used); i <= cursor && y < room; i++) {
        const struct cs_lua_line *line = &lua->line[rows[i]];
        if (i == cursor && (lua->is_left || lua->back > 0))
            cs_draw(area, 0, y, CS_STYLE_KEY, cs_glyph(screen->glyphs, CS_GLYPH_CURSOR));
        y += cs_draw_wrap(area, 1, y, width, room - y, line->style, screen->glyphs, line->text);
    }
    return y;
}

static void draw_prompt(const struct cs_screen *screen, struct cs_area area, int y)
{
    const struct cs_lua_screen *lua = of(screen);
    const char *mark = lua->is_busy ? "... " : lua->is_begun ? ">> " : "cs> ";
    if (lua->back > 0 && lua->n_lines > 0)
        cs_drawf(area, 1, y, CS_STYLE_DIM, "%d newer line%s below (PgDn)", lua->back,
                 CS_PLURAL(lua->back));
    else
        cs_edit_draw(&lua->edit, mark, area, 1, y, !lua->is_left);
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    const struct cs_lua_screen *lua = of(screen);
    const int offers = offer_rows(lua, area.w - 2);
    (void)store;
    if (area.h < 1 || area.w < 3)
        return;
    const int room = area.h - 1 - offers > 0 ? area.h - 1 - offers : 0;
    const int y = draw_lines(screen, area, room);
    draw_prompt(screen, area, y);
    if (offers > 0)
        draw_offers(lua, screen, area, y + 1);
}

static int row_at(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area,
                  int y)
{
    int rows[CS_LUA_LINES], used, top = 0;
    const struct cs_lua_screen *lua = of(screen);
    const int n = rows_of(screen, rows), cursor = at_row(screen, n), width = area.w - 2;
    const int room = area.h - 1 - offer_rows(lua, width);
    (void)store;
    for (int i = n > 0 ? first_row(lua, rows, cursor, width, room, &used) : 1; i <= cursor && n > 0;
         i++) {
        const int height = cs_wrap_rows(lua->line[rows[i]].text, width);
        if (y >= top && y < top + height)
            return i;
        top += height;
    }
    return -1;
}

/* --- keys ------------------------------------------------------------------------------------- */

enum { C_C = 3, C_N = 14, C_P = 16, HALF_PAGE = 10 };

static unsigned asked(const struct cs_lua_screen *lua)
{
    return lua->want != CS_LUA_NOTHING ? CS_DO_DRAW | CS_DO_LUA : CS_DO_DRAW;
}

static unsigned tab(struct cs_lua_screen *lua)
{
    if (!lua->edit.text[0] && !lua->is_begun && !lua->is_busy)
        return 0; /* nothing to complete: the next view, as everywhere */
    cs_lua_screen_complete(lua);
    return asked(lua);
}

static unsigned leave(struct cs_screen *screen, struct cs_lua_screen *lua)
{
    if (lua->has_offers) {
        lua->has_offers = false;
        return CS_DO_DRAW;
    }
    lua->is_left = true;
    cs_screen_say(
        screen, CS_STYLE_DIM,
        "keys are those of the screen: i types again, / finds, y copies, 1 shows the jobs");
    return CS_DO_DRAW;
}

static unsigned interrupt(struct cs_screen *screen, struct cs_lua_screen *lua)
{
    if (!cs_lua_screen_break(lua))
        return leave(screen, lua);
    return asked(lua);
}

static unsigned key_of_text(struct cs_screen *screen, const struct cs_store *store, int key)
{
    struct cs_lua_screen *lua = cs_lua_screen_of(screen);
    switch (key) {
    case CS_KEY_ENTER:
        cs_lua_screen_enter(lua);
        return asked(lua);
    case CS_KEY_TAB:
        return tab(lua);
    case CS_KEY_ESC:
        return leave(screen, lua);
    case C_C:
        return interrupt(screen, lua);
    case CS_KEY_UP:
    case C_P:
        cs_lua_screen_recall(lua, -1);
        return CS_DO_DRAW;
    case CS_KEY_DOWN:
    case C_N:
        cs_lua_screen_recall(lua, 1);
        return CS_DO_DRAW;
    case CS_KEY_PGUP:
        move(screen, store, -HALF_PAGE);
        return CS_DO_DRAW;
    case CS_KEY_PGDN:
        move(screen, store, HALF_PAGE);
        return CS_DO_DRAW;
    default:
        break;
    }
    if (!cs_edit_key(&lua->edit, key))
        return 0;
    lua->has_offers = false;
    lua->back = 0;
    lua->at_history = lua->n_history;
    return CS_DO_DRAW;
}

static unsigned paste(struct cs_screen *screen, const char *text, size_t n)
{
    struct cs_lua_screen *lua = cs_lua_screen_of(screen);
    cs_lua_screen_paste(lua, text, n);
    return asked(lua);
}

static unsigned type_again(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    cs_lua_screen_of(screen)->is_left = false;
    screen->lua->back = 0;
    return CS_DO_DRAW;
}

static unsigned stop(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_lua_screen *lua = cs_lua_screen_of(screen);
    (void)store;
    (void)argument;
    if (lua->is_busy)
        lua->want = CS_LUA_STOP;
    else
        cs_screen_say(screen, CS_STYLE_DIM, "nothing runs here");
    return asked(lua);
}

/* clang-format off */
static const struct cs_key_row text_keys[] = {
    {.keys = "Enter", .shown = "Enter",     .label = "run",      .priority = 0, .help = "evaluate the line; a chunk that is not whole goes on"},
    {.keys = "Tab",   .shown = "Tab",       .label = "complete", .priority = 0, .help = "complete names, keys of an argument table, figures of a job; on an empty line the next view"},
    {.keys = "Up",    .shown = "Up Down",   .label = "history",  .priority = 1, .help = "lines of before that begin as what stands there"},
    {.keys = "PgUp",  .shown = "PgUp PgDn", .label = "scroll",   .priority = 2, .help = "what was said before"},
    {.keys = "C-c",   .shown = "C-c",       .label = "stop",     .priority = 1, .help = "stop what runs, or give up what is typed"},
    {.keys = "Esc",   .shown = "Esc",       .label = "keys of the screen", .priority = 0, .help = "the keys below count, until i"},
    {.keys = "F1",    .shown = "F1",        .label = "help",     .priority = 2, .help = "this list"},
    {.keys = NULL},
};
static const struct cs_key_row keys[] = {
    {"i,a,Enter", "i Enter", "type", 1, NULL, "type again",              type_again, 0},
    {"s",         "s",       "interrupt", 2, NULL, "stop the chunk that runs", stop,      0},
    {.keys = NULL},
};
/* clang-format on */

static const struct cs_view_list list = {count, cursor_of, each, row_at};
static const struct cs_view_text text = {is_open, text_keys, key_of_text, paste};

const struct cs_view_ops cs_view_lua = {
    .title = "Lua",
    .short_title = "Lua",
    .key = "8",
    .command = "lua",
    .help = "Lua that is typed, as 'cornstarch-console lua' has it: functions of cs, live jobs, "
            "history, "
            "completion, chunks of\n"
            "several lines, help of every function.\n"
            "What runs does not hold the screen; it has the limits of a script, and C-c stops it.\n"
            "Keys are typed here; after Esc they are those of the screen.",
    .beside = {CS_VIEW_JOBS, CS_VIEW_LOGS},
    .keys = keys,
    .draw = draw,
    .move = move,
    .list = &list,
    .text = &text,
};
