/* Turns the table of messages into arrays and finds rows in them. */
#include "core/wire/schema.h"

#include <string.h>

#include "core/base/status.h"
#include "core/wire/job_state.h"

static const struct cs_message messages[] = {
#define MESSAGE(id, type, kind, from, to, role, since, help)                                       \
    {CS_MSG_##id,   type,           CS_KIND_##kind, CS_PARTY_##from,                               \
     CS_PARTY_##to, CS_ROLE_##role, since,          help},
#define FIELD(id, key, type, of, unit, need, min, max, help)
#include "core/wire/schema.def"
#undef MESSAGE
#undef FIELD
};
_Static_assert(CS_ARRAY_LEN(messages) == CS_MSG_COUNT, "one row per message");

#define NEED_REQ true
#define NEED_OPT false
static const struct cs_field fields[] = {
#define MESSAGE(id, type, kind, from, to, role, since, help)
#define FIELD(id, key, type, of, unit, need, min, max, help)                                       \
    {CS_MSG_##id, key, CS_FIELD_##type, of, unit, NEED_##need, min, max, help},
#include "core/wire/schema.def"
#undef MESSAGE
#undef FIELD
};

static const char *const kind_names[] = {"request", "reply",  "notice",
                                         "either",  "object", "document"};
static const char *const party_names[] = {"-",      "console", "daemon", "runner",
                                          "worker", "feeder",  "any"};
static const char *const role_names[] = {"viewer", "owner", "admin"};
_Static_assert(CS_ARRAY_LEN(role_names) == CS_ROLE_COUNT, "one name per role");
static const char *const type_names[] = {"string", "int",   "number",  "bool",
                                         "object", "array", "strings", "any"};
_Static_assert(CS_ARRAY_LEN(type_names) == CS_FIELD_TYPE_COUNT, "one name per type");

const struct cs_message *cs_schema_messages(size_t *n)
{
    *n = CS_ARRAY_LEN(messages);
    return messages;
}

const struct cs_field *cs_schema_fields(enum cs_msg_id id, size_t *n)
{
    /* rows are sorted by message because the enum and the fields come from one file */
    size_t low = 0, high = CS_ARRAY_LEN(fields);
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (fields[mid].message < id)
            low = mid + 1;
        else
            high = mid;
    }
    size_t end = low;
    while (end < CS_ARRAY_LEN(fields) && fields[end].message == id)
        end++;
    *n = end - low;
    return &fields[low];
}

static const struct cs_message *find_kind(const char *type, unsigned kinds)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(messages); i++)
        if ((kinds & 1U << messages[i].kind) && strcmp(messages[i].type, type) == 0)
            return &messages[i];
    return NULL;
}

const struct cs_message *cs_schema_find(const char *type, bool is_reply)
{
    unsigned kinds = 1U << CS_KIND_EITHER;
    kinds |= is_reply ? 1U << CS_KIND_REPLY : 1U << CS_KIND_REQUEST | 1U << CS_KIND_NOTICE;
    return find_kind(type, kinds);
}

const struct cs_message *cs_schema_object(const char *name)
{
    return find_kind(name, 1U << CS_KIND_OBJECT);
}

const struct cs_message *cs_schema_document(const char *name)
{
    return find_kind(name, 1U << CS_KIND_DOCUMENT);
}

int64_t cs_schema_max_items(void)
{
    int64_t most = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(fields); i++)
        if ((fields[i].type == CS_FIELD_ARR || fields[i].type == CS_FIELD_STRARR) &&
            fields[i].max > most)
            most = fields[i].max;
    return most;
}

const char *cs_kind_name(enum cs_msg_kind kind)
{
    return kind_names[kind];
}

const char *cs_party_name(enum cs_party party)
{
    return party_names[party];
}

const char *cs_role_name(enum cs_role role)
{
    return role_names[role];
}

bool cs_role_parse(const char *name, enum cs_role *role)
{
    for (unsigned i = 0; i < CS_ROLE_COUNT; i++)
        if (strcmp(role_names[i], name) == 0) {
            *role = (enum cs_role)i;
            return true;
        }
    return false;
}

const char *cs_field_type_name(enum cs_field_type type)
{
    return type_names[type];
}
