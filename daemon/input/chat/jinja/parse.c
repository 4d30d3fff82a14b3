/* Statements: text, prints, if, for, set and loop controls, to a tree. */
#include <stdlib.h>
#include <string.h>

#include "input/chat/jinja/tree.h"

static enum cs_status parse_body(struct jn_parser *p, const char *const *ends, struct jn **first);

/* Behind "if" or "elif". */
static enum cs_status parse_if(struct jn_parser *p, struct jn *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};

    if (++p->depth > JN_DEPTH_MAX)
        return cs_fail(p->err, CS_LIMIT, "it is nested too deeply");
    CS_TRY(jn_parse_expression(p, &node->a));
    CS_TRY(jn_expect(p, JT_BLOCK_END, NULL));
    CS_TRY(parse_body(p, ends, &node->list));
    if (jn_accept(p, JT_NAME, "elif")) {
        node->other = jn_new(p, JN_IF, NULL);
        CS_TRY(parse_if(p, node->other));
        p->depth--;
        return CS_OK;
    }
    if (jn_accept(p, JT_NAME, "else")) {
        CS_TRY(jn_expect(p, JT_BLOCK_END, NULL));
        CS_TRY(parse_body(p, ends + 2, &node->other));
    }
    p->depth--;
    return jn_expect(p, JT_NAME, "endif");
}

static enum cs_status parse_for(struct jn_parser *p, struct jn *node)
{
    static const char *const ends[] = {"else", "endfor", NULL};

    if (jn_peek(p)->kind != JT_NAME)
        return jn_refuse(p);
    node->text = jn_peek(p)->text;
    p->at++;
    if (jn_accept(p, JT_SIGN, ",")) {
        node->name = jn_peek(p)->text;
        CS_TRY(jn_expect(p, JT_NAME, NULL));
    }
    CS_TRY(jn_expect(p, JT_NAME, "in"));
    CS_TRY(jn_parse_plain(p, &node->a));
    if (jn_accept(p, JT_NAME, "if"))
        CS_TRY(jn_parse_expression(p, &node->b));
    CS_TRY(jn_expect(p, JT_BLOCK_END, NULL));
    CS_TRY(parse_body(p, ends, &node->list));
    if (jn_accept(p, JT_NAME, "else")) {
        CS_TRY(jn_expect(p, JT_BLOCK_END, NULL));
        CS_TRY(parse_body(p, ends + 1, &node->other));
    }
    return jn_expect(p, JT_NAME, "endfor");
}

/* "set x = VALUE", or without a value up to "endset" */
static enum cs_status parse_set(struct jn_parser *p, struct jn *node)
{
    static const char *const ends[] = {"endset", NULL};

    node->text = jn_peek(p)->text;
    CS_TRY(jn_expect(p, JT_NAME, NULL));
    if (jn_accept(p, JT_SIGN, ".")) {
        node->name = jn_peek(p)->text;
        CS_TRY(jn_expect(p, JT_NAME, NULL));
    }
    if (jn_accept(p, JT_SIGN, "="))
        return jn_parse_expression(p, &node->a);
    CS_TRY(jn_expect(p, JT_BLOCK_END, NULL));
    CS_TRY(parse_body(p, ends, &node->list));
    return jn_expect(p, JT_NAME, "endset");
}

/* Behind "macro": its name, its parameters, and what it writes. */
static enum cs_status parse_macro(struct jn_parser *p, struct jn *node)
{
    static const char *const ends[] = {"endmacro", NULL};
    struct jn **to = &node->list;

    node->text = jn_peek(p)->text;
    CS_TRY(jn_expect(p, JT_NAME, NULL));
    CS_TRY(jn_expect(p, JT_SIGN, "("));
    while (!jn_accept(p, JT_SIGN, ")")) {
        *to = jn_new(p, JN_ARG, jn_peek(p)->text);
        CS_TRY(jn_expect(p, JT_NAME, NULL));
        if (jn_accept(p, JT_SIGN, "="))
            CS_TRY(jn_parse_expression(p, &(*to)->a));
        if (!jn_accept(p, JT_SIGN, ",") && strcmp(jn_peek(p)->text, ")") != 0)
            return jn_refuse(p);
        to = &(*to)->next;
    }
    CS_TRY(jn_expect(p, JT_BLOCK_END, NULL));
    CS_TRY(parse_body(p, ends, &node->other));
    if (!jn_accept(p, JT_NAME, "endmacro"))
        return jn_refuse(p);
    (void)jn_accept(p, JT_NAME, node->text);
    return CS_OK;
}

static enum cs_status no_more(struct jn_parser *p, struct jn *node)
{
    (void)p;
    (void)node;
    return CS_OK;
}

static const struct {
    const char *word;
    enum jn_kind kind;
    enum cs_status (*parse)(struct jn_parser *p, struct jn *node);
} statements[] = {
    {"if",            JN_IF,       parse_if   },
    {"for",           JN_FOR,      parse_for  },
    {"set",           JN_SET,      parse_set  },
    {"macro",         JN_MACRO,    parse_macro},
    {"break",         JN_BREAK,    no_more    },
    {"continue",      JN_CONTINUE, no_more    },
    {"generation",    JN_TEXT,     no_more    }, /* marks answers, writes nothing */
    {"endgeneration", JN_TEXT,     no_more    },
};

/* Behind "{%". */
static enum cs_status parse_statement(struct jn_parser *p, struct jn **out)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(statements); i++) {
        if (!jn_accept(p, JT_NAME, statements[i].word))
            continue;
        *out = jn_new(p, statements[i].kind, NULL);
        CS_TRY(statements[i].parse(p, *out));
        return jn_expect(p, JT_BLOCK_END, NULL);
    }
    return jn_refuse(p);
}

static bool is_end(const struct jn_parser *p, const char *const *ends)
{
    const struct jn_token *word = jn_peek(p) + 1;

    if (jn_peek(p)->kind != JT_BLOCK)
        return false;
    for (; *ends != NULL; ends++)
        if (word->kind == JT_NAME && strcmp(word->text, *ends) == 0)
            return true;
    return false;
}

/* Statements up to a block that begins with one of the words; then the word is the next token. */
static enum cs_status parse_body(struct jn_parser *p, const char *const *ends, struct jn **first)
{
    struct jn **to = first;

    if (++p->depth > JN_DEPTH_MAX)
        return cs_fail(p->err, CS_LIMIT, "it is nested too deeply");
    while (!is_end(p, ends)) {
        const struct jn_token *t = jn_peek(p);
        if (t->kind == JT_END && ends[0] == NULL)
            break;
        if (jn_accept(p, JT_TEXT, NULL)) {
            *to = jn_new(p, JN_TEXT, t->text);
            (*to)->n = t->n;
        } else if (jn_accept(p, JT_OPEN, NULL)) {
            *to = jn_new(p, JN_PRINT, NULL);
            CS_TRY(jn_parse_expression(p, &(*to)->a));
            CS_TRY(jn_expect(p, JT_CLOSE, NULL));
        } else if (jn_accept(p, JT_BLOCK, NULL)) {
            CS_TRY(parse_statement(p, to));
        } else {
            return jn_refuse(p);
        }
        to = &(*to)->next;
    }
    p->at += ends[0] != NULL;
    p->depth--;
    return CS_OK;
}

void cs_jinja_free(struct cs_jinja *jinja)
{
    if (jinja == NULL)
        return;
    json_decref(jinja->pool);
    cs_arena_free(jinja->arena);
    free(jinja);
}

enum cs_status cs_jinja_parse(const char *text, size_t n, struct cs_jinja **out, struct cs_err *err)
{
    static const char *const none[] = {NULL};
    struct jn_tokens tokens = {0};
    struct cs_jinja *jinja = NULL;
    struct cs_buf unix_text = {0};
    enum cs_status status = CS_OK;

    *out = NULL;
    if (n > CS_JINJA_MAX_BYTES)
        return cs_fail(err, CS_LIMIT, "it has %zu bytes, at most %d", n, CS_JINJA_MAX_BYTES);
    jinja = calloc(1, sizeof *jinja);
    CS_ASSERT(jinja != NULL);
    jinja->arena = cs_arena_new(0);
    jinja->pool = json_array();
    for (size_t i = 0; i < n; i++)
        if (text[i] != '\r' || i + 1 == n || text[i + 1] != '\n')
            cs_buf_addc(&unix_text, text[i]);
    struct jn_parser p = {.jinja = jinja, .tokens = &tokens, .err = err};
    status = jn_lex(cs_buf_str(&unix_text), unix_text.len, jinja->arena, &tokens, err);
    if (status == CS_OK)
        status = parse_body(&p, none, &jinja->first);
    if (status == CS_OK)
        *out = jinja;
    else
        cs_jinja_free(jinja);
    free(tokens.items);
    cs_buf_free(&unix_text);
    return status;
}
