/* Roles: what a cell means. Looks come from a scheme by role; colour is never the only carrier of a
 * meaning, so that the schemes "mono" and "none" lose nothing. */
#ifndef CS_CONSOLE_DRAW_THEME_H
#define CS_CONSOLE_DRAW_THEME_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

enum cs_style {
    CS_STYLE_TEXT,
    CS_STYLE_DIM,     /* rules, units, what is old */
    CS_STYLE_TITLE,   /* headings of columns and parts */
    CS_STYLE_HEADER,  /* the job line */
    CS_STYLE_TAB,     /* a view that can be chosen */
    CS_STYLE_TAB_ON,  /* the view that is shown */
    CS_STYLE_KEY,     /* a key in the key line */
    CS_STYLE_CURSOR,  /* the selected row */
    CS_STYLE_FORWARD, /* Gantt cells */
    CS_STYLE_BACKWARD,
    CS_STYLE_OPTIMIZER,
    CS_STYLE_IDLE,
    CS_STYLE_CRITICAL, /* a Gantt cell on the critical path */
    CS_STYLE_FROZEN,   /* badges */
    CS_STYLE_PASSES,
    CS_STYLE_TRAINS,
    CS_STYLE_GOOD,
    CS_STYLE_WARN,
    CS_STYLE_BAD,
    CS_STYLE_BANNER, /* stale data, prompts */
    CS_STYLE_COUNT
};

enum cs_scheme {
    CS_SCHEME_DEFAULT,
    CS_SCHEME_LIGHT,      /* the same on a bright background */
    CS_SCHEME_SAFE,       /* of 256 colours, told apart without red, green or blue */
    CS_SCHEME_SAFE_LIGHT, /* the same on a bright background */
    CS_SCHEME_MONO,
    CS_SCHEME_NONE,
    CS_SCHEME_COUNT
};

enum { CS_THEME_AUTO = -1 };

enum { CS_ATTR_BOLD = 1, CS_ATTR_DIM = 2, CS_ATTR_REVERSE = 4, CS_ATTR_UNDERLINE = 8 };

struct cs_look {
    int16_t fg, bg; /* 0-7 as in ANSI, 8-255 as in xterm, -1 the terminal's own */
    uint8_t attrs;  /* CS_ATTR_* */
};

struct cs_look cs_theme_look(enum cs_scheme scheme, enum cs_style style);
/* "auto", "always", "never" or NULL (auto). auto: MONO when NO_COLOR is set and not empty or the
 * terminal has fewer than 8 colours. never: MONO. An unknown word counts as auto. */
enum cs_scheme cs_theme_choose(const char *color, const char *no_color, int terminal_colors);

/* "default" "light" ... and what they are for; NULL behind the last one */
const char *cs_theme_name(int scheme);
const char *cs_theme_help(int scheme);

/* Looks that a user gives to some roles, in schemes with colours. */
struct cs_theme_own {
    struct cs_look look[CS_STYLE_COUNT];
    bool has[CS_STYLE_COUNT];
};

/* "bad" "red bold", "banner" "black on yellow": colours are names, bright-red, or 0-255; then bold, dim,
 * reverse, underline. CS_INVALID says which word it does not know. */
enum cs_status cs_theme_own_set(struct cs_theme_own *own, const char *role, const char *look,
                                struct cs_err *err) CS_NODISCARD;

#endif
