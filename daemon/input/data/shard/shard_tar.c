/* A tar archive as WebDataset has it: files whose names are alike up to the first dot, one behind the other,
 * are one sample (tar_sample.h). */
#include <stdlib.h>
#include <string.h>

#include "core/doc/doc.h"
#include "input/data/shard/shard_kinds.h"
#include "input/data/shard/tar_sample.h"

struct sample {
    size_t first, n; /* of its members */
};

struct state {
    struct cs_arena *arena;
    struct cs_tar tar;
    struct sample *samples;
    uint64_t n, max;
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

static bool is_tar(const char *path, const char *bytes, size_t n)
{
    (void)path;
    return cs_tar_is(bytes, n);
}

static enum cs_status read_tar(const struct cs_shard_file *file, uint64_t index,
                               struct cs_shard_item *out, struct cs_err *err)
{
    const struct state *s = file->state;
    const struct sample *sample = &s->samples[index];
    const char *name = s->tar.members[sample->first].name;

    CS_TRY(cs_tar_sample_read(file, &s->tar.members[sample->first], sample->n, out, err));
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
