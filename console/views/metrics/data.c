/* Curves of the store into lines of charts. */
#include "console/views/metrics/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "core/base/str.h"

enum { MAP_POINTS = 1024 };

static const double smoothings[CS_METRICS_SMOOTHINGS] = {0, 0.6, 0.9, 0.99};
static const int64_t ranges[CS_METRICS_RANGES] = {0, 10000, 1000, 100};

/* of lines that are told apart by their marks first */
static const enum cs_style styles[] = {CS_STYLE_FORWARD, CS_STYLE_BACKWARD, CS_STYLE_OPTIMIZER,
                                       CS_STYLE_GOOD,    CS_STYLE_FROZEN,   CS_STYLE_TEXT};

double cs_metrics_smoothing(int row)
{
    return smoothings[row];
}

int64_t cs_metrics_range(int row)
{
    return ranges[row];
}

void cs_metrics_value(char *out, size_t cap, const struct cs_metric *metric, double value)
{
    char text[24];
    if (metric->is_share && isfinite(value)) {
        cs_fmt_percent(out, cap, value);
        return;
    }
    cs_axis_label(text, sizeof text, value, 0);
    snprintf(out, cap, "%s%s%s", text, metric->unit[0] ? " " : "", metric->unit);
}

/* --- panels ----------------------------------------------------------------------------------- */

static bool is_member_of(const struct cs_curve *curve, const struct cs_metric *metric)
{
    const size_t n = strlen(metric->name);
    return strncmp(curve->name, metric->name, n) == 0 && curve->name[n] == '/';
}

static bool has_curve(const struct cs_metrics *metrics, const struct cs_metric *metric,
                      bool is_members)
{
    for (int i = 0; i < metrics->n; i++)
        if (is_members ? is_member_of(&metrics->curve[i], metric) && !metrics->curve[i].is_eval
                       : strcmp(metrics->curve[i].name, metric->name) == 0)
            return true;
    return false;
}

int cs_metrics_panels(const struct cs_store *store, struct cs_metrics_panel out[CS_METRICS_PANELS])
{
    int n = 0;
    for (int m = 0; m < cs_n_metrics; m++)
        for (int members = 0; members < 2 && n < CS_METRICS_PANELS; members++)
            if (has_curve(&store->metrics, &cs_metrics[m], members))
                out[n++] = (struct cs_metrics_panel){m, members};
    return n;
}

/* --- the x axis ------------------------------------------------------------------------------- */

static void make_map(const struct cs_metrics *metrics, enum cs_metrics_align align,
                     struct cs_metrics_map *map)
{
    const struct cs_series *from = align == CS_BY_TOKENS ? metrics->tokens : metrics->seconds;
    *map = (struct cs_metrics_map){.align = align, .last_step = metrics->last_step};
    if (align == CS_BY_STEPS || from == NULL)
        return;
    struct cs_series_bucket *bucket = calloc(MAP_POINTS, sizeof *bucket);
    map->step = calloc(MAP_POINTS, sizeof *map->step);
    map->x = calloc(MAP_POINTS, sizeof *map->x);
    CS_ASSERT(bucket && map->step && map->x);
    map->n = (int)cs_series_read(from, 0, metrics->last_step + 1, MAP_POINTS, bucket);
    for (int i = 0; i < map->n; i++) { /* sums grow: the greatest is that of the last step */
        const int64_t last = bucket[i].first_step + bucket[i].n_steps - 1;
        map->step[i] = (double)(last < metrics->last_step ? last : metrics->last_step);
        map->x[i] = bucket[i].max;
    }
    free(bucket);
}

/* y of x between the points of two ascending lists, straight beyond their ends */
static double between(const double *xs, const double *ys, int n, double x)
{
    int low = 0, high = n - 1;
    if (n < 1)
        return x;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        *(xs[middle] <= x ? &low : &high) = middle;
    }
    const double span = xs[high] - xs[low];
    return span > 0 ? ys[low] + (x - xs[low]) / span * (ys[high] - ys[low]) : ys[low];
}

static double x_of(const struct cs_metrics_map *map, double step)
{
    return map->step ? between(map->step, map->x, map->n, step) : step;
}

static double step_of(const struct cs_metrics_map *map, double x)
{
    return map->step ? between(map->x, map->step, map->n, x) : x;
}

static void widen(const struct cs_metrics_map *map, int64_t range, double *low, double *high)
{
    if (map->last_step < 0)
        return;
    const double first =
        range > 0 && range <= map->last_step ? (double)(map->last_step - range + 1) : 0;
    *low = fmin(*low, x_of(map, first));
    *high = fmax(*high, x_of(map, (double)map->last_step));
}

void cs_metrics_window(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_metrics_window *out)
{
    const struct cs_metrics_screen *m = &screen->metrics;
    const int64_t range = cs_metrics_range(m->range);
    *out = (struct cs_metrics_window){.low = (double)NAN, .high = (double)NAN};
    make_map(&store->metrics, m->align, &out->own);
    widen(&out->own, range, &out->low, &out->high);
    for (int i = 0; i < CS_STORE_BESIDE; i++) {
        make_map(&store->beside[i].metrics, m->align, &out->beside[i]);
        if (range == 0 && store->beside[i].job != 0)
            widen(&out->beside[i], 0, &out->low, &out->high);
    }
    if (!(out->high > out->low)) { /* one step, or none */
        out->low = isnan(out->low) ? 0 : out->low;
        out->high = out->low + 1;
    }
    const double length = out->high - out->low;
    out->from = out->low + m->scroll * length;
    out->to = out->from + length / m->zoom;
    out->cursor = m->has_cursor ? out->from + m->cursor * (out->to - out->from) : (double)NAN;
}

static void free_map(struct cs_metrics_map *map)
{
    free(map->step);
    free(map->x);
}

void cs_metrics_window_free(struct cs_metrics_window *window)
{
    free_map(&window->own);
    for (int i = 0; i < CS_STORE_BESIDE; i++)
        free_map(&window->beside[i]);
}

/* --- lines ------------------------------------------------------------------------------------ */

/* Each point by a weight of those before it, as if all steps of a bucket had its mean; the first ones
 * are not drawn towards 0. */
static void smooth(struct cs_chart_point *point, const struct cs_series_bucket *bucket, int n,
                   double weight)
{
    double sum = 0, norm = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(point[i].mean))
            continue;
        const double keep = pow(weight, bucket[i].n > 0 ? bucket[i].n : 1);
        sum = keep * sum + (1 - keep) * point[i].mean;
        norm = keep * norm + (1 - keep);
        point[i].mean = point[i].low = point[i].high = sum / norm;
    }
}

struct want {
    const struct cs_metrics_map *map;
    const struct cs_curve *curve;
    const char *name;
    enum cs_chart_kind kind;
    enum cs_style style;
    double weight; /* of smoothing, 0 none */
    char mark;
};

static void set_label(struct cs_metrics_lines *out, const char *name,
                      const struct cs_metrics_window *window)
{
    const struct cs_chart_line *line = &out->chart.line[out->chart.n];
    struct cs_metrics_label *label = &out->label[out->chart.n];
    cs_str_copy(label->name, sizeof label->name, name);
    for (int i = 0; i < line->n; i++) {
        const struct cs_chart_point *p = &line->point[i];
        const bool is_nearer = !label->is_known || isnan(window->cursor) ||
                               fabs(p->x - window->cursor) < fabs(label->x - window->cursor);
        if (!is_nearer || p->x > window->to)
            continue;
        label->is_known = true;
        label->value = p->mean;
        label->x = p->x;
    }
}

static void add_line(struct cs_metrics_lines *out, const struct cs_metrics_window *window,
                     const struct want *want, int dots)
{
    if (want->curve == NULL || out->chart.n == CS_CHART_LINES)
        return;
    const double before = want->weight > 0 ? 10 / (1 - want->weight) : 0;
    const int64_t last = cs_series_last_step(want->curve->series);
    const double first = floor(step_of(want->map, window->from)) - before,
                 end = ceil(step_of(want->map, window->to)) + 1;
    const int64_t from = first > 0 ? (int64_t)first : 0,
                  to = end < (double)last + 1 ? (int64_t)end : last + 1;
    const uint32_t most = (uint32_t)(dots > 8 ? 2 * dots : 16);
    struct cs_series_bucket *bucket = calloc(most, sizeof *bucket);
    struct cs_chart_point *point = calloc(most, sizeof *point);
    CS_ASSERT(bucket && point);
    const int n = to > from ? (int)cs_series_read(want->curve->series, from, to, most, bucket) : 0;
    for (int i = 0; i < n; i++) {
        const struct cs_series_bucket *b = &bucket[i];
        const double end_step = fmin((double)(b->first_step + b->n_steps - 1), (double)last);
        point[i] =
            (struct cs_chart_point){.x = x_of(want->map, ((double)b->first_step + end_step) / 2),
                                    .mean = cs_series_mean(b),
                                    .low = b->min,
                                    .high = b->max,
                                    .has_bad = b->n_bad > 0};
    }
    if (want->weight > 0)
        smooth(point, bucket, n, want->weight);
    out->point[out->chart.n] = point;
    out->chart.line[out->chart.n] =
        (struct cs_chart_line){point, n, want->kind, want->style, want->mark};
    set_label(out, want->name, window);
    if (want->kind == CS_CHART_RANGE && isnan(window->cursor) && to == last + 1)
        out->label[out->chart.n].value = want->curve->last; /* not the mean of the last steps */
    out->chart.n++;
    free(bucket);
}

static void add_beside(const struct cs_store *store, const struct cs_metrics_window *window,
                       const struct cs_metric *metric, double weight, int dots,
                       struct cs_metrics_lines *out)
{
    for (int i = 0; i < CS_STORE_BESIDE; i++) {
        const struct cs_store_beside *beside = &store->beside[i];
        char name[32];
        snprintf(name, sizeof name, "%c job %lld", 'a' + i, (long long)beside->job);
        const struct want want = {
            .map = &window->beside[i],
            .curve = beside->job ? cs_metrics_find(&beside->metrics, metric->name, false) : NULL,
            .name = name,
            .style = styles[1 + (size_t)i % (CS_ARRAY_LEN(styles) - 1)],
            .weight = weight,
            .mark = (char)('a' + i)};
        add_line(out, window, &want, dots);
    }
}

static void add_metric(const struct cs_store *store, const struct cs_metrics_window *window,
                       const struct cs_metric *metric, double weight, int dots,
                       struct cs_metrics_lines *out)
{
    struct want want = {.map = &window->own,
                        .curve = cs_metrics_find(&store->metrics, metric->name, false),
                        .name = "",
                        .kind = CS_CHART_RANGE,
                        .style = weight > 0 ? CS_STYLE_DIM : CS_STYLE_FORWARD};
    add_line(out, window, &want, dots);
    if (weight > 0) {
        want.name = "smooth";
        want.kind = CS_CHART_LINE;
        want.style = CS_STYLE_FORWARD;
        want.weight = weight;
        add_line(out, window, &want, dots);
    }
    want = (struct want){.map = &window->own,
                         .curve = cs_metrics_find(&store->metrics, metric->name, true),
                         .name = "held out",
                         .kind = CS_CHART_MARKS,
                         .style = CS_STYLE_WARN};
    if (metric
            ->is_of_eval) /* times and counts of an evaluation are of another kind than a step's */
        add_line(out, window, &want, dots);
}

static void add_members(const struct cs_store *store, const struct cs_metrics_window *window,
                        const struct cs_metric *metric, double weight, int dots,
                        struct cs_metrics_lines *out)
{
    int shown = 0;
    for (int i = 0; i < store->metrics.n; i++) {
        const struct cs_curve *curve = &store->metrics.curve[i];
        char name[CS_METRIC_NAME];
        if (curve->is_eval || !is_member_of(curve, metric))
            continue;
        const char mark = (char)(shown < 9 ? '1' + shown : 'a' + shown - 9);
        snprintf(name, sizeof name, "%c %.40s", mark, curve->name + strlen(metric->name) + 1);
        const struct want want = {.map = &window->own,
                                  .curve = curve,
                                  .name = name,
                                  .style = styles[(size_t)shown % CS_ARRAY_LEN(styles)],
                                  .weight = weight,
                                  .mark = mark};
        add_line(out, window, &want, dots);
        shown++;
    }
}

void cs_metrics_lines(const struct cs_store *store, const struct cs_screen *screen,
                      const struct cs_metrics_window *window, const struct cs_metrics_panel *panel,
                      int dots, struct cs_metrics_lines *out)
{
    static const char *const units[CS_BY_COUNT] = {"", "tok", "s"};
    const struct cs_metric *metric = &cs_metrics[panel->metric];
    const double weight = cs_metrics_smoothing(screen->metrics.smoothing);
    *out = (struct cs_metrics_lines){
        .chart = {.from = window->from,
                  .to = window->to,
                  .cursor = window->cursor,
                  .is_log = screen->metrics.log_panels >> panel->metric & 1,
                  .x_unit = units[screen->metrics.align]}
    };
    if (panel->is_members) {
        add_members(store, window, metric, weight, dots, out);
        return;
    }
    add_beside(store, window, metric, weight, dots, out);
    add_metric(store, window, metric, weight, dots, out);
}

void cs_metrics_lines_free(struct cs_metrics_lines *lines)
{
    for (int i = 0; i < lines->chart.n; i++)
        free(lines->point[i]);
}
