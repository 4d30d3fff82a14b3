/* A Parquet file: a sample a row. */
#include <stdlib.h>
#include <string.h>

#include "input/data/parquet/parquet.h"
#include "input/data/shard/shard_kinds.h"

struct state {
    struct cs_parquet *file;
    uint64_t n;
};

static bool is_parquet(const char *path, const char *bytes, size_t n)
{
    (void)path;
    return n >= 4 && (memcmp(bytes, "PAR1", 4) == 0 || memcmp(bytes, "PARE", 4) == 0);
}

static void close_parquet(struct cs_shard_file *file)
{
    struct state *s = file->state;

    cs_parquet_close(s->file);
    free(s);
}

static enum cs_status open_parquet(struct cs_shard_file *file, uint64_t max_items,
                                   struct cs_err *err)
{
    struct state *s = calloc(1, sizeof *s);

    if (s == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", file->path);
    file->state = s;
    CS_TRY(cs_parquet_open(file->fd, file->path, &s->file, err));
    s->n = cs_parquet_count(s->file);
    if (s->n == 0)
        return cs_fail(err, CS_INVALID, "%s: holds no samples", file->path);
    s->n = max_items > 0 && max_items < s->n ? max_items : s->n;
    return CS_OK;
}

static uint64_t count_parquet(const struct cs_shard_file *file)
{
    const struct state *s = file->state;

    return s->n;
}

static const char *hash_parquet(const struct cs_shard_file *file)
{
    const struct state *s = file->state;

    return s->n == cs_parquet_count(s->file) ? cs_parquet_hash(s->file) : "";
}

static enum cs_status read_parquet(const struct cs_shard_file *file, uint64_t index,
                                   struct cs_shard_item *out, struct cs_err *err)
{
    const struct state *s = file->state;
    struct cs_pq_bytes *bytes = calloc(1, sizeof *bytes);

    if (bytes == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sample");
    out->held = bytes;
    CS_TRY(cs_parquet_row(s->file, index, &out->json, bytes, err));
    out->bytes = calloc((size_t)bytes->n + 1, sizeof *out->bytes);
    if (out->bytes == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sample");
    for (int i = 0; i < bytes->n; i++)
        out->bytes[i] =
            (struct cs_record_bytes){.data = bytes->items[i].data, .n = bytes->items[i].n};
    out->n_bytes = bytes->n;
    return CS_OK;
}

static void release_parquet(struct cs_shard_item *item)
{
    if (item->held != NULL)
        cs_pq_bytes_free(item->held);
    free(item->held);
    free(item->bytes);
}

const struct cs_shard_kind cs_shard_parquet = {
    .name = "Parquet",
    .is = is_parquet,
    .open = open_parquet,
    .close = close_parquet,
    .count = count_parquet,
    .hash = hash_parquet,
    .read = read_parquet,
    .release = release_parquet,
};
