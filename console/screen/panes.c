/* Screen size to rectangles: where header, tabs, views and the key line stand. */
#include "console/screen/panes.h"

enum { LINE_COLS = 60, LINE_ROWS = 15, NORMAL_COLS = 100, NORMAL_ROWS = 30 };

enum { WIDE_COLS = 160, WIDE_ROWS = 40, SIDE_COLS = 80, MAIN_COLS = 100 };

enum { TOP = 3, BOTTOM = 2 };

static void add_side(struct cs_panes *panes, int body_h)
{
    int w = panes->pane[0].w;
    int main_w = w - SIDE_COLS - 1 > MAIN_COLS ? w - SIDE_COLS - 1 : w * 5 / 9;
    int x = main_w + 1, side_w = w - x, upper_h = body_h / 2;
    panes->pane[0].w = main_w;
    panes->divider_x = main_w;
    panes->title[1] = (struct cs_rect){x, TOP, side_w, 1};
    panes->pane[1] = (struct cs_rect){x, TOP + 1, side_w, upper_h - 1};
    panes->title[2] = (struct cs_rect){x, TOP + upper_h, side_w, 1};
    panes->pane[2] = (struct cs_rect){x, TOP + upper_h + 1, side_w, body_h - upper_h - 1};
    panes->n = 3;
}

struct cs_panes cs_panes_of(int cols, int rows, enum cs_view view)
{
    const struct cs_view_ops *row = cs_view_ops(view);
    struct cs_panes panes = {
        .divider_x = -1, .view = {view, row->beside[0], row->beside[1]}
    };
    cols = cols > 0 ? cols : 0;
    rows = rows > 0 ? rows : 0;
    if (cols < LINE_COLS || rows < LINE_ROWS) {
        panes.header = (struct cs_rect){0, 0, cols, rows > 0 ? 1 : 0};
        return panes;
    }
    panes.kind = cols < NORMAL_COLS || rows < NORMAL_ROWS ? CS_PANES_COMPACT : CS_PANES_NORMAL;
    panes.header = (struct cs_rect){0, 0, cols, 1};
    panes.tabs = (struct cs_rect){0, 1, cols, 1};
    panes.top_rule = (struct cs_rect){0, 2, cols, 1};
    panes.bottom_rule = (struct cs_rect){0, rows - BOTTOM, cols, 1};
    panes.keys = (struct cs_rect){0, rows - 1, cols, 1};
    panes.pane[0] = (struct cs_rect){0, TOP, cols, rows - TOP - BOTTOM};
    panes.n = 1;
    if (cols >= WIDE_COLS && rows >= WIDE_ROWS) {
        panes.kind = CS_PANES_WIDE;
        add_side(&panes, rows - TOP - BOTTOM);
    }
    return panes;
}
