/* A file of JSON: an array of samples, or one a line. */
#include <stdlib.h>

#include "core/base/system/io.h"
#include "input/data/shard/index.h"
#include "input/data/shard/json_tolerant.h"
#include "input/data/shard/shard_kinds.h"

static bool is_json(const char *path, const char *bytes, size_t n)
{
    (void)path;
    (void)bytes;
    (void)n;
    return true; /* the index says what is wrong with it */
}

static enum cs_status open_json(struct cs_shard_file *file, uint64_t max_items, struct cs_err *err)
{
    struct cs_index *index = calloc(1, sizeof *index);
    enum cs_status status = CS_OK;

    if (index == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", file->path);
    status = cs_index_make(file->fd, file->path, max_items, index, err);
    if (status != CS_OK)
        free(index);
    else
        file->state = index;
    return status;
}

static void close_json(struct cs_shard_file *file)
{
    cs_index_free(file->state);
    free(file->state);
}

static uint64_t count_json(const struct cs_shard_file *file)
{
    const struct cs_index *index = file->state;

    return index->n;
}

static const char *hash_json(const struct cs_shard_file *file)
{
    const struct cs_index *index = file->state;

    return index->xxh3;
}

static enum cs_status read_json(const struct cs_shard_file *file, uint64_t at,
                                struct cs_shard_item *out, struct cs_err *err)
{
    const struct cs_index *index = file->state;
    const struct cs_index_item *item = &index->items[at];
    enum cs_status status = CS_OK;
    char *bytes = NULL;
    size_t got = 0;

    if (item->len > CS_RECORD_MAX_BYTES)
        return cs_fail(err, CS_LIMIT, "sample of %llu bytes, at most %d",
                       (unsigned long long)item->len, CS_RECORD_MAX_BYTES);
    bytes = malloc(item->len + 1);
    if (bytes == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sample");
    status = cs_read_at(file->fd, file->path, bytes, item->len, item->offset, &got, err);
    if (status == CS_OK && got < item->len)
        status = cs_fail(err, CS_CORRUPT, "%s became shorter", file->path);
    if (status == CS_OK)
        status = cs_json_tolerant(bytes, got, item->offset, &out->json, err);
    free(bytes);
    return status;
}

const struct cs_shard_kind cs_shard_json = {
    .name = "JSON",
    .is = is_json,
    .open = open_json,
    .close = close_json,
    .count = count_json,
    .hash = hash_json,
    .read = read_json,
};
