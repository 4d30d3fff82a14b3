/* A tar archive as WebDataset has it: files whose names are alike up to the first dot, one behind the other,
 * are one sample. .json is the sample itself, .txt what is said of it, the others are its media. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/io.h"
#include "core/doc/doc.h"
#include "input/data/shard/json_tolerant.h"
#include "input/data/shard/shard_kinds.h"
#include "input/data/shard/tar.h"

struct sample {
    size_t first, n; /* of its members */
};

struct state {
    struct cs_arena *arena;
    struct cs_tar tar;
    struct sample *samples;
    uint64_t n, max;
};

/* What a sample's files are by the ends of their names. */
static const struct {
    const char *ends, *key;
} media[] = {
    {"jpg|jpeg|png|webp|gif|bmp|tif|tiff|img", "images"},
    {"mp4|webm|mkv|avi|mov",                   "videos"},
    {"wav|flac|mp3|ogg|opus|m4a|aiff",         "audios"},
};

/* Length of what the names of a sample have in common: up to the first dot behind the last stroke. */
static size_t key_length(const char *name)
{
    const char *slash = strrchr(name, '/');

    return (size_t)(slash != NULL ? slash - name + 1 : 0) +
           strcspn(slash != NULL ? slash + 1 : name, ".");
}

static bool is_same_sample(const char *a, const char *b)
{
    size_t n = key_length(a);

    return n == key_length(b) && memcmp(a, b, n) == 0;
}

static bool is_hidden(const char *name)
{
    const char *slash = strrchr(name, '/');

    return (slash != NULL ? slash[1] : name[0]) == '.';
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool is_enough(void *user, const struct cs_tar *tar)
{
    struct state *s = user;

    s->n += tar->n == 1 || (tar->n > 1 && !is_same_sample(tar->members[tar->n - 1].name,
                                                          tar->members[tar->n - 2].name));
    return s->max > 0 && s->n > s->max;
}

static enum cs_status group(struct state *s, const char *path, struct cs_err *err)
{
    s->samples = calloc(s->tar.n + 1, sizeof *s->samples);
    if (s->samples == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the samples of %s", path);
    s->n = 0;
    for (size_t i = 0; i < s->tar.n; i++) {
        const char *name = s->tar.members[i].name;
        struct sample *last = s->n > 0 ? &s->samples[s->n - 1] : NULL;
        if (is_hidden(name))
            continue;
        if (last != NULL && last->first + last->n == i &&
            is_same_sample(name, s->tar.members[last->first].name))
            last->n++;
        else
            s->samples[s->n++] = (struct sample){i, 1};
    }
    if (s->max > 0 && s->n > s->max)
        s->n = s->max;
    return s->n > 0 ? CS_OK : cs_fail(err, CS_INVALID, "%s: holds no samples", path);
}

static enum cs_status open_tar(struct cs_shard_file *file, uint64_t max_items, struct cs_err *err)
{
    struct state *s = calloc(1, sizeof *s);

    if (s == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", file->path);
    file->state = s;
    s->arena = cs_arena_new(0);
    s->max = max_items;
    CS_TRY(cs_tar_list(file->fd, file->path, s->arena, is_enough, s, &s->tar, err));
    return group(s, file->path, err);
}

static void close_tar(struct cs_shard_file *file)
{
    struct state *s = file->state;

    cs_tar_free(&s->tar);
    free(s->samples);
    cs_arena_free(s->arena);
    free(s);
}

static uint64_t count_tar(const struct cs_shard_file *file)
{
    const struct state *s = file->state;

    return s->n;
}

static const char *hash_tar(const struct cs_shard_file *file)
{
    const struct state *s = file->state;

    return s->tar.xxh3;
}

static bool is_tar(const char *bytes, size_t n)
{
    return cs_tar_is(bytes, n);
}

/* --- samples ---------------------------------------------------------------------------------- */

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

static enum cs_status read_tar(const struct cs_shard_file *file, uint64_t index,
                               struct cs_shard_item *out, struct cs_err *err)
{
    const struct state *s = file->state;
    const struct sample *sample = &s->samples[index];
    const char *name = s->tar.members[sample->first].name;
    struct reading r = {file, &s->tar.members[sample->first], sample->n, out, err};

    out->json = json_object();
    out->bytes = calloc(sample->n, sizeof *out->bytes);
    out->n_bytes = (int)sample->n;
    if (out->bytes == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sample");
    CS_TRY(read_members(&r));
    if (cs_doc_get(out->json, "id", NULL) == NULL)
        json_object_set_new(out->json, "id", json_stringn(name, key_length(name)));
    return CS_OK;
}

static void release_tar(struct cs_shard_item *item)
{
    free(item->bytes);
}

const struct cs_shard_kind cs_shard_tar = {
    .name = "tar",
    .is = is_tar,
    .open = open_tar,
    .close = close_tar,
    .count = count_tar,
    .hash = hash_tar,
    .read = read_tar,
    .release = release_tar,
};
