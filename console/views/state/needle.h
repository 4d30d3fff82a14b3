/* What is searched for: a text, or a regular expression where it is one. Small letters match both
 * cases, a capital only itself. */
#ifndef CS_CONSOLE_VIEWS_STATE_NEEDLE_H
#define CS_CONSOLE_VIEWS_STATE_NEEDLE_H

#include <regex.h>
#include <stdbool.h>

enum { CS_NEEDLE_CAP = 128 };

struct cs_needle {
    bool is_empty; /* matches everything */
    bool is_regex; /* else it is looked for as it stands */
    bool is_exact; /* of cases */
    char text[CS_NEEDLE_CAP];
    regex_t regex;
};

void cs_needle_make(struct cs_needle *needle, const char *text);
void cs_needle_free(struct cs_needle *needle);
/* *at, *n: bytes of the first match; either may be NULL */
bool cs_needle_match(const struct cs_needle *needle, const char *text, int *at, int *n);

#endif
