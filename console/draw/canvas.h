/* The canvas: a grid of cells that every screen is drawn into. Terminal and text dump are back ends
 * of it. Text is UTF-8; wide characters take two cells, marks of width 0 are dropped, control
 * characters and invalid bytes become '?', so nothing drawn can steer a terminal.
 *
 * Drawing goes to an area (a rectangle of the canvas) with coordinates relative to it; whatever
 * lies outside is cut. Any size from 0x0 and any coordinates are fine. */
#ifndef CS_CONSOLE_DRAW_CANVAS_H
#define CS_CONSOLE_DRAW_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

#include "console/draw/glyph.h"
#include "console/draw/theme.h"
#include "core/base/buf.h"

enum { CS_CANVAS_MAX = 4096 /* columns, rows: more are cut */ };

struct cs_cell {
    uint32_t code; /* 0: the right half of a wide character */
    uint8_t style; /* enum cs_style */
};

struct cs_canvas;

struct cs_area {
    struct cs_canvas *canvas;
    int x, y, w, h;
};

struct cs_canvas *cs_canvas_new(int cols, int rows);
void cs_canvas_free(struct cs_canvas *canvas);                       /* accepts NULL */
void cs_canvas_resize(struct cs_canvas *canvas, int cols, int rows); /* and clears */
void cs_canvas_clear(struct cs_canvas *canvas);
int cs_canvas_cols(const struct cs_canvas *canvas);
int cs_canvas_rows(const struct cs_canvas *canvas);
const struct cs_cell *cs_canvas_cell(const struct cs_canvas *canvas, int x, int y); /* inside */
struct cs_area cs_canvas_area(struct cs_canvas *canvas);
/* the part of `area` at (x, y) of w x h, cut to it */
struct cs_area cs_area_part(struct cs_area area, int x, int y, int w, int h);

/* All return the columns the text takes, also where it is cut. */
int cs_draw(struct cs_area area, int x, int y, enum cs_style style, const char *text);
int cs_draw_n(struct cs_area area, int x, int y, enum cs_style style, const char *bytes, size_t n);
int cs_drawf(struct cs_area area, int x, int y, enum cs_style style, const char *fmt, ...)
    CS_PRINTF(5, 6);
/* ends at column x_end (exclusive) */
int cs_draw_right(struct cs_area area, int x_end, int y, enum cs_style style, const char *text);
/* at most width columns; a cut text ends in the MORE glyph */
int cs_draw_cut(struct cs_area area, int x, int y, int width, enum cs_style style,
                enum cs_glyph_set glyphs, const char *text);
void cs_fill(struct cs_area area, int x, int y, int width, enum cs_style style, const char *glyph);
void cs_restyle(struct cs_area area, enum cs_style style); /* every cell of the area */

size_t cs_canvas_encode(uint32_t code, char utf8[4]); /* bytes of a code point */
/* rows as lines without trailing spaces, each ended by a newline */
void cs_canvas_text(const struct cs_canvas *canvas, struct cs_buf *out);

#endif
