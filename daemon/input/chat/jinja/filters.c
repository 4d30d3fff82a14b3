/* Filters of any value and methods of objects; those of texts are filters_text.c. */
#include <stdlib.h>
#include <string.h>

#include "input/chat/jinja/tree.h"

static enum cs_status do_length(const struct jn_call *c)
{
    size_t n = json_array_size(c->value) + json_object_size(c->value) + jn_text_length(c->value);

    return jn_give(c, json_integer((json_int_t)n));
}

static enum cs_status do_first(const struct jn_call *c)
{
    *c->out = jn_share(json_array_get(c->value, 0));
    return json_is_array(c->value) ? CS_OK : jn_unfit(c);
}

static enum cs_status do_last(const struct jn_call *c)
{
    *c->out = jn_share(json_array_get(c->value, json_array_size(c->value) - 1));
    return json_is_array(c->value) ? CS_OK : jn_unfit(c);
}

static enum cs_status do_join(const struct jn_call *c)
{
    struct cs_buf text = {0};
    const char *between = json_array_size(c->args) > 0 ? jn_arg_text(c, 0) : "";
    const json_t *item = NULL;
    enum cs_status status = json_is_array(c->value) && between != NULL ? CS_OK : jn_unfit(c);
    size_t i = 0;

    json_array_foreach(c->value, i, item)
    {
        if (i > 0 && status == CS_OK)
            cs_buf_adds(&text, between);
        if (status == CS_OK)
            status = jn_print(item, &text, c->err);
    }
    if (status == CS_OK)
        *c->out = json_stringn(cs_buf_str(&text), text.len);
    cs_buf_free(&text);
    return status;
}

static enum cs_status do_default(const struct jn_call *c)
{
    const json_t *named = json_object_get(c->named, "boolean");
    bool is_false_replaced = jn_is_true(named != NULL ? named : json_array_get(c->args, 1));
    bool is_kept = c->value != NULL && (jn_is_true(c->value) || !is_false_replaced);

    *c->out = jn_share(is_kept ? c->value : json_array_get(c->args, 0));
    return CS_OK;
}

static enum cs_status do_string(const struct jn_call *c)
{
    struct cs_buf text = {0};
    enum cs_status status = jn_print(c->value, &text, c->err);

    if (status == CS_OK)
        *c->out = json_stringn(cs_buf_str(&text), text.len);
    cs_buf_free(&text);
    return status;
}

static enum cs_status do_list(const struct jn_call *c)
{
    return jn_give(c, jn_items(c->value));
}

static enum cs_status do_reverse(const struct jn_call *c)
{
    if (!json_is_array(c->value))
        return jn_unfit(c);
    *c->out = json_array();
    for (size_t i = json_array_size(c->value); i-- > 0;)
        json_array_append(*c->out, json_array_get(c->value, i));
    return CS_OK;
}

/* "equalto" VALUE, "defined" and whatever else a test can be */
static enum cs_status fits(const struct jn_call *c, const json_t *got, bool *out)
{
    const char *test = jn_arg_text(c, 1);
    json_t *args = json_array();
    enum cs_status status = CS_OK;

    *out = jn_is_true(got);
    for (size_t i = 2; i < json_array_size(c->args); i++)
        json_array_append(args, json_array_get(c->args, i));
    if (test != NULL)
        status = jn_test(strcmp(test, "==") == 0 ? "eq" : test, got, args, out, c->err);
    json_decref(args);
    return status;
}

/* selectattr(KEY, TEST, VALUE), selectattr(KEY) */
static enum cs_status select_by(const struct jn_call *c, bool is_wanted)
{
    const char *key = jn_arg_text(c, 0);
    const json_t *item = NULL;
    size_t i = 0;

    if (key == NULL || !json_is_array(c->value))
        return jn_unfit(c);
    *c->out = json_array();
    json_array_foreach(c->value, i, item)
    {
        bool is_fit = false;
        CS_TRY(fits(c, json_object_get(item, key), &is_fit));
        if (is_fit == is_wanted)
            json_array_append_new(*c->out, jn_share(item));
    }
    return CS_OK;
}

static enum cs_status do_selectattr(const struct jn_call *c)
{
    return select_by(c, true);
}

static enum cs_status do_rejectattr(const struct jn_call *c)
{
    return select_by(c, false);
}

/* map(attribute=KEY), map(FILTER) */
static enum cs_status do_map(const struct jn_call *c)
{
    const char *key = json_string_value(json_object_get(c->named, "attribute"));
    const char *filter = jn_arg_text(c, 0);
    const json_t *item = NULL;
    size_t i = 0;

    if (!json_is_array(c->value) || (key == NULL) == (filter == NULL))
        return jn_unfit(c);
    *c->out = json_array();
    json_array_foreach(c->value, i, item)
    {
        json_t *none = json_array(), *made = NULL;
        const struct jn_call one = {filter, item, none, NULL, &made, c->err};
        enum cs_status status = CS_OK;
        if (key != NULL)
            made = jn_share(json_object_get(item, key));
        else
            status = jn_filter(&one);
        json_array_append_new(*c->out, made != NULL ? made : json_null());
        json_decref(none);
        CS_TRY(status);
    }
    return CS_OK;
}

/* As json.dumps does, keys in their order. */
static enum cs_status do_tojson(const struct jn_call *c)
{
    char *text = NULL;

    if (c->value == NULL || json_array_size(c->args) + json_object_size(c->named) > 0)
        return jn_unfit(c);
    text = json_dumps(c->value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    *c->out = text != NULL ? json_string(text) : NULL;
    free(text);
    return *c->out != NULL ? CS_OK : jn_unfit(c);
}

static enum cs_status do_get(const struct jn_call *c)
{
    const json_t *got =
        jn_arg_text(c, 0) != NULL ? json_object_get(c->value, jn_arg_text(c, 0)) : NULL;

    if (!json_is_object(c->value) || jn_arg_text(c, 0) == NULL)
        return jn_unfit(c);
    if (got == NULL)
        got = json_array_get(c->args, 1);
    return jn_give(c, got != NULL ? jn_share(got) : json_null());
}

static enum cs_status do_items(const struct jn_call *c)
{
    json_t *object = (json_t *)(uintptr_t)c->value, *value = NULL;
    const char *key = NULL;

    if (!json_is_object(c->value))
        return jn_unfit(c);
    *c->out = json_array();
    json_object_foreach(object, key, value)
        json_array_append_new(*c->out, json_pack("[s,O]", key, value));
    return CS_OK;
}

static enum cs_status do_dictsort(const struct jn_call *c)
{
    json_t *sorted = NULL, *value = NULL;
    char *text = json_is_object(c->value) ? json_dumps(c->value, JSON_SORT_KEYS) : NULL;
    const char *key = NULL;

    if (text == NULL)
        return jn_unfit(c);
    sorted = json_loads(text, 0, NULL);
    free(text);
    *c->out = json_array();
    json_object_foreach(sorted, key, value)
        json_array_append_new(*c->out, json_pack("[s,O]", key, value));
    json_decref(sorted);
    return CS_OK;
}

static const struct jn_filter_row filters[] = {
    {"length",     do_length    },
    {"count",      do_length    },
    {"first",      do_first     },
    {"last",       do_last      },
    {"join",       do_join      },
    {"default",    do_default   },
    {"d",          do_default   },
    {"string",     do_string    },
    {"safe",       do_string    },
    {"list",       do_list      },
    {"reverse",    do_reverse   },
    {"items",      do_items     },
    {"dictsort",   do_dictsort  },
    {"selectattr", do_selectattr},
    {"rejectattr", do_rejectattr},
    {"map",        do_map       },
    {"tojson",     do_tojson    },
    {NULL,         NULL         },
};

static const struct jn_filter_row methods[] = {
    {"get",   do_get  },
    {"items", do_items},
    {"keys",  do_list },
    {NULL,    NULL    },
};

/* In the first of two tables that has the name. */
static enum cs_status call(const struct jn_filter_row *rows, const struct jn_filter_row *more,
                           const char *what, const struct jn_call *c)
{
    *c->out = NULL;
    for (; rows->name != NULL; rows++)
        if (strcmp(rows->name, c->name) == 0)
            return rows->call(c);
    return more != NULL
               ? call(more, NULL, what, c)
               : cs_fail(c->err, CS_UNSUPPORTED, "it uses the %s \"%.60s\"", what, c->name);
}

enum cs_status jn_filter(const struct jn_call *c)
{
    return call(filters, jn_text_filters, "filter", c);
}

enum cs_status jn_method(const struct jn_call *c)
{
    return call(methods, jn_text_methods, "method", c);
}
