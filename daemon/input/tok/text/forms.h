/* The normal forms of Unicode, with a map back to the source. */
#ifndef CS_INPUT_TOK_TEXT_FORMS_H
#define CS_INPUT_TOK_TEXT_FORMS_H

#include <stdbool.h>

#include "input/tok/text/mapped.h"

enum tok_form { TOK_NFC, TOK_NFD, TOK_NFKC, TOK_NFKD };

struct tok_forming {
    enum tok_form form;
    bool is_current; /* by the tables of today; else by those of `tokenizers` */
};

/* Appends the text in a normal form; bytes that are not UTF-8 pass as they are. False: nothing has
 * changed, and out is not to be used. */
bool tok_normal_form(const struct tok_forming *how, const struct tok_view *in,
                     struct tok_text *out);

#endif
