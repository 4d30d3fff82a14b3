/* Lines of a stream into messages, with every limit checked before anything is built.
 *
 * Feed what a read returned (at most CS_LINE_FEED_MAX bytes), then take messages until there is
 * none:
 *
 *   cs_line_feed(reader, bytes, n, &err);
 *   while ((st = cs_line_next(reader, &msg, &err)) == CS_OK && msg) { ...; json_decref(msg); }
 *
 * A line over the length limit is refused while it arrives; the reader is then broken for good and
 * the connection must end (CS_LIMIT). A complete line that is bad (depth, counts, JSON, duplicate
 * keys, not an object) is dropped with CS_INVALID or CS_LIMIT and the reader goes on. Empty lines
 * are skipped. A final line without newline is never delivered. The limit that holds is the one at
 * the time of cs_line_next: raise it between the hello and the next line. */
#ifndef CS_WIRE_LINE_H
#define CS_WIRE_LINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"

#define CS_LINE_FEED_MAX ((size_t)65536)
#define CS_LINE_MAX_VALUES                                                                         \
    1000000 /* values in one line; jansson needs up to 100 bytes for each                          \
             */

struct cs_line_reader;

struct cs_line_reader *cs_line_reader_new(void);         /* starts with CS_LINE_MAX_BEFORE_HELLO */
void cs_line_reader_free(struct cs_line_reader *reader); /* accepts NULL */
/* length without the newline; 0 sets CS_LINE_MAX */
void cs_line_reader_limit(struct cs_line_reader *reader, size_t max_bytes);
bool cs_line_reader_is_broken(const struct cs_line_reader *reader);
size_t cs_line_reader_pending(const struct cs_line_reader *reader); /* bytes held */

CS_NODISCARD enum cs_status cs_line_feed(struct cs_line_reader *reader, const void *bytes, size_t n,
                                         struct cs_err *err);
/* *msg: the caller's reference, NULL when no line is complete */
CS_NODISCARD enum cs_status cs_line_next(struct cs_line_reader *reader, json_t **msg,
                                         struct cs_err *err);

/* One line (or document) without a reader: the same checks, then the parser. Any JSON object. */
CS_NODISCARD enum cs_status cs_line_parse(const char *bytes, size_t n, json_t **msg,
                                          struct cs_err *err);
/* only the raw checks: nesting, items of each container, values in all */
CS_NODISCARD enum cs_status cs_line_scan(const char *bytes, size_t n, struct cs_err *err);

#endif
