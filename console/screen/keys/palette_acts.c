/* What is done from the palette alone. */
#include "console/screen/keys/keys.h"
#include "core/base/str.h"

unsigned cs_act_command(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    cs_screen_ask(screen, CS_PROMPT_COMMAND, "");
    screen->choice = 0;
    return CS_DO_DRAW;
}

unsigned cs_act_mouse(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    screen->has_mouse = argument != 0;
    cs_screen_say(screen, CS_STYLE_DIM,
                  argument ? "the mouse works; with Shift the terminal selects text"
                           : "the mouse is the terminal's again");
    return CS_DO_DRAW;
}

unsigned cs_act_theme(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    screen->theme = argument;
    return CS_DO_REPAINT;
}

/* the job of the choice is the one that order and opening are about */
unsigned cs_act_open(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    cs_screen_show(screen, CS_VIEW_PIPELINE);
    screen->at = (struct cs_screen_place){0};
    return screen->cursor_job != store->job ? CS_DO_SELECT : CS_DO_DRAW;
}

unsigned cs_act_shell(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    cs_str_copy(screen->shell, sizeof screen->shell, screen->edit.text + 1);
    return CS_DO_SHELL;
}
