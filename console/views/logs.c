/* Logs: the lines of all ranks merged as they came, filtered by level and rank. */
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/view.h"
#include "core/base/str.h"

static bool is_shown(const struct cs_screen *screen, const struct cs_store_line *line)
{
    return line->level <= screen->log_level &&
           (screen->log_rank == CS_RANK_ALL || line->rank == screen->log_rank);
}

static void rank_name(char *out, size_t cap, int rank)
{
    static const char *const names[] = {"feeder", "runner", "daemon"}; /* -1, -2, -3 */
    if (rank >= 0)
        snprintf(out, cap, "r%d", rank);
    else
        snprintf(out, cap, "%s", rank >= -3 ? names[-1 - rank] : "?");
}

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

static void draw_line(const struct cs_store_line *line, const struct cs_screen *screen,
                      struct cs_area area, int y)
{
    char clock[CS_FMT_CAP] = "", rank[16];
    enum cs_style style = level_style(line->level);
    if (line->wall_ns > 0)
        cs_fmt_clock_ms(clock, sizeof clock, line->wall_ns);
    rank_name(rank, sizeof rank, line->rank);
    int x = 1;
    if (area.w >= 60) {
        cs_draw(area, x, y, CS_STYLE_DIM, clock);
        x += 13;
    }
    cs_draw(area, x, y, style, cs_log_level_name(line->level));
    cs_draw(area, x + 6, y, CS_STYLE_DIM, rank);
    cs_draw_cut(area, x + 13, y, area.w - x - 14, style, screen->glyphs, line->text);
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    const struct cs_store_lines *logs = &store->logs;
    int64_t oldest = logs->total - logs->n;
    int64_t bottom = screen->at.is_log_still ? screen->at.log_bottom : logs->total - 1;
    struct cs_fields fields = {0};
    char rank[16] = "all ranks";
    if (screen->log_rank != CS_RANK_ALL)
        rank_name(rank, sizeof rank, screen->log_rank);
    cs_fields_add(&fields, CS_STYLE_TITLE, 0, "merged: %s, level >= %s", rank,
                  cs_log_level_name(screen->log_level));
    cs_fields_add(&fields, CS_STYLE_DIM, 2, "%d of %lld lines kept", logs->n,
                  (long long)logs->total);
    cs_fields_add(&fields, CS_STYLE_DIM, 1, screen->at.is_log_still ? "[still]" : "[follow]");
    cs_fields_draw(&fields, area, 1, 0);
    int shown[CS_CANVAS_MAX], n = 0, room = area.h - 1;
    bottom = bottom < logs->total ? bottom : logs->total - 1;
    for (int64_t i = bottom; i >= oldest && n < room; i--)
        if (is_shown(screen, cs_store_line(logs, (int)(i - oldest))))
            shown[n++] = (int)(i - oldest);
    for (int i = 0; i < n; i++)
        draw_line(cs_store_line(logs, shown[n - 1 - i]), screen, area, 1 + i);
    if (n == 0)
        cs_draw(area, 1, 2, CS_STYLE_DIM,
                logs->n ? "no line passes the filter (v level, r rank)" : "no log lines yet");
}

/* --- keys ------------------------------------------------------------------------------------- */

/* Over the lines that the filter lets through. Reaching the newest line follows again. */
static void move(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    const struct cs_store_lines *logs = &store->logs;
    int64_t oldest = logs->total - logs->n;
    int64_t at = screen->at.is_log_still ? screen->at.log_bottom : logs->total - 1;
    int step = rows > 0 ? 1 : -1;
    for (int left = rows * step; left > 0;) {
        int64_t next = at + step;
        while (next >= oldest && next < logs->total &&
               !is_shown(screen, cs_store_line(logs, (int)(next - oldest))))
            next += step;
        if (next >= logs->total) {
            screen->at.is_log_still = false;
            return;
        }
        if (next < oldest)
            break;
        at = next;
        left--;
    }
    screen->at.is_log_still = true;
    screen->at.log_bottom = at;
}

static unsigned next_level(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->log_level = (enum cs_log_level)(((int)screen->log_level + 1) % CS_LOG_LEVEL_COUNT);
    return CS_DO_DRAW;
}

static unsigned next_rank(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    if (screen->log_rank == CS_RANK_ALL)
        screen->log_rank = -2;
    else
        screen->log_rank =
            screen->log_rank + 1 < store->n_ranks ? screen->log_rank + 1 : CS_RANK_ALL;
    return CS_DO_DRAW;
}

static unsigned follow(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    screen->at.is_log_still = !screen->at.is_log_still;
    screen->at.log_bottom = store->logs.total - 1;
    return CS_DO_DRAW;
}

/* clang-format off */
static const struct cs_key_row keys[] = {
    {"v", "v", "level",  2, NULL, "least level that is shown",          next_level, 0},
    {"r", "r", "rank",   3, NULL, "one rank after the other, then all", next_rank,  0},
    {"F", "F", "follow", 2, NULL, "follow the newest line",             follow,     0},
    {.keys = NULL},
};

/* clang-format on */

const struct cs_view_ops cs_view_logs = {
    .title = "Logs",
    .short_title = "Logs",
    .key = "7",
    .help = "What the processes of the job said, merged by time.",
    .beside = {CS_VIEW_PIPELINE, CS_VIEW_JOBS},
    .keys = keys,
    .draw = draw,
    .move = move,
};
