/* Looks up the views that registry.h lists (a new one is a line there), and asks the one that is
 * shown. */
#include <string.h>

#include "console/views/view.h"

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
