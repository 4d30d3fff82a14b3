/* Opens a file of a data set as what it is. */
#include "input/data/shard/shard.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "input/data/shard/shard_kinds.h"

enum { START = 512 };

struct cs_shard {
    struct cs_shard_file file;
    const struct cs_shard_kind *kind;
    char *path;
};

static const struct cs_shard_kind *const kinds[] = {&cs_shard_parquet, &cs_shard_tar, &cs_shard_csv,
                                                    &cs_shard_json};

static enum cs_status choose(struct cs_shard *shard, struct cs_err *err)
{
    char start[START];
    size_t got = 0, i = 0;

    CS_TRY(cs_read_at(shard->file.fd, shard->path, start, START, 0, &got, err));
    while (i + 1 < CS_ARRAY_LEN(kinds) && !kinds[i]->is(shard->path, start, got))
        i++;
    shard->kind = kinds[i];
    return CS_OK;
}

enum cs_status cs_shard_open(const char *path, uint64_t max_items, struct cs_shard **out,
                             struct cs_err *err)
{
    struct cs_shard *shard = calloc(1, sizeof *shard);
    enum cs_status status = CS_OK;

    *out = NULL;
    if (shard == NULL || (shard->path = strdup(path)) == NULL) {
        free(shard);
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", path);
    }
    shard->file = (struct cs_shard_file){.fd = -1, .path = shard->path};
    status = cs_open_regular(path, &shard->file.fd, NULL, err);
    if (status != CS_OK)
        (void)cs_wrap(err, status, "data set");
    if (status == CS_OK)
        status = choose(shard, err);
    if (status == CS_OK)
        status = shard->kind->open(&shard->file, max_items, err);
    if (status != CS_OK) {
        cs_shard_close(shard);
        return status;
    }
    *out = shard;
    return CS_OK;
}

void cs_shard_close(struct cs_shard *shard)
{
    if (shard == NULL)
        return;
    if (shard->file.state != NULL)
        shard->kind->close(&shard->file);
    if (shard->file.fd != -1)
        close(shard->file.fd);
    free(shard->path);
    free(shard);
}

uint64_t cs_shard_count(const struct cs_shard *shard)
{
    return shard->kind->count(&shard->file);
}

const char *cs_shard_hash(const struct cs_shard *shard)
{
    return shard->kind->hash(&shard->file);
}

enum cs_status cs_shard_read(const struct cs_shard *shard, uint64_t index,
                             const struct cs_record_keys *keys, struct cs_findings *findings,
                             struct cs_record **out, struct cs_err *err)
{
    struct cs_shard_item item = {0};
    enum cs_status status = shard->kind->read(&shard->file, index, &item, err);

    *out = NULL;
    if (status == CS_OK)
        status = cs_record_read_with(item.json, keys, item.bytes, item.n_bytes, findings, out, err);
    json_decref(item.json);
    if (shard->kind->release != NULL)
        shard->kind->release(&item);
    return status;
}
