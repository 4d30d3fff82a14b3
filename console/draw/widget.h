/* Parts that views are made of, pure over an area: lines of fields, tables, sparklines, Gantt rows
 * and their time axis. */
#ifndef CS_CONSOLE_DRAW_WIDGET_H
#define CS_CONSOLE_DRAW_WIDGET_H

#include "console/draw/canvas.h"
#include "core/base/table.h"
#include "core/trace/series.h"
#include "core/trace/span.h"

/* --- a line of fields: what has the highest priority number goes first when it does not fit --- */

struct cs_field_text {
    char text[120];
    enum cs_style style;
    int priority; /* 0: always there */
};

struct cs_fields {
    struct cs_field_text field[24];
    int n;
};

void cs_fields_add(struct cs_fields *fields, enum cs_style style, int priority, const char *fmt,
                   ...) CS_PRINTF(4, 5);
/* from column x, two spaces apart; returns the columns used */
int cs_fields_draw(const struct cs_fields *fields, struct cs_area area, int x, int y);

/* --- text over several rows ------------------------------------------------------------------- */

/* bytes of text that go into a row of this width, with the space it is broken at */
size_t cs_wrap_next(const char *text, int width);
int cs_wrap_rows(const char *text, int width); /* at least 1 */
/* at most so many rows; what does not fit ends in the MORE glyph; returns the rows used */
int cs_draw_wrap(struct cs_area area, int x, int y, int width, int rows, enum cs_style style,
                 enum cs_glyph_set glyphs, const char *text);

/* --- a table ---------------------------------------------------------------------------------- */

enum { CS_WIDGET_COLUMNS = 16 };

struct cs_grid {
    const struct cs_column *column;
    int n_columns;
    int width[CS_WIDGET_COLUMNS]; /* 0: dropped */
};

/* widths for cells (n_rows, n_columns), NULL cells count as "-" */
void cs_grid_layout(struct cs_grid *grid, const char *const *cells, int n_rows, int width);
void cs_grid_title(const struct cs_grid *grid, struct cs_area area, int x, int y);
/* text in the last line, and how many rows are not shown */
void cs_grid_foot(struct cs_area area, int y, enum cs_style style, enum cs_glyph_set glyphs,
                  const char *text, int n_hidden);
/* styles: per column, or NULL for `style` everywhere */
void cs_grid_row(const struct cs_grid *grid, struct cs_area area, int x, int y, enum cs_style style,
                 const enum cs_style *styles, enum cs_glyph_set glyphs, const char *const *cells);

/* --- a series in one line --------------------------------------------------------------------- */

/* at most `width` cells of the whole series, scaled between its least and greatest mean; returns
 * the number of cells. low and high get the scale, NaN when nothing is known. */
int cs_spark_draw(const struct cs_series *series, struct cs_area area, int x, int y, int width,
                  enum cs_glyph_set glyphs, double *low, double *high);

/* --- Gantt ------------------------------------------------------------------------------------ */

struct cs_gantt_cell {
    /* 1-9, 0 forward of slots 0-9; a-z backward, A-Z weight part; '=' optimizer; NUL idle */
    char mark;
    enum cs_style style;
};

struct cs_window {
    int64_t from_ns, to_ns;
};

/* the part of [0, whole_ns) that is shown: 1/zoom of it, from `scroll` (share of the whole) on */
struct cs_window cs_gantt_window(int64_t whole_ns, int zoom, double scroll);

enum { CS_GANTT_ALL = -2 /* as a stage: every stage of the rank */ };

/* One cell per column. A column shows the span that covers most of it, when computing covers at
 * least half of it, or when a span shorter than a column lies there and the row has no more spans
 * than columns. Times outside the window are cut. */
void cs_gantt_row(const struct cs_span_step *step, int32_t stage, int32_t rank,
                  struct cs_window window, int width, struct cs_gantt_cell *cells);
/* Ticks at round times, each label at its own column and at least two apart; `out` takes width
 * characters and a NUL. Returns the unit of the labels. */
const char *cs_gantt_axis(struct cs_window window, int width, char *out);

#endif
