/* Screen size to rectangles; pure. Rectangles never overlap and lie inside the screen. */
#ifndef CS_CONSOLE_SCREEN_PANES_H
#define CS_CONSOLE_SCREEN_PANES_H

#include "console/views/state/view.h"

enum cs_panes_kind {
    CS_PANES_LINE,    /* below 60x15: one status line */
    CS_PANES_COMPACT, /* below 100x30 */
    CS_PANES_NORMAL,
    CS_PANES_WIDE /* from 160x40: two more views beside the chosen one */
};

struct cs_rect {
    int x, y, w, h;
};

struct cs_panes {
    enum cs_panes_kind kind;
    struct cs_rect header, tabs, top_rule, bottom_rule, keys; /* h 0: none */
    struct cs_rect pane[3];
    struct cs_rect title[3]; /* of panes 1 and 2 */
    enum cs_view view[3];
    int n;
    int divider_x; /* column between the panes, -1 none */
};

struct cs_panes cs_panes_of(int cols, int rows, enum cs_view view);

#endif
