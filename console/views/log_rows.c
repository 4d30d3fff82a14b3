/* Picks lines of the logs. */
#include "console/views/log_rows.h"

#include <stdio.h>

#include "console/draw/fmt.h"

static bool is_shown(const struct cs_screen *screen, const struct cs_store_line *line)
{
    return line->level <= screen->log_level &&
           (screen->log_rank == CS_RANK_ALL || line->rank == screen->log_rank);
}

int cs_log_rows(const struct cs_store *store, const struct cs_screen *screen,
                int out[CS_STORE_LOGS])
{
    struct cs_needle filter;
    int n = 0;
    cs_needle_make(&filter, screen->filter[CS_VIEW_LOGS]);
    for (int i = 0; i < store->logs.n; i++) {
        const struct cs_store_line *line = cs_store_line(&store->logs, i);
        if (is_shown(screen, line) && cs_needle_match(&filter, line->text, NULL, NULL))
            out[n++] = i;
    }
    cs_needle_free(&filter);
    return n;
}

int cs_log_cursor(const struct cs_store *store, const struct cs_screen *screen, const int *rows,
                  int n)
{
    if (screen->at.log_line == 0 || n == 0)
        return n - 1;
    const int index = cs_lines_find(&store->logs, screen->at.log_line);
    int i = 0;
    while (i + 1 < n && rows[i] < index)
        i++;
    return i;
}

void cs_log_source(char out[16], int rank)
{
    static const char *const names[] = {"feeder", "runner", "daemon"}; /* -1, -2, -3 */
    if (rank >= 0)
        snprintf(out, 16, "r%d", rank);
    else
        snprintf(out, 16, "%s", rank >= -3 ? names[-1 - rank] : "?");
}

void cs_log_row_text(const struct cs_store_line *line, struct cs_buf *out)
{
    char clock[CS_FMT_CAP] = "", source[16];
    if (line->wall_ns > 0)
        cs_fmt_clock_ms(clock, sizeof clock, line->wall_ns);
    cs_log_source(source, line->rank);
    cs_buf_addf(out, "%-12s %-5s %-6s %s", clock, cs_log_level_name(line->level), source,
                line->text);
}
