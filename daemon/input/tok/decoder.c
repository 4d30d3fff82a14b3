/* Reads the decoder of tokenizer.json. */
#include <string.h>

#include "input/tok/tok.h"

enum { DEPTH_MAX = 4 };

struct reading {
    struct cs_tokenizer *tok;
    const json_t *node;
    struct tok_decode_step *step;
    struct cs_err *err;
};

typedef enum cs_status read_fn(const struct reading *r);

static enum cs_status read_nothing(const struct reading *r)
{
    (void)r;
    return CS_OK;
}

static enum cs_status take(const struct reading *r, const json_t *text, const char *key,
                           const char **out, size_t *n)
{
    if (!json_is_string(text) || json_string_length(text) == 0)
        return cs_fail(r->err, CS_UNSUPPORTED, "unsupported tokenizer: decoder %s without %s",
                       json_string_value(json_object_get(r->node, "type")), key);
    *out = cs_arena_strndup(r->tok->arena, json_string_value(text), json_string_length(text));
    *n = json_string_length(text);
    return CS_OK;
}

static enum cs_status read_replace(const struct reading *r)
{
    const json_t *content = json_object_get(r->node, "content");
    const json_t *literal = json_object_get(json_object_get(r->node, "pattern"), "String");

    r->step->to =
        cs_arena_strdup(r->tok->arena, json_is_string(content) ? json_string_value(content) : "");
    r->step->n_to = strlen(r->step->to);
    return take(r, literal, "a String as its pattern", &r->step->from, &r->step->n_from);
}

/* The mark is a space, but in the first token where text begins with one. */
static enum cs_status read_metaspace(const struct reading *r)
{
    const char *scheme = json_string_value(json_object_get(r->node, "prepend_scheme"));

    r->step->n_left =
        scheme != NULL ? strcmp(scheme, "never") != 0 : tok_flag(r->node, "add_prefix_space", true);
    return take(r, json_object_get(r->node, "replacement"), "replacement", &r->step->from,
                &r->step->n_from);
}

static int count(const json_t *node, const char *key)
{
    const json_int_t n = json_integer_value(json_object_get(node, key));

    return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : (int)n;
}

static enum cs_status read_strip(const struct reading *r)
{
    r->step->n_left = count(r->node, "start");
    r->step->n_right = count(r->node, "stop");
    return take(r, json_object_get(r->node, "content"), "content", &r->step->from,
                &r->step->n_from);
}

static enum cs_status read_suffix(const struct reading *r)
{
    return take(r, json_object_get(r->node, "suffix"), "suffix", &r->step->from, &r->step->n_from);
}

static const struct {
    const char *type;
    enum tok_decode_kind kind;
    read_fn *read;
} kinds[] = {
    {"Replace",      TOK_DECODE_REPLACE,   read_replace  },
    {"Metaspace",    TOK_DECODE_METASPACE, read_metaspace},
    {"ByteFallback", TOK_DECODE_BYTES,     read_nothing  },
    {"Fuse",         TOK_DECODE_FUSE,      read_nothing  },
    {"Strip",        TOK_DECODE_STRIP,     read_strip    },
    {"BPEDecoder",   TOK_DECODE_SUFFIX,    read_suffix   },
};

static enum cs_status load(struct cs_tokenizer *tok, const json_t *node, int depth,
                           struct cs_err *err)
{
    const json_t *type = json_object_get(node, "type"), *child = NULL;
    const char *name = json_string_value(type);
    size_t i = 0;

    if (name != NULL && strcmp(name, "Sequence") == 0 && depth < DEPTH_MAX) {
        json_array_foreach(json_object_get(node, "decoders"), i, child)
            CS_TRY(load(tok, child, depth + 1, err));
        return CS_OK;
    }
    if (name != NULL && strcmp(name, "ByteLevel") == 0)
        return CS_OK; /* tokens of such a vocabulary are bytes already */
    while (i < CS_ARRAY_LEN(kinds) && (name == NULL || strcmp(name, kinds[i].type) != 0))
        i++;
    if (i == CS_ARRAY_LEN(kinds))
        return tok_refuse(err, "decoder", type);
    if (tok->n_decode == TOK_MAX_STEPS)
        return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: more than %d decoder steps",
                       TOK_MAX_STEPS);
    struct tok_decode_step *step = &tok->decode[tok->n_decode++];
    step->kind = kinds[i].kind;
    return kinds[i].read(&(struct reading){tok, node, step, err});
}

/* Without a decoder tokens stand apart, but for those that are bytes. */
enum cs_status tok_load_decoder(struct cs_tokenizer *tok, const json_t *node, struct cs_err *err)
{
    if (node != NULL && !json_is_null(node))
        return load(tok, node, 0, err);
    if (!tok->is_byte_level)
        tok->decode[tok->n_decode++].kind = TOK_DECODE_SPACES;
    return CS_OK;
}
