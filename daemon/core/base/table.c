/* Prints columns of text, as wide as their cells need. */
#include "core/base/table.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/str.h"

struct row {
    struct row *next;
    const char *cells[];
};

struct cs_table {
    struct cs_arena *arena;
    const struct cs_column *columns;
    int n_columns, n_rows;
    int *wanted;
    struct row *first, *last;
};

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

struct cs_table *cs_table_new(const struct cs_column *columns, int n_columns)
{
    CS_ASSERT(n_columns > 0 && n_columns <= CS_TABLE_COLUMNS);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_table *table = CS_NEW(arena, struct cs_table);
    *table = (struct cs_table){.arena = arena, .columns = columns, .n_columns = n_columns};
    table->wanted = CS_NEW_ARRAY(arena, int, n_columns);
    for (int i = 0; i < n_columns; i++)
        table->wanted[i] = cs_utf8_width(columns[i].title, strlen(columns[i].title));
    return table;
}

void cs_table_free(struct cs_table *table)
{
    if (table)
        cs_arena_free(table->arena);
}

int cs_table_rows(const struct cs_table *table)
{
    return table->n_rows;
}

void cs_table_add(struct cs_table *table, const char *const *cells)
{
    size_t n = (size_t)table->n_columns;
    struct row *row = cs_arena_alloc(table->arena, sizeof *row + n * sizeof(row->cells[0]));
    struct cs_buf text = {0};
    for (size_t i = 0; i < n; i++) {
        const char *cell = cells[i] ? cells[i] : "-";
        cs_buf_reset(&text);
        cs_str_escape(&text, cell, strlen(cell), false);
        row->cells[i] = cs_arena_strdup(table->arena, cs_buf_str(&text));
        int width = cs_utf8_width(cs_buf_str(&text), text.len);
        if (width > table->wanted[i])
            table->wanted[i] = width;
    }
    cs_buf_free(&text);
    if (table->last)
        table->last->next = row;
    else
        table->first = row;
    table->last = row;
    table->n_rows++;
}

/* sum of the shown widths and the gaps between them */
static int total_width(const int *widths, int n)
{
    int total = 0, shown = 0;
    for (int i = 0; i < n; i++)
        if (widths[i]) {
            total += widths[i];
            shown++;
        }
    return total + (shown > 1 ? (shown - 1) * CS_TABLE_GAP : 0);
}

static bool drop_one(const struct cs_column *columns, int n, int *widths, int *mins)
{
    int victim = -1;
    for (int i = 0; i < n; i++)
        if (mins[i] && columns[i].priority > 0 &&
            (victim < 0 || columns[i].priority >= columns[victim].priority))
            victim = i;
    if (victim < 0)
        return false;
    widths[victim] = mins[victim] = 0;
    return true;
}

/* takes one column from the widest that is above its minimum (the rightmost of equals) */
static bool shrink_one(int n, int *widths, const int *mins)
{
    int victim = -1;
    for (int i = 0; i < n; i++)
        if (widths[i] > mins[i] && (victim < 0 || widths[i] >= widths[victim]))
            victim = i;
    if (victim < 0)
        return false;
    widths[victim]--;
    return true;
}

void cs_table_layout(const struct cs_column *columns, int n, const int *wanted, int width,
                     int *widths)
{
    int mins[CS_TABLE_COLUMNS];
    CS_ASSERT(n <= CS_TABLE_COLUMNS);
    for (int i = 0; i < n; i++) {
        int least = columns[i].min_width > 0 ? columns[i].min_width : 1;
        int most = columns[i].max_width > 0 ? columns[i].max_width : 1 << 20;
        widths[i] = clamp(wanted[i], least, most < least ? least : most);
        mins[i] = least < widths[i] && columns[i].align != CS_ALIGN_RIGHT ? least : widths[i];
    }
    if (width <= 0)
        return;
    while (total_width(mins, n) > width && drop_one(columns, n, widths, mins))
        ;
    if (total_width(mins, n) > width) /* what must stay gives up its minimum */
        for (int i = 0; i < n; i++)
            mins[i] = mins[i] ? 1 : 0;
    while (total_width(widths, n) > width && shrink_one(n, widths, mins))
        ;
}

void cs_table_widths(const struct cs_table *table, int width, int *widths)
{
    cs_table_layout(table->columns, table->n_columns, table->wanted, width, widths);
}

void cs_table_cell(struct cs_buf *out, const char *text, int width, enum cs_align align)
{
    size_t n = strlen(text);
    int used = cs_utf8_width(text, n);
    bool is_cut = used > width;
    if (width <= 0)
        return;
    if (is_cut) {
        n = cs_utf8_fit(text, n, width - 1, &used);
        used++;
    }
    int pad = width - used;
    if (align == CS_ALIGN_RIGHT)
        cs_buf_addf(out, "%*s", pad, "");
    cs_buf_add(out, text, n);
    if (is_cut)
        cs_buf_addc(out, '~');
    if (align == CS_ALIGN_LEFT)
        cs_buf_addf(out, "%*s", pad, "");
}

static void add_line(const struct cs_table *table, const char *const *cells, const int *widths,
                     struct cs_buf *out)
{
    size_t start = out->len;
    bool is_first = true;
    for (int i = 0; i < table->n_columns; i++) {
        if (!widths[i])
            continue;
        if (!is_first)
            cs_buf_addf(out, "%*s", CS_TABLE_GAP, "");
        is_first = false;
        cs_table_cell(out, cells[i], widths[i], table->columns[i].align);
    }
    while (out->len > start && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    cs_buf_addc(out, '\n');
}

void cs_table_render(const struct cs_table *table, int width, bool has_title, struct cs_buf *out)
{
    int widths[CS_TABLE_COLUMNS];
    cs_table_widths(table, width, widths);
    if (has_title) {
        const char *titles[CS_TABLE_COLUMNS];
        for (int i = 0; i < table->n_columns; i++)
            titles[i] = table->columns[i].title;
        add_line(table, titles, widths, out);
    }
    for (const struct row *row = table->first; row; row = row->next)
        add_line(table, row->cells, widths, out);
}
