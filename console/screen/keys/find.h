/* Finds rows of the list that a view shows. */
#ifndef CS_CONSOLE_SCREEN_KEYS_FIND_H
#define CS_CONSOLE_SCREEN_KEYS_FIND_H

#include "console/views/state/view.h"

/* The cursor to a row with screen->find: of a list whose last row is under the cursor the nearest
 * before it, else the nearest from the cursor on. Nothing found is said. */
void cs_find_first(struct cs_screen *screen, const struct cs_store *store);
/* the next (1) or the one before (-1); over the end it goes on at the other */
void cs_find_next(struct cs_screen *screen, const struct cs_store *store, int direction);

#endif
