/* Finds out which pages a column has, and the one that holds a row. */
#include "input/data/parquet/chunk.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/system/io.h"
#include "input/data/parquet/kept.h"

struct slot {
    uint64_t offset; /* of the packed bytes */
    struct cs_pq_head head;
    int64_t first_row; /* rows that begin before this page */
};

/* All pages of one column chunk. */
struct chunk {
    struct slot *slots;
    int64_t n, cap;
    struct cs_pq_held *dictionary; /* held for as long as the chunk is */
    bool is_known;
};

struct cs_pq_pages {
    int fd;
    const char *path;
    const struct cs_pq_meta *meta;
    struct chunk *chunks; /* (n_groups, n_leaves) */
    struct cs_pq_kept kept;
    pthread_mutex_t listing; /* of finding out which pages there are */
};

struct cs_pq_pages *cs_pq_pages_new(int fd, const char *path, const struct cs_pq_meta *meta,
                                    size_t max_bytes)
{
    struct cs_pq_pages *p = calloc(1, sizeof *p);
    size_t n = (size_t)meta->n_groups * (size_t)meta->n_leaves;

    if (p == NULL)
        return NULL;
    p->chunks = calloc(n + 1, sizeof *p->chunks);
    if (p->chunks == NULL) {
        free(p);
        return NULL;
    }
    p->fd = fd;
    p->path = path;
    p->meta = meta;
    cs_pq_kept_init(&p->kept, max_bytes);
    pthread_mutex_init(&p->listing, NULL);
    return p;
}

void cs_pq_pages_free(struct cs_pq_pages *p)
{
    if (p == NULL)
        return;
    for (int64_t i = 0; i < p->meta->n_groups * p->meta->n_leaves; i++) {
        free(p->chunks[i].slots);
        cs_pq_held_free(p->chunks[i].dictionary);
    }
    free(p->chunks);
    cs_pq_kept_free(&p->kept);
    pthread_mutex_destroy(&p->listing);
    free(p);
}

const struct cs_pq_page *cs_pq_held_page(const struct cs_pq_held *held)
{
    return &held->page;
}

void cs_pq_release(struct cs_pq_pages *p, struct cs_pq_held *held)
{
    if (held != NULL)
        cs_pq_kept_release(&p->kept, held);
}

static enum cs_status read_page(struct cs_pq_pages *p, int64_t group, int column,
                                const struct slot *slot, const struct cs_pq_held *dictionary,
                                struct cs_pq_held **out, struct cs_err *err)
{
    const size_t n = (size_t)slot->head.n_packed;
    uint8_t *packed = malloc(n + 1);
    struct cs_pq_held *held = calloc(1, sizeof *held);
    enum cs_status status = CS_OK;
    size_t got = 0;

    if (packed == NULL || held == NULL)
        status = cs_fail(err, CS_NO_MEMORY, "no memory for a page of %zu bytes", n);
    if (status == CS_OK)
        status = cs_read_at(p->fd, p->path, packed, n, slot->offset, &got, err);
    if (status == CS_OK && got < n)
        status = cs_fail(err, CS_CORRUPT, "%s became shorter", p->path);
    if (status == CS_OK)
        status = cs_pq_page_read(
            p->meta->leaves[column], p->meta->groups[group].chunks[column].codec, &slot->head,
            packed, dictionary != NULL ? &dictionary->page.values : NULL, &held->page, err);
    free(packed);
    if (status != CS_OK) {
        free(held);
        return status;
    }
    *out = held;
    return CS_OK;
}

/* The i-th data page of a chunk whose pages are known. */
static enum cs_status get_page(struct cs_pq_pages *p, int64_t group, int column,
                               const struct chunk *chunk, int64_t i, struct cs_pq_held **out,
                               struct cs_err *err)
{
    const int64_t number = group * p->meta->n_leaves + column;

    *out = cs_pq_kept_find(&p->kept, number, i);
    if (*out != NULL)
        return CS_OK;
    CS_TRY(read_page(p, group, column, &chunk->slots[i], chunk->dictionary, out, err));
    cs_pq_kept_add(&p->kept, *out, number, i);
    return CS_OK;
}

/* --- which pages there are -------------------------------------------------------------------- */

static enum cs_status add_slot(struct chunk *c, const struct slot *slot, struct cs_err *err)
{
    if (c->n == c->cap) {
        int64_t cap = c->cap == 0 ? 8 : 2 * c->cap;
        struct slot *more = realloc(c->slots, (size_t)cap * sizeof *more);
        if (more == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for the list of %lld pages",
                           (long long)cap);
        c->slots = more;
        c->cap = cap;
    }
    c->slots[c->n++] = *slot;
    return CS_OK;
}

/* A head at `at`; long ones are read again, with more bytes. */
static enum cs_status read_head(struct cs_pq_pages *p, uint64_t at, uint64_t end, struct slot *out,
                                struct cs_err *err)
{
    uint8_t first[1024];
    uint8_t *bytes = first;
    size_t want = sizeof first, got = 0, used = 0;
    bool is_whole = false;

    CS_TRY(cs_read_at(p->fd, p->path, bytes, want < end - at ? want : (size_t)(end - at), at, &got,
                      err));
    is_whole = cs_pq_head_read(bytes, got, &out->head, &used);
    if (!is_whole && got == sizeof first) { /* statistics can be long */
        want = end - at < CS_PQ_HEAD_MAX ? (size_t)(end - at) : CS_PQ_HEAD_MAX;
        bytes = malloc(want);
        if (bytes == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for the head of a page");
        if (cs_read_at(p->fd, p->path, bytes, want, at, &got, NULL) == CS_OK)
            is_whole = cs_pq_head_read(bytes, got, &out->head, &used);
        free(bytes);
    }
    out->offset = at + used;
    if (!is_whole || (uint64_t)out->head.n_packed > end - out->offset)
        return cs_fail(err, CS_CORRUPT, "a page at byte %llu has a broken head",
                       (unsigned long long)at);
    return CS_OK;
}

/* Rows that begin in a page: those of its head, else one a value, else counted. */
static enum cs_status count_rows(struct cs_pq_pages *p, int64_t group, int column, struct chunk *c,
                                 int64_t *out, struct cs_err *err)
{
    const struct cs_pq_head *head = &c->slots[c->n - 1].head;
    struct cs_pq_held *held = NULL;

    *out = p->meta->leaves[column]->max_rep == 0 ? head->n_values : head->n_rows;
    if (*out >= 0)
        return CS_OK;
    CS_TRY(get_page(p, group, column, c, c->n - 1, &held, err));
    *out = 0;
    for (size_t i = 0; i < held->page.n; i++)
        *out += held->page.rep[i] == 0;
    cs_pq_release(p, held);
    return CS_OK;
}

static enum cs_status list_pages(struct cs_pq_pages *p, int64_t group, int column, struct chunk *c,
                                 struct cs_err *err)
{
    const struct cs_pq_chunk *meta = &p->meta->groups[group].chunks[column];
    uint64_t at = (uint64_t)meta->offset, end = at + (uint64_t)meta->n_bytes;
    int64_t rows = 0, n = 0, values = 0;

    while (at < end && values < meta->n_values) {
        struct slot slot = {.first_row = rows};
        CS_TRY(read_head(p, at, end, &slot, err));
        at = slot.offset + (uint64_t)slot.head.n_packed;
        if (slot.head.kind == CS_PQ_DICTIONARY && c->n == 0) {
            if (c->dictionary == NULL)
                CS_TRY(read_page(p, group, column, &slot, NULL, &c->dictionary, err));
        } else if (slot.head.kind == CS_PQ_DATA || slot.head.kind == CS_PQ_DATA_2) {
            CS_TRY(add_slot(c, &slot, err));
            CS_TRY(count_rows(p, group, column, c, &n, err));
            rows += n;
            values += slot.head.n_values;
        }
    }
    if (rows != p->meta->groups[group].n_rows)
        return cs_fail(err, CS_CORRUPT, "column %s has %lld rows, its row group %lld",
                       p->meta->leaves[column]->name, (long long)rows,
                       (long long)p->meta->groups[group].n_rows);
    return CS_OK;
}

/* Found out once, by one thread at a time: pages that are kept point into the dictionary. What a failure
 * leaves is taken up by the next try. */
static enum cs_status know(struct cs_pq_pages *p, int64_t group, int column,
                           const struct chunk **out, struct cs_err *err)
{
    struct chunk *chunk = &p->chunks[group * p->meta->n_leaves + column];
    enum cs_status status = CS_OK;

    pthread_mutex_lock(&p->listing);
    if (!chunk->is_known) {
        chunk->n = 0;
        status = list_pages(p, group, column, chunk, err);
        chunk->is_known = status == CS_OK;
    }
    pthread_mutex_unlock(&p->listing);
    *out = chunk;
    return status;
}

enum cs_status cs_pq_find(struct cs_pq_pages *p, int64_t group, int column, int64_t row,
                          struct cs_pq_place *place, struct cs_pq_held **out, struct cs_err *err)
{
    const struct cs_pq_node *leaf = p->meta->leaves[column];
    const struct chunk *c = NULL;
    int64_t low = 0, high = 0, left = 0;

    *out = NULL;
    CS_TRY(know(p, group, column, &c, err));
    for (high = c->n; high - low > 1;) { /* the last page that begins with no later row */
        int64_t middle = low + (high - low) / 2;
        if (c->slots[middle].first_row <= row)
            low = middle;
        else
            high = middle;
    }
    if (c->n == 0)
        return cs_fail(err, CS_CORRUPT, "column %s has no pages", leaf->name);
    *place = (struct cs_pq_place){.page = low};
    left = row - c->slots[low].first_row;
    CS_TRY(get_page(p, group, column, c, low, out, err));
    const struct cs_pq_page *page = &(*out)->page;
    for (; place->entry < page->n; place->entry++) {
        if ((page->rep == NULL || page->rep[place->entry] == 0) && left-- == 0)
            return CS_OK;
        place->value += page->def == NULL || page->def[place->entry] == leaf->max_def;
    }
    cs_pq_release(p, *out);
    *out = NULL;
    return cs_fail(err, CS_CORRUPT, "column %s has fewer rows than it says", leaf->name);
}

enum cs_status cs_pq_follow(struct cs_pq_pages *p, int64_t group, int column, int64_t page,
                            struct cs_pq_held **out, struct cs_err *err)
{
    const struct chunk *c = &p->chunks[group * p->meta->n_leaves + column];

    *out = NULL;
    return page + 1 < c->n ? get_page(p, group, column, c, page + 1, out, err) : CS_OK;
}
