/* Glyph sets: every drawn mark that is not plain text has a UTF-8 and an ASCII form of the same
 * width, so that a screen has one layout in both. */
#ifndef CS_CONSOLE_DRAW_GLYPH_H
#define CS_CONSOLE_DRAW_GLYPH_H

#include <stdbool.h>

enum cs_glyph_set { CS_GLYPHS_UTF8, CS_GLYPHS_ASCII, CS_GLYPH_SETS };

/* id, UTF-8, ASCII. Not formatted: how wide these are to the formatter depends on its locale. */
/* clang-format off */
#define CS_GLYPH_TABLE(X) \
    X(HLINE,        "─", "-") \
    X(VLINE,        "│", "|") \
    X(TOP_LEFT,     "┌", "+") \
    X(TOP_RIGHT,    "┐", "+") \
    X(BOTTOM_LEFT,  "└", "+") \
    X(BOTTOM_RIGHT, "┘", "+") \
    X(TEE_UP,       "┴", "+") \
    X(TEE_DOWN,     "┬", "+") \
    X(TEE_RIGHT,    "├", "+") \
    X(TEE_LEFT,     "┤", "+") \
    X(CURSOR,       "▸", ">") \
    X(IDLE,         "·", ".") \
    X(MORE,         "…", "~") \
    X(LEFT,         "◂", "<") \
    X(DOWN,         "▾", "v") \
    X(TO,           "→", ">")

/* clang-format on */

enum cs_glyph {

#define X(id, utf8, ascii) CS_GLYPH_##id,
    CS_GLYPH_TABLE(X)
#undef X
        CS_GLYPH_COUNT
};

const char *cs_glyph(enum cs_glyph_set set, enum cs_glyph glyph);

enum { CS_SPARK_LEVELS = 8 };

const char *cs_glyph_spark(enum cs_glyph_set set, int level); /* 0..CS_SPARK_LEVELS-1 */

/* option: "auto" or NULL, "utf8", "ascii"; codeset: nl_langinfo(CODESET) after setlocale. auto is
 * UTF8 in a UTF-8 locale where every glyph takes one column by wcwidth. */
enum cs_glyph_set cs_glyph_choose(const char *option, const char *codeset);

#endif
