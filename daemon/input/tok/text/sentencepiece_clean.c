/* The normalizer of SentencePiece: its map of characters, white space that is removed or marked, and
 * the mark before (or behind) the whole text. */
#include <string.h>

#include "core/base/str.h"
#include "input/tok/text/steps.h"
#include "input/tok/text/unicode.h"

struct clean {
    const struct tok_step *step;
    const struct tok_view *in;
    struct tok_text *out;
    uint32_t at; /* bytes that are done */
};

/* What the next bytes become: a string that is kept, the longest rule, the character, or U+FFFD for a
 * byte that is none. Returns how many bytes those are. */
static uint32_t next(const struct clean *c, const char **to, uint32_t *n_to)
{
    const char *text = c->in->bytes + c->at;
    const uint32_t n = c->in->n - c->at;
    int32_t id = 0;
    uint32_t code = 0, len = tok_trie_longest(c->step->kept, text, n, &id);

    if (len == 0 && c->step->charsmap.units != NULL) {
        len = tok_charsmap_longest(&c->step->charsmap, text, n, to, n_to);
        if (len > 0)
            return len;
    }
    if (len == 0)
        len = tok_char(text, n, &code);
    const bool is_none = len == 1 && code == 0xffff;
    *to = is_none ? "\xef\xbf\xbd" : text;
    *n_to = is_none ? 3 : len;
    return len;
}

static void put_space(const struct clean *c, uint32_t begin, uint32_t end)
{
    if (c->step->marks_spaces)
        tok_text_put(c->out, TOK_SPACE_MARK, 3, begin, end);
    else
        tok_text_put(c->out, " ", 1, begin, end);
}

static void put(const struct clean *c, const char *to, uint32_t n_to, uint32_t len)
{
    const uint32_t begin = tok_view_begin(c->in, c->at), end = tok_view_end(c->in, c->at + len - 1);
    const bool is_same = to == c->in->bytes + c->at && n_to == len;

    if (is_same && memchr(to, ' ', n_to) == NULL) {
        tok_text_copy(c->out, c->in, c->at, c->at + len);
        return;
    }
    for (uint32_t i = 0; i < n_to; i++)
        if (to[i] == ' ')
            put_space(c, begin, end);
        else
            tok_text_put(c->out, to + i, 1, begin, end);
}

static void skip_leading_spaces(struct clean *c)
{
    while (c->at < c->in->n) {
        const char *to = NULL;
        uint32_t n_to = 0;
        const uint32_t len = next(c, &to, &n_to);
        if (n_to != 1 || to[0] != ' ')
            return;
        c->at += len;
    }
}

static void drop_trailing_spaces(const struct clean *c)
{
    const char *space = c->step->marks_spaces ? TOK_SPACE_MARK : " ";
    const size_t n = strlen(space);

    while (c->out->n >= n && memcmp(c->out->bytes + c->out->n - n, space, n) == 0)
        c->out->n -= n;
}

static void put_dummy(const struct clean *c, uint32_t place)
{
    const bool is_there = !c->step->is_dummy_first_only || tok_view_place(c->in, 0) == 0;

    if (c->step->has_dummy && is_there)
        put_space(c, place, place);
}

enum cs_status tok_step_sentencepiece(const struct tok_step *step, const struct tok_view *in,
                                      struct tok_stepping *s)
{
    struct clean c = {.step = step, .in = in, .out = s->out};
    bool is_after_space = step->removes_spaces;

    s->is_changed = true;
    if (step->removes_spaces)
        skip_leading_spaces(&c);
    if (c.at == in->n)
        return CS_OK;
    if (!step->is_dummy_behind)
        put_dummy(&c, tok_view_place(in, c.at));
    while (c.at < in->n) {
        const char *to = NULL;
        uint32_t n_to = 0;
        const uint32_t len = next(&c, &to, &n_to);
        while (is_after_space && n_to > 0 && to[0] == ' ') {
            to++;
            n_to--;
        }
        put(&c, to, n_to, len);
        if (n_to > 0)
            is_after_space = step->removes_spaces && to[n_to - 1] == ' ';
        c.at += len;
    }
    if (step->removes_spaces)
        drop_trailing_spaces(&c);
    if (step->is_dummy_behind)
        put_dummy(&c, tok_view_place(in, in->n));
    return CS_OK;
}
