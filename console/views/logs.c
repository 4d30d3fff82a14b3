/* Logs: the lines of all processes of the job merged as they came, and what people do with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/log_rows.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/job_state.h"

enum { SHORT_AT = 1 + 6 + 7, CLOCK = 13, MOST_ROWS_OF_A_LINE = 8 };

static enum cs_style level_style(enum cs_log_level level)
{
    static const enum cs_style styles[CS_LOG_LEVEL_COUNT] = {
        [CS_ERROR] = CS_STYLE_BAD,
        [CS_WARN] = CS_STYLE_WARN,
        [CS_INFO] = CS_STYLE_TEXT,
        [CS_DEBUG] = CS_STYLE_DIM,
    };

    return styles[level];
}

/* --- drawing ---------------------------------------------------------------------------------- */

static int text_at(struct cs_area area)
{
    return SHORT_AT + (area.w >= 60 ? CLOCK : 0);
}

static int rows_of(const struct cs_store_line *line, const struct cs_screen *screen,
                   struct cs_area area)
{
    if (!screen->log_wraps)
        return 1;
    const int rows = cs_wrap_rows(line->text, area.w - text_at(area) - 1);
    return rows < MOST_ROWS_OF_A_LINE ? rows : MOST_ROWS_OF_A_LINE;
}

/* what n and N look for stands out, where it is in the first row */
static void mark(const struct cs_screen *screen, const struct cs_needle *find, struct cs_area area,
                 int y, const char *text)
{
    int at = 0, n = 0;
    const int x = text_at(area), width = area.w - x - 1;
    if (screen->find[0] == '\0' || !cs_needle_match(find, text, &at, &n) || n == 0)
        return;
    const int from = cs_utf8_width(text, (size_t)at);
    const int wide = cs_utf8_width(text + at, (size_t)n);
    if (from + wide < width &&
        (!screen->log_wraps || (size_t)(at + n) <= cs_wrap_next(text, width)))
        cs_draw_n(area, x + from, y, CS_STYLE_CURSOR, text + at, (size_t)n);
}

static void draw_line(const struct cs_store_line *line, const struct cs_screen *screen,
                      const struct cs_needle *find, struct cs_area area, int y, bool is_cursor)
{
    char clock[CS_FMT_CAP] = "", source[16];
    const enum cs_style style = level_style(line->level);
    if (line->wall_ns > 0)
        cs_fmt_clock_ms(clock, sizeof clock, line->wall_ns);
    cs_log_source(source, line->rank);
    int x = 1;
    if (is_cursor)
        cs_draw(area, 0, y, CS_STYLE_KEY, cs_glyph(screen->glyphs, CS_GLYPH_CURSOR));
    if (area.w >= 60) {
        cs_draw(area, x, y, CS_STYLE_DIM, clock);
        x += CLOCK;
    }
    cs_draw(area, x, y, style, cs_log_level_name(line->level));
    cs_draw(area, x + 6, y, CS_STYLE_DIM, source);
    cs_draw_wrap(area, x + 13, y, area.w - x - 14, rows_of(line, screen, area), style,
                 screen->glyphs, line->text);
    mark(screen, find, area, y, line->text);
}

static void draw_head(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_area area, int n)
{
    struct cs_fields fields = {0};
    char source[16] = "all ranks";
    if (screen->log_rank != CS_RANK_ALL)
        cs_log_source(source, screen->log_rank);
    cs_fields_add(&fields, CS_STYLE_TITLE, 0, "merged: %s, level >= %s", source,
                  cs_log_level_name(screen->log_level));
    if (screen->filter[CS_VIEW_LOGS][0])
        cs_fields_add(&fields, CS_STYLE_TITLE, 0, "with \"%.60s\"", screen->filter[CS_VIEW_LOGS]);
    if (n == store->logs.n)
        cs_fields_add(&fields, CS_STYLE_DIM, 2, "%d line%s", n, CS_PLURAL(n));
    else
        cs_fields_add(&fields, CS_STYLE_DIM, 2, "%d of %d line%s", n, store->logs.n,
                      CS_PLURAL(store->logs.n));
    cs_fields_add(&fields, CS_STYLE_DIM, 1, screen->at.log_line ? "[still]" : "[follow]");
    if (screen->log_wraps)
        cs_fields_add(&fields, CS_STYLE_DIM, 3, "[wrap]");
    cs_fields_draw(&fields, area, 1, 0);
}

enum { FOOT_AT_H = 8 }; /* lower areas have none */

/* rows of a text below a rule, at the bottom; the rule is one of them */
static int foot_rows(struct cs_area area, const char *text)
{
    const int most = area.h / 2, rows = cs_wrap_rows(text, area.w - 2);
    return (rows < most ? rows : most) + 1;
}

static void draw_foot(const struct cs_screen *screen, struct cs_area area, enum cs_style style,
                      const char *text)
{
    const int rows = foot_rows(area, text) - 1, y = area.h - rows;
    cs_fill(area, 0, y - 1, area.w, CS_STYLE_DIM, cs_glyph(screen->glyphs, CS_GLYPH_HLINE));
    cs_draw_wrap(area, 1, y, area.w - 2, rows, style, screen->glyphs, text);
}

/* The line under the cursor, whole; returns the rows that this takes. */
static int draw_whole(const struct cs_store_line *line, const struct cs_screen *screen,
                      struct cs_area area)
{
    struct cs_buf text = {0};
    cs_log_row_text(line, &text);
    draw_foot(screen, area, level_style(line->level), cs_buf_str(&text));
    const int rows = foot_rows(area, cs_buf_str(&text));
    cs_buf_free(&text);
    return rows;
}

/* Why a job waits for devices although it has lines: what its submission warned of, or of an earlier run. NULL:
 * it does not, or nobody knows. */
static const char *why_waiting(const struct cs_store *store)
{
    const struct cs_store_job *job = cs_store_selected(store);
    const bool waits = job != NULL && cs_job_state_is(job->state, CS_PHASE_WAITING);
    return waits && job->reason[0] != '\0' && store->logs.n > 0 ? job->reason : NULL;
}

/* what is left above the foot that says so */
static struct cs_area above_why(const struct cs_store *store, struct cs_area area)
{
    const char *why = why_waiting(store);
    if (why != NULL && area.h >= FOOT_AT_H)
        area.h -= foot_rows(area, why);
    return area;
}

/* Where the lines stand: `first` of the rows at the top, so that the cursor is at the bottom while the
 * newest is followed and has a third of the room below it else. */
static int first_row(const struct cs_store *store, const struct cs_screen *screen,
                     struct cs_area area, int room, const int *rows, int n, int cursor)
{
    int below = 0, first = cursor, used;
    for (int i = cursor + 1; i < n && below < room / 3; i++)
        below += rows_of(cs_store_line(&store->logs, rows[i]), screen, area);
    used = below;
    for (int i = cursor; i >= 0; i--) {
        used += rows_of(cs_store_line(&store->logs, rows[i]), screen, area);
        if (used > room && i < cursor)
            break;
        first = i;
    }
    return first;
}

static int room_of(struct cs_area area, int whole)
{
    return area.h - 1 - whole;
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    int rows[CS_STORE_LOGS], whole = 0, y = 1;
    const int n = cs_log_rows(store, screen, rows);
    const int cursor = cs_log_cursor(store, screen, rows, n);
    struct cs_needle find;
    draw_head(store, screen, area, n);
    if (above_why(store, area).h < area.h)
        draw_foot(screen, area, CS_STYLE_TITLE, why_waiting(store));
    area = above_why(store, area);
    if (n == 0) {
        cs_draw(area, 1, 2, CS_STYLE_DIM,
                store->logs.n ? "no line passes the filter (v level, r source, f text)"
                              : "no log lines yet");
        const struct cs_store_job *job = cs_store_selected(store);
        if (job && job->reason[0] && store->logs.n == 0)
            cs_draw_wrap(area, 1, 4, area.w - 2, area.h - 4, CS_STYLE_TEXT, screen->glyphs,
                         job->reason);
        return;
    }
    if (screen->at.is_log_whole && area.h >= FOOT_AT_H)
        whole = draw_whole(cs_store_line(&store->logs, rows[cursor]), screen, area);
    const int room = room_of(area, whole);
    struct cs_area lines = cs_area_part(area, 0, 0, area.w, room + 1);
    cs_needle_make(&find, screen->find);
    for (int i = first_row(store, screen, area, room, rows, n, cursor); i < n && y <= room; i++) {
        const struct cs_store_line *line = cs_store_line(&store->logs, rows[i]);
        draw_line(line, screen, &find, lines, y, i == cursor && screen->at.log_line != 0);
        y += rows_of(line, screen, area);
    }
    cs_needle_free(&find);
}

/* --- as a list -------------------------------------------------------------------------------- */

static int count(const struct cs_store *store, const struct cs_screen *screen)
{
    int rows[CS_STORE_LOGS];
    return cs_log_rows(store, screen, rows);
}

static int cursor_of(const struct cs_store *store, const struct cs_screen *screen)
{
    int rows[CS_STORE_LOGS];
    const int n = cs_log_rows(store, screen, rows);
    return cs_log_cursor(store, screen, rows, n);
}

static void each(const struct cs_store *store, const struct cs_screen *screen,
                 bool (*take)(void *user, int row, const char *text), void *user)
{
    int rows[CS_STORE_LOGS];
    const int n = cs_log_rows(store, screen, rows);
    struct cs_buf text = {0};
    bool goes_on = true;
    for (int i = 0; i < n && goes_on; i++) {
        cs_buf_reset(&text);
        cs_log_row_text(cs_store_line(&store->logs, rows[i]), &text);
        goes_on = take(user, i, cs_buf_str(&text));
    }
    cs_buf_free(&text);
}

static int row_at(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area,
                  int y)
{
    int rows[CS_STORE_LOGS], top = 1;
    const int n = cs_log_rows(store, screen, rows), cursor = cs_log_cursor(store, screen, rows, n);
    if (n == 0)
        return -1;
    area = above_why(store, area);
    for (int i = first_row(store, screen, area, room_of(area, 0), rows, n, cursor); i < n; i++) {
        const int height = rows_of(cs_store_line(&store->logs, rows[i]), screen, area);
        if (y >= top && y < top + height)
            return i;
        top += height;
    }
    return -1;
}

static const struct cs_view_list list = {count, cursor_of, each, row_at};

/* --- keys ------------------------------------------------------------------------------------- */

/* Reaching the newest line follows again. */
static void move(struct cs_screen *screen, const struct cs_store *store, int steps)
{
    int rows[CS_STORE_LOGS];
    const int n = cs_log_rows(store, screen, rows);
    if (n == 0)
        return;
    const int64_t to = (int64_t)cs_log_cursor(store, screen, rows, n) + steps;
    const bool is_end = to >= n - 1 && steps > 0;
    const int row = to < 0 ? 0 : to >= n ? n - 1 : (int)to;
    screen->at.log_line = is_end ? 0 : cs_store_line(&store->logs, rows[row])->number;
}

static unsigned next_level(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->log_level = (enum cs_log_level)(((int)screen->log_level + 1) % CS_LOG_LEVEL_COUNT);
    return CS_DO_DRAW;
}

/* The next of the sources that have said something; after the last one all. */
static unsigned next_source(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    int next = INT32_MAX;
    (void)argument;
    for (int i = 0; i < store->logs.n; i++) {
        const int rank = cs_store_line(&store->logs, i)->rank;
        next = rank > screen->log_rank && rank < next ? rank : next;
    }
    screen->log_rank = next == INT32_MAX ? CS_RANK_ALL : next;
    return CS_DO_DRAW;
}

static unsigned follow(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const bool is_still = screen->at.log_line != 0;
    (void)argument;
    if (is_still)
        screen->at.log_line = 0;
    else if (store->logs.n > 0)
        screen->at.log_line = cs_store_line(&store->logs, store->logs.n - 1)->number;
    return CS_DO_DRAW;
}

static unsigned wrap(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->log_wraps = !screen->log_wraps;
    return CS_DO_DRAW;
}

static unsigned show_whole(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    screen->at.is_log_whole = !screen->at.is_log_whole;
    if (screen->at.is_log_whole && screen->at.log_line == 0)
        move(screen, store, 0);
    return CS_DO_DRAW;
}

/* clang-format off */
static const struct cs_key_row keys[] = {
    {"v",     "v",     "level",  2, NULL, "least level that is shown",            next_level,  0},
    {"r",     "r",     "source", 3, NULL, "one source after the other, then all", next_source, 0},
    {"F",     "F",     "follow", 2, NULL, "follow the newest line, or stand still", follow,    0},
    {"w",     "w",     "wrap",   4, NULL, "long lines over several rows",         wrap,        0},
    {"Enter", "Enter", "whole",  4, NULL, "the line under the cursor, whole",     show_whole,  0},
    {.keys = NULL},
};

/* clang-format on */

const struct cs_view_ops cs_view_logs = {
    .title = "Logs",
    .short_title = "Logs",
    .key = "7",
    .command = "logs",
    .is_of_job = true,
    .help =
        "What the processes of the job said, merged by time: a line every ten steps, evaluations,\n"
        "checkpoints, states, and what went wrong.",
    .beside = {CS_VIEW_PIPELINE, CS_VIEW_JOBS},
    .keys = keys,
    .draw = draw,
    .move = move,
    .list = &list,
};
