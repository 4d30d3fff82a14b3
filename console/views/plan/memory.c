/* Memory of every rank: a table, a bar for each, and its curve over the step. */
#include <math.h>
#include <stdio.h>

#include "console/draw/fmt.h"
#include "console/views/plan/cells.h"
#include "console/views/plan/plan.h"
#include "console/whatif/groups.h"

enum { BAR_LEAST = 14, BAR_MOST = 60 };

static const struct cs_column memory_columns[] = {
    {"rank",    4, 9,  0, CS_ALIGN_LEFT },
    {"stages",  8, 18, 1, CS_ALIGN_LEFT },
    {"weights", 7, 8,  3, CS_ALIGN_RIGHT},
    {"grads",   6, 8,  4, CS_ALIGN_RIGHT},
    {"optim",   6, 8,  5, CS_ALIGN_RIGHT},
    {"activ",   6, 8,  2, CS_ALIGN_RIGHT},
    {"work",    6, 8,  6, CS_ALIGN_RIGHT},
    {"bound",   6, 8,  7, CS_ALIGN_RIGHT},
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
    [CS_PREVIEW_WORKSPACE] = {'S', CS_STYLE_WARN     },
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
                        char cell[CS_CELLS_COLUMNS][CS_CELL])
{
    int32_t rank = fullest(p, first, end);
    const struct cs_plan *plan = p->made.plan;
    if (end - first > 1)
        snprintf(cell[0], CS_CELL, "%d-%d", cs_preview_rank(p, first),
                 cs_preview_rank(p, end - 1) + cs_plan_width(plan, end - 1) - 1);
    else
        cs_groups_ranks(plan, first, cell[0], CS_CELL);
    cs_plan_rank_name(&p->forecast, rank, cell[1], CS_CELL);
    for (int h = 0; h < CS_PREVIEW_HELD; h++)
        cs_fmt_gib(cell[2 + h], CS_CELL, p->memory[rank].bytes[h]);
    cs_fmt_gib(cell[2 + CS_PREVIEW_HELD], CS_CELL, p->memory[rank].total);
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
    struct cs_cells c = {.n_columns = (int)CS_ARRAY_LEN(memory_columns)};
    struct cs_grid grid = {.column = memory_columns, .n_columns = c.n_columns};
    int n = p->forecast.n_ranks, room = area.h - 2 < CS_CELLS_SHOWN ? area.h - 2 : CS_CELLS_SHOWN;
    struct cs_plan_rows_shown rows =
        cs_plan_rows_share(screen, n, room, is_chosen ? screen->at.plan_top : 0);
    int64_t cap = store->model.device->mem_bytes;
    double whole = (double)(cap > 0 ? cap : p->memory[p->peak_rank].total);
    c.n = rows.n;
    for (int i = 0; i < rows.n; i++) {
        int32_t first = (rows.first + i) * rows.per;
        fill_memory(p, first, first + rows.per < n ? first + rows.per : n, c.text[i]);
    }
    cs_cells_point(&c);
    cs_grid_layout(&grid, c.cell, c.n, area.w - 3 - BAR_LEAST);
    cs_grid_title(&grid, area, 1, 0);
    int x = 1 + cs_cells_width(&grid, grid.n_columns), width = area.w - x - 2, curve = 0;
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
