/* The terminal as a back end of the canvas. One per process (ncurses). Only cells that changed
 * since the last flush are written. The terminal is given back as it was by cs_term_close; after a
 * crash signal too. */
#ifndef CS_CONSOLE_SCREEN_TERM_NCURSES_H
#define CS_CONSOLE_SCREEN_TERM_NCURSES_H

#include "console/draw/canvas.h"

struct cs_term;

/* Standard input and output. CS_UNSUPPORTED: not a terminal, unknown TERM, or one that cannot place
 * the cursor. setlocale must have been called. color as in cs_theme_choose. */
enum cs_status cs_term_open(const char *color, struct cs_term **out,
                            struct cs_err *err) CS_NODISCARD;
void cs_term_close(struct cs_term *term); /* accepts NULL */
void cs_term_size(const struct cs_term *term, int *cols, int *rows);
/* asks the kernel for the size and tells ncurses; after SIGWINCH and after a suspension */
void cs_term_resize(struct cs_term *term);
/* the next key (console/screen/keys.h), -1 when none waits; *is_gone: the input has ended */
int cs_term_key(struct cs_term *term, bool *is_gone);
void cs_term_flush(struct cs_term *term, const struct cs_canvas *canvas);
void cs_term_repaint(struct cs_term *term); /* the next flush writes every cell */
/* leaves the screen, stops the process as C-z does, comes back */
void cs_term_suspend(struct cs_term *term);

#endif
