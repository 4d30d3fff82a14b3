/* Finding added tokens in text: leftmost, then longest; every match is consumed, also one that does
 * not count (single_word inside a word, a special token where special tokens are off). */
#include "core/base/str.h"
#include "input/tok/text/unicode.h"
#include "input/tok/tok.h"

static bool is_whole_word(const char *text, size_t n, size_t begin, size_t end)
{
    uint32_t c = 0;

    if (begin > 0) {
        (void)tok_char_before(text, begin, &c);
        if (tok_is_word(c))
            return false;
    }
    return !(end < n && cs_utf8_decode(text + end, n - end, &c) > 0 && tok_is_word(c));
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

struct search {
    const struct cs_tokenizer *tok;
    const struct tok_added_set *set;
    const char *text;
    size_t n;
    const struct cs_text_range *plain;
    size_t n_plain;
};

enum { DEPTH = 16 };

/* The tokens that begin at `at`, the longest first; no more than DEPTH of them. */
static int candidates(const struct search *s, size_t at, const struct tok_added *out[DEPTH])
{
    const struct tok_added *found[DEPTH];
    int n = 0;

    for (uint32_t node = 0, i = 0; at + i < s->n; i++) {
        node = tok_trie_next(&s->set->trie, node, (unsigned char)s->text[at + i]);
        if (node == 0)
            break;
        if (s->set->trie.values[node] != -1)
            found[n++ % DEPTH] = &s->set->items[s->set->trie.values[node]];
    }
    const int n_out = n < DEPTH ? n : DEPTH;
    for (int i = 0; i < n_out; i++)
        out[i] = found[(n - 1 - i) % DEPTH];
    return n_out;
}

/* The token at `at` that counts, else NULL and in *consumed how much text is used up (>= 1). */
static const struct tok_added *match_at(const struct search *s, size_t at, size_t *consumed)
{
    const struct tok_added *all[DEPTH];
    const int n = candidates(s, at, all);

    *consumed = 1;
    for (int i = 0; i < n; i++) {
        const struct tok_added *a = all[i];
        enum overlap overlap = OUTSIDE;
        if (s->tok->entries[a->id].is_special && s->n_plain > 0)
            overlap = where(s->plain, s->n_plain, at, at + a->n);
        if (overlap == PARTLY)
            continue; /* text runs into a marker: a shorter one may still be meant */
        if (overlap == OUTSIDE &&
            (!a->is_single_word || is_whole_word(s->text, s->n, at, at + a->n)))
            return a;
        *consumed = a->n;
        return NULL;
    }
    return NULL;
}

bool tok_added_next(const struct cs_tokenizer *tok, const struct tok_added_set *set,
                    const char *text, size_t n, size_t at, const struct cs_text_range *plain,
                    size_t n_plain, struct tok_match *out)
{
    const struct search s = {tok, set, text, n, plain, n_plain};
    const size_t start = at;

    if (set->n == 0)
        return false;
    while (at < n) {
        size_t consumed = 1;
        const struct tok_added *a = match_at(&s, at, &consumed);
        uint32_t c = 0;
        if (a == NULL) {
            at += consumed;
            continue;
        }
        *out = (struct tok_match){at, at + a->n, a->id};
        while (a->is_lstrip && out->begin > start) {
            size_t before = tok_char_before(text, out->begin, &c);
            if (before < start || !tok_is_space(c))
                break;
            out->begin = before;
        }
        while (a->is_rstrip && out->end < n) {
            size_t len = cs_utf8_decode(text + out->end, n - out->end, &c);
            if (len == 0 || !tok_is_space(c))
                break;
            out->end += len;
        }
        return true;
    }
    return false;
}
