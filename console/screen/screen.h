/* The whole screen: header, tabs, views, key line or help; whatever the size of the canvas. */
#ifndef CS_CONSOLE_SCREEN_SCREEN_H
#define CS_CONSOLE_SCREEN_SCREEN_H

#include "console/views/state/view.h"

void cs_screen_draw(const struct cs_store *store, const struct cs_screen *screen,
                    struct cs_canvas *canvas);

#endif
