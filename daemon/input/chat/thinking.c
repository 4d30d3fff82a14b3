/* Takes the thought of an answer out of its text. */
#include "input/chat/thinking.h"

#include <string.h>

#include "core/base/str.h"

/* White space as Python's str.isspace has it: chat templates trim with str.strip. */
static bool is_python_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

struct cs_span cs_span_trim_left(struct cs_span span)
{
    uint32_t c = 0;

    for (size_t n = 0; (n = cs_utf8_decode(span.text, span.len, &c)) > 0 && is_python_space(c);
         span.len -= n)
        span.text += n;
    return span;
}

struct cs_span cs_span_trim_right(struct cs_span span)
{
    uint32_t c = 0;

    while (span.len > 0) {
        size_t at = span.len - 1;
        while (at > 0 && ((unsigned char)span.text[at] & 0xc0) == 0x80)
            at--;
        if (cs_utf8_decode(span.text + at, span.len - at, &c) != span.len - at ||
            !is_python_space(c))
            return span;
        span.len = at;
    }
    return span;
}

struct cs_span cs_span_trim(struct cs_span span)
{
    return cs_span_trim_right(cs_span_trim_left(span));
}

static struct cs_span without_line_ends(struct cs_span s, bool at_left, bool at_right)
{
    while (at_left && s.len > 0 && s.text[0] == '\n') {
        s.text++;
        s.len--;
    }
    while (at_right && s.len > 0 && s.text[s.len - 1] == '\n')
        s.len--;
    return s;
}

struct cs_span cs_thinking_word(const char *mark)
{
    return without_line_ends((struct cs_span){mark, strlen(mark)}, true, true);
}

/* Where word stands in s, the first or the last time; s.len: nowhere. */
static size_t find(struct cs_span s, struct cs_span word, bool is_last)
{
    size_t found = s.len;

    for (size_t i = 0; i + word.len <= s.len && word.len > 0; i++)
        if (memcmp(s.text + i, word.text, word.len) == 0) {
            found = i;
            if (!is_last)
                break;
        }
    return found;
}

/* As the templates do: the thought is what stands before the first close, from the last open on; the text
 * what stands behind the last close. */
static void take_apart(const struct cs_thinking *how, struct cs_answer *out)
{
    const struct cs_span open = cs_thinking_word(how->open), close = cs_thinking_word(how->close);
    const struct cs_span all = out->text;
    size_t first = find(all, close, false), last = find(all, close, true), begin = 0;

    if (first == all.len)
        return;
    out->has_thought = true;
    out->thought = without_line_ends((struct cs_span){all.text, first}, false, true);
    begin = find(out->thought, open, true);
    if (begin < out->thought.len) {
        out->thought.text += begin + open.len;
        out->thought.len -= begin + open.len;
    }
    out->thought = without_line_ends(out->thought, true, false);
    last += close.len;
    out->text = without_line_ends((struct cs_span){all.text + last, all.len - last}, true, false);
}

struct cs_answer cs_thinking_split(const struct cs_thinking *how, const struct cs_turn *turn,
                                   struct cs_span text, bool is_last, bool is_final)
{
    struct cs_answer out = {.text = text};
    bool is_kept = is_last || how->mode == CS_THINKING_KEEP;
    bool is_filled = how->is_filled && (is_final || !how->is_final);

    if (turn->thought != NULL) {
        out.has_thought = true;
        out.thought = (struct cs_span){turn->thought, turn->n_thought};
    } else if (how->mode != CS_THINKING_DATA) {
        take_apart(how, &out);
    }
    out.thought =
        how->is_trimmed ? cs_span_trim(out.thought) : without_line_ends(out.thought, true, true);
    out.has_marks = how->mode == CS_THINKING_DATA ? out.has_thought
                                                  : is_kept && (is_filled || out.thought.len > 0);
    if (out.has_marks)
        out.text = without_line_ends(out.text, true, false);
    return out;
}

struct cs_span cs_thinking_cut(const struct cs_thinking *how, struct cs_span text,
                               struct cs_buf *out)
{
    const struct cs_span open = cs_thinking_word(how->open), close = cs_thinking_word(how->close);

    cs_buf_reset(out);
    while (text.len > 0) {
        size_t end = find(text, close, false);
        size_t kept = find((struct cs_span){text.text, end}, open, false);
        cs_buf_add(out, text.text, kept);
        end += end < text.len ? close.len : 0;
        text.text += end;
        text.len -= end;
    }
    return cs_span_trim((struct cs_span){cs_buf_str(out), out->len});
}
