/* What a chat template does, found out by rendering conversations with it; private to chat/. */
#ifndef CS_INPUT_CHAT_LEARN_H
#define CS_INPUT_CHAT_LEARN_H

#include "input/chat/jinja/jinja.h"
#include "input/chat/template.h"

enum { LEARN_TURNS = 6 };

/* A turn of a conversation that is tried. */
struct learn_turn {
    enum cs_turn_role role;
    const char *text;
};

struct learn {
    const struct cs_jinja *jinja;
    const struct cs_tokenizer *tok;
    struct cs_arena *arena;
    bool is_in_parts; /* content is a list of parts, not a text */
};

/* Renders turns as transformers' apply_chat_template does. *out lives in the arena. */
enum cs_status learn_render(const struct learn *l, const struct learn_turn *turns, int n,
                            bool has_prompt, const char **out, struct cs_err *err) CS_NODISCARD;
/* The table that renders as the template did in some conversations; learn_check tries it on others. */
enum cs_status learn_table(const struct learn *l, struct cs_template *out,
                           struct cs_err *err) CS_NODISCARD;
/* Both must render alike, whatever stands in the turns. Sets out->is_alternating where the template
 * refuses turns in another order than user and assistant by turns. */
enum cs_status learn_check(const struct learn *l, struct cs_template *out,
                           struct cs_err *err) CS_NODISCARD;

#endif
