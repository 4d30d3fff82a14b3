/* Reads the vocabulary: an object of text and id, or a list of [text, score], and the added tokens
 * that it does not have. */
#include <string.h>

#include "input/tok/files/files.h"
#include "input/tok/text/alphabet.h"
#include "input/tok/tok.h"

struct loading {
    struct cs_tokenizer *tok;
    const struct tok_source *source;
    struct cs_err *err;
};

static enum cs_status check_id(const struct loading *l, const json_t *value, const char *token)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= TOK_MAX_ID)
        return cs_fail(l->err, CS_CORRUPT, "tokenizer: the id of \"%.60s\" is not in 0..%d", token,
                       TOK_MAX_ID - 1);
    if (json_integer_value(value) >= l->tok->n_entries)
        l->tok->n_entries = (int32_t)json_integer_value(value) + 1;
    return CS_OK;
}

static enum cs_status count_ids(const struct loading *l, json_t *vocab)
{
    const char *key = NULL;
    json_t *value = NULL;
    size_t i = 0;

    l->tok->n_entries = json_is_array(vocab) ? (int32_t)json_array_size(vocab) : 0;
    json_object_foreach(vocab, key, value) CS_TRY(check_id(l, value, key));
    json_array_foreach(l->source->added, i, value)
    {
        const char *content = json_string_value(json_object_get(value, "content"));
        CS_TRY(check_id(l, json_object_get(value, "id"), content == NULL ? "?" : content));
    }
    if (l->tok->n_entries == 0)
        return cs_fail(l->err, CS_CORRUPT, "tokenizer: the vocabulary is empty");
    return CS_OK;
}

static enum cs_status add_entry(const struct loading *l, int32_t id, const char *spelling, size_t n,
                                bool is_model)
{
    struct cs_tokenizer *tok = l->tok;
    struct tok_entry *e = &tok->entries[id];
    size_t n_bytes = 0;

    if (e->spelling != NULL) {
        if (e->n_spelling != n || memcmp(e->spelling, spelling, n) != 0)
            return cs_fail(l->err, CS_CORRUPT, "tokenizer: id %d is both \"%.60s\" and \"%.60s\"",
                           id, e->spelling, spelling);
        return CS_OK;
    }
    e->spelling = cs_arena_strndup(tok->arena, spelling, n);
    e->n_spelling = (uint32_t)n;
    e->is_model = is_model;
    e->bytes = e->spelling;
    e->n_bytes = e->n_spelling;
    if (!tok->is_byte_level)
        return CS_OK;
    char *bytes = cs_arena_alloc(tok->arena, n + 1);
    e->is_literal = !tok_alphabet_decode(spelling, n, bytes, &n_bytes);
    if (!e->is_literal) {
        e->bytes = bytes;
        e->n_bytes = (uint32_t)n_bytes;
    }
    return CS_OK;
}

static enum cs_status add_list(const struct loading *l, const json_t *vocab)
{
    const json_t *pair = NULL;
    size_t i = 0;

    l->tok->scores = CS_NEW_ARRAY(l->tok->arena, double, l->tok->n_entries);
    json_array_foreach(vocab, i, pair)
    {
        const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_string(text) || !json_is_number(score))
            return cs_fail(l->err, CS_CORRUPT, "tokenizer: model.vocab[%zu] is no [text, score]",
                           i);
        l->tok->scores[i] = json_number_value(score);
        CS_TRY(add_entry(l, (int32_t)i, json_string_value(text), json_string_length(text), true));
    }
    return CS_OK;
}

static enum cs_status add_all(const struct loading *l, json_t *vocab)
{
    json_t *value = NULL;
    const char *key = NULL;
    size_t i = 0;

    if (json_is_array(vocab))
        CS_TRY(add_list(l, vocab));
    json_object_foreach(vocab, key, value)
        CS_TRY(add_entry(l, (int32_t)json_integer_value(value), key, strlen(key), true));
    json_array_foreach(l->source->added, i, value)
    {
        const json_t *content = json_object_get(value, "content");
        if (!json_is_string(content))
            return cs_fail(l->err, CS_CORRUPT, "tokenizer: added token %zu has no content", i);
        CS_TRY(add_entry(l, (int32_t)json_integer_value(json_object_get(value, "id")),
                         json_string_value(content), json_string_length(content), false));
    }
    return CS_OK;
}

/* Documents of our own say of every id whether the model makes it, and whether it is never cut. */
static enum cs_status sort_kinds(const struct loading *l, const json_t *kinds)
{
    const char *text = l->source->is_own ? json_string_value(kinds) : NULL;

    for (int32_t id = 0; text != NULL && id < l->tok->n_entries && text[id] != '\0'; id++) {
        struct tok_entry *e = &l->tok->entries[id];
        e->is_kept = text[id] == TOK_KIND_KEPT;
        e->is_model = e->is_kept || text[id] == TOK_KIND_NORMAL;
        if (e->is_kept && !tok_trie_add(&l->tok->kept, e->bytes, e->n_bytes, id))
            return cs_fail(l->err, CS_NO_MEMORY, "no memory for %d tokens", l->tok->n_entries);
    }
    return CS_OK;
}

static void index_entries(struct cs_tokenizer *tok)
{
    const bool last_wins = tok->scores != NULL;

    tok_map_init(&tok->spellings, tok->arena, (size_t)tok->n_entries, false);
    tok_map_init(&tok->bytes, tok->arena, (size_t)tok->n_entries, true);
    memset(tok->byte_id, -1, sizeof tok->byte_id);
    for (int32_t id = 0; id < tok->n_entries; id++) {
        const struct tok_entry *e = &tok->entries[id];
        if (e->spelling == NULL)
            continue;
        tok_map_add(&tok->spellings, tok->entries, id, last_wins);
        if (!e->is_model || e->is_literal)
            continue;
        tok_map_add(&tok->bytes, tok->entries, id, last_wins);
        tok->max_bytes = e->n_bytes > tok->max_bytes ? e->n_bytes : tok->max_bytes;
        if (e->n_bytes == 1)
            tok->byte_id[(unsigned char)e->bytes[0]] = id;
    }
}

enum cs_status tok_load_vocab(struct cs_tokenizer *tok, const struct tok_source *source,
                              struct cs_err *err)
{
    const struct loading l = {tok, source, err};
    const json_t *model = json_object_get(source->root, "model");
    json_t *vocab = json_object_get(model, "vocab");

    if (json_is_array(vocab) && json_array_size(vocab) >= TOK_MAX_ID)
        return cs_fail(err, CS_LIMIT, "tokenizer: model.vocab has more than %d tokens", TOK_MAX_ID);
    CS_TRY(count_ids(&l, vocab));
    tok->entries = CS_NEW_ARRAY(tok->arena, struct tok_entry, tok->n_entries);
    CS_TRY(add_all(&l, vocab));
    CS_TRY(sort_kinds(&l, json_object_get(model, "kinds")));
    index_entries(tok);
    return CS_OK;
}
