/* Matching keeps only the last `*` to come back to: each stretch between two stars is best matched
 * as early as possible, so an earlier star never has to move again. */
#include "core/base/glob.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits; saturates, so a number of any length compares sanely. */
static const char *read_number(const char *s, uint64_t *out)
{
    uint64_t n = 0;
    while (is_digit(*s)) {
        n = n > UINT64_MAX / 10 - 1 ? UINT64_MAX / 10 : n * 10 + (uint64_t)(*s - '0');
        s++;
    }
    *out = n;
    return s;
}

/* A whole component "A-B" at s: returns its end, or NULL when s is something else. */
static const char *read_range(const char *s, uint64_t *low, uint64_t *high)
{
    if (!is_digit(*s))
        return NULL;
    s = read_number(s, low);
    if (*s != '-' || !is_digit(s[1]))
        return NULL;
    s = read_number(s + 1, high);
    return *s == '\0' || *s == '.' ? s : NULL;
}

static bool starts_component(const char *whole, const char *at)
{
    return at == whole || at[-1] == '.';
}

/* One step of both strings; false when they differ here. */
static bool step(const char *glob, const char **g, const char *path, const char **p)
{
    uint64_t low, high, n;
    const char *range_end = starts_component(glob, *g) ? read_range(*g, &low, &high) : NULL;
    if (range_end != NULL) {
        if (!starts_component(path, *p) || !is_digit(**p))
            return false;
        const char *end = read_number(*p, &n);
        if ((*end != '\0' && *end != '.') || n < low || n > high)
            return false;
        *g = range_end;
        *p = end;
        return true;
    }
    if (**p == '\0' || **g != **p)
        return false;
    ++*g;
    ++*p;
    return true;
}

bool cs_glob_match(const char *glob, const char *path)
{
    const char *g = glob, *p = path;
    const char *star = NULL, *star_path = NULL;
    if (*glob == '\0')
        return false;
    for (;;) {
        if (*g == '*') {
            star = ++g;
            star_path = p;
            continue;
        }
        if (*g == '\0' && (*p == '\0' || *p == '.' || star == g))
            return true;
        if (*g != '\0' && step(glob, &g, path, &p))
            continue;
        if (star == NULL || *star_path == '\0')
            return false;
        g = star;
        p = ++star_path;
    }
}

const char *cs_glob_problem(const char *glob)
{
    if (*glob == '\0')
        return "the glob is empty";
    for (const char *s = glob; *s != '\0'; s++) {
        uint64_t low, high;
        if ((unsigned char)*s <= ' ' || *s == 0x7f)
            return "the glob contains a space or a control character";
        if (*s == '.' && (s == glob || s[1] == '.' || s[1] == '\0'))
            return "the glob has an empty component";
        if (strchr("?[]{}", *s) != NULL)
            return "only `*` and number ranges such as 0-3 are special in a glob";
        if (starts_component(glob, s) && read_range(s, &low, &high) != NULL && low > high)
            return "the range runs backwards";
    }
    return NULL;
}
