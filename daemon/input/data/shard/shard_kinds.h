/* The kinds of files that a data set may have; private to the files shard*.c. */
#ifndef CS_INPUT_DATA_SHARD_KINDS_H
#define CS_INPUT_DATA_SHARD_KINDS_H

#include <jansson.h>

#include "input/data/shard/shard.h"

/* An open file. state: what the kind keeps. */
struct cs_shard_file {
    int fd;
    const char *path;
    void *state;
};

/* A sample as JSON, with the bytes that it refers to. free_bytes: gives them back. */
struct cs_shard_item {
    json_t *json;
    struct cs_record_bytes *bytes;
    int n_bytes;
    void *held;
};

struct cs_shard_kind {
    const char *name;
    bool (*is)(const char *path, const char *bytes, size_t n); /* by the first 512 bytes */
    enum cs_status (*open)(struct cs_shard_file *file, uint64_t max_items, struct cs_err *err);
    void (*close)(struct cs_shard_file *file);
    uint64_t (*count)(const struct cs_shard_file *file);
    const char *(*hash)(const struct cs_shard_file *file);
    enum cs_status (*read)(const struct cs_shard_file *file, uint64_t index,
                           struct cs_shard_item *out, struct cs_err *err);
    void (*release)(struct cs_shard_item *item); /* NULL: nothing but the JSON */
};

extern const struct cs_shard_kind cs_shard_csv, cs_shard_json, cs_shard_parquet, cs_shard_tar;

#endif
