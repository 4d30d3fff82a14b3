/* A line that is typed, as it is drawn. */
#ifndef CS_CONSOLE_VIEWS_EDIT_DRAW_H
#define CS_CONSOLE_VIEWS_EDIT_DRAW_H

#include "console/draw/canvas.h"
#include "console/views/state/edit.h"

/* From column x on behind the mark, with the cursor in it unless it is not typed now; where it is long, its
 * end. */
void cs_edit_draw(const struct cs_edit *edit, const char *mark, struct cs_area area, int x, int y,
                  bool has_cursor);

#endif
