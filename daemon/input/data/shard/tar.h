/* The members of a tar archive and where their bytes lie, found in one pass over the headers. ustar, pax (long
 * names and sizes) and GNU (long names); not packed. Nothing in the archive is trusted. */
#ifndef CS_INPUT_DATA_TAR_H
#define CS_INPUT_DATA_TAR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"

struct cs_tar_member {
    const char *name;
    uint64_t offset, n_bytes;
};

struct cs_tar {
    struct cs_tar_member *members; /* regular files only, malloc'ed; names are in the arena */
    size_t n, cap;
    char xxh3[33]; /* of all headers */
};

/* by the first 512 bytes */
bool cs_tar_is(const char *bytes, size_t n);
/* is_enough(user, tar): called after every member; true: the rest is not looked at. NULL: all. CS_CORRUPT,
 * CS_UNSUPPORTED (sparse members), CS_LIMIT. */
enum cs_status cs_tar_list(int fd, const char *path, struct cs_arena *arena,
                           bool (*is_enough)(void *user, const struct cs_tar *so_far), void *user,
                           struct cs_tar *out, struct cs_err *err) CS_NODISCARD;
void cs_tar_free(struct cs_tar *tar);

#endif
