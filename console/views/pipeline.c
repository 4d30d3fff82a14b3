/* Pipeline: the timeline that the plan predicts above the one that was measured, and what every
 * stage did with its time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/pipeline_table.h"
#include "console/whatif/groups.h"
#include "core/base/units.h"
#include "core/sched/sim/forecast.h"

enum { MAX_SHOWN = CS_PIPELINE_SHOWN, BUBBLE_W = 10, WIDE = 96 };

/* How the rows of the area are shared out. */
struct parts {
    int first, n, all; /* stages shown, of those that the filter lets through */
    bool has_predicted, has_measured, has_legend, has_table, has_gaps;
};

static struct parts share_rows(const struct cs_store *store, const struct cs_screen *screen,
                               int all, int height)
{
    struct parts p = {.all = all,
                      .has_predicted = store->predicted.arena != NULL,
                      .has_measured = store->measured.arena != NULL};
    int n_charts = (p.has_predicted ? 1 : 0) + (p.has_measured ? 1 : 0);
    int left = height - 1 - n_charts; /* summary, an axis per chart */
    int n = all < MAX_SHOWN ? all : MAX_SHOWN;
    p.first = screen->at.stage_top < all - n ? screen->at.stage_top : all - n;
    p.first = p.first > 0 ? p.first : 0;
    p.has_table = left >= (n_charts + 1) * n + 1 || left >= (n_charts + 1) * 4 + 1;
    int per_stage = n_charts + (p.has_table ? 1 : 0), fixed = p.has_table ? 1 : 0;
    int fits = per_stage > 0 ? (left - fixed) / per_stage : 0;
    if (!p.has_table && fits < 1 && p.has_predicted && p.has_measured) {
        p.has_predicted = false; /* what is comes before what was planned */
        fits = height - 2;
    }
    p.n = n < fits ? n : fits > 0 ? fits : 0;
    if (p.n < all) {
        int last = all - p.n;
        p.first = screen->at.stage_top < last ? screen->at.stage_top : last;
    }
    left -= fixed + per_stage * p.n;
    p.has_legend = left >= 1;
    p.has_gaps = left >= 1 + n_charts + (p.has_table ? 1 : 0);
    return p;
}

/* over all ranks */
static double mean_bubble(const struct cs_store *store, const struct cs_timeline *timeline)
{
    const struct cs_plan *plan = store->model.plan;
    if (!timeline->arena || !plan || timeline->spans.n_stages != plan->n_stages)
        return (double)NAN;
    return cs_plan_mean_bubble(plan, timeline->spans.bubble);
}

static void draw_summary(const struct cs_rows *rows, const struct cs_store *store,
                         const struct cs_screen *screen, struct cs_area area)
{
    const struct cs_timeline *predicted = &store->predicted, *measured = &store->measured;
    struct cs_fields fields = {0};
    char ms[CS_FMT_CAP], bubble[CS_FMT_CAP], drift[CS_FMT_CAP], groups[160] = "";
    const struct cs_store_job *job = cs_store_selected(store);
    int64_t its_ns = job ? job->predicted_step_ns : 0;
    if (measured->arena)
        cs_fields_add(&fields, CS_STYLE_TITLE, 0, "step %lld", (long long)measured->step);
    if (predicted->arena) {
        cs_fmt_ms(ms, sizeof ms, (double)predicted->spans.makespan_ns);
        cs_fmt_percent(bubble, sizeof bubble, mean_bubble(store, predicted));
        cs_fields_add(&fields, CS_STYLE_TEXT, 1, "%s %s ms, bubble %s",
                      !store->is_calibrated ? "predicted"
                      : area.w >= WIDE      ? "predicted (calibrated)"
                                            : "calibrated",
                      ms, bubble);
        cs_fmt_ms(ms, sizeof ms, (double)its_ns);
        if (store->is_uncalibrated)
            cs_fields_add(&fields, CS_STYLE_WARN, 2, "(not calibrated: the job says %s ms)", ms);
    }
    if (measured->arena) {
        cs_fmt_ms(ms, sizeof ms, (double)measured->spans.makespan_ns);
        cs_fmt_percent(bubble, sizeof bubble, mean_bubble(store, measured));
        cs_fields_add(&fields, CS_STYLE_TEXT, 0, "measured %s ms, bubble %s", ms, bubble);
    }
    if (measured->arena && predicted->arena && predicted->spans.makespan_ns > 0 &&
        measured->slots == predicted->slots) {
        cs_fmt_drift(drift, sizeof drift,
                     (double)measured->spans.makespan_ns / (double)predicted->spans.makespan_ns -
                         1);
        cs_fields_add(&fields, CS_STYLE_DIM, 4, "(%s)", drift);
    }
    if (measured->arena && predicted->arena && measured->slots != predicted->slots)
        cs_fields_add(&fields, CS_STYLE_DIM, 3, "%d slot%s, planned for %d", measured->slots,
                      CS_PLURAL(measured->slots), predicted->slots);
    if (store->model.plan)
        cs_fields_add(&fields, CS_STYLE_DIM, 5, "%s, %s", store->model.plan->schedule,
                      store->model.spec->stages);
    if (store->model.plan)
        cs_groups_text(store->model.plan, store->model.graph, groups, sizeof groups);
    if (groups[0])
        cs_fields_add(&fields, CS_STYLE_TEXT, 4, "%s", groups);
    if (screen->zoom > 1)
        cs_fields_add(&fields, CS_STYLE_DIM, 3, "zoom %dx", screen->zoom);
    cs_fields_add(&fields, CS_STYLE_DIM, 2, screen->at.is_held ? "[held]" : "[follow]");
    cs_rows_head(rows, store, screen, &fields);
    cs_fields_draw(&fields, area, 1, 0);
}

/* --- charts ----------------------------------------------------------------------------------- */

struct chart {
    const struct cs_store *store;
    const struct cs_screen *screen;
    struct cs_area area;
    const struct cs_rows *rows;
    const int *order; /* stages that the filter lets through */
    struct parts parts;
    int label_w, width; /* of the names, of the time axis */
};

static void draw_cells(const struct chart *c, const struct cs_gantt_cell *cells, int y)
{
    const char *idle = cs_glyph(c->screen->glyphs, CS_GLYPH_IDLE);
    for (int i = 0; i < c->width; i++) {
        char mark[2] = {cells[i].mark, '\0'};
        cs_draw(c->area, c->label_w + i, y, cells[i].style, cells[i].mark ? mark : idle);
    }
}

/* axis and one row per stage; returns the rows used */
static int draw_chart(const struct chart *c, const struct cs_timeline *timeline, const char *title,
                      int64_t whole_ns, int y)
{
    struct cs_gantt_cell cells[CS_CANVAS_MAX];
    char axis[CS_CANVAS_MAX + 1], text[64], ranks[24];
    struct cs_window window = cs_gantt_window(whole_ns, c->screen->zoom, c->screen->scroll);
    const char *unit = cs_gantt_axis(window, c->width, axis);
    cs_draw_cut(c->area, 1, y, c->label_w - 2, CS_STYLE_TITLE, c->screen->glyphs, title);
    cs_draw(c->area, c->label_w, y, CS_STYLE_DIM, axis);
    cs_draw(c->area, c->label_w + c->width, y, CS_STYLE_DIM, unit);
    cs_draw_right(c->area, c->area.w - 1, y, CS_STYLE_DIM, "bubble");
    for (int i = 0; i < c->parts.n; i++) {
        const int32_t s = c->order[c->parts.first + i];
        const struct cs_store_stage *stage = &c->store->stages[s];
        cs_pipeline_ranks(c->store, s, ranks, sizeof ranks);
        snprintf(text, sizeof text, "%s %s", ranks, stage->name);
        cs_draw_cut(c->area, 1, y + 1 + i, c->label_w - 2,
                    cs_rows_style(c->rows, c->store, c->screen, NULL, s, CS_STYLE_TEXT),
                    c->screen->glyphs, text);
        cs_gantt_row(&timeline->spans, s, stage->rank, window, c->width, cells);
        draw_cells(c, cells, y + 1 + i);
        cs_fmt_percent(text, sizeof text, cs_timeline_stage(timeline, s, stage->rank).bubble);
        cs_draw_right(c->area, c->area.w - 1, y + 1 + i, CS_STYLE_TEXT, text);
    }
    return 1 + c->parts.n;
}

/* One time axis for both while they are near each other, so that lengths compare by eye. */
static bool is_same_scale(const struct cs_store *store, const struct cs_screen *screen)
{
    double a = (double)store->predicted.spans.makespan_ns;
    double b = (double)store->measured.spans.makespan_ns;
    if (screen->scale != CS_SCALE_AUTO)
        return screen->scale == CS_SCALE_SAME;
    return a <= 2 * b && b <= 2 * a;
}

static int draw_charts(const struct chart *c, int y)
{
    const struct cs_timeline *predicted = &c->store->predicted, *measured = &c->store->measured;
    int64_t a = c->parts.has_predicted ? predicted->spans.makespan_ns : 0;
    int64_t b = c->parts.has_measured ? measured->spans.makespan_ns : 0;
    if (a > 0 && b > 0 && is_same_scale(c->store, c->screen))
        a = b = a > b ? a : b;
    if (c->parts.has_predicted)
        y += draw_chart(c, predicted, "predicted", a, y) + c->parts.has_gaps;
    if (c->parts.has_measured)
        y += draw_chart(c, measured, "measured", b, y) + c->parts.has_gaps;
    return y;
}

static void draw_legend(const struct chart *c, int y)
{
    struct cs_fields fields = {0};
    struct cs_buf quiet = {0};
    cs_fields_add(&fields, CS_STYLE_FORWARD, 0, "1-9 forward");
    cs_fields_add(&fields, CS_STYLE_BACKWARD, 0, "a-z backward");
    cs_fields_add(&fields, CS_STYLE_OPTIMIZER, 2, "= optimizer");
    cs_fields_add(&fields, CS_STYLE_IDLE, 1, "%s idle", cs_glyph(c->screen->glyphs, CS_GLYPH_IDLE));
    for (int32_t s = 0; c->store->model.plan && s < c->store->model.plan->n_stages; s++)
        if (!c->store->model.plan->stages[s].has_backward)
            cs_buf_addf(&quiet, " %s", c->store->model.plan->stages[s].name);
    if (quiet.len)
        cs_fields_add(&fields, CS_STYLE_FROZEN, 3, "no backward:%s", cs_buf_str(&quiet));
    cs_buf_free(&quiet);
    cs_fields_draw(&fields, c->area, 1, y);
    if (c->parts.n < c->parts.all)
        cs_drawf(c->area, c->area.w - 28, y, CS_STYLE_DIM, "  stages %d-%d of %d (j/k)",
                 c->parts.first, c->parts.first + c->parts.n - 1, c->parts.all);
}

/* --- as a list -------------------------------------------------------------------------------- */

static int count(const struct cs_store *store, const struct cs_screen *screen)
{
    return cs_rows_count(&cs_pipeline_rows, store, screen);
}

static int cursor_of(const struct cs_store *store, const struct cs_screen *screen)
{
    const int n = count(store, screen);
    return cs_screen_clamp(screen->at.stage_top, 0, n > 0 ? n - 1 : 0);
}

static void each(const struct cs_store *store, const struct cs_screen *screen,
                 bool (*take)(void *user, int row, const char *text), void *user)
{
    cs_rows_each(&cs_pipeline_rows, store, screen, take, user);
}

static const struct cs_view_list list = {count, cursor_of, each, NULL};

static void draw_nothing(const struct cs_store *store, struct cs_area area)
{
    const struct cs_store_job *job = cs_store_selected(store);
    if (store->job == 0)
        cs_draw(area, 1, 2, CS_STYLE_DIM, "no job is open: press 1, choose one, Enter");
    else if (store->model_error[0])
        cs_draw(area, 1, 2, CS_STYLE_BAD, store->model_error);
    else
        cs_draw(area, 1, 2, CS_STYLE_DIM, "no plan and no measured step yet");
    if (job && job->reason[0] && !store->model_error[0]) { /* why it waits */
        const int x = 1 + cs_drawf(area, 1, 4, CS_STYLE_TITLE, "%s ", job->state);
        cs_draw_wrap(area, x, 4, area.w - x - 1, area.h - 4, CS_STYLE_TEXT, CS_GLYPHS_ASCII,
                     job->reason);
    }
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    int order[CS_ROWS_MAX];
    struct chart c = {
        .store = store, .screen = screen, .area = area, .rows = &cs_pipeline_rows, .order = order};
    draw_summary(&cs_pipeline_rows, store, screen, area);
    if (store->n_stages == 0 || (!store->predicted.arena && !store->measured.arena)) {
        draw_nothing(store, area);
        return;
    }
    const int n = cs_rows_order(&cs_pipeline_rows, store, screen, order);
    c.parts = share_rows(store, screen, n, area.h);
    c.label_w = area.w >= 90 ? 16 : 12;
    c.width = area.w - c.label_w - BUBBLE_W - 1;
    c.width = c.width > 0 ? c.width : 0;
    int y = draw_charts(&c, 1 + c.parts.has_gaps);
    if (c.parts.has_legend)
        draw_legend(&c, y++);
    if (c.parts.has_table)
        cs_pipeline_table(store, screen, area, order + c.parts.first, c.parts.n,
                          y + (c.parts.has_gaps ? 1 : 0));
}

/* --- keys ------------------------------------------------------------------------------------- */

static void move(struct cs_screen *screen, const struct cs_store *store, int steps)
{
    const int n = count(store, screen);
    screen->at.stage_top = cs_screen_clamp(cursor_of(store, screen) + steps, 0, n > 0 ? n - 1 : 0);
}

static unsigned next_sort(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    return cs_rows_next_sort(&cs_pipeline_rows, screen);
}

static unsigned zoom(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    cs_screen_zoom(screen, argument);
    return CS_DO_DRAW;
}

static unsigned scroll(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    cs_screen_scroll(screen, argument);
    return CS_DO_DRAW;
}

static unsigned hold(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->at.is_held = !screen->at.is_held;
    return CS_DO_DRAW;
}

static unsigned next_scale(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->scale = (enum cs_scale)(((int)screen->scale + 1) % CS_SCALE_COUNT);
    return CS_DO_DRAW;
}

static unsigned show_whatif(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    if (screen->plan_part != CS_PLAN_WHATIF)
        screen->at.plan_top = screen->at.plan_cursor = 0;
    screen->plan_part = CS_PLAN_WHATIF;
    cs_screen_show(screen, CS_VIEW_PLAN);
    return CS_DO_DRAW;
}

/* clang-format off */
static const struct cs_key_row keys[] = {
    {"h,Left",  "h Left",  "",        0, NULL, "earlier",                                  scroll,      -1},
    {"l,Right", "l Right", "scroll",  2, NULL, "later",                                    scroll,      1},
    {"+,=",     "+",       "zoom",    2, NULL, "zoom in",                                  zoom,        1},
    {"-",       "-",       "",        0, NULL, "zoom out",                                 zoom,        -1},
    {"Space",   "Space",   "hold",    3, NULL, "hold the timeline still, or let it go on", hold,        0},
    {"x",       "x",       "scale",   4, NULL, "time axis: automatic, shared, one each",   next_scale,  0},
    {"o",       "o",       "sort",    5, NULL, "order: stage, bubble, busy, drift",        next_sort,   0},
    {"p",       "p",       "what-if", 5, NULL, "other plans than this one (Plan view)",    show_whatif, 0},
    {.keys = NULL},
};

/* clang-format on */

const struct cs_view_ops cs_view_pipeline = {
    .title = "Pipeline",
    .short_title = "Pipe",
    .key = "3",
    .command = "show",
    .is_of_job = true,
    .help = "The timeline of one step, predicted above measured: a row per stage, a digit per slot "
            "for the forward, a letter for\n"
            "the backward, and the bubble of each stage.",
    .beside = {CS_VIEW_MODEL, CS_VIEW_LOGS},
    .keys = keys,
    .draw = draw,
    .move = move,
    .list = &list,
};
