/* Metrics: charts of everything that the steps of a job say, others laid over them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/metrics/data.h"
#include "core/base/units.h"

enum { PANEL_MIN_W = 36, PANEL_WIDE_W = 60, PANEL_MIN_H = 7, PANEL_MAX_H = 12, GAP = 2 };

/* --- one chart -------------------------------------------------------------------------------- */

/* steps are whole numbers, all of their digits count */
static void x_label(char *out, size_t cap, double x, const struct cs_screen *screen)
{
    cs_axis_label(out, cap, x, screen->metrics.align == CS_BY_STEPS ? 1 : 0);
}

static void add_label(struct cs_fields *fields, const struct cs_screen *screen,
                      const struct cs_metrics_lines *lines, int i, const struct cs_metric *metric)
{
    const struct cs_metrics_label *label = &lines->label[i];
    char value[CS_FMT_CAP], step[CS_FMT_CAP] = "";
    if (!label->is_known)
        return;
    cs_metrics_value(value, sizeof value, metric, label->value);
    if (lines->chart.line[i].kind == CS_CHART_MARKS) {
        x_label(step, sizeof step, label->x, screen);
        cs_fields_add(fields, lines->chart.line[i].style, 1, "%s %s @%s", label->name, value, step);
        return;
    }
    cs_fields_add(fields, isfinite(label->value) ? lines->chart.line[i].style : CS_STYLE_BAD,
                  label->name[0] ? 1 + i : 0, "%s%s%s", label->name, label->name[0] ? " " : "",
                  value);
}

static void draw_title(const struct cs_screen *screen, const struct cs_metrics_panel *panel,
                       const struct cs_metrics_lines *lines, struct cs_area area, bool is_on)
{
    const struct cs_metric *metric = &cs_metrics[panel->metric];
    struct cs_fields fields = {.n = 0};
    cs_fields_add(&fields, is_on ? CS_STYLE_TAB_ON : CS_STYLE_TITLE, 0, "%s%s%s",
                  is_on ? cs_glyph(screen->glyphs, CS_GLYPH_CURSOR) : " ", metric->title,
                  panel->is_members ? " of each" : "");
    for (int i = 0; i < lines->chart.n; i++) /* its own first, then those of other jobs */
        if (lines->chart.line[i].mark == '\0')
            add_label(&fields, screen, lines, i, metric);
    for (int i = 0; i < lines->chart.n; i++)
        if (lines->chart.line[i].mark != '\0')
            add_label(&fields, screen, lines, i, metric);
    if (lines->chart.is_log)
        cs_fields_add(&fields, CS_STYLE_DIM, 20, "log");
    cs_fields_draw(&fields, area, 0, 0);
}

static void draw_panel(const struct cs_store *store, const struct cs_screen *screen,
                       const struct cs_metrics_window *window, const struct cs_metrics_panel *panel,
                       struct cs_area area, bool is_on)
{
    struct cs_metrics_lines lines;
    cs_metrics_lines(store, screen, window, panel, cs_chart_dots(area.w), &lines);
    draw_title(screen, panel, &lines, area, is_on);
    cs_chart_draw(&lines.chart, cs_area_part(area, 0, 1, area.w, area.h - 1), screen->glyphs);
    cs_metrics_lines_free(&lines);
}

/* --- all of them ------------------------------------------------------------------------------ */

struct layout {
    int columns, rows, w, h; /* of a panel, gaps not counted */
};

static struct layout lay_out(struct cs_area area, int n)
{
    struct layout l = {.columns = area.w / PANEL_WIDE_W};
    if (l.columns < 2)
        l.columns = area.w >= 2 * PANEL_MIN_W + GAP ? 2 : 1;
    l.columns = l.columns > n ? n : l.columns;
    l.rows = (n + l.columns - 1) / l.columns;
    const int most = area.h / PANEL_MIN_H > 1 ? area.h / PANEL_MIN_H : 1;
    l.rows = l.rows > most ? most : l.rows;
    l.w = (area.w - GAP * (l.columns - 1)) / l.columns;
    l.h = area.h / l.rows > PANEL_MAX_H ? PANEL_MAX_H : area.h / l.rows;
    return l;
}

static void draw_panels(const struct cs_store *store, const struct cs_screen *screen,
                        const struct cs_metrics_window *window, struct cs_area area)
{
    struct cs_metrics_panel panel[CS_METRICS_PANELS];
    const int n = cs_metrics_panels(store, panel),
              on = cs_screen_clamp(screen->metrics.panel, 0, n - 1);
    if (screen->metrics.is_single) {
        draw_panel(store, screen, window, &panel[on], area, true);
        return;
    }
    const struct layout l = lay_out(area, n);
    const int page = l.columns * l.rows;
    int top = on / l.columns - l.rows + 1; /* the least scrolling that shows the cursor */
    top = top < 0 ? 0 : top;
    for (int i = 0; i < page && top * l.columns + i < n; i++)
        draw_panel(store, screen, window, &panel[top * l.columns + i],
                   cs_area_part(area, i % l.columns * (l.w + GAP), i / l.columns * l.h, l.w, l.h),
                   top * l.columns + i == on);
}

static void draw_choices(const struct cs_store *store, const struct cs_screen *screen,
                         const struct cs_metrics_window *window, struct cs_area area)
{
    static const char *const aligns[CS_BY_COUNT] = {"step", "tokens", "time spent training"};
    const struct cs_metrics_screen *m = &screen->metrics;
    struct cs_metrics_panel panel[CS_METRICS_PANELS];
    struct cs_fields fields = {.n = 0};
    char text[CS_FMT_CAP];
    cs_fields_add(&fields, CS_STYLE_TEXT, 0, "by %s", aligns[m->align]);
    if (cs_metrics_range(m->range) > 0)
        cs_fields_add(&fields, CS_STYLE_TEXT, 1, "last %lld step%s",
                      (long long)cs_metrics_range(m->range), CS_PLURAL(cs_metrics_range(m->range)));
    if (m->zoom > 1)
        cs_fields_add(&fields, CS_STYLE_TEXT, 1, "zoom %dx", m->zoom);
    if (cs_metrics_smoothing(m->smoothing) > 0)
        cs_fields_add(&fields, CS_STYLE_TEXT, 3, "smoothed %g", cs_metrics_smoothing(m->smoothing));
    if (m->has_cursor) {
        x_label(text, sizeof text, window->cursor, screen);
        cs_fields_add(&fields, CS_STYLE_KEY, 0, "at %s", text);
    }
    for (int i = 0; i < CS_STORE_BESIDE; i++)
        if (store->beside[i].job != 0)
            cs_fields_add(&fields, CS_STYLE_TEXT, 2, "%c job %lld%s", 'a' + i,
                          (long long)store->beside[i].job,
                          store->beside[i].metrics.n ? "" : " (no figures yet)");
    const int n = cs_metrics_panels(store, panel);
    cs_fields_add(&fields, CS_STYLE_DIM, 4, "chart %d of %d",
                  cs_screen_clamp(m->panel, 0, n - 1) + 1, n);
    cs_fields_draw(&fields, area, 1, 0);
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    struct cs_metrics_window window;
    struct cs_metrics_panel panel[CS_METRICS_PANELS];
    struct cs_area below = cs_area_part(area, 1, 1, area.w - 2, area.h - 1);
    if (screen->metrics.part == CS_METRICS_JOBS) {
        cs_metrics_draw_jobs(store, screen, area);
        return;
    }
    if (screen->metrics.part == CS_METRICS_DIFF) {
        cs_metrics_draw_diff(store, screen, area);
        return;
    }
    if (cs_metrics_panels(store, panel) == 0) {
        cs_draw(area, 1, 1, CS_STYLE_DIM,
                store->job ? "no step has ended yet" : "no job is selected");
        return;
    }
    cs_metrics_window(store, screen, &window);
    draw_choices(store, screen, &window, area);
    draw_panels(store, screen, &window, below);
    cs_metrics_window_free(&window);
}

/* Of every curve the newest value, and its range. */
static void read(const struct cs_store *store, const struct cs_screen *screen, struct cs_buf *out)
{
    const struct cs_metrics *all = &store->metrics;
    (void)screen;
    for (int i = 0; i < all->n; i++) {
        const struct cs_curve *curve = &all->curve[i];
        const struct cs_metric *metric = cs_metric_find(curve->name);
        struct cs_series_bucket whole;
        char last[CS_FMT_CAP], low[CS_FMT_CAP], high[CS_FMT_CAP];
        if (!metric || cs_series_read(curve->series, 0, INT64_MAX, 1, &whole) == 0)
            continue;
        cs_metrics_value(last, sizeof last, metric, curve->last);
        cs_metrics_value(low, sizeof low, metric, whole.min);
        cs_metrics_value(high, sizeof high, metric, whole.max);
        cs_buf_addf(out, "%s%s: %s at step %lld, from %s to %s.\n", metric->title,
                    curve->is_eval ? " of evaluations" : "", last,
                    (long long)cs_series_last_step(curve->series), low, high);
    }
}

const struct cs_view_ops cs_view_metrics = {
    .title = "Metrics",
    .short_title = "Met",
    .key = "5",
    .command = "metrics",
    .is_of_job = true,
    .help =
        "Charts of what the steps of a job say: loss as it is, smoothed, held out and of each "
        "source, norm of the gradient,\n"
        "learning rate, speed, times and what they are made of, memory, power.\n"
        "A chart is there when the job has figures of it. j and k choose one, Enter shows it "
        "alone, h and l move a cursor\n"
        "through all of them, and the titles have the values there.\n"
        "o lays up to four other jobs over it, a by step, tokens or time spent training; d lists "
        "the keys in which their\n"
        "specifications differ.\n"
        "A ! below a chart stands where a value was not finite.",
    .beside = {CS_VIEW_PIPELINE, CS_VIEW_LOGS},
    .keys = cs_metrics_keys,
    .draw = draw,
    .read = read,
    .move = cs_metrics_move,
    .back = cs_metrics_back,
};
