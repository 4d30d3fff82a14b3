/* Puts together what the documents of a tokenizer add to its vocabulary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/tok/files/files.h"
#include "input/tok/files/keys.h"

struct gather {
    const struct tok_files *files;
    const json_t *vocab;
    json_t *added;      /* (id, content, flags), in order of arrival */
    json_t *by_content; /* the same tokens by their spelling */
    json_t *named;      /* "bos_token" -> token; every value has a content */
    json_t *extra;      /* list of tokens */
    json_int_t n_vocab, max_id;
};

static json_t *find_added(const struct gather *g, const char *content)
{
    return json_object_get(g->by_content, content);
}

static bool is_named(const struct gather *g, const char *content)
{
    json_t *named = g->named, *token = NULL;
    const char *key = NULL;

    json_object_foreach(named, key, token)
    {
        if (strcmp(tok_token_content(token), content) == 0)
            return true;
    }
    return false;
}

/* A token that is there gets these flags, one of the vocabulary is marked as added, a new one follows
 * the last. Steals the token. */
static void add(struct gather *g, json_t *token)
{
    const char *content = tok_token_content(token);
    const json_t *known = json_object_get(g->vocab, content);
    json_t *there = find_added(g, content);
    json_int_t id = g->max_id >= g->n_vocab ? g->max_id + 1 : g->n_vocab;

    if (is_named(g, content))
        json_object_set_new(token, "special", json_true());
    if (there != NULL) {
        json_object_del(token, "id");
        json_object_update(there, token);
        json_decref(token);
        return;
    }
    if (content[0] == '\0') {
        json_decref(token);
        return;
    }
    if (known != NULL)
        id = json_integer_value(known);
    json_object_set_new(token, "id", json_integer(id));
    g->max_id = id > g->max_id ? id : g->max_id;
    json_object_set(g->by_content, content, token);
    json_array_append_new(g->added, token);
}

/* Tokens of tokenizer.json bring ids, which must be those that they get. */
static enum cs_status add_own(struct gather *g, struct cs_err *err)
{
    const json_t *token = NULL, *own = json_object_get(g->files->tokenizer, "added_tokens");
    size_t i = 0;

    json_array_foreach(own, i, token)
    {
        const json_t *id = json_object_get(token, "id"), *got = NULL;
        const char *content = tok_token_content(token);
        if (content == NULL || content[0] == '\0')
            return cs_fail(err, CS_CORRUPT, "tokenizer: added token %zu has no content", i);
        if (!json_is_integer(id))
            return cs_fail(err, CS_CORRUPT, "tokenizer: the id of \"%.60s\" is missing", content);
        add(g, tok_token_complete(token, false));
        got = json_object_get(find_added(g, content), "id");
        if (json_integer_value(got) != json_integer_value(id))
            return cs_fail(
                err, CS_CORRUPT,
                "tokenizer: the id of \"%.60s\" is %lld, but transformers makes it %lld: "
                "added tokens that are not in the vocabulary follow it without a gap",
                content, (long long)json_integer_value(id), (long long)json_integer_value(got));
    }
    return CS_OK;
}

static int by_id(const void *a, const void *b)
{
    json_int_t x = json_integer_value(json_object_get(*(json_t *const *)a, "id"));
    json_int_t y = json_integer_value(json_object_get(*(json_t *const *)b, "id"));

    return (x > y) - (x < y);
}

/* Adds the tokens of a list in order of the ids that their documents give them. */
static void add_sorted(struct gather *g, json_t *list)
{
    size_t n = json_array_size(list);
    json_t **sorted = calloc(n + 1, sizeof *sorted);

    CS_ASSERT(sorted != NULL);
    for (size_t i = 0; i < n; i++)
        sorted[i] = json_array_get(list, i);
    qsort(sorted, n, sizeof *sorted, by_id);
    for (size_t i = 0; i < n; i++)
        add(g, tok_token_complete(sorted[i], false));
    free(sorted);
}

static enum cs_status add_decoder(struct gather *g, json_t *decoder, struct cs_err *err)
{
    json_t *list = json_array(), *token = NULL;
    const char *key = NULL;
    enum cs_status status = CS_OK;

    json_object_foreach(decoder, key, token)
    {
        char *end = NULL;
        long id = strtol(key, &end, 10);
        json_t *copy = json_copy(token);
        if (key[0] < '0' || key[0] > '9' || *end != '\0' || id >= TOK_MAX_ID)
            status = cs_fail(err, CS_CORRUPT,
                             "tokenizer_config.json: added_tokens_decoder: \"%s\" is "
                             "no id in 0..%d",
                             key, TOK_MAX_ID - 1);
        else if (tok_token_content(token) == NULL)
            status = cs_fail(err, CS_CORRUPT,
                             "tokenizer_config.json: added_tokens_decoder[%s] has no "
                             "content",
                             key);
        json_object_set_new(copy, "id", json_integer(id));
        json_array_append_new(list, copy);
    }
    if (status == CS_OK)
        add_sorted(g, list);
    json_decref(list);
    return status;
}

static void put_by_id(json_t *by_id, json_t *token)
{
    char key[32];

    snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(token, "id")));
    json_object_set_new(by_id, key, token);
}

/* added_tokens.json; an id that a token of tokenizer.json has is that token's. */
static enum cs_status add_ids(struct gather *g, struct cs_err *err)
{
    json_t *by_id = json_object(), *ids = g->files->ids, *id = NULL, *own = NULL;
    const char *content = NULL;
    enum cs_status status = CS_OK;
    size_t i = 0;

    json_object_foreach(ids, content, id)
        put_by_id(by_id, json_pack("{s:s,s:O,s:b}", "content", content, "id", id, "special",
                                   is_named(g, content) || tok_has_token(g->extra, content)));
    json_array_foreach(g->added, i, own) put_by_id(by_id, json_deep_copy(own));
    status = add_decoder(g, by_id, err);
    json_decref(by_id);
    return status;
}

static enum cs_status add_all(struct gather *g, struct cs_err *err)
{
    json_t *decoder = json_object_get(g->files->config, "added_tokens_decoder"), *token = NULL;
    json_t *named = g->named;
    const char *key = NULL;
    size_t i = 0;

    if (json_is_object(decoder))
        CS_TRY(add_decoder(g, decoder, err));
    else if (g->files->config != NULL || g->files->special != NULL || g->files->ids != NULL)
        CS_TRY(add_ids(g, err));
    json_object_foreach(named, key, token)
    {
        if (find_added(g, tok_token_content(token)) == NULL)
            add(g, json_deep_copy(token));
    }
    json_array_foreach(g->extra, i, token)
    {
        if (find_added(g, tok_token_content(token)) == NULL)
            add(g, json_deep_copy(token));
    }
    return CS_OK;
}

/* The vocabulary must be there before it is known which tokens are new. */
static enum cs_status check_parts(const json_t *root, struct cs_err *err)
{
    const json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    const char *type = json_string_value(json_object_get(model, "type"));
    const bool is_list = type != NULL && strcmp(type, "Unigram") == 0;
    const bool is_known = is_list || type == NULL || strcmp(type, "BPE") == 0;

    if (!json_is_object(model))
        return cs_fail(err, CS_CORRUPT, "tokenizer: no \"model\"");
    if (is_known && (is_list ? !json_is_array(vocab) : !json_is_object(vocab)))
        return cs_fail(err, CS_CORRUPT, "tokenizer: model.vocab is missing, or no %s",
                       is_list ? "list" : "object");
    return CS_OK;
}

json_t *tok_files_vocab(const json_t *model, json_int_t *n)
{
    json_t *vocab = json_object_get(model, "vocab"), *ids = NULL;
    const json_t *pair = NULL;
    size_t i = 0;

    *n = (json_int_t)(json_is_array(vocab) ? json_array_size(vocab) : json_object_size(vocab));
    if (json_is_object(vocab))
        return json_incref(vocab);
    ids = json_object();
    json_array_foreach(vocab, i, pair)
    {
        const json_t *text = json_array_get(pair, 0);
        if (json_is_string(text))
            json_object_setn_new(ids, json_string_value(text), json_string_length(text),
                                 json_integer((json_int_t)i));
    }
    return ids;
}

enum cs_status tok_files_added(const struct tok_files *files, json_t **added, json_t **named,
                               struct cs_err *err)
{
    struct gather g = {.files = files,
                       .added = json_array(),
                       .by_content = json_object(),
                       .named = json_object(),
                       .extra = json_array(),
                       .max_id = -1};
    json_t *vocab = tok_files_vocab(json_object_get(files->tokenizer, "model"), &g.n_vocab);
    enum cs_status status = files->is_made_here ? CS_OK : check_parts(files->tokenizer, err);

    g.vocab = vocab;
    if (status == CS_OK)
        status = add_own(&g, err);
    if (status == CS_OK)
        status = tok_files_named(files, g.named, g.extra, err);
    if (status == CS_OK)
        status = add_all(&g, err);
    *added = g.added;
    *named = g.named;
    json_decref(vocab);
    json_decref(g.by_content);
    json_decref(g.extra);
    return status;
}
