/* Steps that look at a text as a whole. */
#include "input/tok/text/steps.h"

#include <string.h>

#include "input/tok/text/unicode.h"

enum cs_status tok_step_form(const struct tok_step *step, const struct tok_view *in,
                             struct tok_stepping *s)
{
    s->is_changed = tok_normal_form(&step->forming, in, s->out);
    return CS_OK;
}

/* Without an expression: the common case of one byte, a space. */
static void replace_byte(const struct tok_step *step, const struct tok_view *in,
                         struct tok_stepping *s)
{
    const char *hit = memchr(in->bytes, step->byte, in->n);
    uint32_t done = 0;

    for (; hit != NULL; hit = memchr(in->bytes + done, step->byte, in->n - done)) {
        const uint32_t at = (uint32_t)(hit - in->bytes);
        tok_text_copy(s->out, in, done, at);
        tok_text_put(s->out, step->text, step->n_text, tok_view_begin(in, at),
                     tok_view_end(in, at));
        done = at + 1;
        s->is_changed = true;
    }
    if (s->is_changed)
        tok_text_copy(s->out, in, done, in->n);
}

enum cs_status tok_step_replace(const struct tok_step *step, const struct tok_view *in,
                                struct tok_stepping *s)
{
    struct tok_search search = {.regex = &step->regex, .matcher = s->matcher, .text = in};
    uint32_t done = 0, begin = 0, end = 0;

    if (step->regex.valid == NULL) {
        replace_byte(step, in, s);
        return CS_OK;
    }
    for (;;) {
        CS_TRY(tok_regex_next(&search, &begin, &end, s->err));
        if (begin == end)
            break;
        tok_text_copy(s->out, in, done, begin);
        tok_text_put(s->out, step->text, step->n_text, tok_view_begin(in, begin),
                     tok_view_end(in, end - 1));
        done = end;
        s->is_changed = true;
    }
    if (s->is_changed)
        tok_text_copy(s->out, in, done, in->n);
    return CS_OK;
}

enum cs_status tok_step_prepend(const struct tok_step *step, const struct tok_view *in,
                                struct tok_stepping *s)
{
    const uint32_t at = tok_view_place(in, 0);

    tok_text_put(s->out, step->text, step->n_text, at, at);
    tok_text_copy(s->out, in, 0, in->n);
    s->is_changed = true;
    return CS_OK;
}

enum cs_status tok_step_strip(const struct tok_step *step, const struct tok_view *in,
                              struct tok_stepping *s)
{
    uint32_t begin = 0, end = in->n, code = 0;

    while (step->is_left && begin < end) {
        const uint32_t len = tok_char(in->bytes + begin, end - begin, &code);
        if (!tok_is_space(code))
            break;
        begin += len;
    }
    while (step->is_right && end > begin) {
        const size_t before = tok_char_before(in->bytes, end, &code);
        if (!tok_is_space(code))
            break;
        end = (uint32_t)before;
    }
    tok_text_copy(s->out, in, begin, end);
    s->is_changed = end - begin < in->n;
    return CS_OK;
}

enum cs_status tok_steps_run(const struct tok_step *steps, int n, struct tok_matcher *matcher,
                             struct tok_text buffers[2], struct tok_view *view, struct cs_err *err)
{
    int next = 0;

    for (int i = 0; i < n && view->n > 0; i++) {
        struct tok_stepping s = {.matcher = matcher, .out = &buffers[next], .err = err};
        tok_text_reset(s.out);
        CS_TRY(steps[i].run(&steps[i], view, &s));
        if (s.out->is_short_of_memory)
            return cs_fail(err, CS_NO_MEMORY, "no memory to normalise %u bytes of text", view->n);
        if (!s.is_changed)
            continue;
        *view = tok_text_view(s.out);
        next = 1 - next;
    }
    return CS_OK;
}
