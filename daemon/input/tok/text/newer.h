/* Characters that are newer than the tables of the library for regular expressions. */
#ifndef CS_INPUT_TOK_TEXT_NEWER_H
#define CS_INPUT_TOK_TEXT_NEWER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"

bool tok_is_newer(uint32_t code);
/* An expression of PCRE2 whose categories (\p{L}) hold them too. */
void tok_newer_rewrite(const struct cs_buf *pattern, struct cs_buf *out);

#endif
