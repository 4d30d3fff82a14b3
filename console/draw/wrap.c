/* Text over several rows: broken at spaces, inside a word only where it is wider than a row. */
#include <string.h>

#include "console/draw/widget.h"
#include "core/base/str.h"

size_t cs_wrap_next(const char *text, int width)
{
    int used = 0;
    const size_t n = strlen(text);
    size_t fits = cs_utf8_fit(text, n, width > 0 ? width : 1, &used);
    if (fits >= n)
        return n;
    if (fits == 0)
        return 1; /* one character is wider than the row: get on */
    for (size_t at = text[fits] == ' ' ? fits : fits - 1; at > fits / 3; at--)
        if (text[at] == ' ')
            return at + 1;
    return fits;
}

int cs_wrap_rows(const char *text, int width)
{
    int rows = 0;
    do {
        text += cs_wrap_next(text, width);
        rows++;
    } while (*text);
    return rows;
}

int cs_draw_wrap(struct cs_area area, int x, int y, int width, int rows, enum cs_style style,
                 enum cs_glyph_set glyphs, const char *text)
{
    int row = 0;
    for (; row < rows && (row == 0 || *text); row++) {
        const size_t n = cs_wrap_next(text, width);
        if (row + 1 == rows && text[n]) {
            cs_draw_cut(area, x, y + row, width, style, glyphs, text);
            return rows;
        }
        const size_t gap = row > 0 ? strspn(text, " ") : 0; /* what is left of a wide one */
        if (gap < n)
            cs_draw_n(area, x, y + row, style, text + gap, n - gap);
        text += n;
    }
    return row;
}
