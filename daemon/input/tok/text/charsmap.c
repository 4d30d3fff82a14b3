/* A unit of the trie holds a label (its lowest byte and its highest bit), whether a string ends there
 * (bit 8) and how far its children are (from bit 10 on; times 256 where bit 9 says so). A value is a
 * unit with the highest bit set. Every step is checked: the bytes come from a file. */
#include "input/tok/text/charsmap.h"

#include <string.h>

static uint32_t unit(const struct tok_charsmap *map, uint32_t at)
{
    const unsigned char *p = (const unsigned char *)map->units + (size_t)at * 4;

    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

enum cs_status tok_charsmap_open(struct tok_charsmap *map, const char *bytes, size_t n,
                                 struct cs_err *err)
{
    const struct tok_charsmap head = {.units = bytes};
    const uint32_t n_trie = n < 4 ? 0 : unit(&head, 0);

    if (n < 8 || n > UINT32_MAX || n_trie < 4 || n_trie % 4 != 0 || n_trie > n - 4)
        return cs_fail(err, CS_CORRUPT,
                       "tokenizer: precompiled_charsmap of %zu bytes holds no trie of %u bytes", n,
                       n_trie);
    *map =
        (struct tok_charsmap){bytes + 4, n_trie / 4, bytes + 4 + n_trie, (uint32_t)n - 4 - n_trie};
    return CS_OK;
}

static uint32_t children(uint32_t u)
{
    return u >> 10 << ((u & 1u << 9) >> 6);
}

static uint32_t find(const struct tok_charsmap *map, const char *text, uint32_t n, bool is_shortest,
                     const char **to, uint32_t *n_to)
{
    uint32_t node = children(unit(map, 0)), found = 0;

    for (uint32_t i = 0; i < n && text[i] != '\0'; i++) {
        const unsigned char c = (unsigned char)text[i];
        node ^= c;
        if (node >= map->n_units)
            break;
        const uint32_t u = unit(map, node);
        if ((u & (1u << 31 | 0xff)) != c)
            break;
        node ^= children(u);
        if ((u >> 8 & 1) == 0 || node >= map->n_units)
            continue;
        const uint32_t at = unit(map, node) & ~(1u << 31);
        const char *end = at >= map->n_texts ? NULL : memchr(map->texts + at, 0, map->n_texts - at);
        if (end == NULL)
            continue;
        *to = map->texts + at;
        *n_to = (uint32_t)(end - *to);
        found = i + 1;
        if (is_shortest)
            break;
    }
    return found;
}

uint32_t tok_charsmap_longest(const struct tok_charsmap *map, const char *text, uint32_t n,
                              const char **to, uint32_t *n_to)
{
    return find(map, text, n, false, to, n_to);
}

uint32_t tok_charsmap_shortest(const struct tok_charsmap *map, const char *text, uint32_t n,
                               const char **to, uint32_t *n_to)
{
    return find(map, text, n, true, to, n_to);
}
