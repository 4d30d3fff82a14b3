/* What the mouse does: a click chooses a view or a row, the wheel moves. */
#ifndef CS_CONSOLE_SCREEN_MOUSE_H
#define CS_CONSOLE_SCREEN_MOUSE_H

#include "console/views/state/view.h"

struct cs_mouse {
    int cols, rows; /* of the screen */
    int x, y;
    int wheel; /* -1 up, 1 down, 0: a click */
};

unsigned cs_screen_mouse(struct cs_screen *screen, const struct cs_store *store,
                         const struct cs_mouse *mouse); /* CS_DO_* */

/* Column where the tab of a view begins; of CS_VIEW_COUNT: where the last one ends. */
int cs_tab_at(enum cs_view view, bool is_compact);

#endif
