/* What of a job is trained and what is only its layout on ranks: two views of a document through
 * the key table, so that a new key is on one of the two sides by its row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/spec/read.h"

/* A default of the table as the document would say it. */
static json_t *fallback_of(const struct cs_spec_key *key)
{
    char *end = NULL;
    const char *text = key->fallback;
    if (text == NULL || strcmp(text, "null") == 0)
        return json_null();
    switch (key->type) {
    case CS_SPEC_INT:
        return json_integer((json_int_t)strtoll(text, NULL, 10));
    case CS_SPEC_NUMBER:
    case CS_SPEC_LIMIT:
        return json_real(strtod(text, NULL));
    case CS_SPEC_BOOL:
        return json_boolean(strcmp(text, "true") == 0);
    case CS_SPEC_PAIR: {
        const double first = strtod(text, &end);
        return json_pack("[f, f]", first, strtod(end, NULL));
    }
    case CS_SPEC_FREE:
        if (text[0] != '[')
            break;
        return json_array();
    case CS_SPEC_GROUP:
        return text[0] == '[' ? json_array() : json_object();
    case CS_SPEC_STRING:
    case CS_SPEC_PATH:
    case CS_SPEC_TYPES:
        break;
    }
    return json_string(text);
}

/* One spelling of a value: 1 and 1.0 are the same number. */
static json_t *plain(const struct cs_spec_key *key, const json_t *value)
{
    if ((key->type == CS_SPEC_NUMBER || key->type == CS_SPEC_LIMIT) && json_is_number(value))
        return json_real(json_number_value(value));
    if (key->type == CS_SPEC_PAIR)
        return json_pack("[f, f]", json_number_value(json_array_get(value, 0)),
                         json_number_value(json_array_get(value, 1)));
    return json_deep_copy(value);
}

static json_t *trained_object(const json_t *object, const char *group);

/* The elements of a list of objects, or an object that has rows in the table; encoder_rows has none
 * and is taken as it is. */
static json_t *trained_group(const json_t *value, const char *group, const char *key)
{
    char path[64], item[72];
    int n;
    size_t i;
    json_t *child;
    bool is_known = false;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    snprintf(path, sizeof path, "%s%s%s", group, group[0] != '\0' ? "." : "", key);
    if (strcmp(path, "eval.data") == 0)
        snprintf(path, sizeof path, "data");
    if (json_is_array(value)) {
        json_t *out = json_array();
        snprintf(item, sizeof item, "%s[]", path);
        json_array_foreach(value, i, child)
        {
            json_array_append_new(out, trained_object(child, item));
        }
        return out;
    }
    for (int k = 0; k < n; k++)
        is_known = is_known || strcmp(keys[k].group, path) == 0;
    return is_known && json_is_object(value) ? trained_object(value, path) : json_deep_copy(value);
}

static json_t *trained_object(const json_t *object, const char *group)
{
    int n;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    const char *kind = json_string_value(json_object_get(object, "kind"));
    json_t *out = json_object();
    for (int i = 0; i < n; i++) {
        const struct cs_spec_key *key = &keys[i];
        const bool is_ours = key->kind == NULL || (kind != NULL && strcmp(key->kind, kind) == 0);
        if (strcmp(key->group, group) != 0 || key->side != CS_SPEC_TRAINED_SIDE || !is_ours)
            continue;
        const json_t *given = json_object_get(object, key->key);
        json_t *missing = given == NULL ? fallback_of(key) : NULL;
        const json_t *value = given != NULL ? given : missing;
        json_object_set_new(out, key->key,
                            key->type == CS_SPEC_GROUP ? trained_group(value, group, key->key)
                                                       : plain(key, value));
        json_decref(missing);
    }
    return out;
}

json_t *cs_spec_trained(const json_t *root)
{
    return trained_object(root, "");
}

static void show(const json_t *value, char out[256])
{
    char *text = value == NULL ? NULL
                               : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS |
                                                       JSON_REAL_PRECISION(12));
    snprintf(out, 256, "%.200s%s", text != NULL ? text : "nothing",
             text != NULL && strlen(text) > 200 ? "..." : "");
    free(text);
}

static bool differ(const json_t *a, const json_t *b, const char *path,
                   struct cs_spec_difference *out);

/* In the order of a's keys; b may have more. */
static bool objects_differ(const json_t *a, const json_t *b, const char *path,
                           struct cs_spec_difference *out)
{
    char at[256];
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)a, key, value)
    {
        snprintf(at, sizeof at, "%.180s%s%.60s", path, path[0] != '\0' ? "." : "", key);
        if (differ(value, json_object_get(b, key), at, out))
            return true;
    }
    json_object_foreach((json_t *)(uintptr_t)b, key, value)
    {
        snprintf(at, sizeof at, "%.180s%s%.60s", path, path[0] != '\0' ? "." : "", key);
        if (json_object_get(a, key) == NULL)
            return differ(NULL, value, at, out);
    }
    return false;
}

static bool arrays_differ(const json_t *a, const json_t *b, const char *path,
                          struct cs_spec_difference *out)
{
    char at[256];
    const size_t n =
        json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b);
    for (size_t i = 0; i < n; i++) {
        snprintf(at, sizeof at, "%.220s[%zu]", path, i);
        if (differ(json_array_get(a, i), json_array_get(b, i), at, out))
            return true;
    }
    return false;
}

static bool differ(const json_t *a, const json_t *b, const char *path,
                   struct cs_spec_difference *out)
{
    if (json_is_object(a) && json_is_object(b))
        return objects_differ(a, b, path, out);
    if (json_is_array(a) && json_is_array(b))
        return arrays_differ(a, b, path, out);
    if (a != NULL && b != NULL && json_equal(a, b))
        return false;
    snprintf(out->path, sizeof out->path, "%s", path);
    show(a, out->a);
    show(b, out->b);
    return true;
}

void cs_spec_compare(const json_t *a, const json_t *b, struct cs_spec_difference *out)
{
    *out = (struct cs_spec_difference){.path = ""};
    differ(a, b, "", out);
}

static void take(json_t *object, const json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    if (value != NULL)
        json_object_set_new(object, key, json_deep_copy(value));
    else
        json_object_del(object, key);
}

json_t *cs_spec_with_layout(const json_t *job, const json_t *from)
{
    int n;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    json_t *out = json_deep_copy(job);
    for (int i = 0; out != NULL && i < n; i++) {
        if (keys[i].side != CS_SPEC_LAYOUT_SIDE)
            continue;
        if (keys[i].group[0] == '\0')
            take(out, from, keys[i].key);
        else if (strcmp(keys[i].group, "plan") == 0) /* what is in a branch goes with `parallel` */
            take(json_object_get(out, "plan"), json_object_get(from, "plan"), keys[i].key);
    }
    return out;
}
