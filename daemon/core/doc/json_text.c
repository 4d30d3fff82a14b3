/* Parses JSON; where an integer is too large for jansson, all that may be are made reals first. */
#include "core/doc/json_text.h"

#include <string.h>

#include "core/base/buf.h"

enum { SAFE_DIGITS = 18 }; /* of an int64, whatever they are */

/* the end of the string that begins at *p */
static const char *string_end(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        p += *p == '\\' && p + 1 < end;
    return p < end ? p + 1 : end;
}

static const char *number_end(const char *p, const char *end)
{
    while (p < end && *p != '\0' && strchr("+-.eE0123456789", *p) != NULL)
        p++;
    return p;
}

static json_t *parse_long(const char *text, size_t n, size_t flags, json_error_t *why)
{
    const char *p = text, *const end = text + n;
    struct cs_buf out = {0};
    while (p < end) {
        const bool is_number = *p == '-' || (*p >= '0' && *p <= '9');
        const char *next = *p == '"' ? string_end(p, end) : is_number ? number_end(p, end) : p + 1;
        const size_t len = (size_t)(next - p);
        cs_buf_add(&out, p, len);
        if (is_number && len > SAFE_DIGITS && memchr(p, '.', len) == NULL &&
            memchr(p, 'e', len) == NULL && memchr(p, 'E', len) == NULL)
            cs_buf_adds(&out, ".0");
        p = next;
    }
    json_t *root = json_loadb(cs_buf_str(&out), out.len, flags, why);
    cs_buf_free(&out);
    return root;
}

json_t *cs_json_parse(const char *text, size_t n, size_t flags, json_error_t *why)
{
    json_error_t own;
    json_error_t *const at = why != NULL ? why : &own;
    json_t *root = json_loadb(text, n, flags, at);
    if (root != NULL || json_error_code(at) != json_error_numeric_overflow)
        return root;
    return parse_long(text, n, flags, at);
}
