/* Lines of logs and notes: the newest so many, in the order of their times. They come live, one after
 * the other, and as what was written before; a line that comes both ways is kept once. */
#ifndef CS_CONSOLE_STORE_LINES_H
#define CS_CONSOLE_STORE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/system/log.h"

enum { CS_STORE_LINE_MOST = 8191 /* bytes of a line that are kept */ };

struct cs_store_line {
    int64_t number;  /* of its own, from 1 */
    int64_t wall_ns; /* 0 unknown */
    int64_t sort_ns; /* the same, or of the line before it */
    int32_t rank;    /* -1 feeder, -2 runner, -3 a note of the daemon */
    enum cs_log_level level;
    char *text;   /* owned */
    bool is_live; /* it came as it was written */
    int64_t past; /* the last answer about the past that had it, 0 none */
};

struct cs_store_lines {
    struct cs_store_line *line;
    int *order; /* (n) indices in line */
    int cap, n;
    int64_t total; /* ever added */
    int64_t past;  /* answers about the past so far */
};

void cs_lines_init(struct cs_store_lines *lines, int cap);
void cs_lines_clear(struct cs_store_lines *lines);
void cs_lines_free(struct cs_store_lines *lines);

struct cs_lines_new {
    int32_t rank;
    enum cs_log_level level;
    int64_t wall_ns;
    const char *text;
    size_t n;
    bool is_past; /* of the answer that was begun last */
};

void cs_lines_begin_past(struct cs_store_lines *lines); /* an answer with what was written before */

/* false: it is there already, or older than all of a full list */
bool cs_lines_add(struct cs_store_lines *lines, const struct cs_lines_new *new_line);
/* A line as it stands in a file (core/wire/log_line.h). */
bool cs_lines_add_log(struct cs_store_lines *lines, int32_t rank, const char *text, size_t n,
                      bool is_past);
/* index of the line with this number; of the next one when it is gone */
int cs_lines_find(const struct cs_store_lines *lines, int64_t number);

#endif
