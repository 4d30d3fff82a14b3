/* NFC with a map back to the source. Text is cut before every character that cannot combine with
 * what stands before it (no mark, no vowel or trailing jamo); each segment is composed by utf8proc.
 * A segment that does not change maps byte by byte, a changed one as a whole. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/str.h"
#include "input/tok/tok.h"

struct map {
    uint32_t *begin, *end;
    size_t cap;
    bool is_short_of_memory; /* from then on nothing is added */
};

static bool can_combine(uint32_t c)
{
    utf8proc_category_t category = UTF8PROC_CATEGORY_CN;

    if (c < 0x300)
        return false;
    if ((c >= 0x1160 && c <= 0x11ff) || (c >= 0xd7b0 && c <= 0xd7ff))
        return true;
    category = utf8proc_category((utf8proc_int32_t)c);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
           category == UTF8PROC_CATEGORY_ME;
}

static size_t segment_length(const char *text, size_t n)
{
    uint32_t c = 0;
    size_t at = cs_utf8_decode(text, n, &c);

    if (at == 0)
        return 1; /* not UTF-8: passes as it is */
    while (at < n) {
        size_t len = cs_utf8_decode(text + at, n - at, &c);
        if (len == 0 || !can_combine(c))
            break;
        at += len;
    }
    return at;
}

/* malloc'ed NUL-terminated composition, NULL when the segment is invalid or unchanged, or there is no
 * memory */
static char *compose(struct map *map, const char *text, size_t n)
{
    utf8proc_uint8_t *out = NULL;
    utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &out,
                                        UTF8PROC_STABLE | UTF8PROC_COMPOSE);

    map->is_short_of_memory |= len == UTF8PROC_ERROR_NOMEM;
    if (len < 0)
        return NULL;
    if ((size_t)len == n && memcmp(out, text, n) == 0) {
        free(out);
        return NULL;
    }
    return (char *)out;
}

static bool reserve(struct map *map, size_t n)
{
    if (n <= map->cap)
        return true;
    void *begin = realloc(map->begin, 2 * n * sizeof *map->begin);
    map->begin = begin != NULL ? begin : map->begin;
    void *end = realloc(map->end, 2 * n * sizeof *map->end);
    map->end = end != NULL ? end : map->end;
    if (begin != NULL && end != NULL)
        map->cap = 2 * n;
    return n <= map->cap;
}

static void append(struct cs_buf *out, struct map *map, const char *bytes, size_t n, size_t at,
                   size_t source_len, bool is_changed)
{
    map->is_short_of_memory |= !reserve(map, out->len + n) || !cs_buf_try_room(out, n);
    if (map->is_short_of_memory)
        return;
    for (size_t i = 0; i < n; i++) {
        map->begin[out->len + i] = (uint32_t)(is_changed ? at : at + i);
        map->end[out->len + i] = (uint32_t)(is_changed ? at + source_len : at + i + 1);
    }
    cs_buf_add(out, bytes, n);
}

static bool is_ascii(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

static void drop(struct map *map, struct cs_buf *out)
{
    free(map->begin);
    free(map->end);
    *map = (struct map){0};
    cs_buf_reset(out);
}

enum cs_status tok_nfc(const char *text, size_t n, struct cs_buf *out, uint32_t **begin,
                       uint32_t **end, bool *is_changed, struct cs_err *err)
{
    struct map map = {0};

    *is_changed = false;
    if (is_ascii(text, n))
        return CS_OK;
    for (size_t at = 0; at < n && !map.is_short_of_memory;) {
        size_t len = segment_length(text + at, n - at);
        char *composed = is_ascii(text + at, len) ? NULL : compose(&map, text + at, len);
        if (composed != NULL) {
            append(out, &map, composed, strlen(composed), at, len, true);
            *is_changed = true;
        } else {
            append(out, &map, text + at, len, at, len, false);
        }
        free(composed);
        at += len;
    }
    *is_changed = *is_changed && !map.is_short_of_memory;
    const bool is_short = map.is_short_of_memory;
    if (!*is_changed)
        drop(&map, out);
    *begin = map.begin;
    *end = map.end;
    return is_short ? cs_fail(err, CS_NO_MEMORY, "no memory to normalise %zu bytes of text", n)
                    : CS_OK;
}
