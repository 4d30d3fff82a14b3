/* Text for people on a stream. Names, paths and data of others are in it, so everything that a
 * program says goes through here: unsafe code points (str.h) are shown as escapes, newlines and tabs
 * stay. Documents for programs are made harmless by their own escapes before they come here. */
#ifndef CS_BASE_SAY_H
#define CS_BASE_SAY_H

#include <stdio.h>

#include "core/base/buf.h"

void cs_say(FILE *to, const char *fmt, ...) CS_PRINTF(2, 3);
void cs_say_text(FILE *to, const struct cs_buf *text);
/* bytes as they are: styles of our own around text that was made harmless, and nothing else */
void cs_say_exact(FILE *to, const struct cs_buf *text);

#endif
