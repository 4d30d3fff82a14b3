/* Rewrites what Python's json module writes and jansson refuses, then parses. */
#include "input/data/shard/json_tolerant.h"

#include <string.h>

#include "core/base/str.h"

struct cursor {
    const char *begin, *p, *end;
    uint64_t at;
    struct cs_buf out;
    struct cs_err *err;
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

static enum cs_status fail_at(const struct cursor *c, const char *what)
{
    return cs_fail(c->err, CS_CORRUPT, "%s at byte %llu of the file", what,
                   (unsigned long long)(c->at + (uint64_t)(c->p - c->begin)));
}

/* At a backslash. A surrogate stands only before or behind its partner. */
static enum cs_status copy_escape(struct cursor *c)
{
    int first = c->end - c->p >= 2 && c->p[1] == 'u' ? hex4(c->p + 2, c->end) : -1;
    bool has_next = c->end - c->p >= 12 && c->p[6] == '\\' && c->p[7] == 'u';
    int second = first >= 0xd800 && first <= 0xdbff && has_next ? hex4(c->p + 8, c->end) : -1;
    size_t n = first == -1 ? 2 : 6;

    if (second >= 0xdc00 && second <= 0xdfff)
        n = 12;
    else if (first >= 0xd800 && first <= 0xdfff)
        return fail_at(c, "half a character (a lone surrogate)");
    n = n > (size_t)(c->end - c->p) ? (size_t)(c->end - c->p) : n;
    cs_buf_add(&c->out, c->p, n);
    c->p += n;
    return CS_OK;
}

static enum cs_status copy_string(struct cursor *c)
{
    cs_buf_addc(&c->out, *c->p++);
    while (c->p < c->end && *c->p != '"') {
        uint32_t code = 0;
        size_t n = 1;
        if (*c->p == '\\') {
            CS_TRY(copy_escape(c));
            continue;
        }
        n = cs_utf8_decode(c->p, (size_t)(c->end - c->p), &code);
        if (n == 0)
            return fail_at(c, "not UTF-8");
        cs_buf_add(&c->out, c->p, n);
        c->p += n;
    }
    if (c->p < c->end)
        cs_buf_addc(&c->out, *c->p++);
    return CS_OK;
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
    cs_buf_add(&c->out, begin, (size_t)(c->p - begin));
    if (is_integer && c->p - begin > 18)
        cs_buf_adds(&c->out, ".0");
}

static enum cs_status copy_all(struct cursor *c)
{
    while (c->p < c->end) {
        if (*c->p == '"')
            CS_TRY(copy_string(c));
        else if ((*c->p == 'N' || *c->p == 'I' || *c->p == '-') && skip_word(c))
            continue;
        else if (*c->p == '-' || (*c->p >= '0' && *c->p <= '9'))
            copy_number(c);
        else if ((unsigned char)*c->p >= 0x80)
            return fail_at(c, "a character outside a string");
        else
            cs_buf_addc(&c->out, *c->p++);
    }
    return CS_OK;
}

enum cs_status cs_json_tolerant(const char *bytes, size_t n, uint64_t at, json_t **out,
                                struct cs_err *err)
{
    struct cursor c = {bytes, bytes, bytes + n, at, {0}, err};
    enum cs_status status = copy_all(&c);
    json_error_t where;

    *out = NULL;
    if (status == CS_OK)
        *out = json_loadb(cs_buf_str(&c.out), c.out.len,
                          JSON_ALLOW_NUL | JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &where);
    cs_buf_free(&c.out);
    if (status == CS_OK && *out == NULL)
        return cs_fail(err, CS_CORRUPT, "JSON, line %d: %s", where.line, where.text);
    return status;
}
