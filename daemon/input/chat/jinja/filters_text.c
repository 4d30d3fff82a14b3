/* Filters and methods of texts. */
#include <string.h>

#include "core/base/str.h"
#include "input/chat/jinja/tree.h"

const char *jn_arg_text(const struct jn_call *c, size_t i)
{
    return json_string_value(json_array_get(c->args, i));
}

enum cs_status jn_unfit(const struct jn_call *c)
{
    return cs_fail(c->err, CS_UNSUPPORTED, "it uses \"%s\" in a way that is not understood",
                   c->name);
}

enum cs_status jn_give(const struct jn_call *c, json_t *value)
{
    *c->out = value;
    return value != NULL ? CS_OK : jn_unfit(c);
}

static enum cs_status strip(const struct jn_call *c, bool at_left, bool at_right)
{
    if (!json_is_string(c->value) || (json_array_size(c->args) > 0 && jn_arg_text(c, 0) == NULL))
        return jn_unfit(c);
    return jn_give(c, jn_strip(json_string_value(c->value), json_string_length(c->value),
                               jn_arg_text(c, 0), at_left, at_right));
}

static enum cs_status do_trim(const struct jn_call *c)
{
    return strip(c, true, true);
}

static enum cs_status do_lstrip(const struct jn_call *c)
{
    return strip(c, true, false);
}

static enum cs_status do_rstrip(const struct jn_call *c)
{
    return strip(c, false, true);
}

/* ASCII alone: what roles are written in. */
static enum cs_status change_case(const struct jn_call *c, bool is_up, bool is_first_only)
{
    struct cs_buf text = {0};
    const char *p = json_string_value(c->value);

    if (p == NULL)
        return jn_unfit(c);
    for (size_t i = 0; p[i] != '\0'; i++) {
        bool up = is_first_only ? i == 0 : is_up;
        if ((unsigned char)p[i] >= 0x80) {
            cs_buf_free(&text);
            return jn_unfit(c);
        }
        cs_buf_addc(&text, (char)(up && p[i] >= 'a' && p[i] <= 'z'    ? p[i] - 32
                                  : !up && p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32
                                                                      : p[i]));
    }
    *c->out = json_string(cs_buf_str(&text));
    cs_buf_free(&text);
    return CS_OK;
}

static enum cs_status do_upper(const struct jn_call *c)
{
    return change_case(c, true, false);
}

static enum cs_status do_lower(const struct jn_call *c)
{
    return change_case(c, false, false);
}

static enum cs_status do_capitalize(const struct jn_call *c)
{
    return change_case(c, false, true);
}

static enum cs_status do_replace(const struct jn_call *c)
{
    struct cs_buf text = {0};
    const char *at = json_string_value(c->value), *from = jn_arg_text(c, 0),
               *to = jn_arg_text(c, 1);

    if (at == NULL || from == NULL || from[0] == '\0' || to == NULL)
        return jn_unfit(c);
    for (const char *next = NULL; (next = strstr(at, from)) != NULL; at = next + strlen(from)) {
        cs_buf_add(&text, at, (size_t)(next - at));
        cs_buf_adds(&text, to);
    }
    cs_buf_adds(&text, at);
    *c->out = json_stringn(cs_buf_str(&text), text.len);
    cs_buf_free(&text);
    return CS_OK;
}

/* By a text, at most `limit` times where that is given. */
static enum cs_status do_split(const struct jn_call *c)
{
    const char *at = json_string_value(c->value), *by = jn_arg_text(c, 0);

    const json_t *limit = json_array_get(c->args, 1);
    json_int_t left = json_is_integer(limit) ? json_integer_value(limit) : -1;

    if (at == NULL || by == NULL || by[0] == '\0')
        return jn_unfit(c);
    *c->out = json_array();
    for (const char *next = NULL; left-- != 0 && (next = strstr(at, by)) != NULL;
         at = next + strlen(by))
        json_array_append_new(*c->out, json_stringn(at, (size_t)(next - at)));
    json_array_append_new(*c->out, json_string(at));
    return CS_OK;
}

static enum cs_status do_startswith(const struct jn_call *c)
{
    const char *text = json_string_value(c->value), *with = jn_arg_text(c, 0);

    if (text == NULL || with == NULL)
        return jn_unfit(c);
    return jn_give(c, json_boolean(strncmp(text, with, strlen(with)) == 0));
}

static enum cs_status do_endswith(const struct jn_call *c)
{
    const char *text = json_string_value(c->value), *with = jn_arg_text(c, 0);

    if (text == NULL || with == NULL)
        return jn_unfit(c);
    size_t n = strlen(text), n_with = strlen(with);
    return jn_give(c, json_boolean(n >= n_with && strcmp(text + n - n_with, with) == 0));
}

const struct jn_filter_row jn_text_filters[] = {
    {"trim",       do_trim      },
    {"upper",      do_upper     },
    {"lower",      do_lower     },
    {"capitalize", do_capitalize},
    {"title",      do_capitalize}, /* of one word */
    {"replace",    do_replace   },
    {NULL,         NULL         },
};

const struct jn_filter_row jn_text_methods[] = {
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
    {NULL,         NULL         },
};
