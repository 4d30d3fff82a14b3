/* The files of a data set: one, those of a folder, or those that a pattern finds, in the order of their names. */
#ifndef CS_INPUT_DATA_SHARD_FILES_H
#define CS_INPUT_DATA_SHARD_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"

struct cs_shard_files {
    struct cs_arena *arena;
    const char **names;
    size_t n;
};

/* path: a file, a folder of which all files of the first kind count that it has, or a pattern such as
 * "train-*.parquet". files: empty but for its arena. CS_NOT_FOUND: nothing is there. */
enum cs_status cs_shard_files_list(struct cs_shard_files *files, const char *path,
                                   struct cs_err *err) CS_NODISCARD;
/* Bytes of all of them. */
enum cs_status cs_shard_files_bytes(const char *path, uint64_t *bytes,
                                    struct cs_err *err) CS_NODISCARD;

#endif
