/* Private to the files of this folder: the terminal. */
#ifndef CS_CONSOLE_SCREEN_TERMINAL_TERM_PRIVATE_H
#define CS_CONSOLE_SCREEN_TERMINAL_TERM_PRIVATE_H

#include <curses.h>

#include "console/screen/terminal/term_ncurses.h"
#include "core/base/buf.h"

enum { CS_TERM_PAIRS = 64, CS_TERM_PASTE_BEGIN = KEY_MAX + 1, CS_TERM_PASTE_END };

struct cs_term {
    SCREEN *screen;
    FILE *out;                      /* of curses: cs_term_page_open */
    enum cs_scheme scheme, chosen;  /* chosen by --color and the terminal */
    const struct cs_theme_own *own; /* NULL: none */
    struct cs_cell *shown;          /* (rows, cols) what the terminal has */
    int cols, rows;
    bool is_all_dirty;
    short n_pairs;
    struct cs_look pair[CS_TERM_PAIRS]; /* looks by colour pair */
    bool is_pasting;                    /* between its begin and its end */
    int64_t pasted_ns;                  /* when its last byte came */
    struct cs_buf pasted;
    struct cs_term_mouse mouse;
};

/* Bracketed paste, on or off: text that is pasted must not act as keys. */
void cs_term_modes(bool is_on);

/* Standard output once more, for newterm; NULL: there are no descriptors. One at a time. */
FILE *cs_term_page_open(void);
void cs_term_page_close(FILE *file); /* accepts NULL */
void cs_term_page_refresh(void);     /* refresh(), in one write */
void cs_term_page_rescue(void);      /* what is written goes to the terminal; async-signal-safe */

#endif
