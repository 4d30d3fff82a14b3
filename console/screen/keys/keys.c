/* What a key does: sequences of them, those that a user has bound, and the line that is being typed. */
#include "console/screen/keys/keys.h"

#include <stdio.h>
#include <string.h>

#include "console/screen/keys/config.h"
#include "core/base/str.h"

/* --- sequences -------------------------------------------------------------------------------- */

enum match { MATCH_NONE, MATCH_BEGIN, MATCH_WHOLE };

/* one alternative, "g g", against the keys pressed so far */
static enum match match_sequence(const char *text, size_t n, const int *keys, int n_keys)
{
    size_t at = 0;
    for (int i = 0; i < n_keys; i++) {
        size_t end = at;
        int key;
        while (end < n && text[end] != ' ')
            end++;
        if (at >= n || !cs_key_parse(text + at, end - at, &key) || key != keys[i])
            return MATCH_NONE;
        at = end < n ? end + 1 : n;
    }
    return at >= n ? MATCH_WHOLE : MATCH_BEGIN;
}

static enum match match_row(const struct cs_key_row *row, const int *keys, int n_keys)
{
    enum match best = MATCH_NONE;
    for (const char *at = row->keys; *at;) {
        size_t n = strcspn(at, ",");
        enum match match = match_sequence(at, n, keys, n_keys);
        best = match > best ? match : best;
        at += n + (at[n] == ',');
    }
    return best;
}

static bool is_allowed(const struct cs_screen *screen, const struct cs_key_row *row)
{
    return !screen->is_read_only || !row->order || row->order->role == CS_ROLE_VIEWER;
}

static unsigned act(struct cs_screen *screen, const struct cs_store *store,
                    const struct cs_key_row *row)
{
    screen->n_pending = 0;
    if (!is_allowed(screen, row)) {
        snprintf(screen->message, sizeof screen->message, "this console is read-only");
        screen->message_style = CS_STYLE_WARN;
        return CS_DO_DRAW;
    }
    return row->act(screen, store, row->argument) | CS_DO_DRAW;
}

/* a key that does nothing is named: was it typed, or eaten by a terminal? */
static void say_unknown(struct cs_screen *screen, int key)
{
    char name[24];
    cs_key_name(key, name);
    snprintf(screen->message, sizeof screen->message, "%s does nothing here; ? lists the keys",
             name);
    screen->message_style = CS_STYLE_DIM;
}

static unsigned press(struct cs_screen *screen, const struct cs_store *store, int key)
{
    struct cs_key_row rows[CS_KEYS];
    const int n_rows = cs_keys_of(screen->view, rows);
    bool has_begun = false;
    int keys[3], n = screen->n_pending;
    memcpy(keys, screen->pending, (size_t)n * sizeof *keys);
    keys[n++] = key;
    for (int i = 0; i < n_rows; i++) {
        enum match match = match_row(&rows[i], keys, n);
        if (match == MATCH_WHOLE)
            return act(screen, store, &rows[i]);
        has_begun = has_begun || match == MATCH_BEGIN;
    }
    if (has_begun && screen->n_pending < (int)CS_ARRAY_LEN(screen->pending)) {
        screen->pending[screen->n_pending++] = key;
        if (key == 3) {
            snprintf(screen->message, sizeof screen->message,
                     "C-c again leaves the console; jobs go on");
            screen->message_style = CS_STYLE_DIM;
        }
        return CS_DO_DRAW;
    }
    if (screen->n_pending > 0) { /* it went on differently: the key counts alone */
        screen->n_pending = 0;
        return press(screen, store, key);
    }
    say_unknown(screen, key);
    return 0;
}

static unsigned press_one(struct cs_screen *screen, const struct cs_store *store, int key)
{
    const struct cs_view_text *text = cs_screen_text(screen);
    screen->message[0] = '\0';
    if (screen->prompt != CS_PROMPT_NONE)
        return cs_prompt_key(screen, store, key) | CS_DO_DRAW;
    if (text && screen->n_pending == 0) {
        const unsigned todo = text->key(screen, store, key);
        if (todo)
            return todo | CS_DO_DRAW;
    }
    return press(screen, store, key) | CS_DO_DRAW;
}

/* Keys that a user has bound stand for others, which count as they always do. */
unsigned cs_screen_key(struct cs_screen *screen, const struct cs_store *store, int key)
{
    const bool is_first =
        screen->prompt == CS_PROMPT_NONE && screen->n_pending == 0 && !cs_screen_text(screen);
    const struct cs_binding *own =
        is_first ? cs_screen_config_find(screen->config, screen->view, key) : NULL;
    unsigned todo = CS_DO_DRAW;
    if (!own)
        return press_one(screen, store, key);
    for (int i = 0; i < own->n; i++)
        todo |= press_one(screen, store, own->to[i]);
    return todo;
}

/* A word of --keys: a name, or letters. Returns CS_DO_*. */
static enum cs_status press_word(struct cs_screen *screen, struct cs_store *store, const char *word,
                                 size_t n, unsigned *todo, struct cs_err *err)
{
    size_t used = n;
    int key;
    for (size_t at = 0; at < n; at += used) {
        uint32_t code;
        if (at > 0 || !cs_key_parse(word, n, &key)) {
            used = cs_utf8_decode(word + at, n - at, &code);
            if (used == 0 || code <= ' ')
                return cs_fail(err, CS_USAGE, "unknown key \"%.*s\"", (int)n, word);
            key = (int)code;
        }
        while (cs_screen_prepare(screen, store)) /* keys look at what is shown */
            ;
        *todo |= cs_screen_key(screen, store, key);
        if (*todo & CS_DO_SELECT)
            cs_store_select(store, screen->cursor_job);
        if (*todo & CS_DO_BESIDE)
            cs_store_set_beside(store, screen->metrics.beside, screen->metrics.n_beside);
        if (*todo & CS_DO_LUA)
            cs_lua_screen_refuse(screen->lua, "a screen that is text evaluates nothing; "
                                              "'cornstarch-console lua -e' does");
        *todo &= ~(unsigned)(CS_DO_SELECT | CS_DO_BESIDE | CS_DO_LUA);
    }
    return CS_OK;
}

enum cs_status cs_screen_keys(struct cs_screen *screen, struct cs_store *store, const char *text,
                              struct cs_err *err)
{
    unsigned todo = 0;
    for (const char *at = text; *at && !(todo & CS_DO_QUIT);) {
        size_t n = strcspn(at, " ");
        if (n > 0)
            CS_TRY(press_word(screen, store, at, n, &todo, err));
        at += n + (at[n] == ' ');
    }
    return CS_OK;
}
