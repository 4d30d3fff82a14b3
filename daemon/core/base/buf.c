/* Grows byte buffers. */
#include "core/base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cs_buf_free(struct cs_buf *buf)
{
    free(buf->data);
    *buf = (struct cs_buf){0};
}

void cs_buf_reset(struct cs_buf *buf)
{
    buf->len = 0;
    if (buf->data)
        buf->data[0] = '\0';
}

void *cs_buf_try_room(struct cs_buf *buf, size_t n)
{
    if (n >= SIZE_MAX / 4 - buf->len)
        return NULL;
    size_t need = buf->len + n + 1;
    if (need > buf->cap) {
        size_t cap = buf->cap ? buf->cap : 64;
        while (cap < need)
            cap *= 2;
        char *data = realloc(buf->data, cap);
        if (data == NULL)
            return NULL;
        buf->data = data;
        buf->cap = cap;
    }
    return buf->data + buf->len;
}

void *cs_buf_room(struct cs_buf *buf, size_t n)
{
    void *to = cs_buf_try_room(buf, n);
    CS_ASSERT(to != NULL);
    return to;
}

void cs_buf_add(struct cs_buf *buf, const void *bytes, size_t n)
{
    char *to = cs_buf_room(buf, n);
    if (n)
        memcpy(to, bytes, n);
    buf->len += n;
    buf->data[buf->len] = '\0';
}

void cs_buf_adds(struct cs_buf *buf, const char *text)
{
    cs_buf_add(buf, text, strlen(text));
}

void cs_buf_addc(struct cs_buf *buf, char c)
{
    cs_buf_add(buf, &c, 1);
}

void cs_buf_addv(struct cs_buf *buf, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    CS_ASSERT(n >= 0);
    char *to = cs_buf_room(buf, (size_t)n);
    vsnprintf(to, (size_t)n + 1, fmt, again);
    va_end(again);
    buf->len += (size_t)n;
}

void cs_buf_addf(struct cs_buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    cs_buf_addv(buf, fmt, args);
    va_end(args);
}

const char *cs_buf_str(const struct cs_buf *buf)
{
    return buf->data ? buf->data : "";
}
