/* What values are to Jinja: truth, equality, membership, parts, print. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "input/chat/jinja/tree.h"

json_t *jn_share(const json_t *value)
{
    return json_incref((json_t *)(uintptr_t)value);
}

bool jn_is_true(const json_t *value)
{
    if (json_is_string(value))
        return json_string_length(value) > 0;
    if (json_is_number(value))
        return json_number_value(value) != 0.0;
    if (json_is_array(value) || json_is_object(value))
        return json_array_size(value) + json_object_size(value) > 0;
    return json_is_true(value);
}

bool jn_is_equal(const json_t *a, const json_t *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b) != 0;
}

bool jn_contains(const json_t *whole, const json_t *part)
{
    const json_t *item = NULL;
    size_t i = 0;

    if (json_is_string(whole) && json_is_string(part))
        return strstr(json_string_value(whole), json_string_value(part)) != NULL;
    if (json_is_object(whole) && json_is_string(part))
        return json_object_get(whole, json_string_value(part)) != NULL;
    json_array_foreach(whole, i, item)
    {
        if (jn_is_equal(item, part))
            return true;
    }
    return false;
}

enum cs_status jn_print(const json_t *value, struct cs_buf *out, struct cs_err *err)
{
    if (json_is_string(value))
        cs_buf_add(out, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value))
        cs_buf_addf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_null(value) || json_is_boolean(value))
        cs_buf_adds(out, json_is_null(value) ? "None" : json_is_true(value) ? "True" : "False");
    else if (value != NULL)
        return cs_fail(err, CS_UNSUPPORTED, "it prints a %s",
                       json_is_real(value) ? "fraction" : "list or an object");
    return CS_OK;
}

size_t jn_text_length(const json_t *text)
{
    size_t n = 0;

    for (const char *p = json_string_value(text); p != NULL && *p != '\0'; p++)
        n += ((unsigned char)*p & 0xc0) != 0x80;
    return n;
}

json_t *jn_text_part(const json_t *text, json_int_t from, json_int_t to)
{
    const char *p = json_string_value(text), *begin = NULL;
    json_int_t at = -1;

    for (; *p != '\0'; p++) {
        at += ((unsigned char)*p & 0xc0) != 0x80;
        if (at >= from && begin == NULL)
            begin = p;
        if (at >= to)
            break;
    }
    return begin == NULL || from >= to ? json_string("") : json_stringn(begin, (size_t)(p - begin));
}

json_t *jn_items(const json_t *value)
{
    json_t *out = NULL, *item = NULL;
    const char *key = NULL;

    if (json_is_array(value))
        return json_copy((json_t *)(uintptr_t)value);
    if (!json_is_object(value) && !json_is_string(value))
        return NULL;
    out = json_array();
    json_object_foreach((json_t *)(uintptr_t)value, key, item)
        json_array_append_new(out, json_string(key));
    for (json_int_t i = 0, n = (json_int_t)jn_text_length(value); i < n; i++)
        json_array_append_new(out, jn_text_part(value, i, i + 1));
    return out;
}

/* Characters that Python's str.isspace knows. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_stripped(uint32_t c, const char *chars)
{
    return chars == NULL ? is_space(c) : c < 0x80 && c != 0 && strchr(chars, (int)c) != NULL;
}

json_t *jn_strip(const char *text, size_t n, const char *chars, bool at_left, bool at_right)
{
    uint32_t c = 0;

    while (at_left && n > 0) {
        size_t len = cs_utf8_decode(text, n, &c);
        if (len == 0 || !is_stripped(c, chars))
            break;
        text += len;
        n -= len;
    }
    while (at_right && n > 0) {
        size_t begin = n - 1;
        while (begin > 0 && ((unsigned char)text[begin] & 0xc0) == 0x80)
            begin--;
        if (cs_utf8_decode(text + begin, n - begin, &c) != n - begin || !is_stripped(c, chars))
            break;
        n = begin;
    }
    return json_stringn(text, n);
}
