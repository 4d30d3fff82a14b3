/* Finds what lies under the mouse. */
#include "console/screen/mouse.h"

#include <string.h>

#include "console/screen/keys/keys.h"
#include "console/screen/panes.h"

enum { WHEEL_ROWS = 3 };

int cs_tab_at(enum cs_view view, bool is_compact)
{
    int x = 0;
    for (int v = 0; v < (int)view; v++) {
        const struct cs_view_ops *ops = cs_view_ops((enum cs_view)v);
        const char *title = is_compact ? ops->short_title : ops->title;
        x += (int)(strlen(ops->key) + strlen(title)) + 3 + (is_compact ? 0 : 1);
    }
    return x;
}

static bool is_in(struct cs_rect rect, const struct cs_mouse *mouse)
{
    return mouse->x >= rect.x && mouse->x < rect.x + rect.w && mouse->y >= rect.y &&
           mouse->y < rect.y + rect.h;
}

static void choose_tab(struct cs_screen *screen, const struct cs_mouse *mouse, bool is_compact)
{
    for (int v = 0; v < CS_VIEW_COUNT; v++)
        if (mouse->x >= cs_tab_at((enum cs_view)v, is_compact) &&
            mouse->x < cs_tab_at((enum cs_view)(v + 1), is_compact))
            cs_screen_show(screen, (enum cs_view)v);
}

/* Rectangles begin at 0, so that an area without a canvas is enough to ask for a row. */
static void choose_row(struct cs_screen *screen, const struct cs_store *store, struct cs_rect pane,
                       int y)
{
    const struct cs_view_ops *view = cs_view_ops(screen->view);
    const struct cs_area area = {.w = pane.w, .h = pane.h};
    if (!view->list || !view->list->row_at)
        return;
    if (screen->has_help || screen->failure) /* it is covered */
        return;
    const int row = view->list->row_at(store, screen, area, y - pane.y);
    if (row >= 0)
        view->move(screen, store, row - view->list->cursor(store, screen));
}

unsigned cs_screen_mouse(struct cs_screen *screen, const struct cs_store *store,
                         const struct cs_mouse *mouse)
{
    const struct cs_panes panes = cs_panes_of(mouse->cols, mouse->rows, screen->view);
    if (screen->prompt != CS_PROMPT_NONE)
        return CS_DO_DRAW; /* a question waits for its answer */
    if (mouse->wheel != 0)
        return cs_act_move(screen, store, mouse->wheel * WHEEL_ROWS);
    if (is_in(panes.tabs, mouse))
        choose_tab(screen, mouse, panes.kind == CS_PANES_COMPACT);
    for (int i = 1; i < panes.n; i++)
        if (is_in(panes.pane[i], mouse) || is_in(panes.title[i], mouse)) {
            cs_screen_show(screen, panes.view[i]);
            return CS_DO_DRAW;
        }
    if (panes.n > 0 && is_in(panes.pane[0], mouse))
        choose_row(screen, store, panes.pane[0], mouse->y);
    return CS_DO_DRAW;
}
