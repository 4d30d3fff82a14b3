/* Tokenizes and detokenizes text: added tokens first, then normaliser, pre-tokenizer and BPE on what
 * is left. */
#include "input/tok/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "input/tok/tok.h"

enum { JIT_STACK_MAX = 8 * 1024 * 1024 };

void cs_tokens_free(struct cs_tokens *tokens)
{
    free(tokens->items);
    *tokens = (struct cs_tokens){0};
}

int32_t cs_tokenizer_id(const struct cs_tokenizer *tok, const char *token)
{
    return tok_map_find(&tok->spellings, tok->entries, token, strlen(token));
}

int32_t cs_tokenizer_vocab(const struct cs_tokenizer *tok)
{
    return tok->n_entries;
}

const char *cs_tokenizer_name(const struct cs_tokenizer *tok, int i)
{
    return i < tok->n_names ? tok->names[i].key : NULL;
}

const char *cs_tokenizer_named(const struct cs_tokenizer *tok, const char *key)
{
    for (int i = 0; i < tok->n_names; i++)
        if (strcmp(tok->names[i].key, key) == 0)
            return tok->names[i].spelling;
    return NULL;
}

bool cs_tokenizer_is_special(const struct cs_tokenizer *tok, int32_t id)
{
    return id >= 0 && id < tok->n_entries && tok->entries[id].is_special;
}

enum cs_status cs_tokenizer_set_special(struct cs_tokenizer *tok, const char *token,
                                        struct cs_err *err)
{
    const struct tok_trie *tries[] = {&tok->raw, &tok->normalized};
    size_t n = strlen(token);

    for (size_t t = 0; t < CS_ARRAY_LEN(tries); t++)
        for (uint32_t i = 0; i < tries[t]->first[256]; i++) {
            struct tok_entry *e = &tok->entries[tries[t]->items[i].id];
            if (e->n_spelling == n && memcmp(e->spelling, token, n) == 0) {
                e->is_special = true;
                return CS_OK;
            }
        }
    return cs_fail(err, CS_NOT_FOUND,
                   "the tokenizer has no token \"%s\": add it to added_tokens of tokenizer.json",
                   token);
}

/* Text without raw added tokens; [0, n) lies at `base` of the source, maps are relative to it. */
struct part {
    const char *text;
    size_t n;
    uint32_t base;
};

static enum cs_status split_part(struct tok_run *run, const struct part *part, size_t begin,
                                 size_t end, bool is_plain)
{
    struct tok_view view = {part->text + begin, (uint32_t)(end - begin),
                            part->base + (uint32_t)begin, 0};

    run->is_special_off = is_plain;
    return tok_split(run, 0, &view);
}

/* Added tokens of the second kind are looked for in the normalised text. */
static enum cs_status encode_normalized(struct tok_run *run, const struct part *part,
                                        const struct cs_text_range *plain, size_t n_plain)
{
    struct tok_match m;
    size_t at = 0;

    while (tok_added_next(run->tok, &run->tok->normalized, part->text, part->n, at, plain, n_plain,
                          &m)) {
        struct tok_view view = {part->text, (uint32_t)part->n, part->base, 0};
        CS_TRY(split_part(run, part, at, m.begin, n_plain > 0));
        CS_TRY(tok_emit(run, &view, m.id, (uint32_t)m.begin, (uint32_t)m.end));
        at = m.end;
    }
    return split_part(run, part, at, part->n, n_plain > 0);
}

/* Ranges of the source, clipped to [begin, end) and seen from `begin`; returns how many are
 * left. */
static size_t clip(const struct cs_text_range *plain, size_t n, size_t begin, size_t end,
                   struct cs_text_range *out)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++) {
        size_t b = plain[i].begin < begin ? begin : plain[i].begin;
        size_t e = plain[i].end > end ? end : plain[i].end;
        if (b < e)
            out[k++] = (struct cs_text_range){b - begin, e - begin};
    }
    return k;
}

/* Source ranges to ranges of the normalised text: a byte is plain when it came from a plain
 * byte. */
static size_t remap(const struct cs_text_range *plain, size_t n, const uint32_t *map_begin,
                    size_t n_text, struct cs_text_range *out)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        while (at < n_text && map_begin[at] < plain[i].begin)
            at++;
        out[i].begin = at;
        while (at < n_text && map_begin[at] < plain[i].end)
            at++;
        out[i].end = at;
    }
    return n;
}

static enum cs_status encode_part(struct tok_run *run, const char *text, size_t begin, size_t end,
                                  const struct cs_text_range *plain, size_t n_plain)
{
    struct part part = {text + begin, end - begin, (uint32_t)begin};
    struct cs_text_range *local = NULL;
    struct cs_buf composed = {0};
    uint32_t *map_begin = NULL, *map_end = NULL;
    enum cs_status status = CS_OK;
    size_t n_local = 0;
    bool is_changed = false;

    if (begin == end)
        return CS_OK;
    local = calloc(n_plain + 1, sizeof *local);
    if (local == NULL)
        return cs_fail(run->err, CS_NO_MEMORY, "no memory to tokenize");
    n_local = clip(plain, n_plain, begin, end, local);
    if (run->tok->is_nfc)
        status = tok_nfc(part.text, part.n, &composed, &map_begin, &map_end, &is_changed, run->err);
    if (is_changed) {
        n_local = remap(local, n_local, map_begin, composed.len, local);
        for (size_t i = 0; i < composed.len; i++) {
            map_begin[i] += (uint32_t)begin;
            map_end[i] += (uint32_t)begin;
        }
        run->map_begin = map_begin;
        run->map_end = map_end;
        part = (struct part){cs_buf_str(&composed), composed.len, 0};
    }
    if (status == CS_OK)
        status = encode_normalized(run, &part, local, n_local);
    run->map_begin = run->map_end = NULL;
    free(map_begin);
    free(map_end);
    cs_buf_free(&composed);
    free(local);
    return status;
}

static enum cs_status encode_all(struct tok_run *run, const char *text, size_t len,
                                 const struct cs_text_range *plain, size_t n_plain)
{
    struct tok_view whole = {text, (uint32_t)len, 0, 0};
    struct tok_match m;
    size_t at = 0;

    while (tok_added_next(run->tok, &run->tok->raw, text, len, at, plain, n_plain, &m)) {
        CS_TRY(encode_part(run, text, at, m.begin, plain, n_plain));
        CS_TRY(tok_emit(run, &whole, m.id, (uint32_t)m.begin, (uint32_t)m.end));
        at = m.end;
    }
    return encode_part(run, text, at, len, plain, n_plain);
}

enum cs_status cs_tokenizer_encode_mixed(const struct cs_tokenizer *tok, const char *text,
                                         size_t len, const struct cs_text_range *plain,
                                         size_t n_plain, struct cs_tokens *out, struct cs_err *err)
{
    struct tok_run run = {.tok = tok, .out = out, .err = err};
    enum cs_status status = CS_OK;

    if (len > CS_TEXT_MAX_BYTES)
        return cs_fail(err, CS_LIMIT, "a text of %zu bytes is over the limit of %d", len,
                       CS_TEXT_MAX_BYTES);
    run.match = pcre2_match_data_create(1, NULL);
    run.context = pcre2_match_context_create(NULL);
    run.jit_stack = pcre2_jit_stack_create(32 * 1024, JIT_STACK_MAX, NULL);
    if (run.match == NULL || run.context == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "no memory to tokenize");
    } else {
        if (run.jit_stack != NULL)
            pcre2_jit_stack_assign(run.context, NULL, run.jit_stack);
        status = encode_all(&run, text, len, plain, n_plain);
    }
    for (int i = 0; i < TOK_MAX_OPS; i++)
        free(run.pieces[i].items);
    free(run.bpe_memory);
    pcre2_match_data_free(run.match);
    pcre2_match_context_free(run.context);
    pcre2_jit_stack_free(run.jit_stack);
    return status;
}

enum cs_status cs_tokenizer_encode(const struct cs_tokenizer *tok, const char *text, size_t len,
                                   bool allow_special, struct cs_tokens *out, struct cs_err *err)
{
    struct cs_text_range whole = {0, len};

    return cs_tokenizer_encode_mixed(tok, text, len, &whole, allow_special ? 0 : 1, out, err);
}

enum cs_status cs_tokenizer_decode(const struct cs_tokenizer *tok, const int32_t *ids, size_t n,
                                   bool skip_special, struct cs_buf *out, struct cs_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct tok_entry *e = NULL;
        if (ids[i] >= 0 && ids[i] < tok->n_entries)
            e = &tok->entries[ids[i]];
        if (e == NULL || e->spelling == NULL)
            return cs_fail(err, CS_INVALID, "id %d at position %zu is not in the vocabulary",
                           ids[i], i);
        if (!(skip_special && e->is_special))
            cs_buf_add(out, e->bytes, e->n_bytes);
    }
    return CS_OK;
}
