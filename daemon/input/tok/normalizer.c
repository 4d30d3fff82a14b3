/* Reads the normalizer of tokenizer.json into steps. */
#include <openssl/evp.h>
#include <string.h>

#include "input/tok/tok.h"

enum { DEPTH_MAX = 4 };

struct reading {
    struct cs_tokenizer *tok;
    const struct tok_source *source;
    const json_t *node;
    struct tok_step *step;
    struct cs_err *err;
};

typedef enum cs_status read_fn(const struct reading *r);

static enum cs_status read_nothing(const struct reading *r)
{
    (void)r;
    return CS_OK;
}

static enum cs_status read_form(const struct reading *r)
{
    static const struct {
        const char *type;
        enum tok_form form;
    } rows[] = {
        {"NFC",  TOK_NFC },
        {"NFD",  TOK_NFD },
        {"NFKC", TOK_NFKC},
        {"NFKD", TOK_NFKD},
    };

    const char *type = json_string_value(json_object_get(r->node, "type"));

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        if (strcmp(type, rows[i].type) == 0)
            r->step->forming = (struct tok_forming){rows[i].form, r->source->is_own};
    return CS_OK;
}

static enum cs_status read_text(const struct reading *r, const char *key)
{
    const json_t *text = json_object_get(r->node, key);

    if (!json_is_string(text))
        return cs_fail(r->err, CS_CORRUPT, "tokenizer: normalizer %s has no %s",
                       json_string_value(json_object_get(r->node, "type")), key);
    r->step->text =
        cs_arena_strndup(r->tok->arena, json_string_value(text), json_string_length(text));
    r->step->n_text = (uint32_t)json_string_length(text);
    return CS_OK;
}

static enum cs_status read_prepend(const struct reading *r)
{
    return read_text(r, "prepend");
}

static enum cs_status read_replace(const struct reading *r)
{
    const json_t *pattern = json_object_get(r->node, "pattern");
    const json_t *literal = json_object_get(pattern, "String");
    const json_t *regex = json_object_get(pattern, "Regex");

    CS_TRY(read_text(r, "content"));
    if (json_is_string(literal) && json_string_length(literal) == 1) {
        r->step->byte = json_string_value(literal)[0];
        return CS_OK;
    }
    if (json_is_string(literal) && json_string_length(literal) > 0)
        return tok_regex_literal(json_string_value(literal), json_string_length(literal),
                                 &r->step->regex, r->err);
    if (json_is_string(regex))
        return tok_regex_compile(json_string_value(regex), json_string_length(regex),
                                 &r->step->regex, r->err);
    return cs_fail(r->err, CS_UNSUPPORTED,
                   "unsupported tokenizer: Replace pattern is neither a Regex nor a String");
}

static enum cs_status read_strip(const struct reading *r)
{
    r->step->is_left = tok_flag(r->node, "strip_left", false);
    r->step->is_right = tok_flag(r->node, "strip_right", false);
    return CS_OK;
}

/* Base64, into the arena. */
static enum cs_status read_charsmap(const struct reading *r)
{
    const json_t *text = json_object_get(r->node, "precompiled_charsmap");
    const size_t n = json_string_length(text);
    unsigned char *bytes = NULL;
    int n_bytes = 0;

    if (n == 0 || n > INT32_MAX || n % 4 != 0)
        return cs_fail(r->err, CS_CORRUPT, "tokenizer: precompiled_charsmap is no base64");
    bytes = cs_arena_alloc(r->tok->arena, n);
    n_bytes = EVP_DecodeBlock(bytes, (const unsigned char *)json_string_value(text), (int)n);
    if (n_bytes < 0)
        return cs_fail(r->err, CS_CORRUPT, "tokenizer: precompiled_charsmap is no base64");
    return tok_charsmap_open(&r->step->charsmap, (const char *)bytes, (size_t)n_bytes, r->err);
}

/* Where the text begins a whole: NULL for every one. */
static enum cs_status read_sentencepiece(const struct reading *r)
{
    r->step->kept = &r->tok->kept;
    r->step->has_dummy = tok_flag(r->node, "add_dummy_prefix", true);
    r->step->is_dummy_behind = tok_flag(r->node, "treat_whitespace_as_suffix", false);
    r->step->is_dummy_first_only = tok_flag(r->node, "first_only", false);
    r->step->removes_spaces = tok_flag(r->node, "remove_extra_whitespaces", true);
    r->step->marks_spaces = tok_flag(r->node, "escape_whitespaces", true);
    return json_object_get(r->node, "precompiled_charsmap") == NULL ? CS_OK : read_charsmap(r);
}

static const struct {
    const char *type;
    tok_step_fn *run;
    read_fn *read;
    bool is_own; /* only in documents that are made here */
} kinds[] = {
    {"NFC",           tok_step_form,          read_form,          false},
    {"NFD",           tok_step_form,          read_form,          false},
    {"NFKC",          tok_step_form,          read_form,          false},
    {"NFKD",          tok_step_form,          read_form,          false},
    {"Replace",       tok_step_replace,       read_replace,       false},
    {"Prepend",       tok_step_prepend,       read_prepend,       false},
    {"Strip",         tok_step_strip,         read_strip,         false},
    {"StripAccents",  tok_step_strip_accents, read_nothing,       false},
    {"Lowercase",     tok_step_lowercase,     read_nothing,       false},
    {"Nmt",           tok_step_nmt,           read_nothing,       false},
    {"Precompiled",   tok_step_precompiled,   read_charsmap,      false},
    {"SentencePiece", tok_step_sentencepiece, read_sentencepiece, true },
};

static enum cs_status add_step(struct cs_tokenizer *tok, const struct tok_source *source,
                               const json_t *node, struct cs_err *err)
{
    const json_t *type = json_object_get(node, "type");
    const char *name = json_string_value(type);
    size_t i = 0;

    while (i < CS_ARRAY_LEN(kinds) && (name == NULL || strcmp(name, kinds[i].type) != 0 ||
                                       (kinds[i].is_own && !source->is_own)))
        i++;
    if (i == CS_ARRAY_LEN(kinds))
        return tok_refuse(err, "normalizer", type);
    if (tok->n_steps == TOK_MAX_STEPS)
        return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: more than %d normalizer steps",
                       TOK_MAX_STEPS);
    struct tok_step *step = &tok->steps[tok->n_steps++];
    step->run = kinds[i].run;
    return kinds[i].read(&(struct reading){tok, source, node, step, err});
}

static enum cs_status load(struct cs_tokenizer *tok, const struct tok_source *source,
                           const json_t *node, int depth, struct cs_err *err)
{
    const char *type = json_string_value(json_object_get(node, "type"));
    const json_t *child = NULL;
    size_t i = 0;

    if (type == NULL || strcmp(type, "Sequence") != 0 || depth >= DEPTH_MAX)
        return add_step(tok, source, node, err);
    json_array_foreach(json_object_get(node, "normalizers"), i, child)
        CS_TRY(load(tok, source, child, depth + 1, err));
    return CS_OK;
}

enum cs_status tok_load_normalizer(struct cs_tokenizer *tok, const struct tok_source *source,
                                   struct cs_err *err)
{
    const json_t *node = json_object_get(source->root, "normalizer");

    return node == NULL || json_is_null(node) ? CS_OK : load(tok, source, node, 0, err);
}
