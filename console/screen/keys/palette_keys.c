/* The palette while it is open: choosing, completing, doing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/widget.h"
#include "console/screen/keys/keys.h"
#include "console/screen/keys/palette.h"
#include "core/base/str.h"

static unsigned run(struct cs_screen *screen, const struct cs_store *store,
                    const struct cs_choice *choice)
{
    screen->prompt = CS_PROMPT_NONE;
    if (choice->order)
        return cs_order_job(screen, store, choice->order, choice->job);
    if (choice->act == cs_act_shell) /* chosen, not typed */
        cs_edit_set(&screen->edit, choice->name);
    if (choice->job)
        screen->cursor_job = choice->job;
    return choice->act(screen, store, choice->argument) | CS_DO_DRAW;
}

static void complete(struct cs_screen *screen, const struct cs_choice *choice)
{
    char text[sizeof choice->name + 2];
    snprintf(text, sizeof text, "%s%s", choice->name, choice->has_more ? " " : "");
    if (strlen(screen->edit.text) < strlen(text))
        cs_edit_set(&screen->edit, text);
    screen->choice = 0;
}

unsigned cs_palette_key(struct cs_screen *screen, const struct cs_store *store, int key)
{
    struct cs_choice *choices = calloc(CS_PALETTE_MOST, sizeof *choices);
    CS_ASSERT(choices);
    const int n = cs_palette_choices(store, screen, choices);
    unsigned todo = CS_DO_DRAW;
    screen->choice = cs_screen_clamp(screen->choice, 0, n > 0 ? n - 1 : 0);
    if (key == CS_KEY_ESC || key == 3)
        screen->prompt = CS_PROMPT_NONE;
    else if (key == CS_KEY_BACKSPACE && screen->edit.text[0] == '\0')
        screen->prompt = CS_PROMPT_NONE;
    else if (key == CS_KEY_DOWN || key == CS_KEY_UP || key == 'n' - 'a' + 1 || key == 'p' - 'a' + 1)
        screen->choice =
            n > 0 ? (screen->choice + (key == CS_KEY_DOWN || key == 14 ? 1 : n - 1)) % n : 0;
    else if (n > 0 && key == CS_KEY_TAB)
        complete(screen, &choices[screen->choice]);
    else if (n > 0 && key == CS_KEY_ENTER)
        todo = run(screen, store, &choices[screen->choice]);
    else if (key == CS_KEY_ENTER)
        cs_screen_say(screen, CS_STYLE_WARN, "nothing here has these words");
    else if (cs_edit_key(&screen->edit, key))
        screen->choice = 0;
    if (n == 0 && key == CS_KEY_ENTER)
        screen->prompt = CS_PROMPT_NONE;
    free(choices);
    return todo;
}

/* --- drawing ---------------------------------------------------------------------------------- */

static void draw_choice(const struct cs_choice *choice, const struct cs_screen *screen,
                        struct cs_area area, int y, bool is_chosen)
{
    const int at_help = area.w / 3 > 24 ? area.w / 3 : 24, at_key = area.w - 11;
    const enum cs_style style = is_chosen ? CS_STYLE_CURSOR : CS_STYLE_TEXT;
    cs_fill(area, 0, y, area.w, is_chosen ? CS_STYLE_CURSOR : CS_STYLE_TEXT, " ");
    if (is_chosen)
        cs_draw(area, 0, y, CS_STYLE_KEY, cs_glyph(screen->glyphs, CS_GLYPH_CURSOR));
    cs_draw_cut(area, 2, y, at_help - 3, style, screen->glyphs, choice->name);
    cs_draw_cut(area, at_help, y, at_key - at_help - 1, is_chosen ? style : CS_STYLE_DIM,
                screen->glyphs, choice->help);
    cs_draw_cut(area, at_key, y, 10, is_chosen ? style : CS_STYLE_KEY, screen->glyphs, choice->key);
}

static void draw_rule(const struct cs_screen *screen, struct cs_area area, int y, const char *text)
{
    cs_fill(area, 0, y, area.w, CS_STYLE_DIM, cs_glyph(screen->glyphs, CS_GLYPH_HLINE));
    cs_draw_cut(area, 2, y, area.w - 4, CS_STYLE_TITLE, screen->glyphs, text);
}

void cs_palette_draw(const struct cs_store *store, const struct cs_screen *screen,
                     struct cs_area area)
{
    struct cs_choice *choices = calloc(CS_PALETTE_MOST, sizeof *choices);
    char text[400];
    CS_ASSERT(choices);
    const int n = cs_palette_choices(store, screen, choices);
    const int chosen = cs_screen_clamp(screen->choice, 0, n > 0 ? n - 1 : 0);
    int rows = n < CS_PALETTE_ROWS ? n : CS_PALETTE_ROWS;
    rows = rows < area.h - 2 ? rows : area.h - 2;
    const int first = chosen < rows ? 0 : chosen - rows + 1, top = area.h - rows - 2;
    snprintf(text, sizeof text, " %d of %d   Tab completes, Enter does it, Esc leaves ",
             n > 0 ? chosen + 1 : 0, n);
    draw_rule(screen, area, top, text);
    for (int i = 0; i < rows; i++)
        draw_choice(&choices[first + i], screen, area, top + 1 + i, first + i == chosen);
    snprintf(text, sizeof text, " same as: %s ", n > 0 ? choices[chosen].shell : "");
    draw_rule(screen, area, area.h - 1,
              n == 0                     ? " nothing here has these words "
              : choices[chosen].shell[0] ? text
                                         : " only here, not from a shell ");
    free(choices);
}
