/* What is typed in place of the key line: answers to questions, texts to look for. */
#include <stdio.h>
#include <string.h>

#include "console/screen/keys/find.h"
#include "console/screen/keys/keys.h"
#include "console/screen/keys/palette.h"
#include "core/base/str.h"

static unsigned give_up(struct cs_screen *screen)
{
    screen->prompt = CS_PROMPT_NONE;
    cs_screen_say(screen, CS_STYLE_DIM, "nothing was done");
    return CS_DO_DRAW;
}

static unsigned confirm(struct cs_screen *screen, const struct cs_store *store, int key)
{
    (void)store;
    if (key != 'y' && key != 'Y')
        return give_up(screen);
    screen->prompt = CS_PROMPT_NONE;
    return screen->order ? CS_DO_ORDER : CS_DO_SHELL;
}

static unsigned accept_typed(struct cs_screen *screen)
{
    char id[24];
    snprintf(id, sizeof id, "%lld", (long long)screen->order_job);
    if (strcmp(id, screen->typed) != 0)
        return give_up(screen);
    screen->prompt = CS_PROMPT_NONE;
    return CS_DO_ORDER;
}

static unsigned type_number(struct cs_screen *screen, const struct cs_store *store, int key)
{
    const size_t n = strlen(screen->typed);
    (void)store;
    if (key == CS_KEY_ENTER)
        return accept_typed(screen);
    if (key == CS_KEY_ESC || key == 3)
        return give_up(screen);
    if (key == CS_KEY_BACKSPACE && n > 0)
        screen->typed[n - 1] = '\0';
    else if (key >= '0' && key <= '9' && n + 1 < sizeof screen->typed) {
        screen->typed[n] = (char)key;
        screen->typed[n + 1] = '\0';
    }
    return CS_DO_DRAW;
}

/* a line; true: it was closed with Enter */
static bool type_line(struct cs_screen *screen, int key)
{
    if (key == CS_KEY_ESC || key == 3)
        screen->prompt = CS_PROMPT_NONE;
    else if (key != CS_KEY_ENTER)
        (void)cs_edit_key(&screen->edit, key);
    else
        screen->prompt = CS_PROMPT_NONE;
    return key == CS_KEY_ENTER;
}

static unsigned type_find(struct cs_screen *screen, const struct cs_store *store, int key)
{
    if (type_line(screen, key) && screen->edit.text[0]) {
        cs_str_copy(screen->find, sizeof screen->find, screen->edit.text);
        cs_find_first(screen, store);
    }
    return CS_DO_DRAW;
}

/* the rows change while the filter is typed; Esc takes it away */
static unsigned type_filter(struct cs_screen *screen, const struct cs_store *store, int key)
{
    (void)store;
    (void)type_line(screen, key);
    cs_str_copy(screen->filter[screen->view], CS_NEEDLE_CAP,
                key == CS_KEY_ESC ? "" : screen->edit.text);
    return CS_DO_DRAW;
}

unsigned cs_prompt_key(struct cs_screen *screen, const struct cs_store *store, int key)
{
    static unsigned (*const kinds[])(struct cs_screen *, const struct cs_store *, int) = {
        [CS_PROMPT_CONFIRM] = confirm,        [CS_PROMPT_TYPE] = type_number,
        [CS_PROMPT_FIND] = type_find,         [CS_PROMPT_FILTER] = type_filter,
        [CS_PROMPT_COMMAND] = cs_palette_key,
    };

    return kinds[screen->prompt](screen, store, key);
}

unsigned cs_screen_paste(struct cs_screen *screen, const char *text, size_t n)
{
    const struct cs_view_text *view = cs_screen_text(screen);
    if (screen->prompt >= CS_PROMPT_FIND) {
        cs_edit_insert(&screen->edit, text, n);
        return CS_DO_DRAW;
    }
    return view && screen->prompt == CS_PROMPT_NONE ? view->paste(screen, text, n) : 0;
}
