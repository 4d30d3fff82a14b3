/* Files that a record names, and how its readers refuse a value. */
#include <stdio.h>
#include <string.h>

#include "input/data/record/base64.h"
#include "input/data/record/record_read.h"

enum cs_status cs_record_refuse(const struct cs_record_reader *r, const char *where,
                                const json_t *value, const char *why)
{
    char shown[CS_DOC_SHOWN];

    return cs_fail(r->err, CS_INVALID, "%s is %s: %s", where,
                   value != NULL ? cs_doc_show(value, shown) : "missing", why);
}

const json_t *cs_record_file_of(const struct cs_record_keys *keys, const json_t *object, int e,
                                bool is_video, char name[CS_DOC_NAME])
{
    const char *names = is_video ? keys->encoder[e].videos : keys->encoder[e].names;

    return names != NULL ? cs_doc_get(object, names, name) : NULL;
}

const char *cs_record_text(struct cs_arena *arena, const json_t *text)
{
    size_t n = json_string_length(text);
    char *out = cs_arena_alloc(arena, n + 1);

    memcpy(out, json_string_value(text), n);
    return out;
}

/* --- bytes inside of a sample ----------------------------------------------------------------- */

static enum cs_status take_base64(struct cs_record_reader *r, const char *where, const char *text,
                                  size_t n, struct cs_media_file *out)
{
    unsigned char *bytes =
        n <= CS_RECORD_MAX_BYTES ? cs_arena_alloc(r->record->arena, cs_base64_room(n)) : NULL;
    size_t n_bytes = 0;

    if (bytes == NULL)
        return cs_fail(r->err, CS_LIMIT, "%s has %zu characters", where, n);
    if (!cs_base64_decode(text, n, bytes, &n_bytes) || n_bytes == 0)
        return cs_fail(r->err, CS_INVALID, "%s holds %zu characters that are no base64", where, n);
    *out = (struct cs_media_file){
        .name = cs_arena_strdup(r->record->arena, where), .bytes = bytes, .n_bytes = n_bytes};
    return CS_OK;
}

/* "data:image/png;base64,..." */
static enum cs_status take_data_uri(struct cs_record_reader *r, const char *where, const char *text,
                                    struct cs_media_file *out)
{
    const char *comma = strchr(text, ',');

    if (comma == NULL || comma - text < 7 || strncmp(comma - 7, ";base64", 7) != 0)
        return cs_fail(r->err, CS_INVALID, "%s is a data URI that is not in base64", where);
    return take_base64(r, where, comma + 1, strlen(comma + 1), out);
}

/* A whole file of a known kind, in base64, in the place of a path. */
static bool is_file_in_base64(const char *text)
{
    static const char *const starts[] = {"/9j/", "iVBORw0KGgo", "R0lGOD", "UklGR", "SUkq",
                                         "Qk0",  "T2dnUw",      "ZkxhQw", "SUQz"};
    bool is_known = false;

    for (size_t i = 0; i < CS_ARRAY_LEN(starts); i++)
        is_known |= strncmp(text, starts[i], strlen(starts[i])) == 0;
    return is_known && strlen(text) > 255 &&
           text[strspn(
               text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")] == '\0';
}

static enum cs_status take_text(struct cs_record_reader *r, const char *where, const json_t *value,
                                struct cs_media_file *out)
{
    const char *text = json_string_value(value);

    if (text[0] == '\0' || strlen(text) != json_string_length(value))
        return cs_record_refuse(r, where, value, "it must be the path of a file");
    if (strncmp(text, "data:", 5) == 0)
        return take_data_uri(r, where, text, out);
    if (strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0)
        return cs_record_refuse(r, where, value,
                                "nothing is fetched from the net: fetch the file, give its path");
    if (is_file_in_base64(text))
        return take_base64(r, where, text, strlen(text), out);
    text += strncmp(text, "file://", 7) == 0 ? 7 : 0;
    *out = (struct cs_media_file){.name = cs_arena_strdup(r->record->arena, text)};
    return CS_OK;
}

/* Bytes of the reader's own: the record keeps a copy, or where they lie. */
static void take_reference(struct cs_record_reader *r, const char *where,
                           const struct cs_record_bytes *from, struct cs_media_file *out)
{
    struct cs_arena *arena = r->record->arena;
    char *copy = from->data != NULL ? cs_arena_alloc(arena, from->n + 1) : NULL;

    if (copy != NULL)
        memcpy(copy, from->data, from->n);
    *out = (struct cs_media_file){.name = cs_arena_strdup(arena, where),
                                  .pack = from->pack != NULL ? cs_arena_strdup(arena, from->pack)
                                                             : NULL,
                                  .bytes = copy,
                                  .offset = from->offset,
                                  .n_bytes = from->n};
}

/* "bytes" beside a "path", which is then only a name. A number is a place in the reader's own bytes. */
static enum cs_status take_object(struct cs_record_reader *r, const char *where,
                                  const json_t *value, struct cs_media_file *out)
{
    const json_t *bytes = cs_doc_get(value, "bytes|base64|data", NULL);
    const json_t *path = cs_doc_get(value, "path|url", NULL);
    json_int_t at = json_integer_value(bytes);

    if (bytes == NULL && json_is_string(path))
        return take_text(r, where, path, out);
    if (json_is_integer(bytes) && at >= 0 && at < r->n_bytes) {
        take_reference(r, where, &r->bytes[at], out);
    } else if (json_is_string(bytes)) {
        const char *text = json_string_value(bytes);
        CS_TRY(strncmp(text, "data:", 5) == 0 ? take_data_uri(r, where, text, out)
                                              : take_base64(r, where, text, strlen(text), out));
    } else {
        return cs_record_refuse(r, where, bytes != NULL ? bytes : value,
                                bytes != NULL ? "it must be a file in base64"
                                              : "it must be the path of a file");
    }
    if (json_is_string(path) && json_string_length(path) > 0)
        out->name = cs_arena_strdup(r->record->arena, json_string_value(path));
    return CS_OK;
}

/* --- files ------------------------------------------------------------------------------------ */

enum cs_status cs_record_append_file(const struct cs_record_reader *r, int e,
                                     struct cs_media_file **list, int32_t *n,
                                     const struct cs_media_file *file)
{
    if (*n == CS_RECORD_MAX_MEDIA)
        return cs_fail(r->err, CS_LIMIT, "more than %d files for %s", CS_RECORD_MAX_MEDIA,
                       r->keys->encoder[e].token);
    if ((*n & (*n - 1)) == 0) { /* full at powers of two */
        const size_t have = (size_t)*n;
        struct cs_media_file *more =
            CS_NEW_ARRAY(r->record->arena, struct cs_media_file, have == 0 ? 1 : 2 * have);
        if (have > 0)
            memcpy(more, *list, have * sizeof *more);
        *list = more;
    }
    (*list)[(*n)++] = *file;
    return CS_OK;
}

enum cs_status cs_record_take_file(struct cs_record_reader *r, const char *where,
                                   const json_t *value, struct cs_media_file *out)
{
    if (!json_is_string(value) && !json_is_object(value))
        return cs_record_refuse(r, where, value, "it must be the path of a file");
    return json_is_object(value) ? take_object(r, where, value, out)
                                 : take_text(r, where, value, out);
}

static enum cs_status add_file(struct cs_record_reader *r, int e, const char *where,
                               const json_t *value)
{
    struct cs_media_file file = {0};

    CS_TRY(cs_record_take_file(r, where, value, &file));
    return cs_record_append_file(r, e, &r->record->files[e], &r->record->n_files[e], &file);
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
