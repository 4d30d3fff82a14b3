/* What a chat template does, found out by rendering conversations with it; private to chat/. */
#ifndef CS_INPUT_CHAT_LEARN_H
#define CS_INPUT_CHAT_LEARN_H

#include "input/chat/jinja/jinja.h"
#include "input/chat/template.h"

enum { LEARN_TURNS = 6 };

#define LEARN_MEDIA                                                                                \
    "iva" /* letters of media in the parts of a content, in the order of CS_MEDIUM_* */

/* A turn of a conversation that is tried. */
struct learn_turn {
    enum cs_turn_role role;
    const char *text;
    const char
        *kinds; /* parts of the content in order: t the text, i image, v video, a audio; NULL: the
                            text alone, in the way of the template */
    const char *more;    /* the text of the second t */
    const char *thought; /* of an answer, a key of its own; NULL: none */
};

struct learn {
    const struct cs_jinja *jinja;
    const struct cs_tokenizer *tok;
    struct cs_arena *arena;
    bool is_in_parts;   /* content is a list of parts, not a text */
    bool is_dated;      /* conversations without a system turn hold today's date */
    const char *fill;   /* what stands before the last answer alone, "": nothing */
    const char *prompt; /* what the prompt has behind the beginning of an answer */
};

/* Text around n contents: gap[0] before the first, gap[n] behind the last. head: what stands before the
 * system turn that dated templates get. */
struct learn_gaps {
    const char *gap[LEARN_TURNS + 1];
    const char *head;
};

/* Renders turns as transformers' apply_chat_template does. *out lives in the arena. */
enum cs_status learn_render(const struct learn *l, const struct learn_turn *turns, int n,
                            bool has_prompt, const char **out, struct cs_err *err) CS_NODISCARD;
/* Around turns[0 .. n-1] as the template renders them; each text must stand there in its place, once. */
enum cs_status learn_try(const struct learn *l, const struct learn_turn *turns, int n,
                         bool has_prompt, struct learn_gaps *out, struct cs_err *err) CS_NODISCARD;
bool learn_begins(const char *text, const char *with);
bool learn_ends(const char *text, const char *with);
/* text without its end, which it has */
const char *learn_without_end(const struct learn *l, const char *text, const char *end);

/* The table that renders as the template did in some conversations; learn_check tries it on others. */
enum cs_status learn_table(struct learn *l, struct cs_template *out,
                           struct cs_err *err) CS_NODISCARD;
/* learn_system.c: where the system turn stands, and which white space is dropped. head: all before the
 * first question of a conversation without system turn; g: the gaps of that. */
enum cs_status learn_system(const struct learn *l, const char *head, const struct learn_gaps *g,
                            struct cs_template *out, struct cs_err *err) CS_NODISCARD;
enum cs_status learn_trims(const struct learn *l, struct cs_template *out,
                           struct cs_err *err) CS_NODISCARD;
/* The i-th way to treat thoughts that would fit; false: there are no more. */
bool learn_thinking(const struct learn *l, int i, struct cs_thinking *out);
/* Both must render alike, whatever stands in the turns. Sets out->is_alternating where the template
 * refuses turns in another order than user and assistant by turns. */
enum cs_status learn_check(const struct learn *l, struct cs_template *out,
                           struct cs_err *err) CS_NODISCARD;
/* Compares one conversation. tokens (CS_MEDIA): what stands for a medium; NULL: none occurs. */
enum cs_status learn_compare(const struct learn *l, const struct cs_template *chat,
                             const struct learn_turn *turns, int n, const char *const *tokens,
                             struct cs_err *err) CS_NODISCARD;
/* How media are written; what cannot be found out is left unsaid. */
void learn_media(const struct learn *l, struct cs_template *out);

#endif
