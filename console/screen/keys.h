/* Keys: one table of sequences, views, actions and help. Key line, help screen and manual are made
 * from it; orders to jobs (pause, checkpoint, stop) take role, confirmation and help from the
 * table of orders (orders.h), as the commands of the same name do. */
#ifndef CS_CONSOLE_SCREEN_KEYS_H
#define CS_CONSOLE_SCREEN_KEYS_H

#include "console/screen/orders.h"
#include "console/views/view.h"

/* a key: a code point, C-a..C-z as 1..26, or one of these */
enum cs_key {
    CS_KEY_TAB = 9,
    CS_KEY_ENTER = 13,
    CS_KEY_ESC = 27,
    CS_KEY_BACKSPACE = 127,
    CS_KEY_UP = 0x110000, /* above the code points */
    CS_KEY_DOWN,
    CS_KEY_LEFT,
    CS_KEY_RIGHT,
    CS_KEY_HOME,
    CS_KEY_END,
    CS_KEY_PGUP,
    CS_KEY_PGDN,
    CS_KEY_BACKTAB,
    CS_KEY_F1
};

/* what the owner of the screen has to do after a key */
enum {
    CS_DO_DRAW = 1,
    CS_DO_QUIT = 2,
    CS_DO_SELECT = 4, /* cs_store_select(screen's job) and ask for it: see cs_screen_key */
    CS_DO_ORDER = 8,  /* send screen->order about screen->order_job */
    CS_DO_REPAINT = 16,
    CS_DO_SUSPEND = 32
};

/* "j" "g g" "C-d" "Space" "Enter" "Esc" "Tab" "S-Tab" "Up" "PgDn" "F1" "Backspace"; false: unknown
 */
bool cs_key_parse(const char *name, size_t n, int *key);

/* One key pressed: changes the screen, never the store. With CS_DO_SELECT the job to select is
 * screen->cursor_job. */
unsigned cs_screen_key(struct cs_screen *screen, const struct cs_store *store, int key);
/* keys by name, separated by spaces; a word that is no name is typed letter by letter. Stops at
 * quit. CS_USAGE names the word. */
enum cs_status cs_screen_keys(struct cs_screen *screen, struct cs_store *store, const char *names,
                              struct cs_err *err) CS_NODISCARD;

struct cs_key_row {
    const char *keys;             /* alternatives separated by ',', sequences by ' ' : "g g,Home" */
    const char *shown;            /* as people read it: "gg Home" */
    unsigned views;               /* bit per enum cs_view */
    const char *label;            /* in the key line, "" : only in the help */
    int priority;                 /* in the key line: higher goes first when space is short */
    const struct cs_order *order; /* what it orders a job to do, NULL nothing */
    const char *help;             /* NULL: the order's */
    unsigned (*act)(struct cs_screen *screen, const struct cs_store *store, int argument);
    int argument;
};

const struct cs_key_row *cs_key_rows(int *n);
const char *cs_key_row_help(const struct cs_key_row *row);

/* Private to keys.c and keys_act.c. */
typedef unsigned cs_key_act(struct cs_screen *screen, const struct cs_store *store, int argument);
cs_key_act cs_act_view, cs_act_cycle, cs_act_move, cs_act_page, cs_act_edge, cs_act_open,
    cs_act_back, cs_act_zoom, cs_act_scroll, cs_act_hold, cs_act_scale, cs_act_level, cs_act_rank,
    cs_act_gpu_sort, cs_act_gpu_mine, cs_act_follow, cs_act_help, cs_act_quit, cs_act_repaint,
    cs_act_suspend, cs_act_pause, cs_act_checkpoint,
    cs_act_stop; /* the last three: argument is enum cs_confirm */
/* of the Plan view, keys_plan.c */
cs_key_act cs_act_part, cs_act_next_part, cs_act_whatif, cs_act_schedule, cs_act_slots, cs_act_cut,
    cs_act_layout, cs_act_own, cs_act_choose, cs_act_rows, cs_act_mask, cs_act_plus,
    cs_act_sideways;
unsigned cs_prompt_key(struct cs_screen *screen, int key);

#endif
