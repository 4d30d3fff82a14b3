/* What if: other plans beside the job's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/views/plan/cells.h"
#include "console/views/plan/plan.h"
#include "core/base/str.h"

static const struct cs_column whatif_columns[] = {
    {"  what if", 18, 20, 0, CS_ALIGN_LEFT },
    {"schedule",  11, 11, 4, CS_ALIGN_LEFT },
    {"layout",    16, 36, 3, CS_ALIGN_LEFT },
    {"ranks",     5,  5,  6, CS_ALIGN_RIGHT},
    {"step ms",   7,  9,  0, CS_ALIGN_RIGHT},
    {"delta",     6,  8,  0, CS_ALIGN_RIGHT},
    {"bubble",    6,  7,  1, CS_ALIGN_RIGHT},
    {"peak GiB ", 9,  10, 2, CS_ALIGN_RIGHT},
};

enum { WHATIF_STEP = 4 /* from here on: figures */ };

static int whatif_rows(const struct cs_whatif *w)
{
    return w->n + (w->has_search && !w->is_searched ? 1 : 0);
}

int cs_plan_whatif_want(const struct cs_store *store, const struct cs_screen *screen, int width)
{
    (void)width;
    return 1 +
           (whatif_rows(&cs_plan_previews(store, screen)->whatif) > 0
                ? whatif_rows(&cs_plan_previews(store, screen)->whatif)
                : 1) +
           1;
}

/* cursor: as a mark before the name; is_shown: the preview is about it */
static void fill_whatif(const struct cs_whatif_row *row, const char *cursor, bool is_shown,
                        int64_t cap, char cell[CS_CELLS_COLUMNS][CS_CELL])
{
    char gib[CS_FMT_CAP];
    snprintf(cell[0], CS_CELL, "%s%c%s", cursor, is_shown ? '*' : ' ', row->name);
    cs_str_copy(cell[1], CS_CELL, row->schedule);
    cs_str_copy(cell[2], CS_CELL, row->layout);
    snprintf(cell[3], CS_CELL, row->ranks > 0 ? "%d" : "-", row->ranks);
    if (!row->is_done)
        snprintf(cell[4], CS_CELL, "...");
    else
        cs_fmt_ms(cell[4], CS_CELL, row->step_ns > 0 ? (double)row->step_ns : (double)NAN);
    cs_fmt_drift(cell[5], CS_CELL, row->delta);
    cs_fmt_percent(cell[6], CS_CELL, row->bubble);
    cs_fmt_gib(gib, sizeof gib, row->peak_bytes);
    snprintf(cell[7], CS_CELL, "%s%c", gib, cap > 0 && row->peak_bytes > cap ? '!' : ' ');
}

/* its reason in place of the figures, and of a layout that is not known */
static void draw_refused(const struct cs_whatif_row *row, const struct cs_grid *grid,
                         enum cs_glyph_set glyphs, struct cs_area area, int y)
{
    const int x = 1 + cs_cells_width(grid, row->layout[0] ? WHATIF_STEP : 1);
    cs_fill(area, x, y, area.w - x, CS_STYLE_TEXT, " ");
    cs_draw_cut(area, x, y, area.w - x - 1, CS_STYLE_DIM, glyphs, row->error);
}

static enum cs_style whatif_style(const struct cs_whatif_row *row, bool is_own, int64_t cap)
{
    return is_own                             ? CS_STYLE_TITLE
           : cap > 0 && row->peak_bytes > cap ? CS_STYLE_BAD
           : row->error[0]                    ? CS_STYLE_DIM
           : row->delta < -0.005              ? CS_STYLE_GOOD
                                              : CS_STYLE_TEXT;
}

/* below the table: about the row under the cursor */
static void draw_whatif_foot(const struct cs_store *store, const struct cs_screen *screen,
                             int n_hidden, struct cs_area area, int y)
{
    const struct cs_whatif *w = &cs_plan_previews(store, screen)->whatif;
    const struct cs_whatif_row *row =
        screen->at.plan_cursor < w->n ? &w->row[screen->at.plan_cursor] : NULL;
    const char *note = "* shown   delta: of the time per slot   Enter shows the row";
    char whole[192];
    int64_t cap = store->model.device->mem_bytes;
    if (row && row->error[0])
        note = row->error;
    else if (row && cap > 0 && row->peak_bytes > cap)
        note = "! does not fit: more than the device has";
    else if (row && row->is_done && !row->runs)
        note = "simulated only: workers do not run such plans yet";
    else if (row && row->kind == CS_WHATIF_SEARCH) {
        snprintf(whole, sizeof whole, "%s   Enter shows it", row->layout);
        note = whole;
    }
    cs_grid_foot(area, y, row && row->error[0] ? CS_STYLE_WARN : CS_STYLE_DIM, screen->glyphs, note,
                 n_hidden);
}

void cs_plan_whatif_draw(const struct cs_store *store, const struct cs_screen *screen,
                         struct cs_area area, bool is_chosen)
{
    const struct cs_whatif *w = &cs_plan_previews(store, screen)->whatif;
    struct cs_cells c = {.n_columns = (int)CS_ARRAY_LEN(whatif_columns)};
    struct cs_grid grid = {.column = whatif_columns, .n_columns = c.n_columns};
    int room = area.h - 2, total = whatif_rows(&cs_plan_previews(store, screen)->whatif),
        top = screen->at.plan_cursor - room + 1;
    struct cs_variant shown;
    bool has_shown = cs_plan_variant(store, screen, &shown);
    (void)is_chosen;
    room = room < total ? room : total;
    top = top > 0 ? top : 0;
    c.n = w->n;
    for (int i = 0; i < w->n; i++)
        fill_whatif(&w->row[i],
                    i == screen->at.plan_cursor ? cs_glyph(screen->glyphs, CS_GLYPH_CURSOR) : " ",
                    has_shown && w->row[i].is_variant &&
                        cs_variant_is_equal(&w->row[i].variant, &shown, store->model.graph),
                    store->model.device->mem_bytes, c.text[i]);
    cs_cells_point(&c);
    cs_grid_layout(&grid, c.cell, c.n, area.w - 2);
    cs_grid_title(&grid, area, 1, 0);
    for (int i = 0; i < room; i++) {
        if (top + i == w->n) {
            cs_draw(area, 3, 1 + i, CS_STYLE_DIM, "searching the cluster ...");
            continue;
        }
        const struct cs_whatif_row *row = &w->row[top + i];
        cs_grid_row(&grid, area, 1, 1 + i,
                    whatif_style(row, top + i == 0, store->model.device->mem_bytes), NULL,
                    screen->glyphs, &c.cell[(top + i) * c.n_columns]);
        if (row->error[0])
            draw_refused(row, &grid, screen->glyphs, area, 1 + i);
        if (top + i == screen->at.plan_cursor)
            cs_restyle(cs_area_part(area, 0, 1 + i, area.w, 1), CS_STYLE_CURSOR);
    }
    draw_whatif_foot(store, screen, total - room, area, 1 + (room > 0 ? room : 1));
}
