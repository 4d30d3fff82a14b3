/* The tokens that have names ("bos_token", a model's own "image_token") and the further special ones. */
#include <string.h>

#include "input/tok/files/files.h"
#include "input/tok/files/keys.h"

struct names {
    const struct tok_files *files;
    json_t *named, *extra;
};

const char *tok_token_content(const json_t *token)
{
    const char *text = json_string_value(token);

    return text != NULL ? text : json_string_value(json_object_get(token, "content"));
}

/* A token with all its flags: of a spelling alone, or of an object with some of them. A new
 * reference. */
json_t *tok_token_complete(const json_t *token, bool is_special)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    json_t *out = json_pack("{s:s}", "content", tok_token_content(token));
    const json_t *special = json_object_get(token, "special");
    const json_t *normalized = json_object_get(token, "normalized");

    for (size_t i = 0; i < CS_ARRAY_LEN(flags); i++)
        json_object_set_new(out, flags[i],
                            json_boolean(json_is_true(json_object_get(token, flags[i]))));
    is_special |= json_is_true(special);
    json_object_set_new(
        out, "normalized",
        json_boolean(json_is_boolean(normalized) ? json_is_true(normalized) : !is_special));
    json_object_set_new(out, "special", json_boolean(is_special));
    return out;
}

bool tok_has_token(const json_t *list, const char *content)
{
    const json_t *token = NULL;
    size_t i = 0;

    json_array_foreach(list, i, token)
    {
        if (strcmp(tok_token_content(token), content) == 0)
            return true;
    }
    return false;
}

static enum cs_status check_token(const json_t *token, const char *key, struct cs_err *err)
{
    char shown[CS_DOC_SHOWN];

    if (tok_token_content(token) != NULL)
        return CS_OK;
    return cs_fail(err, CS_CORRUPT,
                   "tokenizer: %s: %s is no token: it must be a text or have a content", key,
                   cs_doc_show(token, shown));
}

static enum cs_status name(struct names *g, const char *key, const json_t *token,
                           struct cs_err *err)
{
    if (token == NULL || json_is_null(token))
        return CS_OK;
    CS_TRY(check_token(token, key, err));
    json_object_set_new(g->named, key, tok_token_complete(token, !json_is_object(token)));
    return CS_OK;
}

static enum cs_status name_own(struct names *g, json_t *document, bool takes_texts,
                               struct cs_err *err)
{
    json_t *token = NULL;
    const char *key = NULL;

    json_object_foreach(document, key, token)
    {
        if (tok_is_own_key(key) &&
            (json_is_object(token) || (takes_texts && json_is_string(token))) &&
            json_object_get(g->named, key) == NULL)
            CS_TRY(name(g, key, token, err));
    }
    return CS_OK;
}

/* Further special tokens: a list, or an object of named ones. */
static enum cs_status take_extra(struct names *g, const json_t *document, bool are_special,
                                 struct cs_err *err)
{
    char spelling[CS_DOC_NAME];
    json_t *extra = (json_t *)(uintptr_t)cs_doc_get(
        document, "extra_special_tokens|additional_special_tokens", spelling);
    json_t *token = NULL;
    const char *key = NULL;
    size_t i = 0;

    json_array_foreach(extra, i, token)
    {
        CS_TRY(check_token(token, spelling, err));
        if (!tok_has_token(g->extra, tok_token_content(token)))
            json_array_append_new(g->extra,
                                  tok_token_complete(token, are_special || json_is_string(token)));
    }
    json_object_foreach(extra, key, token) CS_TRY(name(g, key, token, err));
    return CS_OK;
}

/* Named tokens: those that every tokenizer may have, then the model's own. Where the configuration has
 * an added_tokens_decoder, special_tokens_map.json does not count; else it comes before the
 * configuration. */
enum cs_status tok_files_named(const struct tok_files *files, json_t *named, json_t *extra,
                               struct cs_err *err)
{
    struct names names = {files, named, extra}, *g = &names;
    const json_t *config = files->config;
    json_t *special =
        json_is_object(json_object_get(config, "added_tokens_decoder")) ? NULL : files->special;

    for (int i = 0; tok_named_key(i) != NULL; i++) {
        const char *key = tok_named_key(i);
        const json_t *mapped = json_object_get(special, key);
        bool is_mapped = tok_token_content(mapped) != NULL;
        json_t *token = is_mapped ? tok_token_complete(mapped, true) : NULL;
        enum cs_status status = name(g, key, is_mapped ? token : json_object_get(config, key), err);
        json_decref(token);
        CS_TRY(status);
    }
    CS_TRY(name_own(g, special, true, err));
    CS_TRY(name_own(g, files->config, false, err));
    CS_TRY(name_own(g, files->config, true, err));
    CS_TRY(take_extra(g, config, false, err));
    return take_extra(g, special, true, err);
}
