/* A sample of a tar archive: its files as one object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/io.h"
#include "core/doc/doc.h"
#include "input/data/shard/json_tolerant.h"
#include "input/data/shard/tar_sample.h"

/* What a sample's files are by the ends of their names. */
static const struct {
    const char *ends, *key;
} media[] = {
    {"jpg|jpeg|png|webp|gif|bmp|tif|tiff|img", "images"},
    {"mp4|webm|mkv|avi|mov",                   "videos"},
    {"wav|flac|mp3|ogg|opus|m4a|aiff",         "audios"},
};

struct reading {
    const struct cs_shard_file *file;
    const struct cs_tar_member *members;
    size_t n;
    struct cs_shard_item *out;
    struct cs_err *err;
};

static const char *end_of(const char *name)
{
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash != NULL ? slash : name, '.');

    return dot != NULL ? dot + 1 : "";
}

static const char *file_name(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash != NULL ? slash + 1 : name;
}

/* Ends of names are told without regard to case. */
static const char *medium_of(const char *name)
{
    char end[16] = {0};

    for (size_t i = 0; i + 1 < sizeof end && end_of(name)[i] != '\0'; i++) {
        char c = end_of(name)[i];
        end[i] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(media); i++)
        if (end[0] != '\0' && cs_doc_is_word(media[i].ends, end))
            return media[i].key;
    return NULL;
}

static enum cs_status text_of(const struct reading *r, const struct cs_tar_member *m, char **out)
{
    size_t got = 0;
    enum cs_status status = CS_OK;

    if (m->n_bytes > CS_RECORD_MAX_BYTES)
        return cs_fail(r->err, CS_LIMIT, "%s has %llu bytes, at most %d", m->name,
                       (unsigned long long)m->n_bytes, CS_RECORD_MAX_BYTES);
    *out = malloc(m->n_bytes + 1);
    if (*out == NULL)
        return cs_fail(r->err, CS_NO_MEMORY, "no memory for %s", m->name);
    status = cs_read_at(r->file->fd, r->file->path, *out, m->n_bytes, m->offset, &got, r->err);
    if (status == CS_OK && got < m->n_bytes)
        status = cs_fail(r->err, CS_CORRUPT, "%s became shorter", r->file->path);
    if (status != CS_OK) {
        free(*out);
        *out = NULL;
        return status;
    }
    (*out)[m->n_bytes] = '\0';
    return CS_OK;
}

/* The sample's own object; a list is that of its turns. */
static enum cs_status read_json(struct reading *r, const struct cs_tar_member *m)
{
    char *text = NULL;
    json_t *json = NULL;
    enum cs_status status = text_of(r, m, &text);

    if (status == CS_OK)
        status = cs_json_tolerant(text, m->n_bytes, m->offset, &json, r->err);
    free(text);
    if (status == CS_OK && json_is_array(json))
        json = json_pack("{s:o}", "conversations", json);
    if (status == CS_OK && !json_is_object(json))
        status = cs_fail(r->err, CS_INVALID, "%s is no JSON object", m->name);
    if (status == CS_OK)
        json_object_update_missing(r->out->json, json);
    json_decref(json);
    return status;
}

static enum cs_status read_text(struct reading *r, const struct cs_tar_member *m)
{
    char *text = NULL;
    json_t *string = NULL;
    size_t n = m->n_bytes;

    CS_TRY(text_of(r, m, &text));
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--; /* the end of the file's last line */
    string = json_stringn(text, n);
    free(text);
    if (string == NULL)
        return cs_fail(r->err, CS_INVALID, "%s is not UTF-8", m->name);
    json_object_set_new(r->out->json, "text", string);
    return CS_OK;
}

static json_t *reference(struct reading *r, size_t member)
{
    return json_pack("{s:I,s:s}", "bytes", (json_int_t)member, "path", r->members[member].name);
}

/* A text of the sample's JSON that names one of its files becomes that file. */
static bool resolve(struct reading *r, json_t *value, json_t **out)
{
    const char *text =
        json_string_value(json_is_object(value) ? json_object_get(value, "path") : value);

    for (size_t i = 0; text != NULL && i < r->n; i++)
        if (medium_of(r->members[i].name) != NULL &&
            (strcmp(text, r->members[i].name) == 0 ||
             strcmp(file_name(text), file_name(r->members[i].name)) == 0 ||
             strcmp(text, strchr(file_name(r->members[i].name), '.') + 1) == 0)) {
            *out = reference(r, i);
            return true;
        }
    return false;
}

/* Under the sample's own key for this kind of media, "image" or "images"; false: it has none. */
static bool resolve_own(struct reading *r, const char *key)
{
    char names[64], name[CS_DOC_NAME];
    json_t *value = NULL, *item = NULL, *found = NULL;
    size_t i = 0;

    snprintf(names, sizeof names, "%s|%.*s", key, (int)strlen(key) - 1, key);
    value = (json_t *)(uintptr_t)cs_doc_get(r->out->json, names, name);
    if (value == NULL)
        return false;
    if (resolve(r, value, &found))
        json_object_set_new(r->out->json, name, found);
    json_array_foreach(value, i, item)
    {
        if (resolve(r, item, &found))
            json_array_set_new(value, i, found);
    }
    return true;
}

static void add_media(struct reading *r)
{
    for (size_t k = 0; k < CS_ARRAY_LEN(media); k++) {
        json_t *list = json_array();
        for (size_t i = 0; i < r->n; i++) {
            const char *key = medium_of(r->members[i].name);
            if (key != NULL && strcmp(key, media[k].key) == 0)
                json_array_append_new(list, reference(r, i));
        }
        if (json_array_size(list) > 0 && !resolve_own(r, media[k].key))
            json_object_set(r->out->json, media[k].key, list);
        json_decref(list);
    }
}

static enum cs_status read_members(struct reading *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct cs_tar_member *m = &r->members[i];
        const char *end = end_of(m->name);
        r->out->bytes[i] =
            (struct cs_record_bytes){.n = m->n_bytes, .pack = r->file->path, .offset = m->offset};
        if (strcmp(end, "json") == 0)
            CS_TRY(read_json(r, m));
        else if (strcmp(end, "txt") == 0)
            CS_TRY(read_text(r, m));
        else if (medium_of(m->name) == NULL) /* nothing reads it: that is reported */
            json_object_set_new(r->out->json, end[0] != '\0' ? end : m->name, json_true());
    }
    add_media(r);
    return CS_OK;
}

enum cs_status cs_tar_sample_read(const struct cs_shard_file *file,
                                  const struct cs_tar_member *members, size_t n,
                                  struct cs_shard_item *out, struct cs_err *err)
{
    struct reading r = {file, members, n, out, err};

    out->json = json_object();
    out->bytes = calloc(n, sizeof *out->bytes);
    out->n_bytes = (int)n;
    return out->bytes != NULL ? read_members(&r)
                              : cs_fail(err, CS_NO_MEMORY, "no memory for a sample");
}
