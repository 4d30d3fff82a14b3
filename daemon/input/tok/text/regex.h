/* The regular expressions of tokenizer.json, written for Oniguruma, run by PCRE2. */
#ifndef CS_INPUT_TOK_TEXT_REGEX_H
#define CS_INPUT_TOK_TEXT_REGEX_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>

#include "core/base/status.h"
#include "input/tok/text/mapped.h"

struct tok_regex {
    /* for UTF-8 of characters that PCRE2 knows, for UTF-8, for any bytes; NULL: no expression */
    pcre2_code *valid, *newer, *any;
};

/* CS_UNSUPPORTED "unsupported tokenizer: regex ..." names what is not understood. */
enum cs_status tok_regex_compile(const char *pattern, size_t n, struct tok_regex *out,
                                 struct cs_err *err) CS_NODISCARD;
/* The same for a text that stands for itself. */
enum cs_status tok_regex_literal(const char *text, size_t n, struct tok_regex *out,
                                 struct cs_err *err) CS_NODISCARD;
void tok_regex_free(struct tok_regex *regex);

/* Memory for matching, of one thread. */
struct tok_matcher {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *jit_stack;
};

enum cs_status tok_matcher_init(struct tok_matcher *matcher, struct cs_err *err) CS_NODISCARD;
void tok_matcher_free(struct tok_matcher *matcher);

/* All matches that are not empty, from left to right: zero-initialise but for the first three. */
struct tok_search {
    const struct tok_regex *regex;
    struct tok_matcher *matcher;
    const struct tok_view *text;
    uint32_t at;
    const pcre2_code *code;
    bool is_valid;
};

/* The next match in [*begin, *end); *begin == *end: no more. */
enum cs_status tok_regex_next(struct tok_search *search, uint32_t *begin, uint32_t *end,
                              struct cs_err *err) CS_NODISCARD;

#endif
