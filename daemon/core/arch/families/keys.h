/* Keys of a config.json as tables: which of them set which option of an architecture, and what the class
 * does without them. */
#ifndef CS_CORE_ARCH_FAMILIES_KEYS_H
#define CS_CORE_ARCH_FAMILIES_KEYS_H

#include "core/arch/arch.h"
#include "core/doc/doc.h"

enum cs_key_store {
    CS_KEY_NONE,
    CS_KEY_INT,
    CS_KEY_FLOAT,
    CS_KEY_BOOL,
    CS_KEY_ACT,
    CS_KEY_WORD /* an enum: the place of the word among those that are accepted */
};

/* What the class does when a key is absent or null. */
enum cs_key_default {
    CS_DEFAULT_VALUE,         /* `number` (an enum cs_arch_act for CS_KEY_ACT) */
    CS_DEFAULT_FIELD,         /* the value of the int32 field at `other` (kv heads = heads) */
    CS_DEFAULT_MIXED,         /* absent: `number`; null: the field at `other` */
    CS_DEFAULT_PER_HEAD,      /* width / heads, which must divide */
    CS_DEFAULT_NULL_PER_HEAD, /* absent: `number`; null: the same */
    CS_DEFAULT_OR_NONE        /* absent: `number`; null: 0 */
};

/* A key of a config.json. Rows that set an option of an architecture are read in their order: a
 * default that is another field comes after that field's row. A row whose names are "" has no key:
 * the class has none, the option takes its default always. */
struct cs_config_key {
    struct cs_doc_key doc;
    enum cs_key_store store; /* CS_KEY_NONE: known, and read by other means or not at all */
    size_t field;            /* offset in struct cs_arch */
    enum cs_key_default fallback;
    double number;
    size_t other;
};

#define CS_ACT_WORDS "gelu|gelu_pytorch_tanh|gelu_new|gelu_fast|quick_gelu|silu|swish|relu"

/* keys that every config.json may have and that nothing here depends on, and model_type */
extern const struct cs_doc_table cs_model_common;
/* the same with what language models have: rope, ids of special tokens; with a rope for each kind of
 * layer */
extern const struct cs_doc_table cs_model_grid; /* the same with a rotation over a grid */
extern const struct cs_doc_table cs_model_language, cs_model_by_layer;

#endif
