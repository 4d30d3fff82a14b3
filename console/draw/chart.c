/* Lines of numbers as dots. */
#include "console/draw/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"

enum { LABEL_W = 6, ROW_DOTS = 4, COL_DOTS = 2, NONE = 0xff };

struct dots {
    int w, h;       /* cells */
    uint8_t *mask;  /* (h, w) as Braille patterns have it */
    uint8_t *style; /* (h, w) enum cs_style of the last line that was there */
    struct cs_axis x, y;
};

int cs_chart_dots(int w)
{
    return w > LABEL_W + 1 ? (w - LABEL_W - 1) * COL_DOTS : 1;
}

static bool is_inside(const struct cs_chart *chart, const struct cs_chart_point *p)
{
    return p->x >= chart->from && p->x <= chart->to && isfinite(p->mean);
}

struct cs_axis cs_chart_axis(const struct cs_chart *chart)
{
    double low = (double)NAN, high = (double)NAN;
    for (int l = 0; l < chart->n; l++)
        for (int i = 0; i < chart->line[l].n; i++) {
            const struct cs_chart_point *p = &chart->line[l].point[i];
            const bool has_range = chart->line[l].kind == CS_CHART_RANGE;
            if (!is_inside(chart, p))
                continue;
            low = fmin(low, has_range ? p->low : p->mean);
            high = fmax(high, has_range ? p->high : p->mean);
        }
    return cs_axis_fit(low, high, chart->is_log);
}

/* --- dots ------------------------------------------------------------------------------------- */

static void set_dot(struct dots *d, int x, int y, enum cs_style style)
{
    static const uint8_t bits[ROW_DOTS][COL_DOTS] = {
        {0x01, 0x08},
        {0x02, 0x10},
        {0x04, 0x20},
        {0x40, 0x80},
    };

    if (x < 0 || y < 0 || x >= d->w * COL_DOTS || y >= d->h * ROW_DOTS)
        return;
    const int cell = y / ROW_DOTS * d->w + x / COL_DOTS;
    if (d->style[cell] != style && d->style[cell] != NONE)
        d->mask[cell] = 0; /* a cell has one colour: that of the line over the others */
    d->mask[cell] |= bits[y % ROW_DOTS][x % COL_DOTS];
    d->style[cell] = (uint8_t)style;
}

static int dot_x(const struct dots *d, double x)
{
    return (int)lround(cs_axis_share(&d->x, x) * (d->w * COL_DOTS - 1));
}

/* 0 at the top; false: a log axis does not have it */
static bool dot_y(const struct dots *d, double y, int *out)
{
    const double share = cs_axis_share(&d->y, y);
    if (!isfinite(share))
        return false;
    const double rows = d->h * ROW_DOTS - 1, at = rows - share * rows;
    *out = at < -1 ? -1 : at > rows + 1 ? (int)rows + 1 : (int)lround(at);
    return true;
}

static void stroke(struct dots *d, int x0, int y0, int x1, int y1, enum cs_style style)
{
    const int steps = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= steps; i++) {
        const double share = steps > 0 ? (double)i / steps : 0;
        set_dot(d, x0 + (int)lround(share * (x1 - x0)), y0 + (int)lround(share * (y1 - y0)), style);
    }
}

static void draw_point(struct dots *d, const struct cs_chart_line *line,
                       const struct cs_chart_point *p, int x, int y)
{
    int low = y, high = y;
    if (line->kind == CS_CHART_RANGE && dot_y(d, p->low, &low) && dot_y(d, p->high, &high))
        stroke(d, x, low, x, high, line->style);
    if (line->kind == CS_CHART_MARKS) {
        stroke(d, x - 1, y, x + 1, y, line->style);
        stroke(d, x, y - 1, x, y + 1, line->style);
    }
    set_dot(d, x, y, line->style);
}

static void draw_line(struct dots *d, const struct cs_chart *chart,
                      const struct cs_chart_line *line)
{
    int last_x = 0, last_y = 0;
    bool has_last = false;
    for (int i = 0; i < line->n; i++) {
        const struct cs_chart_point *p = &line->point[i];
        int x = dot_x(d, p->x), y;
        if (!is_inside(chart, p) || !dot_y(d, p->mean, &y)) {
            has_last = has_last && isfinite(p->mean); /* a gap where it diverged */
            continue;
        }
        if (has_last)
            stroke(d, last_x, last_y, x, y, line->style);
        draw_point(d, line, p, x, y);
        last_x = x;
        last_y = y;
        has_last = true;
    }
}

/* --- cells ------------------------------------------------------------------------------------ */

/* where in its height a cell has dots */
static const char *ascii_mark(uint8_t mask)
{
    const bool top = (mask & 0x09) != 0, middle = (mask & 0x36) != 0, bottom = (mask & 0xc0) != 0;
    return top && bottom      ? "|"
           : top && middle    ? "'"
           : top              ? "\""
           : bottom && middle ? ","
           : bottom           ? "_"
                              : "-";
}

static void draw_cells(const struct dots *d, struct cs_area area, enum cs_glyph_set glyphs)
{
    for (int y = 0; y < d->h; y++)
        for (int x = 0; x < d->w; x++) {
            const uint8_t mask = d->mask[y * d->w + x];
            char text[4] = {(char)0xe2, (char)(0xa0 | mask >> 6), (char)(0x80 | (mask & 0x3f)), 0};
            if (mask != 0)
                cs_draw(area, x, y, (enum cs_style)d->style[y * d->w + x],
                        glyphs == CS_GLYPHS_UTF8 ? text : ascii_mark(mask));
        }
}

/* ! in the columns where nothing finite was */
static void draw_bad(const struct dots *d, const struct cs_chart *chart, struct cs_area area)
{
    for (int l = 0; l < chart->n; l++)
        for (int i = 0; i < chart->line[l].n; i++) {
            const struct cs_chart_point *p = &chart->line[l].point[i];
            if ((p->has_bad || !isfinite(p->mean)) && p->x >= chart->from && p->x <= chart->to)
                cs_draw(area, dot_x(d, p->x) / COL_DOTS, d->h - 1, CS_STYLE_BAD, "!");
        }
}

static void draw_marks(const struct dots *d, const struct cs_chart *chart, struct cs_area area)
{
    for (int l = 0; l < chart->n; l++) {
        const struct cs_chart_line *line = &chart->line[l];
        const char text[2] = {line->mark, '\0'};
        int at = line->n - 1, y;
        while (at >= 0 && !is_inside(chart, &line->point[at]))
            at--;
        if (line->mark == '\0' || at < 0 || !dot_y(d, line->point[at].mean, &y))
            continue;
        y = y < 0 ? 0 : y / ROW_DOTS >= d->h ? d->h - 1 : y / ROW_DOTS;
        cs_draw(area, dot_x(d, line->point[at].x) / COL_DOTS, y, line->style, text);
    }
}

static void draw_cursor(const struct dots *d, const struct cs_chart *chart, struct cs_area area,
                        enum cs_glyph_set glyphs)
{
    if (!(chart->cursor >= chart->from && chart->cursor <= chart->to))
        return;
    const int x = dot_x(d, chart->cursor) / COL_DOTS;
    for (int y = 0; y < d->h; y++)
        if (d->mask[y * d->w + x] == 0)
            cs_draw(area, x, y, CS_STYLE_KEY, cs_glyph(glyphs, CS_GLYPH_VLINE));
}

/* --- axes ------------------------------------------------------------------------------------- */

static void draw_y(const struct dots *d, struct cs_area area, enum cs_glyph_set glyphs)
{
    double tick[CS_AXIS_TICKS];
    char text[32];
    const int n = cs_axis_ticks(&d->y, d->h > 2 ? (d->h + 1) / 2 : 2, tick);
    for (int y = 0; y < d->h; y++)
        cs_draw(area, LABEL_W, y, CS_STYLE_DIM, cs_glyph(glyphs, CS_GLYPH_VLINE));
    for (int i = 0; i < n; i++) {
        int y;
        if (!dot_y(d, tick[i], &y) || y < 0 || y / ROW_DOTS >= d->h)
            continue;
        cs_axis_label(text, sizeof text, tick[i],
                      d->y.is_log ? tick[i]
                      : n > 1     ? tick[1] - tick[0]
                                  : 0);
        cs_draw_right(area, LABEL_W, y / ROW_DOTS, CS_STYLE_DIM, text);
    }
}

static void draw_x(const struct dots *d, const struct cs_chart *chart, struct cs_area area)
{
    double tick[CS_AXIS_TICKS];
    char text[48];
    const int n = cs_axis_ticks(&d->x, d->w / 12 + 1, tick), left = LABEL_W + 1;
    int free_from = left;
    for (int i = 0; i < n; i++) {
        cs_axis_label(text, 32, tick[i], cs_axis_apart(tick, n));
        if (i + 1 == n && chart->x_unit != NULL && chart->x_unit[0] != '\0') {
            strcat(text, " ");
            strncat(text, chart->x_unit, 12);
        }
        const int width = cs_utf8_width(text, strlen(text));
        int x = left + dot_x(d, tick[i]) / COL_DOTS - (i > 0 ? width / 2 : 0);
        x = x + width > area.w ? area.w - width : x < left ? left : x;
        if (x < free_from)
            continue;
        cs_draw(area, x, d->h, CS_STYLE_DIM, text);
        free_from = x + width + 1;
    }
}

void cs_chart_draw(const struct cs_chart *chart, struct cs_area area, enum cs_glyph_set glyphs)
{
    if (area.w < CS_CHART_MIN_W || area.h < CS_CHART_MIN_H)
        return;
    struct dots d = {.w = area.w - LABEL_W - 1,
                     .h = area.h - 1,
                     .x = cs_axis_fit(chart->from, chart->to, false),
                     .y = cs_chart_axis(chart)};
    const size_t cells = (size_t)d.w * (size_t)d.h;
    d.mask = calloc(cells, 1);
    d.style = malloc(cells);
    CS_ASSERT(d.mask && d.style);
    memset(d.style, NONE, cells);
    struct cs_area inside = cs_area_part(area, LABEL_W + 1, 0, d.w, d.h);
    for (int l = 0; l < chart->n; l++)
        draw_line(&d, chart, &chart->line[l]);
    draw_y(&d, area, glyphs);
    draw_x(&d, chart, area);
    draw_cursor(&d, chart, inside, glyphs);
    draw_cells(&d, inside, glyphs);
    draw_marks(&d, chart, inside);
    draw_bad(&d, chart, inside);
    free(d.mask);
    free(d.style);
}
