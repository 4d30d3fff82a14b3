/* A table of separated values: the first row names the columns, every other row is a sample with their cells as texts. A
 * cell that is a JSON list or object is that; an empty one is not there. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/arena.h"
#include "core/base/hash.h"
#include "core/base/system/io.h"
#include "input/data/shard/csv.h"
#include "input/data/shard/index.h"
#include "input/data/shard/json_tolerant.h"
#include "input/data/shard/shape.h"
#include "input/data/shard/shard_kinds.h"

enum { BLOCK = 1 << 20, COLUMNS_MAX = 4096 };

struct table {
    struct cs_arena *arena;
    char separator;
    const char **names; /* (n_names) of the columns */
    size_t n_names;
    struct cs_index rows; /* the first is that of the names */
};

static bool has_end(const char *path, const char *end)
{
    const size_t n = strlen(path), n_end = strlen(end);

    return n > n_end && strcasecmp(path + n - n_end, end) == 0;
}

static bool is_csv(const char *path, const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r' || bytes[i] == '\n'))
        i++;
    return (has_end(path, ".csv") || has_end(path, ".tsv")) &&
           (i == n || (bytes[i] != '[' && bytes[i] != '{'));
}

/* --- rows ------------------------------------------------------------------------------------- */

static enum cs_status add_row(struct cs_index *rows, uint64_t begin, uint64_t end,
                              struct cs_err *err)
{
    if (begin == end)
        return CS_OK; /* an empty line */
    if (rows->n == rows->cap) {
        const uint64_t cap = rows->cap == 0 ? 256 : 2 * rows->cap;
        struct cs_index_item *more = realloc(rows->items, cap * sizeof *more);
        if (more == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for the index of %llu samples",
                           (unsigned long long)cap);
        rows->items = more;
        rows->cap = cap;
    }
    rows->items[rows->n++] = (struct cs_index_item){begin, end - begin};
    return CS_OK;
}

static enum cs_status find_rows(const struct cs_shard_file *file, struct table *t, uint64_t max,
                                char *block, struct cs_err *err)
{
    struct cs_xxh3 *hash = cs_xxh3_new();
    struct cs_csv_scan scan = {.separator = t->separator};
    enum cs_status status = CS_OK;
    uint64_t at = 0, begin = 0;
    size_t got = BLOCK;
    char last = '\n';

    while (status == CS_OK && got == BLOCK && (max == 0 || t->rows.n <= max)) {
        status = cs_read_at(file->fd, file->path, block, BLOCK, at, &got, err);
        size_t i = at == 0 && got >= 3 && memcmp(block, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        begin += i;
        cs_xxh3_add(hash, block, got);
        for (; i < got && status == CS_OK; last = block[i++])
            if (cs_csv_ends_row(&scan, block[i])) {
                status = add_row(&t->rows, begin, at + i - (last == '\r' && at + i > begin), err);
                begin = at + i + 1;
            }
        at += got;
    }
    if (status == CS_OK && got < BLOCK)
        status = scan.in == CS_CSV_QUOTED
                     ? cs_fail(err, CS_CORRUPT,
                               "%s: ends inside of a cell in quotes, which row %llu begins",
                               file->path, (unsigned long long)t->rows.n + 1)
                     : add_row(&t->rows, begin, at, err);
    if (got < BLOCK)
        cs_xxh3_end(hash, t->rows.xxh3);
    cs_xxh3_free(hash);
    return status;
}

static enum cs_status read_row(const struct cs_shard_file *file, const struct table *t, uint64_t at,
                               char **out, size_t *n, struct cs_err *err)
{
    const struct cs_index_item *row = &t->rows.items[at];
    enum cs_status status = CS_OK;
    size_t got = 0;

    *n = row->len;
    if (row->len > CS_RECORD_MAX_BYTES)
        return cs_fail(err, CS_LIMIT, "row of %llu bytes, at most %d", (unsigned long long)row->len,
                       CS_RECORD_MAX_BYTES);
    *out = malloc(row->len + 1);
    if (*out == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a row");
    status = cs_read_at(file->fd, file->path, *out, row->len, row->offset, &got, err);
    if (status == CS_OK && got < row->len)
        status = cs_fail(err, CS_CORRUPT, "%s became shorter", file->path);
    if (status != CS_OK)
        free(*out);
    return status;
}

/* --- columns ---------------------------------------------------------------------------------- */

static enum cs_status add_name(struct table *t, const struct cs_buf *cell, const char *path,
                               struct cs_err *err)
{
    const char *name = cell->len > 0 ? cs_arena_strdup(t->arena, cs_buf_str(cell))
                                     : cs_arena_printf(t->arena, "column %zu", t->n_names + 1);

    for (size_t i = 0; i < t->n_names; i++)
        if (strcmp(t->names[i], name) == 0)
            return cs_fail(err, CS_INVALID, "%s: two columns are called \"%.100s\"", path, name);
    if (t->n_names == COLUMNS_MAX)
        return cs_fail(err, CS_LIMIT, "%s: more than %d columns", path, COLUMNS_MAX);
    t->names[t->n_names++] = name;
    return CS_OK;
}

static enum cs_status read_names(const struct cs_shard_file *file, struct table *t,
                                 struct cs_err *err)
{
    struct cs_buf cell = {0};
    enum cs_status status = CS_OK;
    char *row = NULL;
    size_t n = 0, at = 0;

    CS_TRY(read_row(file, t, 0, &row, &n, err));
    t->names = CS_NEW_ARRAY(t->arena, const char *, COLUMNS_MAX);
    while (status == CS_OK && cs_csv_cell(row, n, t->separator, &at, &cell)) {
        status = add_name(t, &cell, file->path, err);
        cs_buf_reset(&cell);
    }
    cs_buf_free(&cell);
    free(row);
    return status;
}

/* --- the kind --------------------------------------------------------------------------------- */

static enum cs_status open_table(struct cs_shard_file *file, uint64_t max_items, struct cs_err *err)
{
    struct table *t = calloc(1, sizeof *t);
    char *block = malloc(BLOCK);
    enum cs_status status = CS_OK;
    size_t got = 0;

    if (t == NULL || block == NULL) {
        free(t);
        free(block);
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", file->path);
    }
    file->state = t;
    t->arena = cs_arena_new(0);
    status = cs_read_at(file->fd, file->path, block, BLOCK, 0, &got, err);
    if (status == CS_OK)
        status = cs_shape_check_start(file->path, block, got, err);
    if (status == CS_OK) {
        const char *end = memchr(block, '\n', got);
        t->separator = has_end(file->path, ".tsv")
                           ? '\t'
                           : cs_csv_separator_of(block, end != NULL ? (size_t)(end - block) : got);
        status = find_rows(file, t, max_items, block, err);
    }
    free(block);
    if (status == CS_OK && t->rows.n < 2)
        status = cs_fail(err, CS_INVALID,
                         "%s: holds no samples: a row of names and a row for each are wanted",
                         file->path);
    if (status == CS_OK)
        status = read_names(file, t, err);
    if (max_items > 0 && t->rows.n > max_items + 1)
        t->rows.n = max_items + 1;
    return status;
}

static void close_table(struct cs_shard_file *file)
{
    struct table *t = file->state;

    cs_index_free(&t->rows);
    cs_arena_free(t->arena);
    free(t);
}

static uint64_t count_rows(const struct cs_shard_file *file)
{
    const struct table *t = file->state;

    return t->rows.n - 1;
}

static const char *hash_table(const struct cs_shard_file *file)
{
    const struct table *t = file->state;

    return t->rows.xxh3;
}

static enum cs_status add_cell(const struct cs_buf *cell, const char *name, json_t *to,
                               struct cs_err *err)
{
    json_t *value = NULL;

    if (cell->len == 0)
        return CS_OK;
    if ((cell->data[0] == '[' || cell->data[0] == '{') &&
        cs_json_tolerant(cell->data, cell->len, 0, &value, NULL) != CS_OK)
        value = NULL;
    if (value == NULL)
        value = json_stringn(cell->data, cell->len);
    if (value == NULL)
        return cs_fail(err, CS_INVALID, "%.100s is not UTF-8", name);
    json_object_set_new(to, name, value);
    return CS_OK;
}

static enum cs_status read_cells(const struct table *t, const char *row, size_t n, json_t *to,
                                 struct cs_err *err)
{
    struct cs_buf cell = {0};
    enum cs_status status = CS_OK;
    size_t at = 0, n_cells = 0;

    while (status == CS_OK && cs_csv_cell(row, n, t->separator, &at, &cell)) {
        if (n_cells < t->n_names)
            status = add_cell(&cell, t->names[n_cells], to, err);
        n_cells++;
        cs_buf_reset(&cell);
    }
    cs_buf_free(&cell);
    if (status == CS_OK && n_cells != t->n_names)
        status = cs_fail(err, CS_CORRUPT, "the row has %zu cells, the row of names %zu", n_cells,
                         t->n_names);
    return status;
}

static enum cs_status read_table(const struct cs_shard_file *file, uint64_t index,
                                 struct cs_shard_item *out, struct cs_err *err)
{
    const struct table *t = file->state;
    enum cs_status status = CS_OK;
    char *row = NULL;
    size_t n = 0;

    CS_TRY(read_row(file, t, index + 1, &row, &n, err));
    out->json = json_object();
    status = read_cells(t, row, n, out->json, err);
    free(row);
    return status;
}

const struct cs_shard_kind cs_shard_csv = {
    .name = "CSV",
    .is = is_csv,
    .open = open_table,
    .close = close_table,
    .count = count_rows,
    .hash = hash_table,
    .read = read_table,
};
