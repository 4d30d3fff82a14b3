/* Draws lines of fields, tables and sparklines into an area. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/widget.h"
#include "core/base/str.h"

enum { GAP = 2, SPARK_MAX = 256, SPARK_BUCKETS = 1024 };

static int width_of(const char *text)
{
    return cs_utf8_width(text, strlen(text));
}

void cs_fields_add(struct cs_fields *fields, enum cs_style style, int priority, const char *fmt,
                   ...)
{
    va_list args;
    if (fields->n == (int)CS_ARRAY_LEN(fields->field))
        return;
    struct cs_field_text *field = &fields->field[fields->n++];
    field->style = style;
    field->priority = priority;
    va_start(args, fmt);
    vsnprintf(field->text, sizeof field->text, fmt, args);
    va_end(args);
}

/* Which fields fit: drop the highest priority number, the rightmost of equals, until they do. */
static void choose_fields(const struct cs_fields *fields, int width, bool *is_shown)
{
    int total = -GAP;
    for (int i = 0; i < fields->n; i++) {
        is_shown[i] = fields->field[i].text[0] != '\0';
        total += is_shown[i] ? width_of(fields->field[i].text) + GAP : 0;
    }
    while (total > width) {
        int drop = -1;
        for (int i = 0; i < fields->n; i++)
            if (is_shown[i] && fields->field[i].priority > 0 &&
                (drop < 0 || fields->field[i].priority >= fields->field[drop].priority))
                drop = i;
        if (drop < 0)
            return;
        is_shown[drop] = false;
        total -= width_of(fields->field[drop].text) + GAP;
    }
}

int cs_fields_draw(const struct cs_fields *fields, struct cs_area area, int x, int y)
{
    bool is_shown[CS_ARRAY_LEN(fields->field)] = {false};
    int at = x;
    choose_fields(fields, area.w - x, is_shown);
    for (int i = 0; i < fields->n; i++) {
        if (!is_shown[i])
            continue;
        at += at > x ? GAP : 0;
        at += cs_draw(area, at, y, fields->field[i].style, fields->field[i].text);
    }
    return at - x;
}

/* --- table ------------------------------------------------------------------------------------ */

static const char *cell_text(const char *cell)
{
    return cell ? cell : "-";
}

void cs_grid_layout(struct cs_grid *grid, const char *const *cells, int n_rows, int width)
{
    int wanted[CS_WIDGET_COLUMNS];
    CS_ASSERT(grid->n_columns <= CS_WIDGET_COLUMNS);
    for (int c = 0; c < grid->n_columns; c++) {
        wanted[c] = width_of(grid->column[c].title);
        for (int r = 0; r < n_rows; r++) {
            int w = width_of(cell_text(cells[r * grid->n_columns + c]));
            wanted[c] = w > wanted[c] ? w : wanted[c];
        }
    }
    cs_table_layout(grid->column, grid->n_columns, wanted, width > 0 ? width : 0, grid->width);
}

static void draw_cell(const struct cs_grid *grid, int column, struct cs_area area, int x, int y,
                      enum cs_style style, enum cs_glyph_set glyphs, const char *text)
{
    int width = grid->width[column], used = width_of(text);
    if (grid->column[column].align == CS_ALIGN_RIGHT && used < width)
        x += width - used;
    cs_draw_cut(area, x, y, width, style, glyphs, text);
}

void cs_grid_title(const struct cs_grid *grid, struct cs_area area, int x, int y)
{
    for (int c = 0; c < grid->n_columns; c++) {
        if (grid->width[c] == 0)
            continue;
        draw_cell(grid, c, area, x, y, CS_STYLE_TITLE, CS_GLYPHS_ASCII, grid->column[c].title);
        x += grid->width[c] + CS_TABLE_GAP;
    }
}

void cs_grid_foot(struct cs_area area, int y, enum cs_style style, enum cs_glyph_set glyphs,
                  const char *text, int n_hidden)
{
    int width = area.w - 2;
    if (n_hidden > 0) {
        char more[32];
        snprintf(more, sizeof more, "  %d more (j/k)", n_hidden);
        cs_draw_right(area, area.w - 1, y, CS_STYLE_DIM, more);
        width -= (int)strlen(more);
    }
    cs_draw_cut(area, 1, y, width, style, glyphs, text);
}

void cs_grid_row(const struct cs_grid *grid, struct cs_area area, int x, int y, enum cs_style style,
                 const enum cs_style *styles, enum cs_glyph_set glyphs, const char *const *cells)
{
    for (int c = 0; c < grid->n_columns; c++) {
        if (grid->width[c] == 0)
            continue;
        draw_cell(grid, c, area, x, y, styles ? styles[c] : style, glyphs, cell_text(cells[c]));
        x += grid->width[c] + CS_TABLE_GAP;
    }
}

/* --- sparkline -------------------------------------------------------------------------------- */

/* mean over the finite values of buckets [from, to), NaN when there are none */
static double mean_of(const struct cs_series_bucket *bucket, uint32_t from, uint32_t to)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = from; i < to; i++) {
        sum += bucket[i].sum;
        n += bucket[i].n;
    }
    return n ? sum / n : (double)NAN;
}

int cs_spark_draw(const struct cs_series *series, struct cs_area area, int x, int y, int width,
                  enum cs_glyph_set glyphs, double *low, double *high)
{
    struct cs_series_bucket bucket[SPARK_BUCKETS];
    double mean[SPARK_MAX];
    int64_t last = cs_series_last_step(series);
    *low = *high = (double)NAN;
    if (width < 1 || last < 0)
        return 0;
    uint32_t n = cs_series_read(series, 0, last + 1, SPARK_BUCKETS, bucket);
    uint32_t cells = (uint32_t)(width < SPARK_MAX ? width : SPARK_MAX);
    cells = cells < n ? cells : n;
    for (uint32_t i = 0; i < cells; i++) {
        mean[i] = mean_of(bucket, i * n / cells, (i + 1) * n / cells);
        *low = fmin(*low, mean[i]); /* NaN counts as missing */
        *high = fmax(*high, mean[i]);
    }
    for (uint32_t i = 0; i < cells; i++) {
        double range = *high - *low;
        if (isnan(mean[i])) {
            cs_draw(area, x + (int)i, y, CS_STYLE_BAD, "!"); /* nothing finite in these steps */
            continue;
        }
        int level = range > 0 ? (int)((mean[i] - *low) / range * (CS_SPARK_LEVELS - 1) + 0.5) : 0;
        cs_draw(area, x + (int)i, y, CS_STYLE_FORWARD, cs_glyph_spark(glyphs, level));
    }
    return (int)cells;
}
