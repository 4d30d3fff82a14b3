/* Compiles and searches. An expression is compiled three times: for text whose characters PCRE2 knows
 * all, for text with newer ones, and for bytes that are not UTF-8. */
#include "input/tok/text/regex.h"

#include <string.h>

#include "core/base/buf.h"
#include "input/tok/text/newer.h"
#include "input/tok/text/rewrite.h"
#include "input/tok/text/unicode.h"

enum { JIT_STACK_MAX = 8 * 1024 * 1024, STEPS = 10000000, STEPS_PER_BYTE = 16 };

static pcre2_code *compile(const struct cs_buf *text, uint32_t extra, const char *pattern, size_t n,
                           struct cs_err *err)
{
    PCRE2_UCHAR message[128] = {0};
    PCRE2_SIZE at = 0;
    int code = 0;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)cs_buf_str(text), text->len,
                                   PCRE2_UTF | PCRE2_UCP | extra, &code, &at, NULL);

    if (re == NULL) {
        (void)pcre2_get_error_message(code, message, sizeof(message));
        (void)cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: regex \"%.*s\": %s", (int)n,
                      pattern, (const char *)message);
        return NULL;
    }
    /* without JIT (no executable memory) the interpreter gives the same answers, slower */
    (void)pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    return re;
}

static enum cs_status compile_all(const struct cs_buf *text, const char *pattern, size_t n,
                                  struct tok_regex *out, struct cs_err *err)
{
    struct cs_buf newer = {0};

    tok_newer_rewrite(text, &newer);
    n = n > 300 ? 300 : n;
    out->valid = compile(text, 0, pattern, n, err);
    if (out->valid != NULL)
        out->newer = compile(&newer, 0, pattern, n, err);
    if (out->newer != NULL)
        out->any = compile(&newer, PCRE2_MATCH_INVALID_UTF, pattern, n, err);
    cs_buf_free(&newer);
    return out->any == NULL ? CS_UNSUPPORTED : CS_OK;
}

enum cs_status tok_regex_compile(const char *pattern, size_t n, struct tok_regex *out,
                                 struct cs_err *err)
{
    struct cs_buf text = {0};
    enum cs_status status = tok_regex_rewrite(pattern, n, &text, err);

    if (status == CS_OK)
        status = compile_all(&text, pattern, n, out, err);
    cs_buf_free(&text);
    return status;
}

enum cs_status tok_regex_literal(const char *text, size_t n, struct tok_regex *out,
                                 struct cs_err *err)
{
    struct cs_buf pattern = {0};
    enum cs_status status = CS_OK;

    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] < 0x80 && strchr("\\^$.[]|()?*+{}#-", text[i]) != NULL &&
            text[i] != '\0')
            cs_buf_addc(&pattern, '\\');
        cs_buf_addc(&pattern, text[i]);
    }
    status = compile_all(&pattern, text, n, out, err);
    cs_buf_free(&pattern);
    return status;
}

void tok_regex_free(struct tok_regex *regex)
{
    pcre2_code_free(regex->valid);
    pcre2_code_free(regex->newer);
    pcre2_code_free(regex->any);
    *regex = (struct tok_regex){0};
}

enum cs_status tok_matcher_init(struct tok_matcher *matcher, struct cs_err *err)
{
    matcher->match = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    if (matcher->match == NULL || matcher->context == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to tokenize");
    return CS_OK;
}

void tok_matcher_free(struct tok_matcher *matcher)
{
    pcre2_match_data_free(matcher->match);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->jit_stack);
}

/* One pass: is it UTF-8, and are there characters that PCRE2 does not know? */
static const pcre2_code *code_for(const struct tok_regex *regex, const struct tok_view *text,
                                  bool *is_valid)
{
    bool has_newer = false;

    *is_valid = true;
    for (uint32_t at = 0; at < text->n && *is_valid;) {
        uint32_t code = 0;
        if ((unsigned char)text->bytes[at] < 0x80) {
            at++;
            continue;
        }
        const uint32_t len = tok_char(text->bytes + at, text->n - at, &code);
        *is_valid = len > 1;
        has_newer |= tok_is_newer(code);
        at += len;
    }
    return !*is_valid ? regex->any : has_newer ? regex->newer : regex->valid;
}

/* Steps back that a search may take: linear in the text, so that a run of 10 MB is fine and an
 * expression that tries everything is not. */
static uint32_t steps_for(uint32_t n)
{
    const uint64_t steps = STEPS + (uint64_t)n * STEPS_PER_BYTE;

    return steps > UINT32_MAX ? UINT32_MAX : (uint32_t)steps;
}

/* The first 32 KB of stack are the program's own; only who needs more gets one. */
static int match(const struct tok_search *s)
{
    struct tok_matcher *m = s->matcher;
    const uint32_t options = s->is_valid ? PCRE2_NO_UTF_CHECK : 0;
    PCRE2_SPTR bytes = (PCRE2_SPTR)s->text->bytes;
    int rc = pcre2_match(s->code, bytes, s->text->n, s->at, options, m->match, m->context);

    if (rc != PCRE2_ERROR_JIT_STACKLIMIT || m->jit_stack != NULL)
        return rc;
    m->jit_stack = pcre2_jit_stack_create(32 * 1024, JIT_STACK_MAX, NULL);
    if (m->jit_stack == NULL)
        return rc;
    pcre2_jit_stack_assign(m->context, NULL, m->jit_stack);
    return pcre2_match(s->code, bytes, s->text->n, s->at, options, m->match, m->context);
}

enum cs_status tok_regex_next(struct tok_search *s, uint32_t *begin, uint32_t *end,
                              struct cs_err *err)
{
    const char *bytes = s->text->bytes;
    const uint32_t n = s->text->n;

    if (s->code == NULL) {
        s->code = code_for(s->regex, s->text, &s->is_valid);
        (void)pcre2_set_match_limit(s->matcher->context, steps_for(n));
    }
    *begin = *end = n;
    while (s->at <= n) {
        const int rc = match(s);
        if (rc == PCRE2_ERROR_NOMATCH)
            return CS_OK;
        if (rc < 0)
            return cs_fail(err, CS_LIMIT,
                           "the tokenizer's regex gave up at byte %u of %u (PCRE2 error %d)", s->at,
                           n, rc);
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(s->matcher->match);
        if (span[1] > span[0]) {
            *begin = (uint32_t)span[0];
            *end = s->at = (uint32_t)span[1];
            return CS_OK;
        }
        /* empty: step over one character */
        s->at = (span[0] > s->at ? (uint32_t)span[0] : s->at) + 1;
        while (s->at < n && ((unsigned char)bytes[s->at] & 0xc0) == 0x80)
            s->at++;
    }
    return CS_OK;
}
