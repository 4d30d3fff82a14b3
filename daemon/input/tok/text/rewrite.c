/* The dialects agree on what the known tokenizers use, after three rewrites: \s and \w have other
 * members in PCRE2 (U+180E; no marks), \d too in principle, and ^ $ match at every line in
 * Oniguruma. */
#include "input/tok/text/rewrite.h"

#include <string.h>

#define SPACES "\\t-\\r\\x{85}\\p{Z}"
#define WORDS  "\\p{L}\\p{M}\\p{Nd}\\p{Pc}"

struct rewrite {
    const char *p, *end;
    struct cs_buf out;
    bool in_class;
    char bad[16]; /* the construct that is not supported */
};

static bool refuse(struct rewrite *r, const char *at, size_t n)
{
    if (n > (size_t)(r->end - at))
        n = (size_t)(r->end - at);
    if (n >= sizeof(r->bad))
        n = sizeof(r->bad) - 1;
    memcpy(r->bad, at, n);
    return false;
}

/* \p{..} and \x{..}: copied with their braces, so that they are not taken for a quantifier */
static void copy_braced(struct rewrite *r)
{
    cs_buf_add(&r->out, r->p, 2);
    r->p += 2;
    if (r->p == r->end || *r->p != '{')
        return;
    while (r->p < r->end) {
        cs_buf_addc(&r->out, *r->p);
        if (*r->p++ == '}')
            return;
    }
}

static bool escape(struct rewrite *r)
{
    static const struct {
        char c;
        const char *plain, *in_class; /* NULL: refused */
    } rows[] = {
        {'s', "[" SPACES "]",  SPACES   },
        {'S', "[^" SPACES "]", NULL     },
        {'w', "[" WORDS "]",   WORDS    },
        {'W', "[^" WORDS "]",  NULL     },
        {'d', "\\p{Nd}",       "\\p{Nd}"},
        {'D', "\\P{Nd}",       "\\P{Nd}"},
        {'n', "\\n",           "\\n"    },
        {'r', "\\r",           "\\r"    },
        {'t', "\\t",           "\\t"    },
        {'f', "\\f",           "\\f"    },
    };

    char c = r->end - r->p >= 2 ? r->p[1] : '\0';

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const char *text = r->in_class ? rows[i].in_class : rows[i].plain;
        if (rows[i].c != c)
            continue;
        if (text == NULL)
            return refuse(r, r->p, 2);
        cs_buf_adds(&r->out, text);
        r->p += 2;
        return true;
    }
    if (c == 'p' || c == 'P' || c == 'x') {
        copy_braced(r);
        return true;
    }
    if (c == 'u' && r->end - r->p >= 6) {
        cs_buf_addf(&r->out, "\\x{%.4s}", r->p + 2);
        r->p += 6;
        return true;
    }
    if (c > ' ' && c < 0x7f && strchr("!\"#%&'*+,-./:;<=>?@[]^_`{|}~$()\\", c) != NULL) {
        cs_buf_add(&r->out, r->p, 2);
        r->p += 2;
        return true;
    }
    return refuse(r, r->p, 2);
}

static bool class_char(struct rewrite *r)
{
    if (*r->p == '[')
        return refuse(r, r->p, 3);
    if (*r->p == '&' && r->end - r->p >= 2 && r->p[1] == '&')
        return refuse(r, r->p, 2);
    if (*r->p == ']')
        r->in_class = false;
    cs_buf_addc(&r->out, *r->p++);
    return true;
}

static bool open_class(struct rewrite *r)
{
    r->in_class = true;
    cs_buf_addc(&r->out, *r->p++);
    if (r->p < r->end && *r->p == '^')
        cs_buf_addc(&r->out, *r->p++);
    return r->p < r->end && *r->p == ']' ? refuse(r, r->p - 1, 2) : true;
}

static bool open_group(struct rewrite *r)
{
    static const char *const known[] = {"?:", "?=", "?!", "?<=", "?<!", "?>", "?i:"};

    if (r->end - r->p >= 2 && r->p[1] == '?') {
        for (size_t i = 0; i < CS_ARRAY_LEN(known); i++) {
            size_t n = strlen(known[i]);
            if ((size_t)(r->end - r->p) > n && memcmp(r->p + 1, known[i], n) == 0) {
                cs_buf_add(&r->out, r->p, n + 1);
                r->p += n + 1;
                return true;
            }
        }
        return refuse(r, r->p, 4);
    }
    cs_buf_addc(&r->out, *r->p++);
    return true;
}

static bool rewrite(struct rewrite *r)
{
    while (r->p < r->end) {
        bool ok = true;
        if (*r->p == '\\')
            ok = escape(r);
        else if (r->in_class)
            ok = class_char(r);
        else if (*r->p == '[')
            ok = open_class(r);
        else if (*r->p == '(')
            ok = open_group(r);
        else if (*r->p == '^' || *r->p == '$')
            cs_buf_addf(&r->out, "(?m:%c)", *r->p++);
        else if (*r->p == '}' && r->end - r->p >= 2 && r->p[1] == '+')
            ok = refuse(r, r->p, 2); /* not possessive in Oniguruma */
        else
            cs_buf_addc(&r->out, *r->p++);
        if (!ok)
            return false;
    }
    return true;
}

enum cs_status tok_regex_rewrite(const char *pattern, size_t n, struct cs_buf *out,
                                 struct cs_err *err)
{
    struct rewrite r = {.p = pattern, .end = pattern + n};

    if (!rewrite(&r)) {
        cs_buf_free(&r.out);
        return cs_fail(err, CS_UNSUPPORTED,
                       "unsupported tokenizer: regex \"%.*s\": construct \"%s\"",
                       n > 300 ? 300 : (int)n, pattern, r.bad);
    }
    *out = r.out;
    return CS_OK;
}
