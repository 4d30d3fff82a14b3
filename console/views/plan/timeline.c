/* The predicted timeline of the Plan view: a row per stage or per group of stages, what lies on the
 * critical path marked, and below them on which rank that path is at every time. */
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/views/plan/plan.h"
#include "console/whatif/groups.h"

enum { BUBBLE_W = 10, EXPOSED_W = 12, WIDE = 110, AXIS = 1, PATH = 1, LEGEND = 1 };

static const char path_marks[] = "0123456789abcdefghijklmnopqrstuvwxyz";

struct chart {
    const struct cs_preview *preview;
    const struct cs_screen *screen;
    struct cs_area area;
    struct cs_window window;
    int label_w, width;
    bool is_by_rank; /* a row per rank: stages share them */
    bool has_exposed;
    bool has_path, has_legend;
};

static bool is_by_rank(const struct cs_preview *p, const struct cs_screen *screen)
{
    return p->forecast.n_stages > p->forecast.n_ranks && screen->plan_rows != CS_PLAN_ROWS_EACH;
}

static int n_rows(const struct cs_preview *p, const struct cs_screen *screen)
{
    return is_by_rank(p, screen) ? p->forecast.n_ranks : p->forecast.n_stages;
}

int cs_plan_timeline_want(const struct cs_store *store, const struct cs_screen *screen, int width)
{
    (void)width;
    return AXIS + n_rows(&cs_plan_previews(store, screen)->preview, screen) + PATH + LEGEND;
}

static void draw_cells(const struct chart *c, const struct cs_gantt_cell *cells, int y)
{
    const char *idle = cs_glyph(c->screen->glyphs, CS_GLYPH_IDLE);
    for (int i = 0; i < c->width; i++) {
        char mark[2] = {cells[i].mark, '\0'};
        cs_draw(c->area, c->label_w + i, y, cells[i].style, cells[i].mark ? mark : idle);
    }
}

static void draw_figures(const struct chart *c, double bubble, int64_t exposed_ns, int y)
{
    char text[CS_FMT_CAP];
    int x = c->area.w - 1;
    if (c->has_exposed) {
        cs_fmt_ms(text, sizeof text, (double)exposed_ns);
        cs_draw_right(c->area, x, y, CS_STYLE_TEXT, text);
        x -= EXPOSED_W;
    }
    cs_fmt_percent(text, sizeof text, bubble);
    cs_draw_right(c->area, x, y, CS_STYLE_TEXT, text);
}

/* at: a stage, or a rank */
static void draw_one(const struct chart *c, int32_t at, int y)
{
    struct cs_gantt_cell cells[CS_CANVAS_MAX], critical[CS_CANVAS_MAX];
    const struct cs_forecast *f = &c->preview->forecast;
    int32_t rank = c->is_by_rank ? at : f->stage[at].rank;
    int32_t stage = c->is_by_rank ? CS_GANTT_ALL : at;
    struct cs_span_step all = cs_preview_spans(c->preview, rank, false);
    struct cs_span_step path = cs_preview_spans(c->preview, rank, true);
    char text[64], ranks[24], name[40];
    cs_groups_ranks(c->preview->made.plan, rank, ranks, sizeof ranks);
    cs_plan_rank_name(f, rank, name, sizeof name);
    snprintf(text, sizeof text, "%s %s", ranks, c->is_by_rank ? name : f->stage[at].name);
    cs_draw_cut(c->area, 1, y, c->label_w - 2, CS_STYLE_TEXT, c->screen->glyphs, text);
    cs_gantt_row(&all, stage, rank, c->window, c->width, cells);
    cs_gantt_row(&path, stage, rank, c->window, c->width, critical);
    for (int i = 0; i < c->width; i++)
        if (critical[i].mark && critical[i].mark == cells[i].mark)
            cells[i].style = CS_STYLE_CRITICAL;
    draw_cells(c, cells, y);
    draw_figures(c, c->is_by_rank ? c->preview->rank_bubble[at] : f->stage[at].bubble,
                 c->is_by_rank ? f->rank[at].exposed_ns : f->stage[at].exposed_ns, y);
}

/* --- groups: how many of the rows are busy ---------------------------------------------------- */

struct load {
    double forward, backward; /* busy share, summed over stages */
};

static void add_row(const struct chart *c, int32_t rank, int32_t stage, struct load *load)
{
    struct cs_span_step step = cs_preview_spans(c->preview, rank, false);
    double column_ns = (double)(c->window.to_ns - c->window.from_ns) / c->width;
    for (int32_t i = 0; i < step.n_spans; i++) {
        const struct cs_span *span = &step.span[i];
        double from = (double)(span->start_ns - c->window.from_ns) / column_ns;
        double to = (double)(span->end_ns - c->window.from_ns) / column_ns;
        bool is_in = (stage == CS_GANTT_ALL || span->key.stage == stage) && to > 0;
        for (int x = from > 0 ? (int)from : 0; is_in && x < c->width && x < to; x++) {
            double part = (to < x + 1 ? to : x + 1) - (from > x ? from : x);
            *(span->key.letter == 'F' ? &load[x].forward : &load[x].backward) += part;
        }
    }
}

static void draw_group(const struct chart *c, int32_t first, int32_t end, int y)
{
    struct load load[CS_CANVAS_MAX];
    const struct cs_forecast *f = &c->preview->forecast;
    double bubble = 0;
    int64_t exposed_ns = 0;
    char text[64];
    memset(load, 0, (size_t)c->width * sizeof *load);
    for (int32_t i = first; i < end; i++) {
        add_row(c, c->is_by_rank ? i : f->stage[i].rank, c->is_by_rank ? CS_GANTT_ALL : i, load);
        bubble += (c->is_by_rank ? c->preview->rank_bubble[i] : f->stage[i].bubble) / (end - first);
        exposed_ns += c->is_by_rank ? f->rank[i].exposed_ns : f->stage[i].exposed_ns;
    }
    const struct cs_plan *plan = c->preview->made.plan;
    const int32_t from = cs_plan_rank_of(plan, 0, c->is_by_rank ? first : f->stage[first].rank);
    const int32_t last = c->is_by_rank ? end - 1 : f->stage[end - 1].rank;
    const int32_t to = cs_plan_rank_of(plan, 0, last) + cs_plan_width(plan, last) - 1;
    if (c->is_by_rank)
        snprintf(text, sizeof text, "%d-%d", from, to);
    else
        snprintf(text, sizeof text, "%d %s-%d", from, f->stage[first].name, to);
    cs_draw_cut(c->area, 1, y, c->label_w - 2, CS_STYLE_TEXT, c->screen->glyphs, text);
    for (int i = 0; i < c->width; i++) {
        double share = (load[i].forward + load[i].backward) / (end - first);
        int level = (int)(share * CS_SPARK_LEVELS + 0.5) - 1;
        level = level < CS_SPARK_LEVELS ? level : CS_SPARK_LEVELS - 1;
        cs_draw(c->area, c->label_w + i, y,
                level < 0                            ? CS_STYLE_IDLE
                : load[i].forward > load[i].backward ? CS_STYLE_FORWARD
                                                     : CS_STYLE_BACKWARD,
                level < 0 ? cs_glyph(c->screen->glyphs, CS_GLYPH_IDLE)
                          : cs_glyph_spark(c->screen->glyphs, level));
    }
    draw_figures(c, bubble, exposed_ns / (end - first), y);
}

/* --- where the critical path is --------------------------------------------------------------- */

static void draw_path(const struct chart *c, int y)
{
    const struct cs_preview *p = c->preview;
    double column_ns = (double)(c->window.to_ns - c->window.from_ns) / c->width;
    cs_draw_cut(c->area, 1, y, c->label_w - 2, CS_STYLE_TITLE, c->screen->glyphs,
                c->label_w >= 16 ? "critical path" : "path");
    for (int x = 0, i = 0; x < c->width; x++) {
        double at = (double)c->window.from_ns + (x + 0.5) * column_ns;
        while (i + 1 < p->n_links && (double)cs_preview_action(p, i)->end_ns <= at)
            i++;
        if (i >= p->n_links)
            return;
        const struct cs_forecast_action *a = cs_preview_action(p, i);
        bool is_here = (double)a->start_ns <= at && at < (double)a->end_ns;
        bool is_message = cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMM;
        const int32_t rank = cs_preview_rank(p, p->link[i].rank);
        char mark[2] = {is_message ? '>' : path_marks[rank % 36], '\0'};
        if (is_here)
            cs_draw(c->area, c->label_w + x, y, is_message ? CS_STYLE_DIM : CS_STYLE_TITLE, mark);
    }
}

static void draw_legend(const struct chart *c, bool is_grouped, int y)
{
    struct cs_fields fields = {0};
    const char *idle = cs_glyph(c->screen->glyphs, CS_GLYPH_IDLE);
    if (is_grouped) {
        cs_fields_add(&fields, CS_STYLE_TEXT, 0, "height: share of them that computes");
    } else {
        cs_fields_add(&fields, CS_STYLE_FORWARD, 0, "1-9 forward");
        cs_fields_add(&fields, CS_STYLE_BACKWARD, 0, "a-z backward");
        cs_fields_add(&fields, CS_STYLE_BACKWARD, 3, "A-Z weight part");
        cs_fields_add(&fields, CS_STYLE_OPTIMIZER, 2, "= optimizer");
        cs_fields_add(&fields, CS_STYLE_IDLE, 1, "%s idle", idle);
    }
    cs_fields_add(&fields, CS_STYLE_DIM, 4, "path: rank, > message");
    cs_fields_draw(&fields, c->area, 1, y);
}

static void draw_axis(const struct chart *c, int y)
{
    char axis[CS_CANVAS_MAX + 1], text[32] = "rank stage";
    const char *unit = cs_gantt_axis(c->window, c->width, axis);
    if (c->screen->zoom > 1)
        snprintf(text, sizeof text, "zoom %dx", c->screen->zoom);
    cs_draw_cut(c->area, 1, y, c->label_w - 2, CS_STYLE_TITLE, c->screen->glyphs, text);
    cs_draw(c->area, c->label_w, y, CS_STYLE_DIM, axis);
    cs_draw(c->area, c->label_w + c->width, y, CS_STYLE_DIM, unit);
    cs_draw_right(c->area, c->area.w - 1, y, CS_STYLE_DIM,
                  c->has_exposed ? "bubble  exposed ms" : "bubble");
}

void cs_plan_timeline_draw(const struct cs_store *store, const struct cs_screen *screen,
                           struct cs_area area, bool is_chosen)
{
    const struct cs_preview *p = &cs_plan_previews(store, screen)->preview;
    struct chart c = {.preview = p, .screen = screen, .area = area};
    c.is_by_rank = is_by_rank(p, screen);
    c.has_exposed = area.w >= WIDE;
    int n = n_rows(p, screen), left = area.h - AXIS;
    c.label_w = area.w >= 90 ? 16 : 12;
    c.width = area.w - c.label_w - BUBBLE_W - (c.has_exposed ? EXPOSED_W : 0);
    if (c.width < 1 || left < 1)
        return;
    c.width = c.width < CS_CANVAS_MAX ? c.width : CS_CANVAS_MAX;
    c.window = cs_gantt_window(p->forecast.makespan_ns, screen->zoom, screen->scroll);
    c.has_path = left >= 3;
    c.has_legend = left >= 4;
    left -= (c.has_path ? PATH : 0) + (c.has_legend ? LEGEND : 0);
    struct cs_plan_rows_shown rows =
        cs_plan_rows_share(screen, n, left, is_chosen ? screen->at.plan_top : 0);
    draw_axis(&c, 0);
    for (int i = 0; i < rows.n; i++) {
        int32_t first = (rows.first + i) * rows.per;
        int32_t end = first + rows.per < n ? first + rows.per : n;
        if (rows.per > 1)
            draw_group(&c, first, end, AXIS + i);
        else
            draw_one(&c, first, AXIS + i);
    }
    int y = AXIS + rows.n;
    if (c.has_path)
        draw_path(&c, y++);
    if (c.has_legend) {
        draw_legend(&c, rows.per > 1, y);
        cs_plan_rows_note(&rows, n, c.is_by_rank ? "rank" : "stage", area, y);
    }
}
