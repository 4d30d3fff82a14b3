/* Values of expressions. */
#include <string.h>

#include "input/chat/jinja/tree.h"

static enum cs_status compute(struct jn_run *run, const struct jn *node, json_t **out);

enum cs_status jn_value(struct jn_run *run, const struct jn *node, json_t **out)
{
    enum cs_status status = CS_OK;

    *out = NULL;
    if (node == NULL)
        return CS_OK;
    if (--run->left < 0 || ++run->depth > 4 * JN_DEPTH_MAX)
        return cs_fail(run->err, CS_LIMIT, "it does too much");
    status = compute(run, node, out);
    run->depth--;
    if (status != CS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

static enum cs_status truth(struct jn_run *run, const struct jn *node, bool *out)
{
    json_t *value = NULL;
    enum cs_status status = jn_value(run, node, &value);

    *out = jn_is_true(value);
    json_decref(value);
    return status;
}

static json_t *variable(const struct jn_run *run, const char *name)
{
    for (size_t i = json_array_size(run->scopes); i-- > 0;) {
        json_t *value = json_object_get(json_array_get(run->scopes, i), name);
        if (value != NULL)
            return json_incref(value);
    }
    return NULL;
}

/* Attribute or item of an object, item of a list or a text's part; undefined where there is none. */
static enum cs_status member(struct jn_run *run, const json_t *of, const json_t *key, json_t **out)
{
    if (of == NULL)
        return cs_fail(run->err, CS_INVALID, "it reads \"%.60s\" of something undefined",
                       json_is_string(key) ? json_string_value(key) : "an item");
    if (json_is_object(of) && json_is_string(key)) {
        *out = jn_share(json_object_get(of, json_string_value(key)));
        return CS_OK;
    }
    if (json_is_array(of) && json_is_integer(key)) {
        json_int_t n = (json_int_t)json_array_size(of), i = json_integer_value(key);
        i += i < 0 ? n : 0;
        *out = i >= 0 && i < n ? jn_share(json_array_get(of, (size_t)i)) : NULL;
        return CS_OK;
    }
    if (json_is_string(of) && json_is_integer(key)) {
        json_int_t n = (json_int_t)jn_text_length(of), i = json_integer_value(key);
        i += i < 0 ? n : 0;
        *out = i >= 0 && i < n ? jn_text_part(of, i, i + 1) : NULL;
        return CS_OK;
    }
    *out = NULL;
    return CS_OK;
}

static json_int_t bound(const json_t *value, json_int_t n, json_int_t fallback)
{
    json_int_t i = json_is_integer(value) ? json_integer_value(value) : fallback;

    i += i < 0 ? n : 0;
    return i < 0 ? 0 : i > n ? n : i;
}

static enum cs_status slice(struct jn_run *run, const json_t *of, const json_t *from,
                            const json_t *to, json_t **out)
{
    json_int_t n = (json_int_t)json_array_size(of);

    if (json_is_string(of)) {
        n = (json_int_t)jn_text_length(of);
        *out = jn_text_part(of, bound(from, n, 0), bound(to, n, n));
        return CS_OK;
    }
    if (!json_is_array(of))
        return cs_fail(run->err, CS_UNSUPPORTED, "it takes a part of what is no list");
    *out = json_array();
    for (json_int_t i = bound(from, n, 0); i < bound(to, n, n); i++)
        json_array_append(*out, json_array_get(of, (size_t)i));
    return CS_OK;
}

/* Plain ones to args, keywords to named. */
static enum cs_status arguments(struct jn_run *run, const struct jn *list, json_t *args,
                                json_t *named)
{
    for (; list != NULL; list = list->next) {
        json_t *value = NULL;
        CS_TRY(jn_value(run, list->a, &value));
        if (value == NULL)
            value = json_null();
        if (list->text != NULL)
            json_object_set_new(named, list->text, value);
        else
            json_array_append_new(args, value);
    }
    return CS_OK;
}

static enum cs_status call(struct jn_run *run, const struct jn *node, json_t **out)
{
    json_t *args = json_array(), *named = json_object(), *of = NULL;
    const struct jn *callee = node->a;
    bool is_test = node->kind == JN_TEST, is_filter = node->kind == JN_FILTER, holds = false;
    bool is_method = node->kind == JN_CALL && callee->kind == JN_ATTR;
    enum cs_status status = arguments(run, node->list, args, named);

    if (status == CS_OK && (is_test || is_filter || is_method))
        status = jn_value(run, is_method ? callee->a : callee, &of);
    if (status != CS_OK)
        goto out;
    const struct jn_call with = {
        is_method ? callee->text : node->text, of, args, named, out, run->err};
    const struct jn *macro =
        !is_method && callee->kind == JN_NAME ? jn_macro(run, callee->text) : NULL;
    if (json_object_size(named) > 0 && (is_test || is_method))
        status = cs_fail(run->err, CS_UNSUPPORTED, "it names an argument of \"%.60s\"", with.name);
    else if (is_test)
        status = jn_test(node->text, of, args, &holds, run->err);
    else if (is_filter)
        status = jn_filter(&with);
    else if (is_method)
        status = jn_method(&with);
    else if (macro != NULL)
        status = jn_call_macro(run, macro, args, named, out);
    else if (callee->kind == JN_NAME)
        status = jn_function(callee->text, args, named, out, run->err);
    else
        status = cs_fail(run->err, CS_UNSUPPORTED, "it calls what is no function");
    if (is_test && status == CS_OK)
        *out = json_boolean(holds);
out:
    json_decref(args);
    json_decref(named);
    json_decref(of);
    return status;
}

static enum cs_status make_list(struct jn_run *run, const struct jn *node, json_t **out)
{
    *out = json_array();
    for (const struct jn *item = node->list; item != NULL; item = item->next) {
        json_t *value = NULL;
        CS_TRY(jn_value(run, item, &value));
        json_array_append_new(*out, value != NULL ? value : json_null());
    }
    return CS_OK;
}

static enum cs_status make_dict(struct jn_run *run, const struct jn *node, json_t **out)
{
    *out = json_object();
    for (const struct jn *item = node->list; item != NULL; item = item->next->next) {
        json_t *key = NULL, *value = NULL;
        enum cs_status status = jn_value(run, item, &key);
        if (status == CS_OK)
            status = jn_value(run, item->next, &value);
        if (status == CS_OK && !json_is_string(key))
            status = cs_fail(run->err, CS_UNSUPPORTED, "it has a key that is no text");
        if (status == CS_OK)
            json_object_set(*out, json_string_value(key), value != NULL ? value : json_null());
        json_decref(key);
        json_decref(value);
        CS_TRY(status);
    }
    return CS_OK;
}

/* Of nodes with up to three operands. */
static enum cs_status with_operands(struct jn_run *run, const struct jn *node, json_t **out)
{
    json_t *a = NULL, *b = NULL, *c = NULL;
    enum cs_status status = jn_value(run, node->a, &a);

    if (status == CS_OK)
        status = jn_value(run, node->b, &b);
    if (status == CS_OK)
        status = jn_value(run, node->c, &c);
    if (status == CS_OK && node->kind == JN_ITEM)
        status = member(run, a, b, out);
    else if (status == CS_OK && node->kind == JN_SLICE)
        status = slice(run, a, b, c, out);
    else if (status == CS_OK && node->kind == JN_BINARY)
        status = jn_operate(run, node->text, a, b, out);
    else if (status == CS_OK && json_is_integer(a))
        *out = json_integer(-json_integer_value(a));
    else if (status == CS_OK)
        status = cs_fail(run->err, CS_UNSUPPORTED, "it negates what is no whole number");
    json_decref(a);
    json_decref(b);
    json_decref(c);
    return status;
}

static enum cs_status attribute(struct jn_run *run, const struct jn *node, json_t **out)
{
    json_t *of = NULL, *key = json_string(node->text);
    enum cs_status status = jn_value(run, node->a, &of);

    if (status == CS_OK)
        status = member(run, of, key, out);
    json_decref(of);
    json_decref(key);
    return status;
}

static enum cs_status compute(struct jn_run *run, const struct jn *node, json_t **out)
{
    bool holds = false;

    switch ((int)node->kind) {
    case JN_CONST:
        *out = json_incref(node->value);
        return CS_OK;
    case JN_NAME:
        *out = variable(run, node->text);
        return CS_OK;
    case JN_LIST:
        return make_list(run, node, out);
    case JN_DICT:
        return make_dict(run, node, out);
    case JN_ATTR:
        return attribute(run, node, out);
    case JN_CALL:
    case JN_FILTER:
    case JN_TEST:
        return call(run, node, out);
    case JN_NOT:
        CS_TRY(truth(run, node->a, &holds));
        *out = json_boolean(!holds);
        return CS_OK;
    case JN_AND:
    case JN_OR:
        CS_TRY(jn_value(run, node->a, out));
        if (jn_is_true(*out) == (node->kind == JN_OR))
            return CS_OK;
        json_decref(*out);
        *out = NULL;
        return jn_value(run, node->b, out);
    case JN_CHOICE:
        CS_TRY(truth(run, node->b, &holds));
        return jn_value(run, holds ? node->a : node->c, out);
    default:
        return with_operands(run, node, out);
    }
}
