/* Files that are JSON, or nearly, and yet no data set: what they are and what to do about it. */
#ifndef CS_INPUT_DATA_SHAPE_H
#define CS_INPUT_DATA_SHAPE_H

#include "input/data/shard/index.h"

/* By the first bytes: another encoding, a compressed or columnar file; a text that is not JSON, by its name. */
enum cs_status cs_shape_check_start(const char *path, const char *bytes, size_t n,
                                    struct cs_err *err) CS_NODISCARD;
/* By the first and the last item: an object around the samples, a list of turns, lists. An item that
 * cannot be parsed decides nothing. */
enum cs_status cs_shape_check_items(int fd, const char *path, const struct cs_index *index,
                                    struct cs_err *err) CS_NODISCARD;
/* One object over several lines. has_more: other text follows it. Always an error. */
enum cs_status cs_shape_refuse_spread(int fd, const char *path, uint64_t offset, uint64_t len,
                                      bool has_more, struct cs_err *err) CS_NODISCARD;
/* Puts before an error of the index that the file is not UTF-8, where that is so: brackets and
 * quotes of other encodings mislead. */
enum cs_status cs_shape_blame_encoding(int fd, const char *path, enum cs_status status,
                                       struct cs_err *err) CS_NODISCARD;

#endif
