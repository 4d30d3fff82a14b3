/* Expressions: by precedence, from "a if b else c" down to names and constants. */
#include <stdlib.h>
#include <string.h>

#include "input/chat/jinja/tree.h"

static enum cs_status parse_or(struct jn_parser *p, struct jn **out);
static enum cs_status parse_unary(struct jn_parser *p, struct jn **out);

static struct jn *pair(struct jn_parser *p, enum jn_kind kind, const char *text, struct jn *a,
                       struct jn *b)
{
    struct jn *node = jn_new(p, kind, text);

    node->a = a;
    node->b = b;
    return node;
}

static struct jn *constant(struct jn_parser *p, json_t *value)
{
    struct jn *node = jn_new(p, JN_CONST, NULL);

    CS_ASSERT(value != NULL && json_array_append_new(p->jinja->pool, value) == 0);
    node->value = value;
    return node;
}

/* Arguments up to ")", "(" is behind us. */
static enum cs_status parse_arguments(struct jn_parser *p, struct jn **first)
{
    struct jn **to = first;

    while (!jn_accept(p, JT_SIGN, ")")) {
        const struct jn_token *word = jn_peek(p);
        struct jn *arg = jn_new(p, JN_ARG, NULL);
        if (word->kind == JT_NAME && word[1].kind == JT_SIGN && strcmp(word[1].text, "=") == 0) {
            arg->text = word->text;
            p->at += 2;
        }
        CS_TRY(jn_parse_expression(p, &arg->a));
        *to = arg;
        to = &arg->next;
        if (!jn_accept(p, JT_SIGN, ",") && strcmp(jn_peek(p)->text, ")") != 0)
            return jn_refuse(p);
    }
    return CS_OK;
}

/* Items up to the closing sign; is_dict: keys and values. */
static enum cs_status parse_items(struct jn_parser *p, const char *close, bool is_dict,
                                  struct jn **first)
{
    struct jn **to = first;

    while (!jn_accept(p, JT_SIGN, close)) {
        CS_TRY(jn_parse_expression(p, to));
        to = &(*to)->next;
        if (is_dict) {
            CS_TRY(jn_expect(p, JT_SIGN, ":"));
            CS_TRY(jn_parse_expression(p, to));
            to = &(*to)->next;
        }
        if (!jn_accept(p, JT_SIGN, ",") && strcmp(jn_peek(p)->text, close) != 0)
            return jn_refuse(p);
    }
    return CS_OK;
}

static enum cs_status parse_number(struct jn_parser *p, struct jn **out)
{
    const char *text = jn_peek(p)->text;
    bool is_real = strchr(text, '.') != NULL;
    char *end = NULL;
    double real = strtod(text, &end);

    if (*end != '\0' || real > 1e15)
        return jn_refuse(p);
    *out = constant(p, is_real ? json_real(real) : json_integer((json_int_t)real));
    p->at++;
    return CS_OK;
}

static enum cs_status parse_name(struct jn_parser *p, struct jn **out)
{
    static const struct {
        const char *name;
        json_t *(*make)(void);
    } constants[] = {
        {"true",  json_true },
        {"True",  json_true },
        {"false", json_false},
        {"False", json_false},
        {"none",  json_null },
        {"None",  json_null },
    };

    const char *name = jn_peek(p)->text;

    p->at++;
    for (size_t i = 0; i < CS_ARRAY_LEN(constants); i++)
        if (strcmp(name, constants[i].name) == 0) {
            *out = constant(p, constants[i].make());
            return CS_OK;
        }
    *out = jn_new(p, JN_NAME, name);
    return CS_OK;
}

static enum cs_status parse_primary(struct jn_parser *p, struct jn **out)
{
    const struct jn_token *t = jn_peek(p);

    if (t->kind == JT_STRING) {
        json_t *text = json_stringn(t->text, t->n);
        if (text == NULL)
            return jn_refuse(p); /* not UTF-8 */
        *out = constant(p, text);
        p->at++;
        return CS_OK;
    }
    if (t->kind == JT_NUMBER)
        return parse_number(p, out);
    if (t->kind == JT_NAME)
        return parse_name(p, out);
    if (jn_accept(p, JT_SIGN, "(")) {
        CS_TRY(jn_parse_expression(p, out));
        return jn_expect(p, JT_SIGN, ")");
    }
    if (jn_accept(p, JT_SIGN, "[")) {
        *out = jn_new(p, JN_LIST, NULL);
        return parse_items(p, "]", false, &(*out)->list);
    }
    if (jn_accept(p, JT_SIGN, "{")) {
        *out = jn_new(p, JN_DICT, NULL);
        return parse_items(p, "}", true, &(*out)->list);
    }
    return jn_refuse(p);
}

/* "[::-1]", the one slice with a step that templates use */
static bool accept_backwards(struct jn_parser *p)
{
    static const char *const signs[] = {":", ":", "-", "1", "]"};

    for (size_t i = 0; i < CS_ARRAY_LEN(signs); i++)
        if (p->at + i >= p->tokens->n || strcmp(p->tokens->items[p->at + i].text, signs[i]) != 0)
            return false;
    p->at += CS_ARRAY_LEN(signs);
    return true;
}

/* "[" is behind us: an index, or a slice. */
static enum cs_status parse_index(struct jn_parser *p, struct jn *of, struct jn **out)
{
    struct jn *from = NULL, *to = NULL;

    if (accept_backwards(p)) {
        *out = pair(p, JN_FILTER, "reverse", of, NULL);
        return CS_OK;
    }
    if (strcmp(jn_peek(p)->text, ":") != 0 || jn_peek(p)->kind != JT_SIGN)
        CS_TRY(jn_parse_expression(p, &from));
    if (!jn_accept(p, JT_SIGN, ":")) {
        *out = pair(p, JN_ITEM, NULL, of, from);
        return jn_expect(p, JT_SIGN, "]");
    }
    if (strcmp(jn_peek(p)->text, "]") != 0 || jn_peek(p)->kind != JT_SIGN)
        CS_TRY(jn_parse_expression(p, &to));
    *out = pair(p, JN_SLICE, NULL, of, from);
    (*out)->c = to;
    return jn_expect(p, JT_SIGN, "]");
}

static enum cs_status parse_postfix(struct jn_parser *p, struct jn **out)
{
    CS_TRY(parse_primary(p, out));
    for (;;) {
        struct jn *of = *out;
        if (jn_accept(p, JT_SIGN, ".")) {
            if (jn_peek(p)->kind != JT_NAME)
                return jn_refuse(p);
            *out = pair(p, JN_ATTR, jn_peek(p)->text, of, NULL);
            p->at++;
        } else if (jn_accept(p, JT_SIGN, "[")) {
            CS_TRY(parse_index(p, of, out));
        } else if (jn_accept(p, JT_SIGN, "(")) {
            *out = pair(p, JN_CALL, NULL, of, NULL);
            CS_TRY(parse_arguments(p, &(*out)->list));
        } else {
            return CS_OK;
        }
    }
}

static enum cs_status parse_filters(struct jn_parser *p, struct jn **out)
{
    while (jn_accept(p, JT_SIGN, "|")) {
        if (jn_peek(p)->kind != JT_NAME)
            return jn_refuse(p);
        *out = pair(p, JN_FILTER, jn_peek(p)->text, *out, NULL);
        p->at++;
        if (jn_accept(p, JT_SIGN, "("))
            CS_TRY(parse_arguments(p, &(*out)->list));
    }
    return CS_OK;
}

/* "is [not] TEST [ARGUMENT]" */
static enum cs_status parse_test(struct jn_parser *p, struct jn **out)
{
    bool is_not = jn_accept(p, JT_NAME, "not");

    if (jn_peek(p)->kind != JT_NAME)
        return jn_refuse(p);
    *out = pair(p, JN_TEST, jn_peek(p)->text, *out, NULL);
    p->at++;
    if (jn_accept(p, JT_SIGN, "("))
        CS_TRY(parse_arguments(p, &(*out)->list));
    if (is_not)
        *out = pair(p, JN_NOT, NULL, *out, NULL);
    return CS_OK;
}

static enum cs_status parse_unary(struct jn_parser *p, struct jn **out)
{
    if (++p->depth > JN_DEPTH_MAX)
        return cs_fail(p->err, CS_LIMIT, "it is nested too deeply");
    if (jn_accept(p, JT_SIGN, "-")) {
        CS_TRY(parse_unary(p, out));
        *out = pair(p, JN_MINUS, NULL, *out, NULL);
    } else {
        CS_TRY(parse_postfix(p, out));
        CS_TRY(parse_filters(p, out));
        while (jn_accept(p, JT_NAME, "is"))
            CS_TRY(parse_test(p, out));
    }
    p->depth--;
    return CS_OK;
}

/* Operators that bind alike, the loosest row first. */
static const char *const levels[][8] = {
    {"==",  "!=", "<", ">", "<=", ">=", NULL},
    {"+", "-",     NULL     },
    {"~",   NULL},
    {"*",  "/",  "//",    "%",      NULL },
};

static const char *operator_of(struct jn_parser *p, size_t level)
{
    const struct jn_token *t = jn_peek(p);

    for (size_t i = 0; t->kind == JT_SIGN && levels[level][i] != NULL; i++)
        if (strcmp(t->text, levels[level][i]) == 0)
            return levels[level][i];
    return NULL;
}

static bool accept_not_in(struct jn_parser *p)
{
    const struct jn_token *t = jn_peek(p);

    if (t->kind != JT_NAME || strcmp(t->text, "not") != 0 || t[1].kind != JT_NAME ||
        strcmp(t[1].text, "in") != 0)
        return false;
    p->at += 2;
    return true;
}

static enum cs_status parse_level(struct jn_parser *p, size_t level, struct jn **out)
{
    if (level == CS_ARRAY_LEN(levels))
        return parse_unary(p, out);
    CS_TRY(parse_level(p, level + 1, out));
    for (;;) {
        struct jn *b = NULL;
        const char *sign = operator_of(p, level);
        bool is_not_in = level == 0 && sign == NULL && accept_not_in(p);
        bool is_in = level == 0 && sign == NULL && !is_not_in && jn_accept(p, JT_NAME, "in");
        if (sign == NULL && !is_in && !is_not_in)
            return CS_OK;
        p->at += sign != NULL;
        CS_TRY(parse_level(p, level + 1, &b));
        *out = pair(p, JN_BINARY, sign != NULL ? sign : "in", *out, b);
        if (is_not_in)
            *out = pair(p, JN_NOT, NULL, *out, NULL);
    }
}

static enum cs_status parse_not(struct jn_parser *p, struct jn **out)
{
    enum cs_status status = CS_OK;

    if (!jn_accept(p, JT_NAME, "not"))
        return parse_level(p, 0, out);
    if (++p->depth > JN_DEPTH_MAX)
        return cs_fail(p->err, CS_LIMIT, "it is nested too deeply");
    status = parse_not(p, out);
    p->depth--;
    if (status == CS_OK)
        *out = pair(p, JN_NOT, NULL, *out, NULL);
    return status;
}

static enum cs_status parse_and(struct jn_parser *p, struct jn **out)
{
    CS_TRY(parse_not(p, out));
    while (jn_accept(p, JT_NAME, "and")) {
        struct jn *b = NULL;
        CS_TRY(parse_not(p, &b));
        *out = pair(p, JN_AND, NULL, *out, b);
    }
    return CS_OK;
}

static enum cs_status parse_or(struct jn_parser *p, struct jn **out)
{
    CS_TRY(parse_and(p, out));
    while (jn_accept(p, JT_NAME, "or")) {
        struct jn *b = NULL;
        CS_TRY(parse_and(p, &b));
        *out = pair(p, JN_OR, NULL, *out, b);
    }
    return CS_OK;
}

enum cs_status jn_parse_plain(struct jn_parser *p, struct jn **out)
{
    return parse_or(p, out);
}

enum cs_status jn_parse_expression(struct jn_parser *p, struct jn **out)
{
    if (++p->depth > JN_DEPTH_MAX)
        return cs_fail(p->err, CS_LIMIT, "it is nested too deeply");
    CS_TRY(parse_or(p, out));
    if (jn_accept(p, JT_NAME, "if")) {
        struct jn *condition = NULL, *other = NULL;
        CS_TRY(parse_or(p, &condition));
        if (jn_accept(p, JT_NAME, "else"))
            CS_TRY(jn_parse_expression(p, &other));
        *out = pair(p, JN_CHOICE, NULL, *out, condition);
        (*out)->c = other;
    }
    p->depth--;
    return CS_OK;
}
