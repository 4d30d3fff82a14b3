/* A chart: lines over one x axis, in dots of Braille characters (2 x 4 a cell) or, in ASCII, in
 * marks of a third of a cell's height. One widget for every series that is drawn large. */
#ifndef CS_CONSOLE_DRAW_CHART_H
#define CS_CONSOLE_DRAW_CHART_H

#include "console/draw/axis.h"
#include "console/draw/canvas.h"

struct cs_chart_point {
    double x, mean;   /* mean NaN: nothing finite was there */
    double low, high; /* what the mean is of */
    bool has_bad;     /* some value was not finite, which is marked with ! */
};

enum cs_chart_kind {
    CS_CHART_LINE,  /* through the means */
    CS_CHART_RANGE, /* the same, and strokes from low to high */
    CS_CHART_MARKS  /* single values, a small cross each, joined by a line */
};

struct cs_chart_line {
    const struct cs_chart_point *point; /* (n), x ascending */
    int n;
    enum cs_chart_kind kind;
    enum cs_style style;
    char mark; /* drawn at its right end, 0: none */
};

enum { CS_CHART_LINES = 16, CS_CHART_MIN_W = 16, CS_CHART_MIN_H = 3 };

struct cs_chart {
    struct cs_chart_line line[CS_CHART_LINES]; /* later ones over earlier ones */
    int n;
    double from, to;    /* of x: what lies outside is not drawn */
    double cursor;      /* x that is marked; NaN: none */
    bool is_log;        /* y; where all values are above 0 */
    const char *x_unit; /* after the last label of x, "" none */
};

/* columns of dots that an area w wide has for points: more points than that are of no use */
int cs_chart_dots(int w);
/* The whole area: labels of y at its left, of x in its last row. Below CS_CHART_MIN_* nothing. */
void cs_chart_draw(const struct cs_chart *chart, struct cs_area area, enum cs_glyph_set glyphs);
/* y of what lies between from and to */
struct cs_axis cs_chart_axis(const struct cs_chart *chart);

#endif
