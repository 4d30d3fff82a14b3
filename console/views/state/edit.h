/* A line that is typed: text, a place in it, and what keys do to it. */
#ifndef CS_CONSOLE_VIEWS_STATE_EDIT_H
#define CS_CONSOLE_VIEWS_STATE_EDIT_H

#include <stdbool.h>
#include <stddef.h>

enum { CS_EDIT_CAP = 1024 };

struct cs_edit {
    char text[CS_EDIT_CAP];
    size_t at; /* bytes before the cursor */
};

void cs_edit_set(struct cs_edit *edit, const char *text); /* cursor at its end */
/* UTF-8 at the cursor; control characters become spaces, what does not fit is left out */
void cs_edit_insert(struct cs_edit *edit, const char *text, size_t n);
/* Characters, arrows, Home End C-a C-e, Backspace, C-w a word, C-u all before the cursor, C-k behind
 * it; key as in screen/keys.h. false: it is no key of a line (Enter, Esc, Tab ...). */
bool cs_edit_key(struct cs_edit *edit, int key);

#endif
