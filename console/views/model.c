/* Model: the graph from the encoders down to the loss, what is frozen, who must pass gradients on,
 * what a slot costs and where it runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/row_list.h"
#include "console/whatif/groups.h"
#include "core/base/str.h"
#include "core/plan/cost/profile.h"

enum { N_COLUMNS = 8, CELL = 48, MAX_ROWS = 512 };

static const struct cs_column columns[N_COLUMNS] = {
    {"",        9,  9,  0, CS_ALIGN_LEFT }, /* badge */
    {"",        12, 26, 6, CS_ALIGN_LEFT }, /* what it is */
    {"params",  6,  8,  1, CS_ALIGN_RIGHT},
    {"trained", 7,  8,  2, CS_ALIGN_RIGHT},
    {"fwd ms",  6,  8,  4, CS_ALIGN_RIGHT},
    {"bwd ms",  6,  8,  5, CS_ALIGN_RIGHT},
    {"where",   6,  12, 3, CS_ALIGN_LEFT },
    {"stage",   5,  12, 7, CS_ALIGN_LEFT },
};

/* Layers of one module that look the same: same badge, same stage, blocks in a row. */
struct group {
    int32_t module, first, n, stage; /* graph->layers; stage -1: not planned */
    char label[CELL];
    char cell[N_COLUMNS][CELL];
    enum cs_style badge;
    bool is_last; /* of its module */
};

static int32_t stage_of(const struct cs_store *store, int32_t layer)
{
    const struct cs_plan *plan = store->model.plan;
    for (int32_t s = 0; plan && s < plan->n_stages; s++)
        if (layer >= plan->stages[s].first_layer &&
            layer < plan->stages[s].first_layer + plan->stages[s].n_layers)
            return s;
    return -1;
}

static bool is_alike(const struct cs_store *store, const struct cs_layer *a,
                     const struct cs_layer *b)
{
    return a->module == b->module && a->kind == CS_LAYER_BLOCK && b->kind == CS_LAYER_BLOCK &&
           (a->n_trained > 0) == (b->n_trained > 0) && a->needs_input_grad == b->needs_input_grad &&
           stage_of(store, a->id) == stage_of(store, b->id);
}

static void set_label(const struct cs_graph *graph, struct group *g)
{
    const struct cs_layer *first = &graph->layers[g->first], *last = first + g->n - 1;
    if (g->n == 1)
        cs_str_copy(g->label, CELL, first->path);
    else
        snprintf(g->label, CELL, "%s-%d", first->path, last->index);
}

static void set_what(const struct cs_graph *graph, struct group *g)
{
    const struct cs_layer *layer = &graph->layers[g->first];
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    char *out = g->cell[1];
    switch (layer->kind) {
    case CS_LAYER_EMBED:
        if (arch->kind == CS_MODULE_LLM)
            snprintf(out, CELL, "%s, %d x %d", arch->family, arch->vocab, arch->width);
        else
            snprintf(out, CELL, "%s, %d patches", arch->family, cs_arch_inner_rows(arch));
        break;
    case CS_LAYER_BLOCK:
        snprintf(out, CELL, "%d x %d wide, %d heads", g->n, arch->width, arch->attention->n_heads);
        break;
    case CS_LAYER_TAP:
        snprintf(out, CELL, "%d x tap -> %d", g->n, arch->tap.linear[1]);
        break;
    case CS_LAYER_NORM:
        snprintf(out, CELL, "final norm");
        break;
    case CS_LAYER_PROJECTOR:
        snprintf(out, CELL, "%s, %d -> %d", arch->family, arch->in_width, arch->width);
        break;
    case CS_LAYER_HEAD:
        snprintf(out, CELL, graph->is_tied ? "tied to embed" : "%d words", arch->vocab);
        break;
    case CS_LAYER_KINDS:
        break;
    }
}

static void set_badge(const struct cs_layer *layer, int64_t trained, struct group *g)
{
    const char *badge = trained > 0               ? "[TRAIN  ]"
                        : layer->needs_input_grad ? "[frozen^]"
                                                  : "[frozen ]";
    g->badge = trained > 0               ? CS_STYLE_TRAINS
               : layer->needs_input_grad ? CS_STYLE_PASSES
                                         : CS_STYLE_FROZEN;
    cs_str_copy(g->cell[0], CELL, badge);
}

static void set_figures(const struct cs_store *store, struct group *g)
{
    const struct cs_graph *graph = store->model.graph;
    const struct cs_layer_cost *cost = store->model.layer_cost;
    int64_t n = 0, trained = 0, fwd_ns = 0, bwd_ns = 0;
    for (int32_t i = 0; i < g->n; i++) {
        const struct cs_layer *layer = &graph->layers[g->first + i];
        n += layer->n_elements;
        trained += layer->n_trained;
        if (!cost)
            continue;
        fwd_ns += cost[layer->id].fwd_ns;
        bwd_ns += layer->needs_input_grad ? cost[layer->id].bwd_input_ns : 0;
        bwd_ns += layer->needs_weight_grad ? cost[layer->id].bwd_weight_ns : 0;
    }
    set_badge(&graph->layers[g->first], trained, g);
    cs_fmt_count(g->cell[2], CELL, n);
    cs_fmt_count(g->cell[3], CELL, trained);
    cs_fmt_ms(g->cell[4], CELL, cost ? (double)fwd_ns : (double)NAN);
    cs_fmt_ms(g->cell[5], CELL, cost && bwd_ns > 0 ? (double)bwd_ns : (double)NAN);
    if (g->stage >= 0) {
        const struct cs_plan *plan = store->model.plan;
        char ranks[24];
        cs_groups_ranks(plan, plan->stages[g->stage].rank, ranks, sizeof ranks);
        snprintf(g->cell[6], CELL, "%s %s", strchr(ranks, '-') ? "ranks" : "rank", ranks);
        cs_str_copy(g->cell[7], CELL, store->model.plan->stages[g->stage].name);
    } else {
        snprintf(g->cell[6], CELL, "-");
        snprintf(g->cell[7], CELL, "-");
    }
}

static int make_groups(const struct cs_store *store, struct group *groups, int cap)
{
    const struct cs_graph *graph = store->model.graph;
    int n = 0;
    for (int32_t l = 0; l < graph->n_layers && n < cap;) {
        struct group *g = &groups[n++];
        *g = (struct group){.module = graph->layers[l].module, .first = l, .n = 1};
        g->stage = stage_of(store, l);
        while (l + g->n < graph->n_layers &&
               is_alike(store, &graph->layers[l], &graph->layers[l + g->n]))
            g->n++;
        l += g->n;
        g->is_last = l == graph->n_layers || graph->layers[l].module != g->module;
        set_label(graph, g);
        set_what(graph, g);
        set_figures(store, g);
    }
    return n;
}

/* --- as a list -------------------------------------------------------------------------------- */

static int count_groups(const struct cs_store *store)
{
    struct group groups[MAX_ROWS];
    return store->model.graph ? make_groups(store, groups, MAX_ROWS) : 0;
}

static void *all_groups(const struct cs_store *store)
{
    struct group *groups = calloc(MAX_ROWS, sizeof *groups);
    CS_ASSERT(groups);
    if (store->model.graph)
        make_groups(store, groups, MAX_ROWS);
    return groups;
}

static void group_text(const struct cs_store *store, const void *made, int i, struct cs_buf *out)
{
    const struct group *groups = made;
    (void)store;
    cs_buf_adds(out, groups[i].label);
    for (int k = 0; k < N_COLUMNS; k++)
        cs_buf_addf(out, "  %s%s%s", columns[k].title, columns[k].title[0] ? " " : "",
                    groups[i].cell[k]);
}

/* by parameters, or by the time of a slot */
static double group_key(const struct cs_store *store, const void *made, int i, int sort)
{
    const struct group *groups = made;
    double sum = 0;
    for (int32_t l = groups[i].first; l < groups[i].first + groups[i].n; l++) {
        const struct cs_layer *layer = &store->model.graph->layers[l];
        const struct cs_layer_cost *cost = store->model.layer_cost;
        if (sort == 1)
            sum += (double)layer->n_elements;
        else if (cost)
            sum += (double)(cost[l].fwd_ns + (layer->needs_input_grad ? cost[l].bwd_input_ns : 0) +
                            (layer->needs_weight_grad ? cost[l].bwd_weight_ns : 0));
    }
    return sum;
}

static const struct cs_rows rows = {
    CS_VIEW_MODEL, count_groups, all_groups,
    group_text,    group_key,    {"place", "parameters", "time", NULL}
};

static int count(const struct cs_store *store, const struct cs_screen *screen)
{
    return cs_rows_count(&rows, store, screen);
}

static int cursor_of(const struct cs_store *store, const struct cs_screen *screen)
{
    const int n = count(store, screen);
    return cs_screen_clamp(screen->at.model_top, 0, n > 0 ? n - 1 : 0);
}

static void each(const struct cs_store *store, const struct cs_screen *screen,
                 bool (*take)(void *user, int row, const char *text), void *user)
{
    cs_rows_each(&rows, store, screen, take, user);
}

static const struct cs_view_list list = {count, cursor_of, each, NULL};

static unsigned next_sort(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    return cs_rows_next_sort(&rows, screen);
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
    const struct group *group;
    bool has_above, has_below; /* a connection through the border */
};

static void add_line(struct line *lines, int *n, struct line line)
{
    if (*n < MAX_ROWS * 3)
        lines[(*n)++] = line;
}

static int make_lines(const struct cs_graph *graph, const struct group *groups, int n_groups,
                      bool has_boxes, struct line *lines)
{
    int n = 0;
    for (int i = 0; i < n_groups; i++) {
        const struct group *g = &groups[i];
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

static void draw_row(const struct frame *f, const struct cs_grid *grid, const struct group *g,
                     enum cs_style label, int y)
{
    const char *cells[N_COLUMNS];

    enum cs_style styles[N_COLUMNS] = {CS_STYLE_TEXT};

    for (int k = 0; k < N_COLUMNS; k++)
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
static int frame_width(const struct group *groups, int n, int area_w)
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
                        const struct group *groups, int room)
{
    int order[CS_ROWS_MAX];
    struct cs_fields fields = {0};
    const int n = cs_rows_order(&rows, store, screen, order);
    const int top = cs_screen_clamp(screen->at.model_top, 0, n > room ? n - room : 0);
    cs_rows_head(&rows, store, screen, &fields);
    cs_fields_draw(&fields, cs_area_part(frame->area, 0, 0, frame->width + 2, 1), 1, 0);
    for (int i = 0; i < room && top + i < n; i++) {
        const struct line line = {LINE_ROW, &groups[order[top + i]], false, false};
        draw_line(frame, grid, &line,
                  cs_rows_style(&rows, store, screen, groups, order[top + i], CS_STYLE_TEXT),
                  1 + i);
    }
    draw_totals(store, frame->area, 1 + (n - top < room ? n - top : room) + 1);
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    static const int below = 3; /* a gap, totals, legend */
    struct group groups[MAX_ROWS];
    struct line lines[MAX_ROWS * 3];
    const char *text[MAX_ROWS * N_COLUMNS] = {NULL};
    struct cs_grid grid = {.column = columns, .n_columns = N_COLUMNS};
    if (!store->model.graph) {
        cs_draw(area, 1, 0, store->model_error[0] ? CS_STYLE_BAD : CS_STYLE_DIM,
                store->model_error[0] ? store->model_error
                : store->job          ? "the job's specification is not known"
                                      : "no job is open: press 1, choose one, Enter");
        return;
    }
    int n_groups = make_groups(store, groups, MAX_ROWS), room = area.h - 1 - below;
    for (int i = 0; i < n_groups; i++)
        for (int k = 0; k < N_COLUMNS; k++)
            text[i * N_COLUMNS + k] = groups[i].cell[k];
    struct frame frame = {area, screen->glyphs, frame_width(groups, n_groups, area.w), true};
    cs_grid_layout(&grid, text, n_groups, area.w - frame.width - 3);
    cs_grid_title(&grid, area, frame.width + 2, 0);
    if (cs_rows_are_chosen(&rows, screen)) {
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
                  cs_rows_style(&rows, store, screen, groups, (int)(lines[top + i].group - groups),
                                CS_STYLE_TEXT),
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
