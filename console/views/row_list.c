/* Filters and sorts rows of tables. */
#include "console/views/row_list.h"

#include <stdlib.h>

struct keyed {
    double key;
    int row;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1; /* a figure that is not known is put last, below */
    return x->row - y->row;
}

static void sort(const struct cs_rows *rows, const struct cs_store *store, const void *made,
                 int how, int *out, int n)
{
    struct keyed *all = calloc((size_t)n + 1, sizeof *all);
    CS_ASSERT(all);
    for (int i = 0; i < n; i++) {
        const double key = rows->key(store, made, out[i], how);
        all[i] = (struct keyed){key == key ? key : -1e300, out[i]};
    }
    qsort(all, (size_t)n, sizeof *all, by_key);
    for (int i = 0; i < n; i++)
        out[i] = all[i].row;
    free(all);
}

int cs_rows_order(const struct cs_rows *rows, const struct cs_store *store,
                  const struct cs_screen *screen, int out[CS_ROWS_MAX])
{
    const char *filter = screen->filter[rows->view];
    const int how = screen->row_sort[rows->view], all = rows->count(store);
    struct cs_needle needle;
    struct cs_buf text = {0};
    void *made = rows->make && (filter[0] || how > 0) ? rows->make(store) : NULL;
    int n = 0;
    cs_needle_make(&needle, filter);
    for (int i = 0; i < all && i < CS_ROWS_MAX; i++) {
        cs_buf_reset(&text);
        if (filter[0])
            rows->text(store, made, i, &text);
        if (!filter[0] || cs_needle_match(&needle, cs_buf_str(&text), NULL, NULL))
            out[n++] = i;
    }
    cs_needle_free(&needle);
    cs_buf_free(&text);
    if (how > 0)
        sort(rows, store, made, how, out, n);
    free(made);
    return n;
}

bool cs_rows_are_chosen(const struct cs_rows *rows, const struct cs_screen *screen)
{
    return screen->filter[rows->view][0] || screen->row_sort[rows->view] > 0;
}

void cs_rows_head(const struct cs_rows *rows, const struct cs_store *store,
                  const struct cs_screen *screen, struct cs_fields *fields)
{
    if (screen->filter[rows->view][0])
        cs_fields_add(fields, CS_STYLE_TITLE, 0, "%d of %d with \"%.40s\"",
                      cs_rows_count(rows, store, screen), rows->count(store),
                      screen->filter[rows->view]);
    if (screen->row_sort[rows->view] > 0)
        cs_fields_add(fields, CS_STYLE_TITLE, 0, "by %s", rows->sort[screen->row_sort[rows->view]]);
}

enum cs_style cs_rows_style(const struct cs_rows *rows, const struct cs_store *store,
                            const struct cs_screen *screen, const void *made, int i,
                            enum cs_style usual)
{
    struct cs_needle needle;
    struct cs_buf text = {0};
    if (screen->find[0] == '\0')
        return usual;
    cs_needle_make(&needle, screen->find);
    rows->text(store, made, i, &text);
    const bool is_found = cs_needle_match(&needle, cs_buf_str(&text), NULL, NULL);
    cs_needle_free(&needle);
    cs_buf_free(&text);
    return is_found ? CS_STYLE_CURSOR : usual;
}

int cs_rows_count(const struct cs_rows *rows, const struct cs_store *store,
                  const struct cs_screen *screen)
{
    int out[CS_ROWS_MAX];
    return cs_rows_order(rows, store, screen, out);
}

void cs_rows_each(const struct cs_rows *rows, const struct cs_store *store,
                  const struct cs_screen *screen,
                  bool (*take)(void *user, int row, const char *text), void *user)
{
    int out[CS_ROWS_MAX];
    const int n = cs_rows_order(rows, store, screen, out);
    struct cs_buf text = {0};
    void *made = rows->make ? rows->make(store) : NULL;
    bool goes_on = true;
    for (int i = 0; i < n && goes_on; i++) {
        cs_buf_reset(&text);
        rows->text(store, made, out[i], &text);
        goes_on = take(user, i, cs_buf_str(&text));
    }
    free(made);
    cs_buf_free(&text);
}

unsigned cs_rows_next_sort(const struct cs_rows *rows, struct cs_screen *screen)
{
    int *how = &screen->row_sort[rows->view];
    *how = *how + 1 < CS_ROWS_SORTS && rows->sort[*how + 1] ? *how + 1 : 0;
    return CS_DO_DRAW;
}
