/* Keys: those of every view and those of each (views/view.h) are rows of one kind. Key line, help
 * screen and manual are made from them; orders to jobs (pause, checkpoint, stop) take role,
 * confirmation and help from the table of orders, as the commands of the same name do. */
#ifndef CS_CONSOLE_SCREEN_KEYS_KEYS_H
#define CS_CONSOLE_SCREEN_KEYS_KEYS_H

#include "console/views/state/key_codes.h"
#include "console/views/state/view.h"

/* "j" "g g" "C-d" "Space" "Enter" "Esc" "Tab" "S-Tab" "Up" "PgDn" "F1"
 * "Backspace"; false: unknown */
bool cs_key_parse(const char *name, size_t n, int *key);

/* One key pressed: changes the screen, never the store. With CS_DO_SELECT the job to select is
 * screen->cursor_job. */
unsigned cs_screen_key(struct cs_screen *screen, const struct cs_store *store, int key);
/* Text that was pasted, into what is being typed; returns CS_DO_*, 0: nothing is. */
unsigned cs_screen_paste(struct cs_screen *screen, const char *text, size_t n);
/* keys by name, separated by spaces; a word that is no name is typed letter by letter. Stops at
 * quit. CS_USAGE names the word. */
enum cs_status cs_screen_keys(struct cs_screen *screen, struct cs_store *store, const char *names,
                              struct cs_err *err) CS_NODISCARD;

enum { CS_KEYS = 96 /* most rows of one view with those of all */ };

/* The keys of a view in the order of key line and help, those that only it has, and those that
 * every view has. All return how many. */
int cs_keys_of(enum cs_view view, struct cs_key_row out[CS_KEYS]);
int cs_keys_own(enum cs_view view, struct cs_key_row out[CS_KEYS]);
int cs_keys_common(struct cs_key_row out[CS_KEYS]);
/* of what is typed in a view (cs_view_text) */
int cs_keys_text(enum cs_view view, struct cs_key_row out[CS_KEYS]);
const char *cs_key_row_help(const struct cs_key_row *row);

/* the name of a key as cs_key_parse reads it, "Alt-P" "F5" "C-x" "Space" */
void cs_key_name(int key, char out[24]);

/* What keys do; palette and mouse do the same. */
cs_key_act cs_act_view, cs_act_cycle, cs_act_move, cs_act_page, cs_act_edge, cs_act_back,
    cs_act_help, cs_act_quit, cs_act_repaint, cs_act_suspend, cs_act_pause, cs_act_checkpoint,
    cs_act_resume, cs_act_stop, cs_act_failure, cs_act_find, cs_act_filter, cs_act_next,
    cs_act_copy, cs_act_pager, cs_act_command, cs_act_mouse, cs_act_theme, cs_act_open,
    cs_act_shell;
/* asks first where the order wants it */
unsigned cs_order_job(struct cs_screen *screen, const struct cs_store *store,
                      const struct cs_job_order *what, int64_t job);
unsigned cs_prompt_key(struct cs_screen *screen, const struct cs_store *store, int key);

#endif
