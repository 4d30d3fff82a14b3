/* Where every item of a data set's file lies. The file is read once, in blocks: a JSON array of
 * samples, or JSON lines, told apart by their first character. Only strings, brackets and commas are
 * looked at. */
#ifndef CS_INPUT_DATA_INDEX_H
#define CS_INPUT_DATA_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

struct cs_index {
    struct cs_index_item {
        uint64_t offset, len;
    } * items; /* (n), malloc'ed */

    uint64_t n, cap;
    char xxh3[33]; /* of the whole file; "" where it was not read to its end */
    bool is_lines; /* JSON lines */
};

/* max_items: stop behind so many, 0: never. What is no data set at all (another encoding, one JSON
 * object over many lines, lists of lists, an array that does not end) is one error here, not a bad
 * sample a line. path: for messages. */
enum cs_status cs_index_make(int fd, const char *path, uint64_t max_items, struct cs_index *out,
                             struct cs_err *err) CS_NODISCARD;
void cs_index_free(struct cs_index *index);

#endif
