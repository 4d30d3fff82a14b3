/* Draws text into a grid of cells, cut to areas, and writes the grid as text. */
#include "console/draw/canvas.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"

struct cs_canvas {
    int cols, rows;
    struct cs_cell *cell; /* (rows, cols) */
};

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

struct cs_canvas *cs_canvas_new(int cols, int rows)
{
    struct cs_canvas *canvas = calloc(1, sizeof *canvas);
    CS_ASSERT(canvas);
    cs_canvas_resize(canvas, cols, rows);
    return canvas;
}

void cs_canvas_free(struct cs_canvas *canvas)
{
    if (!canvas)
        return;
    free(canvas->cell);
    free(canvas);
}

void cs_canvas_resize(struct cs_canvas *canvas, int cols, int rows)
{
    canvas->cols = clamp(cols, 0, CS_CANVAS_MAX);
    canvas->rows = clamp(rows, 0, CS_CANVAS_MAX);
    size_t n = (size_t)canvas->cols * (size_t)canvas->rows;
    free(canvas->cell);
    canvas->cell = calloc(n ? n : 1, sizeof *canvas->cell);
    CS_ASSERT(canvas->cell);
    cs_canvas_clear(canvas);
}

void cs_canvas_clear(struct cs_canvas *canvas)
{
    size_t n = (size_t)canvas->cols * (size_t)canvas->rows;
    for (size_t i = 0; i < n; i++)
        canvas->cell[i] = (struct cs_cell){.code = ' ', .style = CS_STYLE_TEXT};
}

int cs_canvas_cols(const struct cs_canvas *canvas)
{
    return canvas->cols;
}

int cs_canvas_rows(const struct cs_canvas *canvas)
{
    return canvas->rows;
}

static struct cs_cell *cell_at(const struct cs_canvas *canvas, int x, int y)
{
    return &canvas->cell[(size_t)y * (size_t)canvas->cols + (size_t)x];
}

const struct cs_cell *cs_canvas_cell(const struct cs_canvas *canvas, int x, int y)
{
    CS_ASSERT(x >= 0 && x < canvas->cols && y >= 0 && y < canvas->rows);
    return cell_at(canvas, x, y);
}

struct cs_area cs_canvas_area(struct cs_canvas *canvas)
{
    return (struct cs_area){canvas, 0, 0, canvas->cols, canvas->rows};
}

struct cs_area cs_area_part(struct cs_area area, int x, int y, int w, int h)
{
    int left = clamp(x, 0, area.w), top = clamp(y, 0, area.h);
    int right = clamp(x + (w > 0 ? w : 0), left, area.w);
    int bottom = clamp(y + (h > 0 ? h : 0), top, area.h);
    return (struct cs_area){area.canvas, area.x + left, area.y + top, right - left, bottom - top};
}

/* A write over one half of a wide character leaves no torn half behind. */
static void mend(struct cs_canvas *canvas, int x, int y)
{
    struct cs_cell *cell = cell_at(canvas, x, y);
    if (cell->code == 0 && x > 0)
        cell_at(canvas, x - 1, y)->code = ' ';
    if (cell->code != 0 && x + 1 < canvas->cols && cell_at(canvas, x + 1, y)->code == 0)
        cell_at(canvas, x + 1, y)->code = ' ';
}

static void put(struct cs_area area, int x, int y, uint32_t code, int width, enum cs_style style)
{
    if (y < 0 || y >= area.h || x < 0 || x + width > area.w)
        return;
    for (int i = 0; i < width; i++) {
        mend(area.canvas, area.x + x + i, area.y + y);
        *cell_at(area.canvas, area.x + x + i, area.y + y) =
            (struct cs_cell){.code = i ? 0 : code, .style = (uint8_t)style};
    }
}

int cs_draw_n(struct cs_area area, int x, int y, enum cs_style style, const char *bytes, size_t n)
{
    int at = x;
    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        size_t used = cs_utf8_decode(bytes + i, n - i, &code);
        if (used == 0 || cs_utf8_is_unsafe(code)) {
            code = '?';
            used = used ? used : 1;
        }
        int width = cs_utf8_code_width(code);
        if (width > 0)
            put(area, at, y, code, width, style);
        at += width;
        i += used;
    }
    return at - x;
}

int cs_draw(struct cs_area area, int x, int y, enum cs_style style, const char *text)
{
    return cs_draw_n(area, x, y, style, text, strlen(text));
}

int cs_drawf(struct cs_area area, int x, int y, enum cs_style style, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return cs_draw(area, x, y, style, text);
}

int cs_draw_right(struct cs_area area, int x_end, int y, enum cs_style style, const char *text)
{
    return cs_draw(area, x_end - cs_utf8_width(text, strlen(text)), y, style, text);
}

int cs_draw_cut(struct cs_area area, int x, int y, int width, enum cs_style style,
                enum cs_glyph_set glyphs, const char *text)
{
    size_t n = strlen(text);
    int used = 0;
    if (width <= 0)
        return 0;
    if (cs_utf8_width(text, n) <= width)
        return cs_draw_n(area, x, y, style, text, n);
    size_t fits = cs_utf8_fit(text, n, width - 1, &used);
    cs_draw_n(area, x, y, style, text, fits);
    cs_draw(area, x + used, y, style, cs_glyph(glyphs, CS_GLYPH_MORE));
    return used + 1;
}

void cs_fill(struct cs_area area, int x, int y, int width, enum cs_style style, const char *glyph)
{
    uint32_t code = ' ';
    int left = x > 0 ? x : 0;
    int right = width < area.w - x ? x + width : area.w;
    if (!cs_utf8_decode(glyph, strlen(glyph), &code) || cs_utf8_code_width(code) != 1)
        code = ' ';
    for (int i = left; i < right; i++)
        put(area, i, y, code, 1, style);
}

void cs_restyle(struct cs_area area, enum cs_style style)
{
    for (int y = 0; y < area.h; y++)
        for (int x = 0; x < area.w; x++)
            cell_at(area.canvas, area.x + x, area.y + y)->style = (uint8_t)style;
}

size_t cs_canvas_encode(uint32_t code, char b[4])
{
    const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; code >>= 6)
        b[i] = (char)(0x80 | (code & 0x3f));
    b[0] = (char)(lead[n] | code);
    return n;
}

static void add_code(struct cs_buf *out, uint32_t code)
{
    char bytes[4];
    cs_buf_add(out, bytes, cs_canvas_encode(code, bytes));
}

void cs_canvas_text(const struct cs_canvas *canvas, struct cs_buf *out)
{
    for (int y = 0; y < canvas->rows; y++) {
        int end = canvas->cols;
        while (end > 0 && cell_at(canvas, end - 1, y)->code == ' ')
            end--;
        for (int x = 0; x < end; x++)
            if (cell_at(canvas, x, y)->code)
                add_code(out, cell_at(canvas, x, y)->code);
        cs_buf_addc(out, '\n');
    }
}
