/* The reader of a config.json: it applies the tables of families/keys.h. Used by what reads one. */
#ifndef CS_CORE_ARCH_READ_CONFIG_H
#define CS_CORE_ARCH_READ_CONFIG_H

#include "core/arch/families/keys.h"

enum cs_arch_act cs_act_named(const char *word); /* one of CS_ACT_WORDS */
const char *cs_act_word(enum cs_arch_act act);   /* "gelu"; "none" for none */

/* the keys of a projector's own config.json */
const struct cs_doc_table *cs_projector_keys(void);

/* The options that the table's own rows set, from config or by default, into out. */
enum cs_status cs_model_fill(const struct cs_config_source *config,
                             const struct cs_doc_table *table, const char *model_type,
                             struct cs_arch *out, struct cs_err *err) CS_NODISCARD;
/* "config.json: text_config.": what a message about a key starts with, followed by the key */
const char *cs_model_at(const struct cs_config_source *config, char out[512]);
/* A setting that is absent takes `value`, the default of `source`. */
void cs_model_say_default(const struct cs_config_source *config, const char *key, const char *value,
                          const char *source);

#endif
