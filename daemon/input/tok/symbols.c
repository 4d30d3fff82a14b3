/* The symbols that BPE starts from: the characters of a piece that the vocabulary has, the bytes or
 * the unknown token for others, and symbols that are never cut. */
#include <string.h>

#include "input/tok/tok.h"

enum { LONG_CHAR = 64 };

/* The token of a character, with what marks its place in the word. */
static int32_t char_id(const struct cs_tokenizer *tok, const struct tok_view *view, uint32_t at,
                       uint32_t len)
{
    const char *prefix = at > 0 ? tok->word_prefix : NULL;
    const char *suffix = at + len == view->n ? tok->word_suffix : NULL;
    char text[LONG_CHAR];
    size_t n = 0;

    if (prefix == NULL && suffix == NULL)
        return len == 1 ? tok->byte_id[(unsigned char)view->bytes[at]]
                        : tok_map_find(&tok->bytes, tok->entries, view->bytes + at, len);
    if (prefix != NULL) {
        n = strlen(prefix);
        memcpy(text, prefix, n);
    }
    memcpy(text + n, view->bytes + at, len);
    n += len;
    if (suffix != NULL) {
        memcpy(text + n, suffix, strlen(suffix));
        n += strlen(suffix);
    }
    return tok_map_find(&tok->bytes, tok->entries, text, n);
}

struct making {
    const struct cs_tokenizer *tok;
    const struct tok_view *view;
    struct tok_symbol *s;
    uint32_t n;
    struct tok_symbol unknown; /* one that waits for its place; begin == end: none */
};

static void push(struct making *m, int32_t id, uint32_t begin, uint32_t end, bool is_kept)
{
    m->s[m->n] =
        (struct tok_symbol){id, begin, end, m->n == 0 ? TOK_NONE : m->n - 1, m->n + 1, is_kept};
    m->n++;
}

static void flush_unknown(struct making *m)
{
    if (m->unknown.end > m->unknown.begin)
        push(m, m->tok->unk, m->unknown.begin, m->unknown.end, false);
    m->unknown = (struct tok_symbol){0};
}

/* As bytes, if all of them have tokens; an unknown symbol that waits stays behind them, as in the
 * reference. */
static bool push_bytes(struct making *m, uint32_t at, uint32_t len)
{
    for (uint32_t i = at; i < at + len; i++)
        if (m->tok->fallback_id[(unsigned char)m->view->bytes[i]] == -1)
            return false;
    for (uint32_t i = at; i < at + len; i++)
        push(m, m->tok->fallback_id[(unsigned char)m->view->bytes[i]], i, i + 1, false);
    return true;
}

/* Merges by pairs of ids: every symbol must have one. */
static void add_known(struct making *m, uint32_t at, uint32_t len)
{
    const int32_t id = char_id(m->tok, m->view, at, len);

    if (id != -1) {
        flush_unknown(m);
        push(m, id, at, at + len, false);
        return;
    }
    if (push_bytes(m, at, len) || m->tok->unk == -1)
        return;
    if (!m->tok->is_unk_fused)
        flush_unknown(m);
    if (m->unknown.end == m->unknown.begin)
        m->unknown.begin = at;
    m->unknown.end = at + len;
}

uint32_t tok_symbols_count(const struct cs_tokenizer *tok, const struct tok_view *view)
{
    uint32_t n = 0;

    if (tok->is_byte_level || tok->fallback_id[0] != -1)
        return view->n;
    for (uint32_t at = 0; at < view->n; at += tok_char_at(tok, view, at))
        n++;
    return n;
}

uint32_t tok_symbols_make(const struct cs_tokenizer *tok, const struct tok_view *view,
                          struct tok_symbol *s)
{
    struct making m = {.tok = tok, .view = view, .s = s};

    for (uint32_t at = 0, len = 0; at < view->n; at += len) {
        int32_t id = 0;
        len = tok_trie_longest(&tok->kept, view->bytes + at, view->n - at, &id);
        const bool is_kept = len > 0;
        if (!is_kept)
            len = tok_char_at(tok, view, at);
        if (tok->ranks == NULL)
            add_known(&m, at, len);
        else
            push(&m, is_kept ? id : char_id(tok, view, at, len), at, at + len, is_kept);
    }
    flush_unknown(&m);
    if (m.n > 0)
        s[m.n - 1].next = TOK_NONE;
    return m.n;
}
