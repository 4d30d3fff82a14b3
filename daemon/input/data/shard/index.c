/* Scans a file for its items. */
#include "input/data/shard/index.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/system/io.h"
#include "input/data/shard/shape.h"

enum { BLOCK = 256 * 1024, SPREAD_BYTES = 64 * 1024 * 1024 };

/* Depth of brackets outside of strings. */
struct brackets {
    int64_t depth;
    bool in_string, is_escaped;
};

struct scan {
    struct cs_index *index;

    enum { START, LINES, ITEMS, DONE } state;

    struct brackets in;
    bool has_item;
    uint64_t begin, last; /* of the open item: first byte, one past the last that is not space */
    /* JSON lines: the first object, whose end must come before the end of its line */
    bool is_first_open, is_spread, has_more;
    uint64_t first_begin, first_end;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static enum cs_status add_item(struct scan *s, struct cs_err *err)
{
    struct cs_index *index = s->index;

    if (!s->has_item)
        return CS_OK;
    if (index->n == index->cap) {
        uint64_t cap = index->cap == 0 ? 1024 : index->cap * 2;
        struct cs_index_item *more = realloc(index->items, cap * sizeof *more);
        if (more == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for the index of %llu samples",
                           (unsigned long long)cap);
        index->items = more;
        index->cap = cap;
    }
    index->items[index->n++] = (struct cs_index_item){s->begin, s->last - s->begin};
    s->has_item = false;
    return CS_OK;
}

static void touch(struct scan *s, uint64_t at)
{
    if (!s->has_item)
        s->begin = at;
    s->has_item = true;
    s->last = at + 1;
}

static void count(struct brackets *in, char c)
{
    if (in->is_escaped)
        in->is_escaped = false;
    else if (in->in_string && c == '\\')
        in->is_escaped = true;
    else if (c == '"')
        in->in_string = !in->in_string;
    else if (!in->in_string)
        in->depth += (c == '{' || c == '[') - ((c == '}' || c == ']') && in->depth > 0);
}

static enum cs_status scan_array(struct scan *s, char c, uint64_t at, struct cs_err *err)
{
    if (!s->in.in_string && s->in.depth == 0 && (c == ',' || c == ']')) {
        if (c == ']')
            s->state = DONE;
        return add_item(s, err);
    }
    if (is_space(c) && !s->in.in_string)
        return CS_OK;
    touch(s, at);
    count(&s->in, c);
    return CS_OK;
}

/* Does the first object end on its own line? A broken line never closes, or holds half a string. */
static void follow_first(struct scan *s, char c, uint64_t at)
{
    if (c == '\n' && s->in.in_string) {
        s->is_first_open = s->is_spread = false;
        return;
    }
    s->is_spread |= c == '\n';
    count(&s->in, c);
    if (s->in.depth > 0)
        return;
    s->is_first_open = false;
    s->first_end = at + 1;
}

static enum cs_status scan_line(struct scan *s, char c, uint64_t at, struct cs_err *err)
{
    if (s->is_first_open)
        follow_first(s, c, at);
    else
        s->has_more |= s->is_spread && !is_space(c);
    if (c == '\n')
        return add_item(s, err);
    if (!is_space(c))
        touch(s, at);
    return CS_OK;
}

static enum cs_status scan_byte(struct scan *s, const char *path, char c, uint64_t at,
                                struct cs_err *err)
{
    switch (s->state) {
    case START:
        if (is_space(c))
            return CS_OK;
        if (c != '[' && c != '{')
            return cs_fail(err, CS_INVALID,
                           "%s: starts with byte 0x%02x: neither a JSON array nor JSON lines", path,
                           (unsigned char)c);
        s->state = c == '[' ? ITEMS : LINES;
        if (c == '[')
            return CS_OK;
        s->is_first_open = true;
        s->first_begin = at;
        return scan_line(s, c, at, err);
    case LINES:
        return scan_line(s, c, at, err);
    case ITEMS:
        return scan_array(s, c, at, err);
    case DONE:
        if (is_space(c))
            return CS_OK;
        return cs_fail(err, CS_CORRUPT, "%s: text after the end of the array at byte %llu%s", path,
                       (unsigned long long)at,
                       c == '[' ? ": JSON lines hold an object a line, not lists" : "");
    }
    return CS_OK;
}

static bool is_enough(const struct scan *s, uint64_t max_items, uint64_t at)
{
    bool is_clear = (!s->is_first_open && !s->is_spread) || at > SPREAD_BYTES;

    return max_items > 0 && s->index->n >= max_items && is_clear;
}

static enum cs_status scan_all(struct scan *s, int fd, const char *path, uint64_t max_items,
                               char *block, struct cs_err *err)
{
    struct cs_xxh3 *hash = cs_xxh3_new();
    enum cs_status status = CS_OK;
    size_t got = BLOCK;
    uint64_t at = 0;

    while (status == CS_OK && got == BLOCK && !is_enough(s, max_items, at)) {
        status = cs_read_at(fd, path, block, BLOCK, at, &got, err);
        if (status == CS_OK && at == 0)
            status = cs_shape_check_start(path, block, got, err);
        size_t i = at == 0 && got >= 3 && memcmp(block, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        cs_xxh3_add(hash, block, got);
        for (; i < got && status == CS_OK; i++)
            status = scan_byte(s, path, block[i], at + i, err);
        at += got;
    }
    if (got < BLOCK)
        cs_xxh3_end(hash, s->index->xxh3);
    cs_xxh3_free(hash);
    if (status == CS_OK && s->state == LINES && got < BLOCK)
        status = add_item(s, err);
    if (status == CS_OK && s->state == ITEMS && got < BLOCK)
        status = cs_fail(err, CS_CORRUPT,
                         "%s: ends after %llu bytes inside item %llu: the array is not closed",
                         path, (unsigned long long)at, (unsigned long long)s->index->n);
    return status;
}

enum cs_status cs_index_make(int fd, const char *path, uint64_t max_items, struct cs_index *out,
                             struct cs_err *err)
{
    struct scan s = {.index = out};
    char *block = malloc(BLOCK);
    enum cs_status status = CS_OK;

    *out = (struct cs_index){0};
    if (block == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to read %s", path);
    status = scan_all(&s, fd, path, max_items, block, err);
    free(block);
    if (status == CS_OK && s.is_spread && !s.is_first_open)
        status = cs_shape_refuse_spread(fd, path, s.first_begin, s.first_end - s.first_begin,
                                        s.has_more, err);
    if (status == CS_OK && out->n == 0)
        status = cs_fail(err, CS_INVALID, "%s: holds no samples", path);
    if (status == CS_CORRUPT)
        status = cs_shape_blame_encoding(fd, path, status, err);
    if (status == CS_OK)
        status = cs_shape_check_items(fd, path, out, err);
    if (max_items > 0 && out->n > max_items)
        out->n = max_items;
    out->is_lines = s.state == LINES;
    if (status != CS_OK)
        cs_index_free(out);
    return status;
}

void cs_index_free(struct cs_index *index)
{
    free(index->items);
    *index = (struct cs_index){0};
}
