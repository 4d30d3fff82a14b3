/* Model: the graph from the encoders down to the loss, what is frozen, who must pass gradients on,
 * what a slot costs and where it runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/model_rows.h"

static int count(const struct cs_store *store, const struct cs_screen *screen)
{
    return cs_rows_count(&cs_model_rows, store, screen);
}

static int cursor_of(const struct cs_store *store, const struct cs_screen *screen)
{
    const int n = count(store, screen);
    return cs_screen_clamp(screen->at.model_top, 0, n > 0 ? n - 1 : 0);
}

static void each(const struct cs_store *store, const struct cs_screen *screen,
                 bool (*take)(void *user, int row, const char *text), void *user)
{
    cs_rows_each(&cs_model_rows, store, screen, take, user);
}

static const struct cs_view_list list = {count, cursor_of, each, NULL};

static unsigned next_sort(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    return cs_rows_next_sort(&cs_model_rows, screen);
}

/* clang-format off */
static const struct cs_key_row keys[] = {
    {"o", "o", "sort", 3, NULL, "order: their place in the model, parameters, time", next_sort, 0},
    {.keys = NULL},
};

/* clang-format on */

/* --- lines: boxes when there is room, else bare rows ------------------------------------------ */

enum line_kind { LINE_ROW, LINE_TOP, LINE_BOTTOM, LINE_INTO };

struct line {
    enum line_kind kind;
    const struct cs_model_group *group;
    bool has_above, has_below; /* a connection through the border */
};

static void add_line(struct line *lines, int *n, struct line line)
{
    if (*n < CS_MODEL_ROWS * 3)
        lines[(*n)++] = line;
}

static int make_lines(const struct cs_graph *graph, const struct cs_model_group *groups,
                      int n_groups, bool has_boxes, struct line *lines)
{
    int n = 0;
    for (int i = 0; i < n_groups; i++) {
        const struct cs_model_group *g = &groups[i];
        const struct cs_module *module = &graph->modules[g->module];
        bool is_first = i == 0 || groups[i - 1].is_last;
        bool leaves_branch =
            g->is_last && module->kind != CS_MODULE_LLM &&
            (i + 1 == n_groups || graph->modules[groups[i + 1].module].branch != module->branch);
        if (has_boxes && is_first)
            add_line(lines, &n,
                     (struct line){LINE_TOP, g, module->kind != CS_MODULE_ENCODER, false});
        add_line(lines, &n, (struct line){LINE_ROW, g, false, false});
        if (has_boxes && g->is_last)
            add_line(lines, &n, (struct line){LINE_BOTTOM, g, false, true});
        if (has_boxes && leaves_branch)
            add_line(lines, &n, (struct line){LINE_INTO, g, false, false});
    }
    return n;
}

/* the left part of a line: a box around the names of layers */
struct frame {
    struct cs_area area;
    enum cs_glyph_set glyphs;
    int width; /* outer */
    bool has_boxes;
};

static void draw_border(const struct frame *f, int y, bool is_top, bool is_joined)
{
    enum cs_glyph left = is_top ? CS_GLYPH_TOP_LEFT : CS_GLYPH_BOTTOM_LEFT;
    enum cs_glyph right = is_top ? CS_GLYPH_TOP_RIGHT : CS_GLYPH_BOTTOM_RIGHT;
    enum cs_glyph middle = is_top ? CS_GLYPH_TEE_UP : CS_GLYPH_TEE_DOWN;
    cs_fill(f->area, 2, y, f->width - 2, CS_STYLE_DIM, cs_glyph(f->glyphs, CS_GLYPH_HLINE));
    cs_draw(f->area, 1, y, CS_STYLE_DIM, cs_glyph(f->glyphs, left));
    cs_draw(f->area, f->width, y, CS_STYLE_DIM, cs_glyph(f->glyphs, right));
    if (is_joined)
        cs_draw(f->area, 1 + f->width / 2, y, CS_STYLE_DIM, cs_glyph(f->glyphs, middle));
}

static void draw_row(const struct frame *f, const struct cs_grid *grid,
                     const struct cs_model_group *g, enum cs_style label, int y)
{
    const char *cells[CS_MODEL_COLUMNS];

    enum cs_style styles[CS_MODEL_COLUMNS] = {CS_STYLE_TEXT};

    for (int k = 0; k < CS_MODEL_COLUMNS; k++)
        cells[k] = g->cell[k];
    styles[0] = g->badge;
    styles[1] = CS_STYLE_DIM;
    if (f->has_boxes) {
        cs_draw(f->area, 1, y, CS_STYLE_DIM, cs_glyph(f->glyphs, CS_GLYPH_VLINE));
        cs_draw(f->area, f->width, y, CS_STYLE_DIM, cs_glyph(f->glyphs, CS_GLYPH_VLINE));
    }
    cs_draw_cut(f->area, f->has_boxes ? 3 : 1, y, f->has_boxes ? f->width - 4 : f->width, label,
                f->glyphs, g->label);
    cs_grid_row(grid, f->area, f->width + 2, y, CS_STYLE_TEXT, styles, f->glyphs, cells);
}

static void draw_line(const struct frame *f, const struct cs_grid *grid, const struct line *line,
                      enum cs_style label, int y)
{
    int middle = 1 + f->width / 2;
    switch (line->kind) {
    case LINE_ROW:
        draw_row(f, grid, line->group, label, y);
        break;
    case LINE_TOP:
        draw_border(f, y, true, line->has_above);
        break;
    case LINE_BOTTOM:
        draw_border(f, y, false, line->has_below);
        break;
    case LINE_INTO:
        cs_draw(f->area, middle, y, CS_STYLE_DIM, cs_glyph(f->glyphs, CS_GLYPH_DOWN));
        cs_draw(f->area, middle + 2, y, CS_STYLE_DIM, "rows of the llm, with the text tokens");
        break;
    }
}

/* as wide as the longest name, but at most a third of the area, or 28 columns */
static int frame_width(const struct cs_model_group *groups, int n, int area_w)
{
    int width = 0;
    for (int i = 0; i < n; i++) {
        int w = (int)strlen(groups[i].label) + 4;
        width = w > width ? w : width;
    }
    int most = area_w / 3 > 28 ? area_w / 3 : 28;
    return width < most ? width : most;
}

/* --- below the graph -------------------------------------------------------------------------- */

static void draw_totals(const struct cs_store *store, struct cs_area area, int y)
{
    const struct cs_graph *graph = store->model.graph;
    char n[CS_FMT_CAP], trained[CS_FMT_CAP], share[CS_FMT_CAP];
    struct cs_fields fields = {0};
    cs_fmt_count(n, sizeof n, graph->n_elements);
    cs_fmt_count(trained, sizeof trained, graph->n_trained);
    cs_fmt_percent(share, sizeof share,
                   (double)graph->n_trained /
                       (double)(graph->n_elements > 0 ? graph->n_elements : 1));
    cs_fields_add(&fields, CS_STYLE_TITLE, 0, "total %s parameters", n);
    cs_fields_add(&fields, CS_STYLE_TEXT, 0, "trained %s (%s)", trained, share);
    if (store->model.plan)
        cs_fields_add(&fields, CS_STYLE_DIM, 1, "times: predicted, one full slot");
    cs_fields_draw(&fields, area, 1, y);
    struct cs_fields legend = {0};
    cs_fields_add(&legend, CS_STYLE_FROZEN, 0, "frozen: no backward");
    cs_fields_add(&legend, CS_STYLE_PASSES, 0, "frozen^: passes the gradient on");
    cs_fields_add(&legend, CS_STYLE_TRAINS, 0, "TRAIN: weight gradients");
    cs_fields_draw(&legend, area, 1, y + 1);
}

/* Rows that are chosen, or in another order, have no boxes. */
static void draw_chosen(const struct cs_store *store, const struct cs_screen *screen,
                        const struct frame *frame, const struct cs_grid *grid,
                        const struct cs_model_group *groups, int room)
{
    int order[CS_ROWS_MAX];
    struct cs_fields fields = {0};
    const int n = cs_rows_order(&cs_model_rows, store, screen, order);
    const int top = cs_screen_clamp(screen->at.model_top, 0, n > room ? n - room : 0);
    cs_rows_head(&cs_model_rows, store, screen, &fields);
    cs_fields_draw(&fields, cs_area_part(frame->area, 0, 0, frame->width + 2, 1), 1, 0);
    for (int i = 0; i < room && top + i < n; i++) {
        const struct line line = {LINE_ROW, &groups[order[top + i]], false, false};
        draw_line(
            frame, grid, &line,
            cs_rows_style(&cs_model_rows, store, screen, groups, order[top + i], CS_STYLE_TEXT),
            1 + i);
    }
    draw_totals(store, frame->area, 1 + (n - top < room ? n - top : room) + 1);
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    static const int below = 3; /* a gap, totals, legend */
    struct cs_model_group groups[CS_MODEL_ROWS];
    struct line lines[CS_MODEL_ROWS * 3];
    const char *text[CS_MODEL_ROWS * CS_MODEL_COLUMNS] = {NULL};
    struct cs_grid grid = {.column = cs_model_columns, .n_columns = CS_MODEL_COLUMNS};
    if (!store->model.graph) {
        cs_draw(area, 1, 0, store->model_error[0] ? CS_STYLE_BAD : CS_STYLE_DIM,
                store->model_error[0] ? store->model_error
                : store->job          ? "the job's specification is not known"
                                      : "no job is open: press 1, choose one, Enter");
        return;
    }
    int n_groups = cs_model_groups(store, groups, CS_MODEL_ROWS), room = area.h - 1 - below;
    for (int i = 0; i < n_groups; i++)
        for (int k = 0; k < CS_MODEL_COLUMNS; k++)
            text[i * CS_MODEL_COLUMNS + k] = groups[i].cell[k];
    struct frame frame = {area, screen->glyphs, frame_width(groups, n_groups, area.w), true};
    cs_grid_layout(&grid, text, n_groups, area.w - frame.width - 3);
    cs_grid_title(&grid, area, frame.width + 2, 0);
    if (cs_rows_are_chosen(&cs_model_rows, screen)) {
        frame.has_boxes = false;
        draw_chosen(store, screen, &frame, &grid, groups, room > 0 ? room : 0);
        return;
    }
    int n = make_lines(store->model.graph, groups, n_groups, true, lines);
    frame.has_boxes = n <= room;
    if (!frame.has_boxes)
        n = make_lines(store->model.graph, groups, n_groups, false, lines);
    int top = n > room ? screen->at.model_top : 0;
    top = top > n - room ? n - room : top;
    top = top > 0 ? top : 0;
    for (int i = 0; i < room && top + i < n; i++)
        draw_line(&frame, &grid, &lines[top + i],
                  cs_rows_style(&cs_model_rows, store, screen, groups,
                                (int)(lines[top + i].group - groups), CS_STYLE_TEXT),
                  1 + i);
    int shown = n - top < room ? n - top : room;
    draw_totals(store, area, 1 + (shown > 0 ? shown : 0) + 1);
    if (n > room && room > 0)
        cs_drawf(area, frame.width + 2, 1 + room, CS_STYLE_DIM, "rows %d-%d of %d (j/k)", top + 1,
                 top + shown, n);
}

static void move(struct cs_screen *screen, const struct cs_store *store, int steps)
{
    const int n = count(store, screen);
    screen->at.model_top = cs_screen_clamp(cursor_of(store, screen) + steps, 0, n > 0 ? n - 1 : 0);
}

const struct cs_view_ops cs_view_model = {
    .title = "Model",
    .short_title = "Model",
    .key = "2",
    .help = "The modules and layers of the job's model, what trains, what passes a gradient on, "
            "and where each layer runs.\n"
            "A badge says TRAIN (weight gradients), frozen^ (frozen, but the gradient passes "
            "through to something trained before it)\n"
            "or frozen (no backward at all).",
    .beside = {CS_VIEW_PIPELINE, CS_VIEW_LOGS},
    .keys = keys,
    .draw = draw,
    .move = move,
    .list = &list,
};
