/* Looks up the views that registry.h lists (a new one is a line there), and asks the one that is
 * shown. */
#include <string.h>

#include "console/views/state/view.h"
#include "core/base/str.h"

static const struct {
    const char *name;
    const struct cs_view_ops *ops;
} views[CS_VIEW_COUNT] = {

#define X(id, name) {#name, &cs_view_##name},
    CS_VIEW_TABLE(X)
#undef X
};

const struct cs_view_ops *cs_view_ops(enum cs_view view)
{
    return views[view].ops;
}

const struct cs_view_text *cs_screen_text(const struct cs_screen *screen)
{
    const struct cs_view_text *text = cs_view_ops(screen->view)->text;
    const bool is_covered = screen->has_help || screen->failure != 0;
    return text && !is_covered && text->is_open(screen) ? text : NULL;
}

const char *cs_view_name(enum cs_view view)
{
    return views[view].name;
}

bool cs_view_find(const char *name, enum cs_view *view)
{
    for (int v = 0; v < CS_VIEW_COUNT; v++)
        if (strcmp(views[v].name, name) == 0) {
            *view = (enum cs_view)v;
            return true;
        }
    return false;
}

bool cs_screen_prepare(struct cs_screen *screen, const struct cs_store *store)
{
    const struct cs_view_ops *view = cs_view_ops(screen->view);
    return view->prepare && view->prepare(screen, store);
}

const struct cs_store_job *cs_screen_job(const struct cs_store *store,
                                         const struct cs_screen *screen)
{
    const struct cs_view_ops *view = cs_view_ops(screen->view);
    return view->job ? view->job(store, screen) : cs_store_selected(store);
}

struct picked {
    int row; /* -1: all */
    struct cs_buf *out;
};

static bool pick(void *user, int row, const char *text)
{
    const struct picked *p = user;
    if (p->row == row)
        cs_buf_adds(p->out, text);
    if (p->row < 0) {
        cs_str_escape(p->out, text, strlen(text), false);
        cs_buf_addc(p->out, '\n');
    }
    return p->row != row;
}

void cs_view_row_text(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_buf *out)
{
    const struct cs_view_list *list = cs_view_ops(screen->view)->list;
    list->each(store, screen, pick,
               &(struct picked){.row = list->cursor(store, screen), .out = out});
}

void cs_view_rows_text(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_buf *out)
{
    const struct cs_view_list *list = cs_view_ops(screen->view)->list;
    list->each(store, screen, pick, &(struct picked){.row = -1, .out = out});
}
