/* Tests and global functions. */
#include <string.h>

#include "input/chat/jinja/tree.h"

/* clang-format off */
enum cs_status jn_test(const char *name, const json_t *value, const json_t *args, bool *out,
                       struct cs_err *err)
{
    const json_t *arg = json_array_get(args, 0);
    const struct {
        const char *name;
        bool holds;
    } tests[] = {
        {"defined",   value != NULL                                      },
        {"undefined", value == NULL                                      },
        {"none",      json_is_null(value)                                },
        {"string",    json_is_string(value)                              },
        {"mapping",   json_is_object(value)                              },
        {"sequence",  json_is_array(value) || json_is_string(value) || json_is_object(value)},
        {"iterable",  json_is_array(value) || json_is_string(value) || json_is_object(value)},
        {"number",    json_is_number(value) || json_is_boolean(value)    },
        {"integer",   json_is_integer(value)                             },
        {"boolean",   json_is_boolean(value)                             },
        {"true",      json_is_true(value)                                },
        {"false",     json_is_false(value)                               },
        {"odd",       json_is_integer(value) && json_integer_value(value) % 2 != 0},
        {"even",      json_is_integer(value) && json_integer_value(value) % 2 == 0},
        {"equalto",   jn_is_equal(value, arg)                            },
        {"eq",        jn_is_equal(value, arg)                            },
        {"ne",        !jn_is_equal(value, arg)                           },
        {"in",        jn_contains(arg, value)                            },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(tests); i++)
        if (strcmp(tests[i].name, name) == 0) {
            *out = tests[i].holds;
            return CS_OK;
        }
    return cs_fail(err, CS_UNSUPPORTED, "it uses the test \"%.60s\"", name);
}

/* clang-format on */

static enum cs_status make_range(const json_t *args, json_t **out, struct cs_err *err)
{
    const json_t *a = json_array_get(args, 0), *b = json_array_get(args, 1);
    const json_t *c = json_array_get(args, 2);
    json_int_t from = b != NULL ? json_integer_value(a) : 0;
    json_int_t to = json_integer_value(b != NULL ? b : a);
    json_int_t step = c != NULL ? json_integer_value(c) : 1;

    if (step == 0 || from > INT32_MAX || from < INT32_MIN || to > INT32_MAX || to < INT32_MIN ||
        (to - from) / step > 10000)
        return cs_fail(err, CS_UNSUPPORTED, "it uses a long range");
    *out = json_array();
    for (json_int_t i = from; step > 0 ? i < to : i > to; i += step)
        json_array_append_new(*out, json_integer(i));
    return CS_OK;
}

enum cs_status jn_function(const char *name, const json_t *args, const json_t *named, json_t **out,
                           struct cs_err *err)
{
    const char *text = json_string_value(json_array_get(args, 0));

    *out = NULL;
    if (strcmp(name, "raise_exception") == 0)
        return cs_fail(err, CS_INVALID, "%.200s",
                       text != NULL && text[0] != '\0' ? text : "it raises an exception");
    if (strcmp(name, "namespace") == 0 || strcmp(name, "dict") == 0) {
        *out = json_copy((json_t *)(uintptr_t)named);
        return CS_OK;
    }
    if (strcmp(name, "range") == 0)
        return make_range(args, out, err);
    if (strcmp(name, "strftime_now") == 0) {
        *out = json_string(JN_TODAY); /* told where it is written, not where it is asked for */
        return CS_OK;
    }
    return cs_fail(err, CS_UNSUPPORTED, "it calls the function \"%.60s\"", name);
}
