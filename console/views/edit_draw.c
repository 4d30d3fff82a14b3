/* Draws a line that is typed. */
#include "console/views/edit_draw.h"

#include <string.h>

#include "core/base/str.h"

void cs_edit_draw(const struct cs_edit *edit, const char *mark, struct cs_area area, int x, int y,
                  bool has_cursor)
{
    const char *from = edit->text, *cursor = edit->text + edit->at;
    uint32_t code;
    x += cs_draw(area, x, y, CS_STYLE_KEY, mark);
    while (from < cursor && cs_utf8_width(from, (size_t)(cursor - from)) > area.w - x - 2) {
        const size_t n = cs_utf8_decode(from, strlen(from), &code);
        from += n ? n : 1;
    }
    cs_draw(area, x, y, has_cursor ? CS_STYLE_TEXT : CS_STYLE_DIM, from);
    if (!has_cursor)
        return;
    const int at = x + cs_utf8_width(from, (size_t)(cursor - from));
    const size_t n = cs_utf8_decode(cursor, strlen(cursor), &code);
    cs_draw_n(area, at, y, CS_STYLE_CURSOR, n ? cursor : " ", n ? n : 1);
}
