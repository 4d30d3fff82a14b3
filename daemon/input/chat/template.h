/* Chat templates: a conversation as typed segments, and what of it trains.
 *
 * A template is a table (it must travel in the spec), never code:
 *   {"name": "chatml",                     a built-in row to start from; other keys override
 *    "bos": "", "default_system": "...",   written first; system turn when the sample has none
 *    "system": {"prefix": "", "suffix": ""}, "user": {"prefix", "suffix"},
 *    "assistant": {"prefix", "lead", "end", "suffix"},
 *    "trim": false,                        strip white space around text
 *    "train_on": "all" | "last",           which assistant turns train
 *    "missing_placeholder": "prepend" | "reject"}   pictures without a placeholder in the text
 * Built in: chatml (Qwen), llama3, vicuna_v1, plain. Without a name the tokenizer's own is meant
 * (own.h), where it has none chatml.
 *
 * Trained are the lead, the content and the end of an assistant turn; `end` is the token that
 * really ends a turn. `lead` is text between prefix and content that belongs to the answer
 * (Vicuna's space). Markers may hold special tokens, content may not: its spelling of one is plain
 * text. */
#ifndef CS_INPUT_CHAT_TEMPLATE_H
#define CS_INPUT_CHAT_TEMPLATE_H

#include "core/base/buf.h"
#include "input/chat/conversation.h"
#include "input/tok/tokenizer.h"

struct cs_template_turn {
    const char *prefix, *lead, *end, *suffix;
    bool is_trimmed; /* white space around the content is dropped, as Python's str.strip does */
};

struct cs_template {
    const char *name, *bos, *default_system;
    const char *source; /* who chose it: a file, "the job", ...; NULL: nobody said */
    struct cs_template_turn turn[CS_TURN_ROLES];
    bool has_default_system; /* a system turn, which may be empty, where the sample has none */
    bool is_last_only, is_prepending;
    bool is_without_system; /* samples with a system turn are bad */
    bool is_alternating;    /* user and assistant must take turns */
};

/* [begin, end) of the rendered text; encoder: placeholder of this encoder, -1 text */
struct cs_segment {
    uint32_t begin, end;
    bool is_special, is_trained;
    int32_t encoder;
};

/* Zero-initialise; free with cs_rendering_free; render resets it. */
struct cs_rendering {
    struct cs_buf text;
    struct cs_segment *segments;
    size_t n, cap;
};

/* node NULL or JSON null: chatml. What a job trains with is chosen by own.h. Unknown names and keys are CS_INVALID with the nearest one. */
enum cs_status cs_template_read(const json_t *node, struct cs_arena *arena, struct cs_template *out,
                                struct cs_err *err) CS_NODISCARD;
/* The same, its keys changing base; a name in it still picks a built-in one. */
enum cs_status cs_template_read_over(const json_t *node, const struct cs_template *base,
                                     struct cs_arena *arena, struct cs_template *out,
                                     struct cs_err *err) CS_NODISCARD;
/* the built-in template with the same turns, else chat->name */
const char *cs_template_name_of(const struct cs_template *chat);
const char *const *cs_template_names(int *n);
/* Every marker that looks like a special token (<|...|>, <...>, </...>) must be one token of the
 * tokenizer; CS_INVALID names it. */
enum cs_status cs_template_check(const struct cs_template *chat, const struct cs_tokenizer *tok,
                                 struct cs_err *err) CS_NODISCARD;
/* tokens: spelling of every encoder's placeholder. CS_INVALID: the sample does not fit
 * (placeholders and files differ in number, nothing to answer). */
enum cs_status cs_template_render(const struct cs_template *chat, const struct cs_record *record,
                                  const char *const *tokens, int n_tokens, struct cs_rendering *out,
                                  struct cs_err *err) CS_NODISCARD;
void cs_rendering_free(struct cs_rendering *rendering);

#endif
