/* Reads normalizer, pre-tokenizer and added tokens of tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "input/tok/tok.h"

static const char GPT2_SPLIT[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static bool flag(const json_t *node, const char *key, bool fallback)
{
    const json_t *v = json_object_get(node, key);

    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

static enum cs_status next_op(struct cs_tokenizer *tok, struct tok_op **out, struct cs_err *err)
{
    if (tok->n_ops == TOK_MAX_OPS)
        return cs_fail(err, CS_UNSUPPORTED,
                       "unsupported tokenizer: more than %d pre-tokenizer steps", TOK_MAX_OPS);
    *out = &tok->ops[tok->n_ops++];
    return CS_OK;
}

static enum cs_status load_byte_level(struct cs_tokenizer *tok, const json_t *node,
                                      struct cs_err *err)
{
    struct tok_op *op = NULL;

    CS_TRY(next_op(tok, &op, err));
    op->has_prefix_space = flag(node, "add_prefix_space", true);
    if (!flag(node, "use_regex", true))
        return CS_OK;
    return tok_regex_compile(GPT2_SPLIT, sizeof(GPT2_SPLIT) - 1, op, err);
}

static enum cs_status load_split(struct cs_tokenizer *tok, const json_t *node, struct cs_err *err)
{
    static const struct {
        const char *name;
        enum tok_behavior behavior;
    } rows[] = {
        {"Isolated",           TOK_ISOLATED  },
        {"Removed",            TOK_REMOVED   },
        {"MergedWithPrevious", TOK_PREVIOUS  },
        {"MergedWithNext",     TOK_NEXT      },
        {"Contiguous",         TOK_CONTIGUOUS},
    };

    const json_t *pattern = json_object_get(node, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *literal = json_object_get(pattern, "String");
    const char *behavior = json_string_value(json_object_get(node, "behavior"));
    struct tok_op *op = NULL;
    size_t i = 0;

    CS_TRY(next_op(tok, &op, err));
    while (i < CS_ARRAY_LEN(rows) && (behavior == NULL || strcmp(behavior, rows[i].name) != 0))
        i++;
    if (i == CS_ARRAY_LEN(rows))
        return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: Split behavior \"%s\"",
                       behavior == NULL ? "(none)" : behavior);
    op->behavior = rows[i].behavior;
    op->is_inverted = flag(node, "invert", false);
    if (json_is_string(regex))
        return tok_regex_compile(json_string_value(regex), json_string_length(regex), op, err);
    if (json_is_string(literal) && json_string_length(literal) > 0)
        return tok_regex_literal(json_string_value(literal), json_string_length(literal), op, err);
    return cs_fail(err, CS_UNSUPPORTED,
                   "unsupported tokenizer: Split pattern is neither a Regex nor a String");
}

static enum cs_status load_digits(struct cs_tokenizer *tok, const json_t *node, struct cs_err *err)
{
    struct tok_op *op = NULL;

    CS_TRY(next_op(tok, &op, err));
    if (flag(node, "individual_digits", false))
        return tok_regex_compile("\\p{N}", 5, op, err);
    return tok_regex_compile("\\p{N}+", 6, op, err);
}

/* Byte mapping must come last: a split after it would see other characters than we do. */
static enum cs_status load_step(struct cs_tokenizer *tok, const json_t *node, int depth,
                                bool *has_bytes, struct cs_err *err)
{
    const char *type = json_string_value(json_object_get(node, "type"));
    const json_t *list = json_object_get(node, "pretokenizers"), *child = NULL;
    size_t i = 0;

    if (type == NULL)
        return cs_fail(err, CS_CORRUPT, "tokenizer: a pre-tokenizer has no type");
    if (*has_bytes)
        return cs_fail(err, CS_UNSUPPORTED,
                       "unsupported tokenizer: pre-tokenizer %s after ByteLevel", type);
    if (strcmp(type, "Sequence") == 0 && depth < 4) {
        json_array_foreach(list, i, child) CS_TRY(load_step(tok, child, depth + 1, has_bytes, err));
        return CS_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        *has_bytes = true;
        return load_byte_level(tok, node, err);
    }
    if (strcmp(type, "Split") == 0)
        return load_split(tok, node, err);
    if (strcmp(type, "Digits") == 0)
        return load_digits(tok, node, err);
    return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: pre-tokenizer %s", type);
}

enum cs_status tok_load_pretokenizer(struct cs_tokenizer *tok, const json_t *node,
                                     struct cs_err *err)
{
    bool has_bytes = false;

    if (node == NULL || json_is_null(node))
        return cs_fail(err, CS_UNSUPPORTED,
                       "unsupported tokenizer: no pre-tokenizer (only byte-level BPE is read)");
    CS_TRY(load_step(tok, node, 0, &has_bytes, err));
    if (!has_bytes)
        return cs_fail(err, CS_UNSUPPORTED,
                       "unsupported tokenizer: no ByteLevel pre-tokenizer (only byte-level BPE is "
                       "read)");
    return CS_OK;
}

static enum cs_status add_one(struct cs_tokenizer *tok, const json_t *node, struct tok_added *a,
                              bool *is_normalized, struct cs_err *err)
{
    const json_t *content = json_object_get(node, "content");
    const char *text = json_string_value(content);

    if (text == NULL || json_string_length(content) == 0)
        return cs_fail(err, CS_CORRUPT, "tokenizer: an added token has no content");
    *a = (struct tok_added){
        .text = text,
        .n = (uint32_t)json_string_length(content),
        .id = (int32_t)json_integer_value(json_object_get(node, "id")),
        .is_single_word = flag(node, "single_word", false),
        .is_lstrip = flag(node, "lstrip", false),
        .is_rstrip = flag(node, "rstrip", false),
    };
    *is_normalized = flag(node, "normalized", !flag(node, "special", false));
    tok->entries[a->id].is_special |= flag(node, "special", false);
    a->text = tok->entries[a->id].spelling;
    a->n = tok->entries[a->id].n_spelling;
    if (*is_normalized && tok->is_nfc) {
        struct cs_buf composed = {0};
        uint32_t *begin = NULL, *end = NULL;
        bool is_changed = false;
        CS_TRY(tok_nfc(a->text, a->n, &composed, &begin, &end, &is_changed, err));
        if (is_changed) {
            a->text = cs_arena_strndup(tok->arena, composed.data, composed.len);
            a->n = (uint32_t)composed.len;
            free(begin);
            free(end);
        }
        cs_buf_free(&composed);
    }
    return CS_OK;
}

enum cs_status tok_load_added(struct cs_tokenizer *tok, const json_t *list, struct cs_err *err)
{
    size_t n = json_array_size(list), n_raw = 0, n_normalized = 0, i = 0;
    const json_t *node = NULL;

    tok->raw.items = CS_NEW_ARRAY(tok->arena, struct tok_added, n + 1);
    tok->normalized.items = CS_NEW_ARRAY(tok->arena, struct tok_added, n + 1);
    json_array_foreach(list, i, node)
    {
        struct tok_added a = {0};
        bool is_normalized = false;
        CS_TRY(add_one(tok, node, &a, &is_normalized, err));
        if (is_normalized)
            tok->normalized.items[n_normalized++] = a;
        else
            tok->raw.items[n_raw++] = a;
    }
    tok_trie_build(&tok->raw, n_raw);
    tok_trie_build(&tok->normalized, n_normalized);
    return CS_OK;
}
