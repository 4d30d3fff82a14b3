/* Rows of the Plan view's lists: one thing each, or groups where there are many. */
#include "console/views/plan/plan.h"

#include <stdio.h>

enum { LARGE = 4 /* times the rows there are: groups */ };

void cs_plan_rank_name(const struct cs_forecast *f, int32_t rank, char *out, size_t cap)
{
    const char *last = "-";
    int n = 0;
    for (int32_t s = 0; s < f->n_stages; s++)
        if (f->stage[s].rank == rank && n++ >= 0)
            last = f->stage[s].name;
    if (n > 1)
        snprintf(out, cap, "%s +%d", last, n - 1);
    else
        snprintf(out, cap, "%s", last);
}

struct cs_plan_rows_shown cs_plan_rows_share(const struct cs_screen *screen, int n, int room,
                                             int top)
{
    struct cs_plan_rows_shown rows = {.per = 1};
    room = room > 0 ? room : 0;
    bool is_grouped = screen->plan_rows == CS_PLAN_ROWS_GROUPS ||
                      (screen->plan_rows == CS_PLAN_ROWS_AUTO && n > LARGE * room);
    if (is_grouped && room > 0 && n > room)
        rows.per = (n + room - 1) / room;
    int total = (n + rows.per - 1) / rows.per;
    rows.n = total < room ? total : room;
    rows.first = top < total - rows.n ? top : total - rows.n;
    rows.first = rows.first > 0 ? rows.first : 0;
    return rows;
}

void cs_plan_rows_note(const struct cs_plan_rows_shown *rows, int n, const char *what,
                       struct cs_area area, int y)
{
    char text[80];
    int total = (n + rows->per - 1) / rows->per;
    if (rows->per > 1)
        snprintf(text, sizeof text, "  %d %ss, %d a row (a: each)", n, what, rows->per);
    else if (rows->n < total)
        snprintf(text, sizeof text, "  %ss %d-%d of %d (j/k)", what, rows->first,
                 rows->first + rows->n - 1, n);
    else
        return;
    cs_draw_right(area, area.w - 1, y, CS_STYLE_DIM, text);
}
