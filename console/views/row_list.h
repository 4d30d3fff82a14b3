/* Rows of a table that is more than a list: filtered, sorted, searched and copied as those of Jobs are. */
#ifndef CS_CONSOLE_VIEWS_ROW_LIST_H
#define CS_CONSOLE_VIEWS_ROW_LIST_H

#include "console/draw/widget.h"
#include "console/views/state/view.h"

enum { CS_ROWS_MAX = 8192, CS_ROWS_SORTS = 4 };

struct cs_rows {
    enum cs_view view;
    int (*count)(const struct cs_store *store);
    /* what text and key want to have made once, freed with free(); NULL: nothing */
    void *(*make)(const struct cs_store *store);
    /* the row as text, words apart by two blanks; appended */
    void (*text)(const struct cs_store *store, const void *made, int i, struct cs_buf *out);
    /* what the rows are ordered by, the largest first; sort: from 1 */
    double (*key)(const struct cs_store *store, const void *made, int i, int sort);
    const char *sort[CS_ROWS_SORTS]; /* names; 0: as they come; NULL: no more */
};

/* those that the filter lets through, in their order; returns how many */
int cs_rows_order(const struct cs_rows *rows, const struct cs_store *store,
                  const struct cs_screen *screen, int out[CS_ROWS_MAX]);
/* is something but all of them in their own order shown */
bool cs_rows_are_chosen(const struct cs_rows *rows, const struct cs_screen *screen);
/* what is chosen, after other fields */
void cs_rows_head(const struct cs_rows *rows, const struct cs_store *store,
                  const struct cs_screen *screen, struct cs_fields *fields);
/* of the row's text: the style of its name, where it is looked for another one */
enum cs_style cs_rows_style(const struct cs_rows *rows, const struct cs_store *store,
                            const struct cs_screen *screen, const void *made, int i,
                            enum cs_style usual);

/* for cs_view_list */
int cs_rows_count(const struct cs_rows *rows, const struct cs_store *store,
                  const struct cs_screen *screen);
void cs_rows_each(const struct cs_rows *rows, const struct cs_store *store,
                  const struct cs_screen *screen,
                  bool (*take)(void *user, int row, const char *text), void *user);
unsigned cs_rows_next_sort(const struct cs_rows *rows, struct cs_screen *screen);

#endif
