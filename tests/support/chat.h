/* A small real tokenizer and samples for tests of the input path. */
#ifndef CS_TESTS_SUPPORT_CHAT_H
#define CS_TESTS_SUPPORT_CHAT_H

#include <jansson.h>

/* tokenizer.json of a byte-level BPE of 300 ids with the special tokens of every built-in template
 * and
 * "<image>"; the caller owns the reference. */
json_t *chat_tokenizer_json(void);

#endif
