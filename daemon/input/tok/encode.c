/* Tokenizes text: added tokens first, then normalizer, pre-tokenizer and model on what is left. */
#include <stdlib.h>

#include "input/tok/tok.h"

/* A stretch of normalised text, or of the source. */
static enum cs_status split_part(struct tok_run *run, const struct tok_view *part, size_t begin,
                                 size_t end, bool is_plain)
{
    const struct tok_view view = tok_view_part(part, (uint32_t)begin, (uint32_t)end);

    run->is_special_off = is_plain;
    return tok_split(run, 0, &view);
}

/* Added tokens of the second kind are looked for in the normalised text. */
static enum cs_status encode_normalized(struct tok_run *run, const struct tok_view *part,
                                        const struct cs_text_range *plain, size_t n_plain)
{
    struct tok_match m;
    size_t at = 0;

    while (tok_added_next(run->tok, &run->tok->normalized, part->bytes, part->n, at, plain, n_plain,
                          &m)) {
        CS_TRY(split_part(run, part, at, m.begin, n_plain > 0));
        CS_TRY(tok_emit(run, part, m.id, (uint32_t)m.begin, (uint32_t)m.end));
        at = m.end;
    }
    return split_part(run, part, at, part->n, n_plain > 0);
}

/* Ranges of the source to those of a part that begins at `begin` and ends at `end` of it; returns how
 * many are left. */
static size_t clip(const struct cs_text_range *plain, size_t n, size_t begin, size_t end,
                   struct cs_text_range *out)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        size_t b = plain[i].begin < begin ? begin : plain[i].begin;
        size_t e = plain[i].end > end ? end : plain[i].end;
        if (b < e)
            out[k++] = (struct cs_text_range){b, e};
    }
    return k;
}

/* Source ranges to ranges of the part's text: a byte is plain when it came from a plain byte. */
static void remap(struct cs_text_range *plain, size_t n, const struct tok_view *part)
{
    uint32_t at = 0;

    for (size_t i = 0; i < n; i++) {
        struct cs_text_range source = plain[i];
        while (at < part->n && tok_view_begin(part, at) < source.begin)
            at++;
        plain[i].begin = at;
        while (at < part->n && tok_view_begin(part, at) < source.end)
            at++;
        plain[i].end = at;
    }
}

/* Text [begin, end) of the source, in which no raw added token is. */
static enum cs_status encode_part(struct tok_run *run, const struct tok_view *whole, size_t begin,
                                  size_t end, const struct cs_text_range *plain, size_t n_plain)
{
    struct tok_view part = tok_view_part(whole, (uint32_t)begin, (uint32_t)end);
    struct cs_text_range *local = NULL;
    enum cs_status status = CS_OK;
    size_t n_local = 0;

    if (begin == end)
        return CS_OK;
    local = calloc(n_plain + 1, sizeof *local);
    if (local == NULL)
        return cs_fail(run->err, CS_NO_MEMORY, "no memory to tokenize");
    n_local = clip(plain, n_plain, begin, end, local);
    status = tok_steps_run(run->tok->steps, run->tok->n_steps, &run->matcher, run->normal, &part,
                           run->err);
    if (status == CS_OK) {
        remap(local, n_local, &part);
        status = encode_normalized(run, &part, local, n_local);
    }
    free(local);
    return status;
}

static enum cs_status encode_all(struct tok_run *run, const struct tok_view *whole,
                                 const struct cs_text_range *plain, size_t n_plain)
{
    struct tok_match m;
    size_t at = 0;

    while (
        tok_added_next(run->tok, &run->tok->raw, whole->bytes, whole->n, at, plain, n_plain, &m)) {
        CS_TRY(encode_part(run, whole, at, m.begin, plain, n_plain));
        CS_TRY(tok_emit(run, whole, m.id, (uint32_t)m.begin, (uint32_t)m.end));
        at = m.end;
    }
    return encode_part(run, whole, at, whole->n, plain, n_plain);
}

static void free_run(struct tok_run *run)
{
    for (int i = 0; i < TOK_MAX_OPS; i++) {
        free(run->pieces[i].items);
        tok_text_free(&run->marked[i]);
    }
    tok_text_free(&run->normal[0]);
    tok_text_free(&run->normal[1]);
    free(run->model_memory);
    tok_matcher_free(&run->matcher);
}

enum cs_status cs_tokenizer_encode_mixed(const struct cs_tokenizer *tok, const char *text,
                                         size_t len, const struct cs_text_range *plain,
                                         size_t n_plain, struct cs_tokens *out, struct cs_err *err)
{
    const struct tok_view whole = {.bytes = text, .n = (uint32_t)len};
    struct tok_run run = {.tok = tok, .out = out, .err = err};
    enum cs_status status = CS_OK;

    if (len > CS_TEXT_MAX_BYTES)
        return cs_fail(err, CS_LIMIT, "a text of %zu bytes is over the limit of %d", len,
                       CS_TEXT_MAX_BYTES);
    status = tok_matcher_init(&run.matcher, err);
    if (status == CS_OK)
        status = encode_all(&run, &whole, plain, n_plain);
    free_run(&run);
    return status;
}

enum cs_status cs_tokenizer_encode(const struct cs_tokenizer *tok, const char *text, size_t len,
                                   bool allow_special, struct cs_tokens *out, struct cs_err *err)
{
    struct cs_text_range whole = {0, len};

    return cs_tokenizer_encode_mixed(tok, text, len, &whole, allow_special ? 0 : 1, out, err);
}
