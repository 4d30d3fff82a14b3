/* Files that a record names, and how its readers refuse a value. */
#include <stdio.h>
#include <string.h>

#include "input/data/record_read.h"

enum cs_status cs_record_refuse(const struct cs_record_reader *r, const char *where,
                                const json_t *value, const char *why)
{
    char shown[CS_DOC_SHOWN];

    return cs_fail(r->err, CS_INVALID, "%s is %s: %s", where,
                   value != NULL ? cs_doc_show(value, shown) : "missing", why);
}

const char *cs_record_text(struct cs_arena *arena, const json_t *text)
{
    size_t n = json_string_length(text);
    char *out = cs_arena_alloc(arena, n + 1);

    memcpy(out, json_string_value(text), n);
    return out;
}

static enum cs_status add_file(struct cs_record_reader *r, int e, const char *where,
                               const json_t *value)
{
    struct cs_record *record = r->record;
    const json_t *path = json_is_object(value) ? cs_doc_get(value, "path", NULL) : value;

    if (!json_is_string(path) || json_string_length(path) == 0 ||
        strlen(json_string_value(path)) != json_string_length(path))
        return cs_record_refuse(r, where, value, "it must be the path of a file");
    if (record->n_files[e] == CS_RECORD_MAX_MEDIA)
        return cs_fail(r->err, CS_LIMIT, "more than %d files for %s", CS_RECORD_MAX_MEDIA,
                       r->keys->encoder[e].token);
    if ((record->n_files[e] & (record->n_files[e] - 1)) == 0) { /* full at powers of two */
        size_t n = (size_t)record->n_files[e];
        struct cs_media_file *more =
            CS_NEW_ARRAY(record->arena, struct cs_media_file, n == 0 ? 1 : 2 * n);
        if (n > 0)
            memcpy(more, record->files[e], n * sizeof *more);
        record->files[e] = more;
    }
    record->files[e][record->n_files[e]++] =
        (struct cs_media_file){.name = cs_record_text(record->arena, path)};
    return CS_OK;
}

/* One path is one file, never a list of characters. */
enum cs_status cs_record_add_files(struct cs_record_reader *r, int e, const char *where,
                                   const json_t *value)
{
    char place[CS_RECORD_PLACE];
    const json_t *node = NULL;
    size_t i = 0;

    if (!json_is_array(value))
        return add_file(r, e, where, value);
    json_array_foreach(value, i, node)
    {
        snprintf(place, sizeof place, "%s[%zu]", where, i);
        CS_TRY(add_file(r, e, place, node));
    }
    return CS_OK;
}
