/* Reading one object of the specification through the key table. Internal to spec*.c. */
#ifndef CS_MODEL_SPEC_READ_H
#define CS_MODEL_SPEC_READ_H

#include <stddef.h>

#include "core/model/spec.h"

#define CS_NO_FIELD ((size_t)-1)

enum cs_spec_store {
    CS_STORE_NONE,
    CS_STORE_I32,
    CS_STORE_I64, /* also uint64_t: values are never negative there */
    CS_STORE_F64,
    CS_STORE_BOOL,
    CS_STORE_STRING,
    CS_STORE_JSON,
    CS_STORE_PAIR,   /* two doubles, one after the other */
    CS_STORE_FEATURE /* feature_layer and has_feature_layer of a module */
};

struct cs_spec_reader {
    struct cs_arena *arena;
    struct cs_err *err;
};

/* Check every key of `object` (of the group, at `where` in the document, "" for the root) and write
 * the values or their defaults into `base`. kind: of a module, else NULL. */
enum cs_status cs_spec_read_object(const struct cs_spec_reader *reader, const char *group,
                                   const char *where, const char *kind, const json_t *object,
                                   void *base) CS_NODISCARD;
/* The defaults of a group into `base`; keys that must be given stay as they are. */
void cs_spec_defaults(const char *group, void *base);
/* The group object or list under key; NULL when absent or null and that is allowed. */
enum cs_status cs_spec_child(const struct cs_spec_reader *reader, const char *where,
                             const json_t *object, const char *key, bool is_list,
                             const json_t **out) CS_NODISCARD;
/* where.key, in the arena */
const char *cs_spec_path(const struct cs_spec_reader *reader, const char *where, const char *key);

#endif
