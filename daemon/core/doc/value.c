/* One value against its row, and how values are shown. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/doc/doc.h"

const char *cs_doc_show(const json_t *value, char out[CS_DOC_SHOWN])
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS |
                                       JSON_REAL_PRECISION(12));
    const char *all = text != NULL ? text : "?";
    size_t len = strlen(all), end = CS_DOC_SHOWN - 4;
    if (len < CS_DOC_SHOWN) {
        memcpy(out, all, len + 1);
    } else {
        while (end > 0 && ((unsigned char)all[end] & 0xc0) == 0x80) /* never half a character */
            end--;
        memcpy(out, all, end);
        memcpy(out + end, "...", sizeof "...");
    }
    free(text);
    return out;
}

static bool has_range(const struct cs_doc_key *key)
{
    return key->min < 0 || key->min > 0 || key->max < 0 || key->max > 0;
}

static bool is_number_of(const struct cs_doc_key *key, const json_t *value)
{
    const double number = json_number_value(value);
    bool is_type = (key->types & CS_DOC_NUMBER) ||
                   ((key->types & CS_DOC_INT) && json_is_integer(value)) ||
                   (key->types & CS_DOC_POSITIVE);
    if (!is_type || !isfinite(number))
        return false;
    if ((key->types & CS_DOC_POSITIVE) && !(number > 0))
        return false;
    return !has_range(key) || (number >= key->min && number <= key->max);
}

static bool is_string_of(const struct cs_doc_key *key, const json_t *value)
{
    const char *text = json_string_value(value);
    return (key->types & CS_DOC_STRING) && strlen(text) == json_string_length(value);
}

static bool fits(const struct cs_doc_key *key, const json_t *value)
{
    if (key->types == CS_DOC_ANY)
        return true;
    switch (json_typeof(value)) {
    case JSON_TRUE:
    case JSON_FALSE:
        return key->types & CS_DOC_BOOL;
    case JSON_INTEGER:
    case JSON_REAL:
        return is_number_of(key, value);
    case JSON_STRING:
        return is_string_of(key, value);
    case JSON_ARRAY:
        return key->types & CS_DOC_LIST;
    case JSON_OBJECT:
        return key->types & CS_DOC_OBJECT;
    case JSON_NULL:
        break;
    }
    return true; /* absent */
}

/* "a whole number from 1 to 64, or a list" */
static void put_wanted(const struct cs_doc_key *key, char *out, size_t cap)
{
    static const struct {
        int type;
        const char *name;
    } types[] = {
        {CS_DOC_BOOL,     "true or false"   },
        {CS_DOC_INT,      "a whole number"  },
        {CS_DOC_NUMBER,   "a number"        },
        {CS_DOC_POSITIVE, "a number above 0"},
        {CS_DOC_STRING,   "a string"        },
        {CS_DOC_LIST,     "a list"          },
        {CS_DOC_OBJECT,   "an object"       },
    };

    enum { NUMBERS = CS_DOC_INT | CS_DOC_NUMBER };

    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < CS_ARRAY_LEN(types) && len < cap; i++) {
        if (!(key->types & types[i].type))
            continue;
        len += (size_t)snprintf(out + len, cap - len, "%s%s", len > 0 ? " or " : "", types[i].name);
        if (len < cap && types[i].type == CS_DOC_POSITIVE && has_range(key))
            len += (size_t)snprintf(out + len, cap - len, " up to %.17g", key->max);
        else if (len < cap && (types[i].type & NUMBERS) && has_range(key))
            len +=
                (size_t)snprintf(out + len, cap - len, " from %.17g to %.17g", key->min, key->max);
    }
}

/* Equal as JSON, but 0 and 0.0 are one number. */
static bool is_value(const json_t *value, const char *text)
{
    json_t *wanted = json_loads(text, JSON_DECODE_ANY, NULL);
    CS_ASSERT(wanted != NULL);
    double a = json_number_value(value), b = json_number_value(wanted);
    bool is_equal = json_is_number(value) && json_is_number(wanted)
                        ? a <= b && a >= b
                        : json_equal(value, wanted) != 0;
    json_decref(wanted);
    return is_equal;
}

static enum cs_status refuse(const struct cs_doc_key *key, const char *where, const json_t *value,
                             struct cs_err *err)
{
    char shown[CS_DOC_SHOWN];
    if (key->only != NULL && is_value(value, key->only))
        return CS_OK;
    return cs_fail(err, CS_UNSUPPORTED, "%s is %s: %s%s%s", where, cs_doc_show(value, shown),
                   key->text, key->only != NULL ? "; supported: " : "",
                   key->only != NULL ? key->only : "");
}

/* A word that is not among those that are known. */
static enum cs_status refuse_word(const struct cs_doc_key *key, const char *where,
                                  const json_t *value, struct cs_err *err)
{
    char shown[CS_DOC_SHOWN], near[CS_DOC_NAME];
    const struct cs_doc_key words = {.names = key->accept};
    const struct cs_doc_table table = {.rows = &words, .stride = sizeof words, .n = 1};
    bool is_near = cs_doc_near(&table, json_string_value(value), near) != NULL;
    return cs_fail(err, CS_UNSUPPORTED, "%s %s is not supported%s%s%s; these are: %s", where,
                   cs_doc_show(value, shown), is_near ? " (did you mean \"" : "",
                   is_near ? near : "", is_near ? "\"?)" : "", key->accept);
}

enum cs_status cs_doc_value(const struct cs_doc_key *key, const char *where, const json_t *value,
                            struct cs_err *err)
{
    char shown[CS_DOC_SHOWN], wanted[512];
    if (value == NULL || json_is_null(value) || key->use == CS_DOC_HARMLESS)
        return CS_OK;
    if (!fits(key, value)) {
        put_wanted(key, wanted, sizeof wanted);
        return cs_fail(err, CS_INVALID, "%s is %s; it must be %s", where, cs_doc_show(value, shown),
                       wanted);
    }
    if (json_is_string(value) && key->accept != NULL &&
        !cs_doc_is_word(key->accept, json_string_value(value)))
        return refuse_word(key, where, value, err);
    return key->use == CS_DOC_REFUSED ? refuse(key, where, value, err) : CS_OK;
}
