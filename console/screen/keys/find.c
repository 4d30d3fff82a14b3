/* Searches the rows of a list, whatever they are. */
#include "console/screen/keys/find.h"

#include <stdio.h>

struct search {
    struct cs_needle needle;
    int start;
    int first, last;               /* matches of all, -1 none */
    int at_or_before, at_or_after; /* ... of those around the start */
};

static bool compare(void *user, int row, const char *text)
{
    struct search *s = user;
    if (!cs_needle_match(&s->needle, text, NULL, NULL))
        return true;
    s->first = s->first < 0 ? row : s->first;
    s->last = row;
    s->at_or_before = row <= s->start ? row : s->at_or_before;
    s->at_or_after = row >= s->start && s->at_or_after < 0 ? row : s->at_or_after;
    return true;
}

/* the nearest from `start` on, over the end at the other one; -1: none */
static int look(const struct cs_store *store, const struct cs_screen *screen, int start,
                int direction)
{
    struct search s = {
        .start = start, .first = -1, .last = -1, .at_or_before = -1, .at_or_after = -1};
    cs_needle_make(&s.needle, screen->find);
    cs_view_ops(screen->view)->list->each(store, screen, compare, &s);
    cs_needle_free(&s.needle);
    if (direction > 0)
        return s.at_or_after >= 0 ? s.at_or_after : s.first;
    return s.at_or_before >= 0 ? s.at_or_before : s.last;
}

static void go(struct cs_screen *screen, const struct cs_store *store, int start, int direction)
{
    const struct cs_view_ops *view = cs_view_ops(screen->view);
    if (!view->list || screen->find[0] == '\0') {
        cs_screen_say(screen, CS_STYLE_DIM,
                      view->list ? "nothing is looked for yet: / asks for a text"
                                 : "this view has no list to look through");
        return;
    }
    const int found = look(store, screen, start, direction);
    const int cursor = view->list->cursor(store, screen);
    if (found < 0) {
        char text[200];
        snprintf(text, sizeof text, "no row has \"%.100s\"", screen->find);
        cs_screen_say(screen, CS_STYLE_WARN, text);
        return;
    }
    view->move(screen, store, found - cursor);
    if ((found - start) * direction < 0)
        cs_screen_say(screen, CS_STYLE_DIM, "over the end, from the other one on");
}

void cs_find_first(struct cs_screen *screen, const struct cs_store *store)
{
    const struct cs_view_list *list = cs_view_ops(screen->view)->list;
    const int n = list ? list->count(store, screen) : 0;
    const int cursor = list ? list->cursor(store, screen) : 0;
    go(screen, store, cursor, n > 1 && cursor == n - 1 ? -1 : 1);
}

void cs_find_next(struct cs_screen *screen, const struct cs_store *store, int direction)
{
    const struct cs_view_list *list = cs_view_ops(screen->view)->list;
    const int cursor = list ? list->cursor(store, screen) : 0;
    go(screen, store, cursor + direction, direction);
}
