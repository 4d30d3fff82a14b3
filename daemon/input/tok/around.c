/* What a tokenizer puts around a text of its own accord (add_special_tokens of transformers): from the
 * post-processor of tokenizer.json; where the vocabulary is another file, from add_bos_token and add_eos_token of
 * tokenizer_config.json, which transformers does not look at beside a tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "input/tok/files/files.h"
#include "input/tok/tok.h"

struct reading {
    struct cs_tokenizer *tok;
    struct cs_err *err;
};

static enum cs_status add(const struct reading *r, struct tok_around *a, json_int_t id)
{
    if (a->n == TOK_AROUND_MAX)
        return cs_fail(r->err, CS_LIMIT,
                       "tokenizer: post_processor: more than %d tokens at one side",
                       TOK_AROUND_MAX);
    if (id < 0 || id >= cs_tokenizer_vocab(r->tok))
        return cs_fail(r->err, CS_CORRUPT, "tokenizer: post_processor: there is no token %lld",
                       (long long)id);
    a->ids[a->n++] = (int32_t)id;
    return CS_OK;
}

/* [{SpecialToken: {id: "<s>"}}, {Sequence: {id: "A"}}], special_tokens: {"<s>": {ids: [1]}} */
static enum cs_status read_template(const struct reading *r, const json_t *node)
{
    const json_t *known = json_object_get(node, "special_tokens"), *piece = NULL, *id = NULL;
    struct tok_around *to = &r->tok->before;
    size_t i = 0, k = 0;

    json_array_foreach(json_object_get(node, "single"), i, piece)
    {
        const json_t *token = json_object_get(piece, "SpecialToken");
        const char *name = json_string_value(json_object_get(token, "id"));
        const json_t *ids =
            name != NULL ? json_object_get(json_object_get(known, name), "ids") : NULL;
        if (json_object_get(piece, "Sequence") != NULL) {
            to = &r->tok->after;
            continue;
        }
        if (json_array_size(ids) == 0)
            return cs_fail(
                r->err, CS_CORRUPT,
                "tokenizer: post_processor.single[%zu]: no token with ids in special_tokens", i);
        json_array_foreach(ids, k, id)
        {
            CS_TRY(add(r, to, json_is_integer(id) ? json_integer_value(id) : -1));
        }
    }
    return to == &r->tok->after
               ? CS_OK
               : cs_fail(r->err, CS_CORRUPT,
                         "tokenizer: post_processor.single: has no place for the text");
}

/* cls: ["[CLS]", 101], sep: ["[SEP]", 102] */
static enum cs_status read_pair(const struct reading *r, const json_t *node)
{
    const json_t *cls = json_array_get(json_object_get(node, "cls"), 1);
    const json_t *sep = json_array_get(json_object_get(node, "sep"), 1);

    CS_TRY(add(r, &r->tok->before, json_is_integer(cls) ? json_integer_value(cls) : -1));
    return add(r, &r->tok->after, json_is_integer(sep) ? json_integer_value(sep) : -1);
}

static enum cs_status nothing(const struct reading *r, const json_t *node)
{
    (void)r;
    (void)node;
    return CS_OK;
}

static const struct {
    const char *type;
    enum cs_status (*read)(const struct reading *r, const json_t *node);
} kinds[] = {
    {"TemplateProcessing", read_template},
    {"BertProcessing",     read_pair    },
    {"RobertaProcessing",  read_pair    },
    {"ByteLevel",          nothing      }, /* changes places alone */
};

static enum cs_status read_processor(const struct reading *r, const json_t *node)
{
    const char *type = json_string_value(json_object_get(node, "type"));

    for (size_t i = 0; i < CS_ARRAY_LEN(kinds); i++)
        if (type != NULL && strcmp(type, kinds[i].type) == 0)
            return kinds[i].read(r, node);
    return cs_fail(r->err, CS_UNSUPPORTED, "unsupported tokenizer: post_processor %.60s",
                   type != NULL ? type : "without a type");
}

static bool is_harmless(const json_t *node)
{
    const char *type = json_string_value(json_object_get(node, "type"));

    return type != NULL && strcmp(type, "ByteLevel") == 0;
}

static enum cs_status read_flag(const struct reading *r, const json_t *config, const char *flag,
                                const char *name, struct tok_around *out)
{
    const char *spelling = cs_tokenizer_named(r->tok, name);
    const int32_t id = spelling != NULL ? cs_tokenizer_id(r->tok, spelling) : -1;

    return json_is_true(json_object_get(config, flag)) && id >= 0 ? add(r, out, id) : CS_OK;
}

enum cs_status tok_load_around(struct cs_tokenizer *tok, const struct tok_files *files,
                               struct cs_err *err)
{
    const struct reading r = {tok, err};
    const json_t *node = json_object_get(files->tokenizer, "post_processor"), *one = NULL;
    const json_t *list = json_object_get(node, "processors");
    size_t i = 0;

    if (json_is_object(node) && json_is_array(list)) {
        json_array_foreach(list, i, one)
        {
            if (tok->before.n + tok->after.n > 0 && !is_harmless(one))
                return cs_fail(err, CS_UNSUPPORTED,
                               "unsupported tokenizer: several post_processors that add tokens");
            CS_TRY(read_processor(&r, one));
        }
        return CS_OK;
    }
    if (json_is_object(node))
        return read_processor(&r, node);
    if (!files->is_made_here)
        return CS_OK;
    CS_TRY(read_flag(&r, files->config, "add_bos_token", "bos_token", &tok->before));
    return read_flag(&r, files->config, "add_eos_token", "eos_token", &tok->after);
}

enum cs_status cs_tokenizer_surround(const struct cs_tokenizer *tok, size_t len,
                                     struct cs_tokens *tokens, struct cs_err *err)
{
    const size_t n_before = (size_t)tok->before.n, n_after = (size_t)tok->after.n;
    const size_t n = tokens->n + n_before + n_after;
    struct cs_token *items = tokens->items;

    if (n_before + n_after == 0)
        return CS_OK;
    if (n > tokens->cap) {
        items = realloc(items, n * sizeof *items);
        if (items == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for %zu tokens of one text", n);
        tokens->items = items;
        tokens->cap = n;
    }
    memmove(items + n_before, items, tokens->n * sizeof *items);
    for (size_t i = 0; i < n_before; i++)
        items[i] = (struct cs_token){tok->before.ids[i], 0, 0};
    for (size_t i = 0; i < n_after; i++)
        items[n - n_after + i] = (struct cs_token){tok->after.ids[i], (uint32_t)len, (uint32_t)len};
    tokens->n = n;
    return CS_OK;
}
