/* Builds and reads messages. */
#include <math.h>
#include <string.h>

#include "core/base/str.h"
#include "core/wire/wire.h"

static const struct {
    const char *word;
    double value;
} words[] = {
    {"nan",  (double)NAN      },
    {"inf",  (double)INFINITY },
    {"-inf", -(double)INFINITY},
};

void cs_msg_set(json_t *msg, const char *key, json_t *value)
{
    CS_ASSERT(value != NULL && json_object_set_new(msg, key, value) == 0);
}

json_t *cs_json_bytes(const char *bytes, size_t n)
{
    json_t *value = memchr(bytes, '\0', n) ? NULL : json_stringn(bytes, n);
    if (value)
        return value;
    struct cs_buf text = {0};
    for (size_t i = 0; i < n;) {
        uint32_t code = 0;
        size_t len = cs_utf8_decode(bytes + i, n - i, &code);
        if (len == 0 || code == 0)
            cs_buf_addf(&text, "\\x%02x", (unsigned)(unsigned char)bytes[i]);
        else
            cs_buf_add(&text, bytes + i, len);
        i += len ? len : 1;
    }
    value = json_stringn(cs_buf_str(&text), text.len);
    CS_ASSERT(value != NULL);
    cs_buf_free(&text);
    return value;
}

json_t *cs_json_num(double value)
{
    json_t *number;
    if (isnan(value))
        number = json_string(words[0].word);
    else if (isinf(value))
        number = json_string(words[value > 0 ? 1 : 2].word);
    else
        number = json_real(value);
    CS_ASSERT(number != NULL);
    return number;
}

void cs_msg_set_str(json_t *msg, const char *key, const char *value)
{
    cs_msg_set(msg, key, value ? cs_json_bytes(value, strlen(value)) : json_null());
}

void cs_msg_set_int(json_t *msg, const char *key, int64_t value)
{
    cs_msg_set(msg, key, json_integer(value));
}

void cs_msg_set_num(json_t *msg, const char *key, double value)
{
    cs_msg_set(msg, key, cs_json_num(value));
}

void cs_msg_set_bool(json_t *msg, const char *key, bool value)
{
    cs_msg_set(msg, key, json_boolean(value));
}

json_t *cs_msg_new(const char *type)
{
    json_t *msg = json_object();
    CS_ASSERT(msg != NULL);
    cs_msg_set_str(msg, "type", type);
    return msg;
}

json_t *cs_msg_request(const char *type, int64_t id)
{
    json_t *msg = cs_msg_new(type);
    cs_msg_set_int(msg, "id", id);
    return msg;
}

static json_t *answer(const char *type, const json_t *request)
{
    json_t *msg = cs_msg_new(type);
    json_t *id = json_object_get(request, "id");
    if (json_is_integer(id))
        cs_msg_set(msg, "id", json_integer(json_integer_value(id)));
    cs_msg_set_bool(msg, "reply", true);
    return msg;
}

json_t *cs_msg_reply(const json_t *request)
{
    static const char *const renamed[][2] = {
        {"hello", "hello.ok"},
        {"ping",  "pong"    },
    };
    const char *type = cs_msg_type(request);
    for (size_t i = 0; i < CS_ARRAY_LEN(renamed); i++)
        if (strcmp(type, renamed[i][0]) == 0)
            type = renamed[i][1];
    return answer(type, request);
}

json_t *cs_msg_error(const json_t *request, const struct cs_err *err)
{
    json_t *msg = request ? answer("error", request) : cs_msg_new("error");
    json_t *body = json_object();
    CS_ASSERT(body != NULL);
    cs_msg_set_str(body, "status", cs_status_slug(err->status));
    cs_msg_set_str(body, "text", err->text);
    cs_msg_set(msg, "error", body);
    return msg;
}

json_t *cs_doc_new(const char *schema)
{
    json_t *doc = json_object();
    CS_ASSERT(doc != NULL);
    cs_msg_set_str(doc, "schema", schema);
    return doc;
}

const char *cs_msg_type(const json_t *msg)
{
    return cs_msg_str(msg, "type", "");
}

int64_t cs_msg_id(const json_t *msg)
{
    return cs_msg_int(msg, "id", -1);
}

bool cs_msg_is_reply(const json_t *msg)
{
    return cs_msg_bool(msg, "reply", false);
}

const char *cs_msg_str(const json_t *msg, const char *key, const char *dflt)
{
    const char *value = json_string_value(json_object_get(msg, key));
    return value ? value : dflt;
}

int64_t cs_msg_int(const json_t *msg, const char *key, int64_t dflt)
{
    const json_t *value = json_object_get(msg, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : dflt;
}

bool cs_json_to_num(const json_t *value, double *number)
{
    if (json_is_number(value)) {
        *number = json_number_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    for (size_t i = 0; text && i < CS_ARRAY_LEN(words); i++)
        if (strcmp(text, words[i].word) == 0) {
            *number = words[i].value;
            return true;
        }
    return false;
}

double cs_msg_num(const json_t *msg, const char *key, double dflt)
{
    double value;
    return cs_json_to_num(json_object_get(msg, key), &value) ? value : dflt;
}

bool cs_msg_bool(const json_t *msg, const char *key, bool dflt)
{
    const json_t *value = json_object_get(msg, key);
    return json_is_boolean(value) ? json_is_true(value) : dflt;
}

json_t *cs_msg_obj(const json_t *msg, const char *key)
{
    json_t *value = json_object_get(msg, key);
    return json_is_object(value) ? value : NULL;
}

json_t *cs_msg_arr(const json_t *msg, const char *key)
{
    json_t *value = json_object_get(msg, key);
    return json_is_array(value) ? value : NULL;
}

enum cs_status cs_msg_to_err(const json_t *msg, struct cs_err *err)
{
    const json_t *body = cs_msg_obj(msg, "error");
    enum cs_status status = cs_status_from_slug(cs_msg_str(body, "status", "internal"));
    if (status == CS_OK)
        status = CS_INTERNAL;
    return cs_fail(err, status, "%s", cs_msg_str(body, "text", cs_status_text(status)));
}

static int add_bytes(const char *bytes, size_t n, void *ctx)
{
    cs_buf_add(ctx, bytes, n);
    return 0;
}

enum cs_status cs_msg_encode(const json_t *msg, struct cs_buf *out, struct cs_err *err)
{
    size_t start = out->len;
    CS_ASSERT(json_dump_callback(msg, add_bytes, out, JSON_COMPACT) == 0);
    size_t n = out->len - start;
    if (n > CS_LINE_MAX) {
        out->len = start;
        out->data[start] = '\0';
        return cs_fail(err, CS_LIMIT, "message %s is %zu bytes; %zu is the most", cs_msg_type(msg),
                       n, CS_LINE_MAX);
    }
    cs_buf_addc(out, '\n');
    return CS_OK;
}

void cs_json_canonical(const json_t *value, struct cs_buf *out)
{
    size_t flags = JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17);
    CS_ASSERT(json_dump_callback(value, add_bytes, out, flags) == 0);
}

void cs_json_pretty(const json_t *value, struct cs_buf *out)
{
    struct cs_buf text = {0};
    CS_ASSERT(json_dump_callback(value, add_bytes, &text, JSON_INDENT(2) | JSON_ENCODE_ANY) == 0);
    cs_str_clean_json(out, cs_buf_str(&text), text.len);
    cs_buf_addc(out, '\n');
    cs_buf_free(&text);
}
