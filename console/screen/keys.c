/* The table of keys, their names, and sequences of them. */
#include "console/screen/keys.h"

#include <stdio.h>
#include <string.h>

#include "console/screen/config.h"
#include "core/base/str.h"

/* Keys of every view, in the order of help and manual: before the view's own, after them, then one
 * that opens each view, then the rest. */
/* clang-format off */
static const struct cs_key_row moves[] = {
    {"j,Down",   "j Down",   "", 0, NULL, "move down",          cs_act_move, 1},
    {"k,Up",     "k Up",     "", 0, NULL, "move up",            cs_act_move, -1},
    {"C-d,PgDn", "C-d PgDn", "", 0, NULL, "half a screen down", cs_act_page, 1},
    {"C-u,PgUp", "C-u PgUp", "", 0, NULL, "half a screen up",   cs_act_page, -1},
    {"g g,Home", "gg Home",  "", 0, NULL, "to the top",         cs_act_edge, -1},
    {"G,End",    "G End",    "", 0, NULL, "to the bottom",      cs_act_edge, 1},
};
static const struct cs_key_row orders[] = {
    {"P", "P", "pause",      4, &cs_job_order_pause,      "pause the job, or let it go on", cs_act_pause,      0},
    {"R", "R", "",           0, &cs_job_order_resume,     NULL,                      cs_act_resume,     0},
    {"C", "C", "checkpoint", 5, &cs_job_order_checkpoint, NULL,                      cs_act_checkpoint, 0},
    {"X", "X", "stop",       4, &cs_job_order_stop,       NULL,                      cs_act_stop,       0},
};
static const struct cs_key_row lists[] = { /* of views that show one */
    {"/", "/", "find", 3, NULL, "find a text in the list",                         cs_act_find, 0},
    {"n", "n", "",     0, NULL, "the next row that has it",                        cs_act_next, 1},
    {"N", "N", "",     0, NULL, "the row before that has it",                      cs_act_next, -1},
    {"f,&", "f &", "filter", 3, NULL, "only rows with a text, a regular expression too", cs_act_filter, 0},
    {"y", "y", "",     0, NULL, "copy the row to the clipboard of the terminal",   cs_act_copy, 0},
    {"|", "|", "",     0, NULL, "these rows in $PAGER",                            cs_act_pager, 0},
};
static const struct cs_key_row others[] = {
    {"Tab,g t",       "Tab gt",   "view",   1, NULL, "next view",                     cs_act_cycle,   1},
    {"S-Tab,g T",     "S-Tab gT", "",       0, NULL, "view before",                   cs_act_cycle,   -1},
    {"Esc,Backspace", "Esc",      "",       0, NULL, "back to the jobs",              cs_act_back,    0},
    {"C-l",           "C-l",      "",       0, NULL, "draw everything again",         cs_act_repaint, 0},
    {"C-z",           "C-z",      "",       0, NULL, "suspend the console",           cs_act_suspend, 0},
    {":,C-p",         ": C-p",    "command", 1, NULL, "type what is to be done: views, orders, jobs, keys, commands", cs_act_command, 0},
    {"!",             "!",        "",       0, NULL, "why a job failed, and what to try", cs_act_failure, 0},
    {"?,F1",          "?",        "keys",   0, NULL, "this list",                     cs_act_help,    0},
    {"q,C-c C-c",     "q",        "detach", 0, NULL, "leave the console; jobs go on", cs_act_quit,    0},
};

/* clang-format on */

static const struct {
    const char *name;
    int key;
} names[] = {
    {"Space",     ' '             },
    {"Tab",       CS_KEY_TAB      },
    {"S-Tab",     CS_KEY_BACKTAB  },
    {"Enter",     CS_KEY_ENTER    },
    {"Esc",       CS_KEY_ESC      },
    {"Backspace", CS_KEY_BACKSPACE},
    {"Up",        CS_KEY_UP       },
    {"Down",      CS_KEY_DOWN     },
    {"Left",      CS_KEY_LEFT     },
    {"Right",     CS_KEY_RIGHT    },
    {"Home",      CS_KEY_HOME     },
    {"End",       CS_KEY_END      },
    {"PgUp",      CS_KEY_PGUP     },
    {"PgDn",      CS_KEY_PGDN     },
    {"Delete",    CS_KEY_DELETE   },
};

static int put(struct cs_key_row *out, int n, const struct cs_key_row *rows, size_t n_rows)
{
    CS_ASSERT(n + (int)n_rows <= CS_KEYS);
    memcpy(out + n, rows, n_rows * sizeof *rows);
    return n + (int)n_rows;
}

int cs_keys_own(enum cs_view view, struct cs_key_row out[CS_KEYS])
{
    const struct cs_key_row *own = cs_view_ops(view)->keys;
    size_t n = 0;
    while (own && own[n].keys)
        n++;
    return own ? put(out, 0, own, n) : 0;
}

static int put_views(struct cs_key_row *out, int n)
{
    for (int v = 0; v < CS_VIEW_COUNT; v++) {
        const struct cs_view_ops *view = cs_view_ops((enum cs_view)v);
        const struct cs_key_row row = {.keys = view->key,
                                       .shown = view->key,
                                       .label = "",
                                       .help = view->title,
                                       .act = cs_act_view,
                                       .argument = v};
        n = put(out, n, &row, 1);
    }
    return n;
}

int cs_keys_common(struct cs_key_row out[CS_KEYS])
{
    int n = put(out, 0, moves, CS_ARRAY_LEN(moves));
    n = put(out, n, orders, CS_ARRAY_LEN(orders));
    n = put(out, n, lists, CS_ARRAY_LEN(lists));
    n = put_views(out, n);
    return put(out, n, others, CS_ARRAY_LEN(others));
}

int cs_keys_of(enum cs_view view, struct cs_key_row out[CS_KEYS])
{
    struct cs_key_row own[CS_KEYS];
    int n_own = cs_keys_own(view, own);
    int n = put(out, 0, moves, CS_ARRAY_LEN(moves));
    n = put(out, n, own, (size_t)n_own);
    n = put(out, n, orders, CS_ARRAY_LEN(orders));
    if (cs_view_ops(view)->list)
        n = put(out, n, lists, CS_ARRAY_LEN(lists));
    n = put_views(out, n);
    return put(out, n, others, CS_ARRAY_LEN(others));
}

const char *cs_key_row_help(const struct cs_key_row *row)
{
    return row->help ? row->help : row->order ? row->order->help : row->label;
}

static bool parse_function(const char *name, size_t n, int *key)
{
    int number = 0;
    if (n < 2 || n > 3 || name[0] != 'F')
        return false;
    for (size_t i = 1; i < n; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
        number = 10 * number + name[i] - '0';
    }
    *key = CS_KEY_F1 + number - 1;
    return number >= 1 && number <= 12;
}

void cs_key_name(int key, char out[24])
{
    const char *alt = key >= CS_KEY_ALT ? "Alt-" : "";
    char name[12] = "?";
    key = key >= CS_KEY_ALT ? key - CS_KEY_ALT : key;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++)
        if (names[i].key == key) {
            snprintf(out, 24, "%s%s", alt, names[i].name);
            return;
        }
    if (key >= 1 && key <= 26)
        snprintf(name, sizeof name, "C-%c", key + 'a' - 1);
    else if (key >= CS_KEY_F1 && key <= CS_KEY_F12)
        snprintf(name, sizeof name, "F%d", key - CS_KEY_F1 + 1);
    else if (key > ' ' && key < CS_KEY_UP && !cs_utf8_is_unsafe((uint32_t)key))
        name[cs_canvas_encode((uint32_t)key, name)] = '\0';
    snprintf(out, 24, "%s%s", alt, name);
}

bool cs_key_parse(const char *name, size_t n, int *key)
{
    uint32_t code = 0;
    if (n > 4 && memcmp(name, "Alt-", 4) == 0 && cs_key_parse(name + 4, n - 4, key)) {
        *key += CS_KEY_ALT;
        return true;
    }
    if (parse_function(name, n, key))
        return true;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++)
        if (strlen(names[i].name) == n && memcmp(names[i].name, name, n) == 0) {
            *key = names[i].key;
            return true;
        }
    if (n == 3 && name[0] == 'C' && name[1] == '-' && name[2] >= 'a' && name[2] <= 'z') {
        *key = name[2] - 'a' + 1;
        return true;
    }
    if (n == 0 || cs_utf8_decode(name, n, &code) != n || code < ' ')
        return false;
    *key = (int)code;
    return true;
}

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
    screen->message[0] = '\0';
    if (screen->prompt != CS_PROMPT_NONE)
        return cs_prompt_key(screen, store, key) | CS_DO_DRAW;
    return press(screen, store, key) | CS_DO_DRAW;
}

/* Keys that a user has bound stand for others, which count as they always do. */
unsigned cs_screen_key(struct cs_screen *screen, const struct cs_store *store, int key)
{
    const bool is_first = screen->prompt == CS_PROMPT_NONE && screen->n_pending == 0;
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
        *todo &= ~(unsigned)(CS_DO_SELECT | CS_DO_BESIDE);
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
