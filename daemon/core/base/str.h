/* Strings: UTF-8 decoding and display width, escaping for terminals and JSON, strict number
 * parsing.
 *
 * Everything works on (bytes, n) that need not be valid UTF-8 nor NUL-terminated, except where the
 * parameter is called text. Width follows the usual terminal rule (combining 0, East Asian wide 2)
 * from an own table, so that it does not depend on the locale. */
#ifndef CS_BASE_STR_H
#define CS_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

/* bytes of the code point at the start, 0 when n is 0 or the bytes are not valid UTF-8 (overlong
 * forms, surrogates and values above U+10FFFF are invalid) */
size_t cs_utf8_decode(const char *bytes, size_t n, uint32_t *code);
bool cs_utf8_valid(const char *bytes, size_t n);
int cs_utf8_code_width(uint32_t code);          /* columns: 0, 1 or 2 */
int cs_utf8_width(const char *bytes, size_t n); /* columns; an invalid byte counts 1 */
/* longest prefix of whole code points that takes at most width columns; *used gets its columns */
size_t cs_utf8_fit(const char *bytes, size_t n, int width, int *used);

/* May a terminal be shown it? Not: controls (also U+007F-9F), marks that turn the direction of
 * writing, separators of lines and paragraphs, what is invisible by design. */
bool cs_utf8_is_unsafe(uint32_t code);
/* One line of text: unsafe code points become \n \t \r, \xNN or \u{NNNN}, invalid bytes \xNN; with
 * quotes also \" and \\. The result is valid UTF-8 and harmless on a terminal. */
void cs_str_escape(struct cs_buf *out, const char *bytes, size_t n, bool with_quotes);
/* the same for text of several lines: newlines and tabs stay */
void cs_str_clean(struct cs_buf *out, const char *bytes, size_t n);
/* the inside of a JSON string; invalid bytes and NUL become the six characters \\xNN would print */
void cs_str_escape_json(struct cs_buf *out, const char *bytes, size_t n);
/* A JSON document: unsafe code points in its strings become \uNNNN; it says the same. */
void cs_str_clean_json(struct cs_buf *out, const char *document, size_t n);

/* copies with truncation, always terminates; false when it did not fit */
bool cs_str_copy(char *to, size_t cap, const char *text);
bool cs_str_starts(const char *text, const char *prefix);

/* whole text, decimal, no spaces; false on garbage or overflow */
bool cs_str_to_i64(const char *text, int64_t *value);
bool cs_str_to_u64(const char *text, uint64_t *value);
bool cs_str_to_double(const char *text, double *value);

#endif
