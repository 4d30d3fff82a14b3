/* Rewrites what Python's json module writes and jansson refuses, then parses. */
#include "input/data/json_tolerant.h"

#include <string.h>

#include "core/base/str.h"

struct cursor {
    const char *p, *end;
    struct cs_buf out;
};

static int hex4(const char *p, const char *end)
{
    int v = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d == -1)
            return -1;
        v = v * 16 + d;
    }
    return v;
}

/* At a backslash: copy the escape; a surrogate without its partner becomes U+FFFD. */
static void copy_escape(struct cursor *c)
{
    int first = c->end - c->p >= 2 && c->p[1] == 'u' ? hex4(c->p + 2, c->end) : -1;
    size_t n = first == -1 ? 2 : 6;

    if (first >= 0xd800 && first <= 0xdbff && c->end - c->p >= 12 && c->p[6] == '\\' &&
        c->p[7] == 'u') {
        int second = hex4(c->p + 8, c->end);
        if (second >= 0xdc00 && second <= 0xdfff) {
            cs_buf_add(&c->out, c->p, 12);
            c->p += 12;
            return;
        }
    }
    n = n > (size_t)(c->end - c->p) ? (size_t)(c->end - c->p) : n;
    if (first >= 0xd800 && first <= 0xdfff)
        cs_buf_adds(&c->out, "\\ufffd");
    else
        cs_buf_add(&c->out, c->p, n);
    c->p += n;
}

static void copy_string(struct cursor *c)
{
    cs_buf_addc(&c->out, *c->p++);
    while (c->p < c->end && *c->p != '"') {
        uint32_t code = 0;
        size_t n = 1;
        if (*c->p == '\\') {
            copy_escape(c);
            continue;
        }
        n = cs_utf8_decode(c->p, (size_t)(c->end - c->p), &code);
        if (n == 0) {
            cs_buf_adds(&c->out, "\xef\xbf\xbd");
            c->p++;
            continue;
        }
        cs_buf_add(&c->out, c->p, n);
        c->p += n;
    }
    if (c->p < c->end)
        cs_buf_addc(&c->out, *c->p++);
}

static bool skip_word(struct cursor *c)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity", "-NaN"};

    for (size_t i = 0; i < CS_ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(c->end - c->p) >= n && memcmp(c->p, words[i], n) == 0) {
            c->p += n;
            cs_buf_adds(&c->out, "null");
            return true;
        }
    }
    return false;
}

static void copy_number(struct cursor *c)
{
    const char *begin = c->p;
    bool is_integer = true;

    while (c->p < c->end && *c->p != '\0' && strchr("+-.eE0123456789", *c->p) != NULL)
        is_integer &= strchr(".eE", *c->p++) == NULL;
    if (is_integer && c->p - begin > 18)
        cs_buf_addf(&c->out, "\"%.*s\"", (int)(c->p - begin > 4000 ? 4000 : c->p - begin), begin);
    else
        cs_buf_add(&c->out, begin, (size_t)(c->p - begin));
}

enum cs_status cs_json_tolerant(const char *bytes, size_t n, json_t **out, struct cs_err *err)
{
    struct cursor c = {bytes, bytes + n, {0}};
    json_error_t where;

    while (c.p < c.end) {
        if (*c.p == '"')
            copy_string(&c);
        else if ((*c.p == 'N' || *c.p == 'I' || *c.p == '-') && skip_word(&c))
            continue;
        else if (*c.p == '-' || (*c.p >= '0' && *c.p <= '9'))
            copy_number(&c);
        else
            cs_buf_addc(&c.out, *c.p++);
    }
    *out = json_loadb(cs_buf_str(&c.out), c.out.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    cs_buf_free(&c.out);
    if (*out == NULL)
        return cs_fail(err, CS_CORRUPT, "JSON, line %d: %s", where.line, where.text);
    return CS_OK;
}
