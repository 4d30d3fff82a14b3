/* The key table, names of keys and sequences; see keys.h. */
#include "console/screen/keys.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"

#define ALL      ((1u << CS_VIEW_COUNT) - 1)
#define JOBS     (1u << CS_VIEW_JOBS)
#define MODEL    (1u << CS_VIEW_MODEL)
#define PIPELINE (1u << CS_VIEW_PIPELINE)
#define GPUS     (1u << CS_VIEW_GPUS)
#define LOGS     (1u << CS_VIEW_LOGS)
#define PLAN     (1u << CS_VIEW_PLAN)

/* clang-format off */
static const struct cs_key_row rows[] = {
    {"j,Down",        "j Down",    ALL,      "",       0, NULL,         "move down",                                cs_act_move, 1},
    {"k,Up",          "k Up",      ALL,      "",       0, NULL,         "move up",                                  cs_act_move, -1},
    {"C-d,PgDn",      "C-d PgDn",  ALL,      "",       0, NULL,         "half a screen down",                       cs_act_page, 1},
    {"C-u,PgUp",      "C-u PgUp",  ALL,      "",       0, NULL,         "half a screen up",                         cs_act_page, -1},
    {"g g,Home",      "gg Home",   ALL,      "",       0, NULL,         "to the top",                               cs_act_edge, -1},
    {"G,End",         "G End",     ALL,      "",       0, NULL,         "to the bottom",                            cs_act_edge, 1},
    {"Enter",         "Enter",     JOBS,     "open",   1, NULL,         "open the job under the cursor",            cs_act_open, 0},
    {"h,Left",        "h Left",    PIPELINE, "",       0, NULL,         "earlier",                                  cs_act_scroll, -1},
    {"l,Right",       "l Right",   PIPELINE, "scroll", 2, NULL,         "later",                                    cs_act_scroll, 1},
    {"+,=",           "+",         PIPELINE, "zoom",   2, NULL,         "zoom in",                                  cs_act_zoom, 1},
    {"-",             "-",         PIPELINE, "",       0, NULL,         "zoom out",                                 cs_act_zoom, -1},
    {"Space",         "Space",     PIPELINE, "hold",   3, NULL,         "hold the timeline still, or let it go on", cs_act_hold, 0},
    {"x",             "x",         PIPELINE, "scale",  4, NULL,         "time axis: automatic, shared, one each",   cs_act_scale, 0},
    {"p",             "p",         PIPELINE, "what-if", 5, NULL,        "other plans than this one (Plan view)",    cs_act_whatif, 0},
    {"t",             "t",         PLAN,     "",       0, NULL,         "timeline: predicted, critical path marked", cs_act_part, CS_PLAN_TIMELINE},
    {"m",             "m",         PLAN,     "",       0, NULL,         "memory of every rank",                     cs_act_part, CS_PLAN_MEMORY},
    {"w",             "w",         PLAN,     "",       0, NULL,         "what-if: other cuts, schedules, layouts",  cs_act_part, CS_PLAN_WHATIF},
    {"b",             "b",         PLAN,     "",       0, NULL,         "balance of a sample batch's tokens",       cs_act_part, CS_PLAN_BALANCE},
    {"c",             "c",         PLAN,     "",       0, NULL,         "critical path as a list",                  cs_act_part, CS_PLAN_PATH},
    {"p",             "p",         PLAN,     "part",   1, NULL,         "next part",                                cs_act_next_part, 1},
    {"s",             "s",         PLAN,     "schedule", 2, NULL,       "preview the next schedule",                cs_act_schedule, 1},
    {"S",             "S",         PLAN,     "",       0, NULL,         "preview the schedule before",              cs_act_schedule, -1},
    {"]",             "]",         PLAN,     "slots",  3, NULL,         "preview twice the slots",                  cs_act_slots, 1},
    {"[",             "[",         PLAN,     "",       0, NULL,         "preview half the slots",                   cs_act_slots, -1},
    {"f",             "f",         PLAN,     "",       0, NULL,         "preview the frozen-blind cut, or back",    cs_act_cut, 0},
    {"o",             "o",         PLAN,     "",       0, NULL,         "preview encoders apart, colocated, replicated", cs_act_layout, 0},
    {"u",             "u",         PLAN,     "own",    3, NULL,         "back to the job's own plan",               cs_act_own, 0},
    {"Enter",         "Enter",     PLAN,     "look",   4, NULL,         "what-if: look at the row under the cursor", cs_act_choose, 0},
    {"h,Left",        "h Left",    PLAN,     "",       0, NULL,         "earlier; balance: slot before",            cs_act_sideways, -1},
    {"l,Right",       "l Right",   PLAN,     "scroll", 5, NULL,         "later; balance: next slot",                cs_act_sideways, 1},
    {"+,=",           "+",         PLAN,     "zoom",   4, NULL,         "zoom in; balance: one rank more",          cs_act_plus, 1},
    {"-",             "-",         PLAN,     "",       0, NULL,         "zoom out; balance: one rank less",         cs_act_plus, -1},
    {"a",             "a",         PLAN,     "",       0, NULL,         "rows: what fits best, every stage, groups",     cs_act_rows, 0},
    {"r",             "r",         PLAN,     "",       0, NULL,         "balance: next rule of the attention mask", cs_act_mask, 0},
    {"o",             "o",         GPUS,     "sort",   2, NULL,         "order: number, load, memory, power, temperature", cs_act_gpu_sort, 0},
    {"f",             "f",         GPUS,     "job",    3, NULL,         "only the GPUs of the selected job, or all", cs_act_gpu_mine, 0},
    {"v",             "v",         LOGS,     "level",  2, NULL,         "least level that is shown",                cs_act_level, 0},
    {"r",             "r",         LOGS,     "rank",   3, NULL,         "one rank after the other, then all",       cs_act_rank, 0},
    {"F",             "F",         LOGS,     "follow", 2, NULL,         "follow the newest line",                   cs_act_follow, 0},
    {"P",             "P",         ALL,      "pause",  4, &cs_order_pause, "pause or resume the job",                  cs_act_pause, 0},
    {"C",             "C",         ALL,      "checkpoint", 5, &cs_order_checkpoint, NULL,                                   cs_act_checkpoint, 0},
    {"X",             "X",         ALL,      "stop",   4, &cs_order_stop, NULL,                                       cs_act_stop, 0},
    {"1",             "1",         ALL,      "",       0, NULL,         "Jobs",                                     cs_act_view, CS_VIEW_JOBS},
    {"2",             "2",         ALL,      "",       0, NULL,         "Model",                                    cs_act_view, CS_VIEW_MODEL},
    {"3",             "3",         ALL,      "",       0, NULL,         "Pipeline",                                 cs_act_view, CS_VIEW_PIPELINE},
    {"6",             "6",         ALL,      "",       0, NULL,         "GPUs",                                     cs_act_view, CS_VIEW_GPUS},
    {"7",             "7",         ALL,      "",       0, NULL,         "Logs",                                     cs_act_view, CS_VIEW_LOGS},
    {"9",             "9",         ALL,      "",       0, NULL,         "Plan",                                     cs_act_view, CS_VIEW_PLAN},
    {"Tab,g t",       "Tab gt",    ALL,      "view",   1, NULL,         "next view",                                cs_act_cycle, 1},
    {"S-Tab,g T",     "S-Tab gT",  ALL,      "",       0, NULL,         "view before",                              cs_act_cycle, -1},
    {"Esc,Backspace", "Esc",       ALL,      "",       0, NULL,         "back to the jobs",                         cs_act_back, 0},
    {"C-l",           "C-l",       ALL,      "",       0, NULL,         "draw everything again",                    cs_act_repaint, 0},
    {"C-z",           "C-z",       ALL,      "",       0, NULL,         "suspend the console",                      cs_act_suspend, 0},
    {"?,F1",          "?",         ALL,      "keys",   0, NULL,         "this list",                                cs_act_help, 0},
    {"q,C-c C-c",     "q",         ALL,      "detach", 0, NULL,         "leave the console; jobs go on",            cs_act_quit, 0},
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
    {"F1",        CS_KEY_F1       },
};

const struct cs_key_row *cs_key_rows(int *n)
{
    *n = (int)CS_ARRAY_LEN(rows);
    return rows;
}

const char *cs_key_row_help(const struct cs_key_row *row)
{
    return row->help ? row->help : row->order ? row->order->help : row->label;
}

bool cs_key_parse(const char *name, size_t n, int *key)
{
    uint32_t code = 0;
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
    int argument = row->order ? (int)row->order->confirm : row->argument;
    screen->n_pending = 0;
    if (!is_allowed(screen, row)) {
        snprintf(screen->message, sizeof screen->message, "this console is read-only");
        screen->message_style = CS_STYLE_WARN;
        return CS_DO_DRAW;
    }
    return row->act(screen, store, argument) | CS_DO_DRAW;
}

static unsigned press(struct cs_screen *screen, const struct cs_store *store, int key)
{
    const struct cs_key_row *begun = NULL;
    int keys[3], n = screen->n_pending;
    memcpy(keys, screen->pending, (size_t)n * sizeof *keys);
    keys[n++] = key;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        enum match match = MATCH_NONE;
        if (rows[i].views & (1u << screen->view))
            match = match_row(&rows[i], keys, n);
        if (match == MATCH_WHOLE)
            return act(screen, store, &rows[i]);
        if (match == MATCH_BEGIN)
            begun = &rows[i];
    }
    if (begun && screen->n_pending < (int)CS_ARRAY_LEN(screen->pending)) {
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
    return 0;
}

unsigned cs_screen_key(struct cs_screen *screen, const struct cs_store *store, int key)
{
    screen->message[0] = '\0';
    if (screen->prompt != CS_PROMPT_NONE)
        return cs_prompt_key(screen, key) | CS_DO_DRAW;
    return press(screen, store, key) | CS_DO_DRAW;
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
        while (cs_screen_prepare(store, screen)) /* keys look at what is shown */
            ;
        *todo |= cs_screen_key(screen, store, key);
        if (*todo & CS_DO_SELECT)
            cs_store_select(store, screen->cursor_job);
        *todo &= ~(unsigned)CS_DO_SELECT;
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
