/* Text is cut before every character that cannot combine with what stands before it (no mark, no
 * vowel or trailing jamo); each segment is normalised by utf8proc. A segment that does not change
 * maps byte by byte, a changed one as a whole. */
#include "input/tok/text/forms.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/str.h"
#include "input/tok/text/later.h"
#include "input/tok/text/unicode.h"

static const int options[] = {
    [TOK_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
    [TOK_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
    [TOK_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
    [TOK_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

/* In the compatibility forms also letters that stand for a jamo or a mark. */
static bool can_combine(uint32_t c)
{
    if (c < 0x300)
        return false;
    return (c >= 0x1160 && c <= 0x11ff) || (c >= 0xd7b0 && c <= 0xd7ff) ||
           (c >= 0x3131 && c <= 0x318e) || (c >= 0xff9e && c <= 0xffdc) || tok_is_mark(c);
}

/* What the reference's tables do not have. */
static bool is_left_alone(const struct tok_forming *how, uint32_t c)
{
    const bool is_compatible = how->form == TOK_NFKC || how->form == TOK_NFKD;

    return !how->is_current && (tok_is_later_mark(c) || (is_compatible && tok_is_later_letter(c)));
}

static uint32_t segment_length(const struct tok_forming *how, const char *text, uint32_t n)
{
    uint32_t c = 0;
    uint32_t at = (uint32_t)cs_utf8_decode(text, n, &c);

    if (at == 0)
        return 1; /* not UTF-8: passes as it is */
    if (is_left_alone(how, c))
        return at;
    while (at < n) {
        const uint32_t len = (uint32_t)cs_utf8_decode(text + at, n - at, &c);
        if (len == 0 || !can_combine(c) || is_left_alone(how, c))
            break;
        at += len;
    }
    return at;
}

enum { ROOM = 128 };

/* A character alone that has no decomposition is in every normal form. */
static bool stays(const struct tok_forming *how, const char *text, uint32_t n)
{
    uint32_t c = 0;

    if (tok_char(text, n, &c) != n)
        return false;
    return is_left_alone(how, c) ||
           (!(c >= 0xac00 && c <= 0xd7a3) &&
            utf8proc_get_property((utf8proc_int32_t)c)->decomp_seqindex == UINT16_MAX);
}

/* The length of the normal form, which is put into `room` or, where that is too small, into memory of
 * its own (*heap); below 0: not UTF-8, or no memory. */
static utf8proc_ssize_t normalise(enum tok_form form, const char *text, uint32_t n,
                                  utf8proc_int32_t room[ROOM], utf8proc_uint8_t **heap)
{
    const utf8proc_option_t how = (utf8proc_option_t)options[form];
    const utf8proc_ssize_t n_codes = utf8proc_decompose((const utf8proc_uint8_t *)text,
                                                        (utf8proc_ssize_t)n, room, ROOM - 1, how);

    *heap = NULL;
    if (n_codes < ROOM)
        return n_codes < 0 ? n_codes : utf8proc_reencode(room, n_codes, how);
    return utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, heap, how);
}

/* Whether the segment has changed. */
static bool put_segment(const struct tok_forming *how, const struct tok_view *in, uint32_t at,
                        uint32_t n, struct tok_text *out)
{
    const char *text = in->bytes + at;
    utf8proc_int32_t room[ROOM];
    utf8proc_uint8_t *heap = NULL;
    const bool is_same = tok_is_ascii(text, n) || stays(how, text, n);
    const utf8proc_ssize_t len = is_same ? -1 : normalise(how->form, text, n, room, &heap);
    const char *changed = heap != NULL ? (const char *)heap : (const char *)room;
    const bool is_changed = len >= 0 && ((size_t)len != n || memcmp(changed, text, n) != 0);

    out->is_short_of_memory |= !is_same && len == UTF8PROC_ERROR_NOMEM;
    if (is_changed)
        tok_text_put(out, changed, (size_t)len, tok_view_begin(in, at),
                     tok_view_end(in, at + n - 1));
    else
        tok_text_copy(out, in, at, at + n);
    free(heap);
    return is_changed;
}

bool tok_normal_form(const struct tok_forming *how, const struct tok_view *in, struct tok_text *out)
{
    bool is_changed = false;

    if (tok_is_ascii(in->bytes, in->n))
        return false;
    for (uint32_t at = 0; at < in->n && !out->is_short_of_memory;) {
        const uint32_t len = segment_length(how, in->bytes + at, in->n - at);
        is_changed |= put_segment(how, in, at, len, out);
        at += len;
    }
    return is_changed;
}
