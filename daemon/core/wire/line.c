/* Cuts a stream of bytes into lines and parses them, with every limit checked before. */
#include "core/wire/line.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/wire/wire.h"

struct cs_line_reader {
    struct cs_buf buf;
    size_t start;   /* of the line in progress */
    size_t scanned; /* no newline in buf before this */
    size_t max_bytes;
    bool is_broken;
};

struct cs_line_reader *cs_line_reader_new(void)
{
    struct cs_line_reader *reader = calloc(1, sizeof *reader);
    CS_ASSERT(reader != NULL);
    reader->max_bytes = CS_LINE_MAX_BEFORE_HELLO;
    return reader;
}

void cs_line_reader_free(struct cs_line_reader *reader)
{
    if (!reader)
        return;
    cs_buf_free(&reader->buf);
    free(reader);
}

void cs_line_reader_limit(struct cs_line_reader *reader, size_t max_bytes)
{
    reader->max_bytes = max_bytes ? max_bytes : CS_LINE_MAX;
}

bool cs_line_reader_is_broken(const struct cs_line_reader *reader)
{
    return reader->is_broken;
}

size_t cs_line_reader_pending(const struct cs_line_reader *reader)
{
    return reader->buf.len - reader->start;
}

static enum cs_status break_off(struct cs_line_reader *reader, struct cs_err *err)
{
    reader->is_broken = true;
    cs_buf_free(&reader->buf);
    reader->start = reader->scanned = 0;
    return cs_fail(err, CS_LIMIT, "line is longer than %zu bytes", reader->max_bytes);
}

/* move the line in progress to the front; give back memory a large line left behind */
static void compact(struct cs_line_reader *reader)
{
    size_t left = reader->buf.len - reader->start;
    if (left == 0 && reader->buf.cap > 4 * CS_LINE_FEED_MAX) {
        cs_buf_free(&reader->buf);
    } else if (reader->start > 0) {
        memmove(reader->buf.data, reader->buf.data + reader->start, left);
        reader->buf.len = left;
        reader->buf.data[left] = '\0';
    }
    reader->scanned -= reader->start;
    reader->start = 0;
}

enum cs_status cs_line_feed(struct cs_line_reader *reader, const void *bytes, size_t n,
                            struct cs_err *err)
{
    if (reader->is_broken)
        return break_off(reader, err);
    if (n > CS_LINE_FEED_MAX)
        return cs_fail(err, CS_USAGE, "feeding %zu bytes at once; %zu is the most", n,
                       CS_LINE_FEED_MAX);
    compact(reader);
    if (reader->buf.len + n > reader->max_bytes + 1 + CS_LINE_FEED_MAX)
        return break_off(reader, err);
    if (n)
        cs_buf_add(&reader->buf, bytes, n);
    return CS_OK;
}

static bool is_blank(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", bytes[i]) || bytes[i] == '\0')
            return false;
    return true;
}

enum cs_status cs_line_next(struct cs_line_reader *reader, json_t **msg, struct cs_err *err)
{
    *msg = NULL;
    for (;;) {
        if (reader->is_broken)
            return break_off(reader, err);
        if (reader->buf.len == reader->start)
            return CS_OK;
        const char *line = reader->buf.data + reader->start;
        const char *from = reader->buf.data + reader->scanned;
        const char *end = memchr(from, '\n', reader->buf.len - reader->scanned);
        size_t n = end ? (size_t)(end - line) : reader->buf.len - reader->start;
        if (n > reader->max_bytes)
            return break_off(reader, err);
        reader->scanned = end ? reader->start + n + 1 : reader->buf.len;
        if (!end)
            return CS_OK;
        reader->start = reader->scanned;
        if (!is_blank(line, n))
            return cs_line_parse(line, n, msg, err);
    }
}

/* position after the string that starts at bytes[i] == '"'; n when it does not end */
static size_t skip_string(const char *bytes, size_t n, size_t i)
{
    for (i++; i < n; i++) {
        if (bytes[i] == '\\')
            i++;
        else if (bytes[i] == '"')
            return i + 1;
    }
    return n;
}

enum cs_status cs_line_scan(const char *bytes, size_t n, struct cs_err *err)
{
    int64_t commas[CS_JSON_MAX_DEPTH + 1] = {0};
    int64_t most = cs_schema_max_items(), values = 1;
    int depth = 0;
    for (size_t i = 0; i < n;) {
        char c = bytes[i];
        if (c == '"') {
            i = skip_string(bytes, n, i);
            continue;
        }
        i++;
        if (c == '{' || c == '[') {
            if (depth == CS_JSON_MAX_DEPTH)
                return cs_fail(err, CS_LIMIT, "nested deeper than %d at byte %zu",
                               CS_JSON_MAX_DEPTH, i);
            commas[++depth] = 0;
            values++;
        } else if (c == '}' || c == ']') {
            if (depth-- == 0)
                return cs_fail(err, CS_INVALID, "'%c' without its opening at byte %zu", c, i);
        } else if (c == ',') {
            if (++commas[depth] >= most)
                return cs_fail(err, CS_LIMIT, "more than %lld items in one array or object",
                               (long long)most);
            values++;
        }
        if (values > CS_LINE_MAX_VALUES)
            return cs_fail(err, CS_LIMIT, "more than %d values in one line", CS_LINE_MAX_VALUES);
    }
    return CS_OK;
}

enum cs_status cs_line_parse(const char *bytes, size_t n, json_t **msg, struct cs_err *err)
{
    json_error_t je;
    *msg = NULL;
    CS_TRY(cs_line_scan(bytes, n, err));
    json_t *value = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &je);
    if (!value)
        return cs_fail(err, CS_INVALID, "not JSON: %s at byte %d", je.text, je.position);
    if (!json_is_object(value)) {
        json_decref(value);
        return cs_fail(err, CS_INVALID, "not a JSON object");
    }
    *msg = value;
    return CS_OK;
}
