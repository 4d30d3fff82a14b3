/* Chat templates: a conversation as typed segments, and what of it trains.
 *
 * A template is a table (it must travel in the spec), never code:
 *   {"name": "chatml",                     a built-in row to start from; other keys override
 *    "bos": "", "default_system": "...",   written first; system turn when the sample has none
 *    "tail": "",                           written last
 *    "system": {"prefix": "", "end": "", "suffix": ""}, "user": {...},
 *    "assistant": {"prefix", "lead", "end", "suffix"},
 *    "system_in": "own" | "first" | "last", a turn of its own, or inside of a question
 *    "trim": false,                        strip white space around text
 *    "think": {"open", "close"},           what stands around a thought of an answer
 *    "thinking": "drop" | "keep" | "data", thoughts of answers before the last question
 *    "train_on": "all" | "last",           which assistant turns train
 *    "add_special_tokens": false,          what the tokenizer puts around a text, BOS and EOS (plain: true)
 *    "missing_placeholder": "prepend" | "reject"}   pictures without a placeholder in the text
 * The built-in ones are rows of builtin.c. Without a name the tokenizer's own is meant (own.h), where it
 * has none chatml.
 *
 * Trained are the lead, the content and the end of an assistant turn; `end` is the token that
 * really ends a turn. `lead` is text between prefix and content that belongs to the answer
 * (Vicuna's space). Markers may hold special tokens, content may not: its spelling of one is plain
 * text.
 *
 * Thoughts stand in the data as a text of their own (cs_turn.thought) or in front of an answer's text,
 * "<think>...</think>". What the template adds where nothing was thought (Qwen3's empty block) is not
 * trained; a thought and its marks are, but for what the prompt already holds (Qwen3.5's "<think>"). */
#ifndef CS_INPUT_CHAT_TEMPLATE_H
#define CS_INPUT_CHAT_TEMPLATE_H

#include "core/base/buf.h"
#include "input/chat/conversation.h"
#include "input/tok/tokenizer.h"

struct cs_template_turn {
    const char *prefix, *lead, *end, *suffix;
    bool is_trimmed; /* white space around the content is dropped, as Python's str.strip does */
};

/* what templates get as date_string, and write themselves where they know no day */
#define CS_TEMPLATE_DATE "26 Jul 2024"

enum cs_system_place { CS_SYSTEM_OWN, CS_SYSTEM_FIRST, CS_SYSTEM_LAST };

/* Which answers keep their thoughts: those behind the last question, all, or as the data has them (then
 * nothing is taken out and nothing added). */
enum cs_thinking_mode { CS_THINKING_DROP, CS_THINKING_KEEP, CS_THINKING_DATA };

/* What stands around the thought of an answer; open NULL: the template knows no thoughts. */
struct cs_thinking {
    const char *open, *close;
    enum cs_thinking_mode mode;
    bool
        is_filled; /* answers behind the last question have the marks also where nothing was thought */
    bool is_final;    /* is_filled of the very last turn alone */
    bool is_prompted; /* the prompt ends with open */
    bool is_trimmed;  /* white space around a thought is dropped, else the ends of lines alone */
    bool is_cut;      /* every piece of an answer between the marks is left out */
};

enum { CS_MEDIUM_IMAGE, CS_MEDIUM_VIDEO, CS_MEDIUM_AUDIO, CS_MEDIA };

/* How the template writes a medium, placeholder and what is around it; NULL: nobody knows, then the
 * placeholder alone is written. */
struct cs_template_media {
    const char *marker[CS_MEDIA];
    const char
        *number[CS_MEDIA]; /* the "1" in a marker that counts such media through the conversation
                                     ("Audio 1: "); NULL: it does not */
    bool is_spaced
        [CS_MEDIA];  /* the lead of a question is left out where it begins with such a medium */
    bool is_first;   /* all media of a turn before its text */
    bool has_leads;  /* the lead of a question stands before every text of it */
    bool is_trimmed; /* every text of a turn is trimmed, not the turn's ends alone */
};

struct cs_template {
    const char *name, *bos, *default_system, *tail;
    const char *source; /* who chose it: a file, "the job", ...; NULL: nobody said */
    struct cs_template_turn turn[CS_TURN_ROLES];
    struct cs_thinking thinking;
    struct cs_template_media media;
    enum cs_system_place system_place;
    bool is_system_joined;   /* inside of a question it is trimmed with the question as one text */
    bool has_default_system; /* a system turn, which may be empty, where the sample has none */
    bool is_dated; /* where the sample has none it would hold today's date: such samples are bad */
    bool is_last_only, is_prepending;
    bool is_without_system; /* samples with a system turn are bad */
    bool is_alternating;    /* user and assistant must take turns */
    bool is_surrounded;     /* by what the tokenizer puts around a text of its own accord */
    bool takes_texts;       /* samples that are a text alone, without a question */
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

/* node NULL or JSON null: chatml. What a job trains with is chosen by own.h. Unknown names and keys are
 * CS_INVALID with the nearest one. */
enum cs_status cs_template_read(const json_t *node, struct cs_arena *arena, struct cs_template *out,
                                struct cs_err *err) CS_NODISCARD;
/* The same, its keys changing base; a name in it still picks a built-in one. */
enum cs_status cs_template_read_over(const json_t *node, const struct cs_template *base,
                                     struct cs_arena *arena, struct cs_template *out,
                                     struct cs_err *err) CS_NODISCARD;
/* Of the built-in ones; returns how many, at most cap. */
int cs_template_names(const char **out, int cap);
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
