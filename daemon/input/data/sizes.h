/* Remembers how large media files are, so that a file is not opened again to be counted. Bounded: a
 * newer file takes the place of an older one. Thread-safe. */
#ifndef CS_INPUT_DATA_SIZES_H
#define CS_INPUT_DATA_SIZES_H

#include "input/media/layout.h"

struct cs_sizes;

struct cs_sizes *cs_sizes_new(void);        /* NULL: no memory */
void cs_sizes_free(struct cs_sizes *sizes); /* accepts NULL */
/* false: not there */
bool cs_sizes_get(struct cs_sizes *sizes, const char *path, struct cs_medium *out);
void cs_sizes_put(struct cs_sizes *sizes, const char *path, const struct cs_medium *medium);

#endif
