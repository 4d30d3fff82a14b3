/* Classes of characters as the reference's standard library has them. */
#ifndef CS_INPUT_TOK_TEXT_UNICODE_H
#define CS_INPUT_TOK_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool tok_is_space(uint32_t code);
bool tok_is_mark(uint32_t code); /* categories Mn, Mc, Me */
bool tok_is_word(uint32_t code); /* \w: letters, marks, decimal numbers, connectors, joiners */
bool tok_is_ascii(const char *text, size_t n);
/* Bytes of the character at the start of (text, n > 0); 1 where it is none, and *code is U+FFFF. */
uint32_t tok_char(const char *text, size_t n, uint32_t *code);
/* Start of the character that ends at `at` > 0; one byte back where it is none, and *code is
 * U+FFFF. */
size_t tok_char_before(const char *text, size_t at, uint32_t *code);
/* The UTF-8 of a code point; returns its length. */
size_t tok_char_put(uint32_t code, char out[4]);

#endif
