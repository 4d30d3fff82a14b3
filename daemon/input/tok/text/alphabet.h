/* GPT-2's byte alphabet: every byte is written as one printable character. */
#ifndef CS_INPUT_TOK_TEXT_ALPHABET_H
#define CS_INPUT_TOK_TEXT_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"

/* False when a character is outside of the alphabet; out has room for n. */
bool tok_alphabet_decode(const char *spelling, size_t n, char *out, size_t *n_out);
/* Appends the spelling of bytes. */
void tok_alphabet_encode(const char *bytes, size_t n, struct cs_buf *out);

#endif
