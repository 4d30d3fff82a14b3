/* What losses are told under: the names of the sources that samples come from ("channel" of a sample, or the
 * name of its part of a mixture), as small numbers that slots carry and ranks sum by. */
#ifndef CS_DATA_SOURCES_H
#define CS_DATA_SOURCES_H

#include <stdint.h>

/* Sources of a job. 0 are all samples that name none, and those of names for which there is no room. */
enum { CS_SOURCES_MAX = 64, CS_SOURCE_NAME = 64 };

#define CS_SOURCE_OTHER "other"

struct cs_sources {
    int32_t n; /* names, the first is CS_SOURCE_OTHER; 0 before the first sample */
    char name[CS_SOURCES_MAX][CS_SOURCE_NAME]; /* cut where they are longer */
    char left_out[CS_SOURCE_NAME];             /* the first without room, "": none */
};

/* The loss of the tokens of one source. */
struct cs_source_loss {
    double sum;
    int64_t tokens;
};

/* Its number, a new one if need be. name: UTF-8; "" and NULL: 0. */
int32_t cs_sources_index(struct cs_sources *sources, const char *name);

#endif
