/* Growable byte buffer, NUL-terminated after every call; the string builder of the project.
 *
 * Zero-initialise (struct cs_buf b = {0}), free with cs_buf_free. Growth aborts when memory is
 * out. */
#ifndef CS_BASE_BUF_H
#define CS_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "core/base/status.h"

struct cs_buf {
    char *data; /* NULL while empty and never written */
    size_t len, cap;
};

void cs_buf_free(struct cs_buf *buf);
void cs_buf_reset(struct cs_buf *buf); /* keeps the memory */
void cs_buf_add(struct cs_buf *buf, const void *bytes, size_t n);
void cs_buf_adds(struct cs_buf *buf, const char *text);
void cs_buf_addc(struct cs_buf *buf, char c);
void cs_buf_addf(struct cs_buf *buf, const char *fmt, ...) CS_PRINTF(2, 3);
void cs_buf_addv(struct cs_buf *buf, const char *fmt, va_list args) CS_PRINTF(2, 0);
/* make room for n more bytes and return where they go; the caller adds to len */
void *cs_buf_room(struct cs_buf *buf, size_t n);
/* the same for sizes that a user decides: NULL when memory is out, and the buffer is as it was */
void *cs_buf_try_room(struct cs_buf *buf, size_t n);
const char *cs_buf_str(const struct cs_buf *buf); /* "" when empty */

#endif
