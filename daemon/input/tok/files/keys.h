/* The keys of a tokenizer's documents: tokenizer.json, tokenizer_config.json, special_tokens_map.json.
 * (added_tokens.json maps spellings to ids.) */
#ifndef CS_INPUT_TOK_FILES_KEYS_H
#define CS_INPUT_TOK_FILES_KEYS_H

#include "core/doc/doc.h"

extern const struct cs_doc_table tok_file_table, tok_config_table, tok_special_table, tok_ids_table,
    tok_tekken_table;

/* The i-th named token ("bos_token", ...) in the order in which transformers adds them; NULL: no more. */
const char *tok_named_key(int i);
/* Whether a key of tokenizer_config.json or special_tokens_map.json names a token of this model alone,
 * as "image_token" does. */
bool tok_is_own_key(const char *key);

#endif
