/* What the user has chosen: its beginning, and what keys of several views do to it. */
#include "console/views/state/state.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/str.h"

void cs_screen_init(struct cs_screen *screen, enum cs_glyph_set glyphs)
{
    *screen = (struct cs_screen){
        .glyphs = glyphs,
        .zoom = 1,
        .metrics = {.zoom = 1, .smoothing = 2},
        .log_level = CS_INFO,
        .log_rank = CS_RANK_ALL,
        .theme = CS_THEME_AUTO
    };
}

void cs_screen_free(struct cs_screen *screen)
{
    if (screen->previews)
        cs_previews_begin(screen->previews, NULL, 0);
    free(screen->previews);
    screen->previews = NULL;
    cs_lua_screen_free(screen->lua);
    screen->lua = NULL;
}

int cs_screen_clamp(int value, int low, int high)
{
    return value > high ? high : value < low ? low : value;
}

void cs_screen_say(struct cs_screen *screen, enum cs_style style, const char *text)
{
    cs_str_copy(screen->message, sizeof screen->message, text);
    screen->message_style = style;
}

void cs_screen_show(struct cs_screen *screen, enum cs_view view)
{
    screen->view = view;
    screen->has_help = false;
    screen->failure = 0;
    if (view == CS_VIEW_LUA && screen->lua)
        screen->lua->is_left = false; /* it is opened to type */
}

void cs_screen_ask(struct cs_screen *screen, enum cs_prompt prompt, const char *text)
{
    screen->prompt = prompt;
    cs_edit_set(&screen->edit, text);
}

void cs_screen_zoom(struct cs_screen *screen, int direction)
{
    screen->zoom =
        cs_screen_clamp(direction > 0 ? screen->zoom * 2 : screen->zoom / 2, 1, CS_ZOOM_MAX);
    screen->scroll = fmin(screen->scroll, 1 - 1.0 / screen->zoom);
}

void cs_screen_scroll(struct cs_screen *screen, int direction)
{
    double quarter = 0.25 / screen->zoom;
    screen->scroll = fmax(0, fmin(screen->scroll + direction * quarter, 1 - 1.0 / screen->zoom));
}
