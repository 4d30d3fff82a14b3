/* Filters of values and methods of texts and objects. */
#include <string.h>

#include "input/chat/jinja/tree.h"

struct call {
    const char *name;
    const json_t *value, *args;
    json_t **out;
    struct cs_err *err;
};

static const char *arg_text(const struct call *c, size_t i)
{
    return json_string_value(json_array_get(c->args, i));
}

static enum cs_status unfit(const struct call *c)
{
    return cs_fail(c->err, CS_UNSUPPORTED, "it uses \"%s\" in a way that is not understood",
                   c->name);
}

static enum cs_status give(const struct call *c, json_t *value)
{
    *c->out = value;
    return value != NULL ? CS_OK : unfit(c);
}

static enum cs_status strip(const struct call *c, bool at_left, bool at_right)
{
    if (!json_is_string(c->value) || (json_array_size(c->args) > 0 && arg_text(c, 0) == NULL))
        return unfit(c);
    return give(c, jn_strip(json_string_value(c->value), json_string_length(c->value),
                            arg_text(c, 0), at_left, at_right));
}

static enum cs_status do_trim(const struct call *c)
{
    return strip(c, true, true);
}

static enum cs_status do_lstrip(const struct call *c)
{
    return strip(c, true, false);
}

static enum cs_status do_rstrip(const struct call *c)
{
    return strip(c, false, true);
}

/* ASCII alone: what roles are written in. */
static enum cs_status change_case(const struct call *c, bool is_up, bool is_first_only)
{
    struct cs_buf text = {0};
    const char *p = json_string_value(c->value);

    if (p == NULL)
        return unfit(c);
    for (size_t i = 0; p[i] != '\0'; i++) {
        bool up = is_first_only ? i == 0 : is_up;
        if ((unsigned char)p[i] >= 0x80) {
            cs_buf_free(&text);
            return unfit(c);
        }
        cs_buf_addc(&text, (char)(up && p[i] >= 'a' && p[i] <= 'z'    ? p[i] - 32
                                  : !up && p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32
                                                                      : p[i]));
    }
    *c->out = json_string(cs_buf_str(&text));
    cs_buf_free(&text);
    return CS_OK;
}

static enum cs_status do_upper(const struct call *c)
{
    return change_case(c, true, false);
}

static enum cs_status do_lower(const struct call *c)
{
    return change_case(c, false, false);
}

static enum cs_status do_capitalize(const struct call *c)
{
    return change_case(c, false, true);
}

static enum cs_status do_length(const struct call *c)
{
    size_t n = json_array_size(c->value) + json_object_size(c->value);

    for (const char *p = json_string_value(c->value); p != NULL && *p != '\0'; p++)
        n += ((unsigned char)*p & 0xc0) != 0x80;
    return give(c, json_integer((json_int_t)n));
}

static enum cs_status do_first(const struct call *c)
{
    *c->out = jn_share(json_array_get(c->value, 0));
    return json_is_array(c->value) ? CS_OK : unfit(c);
}

static enum cs_status do_last(const struct call *c)
{
    *c->out = jn_share(json_array_get(c->value, json_array_size(c->value) - 1));
    return json_is_array(c->value) ? CS_OK : unfit(c);
}

static enum cs_status do_join(const struct call *c)
{
    struct cs_buf text = {0};
    const char *between = json_array_size(c->args) > 0 ? arg_text(c, 0) : "";
    const json_t *item = NULL;
    enum cs_status status = json_is_array(c->value) && between != NULL ? CS_OK : unfit(c);
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

static enum cs_status do_default(const struct call *c)
{
    bool is_kept =
        c->value != NULL && (jn_is_true(c->value) || !jn_is_true(json_array_get(c->args, 1)));

    *c->out = jn_share(is_kept ? c->value : json_array_get(c->args, 0));
    return CS_OK;
}

static enum cs_status do_string(const struct call *c)
{
    struct cs_buf text = {0};
    enum cs_status status = jn_print(c->value, &text, c->err);

    if (status == CS_OK)
        *c->out = json_stringn(cs_buf_str(&text), text.len);
    cs_buf_free(&text);
    return status;
}

static enum cs_status do_list(const struct call *c)
{
    *c->out = json_is_array(c->value) ? json_copy((json_t *)(uintptr_t)c->value) : NULL;
    return *c->out != NULL ? CS_OK : unfit(c);
}

static enum cs_status do_reverse(const struct call *c)
{
    if (!json_is_array(c->value))
        return unfit(c);
    *c->out = json_array();
    for (size_t i = json_array_size(c->value); i-- > 0;)
        json_array_append(*c->out, json_array_get(c->value, i));
    return CS_OK;
}

/* selectattr(KEY, "equalto", VALUE), selectattr(KEY) */
static enum cs_status select_by(const struct call *c, bool is_wanted)
{
    const char *key = arg_text(c, 0), *test = arg_text(c, 1);
    const json_t *item = NULL;
    size_t i = 0;

    if (key == NULL || (test != NULL && strcmp(test, "equalto") != 0 && strcmp(test, "==") != 0 &&
                        strcmp(test, "eq") != 0))
        return unfit(c);
    *c->out = json_array();
    json_array_foreach(c->value, i, item)
    {
        const json_t *got = json_object_get(item, key);
        bool fits = test != NULL ? jn_is_equal(got, json_array_get(c->args, 2)) : jn_is_true(got);
        if (fits == is_wanted)
            json_array_append_new(*c->out, jn_share(item));
    }
    return CS_OK;
}

static enum cs_status do_selectattr(const struct call *c)
{
    return select_by(c, true);
}

static enum cs_status do_rejectattr(const struct call *c)
{
    return select_by(c, false);
}

static enum cs_status do_replace(const struct call *c)
{
    struct cs_buf text = {0};
    const char *at = json_string_value(c->value), *from = arg_text(c, 0), *to = arg_text(c, 1);

    if (at == NULL || from == NULL || from[0] == '\0' || to == NULL)
        return unfit(c);
    for (const char *next = NULL; (next = strstr(at, from)) != NULL; at = next + strlen(from)) {
        cs_buf_add(&text, at, (size_t)(next - at));
        cs_buf_adds(&text, to);
    }
    cs_buf_adds(&text, at);
    *c->out = json_stringn(cs_buf_str(&text), text.len);
    cs_buf_free(&text);
    return CS_OK;
}

static enum cs_status do_split(const struct call *c)
{
    const char *at = json_string_value(c->value), *by = arg_text(c, 0);

    if (at == NULL || by == NULL || by[0] == '\0' || json_array_size(c->args) != 1)
        return unfit(c);
    *c->out = json_array();
    for (const char *next = NULL; (next = strstr(at, by)) != NULL; at = next + strlen(by))
        json_array_append_new(*c->out, json_stringn(at, (size_t)(next - at)));
    json_array_append_new(*c->out, json_string(at));
    return CS_OK;
}

static enum cs_status do_startswith(const struct call *c)
{
    const char *text = json_string_value(c->value), *with = arg_text(c, 0);

    if (text == NULL || with == NULL)
        return unfit(c);
    return give(c, json_boolean(strncmp(text, with, strlen(with)) == 0));
}

static enum cs_status do_endswith(const struct call *c)
{
    const char *text = json_string_value(c->value), *with = arg_text(c, 0);

    if (text == NULL || with == NULL)
        return unfit(c);
    size_t n = strlen(text), n_with = strlen(with);
    return give(c, json_boolean(n >= n_with && strcmp(text + n - n_with, with) == 0));
}

static enum cs_status do_get(const struct call *c)
{
    const json_t *got = arg_text(c, 0) != NULL ? json_object_get(c->value, arg_text(c, 0)) : NULL;

    if (!json_is_object(c->value) || arg_text(c, 0) == NULL)
        return unfit(c);
    if (got == NULL)
        got = json_array_get(c->args, 1);
    return give(c, got != NULL ? jn_share(got) : json_null());
}

static enum cs_status do_items(const struct call *c)
{
    json_t *object = (json_t *)(uintptr_t)c->value, *value = NULL;
    const char *key = NULL;

    if (!json_is_object(c->value))
        return unfit(c);
    *c->out = json_array();
    json_object_foreach(object, key, value)
        json_array_append_new(*c->out, json_pack("[s,O]", key, value));
    return CS_OK;
}

struct row {
    const char *name;
    enum cs_status (*call)(const struct call *c);
};

static const struct row filters[] = {
    {"trim",       do_trim      },
    {"length",     do_length    },
    {"count",      do_length    },
    {"upper",      do_upper     },
    {"lower",      do_lower     },
    {"capitalize", do_capitalize},
    {"title",      do_capitalize}, /* of one word */
    {"first",      do_first     },
    {"last",       do_last      },
    {"join",       do_join      },
    {"default",    do_default   },
    {"d",          do_default   },
    {"string",     do_string    },
    {"safe",       do_string    },
    {"list",       do_list      },
    {"reverse",    do_reverse   },
    {"replace",    do_replace   },
    {"items",      do_items     },
    {"selectattr", do_selectattr},
    {"rejectattr", do_rejectattr},
};

static const struct row methods[] = {
    {"strip",      do_trim      },
    {"lstrip",     do_lstrip    },
    {"rstrip",     do_rstrip    },
    {"upper",      do_upper     },
    {"lower",      do_lower     },
    {"capitalize", do_capitalize},
    {"title",      do_capitalize},
    {"replace",    do_replace   },
    {"split",      do_split     },
    {"startswith", do_startswith},
    {"endswith",   do_endswith  },
    {"get",        do_get       },
    {"items",      do_items     },
};

static enum cs_status call(const struct row *rows, size_t n, const char *what, const struct call *c)
{
    *c->out = NULL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].name, c->name) == 0)
            return rows[i].call(c);
    return cs_fail(c->err, CS_UNSUPPORTED, "it uses the %s \"%.60s\"", what, c->name);
}

enum cs_status jn_filter(const char *name, const json_t *value, const json_t *args, json_t **out,
                         struct cs_err *err)
{
    return call(filters, CS_ARRAY_LEN(filters), "filter",
                &(struct call){name, value, args, out, err});
}

enum cs_status jn_method(const char *name, const json_t *value, const json_t *args, json_t **out,
                         struct cs_err *err)
{
    return call(methods, CS_ARRAY_LEN(methods), "method",
                &(struct call){name, value, args, out, err});
}
