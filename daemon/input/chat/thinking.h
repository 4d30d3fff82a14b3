/* Thoughts of answers: where they stand in a text, and whether a template writes them; private to chat/. */
#ifndef CS_INPUT_CHAT_THINKING_H
#define CS_INPUT_CHAT_THINKING_H

#include "input/chat/template.h"

/* A piece of text; not NUL-terminated. */
struct cs_span {
    const char *text;
    size_t len;
};

struct cs_answer {
    struct cs_span thought, text;
    bool has_thought; /* the data has one, empty or not */
    bool has_marks;   /* the template writes the marks */
};

/* The words of the marks: open and close without the ends of lines around them. */
struct cs_span cs_thinking_word(const char *mark);
/* text: of the whole answer. is_last: it stands behind the last question. is_final: nothing follows it. */
struct cs_answer cs_thinking_split(const struct cs_thinking *how, const struct cs_turn *turn,
                                   struct cs_span text, bool is_last, bool is_final);
/* Every piece between the marks left out and what remains trimmed; out is scratch. */
struct cs_span cs_thinking_cut(const struct cs_thinking *how, struct cs_span text,
                               struct cs_buf *out);
/* White space as Python's str.strip has it, dropped at both ends. */
struct cs_span cs_span_trim(struct cs_span span);
struct cs_span cs_span_trim_left(struct cs_span span);
struct cs_span cs_span_trim_right(struct cs_span span);

#endif
