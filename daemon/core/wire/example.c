/* Makes a message that obeys its row of the schema, every field set. */
#include <string.h>

#include "core/wire/wire.h"

static void add_fields(json_t *value, enum cs_msg_id id);

static json_t *example_object(const char *of)
{
    json_t *value = json_object();
    CS_ASSERT(value != NULL);
    if (of[0]) {
        const struct cs_message *object = cs_schema_object(of);
        CS_ASSERT(object != NULL);
        add_fields(value, object->id);
    }
    return value;
}

static int64_t inside(const struct cs_field *f, int64_t wanted)
{
    if (!f->min && !f->max)
        return wanted;
    return wanted < f->min ? f->min : wanted > f->max ? f->max : wanted;
}

static json_t *example_array(const struct cs_field *f)
{
    json_t *value = json_array();
    CS_ASSERT(value != NULL);
    json_t *item = f->type == CS_FIELD_STRARR ? json_string("step")
                   : f->of[0]                 ? example_object(f->of)
                                              : json_integer(1);
    CS_ASSERT(json_array_append_new(value, item) == 0);
    return value;
}

static json_t *example_value(const struct cs_field *f)
{
    switch (f->type) {
    case CS_FIELD_STR:
        return json_string(f->max && f->max < (int64_t)strlen(f->key) ? "x" : f->key);
    case CS_FIELD_INT:
        return json_integer(inside(f, 7));
    case CS_FIELD_NUM:
        return cs_json_num(f->max ? (double)inside(f, 0) : 0.25);
    case CS_FIELD_BOOL:
        return json_true();
    case CS_FIELD_OBJ:
        return example_object(f->of);
    case CS_FIELD_ARR:
    case CS_FIELD_STRARR:
        return example_array(f);
    case CS_FIELD_ANY:
    case CS_FIELD_TYPE_COUNT:
        break;
    }
    return json_string(f->key);
}

static void add_fields(json_t *value, enum cs_msg_id id)
{
    size_t n;
    const struct cs_field *fields = cs_schema_fields(id, &n);
    for (size_t i = 0; i < n; i++)
        cs_msg_set(value, fields[i].key, example_value(&fields[i]));
}

json_t *cs_msg_example(const struct cs_message *message)
{
    json_t *value;
    if (message->kind == CS_KIND_OBJECT)
        value = example_object("");
    else if (message->kind == CS_KIND_DOCUMENT)
        value = cs_doc_new(message->type);
    else if (message->kind == CS_KIND_REQUEST || message->kind == CS_KIND_REPLY)
        value = cs_msg_request(message->type, 1);
    else
        value = cs_msg_new(message->type);
    if (message->kind == CS_KIND_REPLY)
        cs_msg_set_bool(value, "reply", true);
    add_fields(value, message->id);
    return value;
}
