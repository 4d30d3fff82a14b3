/* The table of keys: those of every view, and those of each. */

#include "console/screen/keys/keys.h"

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
    {"R", "R", "resume",     4, &cs_job_order_resume,     NULL,                      cs_act_resume,     0},
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

static int put(struct cs_key_row *out, int n, const struct cs_key_row *rows, size_t n_rows)
{
    CS_ASSERT(n + (int)n_rows <= CS_KEYS);
    for (size_t i = 0; i < n_rows; i++)
        out[(size_t)n + i] = rows[i];
    return n + (int)n_rows;
}

static int put_table(struct cs_key_row *out, const struct cs_key_row *rows)
{
    size_t n = 0;
    while (rows && rows[n].keys)
        n++;
    return rows ? put(out, 0, rows, n) : 0;
}

int cs_keys_own(enum cs_view view, struct cs_key_row out[CS_KEYS])
{
    return put_table(out, cs_view_ops(view)->keys);
}

int cs_keys_text(enum cs_view view, struct cs_key_row out[CS_KEYS])
{
    return cs_view_ops(view)->text ? put_table(out, cs_view_ops(view)->text->keys) : 0;
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
