/* Screen size to rectangles; see layout.h. */
#include "console/screen/layout.h"

enum { LINE_COLS = 60, LINE_ROWS = 15, NORMAL_COLS = 100, NORMAL_ROWS = 30 };

enum { WIDE_COLS = 160, WIDE_ROWS = 40, SIDE_COLS = 80, MAIN_COLS = 100 };

enum { TOP = 3, BOTTOM = 2 };

static void add_side(struct cs_layout *layout, int body_h)
{
    int w = layout->pane[0].w;
    int main_w = w - SIDE_COLS - 1 > MAIN_COLS ? w - SIDE_COLS - 1 : w * 5 / 9;
    int x = main_w + 1, side_w = w - x, upper_h = body_h / 2;
    layout->pane[0].w = main_w;
    layout->divider_x = main_w;
    layout->title[1] = (struct cs_rect){x, TOP, side_w, 1};
    layout->pane[1] = (struct cs_rect){x, TOP + 1, side_w, upper_h - 1};
    layout->title[2] = (struct cs_rect){x, TOP + upper_h, side_w, 1};
    layout->pane[2] = (struct cs_rect){x, TOP + upper_h + 1, side_w, body_h - upper_h - 1};
    layout->n_panes = 3;
}

struct cs_layout cs_layout(int cols, int rows, enum cs_view view)
{
    const struct cs_view_row *row = cs_view_row(view);
    struct cs_layout layout = {
        .divider_x = -1, .view = {view, row->beside[0], row->beside[1]}
    };
    cols = cols > 0 ? cols : 0;
    rows = rows > 0 ? rows : 0;
    if (cols < LINE_COLS || rows < LINE_ROWS) {
        layout.header = (struct cs_rect){0, 0, cols, rows > 0 ? 1 : 0};
        return layout;
    }
    layout.kind = cols < NORMAL_COLS || rows < NORMAL_ROWS ? CS_LAYOUT_COMPACT : CS_LAYOUT_NORMAL;
    layout.header = (struct cs_rect){0, 0, cols, 1};
    layout.tabs = (struct cs_rect){0, 1, cols, 1};
    layout.top_rule = (struct cs_rect){0, 2, cols, 1};
    layout.bottom_rule = (struct cs_rect){0, rows - BOTTOM, cols, 1};
    layout.keys = (struct cs_rect){0, rows - 1, cols, 1};
    layout.pane[0] = (struct cs_rect){0, TOP, cols, rows - TOP - BOTTOM};
    layout.n_panes = 1;
    if (cols >= WIDE_COLS && rows >= WIDE_ROWS) {
        layout.kind = CS_LAYOUT_WIDE;
        add_side(&layout, rows - TOP - BOTTOM);
    }
    return layout;
}
