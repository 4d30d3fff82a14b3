/* The tables of the Plan view: memory of every rank, what-if, the critical path. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/views/plan/plan.h"
#include "core/base/str.h"

enum { CELL = 96, MAX_SHOWN = 256, MAX_COLUMNS = 9, BAR_LEAST = 14, BAR_MOST = 60 };

struct cells {
    int n_columns, n;
    char text[MAX_SHOWN][MAX_COLUMNS][CELL];
    const char *cell[MAX_SHOWN * MAX_COLUMNS];
};

static void point_at_cells(struct cells *c)
{
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->n_columns; k++)
            c->cell[i * c->n_columns + k] = c->text[i][k];
}

static int grid_width(const struct cs_grid *grid)
{
    int x = 0;
    for (int k = 0; k < grid->n_columns; k++)
        x += grid->width[k] > 0 ? grid->width[k] + CS_TABLE_GAP : 0;
    return x;
}

/* --- memory ----------------------------------------------------------------------------------- */

static const struct cs_column memory_columns[] = {
    {"rank",    4, 9,  0, CS_ALIGN_LEFT },
    {"stages",  8, 18, 1, CS_ALIGN_LEFT },
    {"weights", 7, 8,  3, CS_ALIGN_RIGHT},
    {"grads",   6, 8,  4, CS_ALIGN_RIGHT},
    {"optim",   6, 8,  5, CS_ALIGN_RIGHT},
    {"activ",   6, 8,  2, CS_ALIGN_RIGHT},
    {"bound",   6, 8,  6, CS_ALIGN_RIGHT},
    {"GiB",     6, 8,  0, CS_ALIGN_RIGHT},
};

static const struct {
    char mark;
    enum cs_style style;
} held_looks[CS_PREVIEW_HELD] = {
    [CS_PREVIEW_WEIGHTS] = {'W', CS_STYLE_FORWARD  },
    [CS_PREVIEW_GRADS] = {'G', CS_STYLE_BACKWARD },
    [CS_PREVIEW_OPTIMIZER] = {'O', CS_STYLE_OPTIMIZER},
    [CS_PREVIEW_ACTIVATIONS] = {'A', CS_STYLE_GOOD     },
    [CS_PREVIEW_BOUNDARY] = {'B', CS_STYLE_DIM      },
};

int cs_plan_memory_want(const struct cs_store *store, const struct cs_screen *screen, int width)
{
    (void)screen;
    (void)width;
    return 1 + cs_plan_previews(store, screen)->preview.forecast.n_ranks + 1;
}

/* of the ranks [first, end): the one that holds most */
static int32_t fullest(const struct cs_preview *p, int32_t first, int32_t end)
{
    int32_t best = first;
    for (int32_t r = first; r < end; r++)
        if (p->memory[r].total > p->memory[best].total)
            best = r;
    return best;
}

static void fill_memory(const struct cs_preview *p, int32_t first, int32_t end,
                        char cell[MAX_COLUMNS][CELL])
{
    int32_t rank = fullest(p, first, end);
    if (end - first > 1)
        snprintf(cell[0], CELL, "%d-%d", first, end - 1);
    else
        snprintf(cell[0], CELL, "%d", first);
    cs_plan_rank_name(&p->forecast, rank, cell[1], CELL);
    for (int h = 0; h < CS_PREVIEW_HELD; h++)
        cs_fmt_gib(cell[2 + h], CELL, p->memory[rank].bytes[h]);
    cs_fmt_gib(cell[2 + CS_PREVIEW_HELD], CELL, p->memory[rank].total);
}

/* A letter per class, as long as its share of `whole`; what overflows a device is marked. */
static void draw_bar(const struct cs_preview_memory *m, double whole, struct cs_area area, int x,
                     int y, int width, enum cs_glyph_set glyphs)
{
    double sum = 0;
    int at = 0;
    for (int h = 0; h < CS_PREVIEW_HELD; h++) {
        sum += (double)m->bytes[h];
        int end = whole > 0 ? (int)(sum / whole * width + 0.5) : 0;
        char mark[2] = {held_looks[h].mark, '\0'};
        for (; at < end && at < width; at++)
            cs_draw(area, x + at, y, held_looks[h].style, mark);
    }
    for (; at < width; at++)
        cs_draw(area, x + at, y, CS_STYLE_IDLE, cs_glyph(glyphs, CS_GLYPH_IDLE));
    if (sum > whole * (1 + 1e-9))
        cs_draw(area, x + width, y, CS_STYLE_BAD, "!");
}

/* activations and boundary buffers over the step: full height is the most of all ranks */
static void draw_curve(const struct cs_preview *p, int32_t rank, struct cs_area area, int x, int y,
                       int width, enum cs_glyph_set glyphs)
{
    const struct cs_forecast_rank *r = &p->forecast.rank[rank];
    double most = 0, column_ns = (double)p->forecast.makespan_ns / width;
    for (int32_t i = 0; i < p->forecast.n_ranks; i++)
        most = fmax(most, (double)(p->memory[i].bytes[CS_PREVIEW_ACTIVATIONS] +
                                   p->memory[i].bytes[CS_PREVIEW_BOUNDARY]));
    uint32_t at = 0;
    for (int c = 0; c < width; c++) {
        int64_t held = 0;
        do {
            const int64_t *bytes = r->memory[at].bytes;
            int64_t now = bytes[CS_HELD_ACTIVATIONS] + bytes[CS_HELD_BOUNDARY];
            held = now > held ? now : held;
        } while (at + 1 < r->n_points && (double)r->memory[at + 1].at_ns < (c + 1) * column_ns &&
                 ++at);
        int level = most > 0 ? (int)((double)held / most * CS_SPARK_LEVELS + 0.5) - 1 : -1;
        level = level < CS_SPARK_LEVELS ? level : CS_SPARK_LEVELS - 1;
        cs_draw(area, x + c, y, level < 0 ? CS_STYLE_IDLE : CS_STYLE_GOOD,
                level < 0 ? cs_glyph(glyphs, CS_GLYPH_IDLE) : cs_glyph_spark(glyphs, level));
    }
}

static void draw_memory_foot(const struct cs_store *store, struct cs_area area, int y)
{
    const struct cs_device_class *device = store->model.device;
    struct cs_fields fields = {0};
    char gib[CS_FMT_CAP];
    for (int h = 0; h < CS_PREVIEW_HELD; h++)
        cs_fields_add(&fields, held_looks[h].style, h < 4 ? 2 : 3, "%c %s", held_looks[h].mark,
                      cs_preview_held_name((enum cs_preview_held)h));
    cs_fmt_gib(gib, sizeof gib, device->mem_bytes);
    if (device->mem_bytes > 0) {
        cs_fields_add(&fields, CS_STYLE_DIM, 1, "bar: %s GiB of a %s", gib, device->name);
    } else {
        cs_fields_add(&fields, CS_STYLE_DIM, 1, "bar: fullest rank");
        cs_fields_add(&fields, CS_STYLE_DIM, 4, "(%s: no bound known)", device->name);
    }
    cs_fields_draw(&fields, area, 1, y);
}

void cs_plan_memory_draw(const struct cs_store *store, const struct cs_screen *screen,
                         struct cs_area area, bool is_chosen)
{
    const struct cs_preview *p = &cs_plan_previews(store, screen)->preview;
    struct cells c = {.n_columns = (int)CS_ARRAY_LEN(memory_columns)};
    struct cs_grid grid = {.column = memory_columns, .n_columns = c.n_columns};
    int n = p->forecast.n_ranks, room = area.h - 2 < MAX_SHOWN ? area.h - 2 : MAX_SHOWN;
    struct cs_plan_rows_shown rows =
        cs_plan_rows_share(screen, n, room, is_chosen ? screen->at.plan_top : 0);
    int64_t cap = store->model.device->mem_bytes;
    double whole = (double)(cap > 0 ? cap : p->memory[p->peak_rank].total);
    c.n = rows.n;
    for (int i = 0; i < rows.n; i++) {
        int32_t first = (rows.first + i) * rows.per;
        fill_memory(p, first, first + rows.per < n ? first + rows.per : n, c.text[i]);
    }
    point_at_cells(&c);
    cs_grid_layout(&grid, c.cell, c.n, area.w - 3 - BAR_LEAST);
    cs_grid_title(&grid, area, 1, 0);
    int x = 1 + grid_width(&grid), width = area.w - x - 2, curve = 0;
    if (width >= 2 * BAR_LEAST + 2) {
        curve = width / 2 - 1 < BAR_MOST ? width / 2 - 1 : BAR_MOST;
        width -= curve + 2;
    }
    width = width < BAR_MOST ? width : BAR_MOST;
    if (curve > 0)
        cs_draw_cut(area, x + width + 2, 0, curve, CS_STYLE_TITLE, screen->glyphs,
                    "A + B over the step");
    for (int i = 0; i < rows.n; i++) {
        int32_t first = (rows.first + i) * rows.per;
        int32_t rank = fullest(p, first, first + rows.per < n ? first + rows.per : n);
        bool is_over = cap > 0 && p->memory[rank].total > cap;
        cs_grid_row(&grid, area, 1, 1 + i, is_over ? CS_STYLE_BAD : CS_STYLE_TEXT, NULL,
                    screen->glyphs, &c.cell[i * c.n_columns]);
        draw_bar(&p->memory[rank], whole, area, x, 1 + i, width, screen->glyphs);
        if (curve > 0)
            draw_curve(p, rank, area, x + width + 2, 1 + i, curve, screen->glyphs);
    }
    cs_plan_rows_note(&rows, n, "rank", area, 0);
    draw_memory_foot(store, area, 1 + rows.n);
}

/* --- what-if ---------------------------------------------------------------------------------- */

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
                        int64_t cap, char cell[MAX_COLUMNS][CELL])
{
    char gib[CS_FMT_CAP];
    snprintf(cell[0], CELL, "%s%c%s", cursor, is_shown ? '*' : ' ', row->name);
    cs_str_copy(cell[1], CELL, row->schedule);
    cs_str_copy(cell[2], CELL, row->layout);
    snprintf(cell[3], CELL, row->ranks > 0 ? "%d" : "-", row->ranks);
    if (!row->is_done)
        snprintf(cell[4], CELL, "...");
    else
        cs_fmt_ms(cell[4], CELL, row->step_ns > 0 ? (double)row->step_ns : (double)NAN);
    cs_fmt_drift(cell[5], CELL, row->delta);
    cs_fmt_percent(cell[6], CELL, row->bubble);
    cs_fmt_gib(gib, sizeof gib, row->peak_bytes);
    snprintf(cell[7], CELL, "%s%c", gib, cap > 0 && row->peak_bytes > cap ? '!' : ' ');
}

/* its reason in place of the figures */
static void draw_refused(const struct cs_whatif_row *row, const struct cs_grid *grid,
                         enum cs_glyph_set glyphs, struct cs_area area, int y)
{
    int x = 1;
    for (int k = 0; k < WHATIF_STEP; k++)
        x += grid->width[k] > 0 ? grid->width[k] + CS_TABLE_GAP : 0;
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
    else if (row && row->is_done && row->kind == CS_WHATIF_VARIANT && !row->runs)
        note = "simulated only: workers do not run such plans yet";
    else if (row && row->kind == CS_WHATIF_SEARCH) {
        snprintf(whole, sizeof whole, "%s   (roofline costs, each rank a device of its own)",
                 row->layout);
        note = whole;
    }
    int width = area.w - 2;
    if (n_hidden > 0) {
        char more[32];
        snprintf(more, sizeof more, "  %d more (j/k)", n_hidden);
        cs_draw_right(area, area.w - 1, y, CS_STYLE_DIM, more);
        width -= (int)strlen(more);
    }
    cs_draw_cut(area, 1, y, width, row && row->error[0] ? CS_STYLE_WARN : CS_STYLE_DIM,
                screen->glyphs, note);
}

void cs_plan_whatif_draw(const struct cs_store *store, const struct cs_screen *screen,
                         struct cs_area area, bool is_chosen)
{
    const struct cs_whatif *w = &cs_plan_previews(store, screen)->whatif;
    struct cells c = {.n_columns = (int)CS_ARRAY_LEN(whatif_columns)};
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
                    has_shown && w->row[i].is_variant && w->row[i].kind == CS_WHATIF_VARIANT &&
                        cs_variant_is_equal(&w->row[i].variant, &shown, store->model.graph),
                    store->model.device->mem_bytes, c.text[i]);
    point_at_cells(&c);
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

/* --- critical path ---------------------------------------------------------------------------- */

static const struct cs_column path_columns[] = {
    {"#",              3,  5,  4, CS_ALIGN_RIGHT},
    {"start ms",       8,  9,  0, CS_ALIGN_RIGHT},
    {"takes ms",       8,  9,  0, CS_ALIGN_RIGHT},
    {"idle ms",        7,  8,  3, CS_ALIGN_RIGHT},
    {"rank",           4,  5,  0, CS_ALIGN_RIGHT},
    {"action",         18, 22, 0, CS_ALIGN_LEFT },
    {"why not before", 30, 56, 1, CS_ALIGN_LEFT },
};

int cs_plan_path_want(const struct cs_store *store, const struct cs_screen *screen, int width)
{
    (void)screen;
    (void)width;
    return 2 + cs_plan_previews(store, screen)->preview.n_links;
}

static void fill_link(const struct cs_preview *p, int32_t i, char cell[MAX_COLUMNS][CELL])
{
    const struct cs_forecast_action *a = cs_preview_action(p, i);
    snprintf(cell[0], CELL, "%d", i + 1);
    cs_fmt_ms(cell[1], CELL, (double)a->start_ns);
    cs_fmt_ms(cell[2], CELL, (double)(a->end_ns - a->start_ns));
    if (p->link[i].idle_ns > 0)
        cs_fmt_ms(cell[3], CELL, (double)p->link[i].idle_ns);
    else
        snprintf(cell[3], CELL, "-");
    snprintf(cell[4], CELL, "%d", p->link[i].rank);
    cs_preview_what(p, i, cell[5], CELL);
    cs_preview_why_text(p, i, cell[6], CELL);
}

static void draw_path_summary(const struct cs_preview *p, struct cs_area area, int width)
{
    struct cs_fields fields = {0};
    double compute_ns = 0, message_ns = 0, whole_ns = (double)p->forecast.makespan_ns;
    char share[CS_FMT_CAP];
    for (int32_t i = 0; i < p->n_links; i++) {
        const struct cs_forecast_action *a = cs_preview_action(p, i);
        bool is_compute = cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMPUTE;
        *(is_compute ? &compute_ns : &message_ns) += (double)(a->end_ns - a->start_ns);
    }
    cs_fields_add(&fields, CS_STYLE_TITLE, 0, "%d actions", p->n_links);
    cs_fmt_percent(share, sizeof share, compute_ns / whole_ns);
    cs_fields_add(&fields, CS_STYLE_TEXT, 0, "computing %s", share);
    cs_fmt_percent(share, sizeof share, message_ns / whole_ns);
    cs_fields_add(&fields, CS_STYLE_TEXT, 0, "messages %s", share);
    cs_fields_add(&fields, CS_STYLE_DIM, 1, "only what shortens these shortens the step");
    cs_fields_draw(&fields, cs_area_part(area, 0, 0, width, 1), 1, 0);
}

void cs_plan_path_draw(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_area area, bool is_chosen)
{
    const struct cs_preview *p = &cs_plan_previews(store, screen)->preview;
    struct cells c = {.n_columns = (int)CS_ARRAY_LEN(path_columns)};
    struct cs_grid grid = {.column = path_columns, .n_columns = c.n_columns};
    int room = area.h - 2 < MAX_SHOWN ? area.h - 2 : MAX_SHOWN;
    int last = p->n_links - room, top = is_chosen ? screen->at.plan_top : 0;
    top = top < last ? top : last;
    top = top > 0 ? top : 0;
    c.n = p->n_links - top < room ? p->n_links - top : room;
    c.n = c.n > 0 ? c.n : 0;
    for (int i = 0; i < c.n; i++)
        fill_link(p, top + i, c.text[i]);
    point_at_cells(&c);
    cs_grid_layout(&grid, c.cell, c.n, area.w - 2);
    cs_grid_title(&grid, area, 1, 1);
    for (int i = 0; i < c.n; i++) {
        const struct cs_forecast_action *a = cs_preview_action(p, top + i);
        bool is_compute = cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMPUTE;
        cs_grid_row(&grid, area, 1, 2 + i, is_compute ? CS_STYLE_TEXT : CS_STYLE_DIM, NULL,
                    screen->glyphs, &c.cell[i * c.n_columns]);
    }
    int width = area.w - 1;
    if (c.n < p->n_links) {
        char note[64];
        snprintf(note, sizeof note, "  %d-%d of %d (j/k)", top + 1, top + c.n, p->n_links);
        cs_draw_right(area, width, 0, CS_STYLE_DIM, note);
        width -= (int)strlen(note);
    }
    draw_path_summary(p, area, width);
}
