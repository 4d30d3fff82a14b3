/* Reads the objects of a specification through the key table: types, limits, defaults, nearest names. */
#include "core/model/spec/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/near.h"
#include "core/doc/doc.h"

enum { MAX_GROUP_KEYS = 32 };

const char *cs_spec_path(const struct cs_spec_reader *reader, const char *where, const char *key)
{
    return where[0] == '\0' ? cs_arena_strdup(reader->arena, key)
                            : cs_arena_printf(reader->arena, "%s.%s", where, key);
}

/* A value for a message. */
static const char *show(const struct cs_spec_reader *reader, const json_t *value)
{
    return cs_doc_show(value, cs_arena_alloc(reader->arena, CS_DOC_SHOWN));
}

static bool is_in_group(const struct cs_spec_key *key, const char *group)
{
    return strcmp(key->group, group) == 0;
}

static enum cs_status unknown_key(const struct cs_spec_reader *reader, const char *group,
                                  const char *where, const char *kind, const char *name)
{
    int n = 0, n_names = 0;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    const char *names[MAX_GROUP_KEYS];
    for (int i = 0; i < n; i++) {
        if (!is_in_group(&keys[i], group))
            continue;
        if (strcmp(keys[i].key, name) == 0)
            return cs_fail(reader->err, CS_INVALID, "%s is a key of %s modules, this is %s",
                           cs_spec_path(reader, where, name), keys[i].kind, kind);
        if (keys[i].kind == NULL || kind == NULL || strcmp(keys[i].kind, kind) == 0) {
            CS_ASSERT(n_names < MAX_GROUP_KEYS);
            names[n_names++] = keys[i].key;
        }
    }
    const char *near = cs_near(name, names, n_names);
    const char *path =
        cs_arena_printf(reader->arena, "%s%s%.100s", where, where[0] != '\0' ? "." : "", name);
    if (near != NULL)
        return cs_fail(reader->err, CS_INVALID, "%s is no key of a job; did you mean \"%s\"?", path,
                       near);
    struct cs_err list = {.text = ""};
    size_t len = 0;
    for (int i = 0; i < n_names && len < 400; i++)
        len += (size_t)snprintf(list.text + len, sizeof(list.text) - len, "%s%s", i > 0 ? ", " : "",
                                names[i]);
    return cs_fail(reader->err, CS_INVALID, "%s is no key of a job; known here: %s", path,
                   list.text);
}

static const struct cs_spec_key *find(const char *group, const char *kind, const char *name)
{
    int n = 0;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    for (int i = 0; i < n; i++) {
        if (is_in_group(&keys[i], group) && strcmp(keys[i].key, name) == 0 &&
            (keys[i].kind == NULL || kind == NULL || strcmp(keys[i].kind, kind) == 0))
            return &keys[i];
    }
    return NULL;
}

static void store_number(const struct cs_spec_key *key, char *at, double number, int64_t whole)
{
    switch ((enum cs_spec_store)key->store) {
    case CS_STORE_I32:
        *(int32_t *)(void *)at = (int32_t)whole;
        break;
    case CS_STORE_I64:
        *(int64_t *)(void *)at = whole;
        break;
    case CS_STORE_F64:
        *(double *)(void *)at = number;
        break;
    case CS_STORE_FEATURE: {
        struct cs_spec_module *module =
            (struct cs_spec_module *)(void *)(at - offsetof(struct cs_spec_module, feature_layer));
        module->feature_layer = (int32_t)whole;
        module->has_feature_layer = true;
        break;
    }
    case CS_STORE_NONE:
    case CS_STORE_BOOL:
    case CS_STORE_STRING:
    case CS_STORE_JSON:
    case CS_STORE_PAIR:
        CS_ASSERT(!"a number has no such field");
    }
}

static enum cs_status read_number(const struct cs_spec_reader *reader,
                                  const struct cs_spec_key *key, const char *path,
                                  const json_t *value, char *at)
{
    bool is_int = key->type == CS_SPEC_INT, is_limit = key->type == CS_SPEC_LIMIT;
    double number = json_number_value(value);
    if (is_limit && json_is_false(value)) {
        store_number(key, at, 0, 0);
        return CS_OK;
    }
    if (!(is_int ? json_is_integer(value) : json_is_number(value)) || !(number >= key->min) ||
        number > key->max)
        return cs_fail(reader->err, CS_INVALID, "%s is %s; it must be %s%s from %.17g to %.17g",
                       path, show(reader, value), is_limit ? "false or " : "",
                       is_int ? "a whole number" : "a number", key->min, key->max);
    store_number(key, at, number, json_is_integer(value) ? json_integer_value(value) : 0);
    return CS_OK;
}

static enum cs_status read_pair(const struct cs_spec_reader *reader, const struct cs_spec_key *key,
                                const char *path, const json_t *value, char *at)
{
    double *pair = (double *)(void *)at;
    bool is_good = json_array_size(value) == 2;
    for (size_t i = 0; is_good && i < 2; i++) {
        const json_t *item = json_array_get(value, i);
        pair[i] = json_number_value(item);
        is_good = json_is_number(item) && pair[i] >= key->min && pair[i] <= key->max;
    }
    if (!is_good)
        return cs_fail(reader->err, CS_INVALID,
                       "%s is %s; it must be a list of two numbers from %g to %.8g", path,
                       show(reader, value), key->min, key->max);
    return CS_OK;
}

static enum cs_status read_string(const struct cs_spec_reader *reader,
                                  const struct cs_spec_key *key, const char *path,
                                  const json_t *value, char *at)
{
    const char *text = json_string_value(value);
    if (text == NULL)
        return cs_fail(reader->err, CS_INVALID, "%s is %s; it must be a string", path,
                       show(reader, value));
    size_t len = json_string_length(value);
    if (len != strlen(text) || (double)len > key->max)
        return cs_fail(reader->err, CS_INVALID,
                       "%s is too long or holds a zero byte; at most %.0f bytes", path, key->max);
    if ((double)len < key->min)
        return cs_fail(reader->err, CS_INVALID, "%s is empty", path);
    if (key->accept != NULL && !cs_doc_is_word(key->accept, text))
        return cs_fail(reader->err, CS_INVALID, "%s is %s; accepted: %s", path, show(reader, value),
                       key->accept);
    if (key->type == CS_SPEC_PATH && text[0] != '/' && text[0] != '\0')
        return cs_fail(reader->err, CS_INVALID, "%s is %s; it must be an absolute path", path,
                       show(reader, value));
    if (key->field == CS_NO_FIELD)
        return CS_OK;
    if (key->store == CS_STORE_STRING)
        *(const char **)(void *)at = cs_arena_strdup(reader->arena, text);
    else if (key->store == CS_STORE_BOOL) /* the first accepted word is true: train|freeze */
        *(bool *)at = strncmp(text, key->accept, len) == 0;
    return CS_OK;
}

static bool is_list_of_objects(const json_t *value)
{
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item)
    {
        if (!json_is_object(item))
            return false;
    }
    return json_is_array(value);
}

static enum cs_status read_free(const struct cs_spec_reader *reader, const struct cs_spec_key *key,
                                const char *path, const json_t *value, char *at)
{
    bool is_word = key->accept != NULL && json_is_string(value) &&
                   cs_doc_is_word(key->accept, json_string_value(value));
    const bool is_list = key->fallback != NULL && strcmp(key->fallback, "[]") == 0;
    if (is_list && !is_list_of_objects(value))
        return cs_fail(reader->err, CS_INVALID, "%s is %s; it must be a list of objects", path,
                       show(reader, value));
    if (!is_list && !json_is_object(value) && !is_word)
        return cs_fail(reader->err, CS_INVALID, "%s is %s; it must be an object%s%s%s", path,
                       show(reader, value), key->accept != NULL ? " or \"" : "",
                       key->accept != NULL ? key->accept : "", key->accept != NULL ? "\"" : "");
    *(const json_t **)(void *)at = value;
    return CS_OK;
}

static enum cs_status read_value(const struct cs_spec_reader *reader, const struct cs_spec_key *key,
                                 const char *path, const json_t *value, char *base)
{
    char *at = key->field == CS_NO_FIELD ? NULL : base + key->field;
    switch (key->type) {
    case CS_SPEC_INT:
    case CS_SPEC_NUMBER:
    case CS_SPEC_LIMIT:
        return read_number(reader, key, path, value, at);
    case CS_SPEC_PAIR:
        return read_pair(reader, key, path, value, at);
    case CS_SPEC_STRING:
    case CS_SPEC_PATH:
        return read_string(reader, key, path, value, at);
    case CS_SPEC_FREE:
        return read_free(reader, key, path, value, at);
    case CS_SPEC_BOOL:
        if (!json_is_boolean(value))
            return cs_fail(reader->err, CS_INVALID, "%s is %s; it must be true or false", path,
                           show(reader, value));
        *(bool *)at = json_is_true(value);
        return CS_OK;
    case CS_SPEC_GROUP: /* its own keys are read by spec.c */
    case CS_SPEC_TYPES:
        break;
    }
    return CS_OK;
}

/* The default of the table; what has none in its type ("null", "here") stays zero. */
static void store_default(const struct cs_spec_key *key, char *base)
{
    if (key->type == CS_SPEC_GROUP || key->field == CS_NO_FIELD ||
        strcmp(key->fallback, "null") == 0)
        return;
    char *at = base + key->field, *end = NULL;
    double number = strtod(key->fallback, &end);
    if (key->type == CS_SPEC_INT || key->type == CS_SPEC_NUMBER || key->type == CS_SPEC_LIMIT)
        store_number(key, at, number, (int64_t)number);
    else if (key->store == CS_STORE_STRING)
        *(const char **)(void *)at = key->fallback;
    else if (key->store == CS_STORE_BOOL)
        *(bool *)at = strcmp(key->fallback, "true") == 0;
    else if (key->store == CS_STORE_PAIR) {
        ((double *)(void *)at)[0] = number;
        ((double *)(void *)at)[1] = strtod(end, NULL);
    }
}

enum cs_status cs_spec_read_object(const struct cs_spec_reader *reader, const char *group,
                                   const char *where, const char *kind, const json_t *object,
                                   void *base)
{
    int n = 0;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        return cs_fail(reader->err, CS_INVALID, "%s is not an object",
                       where[0] == '\0' ? "the job" : where);
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        const struct cs_spec_key *key = find(group, kind, name);
        if (key == NULL)
            return unknown_key(reader, group, where, kind, name);
        if (json_is_null(value)) /* as absent */
            continue;
        CS_TRY(read_value(reader, key, cs_spec_path(reader, where, name), value, base));
    }
    for (int i = 0; i < n; i++) {
        if (!is_in_group(&keys[i], group))
            continue;
        bool is_ours = kind == NULL || keys[i].kind == NULL || strcmp(keys[i].kind, kind) == 0;
        if (!is_ours)
            continue;
        value = json_object_get(object, keys[i].key);
        if (value != NULL && !json_is_null(value))
            continue;
        if (keys[i].fallback == NULL)
            return cs_fail(reader->err, CS_INVALID, "%s is missing: %s",
                           cs_spec_path(reader, where, keys[i].key), keys[i].help);
        store_default(&keys[i], base);
    }
    return CS_OK;
}

void cs_spec_defaults(const char *group, void *base)
{
    int n = 0;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    for (int i = 0; i < n; i++)
        if (is_in_group(&keys[i], group) && keys[i].fallback != NULL)
            store_default(&keys[i], base);
}

enum cs_status cs_spec_child(const struct cs_spec_reader *reader, const char *where,
                             const json_t *object, const char *key, bool is_list,
                             const json_t **out)
{
    const json_t *value = json_object_get(object, key);
    *out = NULL;
    if (value == NULL || json_is_null(value))
        return CS_OK;
    if (is_list ? !json_is_array(value) : !json_is_object(value))
        return cs_fail(reader->err, CS_INVALID, "%s is %s; it must be %s",
                       cs_spec_path(reader, where, key), show(reader, value),
                       is_list ? "a list" : "an object");
    *out = value;
    return CS_OK;
}
