/* Reads vocabulary, merges and model options of tokenizer.json. */
#include <string.h>

#include "input/tok/tok.h"

enum { MERGES_MAX = 1 << 24 };

static enum cs_status check_id(const json_t *value, const char *token, struct cs_err *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= TOK_MAX_ID)
        return cs_fail(err, CS_CORRUPT, "tokenizer: the id of \"%.60s\" is not in 0..%d", token,
                       TOK_MAX_ID - 1);
    return CS_OK;
}

static enum cs_status count_ids(struct cs_tokenizer *tok, const json_t *vocab, const json_t *added,
                                struct cs_err *err)
{
    json_int_t max = -1;
    const json_t *value = NULL;
    size_t i = 0;

    for (void *it = json_object_iter((json_t *)(uintptr_t)vocab); it != NULL;
         it = json_object_iter_next((json_t *)(uintptr_t)vocab, it)) {
        value = json_object_iter_value(it);
        CS_TRY(check_id(value, json_object_iter_key(it), err));
        max = json_integer_value(value) > max ? json_integer_value(value) : max;
    }
    json_array_foreach(added, i, value)
    {
        const json_t *id = json_object_get(value, "id");
        const char *content = json_string_value(json_object_get(value, "content"));
        CS_TRY(check_id(id, content == NULL ? "?" : content, err));
        max = json_integer_value(id) > max ? json_integer_value(id) : max;
    }
    if (max == -1)
        return cs_fail(err, CS_CORRUPT, "tokenizer: the vocabulary is empty");
    tok->n_entries = (int32_t)max + 1;
    return CS_OK;
}

static enum cs_status add_entry(struct cs_tokenizer *tok, int32_t id, const char *spelling,
                                size_t n, bool is_model, struct cs_err *err)
{
    struct tok_entry *e = &tok->entries[id];
    char *bytes = NULL;
    size_t n_bytes = 0;

    if (e->spelling != NULL) {
        if (e->n_spelling != n || memcmp(e->spelling, spelling, n) != 0)
            return cs_fail(err, CS_CORRUPT, "tokenizer: id %d is both \"%.60s\" and \"%.60s\"", id,
                           e->spelling, spelling);
        return CS_OK;
    }
    e->spelling = cs_arena_strndup(tok->arena, spelling, n);
    e->n_spelling = (uint32_t)n;
    e->is_model = is_model;
    bytes = cs_arena_alloc(tok->arena, n + 1);
    e->is_literal = !tok_alphabet_decode(spelling, n, bytes, &n_bytes);
    e->bytes = e->is_literal ? e->spelling : bytes;
    e->n_bytes = e->is_literal ? e->n_spelling : (uint32_t)n_bytes;
    return CS_OK;
}

static enum cs_status load_vocab(struct cs_tokenizer *tok, const json_t *vocab, const json_t *added,
                                 struct cs_err *err)
{
    const json_t *value = NULL;
    size_t i = 0;

    CS_TRY(count_ids(tok, vocab, added, err));
    tok->entries = CS_NEW_ARRAY(tok->arena, struct tok_entry, tok->n_entries);
    for (void *it = json_object_iter((json_t *)(uintptr_t)vocab); it != NULL;
         it = json_object_iter_next((json_t *)(uintptr_t)vocab, it)) {
        const char *key = json_object_iter_key(it);
        CS_TRY(add_entry(tok, (int32_t)json_integer_value(json_object_iter_value(it)), key,
                         strlen(key), true, err));
    }
    json_array_foreach(added, i, value)
    {
        const json_t *content = json_object_get(value, "content");
        if (!json_is_string(content))
            return cs_fail(err, CS_CORRUPT, "tokenizer: added token %zu has no content", i);
        CS_TRY(add_entry(tok, (int32_t)json_integer_value(json_object_get(value, "id")),
                         json_string_value(content), json_string_length(content), false, err));
    }
    tok_map_init(&tok->spellings, tok->arena, (size_t)tok->n_entries, false);
    tok_map_init(&tok->bytes, tok->arena, (size_t)tok->n_entries, true);
    memset(tok->byte_id, -1, sizeof(tok->byte_id));
    for (int32_t id = 0; id < tok->n_entries; id++) {
        const struct tok_entry *e = &tok->entries[id];
        if (e->spelling == NULL)
            continue;
        tok_map_add(&tok->spellings, tok->entries, id);
        if (!e->is_model || e->is_literal)
            continue;
        tok_map_add(&tok->bytes, tok->entries, id);
        if (e->n_bytes == 1)
            tok->byte_id[(unsigned char)e->bytes[0]] = id;
    }
    return CS_OK;
}

/* "a b", or ["a", "b"] since spellings may hold spaces */
static bool merge_parts(const json_t *node, const char **left, size_t *n_left, const char **right,
                        size_t *n_right)
{
    if (json_is_array(node) && json_array_size(node) == 2 &&
        json_is_string(json_array_get(node, 0)) && json_is_string(json_array_get(node, 1))) {
        *left = json_string_value(json_array_get(node, 0));
        *n_left = json_string_length(json_array_get(node, 0));
        *right = json_string_value(json_array_get(node, 1));
        *n_right = json_string_length(json_array_get(node, 1));
        return true;
    }
    if (json_is_string(node)) {
        const char *text = json_string_value(node), *space = strchr(text, ' ');
        if (space == NULL || strchr(space + 1, ' ') != NULL)
            return false;
        *left = text;
        *n_left = (size_t)(space - text);
        *right = space + 1;
        *n_right = json_string_length(node) - *n_left - 1;
        return true;
    }
    return false;
}

static enum cs_status load_merges(struct cs_tokenizer *tok, const json_t *merges,
                                  struct cs_err *err)
{
    struct cs_buf joined = {0};
    enum cs_status status = CS_OK;
    const json_t *node = NULL;
    size_t i = 0;

    if (!json_is_array(merges) || json_array_size(merges) > MERGES_MAX)
        return cs_fail(err, CS_CORRUPT, "tokenizer: merges is not a list of at most %d",
                       MERGES_MAX);
    tok_merges_init(tok, json_array_size(merges));
    json_array_foreach(merges, i, node)
    {
        const char *left = NULL, *right = NULL;
        size_t n_left = 0, n_right = 0;
        int32_t a = -1, b = -1, c = -1;
        if (!merge_parts(node, &left, &n_left, &right, &n_right)) {
            status = cs_fail(err, CS_CORRUPT, "tokenizer: merge %zu is not a pair", i);
            break;
        }
        cs_buf_reset(&joined);
        cs_buf_add(&joined, left, n_left);
        cs_buf_add(&joined, right, n_right);
        a = tok_map_find(&tok->spellings, tok->entries, left, n_left);
        b = tok_map_find(&tok->spellings, tok->entries, right, n_right);
        c = tok_map_find(&tok->spellings, tok->entries, cs_buf_str(&joined), joined.len);
        if (a == -1 || b == -1 || c == -1) {
            status = cs_fail(err, CS_CORRUPT,
                             "tokenizer: merge %zu (\"%.40s\") has a part outside the vocabulary",
                             i, cs_buf_str(&joined));
            break;
        }
        tok_merges_add(tok, a, b, (int32_t)i, c);
    }
    cs_buf_free(&joined);
    return status;
}

/* Options that would change what comes out, by name. */
static enum cs_status check_options(const json_t *model, struct cs_err *err)
{
    static const char *const texts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = json_string_value(json_object_get(model, "type"));
    const json_t *dropout = json_object_get(model, "dropout");

    if (type != NULL && strcmp(type, "BPE") != 0)
        return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: model %s", type);
    for (size_t i = 0; i < CS_ARRAY_LEN(texts); i++) {
        const json_t *v = json_object_get(model, texts[i]);
        if (json_is_string(v) && json_string_length(v) > 0)
            return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: %s \"%s\"", texts[i],
                           json_string_value(v));
    }
    if (json_is_number(dropout) && json_number_value(dropout) != 0.0)
        return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: dropout %g",
                       json_number_value(dropout));
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: byte_fallback");
    return CS_OK;
}

static enum cs_status load_normalizer(struct cs_tokenizer *tok, const json_t *node, int depth,
                                      struct cs_err *err)
{
    const char *type = json_string_value(json_object_get(node, "type"));
    const json_t *child = NULL;
    size_t i = 0;

    if (node == NULL || json_is_null(node))
        return CS_OK;
    if (type != NULL && strcmp(type, "NFC") == 0) {
        tok->is_nfc = true;
        return CS_OK;
    }
    if (type != NULL && strcmp(type, "Sequence") == 0 && depth < 4) {
        json_array_foreach(json_object_get(node, "normalizers"), i, child)
            CS_TRY(load_normalizer(tok, child, depth + 1, err));
        return CS_OK;
    }
    return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: normalizer %s",
                   type == NULL ? "without a type" : type);
}

enum cs_status tok_load_model(struct cs_tokenizer *tok, const json_t *root, const json_t *added,
                              struct cs_err *err)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *vocab = json_object_get(model, "vocab");
    const char *unk = json_string_value(json_object_get(model, "unk_token"));

    CS_TRY(check_options(model, err));
    CS_TRY(load_normalizer(tok, json_object_get(root, "normalizer"), 0, err));
    CS_TRY(tok_load_pretokenizer(tok, json_object_get(root, "pre_tokenizer"), err));
    CS_TRY(load_vocab(tok, vocab, added, err));
    CS_TRY(load_merges(tok, json_object_get(model, "merges"), err));
    tok->unk = unk == NULL ? -1 : tok_map_find(&tok->spellings, tok->entries, unk, strlen(unk));
    tok->is_unk_fused = json_is_true(json_object_get(model, "fuse_unk"));
    tok->ignores_merges = json_is_true(json_object_get(model, "ignore_merges"));
    return tok_load_added(tok, added, err);
}
