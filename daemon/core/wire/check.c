/* Checks messages, documents and objects against the table of the schema. */
#include <string.h>

#include "core/wire/wire.h"

/* what is being checked, for the error text: "job.stop: job" or "jobs.list: jobs[3].id" */
struct place {
    const char *message;
    char path[160];
};

static enum cs_status check_fields(const json_t *value, enum cs_msg_id id, const char *message,
                                   const char *prefix, struct cs_err *err);

static const char *json_type_name(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a real",    [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
    };
    return names[json_typeof(value)];
}

static enum cs_status fail_type(const struct place *at, const struct cs_field *field,
                                const json_t *value, struct cs_err *err)
{
    return cs_fail(err, CS_INVALID, "%s: %s must be of type %s, not %s", at->message, at->path,
                   cs_field_type_name(field->type), json_type_name(value));
}

static enum cs_status check_int(const struct place *at, const struct cs_field *f,
                                const json_t *value, struct cs_err *err)
{
    if (!json_is_integer(value))
        return fail_type(at, f, value, err);
    int64_t v = json_integer_value(value);
    if ((f->min || f->max) && (v < f->min || v > f->max))
        return cs_fail(err, CS_INVALID, "%s: %s is %lld, outside %lld..%lld", at->message, at->path,
                       (long long)v, (long long)f->min, (long long)f->max);
    return CS_OK;
}

static enum cs_status check_num(const struct place *at, const struct cs_field *f,
                                const json_t *value, struct cs_err *err)
{
    double v;
    if (!cs_json_to_num(value, &v))
        return fail_type(at, f, value, err);
    /* NaN means "unknown or diverged" and passes every range */
    if ((f->min || f->max) && (v < (double)f->min || v > (double)f->max))
        return cs_fail(err, CS_INVALID, "%s: %s is %g, outside %lld..%lld", at->message, at->path,
                       v, (long long)f->min, (long long)f->max);
    return CS_OK;
}

static enum cs_status check_size(const struct place *at, const struct cs_field *f, size_t n,
                                 const char *what, struct cs_err *err)
{
    if (f->max > 0 && n > (uint64_t)f->max)
        return cs_fail(err, CS_LIMIT, "%s: %s has %zu %s, more than %lld", at->message, at->path, n,
                       what, (long long)f->max);
    if (f->min > 0 && n < (uint64_t)f->min)
        return cs_fail(err, CS_INVALID, "%s: %s has %zu %s, fewer than %lld", at->message, at->path,
                       n, what, (long long)f->min);
    return CS_OK;
}

static enum cs_status check_str(const struct place *at, const struct cs_field *f,
                                const json_t *value, struct cs_err *err)
{
    if (!json_is_string(value))
        return fail_type(at, f, value, err);
    return check_size(at, f, json_string_length(value), "bytes", err);
}

static enum cs_status check_bool(const struct place *at, const struct cs_field *f,
                                 const json_t *value, struct cs_err *err)
{
    return json_is_boolean(value) ? CS_OK : fail_type(at, f, value, err);
}

static enum cs_status check_encoded(const struct place *at, const struct cs_field *f,
                                    const json_t *value, struct cs_err *err)
{
    if (f->max == 0)
        return CS_OK;
    size_t n = json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
    return check_size(at, f, n, "bytes", err);
}

static enum cs_status check_obj(const struct place *at, const struct cs_field *f,
                                const json_t *value, struct cs_err *err)
{
    if (!json_is_object(value))
        return fail_type(at, f, value, err);
    CS_TRY(check_encoded(at, f, value, err));
    if (!f->of[0])
        return CS_OK;
    const struct cs_message *object = cs_schema_object(f->of);
    CS_ASSERT(object != NULL);
    return check_fields(value, object->id, at->message, at->path, err);
}

static enum cs_status check_arr(const struct place *at, const struct cs_field *f,
                                const json_t *value, struct cs_err *err)
{
    if (!json_is_array(value))
        return fail_type(at, f, value, err);
    CS_TRY(check_size(at, f, json_array_size(value), "items", err));
    if (f->type == CS_FIELD_ARR && !f->of[0])
        return CS_OK;
    struct cs_field item = *f;
    item.type = f->type == CS_FIELD_STRARR ? CS_FIELD_STR : CS_FIELD_OBJ;
    item.min = 0;
    item.max = f->type == CS_FIELD_STRARR ? 4096 : 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        struct place in = {.message = at->message};
        struct cs_buf path = {0};
        cs_buf_addf(&path, "%.120s[%zu]", at->path, i);
        memcpy(in.path, path.data, path.len + 1);
        cs_buf_free(&path);
        const json_t *v = json_array_get(value, i);
        CS_TRY(f->type == CS_FIELD_STRARR ? check_str(&in, &item, v, err)
                                          : check_obj(&in, &item, v, err));
    }
    return CS_OK;
}

typedef enum cs_status check_fn(const struct place *at, const struct cs_field *field,
                                const json_t *value, struct cs_err *err);
static check_fn *const checks[] = {
    [CS_FIELD_STR] = check_str,    [CS_FIELD_INT] = check_int,     [CS_FIELD_NUM] = check_num,
    [CS_FIELD_BOOL] = check_bool,  [CS_FIELD_OBJ] = check_obj,     [CS_FIELD_ARR] = check_arr,
    [CS_FIELD_STRARR] = check_arr, [CS_FIELD_ANY] = check_encoded,
};
_Static_assert(CS_ARRAY_LEN(checks) == CS_FIELD_TYPE_COUNT, "one check per type");

static enum cs_status check_fields(const json_t *value, enum cs_msg_id id, const char *message,
                                   const char *prefix, struct cs_err *err)
{
    size_t n;
    const struct cs_field *fields = cs_schema_fields(id, &n);
    for (size_t i = 0; i < n; i++) {
        struct place at = {.message = message};
        size_t used = strlen(prefix);
        if (used > 120)
            used = 120;
        memcpy(at.path, prefix, used);
        if (used)
            at.path[used++] = '.';
        strncat(at.path, fields[i].key, sizeof(at.path) - used - 1);
        const json_t *v = json_object_get(value, fields[i].key);
        if (!v || json_is_null(v)) {
            if (fields[i].is_required)
                return cs_fail(err, CS_INVALID, "%s: %s is missing", message, at.path);
            continue;
        }
        CS_TRY(checks[fields[i].type](&at, &fields[i], v, err));
    }
    return CS_OK;
}

static enum cs_status check_envelope(const json_t *msg, struct cs_err *err)
{
    static const char *const flags[] = {"reply", "more"};
    if (!json_is_object(msg))
        return cs_fail(err, CS_INVALID, "message is not an object");
    if (!json_is_string(json_object_get(msg, "type")))
        return cs_fail(err, CS_INVALID, "message has no type");
    for (size_t i = 0; i < CS_ARRAY_LEN(flags); i++) {
        const json_t *flag = json_object_get(msg, flags[i]);
        if (flag && !json_is_boolean(flag))
            return cs_fail(err, CS_INVALID, "%.100s: %s must be true or false", cs_msg_type(msg),
                           flags[i]);
    }
    return CS_OK;
}

/* the envelope's id, unless the message has a field of its own with that key */
static enum cs_status check_id(const json_t *msg, enum cs_msg_id id, struct cs_err *err)
{
    size_t n;
    const struct cs_field *fields = cs_schema_fields(id, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].key, "id") == 0)
            return CS_OK;
    if (json_object_get(msg, "id") && cs_msg_id(msg) < 0)
        return cs_fail(err, CS_INVALID, "%s: id must be an integer from 0", cs_msg_type(msg));
    return CS_OK;
}

enum cs_status cs_msg_check(const json_t *msg, struct cs_err *err)
{
    CS_TRY(check_envelope(msg, err));
    const char *type = cs_msg_type(msg);
    const struct cs_message *message = cs_schema_find(type, cs_msg_is_reply(msg));
    if (!message)
        return cs_fail(err, CS_UNSUPPORTED, "E_UNKNOWN_TYPE: no %s of type '%.100s'",
                       cs_msg_is_reply(msg) ? "reply" : "message", type);
    CS_TRY(check_id(msg, message->id, err));
    return check_fields(msg, message->id, type, "", err);
}

enum cs_status cs_doc_check(const json_t *doc, struct cs_err *err)
{
    const char *name = cs_msg_str(doc, "schema", "");
    const struct cs_message *document = cs_schema_document(name);
    if (!document)
        return cs_fail(err, CS_UNSUPPORTED, "unknown document schema '%.100s'", name);
    return check_fields(doc, document->id, name, "", err);
}

enum cs_status cs_object_check(const json_t *value, const char *object, struct cs_err *err)
{
    const struct cs_message *row = cs_schema_object(object);
    if (!row)
        return cs_fail(err, CS_INTERNAL, "no object '%s' in the schema", object);
    if (!json_is_object(value))
        return cs_fail(err, CS_INVALID, "%s: not an object", object);
    return check_fields(value, row->id, object, "", err);
}
