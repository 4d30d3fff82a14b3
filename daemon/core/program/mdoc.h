/* Text of a table inside a manual page: nothing in it acts as mdoc markup. */
#ifndef CS_BASE_MDOC_H
#define CS_BASE_MDOC_H

#include "core/base/buf.h"

/* no line starts as a control line; backslashes and hyphens stand for themselves */
void cs_mdoc_text(struct cs_buf *out, const char *text);

#endif
