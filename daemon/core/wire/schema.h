/* The one table of messages and fields, as data: schema.def behind two arrays.
 *
 * The manual page, the documentation and the checks are generated from it. All static storage. */
#ifndef CS_WIRE_SCHEMA_H
#define CS_WIRE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cs_msg_kind {
    CS_KIND_REQUEST,
    CS_KIND_REPLY,
    CS_KIND_NOTICE,
    CS_KIND_EITHER,
    CS_KIND_OBJECT,
    CS_KIND_DOCUMENT
};

enum cs_party {
    CS_PARTY_NONE,
    CS_PARTY_CONSOLE,
    CS_PARTY_DAEMON,
    CS_PARTY_RUNNER,
    CS_PARTY_WORKER,
    CS_PARTY_FEEDER,
    CS_PARTY_ANY
};

enum cs_role { CS_ROLE_VIEWER, CS_ROLE_OWNER, CS_ROLE_ADMIN, CS_ROLE_COUNT };

enum cs_field_type {
    CS_FIELD_STR,
    CS_FIELD_INT,
    CS_FIELD_NUM,
    CS_FIELD_BOOL,
    CS_FIELD_OBJ,
    CS_FIELD_ARR,
    CS_FIELD_STRARR,
    CS_FIELD_ANY,
    CS_FIELD_TYPE_COUNT
};

enum cs_msg_id {

#define MESSAGE(id, type, kind, from, to, role, since, help) CS_MSG_##id,
#define FIELD(id, key, type, of, unit, need, min, max, help)
#include "core/wire/schema.def"
#undef MESSAGE
#undef FIELD
    CS_MSG_COUNT
};

struct cs_message {
    enum cs_msg_id id;
    const char *type; /* a request and its reply share it */
    enum cs_msg_kind kind;
    enum cs_party from, to;
    enum cs_role role;
    const char *since, *help;
};

struct cs_field {
    enum cs_msg_id message;
    const char *key;
    enum cs_field_type type;
    const char *of;   /* "" or the type of an OBJECT message */
    const char *unit; /* "" none */
    bool is_required;
    int64_t min, max; /* meaning by type: schema.def */
    const char *help;
};

const struct cs_message *cs_schema_messages(size_t *n); /* index = id */
/* the fields of one message, in the table's order */
const struct cs_field *cs_schema_fields(enum cs_msg_id id, size_t *n);
/* NULL when unknown. EITHER is found with and without is_reply; documents and objects never. */
const struct cs_message *cs_schema_find(const char *type, bool is_reply);
const struct cs_message *cs_schema_object(const char *name);   /* "job" */
const struct cs_message *cs_schema_document(const char *name); /* "cornstarch.jobs/1" */
int64_t cs_schema_max_items(void);                             /* largest array any field allows */

const char *cs_kind_name(enum cs_msg_kind kind);
const char *cs_party_name(enum cs_party party);
const char *cs_role_name(enum cs_role role);
bool cs_role_parse(const char *name, enum cs_role *role);
const char *cs_field_type_name(enum cs_field_type type);

#endif
