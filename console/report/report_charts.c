/* Charts of the metrics, as SVG: the curve of training with the range of steps that were put
 * together, evaluations as points, members as lines of their own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/axis.h"
#include "console/report/html.h"
#include "console/report/report_parts.h"

enum { WIDTH = 640, HEIGHT = 230, LEFT = 56, RIGHT = 12, TOP = 10, BOTTOM = 26 };

enum { POINTS = 400, LINES = 8, MANY = 100 /* buckets from which a smoothed line is worth it */ };

struct line {
    const struct cs_curve *curve;
    const char *label;
    struct cs_series_bucket *bucket; /* (n) */
    uint32_t n;
};

struct chart {
    const struct cs_metric *metric;
    struct line line[LINES];
    int n, n_left_out;
    struct cs_axis x, y;
};

static double x_of(const struct chart *c, double step)
{
    return LEFT + cs_axis_share(&c->x, step) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct chart *c, double value)
{
    return HEIGHT - BOTTOM - cs_axis_share(&c->y, value) * (HEIGHT - BOTTOM - TOP);
}

/* --- what is in it ---------------------------------------------------------------------------- */

static void add_line(struct chart *c, const struct cs_curve *curve, const char *label)
{
    if (c->n == LINES) {
        c->n_left_out++;
        return;
    }
    struct line *line = &c->line[c->n];
    line->bucket = calloc(POINTS, sizeof *line->bucket);
    CS_ASSERT(line->bucket);
    line->curve = curve;
    line->label = label;
    line->n = cs_series_read(curve->series, 0, cs_series_last_step(curve->series) + 1, POINTS,
                             line->bucket);
    c->n++;
}

static void collect(const struct cs_metrics *metrics, bool is_of_members, struct chart *c)
{
    const size_t n = strlen(c->metric->name);
    for (int i = 0; i < metrics->n; i++) {
        const struct cs_curve *curve = &metrics->curve[i];
        const bool is_member =
            strncmp(curve->name, c->metric->name, n) == 0 && curve->name[n] == '/';
        if (is_of_members && is_member && !curve->is_eval)
            add_line(c, curve, curve->name + n + 1);
        else if (!is_of_members && strcmp(curve->name, c->metric->name) == 0 &&
                 (!curve->is_eval || c->metric->is_of_eval))
            add_line(c, curve, curve->is_eval ? "evaluation" : "training");
    }
}

static void fit(struct chart *c)
{
    double low = INFINITY, high = -INFINITY, last = 0;
    for (int i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < c->line[i].n; k++) {
            const struct cs_series_bucket *b = &c->line[i].bucket[k];
            last = fmax(last, (double)(b->first_step + b->n_steps));
            low = b->n ? fmin(low, b->min) : low;
            high = b->n ? fmax(high, b->max) : high;
        }
    c->x = cs_axis_fit(0, last, false);
    c->y = cs_axis_fit(low, high, false);
}

/* --- how it is drawn -------------------------------------------------------------------------- */

static void draw_axes(const struct chart *c, struct cs_buf *out)
{
    double tick[CS_AXIS_TICKS];
    char label[24];
    int n = cs_axis_ticks(&c->y, 5, tick);
    for (int i = 0; i < n; i++) {
        const double y = y_of(c, tick[i]);
        cs_axis_label(label, sizeof label, tick[i], cs_axis_apart(tick, n));
        cs_buf_addf(out,
                    "<path class=\"axis\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                    "text-anchor=\"end\">%s</text>\n",
                    LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, label);
    }
    n = cs_axis_ticks(&c->x, 6, tick);
    for (int i = 0; i < n; i++) {
        cs_axis_label(label, sizeof label, tick[i], cs_axis_apart(tick, n));
        cs_buf_addf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                    x_of(c, tick[i]), HEIGHT - 8, label);
    }
}

static double middle(const struct cs_series_bucket *b)
{
    return (double)b->first_step + (double)(b->n_steps - 1) / 2;
}

/* from least to greatest, where buckets stand for several steps */
static void draw_band(const struct chart *c, const struct line *line, int style, struct cs_buf *out)
{
    const char *begin = "M";
    if (style != 0 || line->n < 2 || line->bucket[0].n_steps < 2)
        return;
    cs_buf_addf(out, "<path class=\"band s%d\" d=\"", style);
    for (uint32_t i = 0; i < 2 * line->n; i++) {
        const bool is_back = i >= line->n;
        const struct cs_series_bucket *b = &line->bucket[is_back ? 2 * line->n - 1 - i : i];
        if (b->n == 0)
            continue;
        cs_buf_addf(out, "%s%.1f %.1f", begin, x_of(c, middle(b)),
                    y_of(c, is_back ? b->min : b->max));
        begin = "L";
    }
    cs_buf_adds(out, "Z\"/>\n");
}

/* keep: how much of the line before stays, 0 none (the beginning is not drawn towards 0); a gap where
 * nothing finite is known */
static void draw_line(const struct chart *c, const struct line *line, int style, double keep,
                      bool is_raw, struct cs_buf *out)
{
    double sum = 0, weight = 0;
    bool is_on = false;
    cs_buf_addf(out, "<path class=\"line s%d%s\" d=\"", style, is_raw ? " raw" : "");
    for (uint32_t i = 0; i < line->n; i++) {
        const struct cs_series_bucket *b = &line->bucket[i];
        const double mean = cs_series_mean(b);
        if (!isfinite(mean)) {
            is_on = false;
            continue;
        }
        sum = keep * sum + mean;
        weight = keep * weight + 1;
        cs_buf_addf(out, "%s%.1f %.1f", is_on ? "L" : "M", x_of(c, middle(b)),
                    y_of(c, sum / weight));
        if (!is_on) /* so that a point alone is seen */
            cs_buf_adds(out, "h.1");
        is_on = true;
    }
    cs_buf_adds(out, "\"/>\n");
}

static void draw_points(const struct chart *c, const struct line *line, struct cs_buf *out)
{
    for (uint32_t i = 0; i < line->n; i++) {
        const struct cs_series_bucket *b = &line->bucket[i];
        if (b->n > 0)
            cs_buf_addf(out,
                        "<circle class=\"s1\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>step %lld: "
                        "%.6g</title></circle>\n",
                        x_of(c, middle(b)), y_of(c, cs_series_mean(b)),
                        (long long)(b->first_step + b->n_steps - 1), cs_series_mean(b));
    }
}

static void draw_lines(const struct chart *c, bool is_of_members, struct cs_buf *out)
{
    for (int i = 0; i < c->n; i++) {
        const struct line *line = &c->line[i];
        const bool is_smoothed = !is_of_members && line->n >= MANY;
        if (line->curve->is_eval) {
            draw_points(c, line, out);
            continue;
        }
        draw_band(c, line, is_of_members ? i : 0, out);
        draw_line(c, line, is_of_members ? i : 0, 0, is_smoothed, out);
        if (is_smoothed)
            draw_line(c, line, 0, 0.9, false, out);
    }
}

/* --- its caption ------------------------------------------------------------------------------ */

static void add_last(const struct chart *c, const struct line *line, bool has_label,
                     struct cs_buf *out)
{
    char text[24];
    cs_axis_label(text, sizeof text,
                  c->metric->is_share ? 100 * line->curve->last : line->curve->last, 0);
    cs_html_textf(out, "%s%s%s%s%s", has_label ? line->label : "", has_label ? " " : "", text,
                  c->metric->is_share  ? "%"
                  : c->metric->unit[0] ? " "
                                       : "",
                  c->metric->is_share ? "" : c->metric->unit);
}

static void add_key(const struct chart *c, bool is_of_members, struct cs_buf *out)
{
    for (int i = 0; i < c->n; i++) {
        if (is_of_members)
            cs_buf_addf(out,
                        "<svg style=\"display:inline;width:2em;height:.7em;margin-left:.8em\" "
                        "viewBox=\"0 0 28 10\" aria-hidden=\"true\"><path class=\"line s%d\" "
                        "d=\"M0 5H28\"/></svg> ",
                        i);
        else
            cs_buf_adds(out, i ? ", " : ": ");
        add_last(c, &c->line[i], is_of_members || c->n > 1, out);
    }
    if (c->n_left_out > 0)
        cs_html_textf(out, " and %d more", c->n_left_out);
}

static void draw_chart(const struct chart *c, bool is_of_members, struct cs_buf *out)
{
    cs_buf_adds(out, "<figure><figcaption><b>");
    cs_html_textf(out, "%s%s", c->metric->title, is_of_members ? ", its parts" : "");
    cs_buf_adds(out, "</b>");
    add_key(c, is_of_members, out);
    cs_buf_addf(out, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH,
                HEIGHT);
    cs_html_textf(out, "%s over steps", c->metric->title);
    cs_buf_addf(out, "\" data-metric=\"%s%s\">\n", c->metric->name, is_of_members ? "/" : "");
    draw_axes(c, out);
    draw_lines(c, is_of_members, out);
    cs_buf_adds(out, "</svg></figure>\n");
}

void cs_report_charts(const struct cs_report *report, struct cs_buf *out)
{
    const size_t before = out->len;
    cs_buf_adds(out, "<div class=\"charts\">\n");
    const size_t begun = out->len;
    for (int i = 0; i < cs_n_metrics; i++)
        for (int k = 0; k < 1 + (cs_metrics[i].members != NULL); k++) {
            struct chart c = {.metric = &cs_metrics[i]};
            collect(&report->store->metrics, k == 1, &c);
            fit(&c);
            if (c.n > 0)
                draw_chart(&c, k == 1, out);
            for (int l = 0; l < c.n; l++)
                free(c.line[l].bucket);
        }
    const bool is_empty = out->len == begun;
    cs_buf_adds(out, "</div>\n<p>Values are those of the last step. Where steps were put together, "
                     "the line is their mean and the band goes from the least to the greatest; a "
                     "fat line is smoothed.</p>\n");
    if (is_empty) {
        out->len = before;
        out->data[before] = '\0';
    }
}
