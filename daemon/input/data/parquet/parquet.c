/* Opens a Parquet file and finds rows in its row groups. */
#include "input/data/parquet/parquet.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/hash.h"
#include "core/base/system/io.h"

enum { TAIL = 8, FOOTER_MAX = 256 * 1024 * 1024, KEPT_BYTES = 128 * 1024 * 1024 };

struct cs_parquet {
    struct cs_arena *arena;
    struct cs_pq_meta meta;
    struct cs_pq_pages *pages;
    char hash[33];
};

static enum cs_status find_footer(int fd, const char *path, uint64_t *at, size_t *n, uint64_t *size,
                                  struct cs_err *err)
{
    uint8_t tail[TAIL];
    struct stat st;
    size_t got = 0;

    if (fstat(fd, &st) == -1)
        return cs_fail_errno(err, "%s", path);
    *size = (uint64_t)st.st_size;
    if (*size < 4 + TAIL)
        return cs_fail(err, CS_CORRUPT, "%s: %llu bytes are no Parquet file", path,
                       (unsigned long long)*size);
    CS_TRY(cs_read_at(fd, path, tail, TAIL, *size - TAIL, &got, err));
    *n = (size_t)tail[0] | (size_t)tail[1] << 8 | (size_t)tail[2] << 16 | (size_t)tail[3] << 24;
    if (got == TAIL && memcmp(tail + 4, "PARE", 4) == 0)
        return cs_fail(err, CS_UNSUPPORTED, "%s: the file is encrypted", path);
    if (got < TAIL || memcmp(tail + 4, "PAR1", 4) != 0 || *n > *size - 4 - TAIL)
        return cs_fail(err, CS_CORRUPT,
                       "%s does not end as a Parquet file does: was it copied whole?", path);
    if (*n > FOOTER_MAX)
        return cs_fail(err, CS_LIMIT, "%s: its footer has %zu bytes", path, *n);
    *at = *size - TAIL - *n;
    return CS_OK;
}

static void take_hash(struct cs_parquet *f, const uint8_t *footer, size_t n, uint64_t size)
{
    struct cs_xxh3 *hash = cs_xxh3_new();

    cs_xxh3_add(hash, footer, n);
    cs_xxh3_add(hash, &size, sizeof size);
    cs_xxh3_end(hash, f->hash);
    cs_xxh3_free(hash);
}

static enum cs_status read_footer(struct cs_parquet *f, int fd, const char *path,
                                  struct cs_err *err)
{
    uint64_t at = 0, size = 0;
    size_t n = 0, got = 0;
    uint8_t *footer = NULL;
    enum cs_status status = find_footer(fd, path, &at, &n, &size, err);

    if (status != CS_OK)
        return status;
    footer = malloc(n + 1);
    if (footer == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the footer of %s", path);
    status = cs_read_at(fd, path, footer, n, at, &got, err);
    if (status == CS_OK && got < n)
        status = cs_fail(err, CS_CORRUPT, "%s became shorter", path);
    if (status == CS_OK) {
        take_hash(f, footer, n, size);
        status = cs_pq_meta_read(footer, n, size, f->arena, &f->meta, err);
        if (status != CS_OK)
            (void)cs_wrap(err, status, "%s", path);
    }
    free(footer);
    return status;
}

enum cs_status cs_parquet_open(int fd, const char *path, struct cs_parquet **out,
                               struct cs_err *err)
{
    struct cs_parquet *f = calloc(1, sizeof *f);
    enum cs_status status = CS_OK;

    *out = NULL;
    if (f == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", path);
    f->arena = cs_arena_new(0);
    status = read_footer(f, fd, path, err);
    if (status == CS_OK) {
        f->pages = cs_pq_pages_new(fd, path, &f->meta, KEPT_BYTES);
        if (f->pages == NULL)
            status = cs_fail(err, CS_NO_MEMORY, "no memory for the pages of %s", path);
    }
    if (status != CS_OK) {
        cs_parquet_close(f);
        return status;
    }
    *out = f;
    return CS_OK;
}

void cs_parquet_close(struct cs_parquet *f)
{
    if (f == NULL)
        return;
    cs_pq_pages_free(f->pages);
    cs_arena_free(f->arena);
    free(f);
}

uint64_t cs_parquet_count(const struct cs_parquet *f)
{
    return (uint64_t)f->meta.n_rows;
}

const char *cs_parquet_hash(const struct cs_parquet *f)
{
    return f->hash;
}

/* The group that holds a row: the last that begins with no later one. */
static int64_t group_of(const struct cs_pq_meta *m, int64_t row)
{
    int64_t low = 0;

    for (int64_t high = m->n_groups; high - low > 1;) {
        int64_t middle = low + (high - low) / 2;
        if (m->groups[middle].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

enum cs_status cs_parquet_row(struct cs_parquet *f, uint64_t row, json_t **out,
                              struct cs_pq_bytes *bytes, struct cs_err *err)
{
    int64_t group = group_of(&f->meta, (int64_t)row);
    int64_t first = f->meta.groups[group].first_row;

    return cs_pq_row(f->pages, &f->meta, group, (int64_t)row - first, out, bytes, err);
}
