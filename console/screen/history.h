/* Lines that were typed, kept in the file that 'cornstarch-console lua' reads and writes, too. */
#ifndef CS_CONSOLE_SCREEN_HISTORY_H
#define CS_CONSOLE_SCREEN_HISTORY_H

#include "console/views/state/lua_state.h"

/* lua-history in the state directory; one that is not there or cannot be read has no lines */
void cs_history_read(struct cs_lua_screen *lua);
/* adds what was typed since */
void cs_history_write(struct cs_lua_screen *lua);

/* A line as the file has it: letters and signs as they are, everything else, blanks and backslashes, as
 * three octal digits a byte behind a backslash (vis(3), as libedit writes it). */
void cs_history_encode(struct cs_buf *out, const char *line);
void cs_history_decode(struct cs_buf *out, const char *line, size_t n);

#endif
