/* Finding added tokens in text: leftmost, then longest; every match is consumed, also one that does
 * not count (single_word inside a word, a special token where special tokens are off). */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/str.h"
#include "input/tok/tok.h"

static int compare(const void *a, const void *b)
{
    const struct tok_added *x = a, *y = b;
    int cx = (unsigned char)x->text[0], cy = (unsigned char)y->text[0];

    if (cx != cy)
        return cx - cy;
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

void tok_trie_build(struct tok_trie *trie, size_t n)
{
    size_t at = 0;

    if (n > 0)
        qsort(trie->items, n, sizeof *trie->items, compare);
    for (int c = 0; c < 256; c++) {
        trie->first[c] = (uint32_t)at;
        while (at < n && (unsigned char)trie->items[at].text[0] == c)
            at++;
    }
    trie->first[256] = (uint32_t)at;
}

/* Letters, marks, decimal numbers, connectors: the word characters of the reference's regex. */
static bool is_word(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);

    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
           category == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d;
}

static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Start of the character that ends at `at`; *c is U+FFFF for bytes that are no character. */
static size_t char_before(const char *text, size_t at, uint32_t *c)
{
    size_t begin = at - 1;

    while (begin > 0 && at - begin < 4 && ((unsigned char)text[begin] & 0xc0) == 0x80)
        begin--;
    if (cs_utf8_decode(text + begin, at - begin, c) != at - begin) {
        *c = 0xffff;
        return at - 1;
    }
    return begin;
}

static bool is_whole_word(const char *text, size_t n, size_t begin, size_t end)
{
    uint32_t c = 0;

    if (begin > 0) {
        (void)char_before(text, begin, &c);
        if (is_word(c))
            return false;
    }
    return !(end < n && cs_utf8_decode(text + end, n - end, &c) > 0 && is_word(c));
}

enum overlap { OUTSIDE, PARTLY, INSIDE };

static enum overlap where(const struct cs_text_range *plain, size_t n_plain, size_t begin,
                          size_t end)
{
    for (size_t i = 0; i < n_plain; i++) {
        if (plain[i].end <= begin)
            continue;
        if (plain[i].begin >= end)
            break;
        return plain[i].begin <= begin && end <= plain[i].end ? INSIDE : PARTLY;
    }
    return OUTSIDE;
}

/* The token at `at` that counts, else NULL and in *consumed how much text is used up (>= 1). */
static const struct tok_added *match_at(const struct cs_tokenizer *tok, const struct tok_trie *trie,
                                        const char *text, size_t n, size_t at,
                                        const struct cs_text_range *plain, size_t n_plain,
                                        size_t *consumed)
{
    unsigned char c = (unsigned char)text[at];

    *consumed = 1;
    for (uint32_t i = trie->first[c]; i < trie->first[c + 1]; i++) {
        const struct tok_added *a = &trie->items[i];
        enum overlap overlap = OUTSIDE;
        if (a->n > n - at || memcmp(text + at, a->text, a->n) != 0)
            continue;
        if (tok->entries[a->id].is_special && n_plain > 0)
            overlap = where(plain, n_plain, at, at + a->n);
        if (overlap == PARTLY)
            continue; /* text runs into a marker: a shorter one may still be meant */
        if (overlap == OUTSIDE && (!a->is_single_word || is_whole_word(text, n, at, at + a->n)))
            return a;
        *consumed = a->n;
        return NULL;
    }
    return NULL;
}

bool tok_added_next(const struct cs_tokenizer *tok, const struct tok_trie *trie, const char *text,
                    size_t n, size_t at, const struct cs_text_range *plain, size_t n_plain,
                    struct tok_match *out)
{
    size_t start = at;

    if (trie->first[256] == 0)
        return false;
    while (at < n) {
        size_t consumed = 1;
        const struct tok_added *a = match_at(tok, trie, text, n, at, plain, n_plain, &consumed);
        uint32_t c = 0;
        if (a == NULL) {
            at += consumed;
            continue;
        }
        *out = (struct tok_match){at, at + a->n, a->id};
        while (a->is_lstrip && out->begin > start) {
            size_t before = char_before(text, out->begin, &c);
            if (before < start || !is_space(c))
                break;
            out->begin = before;
        }
        while (a->is_rstrip && out->end < n) {
            size_t len = cs_utf8_decode(text + out->end, n - out->end, &c);
            if (len == 0 || !is_space(c))
                break;
            out->end += len;
        }
        return true;
    }
    return false;
}
