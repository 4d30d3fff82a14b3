/* The part of Jinja that chat templates are written in, to find out what a template does. Values are
 * JSON; a template that uses anything else is CS_UNSUPPORTED and the error names it.
 *
 * As transformers sets it up: trim_blocks, lstrip_blocks, loop controls, raise_exception (CS_INVALID with
 * its text). A text that strftime_now wrote into is refused: it changes by the day. Templates come from strangers:
 * depth, work and output are bounded (CS_LIMIT). */
#ifndef CS_INPUT_CHAT_JINJA_JINJA_H
#define CS_INPUT_CHAT_JINJA_JINJA_H

#include <jansson.h>

#include "core/base/buf.h"
#include "core/base/status.h"

enum { CS_JINJA_MAX_BYTES = 1024 * 1024 };

struct cs_jinja; /* a parsed template; immutable */

enum cs_status cs_jinja_parse(const char *text, size_t n, struct cs_jinja **out,
                              struct cs_err *err) CS_NODISCARD;
void cs_jinja_free(struct cs_jinja *jinja); /* accepts NULL */
/* variables: an object. Appends to out. */
enum cs_status cs_jinja_render(const struct cs_jinja *jinja, const json_t *variables,
                               struct cs_buf *out, struct cs_err *err) CS_NODISCARD;

#endif
