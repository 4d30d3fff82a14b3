/* Parts of the Tokens view. */
#ifndef CS_CONSOLE_VIEWS_TOKENS_H
#define CS_CONSOLE_VIEWS_TOKENS_H

#include "console/views/state/view.h"

/* The slot with most work: what its rows are, and below where its work lies; two rows. */
void cs_tokens_sequence_draw(const struct cs_store *store, const struct cs_screen *screen,
                             struct cs_area area, int y);
/* What every rule would make of it: a heading and a row each, as many as there is room for; returns
 * the rows. */
int cs_tokens_rules_draw(const struct cs_store *store, const struct cs_screen *screen,
                         struct cs_area area, int y);
/* rows that the rules want; 0: there are none */
int cs_tokens_rules_want(const struct cs_store *store);

#endif
