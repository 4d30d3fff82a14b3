/* Steps that go character by character, and those with a compiled map. */
#include <string.h>
#include <utf8proc.h>

#include "input/tok/text/later.h"
#include "input/tok/text/steps.h"
#include "input/tok/text/unicode.h"

enum { SAME = -1 };

/* What stands for a character: how many bytes of out, or SAME. */
typedef int map_fn(uint32_t code, char out[8]);

static enum cs_status map_chars(map_fn *map, const struct tok_view *in, struct tok_stepping *s)
{
    for (uint32_t at = 0; at < in->n;) {
        uint32_t code = 0;
        const uint32_t len = tok_char(in->bytes + at, in->n - at, &code);
        char to[8];
        const int n_to = len == 1 && code == 0xffff ? SAME : map(code, to);
        if (n_to == SAME)
            tok_text_copy(s->out, in, at, at + len);
        else
            tok_text_put(s->out, to, (size_t)n_to, tok_view_begin(in, at),
                         tok_view_end(in, at + len - 1));
        s->is_changed |= n_to != SAME;
        at += len;
    }
    return CS_OK;
}

static int to_lower(uint32_t code, char out[8])
{
    const uint32_t lower = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);

    if (code == 0x130) { /* the only one with two characters */
        memcpy(out, "i\xcc\x87", 3);
        return 3;
    }
    return lower == code ? SAME : (int)tok_char_put(lower, out);
}

static int drop_mark(uint32_t code, char out[8])
{
    (void)out;
    /* the two were marks once */
    return (tok_is_mark(code) && !tok_is_later_mark(code)) || code == 0x1cf2 || code == 0x1cf3
               ? 0
               : SAME;
}

static int by_nmt(uint32_t c, char out[8])
{
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
        c == 0x9f)
        return 0;
    out[0] = ' ';
    return c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
                   (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                   c == 0xfeff || c == 0xfffd
               ? 1
               : SAME;
}

enum cs_status tok_step_lowercase(const struct tok_step *step, const struct tok_view *in,
                                  struct tok_stepping *s)
{
    (void)step;
    return map_chars(to_lower, in, s);
}

enum cs_status tok_step_strip_accents(const struct tok_step *step, const struct tok_view *in,
                                      struct tok_stepping *s)
{
    (void)step;
    return map_chars(drop_mark, in, s);
}

enum cs_status tok_step_nmt(const struct tok_step *step, const struct tok_view *in,
                            struct tok_stepping *s)
{
    (void)step;
    return map_chars(by_nmt, in, s);
}

/* Bytes of the grapheme (extended cluster) at `at`. */
static uint32_t grapheme(const struct tok_view *in, uint32_t at)
{
    utf8proc_int32_t state = 0;
    uint32_t code = 0, next = 0;
    uint32_t n = tok_char(in->bytes + at, in->n - at, &code);

    while (at + n < in->n) {
        const uint32_t len = tok_char(in->bytes + at + n, in->n - at - n, &next);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)code, (utf8proc_int32_t)next,
                                             &state))
            break;
        n += len;
        code = next;
    }
    return n;
}

/* The bytes as a whole, by the shortest rule that begins them. */
static bool put_mapped(const struct tok_step *step, const struct tok_view *in, uint32_t at,
                       uint32_t n, struct tok_stepping *s)
{
    const char *to = NULL;
    uint32_t n_to = 0;

    if (tok_charsmap_shortest(&step->charsmap, in->bytes + at, n, &to, &n_to) == 0)
        return false;
    tok_text_put(s->out, to, n_to, tok_view_begin(in, at), tok_view_end(in, at + n - 1));
    s->is_changed = true;
    return true;
}

/* Only graphemes of fewer than six bytes are looked up as a whole: so does the reference. What is
 * dropped at the beginning counts to the first byte that remains. */
enum cs_status tok_step_precompiled(const struct tok_step *step, const struct tok_view *in,
                                    struct tok_stepping *s)
{
    for (uint32_t at = 0; at < in->n;) {
        const uint32_t n = grapheme(in, at), end = at + n;
        if (n < 6 && put_mapped(step, in, at, n, s)) {
            at = end;
            continue;
        }
        while (at < end) {
            uint32_t code = 0;
            const uint32_t len = tok_char(in->bytes + at, end - at, &code);
            if (!put_mapped(step, in, at, len, s))
                tok_text_copy(s->out, in, at, at + len);
            at += len;
        }
    }
    if (s->out->n > 0)
        s->out->begin[0] = tok_view_begin(in, 0);
    return CS_OK;
}
