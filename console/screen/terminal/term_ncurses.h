/* The terminal as a back end of the canvas. One per process (ncurses). Only cells that changed
 * since the last flush are written. The terminal is given back as it was by cs_term_close; after a
 * crash signal too. */
#ifndef CS_CONSOLE_SCREEN_TERMINAL_TERM_NCURSES_H
#define CS_CONSOLE_SCREEN_TERMINAL_TERM_NCURSES_H

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
/* the next key (console/screen/keys/keys.h), -1 when none waits; *is_gone: the input has ended */
int cs_term_key(struct cs_term *term, bool *is_gone);
void cs_term_flush(struct cs_term *term, const struct cs_canvas *canvas);
/* a theme by its index, CS_THEME_AUTO the one it was opened with; own: borrowed, may be NULL */
void cs_term_theme(struct cs_term *term, int theme, const struct cs_theme_own *own);
void cs_term_repaint(struct cs_term *term); /* the next flush writes every cell */
/* leaves the screen, stops the process as C-z does, comes back */
void cs_term_suspend(struct cs_term *term);

/* What was pasted, after CS_KEY_PASTE; valid until the next key. */
const char *cs_term_pasted(const struct cs_term *term, size_t *n);
/* To the clipboard of the terminal (OSC 52), also through ssh; text beyond what terminals take is
 * cut. */
void cs_term_copy(struct cs_term *term, const char *text, size_t n);
/* Gives the terminal to a command of the shell until it ends; `input` is what it reads, NULL: the
 * keyboard. Returns its exit code. */
int cs_term_run(struct cs_term *term, const char *command, const struct cs_buf *input);
/* Mouse events as keys; then the terminal selects text with Shift alone. */
void cs_term_mouse(struct cs_term *term, bool is_on);

struct cs_term_mouse {
    int x, y;
    int wheel; /* -1 up, 1 down, 0: a click */
};

struct cs_term_mouse cs_term_mouse_at(const struct cs_term *term); /* after CS_KEY_MOUSE */

#endif
