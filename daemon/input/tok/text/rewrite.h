/* Regular expressions of Oniguruma's dialect in PCRE2's. */
#ifndef CS_INPUT_TOK_TEXT_REWRITE_H
#define CS_INPUT_TOK_TEXT_REWRITE_H

#include <stdbool.h>

#include "core/base/buf.h"
#include "core/base/status.h"

/* Whatever could mean something else in PCRE2 is CS_UNSUPPORTED, by its name. */
enum cs_status tok_regex_rewrite(const char *pattern, size_t n, struct cs_buf *out,
                                 struct cs_err *err) CS_NODISCARD;

#endif
