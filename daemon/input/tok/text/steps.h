/* What a normalizer does to a text, step by step. */
#ifndef CS_INPUT_TOK_TEXT_STEPS_H
#define CS_INPUT_TOK_TEXT_STEPS_H

#include "input/tok/text/charsmap.h"
#include "input/tok/text/forms.h"
#include "input/tok/text/regex.h"
#include "input/tok/text/trie.h"

struct tok_step;

/* One use of a step: where its text goes. */
struct tok_stepping {
    struct tok_matcher *matcher;
    struct tok_text *out;
    bool is_changed; /* false: out is not to be used */
    struct cs_err *err;
};

typedef enum cs_status tok_step_fn(const struct tok_step *step, const struct tok_view *in,
                                   struct tok_stepping *s);

/* The parameters of every kind; what is not named below is not used. */
struct tok_step {
    tok_step_fn *run;
    const char *text; /* replace: by what; prepend: what */
    uint32_t n_text;
    char byte; /* replace: one byte, instead of the expression */
    struct tok_regex regex;
    struct tok_forming forming;
    bool is_left, is_right;       /* strip */
    struct tok_charsmap charsmap; /* units NULL: none */
    /* SentencePiece: strings that pass as they are; white space; the mark stands behind, not before */
    const struct tok_trie *kept;
    bool has_dummy, is_dummy_behind, is_dummy_first_only, removes_spaces, marks_spaces;
};

/* Normal forms, replacing, prepending, stripping white space. */
tok_step_fn tok_step_form, tok_step_replace, tok_step_prepend, tok_step_strip;
/* Character by character: small letters, without marks, NMT's rules. */
tok_step_fn tok_step_lowercase, tok_step_strip_accents, tok_step_nmt;
/* A compiled map as Hugging Face's `tokenizers` applies it: by grapheme, shortest rule. */
tok_step_fn tok_step_precompiled;
/* All that SentencePiece does, by longest rule. */
tok_step_fn tok_step_sentencepiece;

#define TOK_SPACE_MARK "\xe2\x96\x81" /* U+2581, which stands for a space in vocabularies */

/* Runs all steps; *view becomes their result, which lies in one of two buffers. */
enum cs_status tok_steps_run(const struct tok_step *steps, int n, struct tok_matcher *matcher,
                             struct tok_text buffers[2], struct tok_view *view,
                             struct cs_err *err) CS_NODISCARD;

#endif
