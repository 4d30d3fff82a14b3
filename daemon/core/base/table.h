/* Column tables as text of a given width: used by the command line and by the screens.
 *
 * Columns drop by priority (the highest number first, the rightmost of equals; 0 never drops) until
 * the minimum widths fit; then the widest columns shrink until the row fits. What is aligned to the
 * right is a figure: it is whole, or its column is dropped, and cut only where nothing is left to
 * drop. Widths are terminal columns of UTF-8 text; cells are escaped (control characters never reach
 * the terminal) and cut cells end in "~". Columns are separated by two spaces; lines have no trailing
 * spaces. */
#ifndef CS_BASE_TABLE_H
#define CS_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"

enum cs_align { CS_ALIGN_LEFT, CS_ALIGN_RIGHT };

struct cs_column {
    const char *title;
    int min_width, max_width; /* max_width 0: no limit; min_width: of what is aligned to the left */
    int priority;             /* 0: always shown; higher drops earlier */
    enum cs_align align;
};

#define CS_TABLE_GAP     2
#define CS_TABLE_COLUMNS 64

struct cs_table;

/* columns must outlive the table; at most CS_TABLE_COLUMNS */
struct cs_table *cs_table_new(const struct cs_column *columns, int n_columns);
void cs_table_free(struct cs_table *table);                          /* accepts NULL */
void cs_table_add(struct cs_table *table, const char *const *cells); /* copied; NULL prints "-" */
int cs_table_rows(const struct cs_table *table);
/* width 0: as wide as it wants. Title line first unless has_title is false. */
void cs_table_render(const struct cs_table *table, int width, bool has_title, struct cs_buf *out);
/* widths[i] for the screens: 0 where the column is dropped */
void cs_table_widths(const struct cs_table *table, int width, int *widths);

/* The layout rule itself: wanted[i] columns of text -> widths[i], 0 = dropped. Pure. */
void cs_table_layout(const struct cs_column *columns, int n, const int *wanted, int width,
                     int *widths);
/* text padded or cut to exactly width columns */
void cs_table_cell(struct cs_buf *out, const char *text, int width, enum cs_align align);

#endif
