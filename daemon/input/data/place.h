/* The folder that the files of samples are relative to, and that they may not leave. */
#ifndef CS_INPUT_DATA_PLACE_H
#define CS_INPUT_DATA_PLACE_H

#include <stdbool.h>

#include "core/base/arena.h"
#include "core/base/system/io.h"

struct cs_place {
    const char *root, *named_root; /* the real path, and as it was given */
    bool follows_links;            /* symbolic links may lead out of it */
};

/* root "": the folder of `first`, a file of the data set. */
enum cs_status cs_place_init(struct cs_place *place, struct cs_arena *arena, const char *root,
                             const char *first, bool follows_links,
                             struct cs_err *err) CS_NODISCARD;
/* file of a sample -> real path. CS_NOT_FOUND: missing; CS_REFUSED: leaves the folder (by an absolute path, "..", or a
 * symbolic link that may not be followed). */
enum cs_status cs_place_resolve(const struct cs_place *place, const char *file,
                                char out[CS_PATH_CAP], struct cs_err *err) CS_NODISCARD;

#endif
