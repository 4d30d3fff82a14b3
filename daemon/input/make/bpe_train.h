/* Build a small byte-level BPE tokenizer from a text: what a new model directory gets.
 *
 * Words are split as GPT-2's ByteLevel pre-tokenizer does on plain text (optional leading space,
 * then letters, digits or other characters); the most frequent neighbouring pair is merged until
 * the vocabulary is full, ties by smallest pair of ids. The result is written in tokenizer.json's
 * form: 256 byte tokens, merges, then the special tokens. */
#ifndef CS_INPUT_MAKE_BPE_TRAIN_H
#define CS_INPUT_MAKE_BPE_TRAIN_H

#include <jansson.h>
#include <stddef.h>

#include "core/base/status.h"

/* max_vocab counts everything; special: added tokens in order. Returns a new tokenizer document. */
enum cs_status cs_bpe_train(const char *text, size_t len, int max_vocab, const char *const *special,
                            int n_special, json_t **out, struct cs_err *err) CS_NODISCARD;

#endif
