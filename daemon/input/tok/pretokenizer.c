/* Reads the pre-tokenizer of tokenizer.json into operations. */
#include <string.h>

#include "input/tok/tok.h"

enum { DEPTH_MAX = 4 };

static const char GPT2_SPLIT[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct reading {
    struct cs_tokenizer *tok;
    const json_t *node;
    struct tok_op *op;
    struct cs_err *err;
};

typedef enum cs_status read_fn(const struct reading *r);

static enum cs_status split_by(const struct reading *r, const char *regex,
                               enum tok_behavior behavior)
{
    r->op->behavior = behavior;
    return tok_regex_compile(regex, strlen(regex), &r->op->split, r->err);
}

/* Every byte is a character from here on. */
static enum cs_status read_byte_level(const struct reading *r)
{
    r->tok->is_byte_level = true;
    r->op->prepend = tok_flag(r->node, "add_prefix_space", true) ? TOK_ALWAYS : TOK_NEVER;
    return tok_flag(r->node, "use_regex", true) ? split_by(r, GPT2_SPLIT, TOK_ISOLATED) : CS_OK;
}

static enum cs_status read_behavior(const struct reading *r, bool is_needed)
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

    const char *behavior = json_string_value(json_object_get(r->node, "behavior"));
    size_t i = 0;

    if (behavior == NULL && !is_needed)
        return CS_OK;
    while (i < CS_ARRAY_LEN(rows) && (behavior == NULL || strcmp(behavior, rows[i].name) != 0))
        i++;
    if (i == CS_ARRAY_LEN(rows))
        return cs_fail(r->err, CS_UNSUPPORTED, "unsupported tokenizer: Split behavior \"%s\"",
                       behavior == NULL ? "(none)" : behavior);
    r->op->behavior = rows[i].behavior;
    return CS_OK;
}

static enum cs_status read_split(const struct reading *r)
{
    const json_t *pattern = json_object_get(r->node, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *literal = json_object_get(pattern, "String");

    CS_TRY(read_behavior(r, true));
    r->op->is_inverted = tok_flag(r->node, "invert", false);
    if (json_is_string(regex))
        return tok_regex_compile(json_string_value(regex), json_string_length(regex), &r->op->split,
                                 r->err);
    if (json_is_string(literal) && json_string_length(literal) > 0)
        return tok_regex_literal(json_string_value(literal), json_string_length(literal),
                                 &r->op->split, r->err);
    return cs_fail(r->err, CS_UNSUPPORTED,
                   "unsupported tokenizer: Split pattern is neither a Regex nor a String");
}

static enum cs_status read_digits(const struct reading *r)
{
    return split_by(r, tok_flag(r->node, "individual_digits", false) ? "\\p{N}" : "\\p{N}+",
                    TOK_ISOLATED);
}

static enum cs_status read_punctuation(const struct reading *r)
{
    CS_TRY(split_by(r, "[!-\\/:-@\\[-`{-~\\p{P}]", TOK_ISOLATED));
    return read_behavior(r, false);
}

/* The matches are what remains. */
static enum cs_status read_whitespace(const struct reading *r)
{
    r->op->is_inverted = true;
    return split_by(r,
                    "[\\p{Alphabetic}\\p{L}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]+|"
                    "[^\\s\\p{Alphabetic}\\p{L}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]+",
                    TOK_REMOVED);
}

static enum cs_status read_whitespace_split(const struct reading *r)
{
    return split_by(r, "\\s", TOK_REMOVED);
}

static enum cs_status read_delimiter(const struct reading *r)
{
    const json_t *text = json_object_get(r->node, "delimiter");

    if (json_string_length(text) == 0)
        return cs_fail(r->err, CS_CORRUPT, "tokenizer: CharDelimiterSplit has no delimiter");
    r->op->behavior = TOK_REMOVED;
    return tok_regex_literal(json_string_value(text), json_string_length(text), &r->op->split,
                             r->err);
}

/* add_prefix_space is the older spelling of prepend_scheme "always" and "never". */
static enum cs_status read_metaspace(const struct reading *r)
{
    static const struct {
        const char *name;
        enum tok_prepend prepend;
    } rows[] = {
        {"always", TOK_ALWAYS},
        {"first",  TOK_FIRST },
        {"never",  TOK_NEVER },
    };

    const char *scheme = json_string_value(json_object_get(r->node, "prepend_scheme"));
    const json_t *mark = json_object_get(r->node, "replacement");
    size_t i = 0;

    if (json_string_length(mark) == 0)
        return cs_fail(r->err, CS_CORRUPT, "tokenizer: Metaspace has no replacement");
    if (scheme == NULL)
        scheme = tok_flag(r->node, "add_prefix_space", true) ? "always" : "never";
    while (i < CS_ARRAY_LEN(rows) && strcmp(scheme, rows[i].name) != 0)
        i++;
    if (i == CS_ARRAY_LEN(rows) ||
        (!tok_flag(r->node, "add_prefix_space", true) && rows[i].prepend != TOK_NEVER))
        return cs_fail(r->err, CS_UNSUPPORTED,
                       "unsupported tokenizer: Metaspace prepend_scheme \"%.40s\"%s", scheme,
                       i < CS_ARRAY_LEN(rows) ? " against add_prefix_space false" : "");
    r->op->prepend = rows[i].prepend;
    r->op->mark = cs_arena_strdup(r->tok->arena, json_string_value(mark));
    r->op->behavior = TOK_NEXT;
    if (!tok_flag(r->node, "split", true))
        return CS_OK;
    return tok_regex_literal(r->op->mark, strlen(r->op->mark), &r->op->split, r->err);
}

static const struct {
    const char *type;
    read_fn *read;
} kinds[] = {
    {"ByteLevel",          read_byte_level      },
    {"Split",              read_split           },
    {"Digits",             read_digits          },
    {"Metaspace",          read_metaspace       },
    {"Punctuation",        read_punctuation     },
    {"Whitespace",         read_whitespace      },
    {"WhitespaceSplit",    read_whitespace_split},
    {"CharDelimiterSplit", read_delimiter       },
};

/* ByteLevel must come last: a split after it would see other characters than we do. */
static enum cs_status load_step(struct cs_tokenizer *tok, const json_t *node, int depth,
                                struct cs_err *err)
{
    const json_t *type = json_object_get(node, "type"), *child = NULL;
    const char *name = json_string_value(type);
    size_t i = 0;

    if (name == NULL)
        return cs_fail(err, CS_CORRUPT, "tokenizer: a pre-tokenizer has no type");
    if (tok->is_byte_level)
        return cs_fail(err, CS_UNSUPPORTED,
                       "unsupported tokenizer: pre-tokenizer %s after ByteLevel", name);
    if (strcmp(name, "Sequence") == 0 && depth < DEPTH_MAX) {
        json_array_foreach(json_object_get(node, "pretokenizers"), i, child)
            CS_TRY(load_step(tok, child, depth + 1, err));
        return CS_OK;
    }
    while (i < CS_ARRAY_LEN(kinds) && strcmp(name, kinds[i].type) != 0)
        i++;
    if (i == CS_ARRAY_LEN(kinds))
        return tok_refuse(err, "pre-tokenizer", type);
    if (tok->n_ops == TOK_MAX_OPS)
        return cs_fail(err, CS_UNSUPPORTED,
                       "unsupported tokenizer: more than %d pre-tokenizer steps", TOK_MAX_OPS);
    return kinds[i].read(&(struct reading){tok, node, &tok->ops[tok->n_ops++], err});
}

enum cs_status tok_load_pretokenizer(struct cs_tokenizer *tok, const json_t *node,
                                     struct cs_err *err)
{
    return node == NULL || json_is_null(node) ? CS_OK : load_step(tok, node, 0, err);
}
