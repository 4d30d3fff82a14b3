/* The critical path: which actions the step's time is made of, and why none of them starts before. */
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/views/plan/cells.h"
#include "console/views/plan/plan.h"
#include "console/whatif/groups.h"

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

static void fill_link(const struct cs_preview *p, int32_t i, char cell[CS_CELLS_COLUMNS][CS_CELL])
{
    const struct cs_forecast_action *a = cs_preview_action(p, i);
    snprintf(cell[0], CS_CELL, "%d", i + 1);
    cs_fmt_ms(cell[1], CS_CELL, (double)a->start_ns);
    cs_fmt_ms(cell[2], CS_CELL, (double)(a->end_ns - a->start_ns));
    if (p->link[i].idle_ns > 0)
        cs_fmt_ms(cell[3], CS_CELL, (double)p->link[i].idle_ns);
    else
        snprintf(cell[3], CS_CELL, "-");
    cs_groups_ranks(p->made.plan, p->link[i].rank, cell[4], CS_CELL);
    cs_preview_what(p, i, cell[5], CS_CELL);
    cs_preview_why_text(p, i, cell[6], CS_CELL);
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
    struct cs_cells c = {.n_columns = (int)CS_ARRAY_LEN(path_columns)};
    struct cs_grid grid = {.column = path_columns, .n_columns = c.n_columns};
    int room = area.h - 2 < CS_CELLS_SHOWN ? area.h - 2 : CS_CELLS_SHOWN;
    int last = p->n_links - room, top = is_chosen ? screen->at.plan_top : 0;
    top = top < last ? top : last;
    top = top > 0 ? top : 0;
    c.n = p->n_links - top < room ? p->n_links - top : room;
    c.n = c.n > 0 ? c.n : 0;
    for (int i = 0; i < c.n; i++)
        fill_link(p, top + i, c.text[i]);
    cs_cells_point(&c);
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
