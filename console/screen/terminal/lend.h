/* What the screen lends its terminal for: the clipboard, a pager, another command. */
#ifndef CS_CONSOLE_SCREEN_TERMINAL_LEND_H
#define CS_CONSOLE_SCREEN_TERMINAL_LEND_H

#include "console/screen/terminal/term_ncurses.h"
#include "console/views/state/view.h"

/* the row under the cursor */
void cs_lend_copy(struct cs_term *term, struct cs_screen *screen, const struct cs_store *store);
/* all rows, to $PAGER, else less */
void cs_lend_page(struct cs_term *term, struct cs_screen *screen, const struct cs_store *store);
/* A command of this program: its words, separated by spaces; Enter goes back. socket: of the daemon,
 * NULL your own. */
void cs_lend_command(struct cs_term *term, const char *words, const char *socket);

#endif
