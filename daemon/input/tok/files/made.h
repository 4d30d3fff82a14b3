/* Other files that hold a tokenizer, made into a document of tokenizer.json's form. Such a document
 * has no merges: tokens merge by their scores, or in the order of their ids. */
#ifndef CS_INPUT_TOK_FILES_MADE_H
#define CS_INPUT_TOK_FILES_MADE_H

#include <jansson.h>

#include "core/base/buf.h"
#include "core/base/status.h"

/* A model of SentencePiece (.model). config: tokenizer_config.json or NULL; of it count "legacy" (true:
 * every stretch of text between special tokens begins like a text, not the first one alone) and
 * "add_prefix_space" (false: none does). */
enum cs_status tok_made_of_sentencepiece(const struct cs_buf *file, const json_t *config,
                                         json_t **out, struct cs_err *err) CS_NODISCARD;
/* Lines of a token in base64 and its rank. Which family's it is, and so its split and its special
 * tokens, is known by the number of ranks. */
enum cs_status tok_made_of_tiktoken(const struct cs_buf *file, const json_t *config, json_t **out,
                                    struct cs_err *err) CS_NODISCARD;
/* Mistral's tekken.json. */
enum cs_status tok_made_of_tekken(const struct cs_buf *file, const json_t *config, json_t **out,
                                  struct cs_err *err) CS_NODISCARD;
/* Whether a file is of tiktoken's kind. */
bool tok_is_tiktoken(const struct cs_buf *file);

/* For the makers: a special token; the text of bytes in base64 (false: it is none); a document of
 * bytes that merge by rank: vocab, added tokens and normalizer (NULL: none) are stolen. */
json_t *tok_special_token(const char *content, json_int_t id);
bool tok_base64(const char *text, size_t n, struct cs_buf *out);
json_t *tok_byte_document(json_t *vocab, json_t *added, const char *kinds, const char *split,
                          json_t *normalizer);

#endif
