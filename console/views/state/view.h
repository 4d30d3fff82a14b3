/* Views: pure functions of (store, screen state) into an area of the canvas, of any size.
 *
 * A view is one file of this folder, which defines its row `const struct cs_view_ops cs_view_NAME`,
 * and a line in views/registry.h. Tabs, keys, help, manual, subscriptions, dump and the tests are
 * driven by the row. */
#ifndef CS_CONSOLE_VIEWS_STATE_VIEW_H
#define CS_CONSOLE_VIEWS_STATE_VIEW_H

#include "console/draw/canvas.h"
#include "console/views/state/state.h"

/* what the owner of the screen has to do after a key */
enum {
    CS_DO_DRAW = 1,
    CS_DO_QUIT = 2,
    CS_DO_SELECT = 4, /* cs_store_select(screen's job) and ask for it: see cs_screen_key */
    CS_DO_ORDER = 8,  /* send screen->order about screen->order_job */
    CS_DO_REPAINT = 16,
    CS_DO_SUSPEND = 32,
    CS_DO_BESIDE = 64, /* cs_store_set_beside(screen->metrics.beside) and ask for them */
    CS_DO_COPY = 128,  /* the row under the cursor to the clipboard */
    CS_DO_PAGE = 256,  /* all rows of the list to the pager */
    CS_DO_SHELL = 512, /* screen->shell with the terminal to itself */
    CS_DO_LUA = 1024,  /* screen->lua->want */
    CS_DO_PICK = 2048  /* plan screen->pick of those found into the store */
};

/* Changes the screen, never the store; returns CS_DO_*. */
typedef unsigned cs_key_act(struct cs_screen *screen, const struct cs_store *store, int argument);

struct cs_key_row {
    const char *keys;  /* alternatives separated by ',', sequences by ' ' : "g g,Home" */
    const char *shown; /* as people read it: "gg Home" */
    const char *label; /* in the key line, "": only in the help */
    int priority;      /* in the key line: higher goes first when space is short */
    const struct cs_job_order *order; /* what it orders a job to do, NULL nothing */
    const char *help;                 /* NULL: the order's */
    cs_key_act *act;
    int argument;
};

/* A list with a cursor: what searching, filtering, copying, the mouse and plain output need of it. Rows
 * are those that the view's filter lets through, in the order they are shown. */
struct cs_view_list {
    int (*count)(const struct cs_store *store, const struct cs_screen *screen);
    int (*cursor)(const struct cs_store *store, const struct cs_screen *screen);
    /* every row as text, whole, in their order until `take` returns false */
    void (*each)(const struct cs_store *store, const struct cs_screen *screen,
                 bool (*take)(void *user, int row, const char *text), void *user);
    /* the row that draw puts at line y of the area, -1 none; NULL: rows are not clicked on */
    int (*row_at)(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area,
                  int y);
};

/* A view that is typed into: while it is open, keys and pasted text go there. */
struct cs_view_text {
    bool (*is_open)(const struct cs_screen *screen);
    const struct cs_key_row *keys; /* those of the key line, help and manual; they do nothing */
    /* returns CS_DO_*; 0: it is no key of the text, and does what it does in every view */
    unsigned (*key)(struct cs_screen *screen, const struct cs_store *store, int key);
    unsigned (*paste)(struct cs_screen *screen, const char *text, size_t n); /* CS_DO_* */
};

/* What R would do of what is no job yet: there is nothing of the kind, and R resumes a job; it says why it cannot
 * run; it runs. */
enum cs_view_run { CS_RUN_NOTHING, CS_RUN_REFUSED, CS_RUN_READY };

/* A row of the table of views. draw and the texts are required, NULL stands for nothing to do. */
struct cs_view_ops {
    const char *title, *short_title;
    const char *key;        /* that opens it: a digit */
    const char *help;       /* what it shows, for the manual: sentences, a line each */
    enum cs_view beside[2]; /* shown beside it on large screens */
    const char *command;    /* of the program that says the same, NULL none */
    bool is_of_job;         /* the command takes the number of the job */
    const char *subscribe;  /* flag of sub.open that is set while the view is shown: "gpus" */
    const struct cs_key_row *keys; /* of this view alone; ends with a row without keys */
    void (*draw)(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area);
    /* the cursor or the first row by so many rows, negative: up; cut to what there is */
    void (*move)(struct cs_screen *screen, const struct cs_store *store, int rows);
    /* Esc: one step back inside the view; false: there is none, and the jobs are shown */
    bool (*back)(struct cs_screen *screen);
    const struct cs_view_list *list; /* NULL: none */
    const struct cs_view_text *text; /* NULL: nothing is typed here */
    /* makes the next piece of what is shown beyond the daemon's own figures; returns whether more
     * is left */
    bool (*prepare)(struct cs_screen *screen, const struct cs_store *store);
    /* The view as lines for a screen reader, appended; NULL: the rows of its list are. */
    void (*read)(const struct cs_store *store, const struct cs_screen *screen, struct cs_buf *out);
    /* R of what is no job yet, run where can_run has something; NULL both: nothing of the kind */
    enum cs_view_run (*can_run)(const struct cs_store *store, const struct cs_screen *screen);
    unsigned (*run)(struct cs_screen *screen, const struct cs_store *store);
    /* the job under its cursor; NULL: orders are about the selected one */
    const struct cs_store_job *(*job)(const struct cs_store *store, const struct cs_screen *screen);
};

#define X(id, name) extern const struct cs_view_ops cs_view_##name;
CS_VIEW_TABLE(X)
#undef X

const struct cs_view_ops *cs_view_ops(enum cs_view view);
/* where what is typed goes now, unless a line is asked for: a text of the view that is shown; NULL: keys do
 * what their tables say */
const struct cs_view_text *cs_screen_text(const struct cs_screen *screen);
/* the row under the cursor of the view that is shown, of a list that has rows */
void cs_view_row_text(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_buf *out);
/* all its rows, a line each, made harmless */
void cs_view_rows_text(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_buf *out);
/* read.c: the view that is shown, as lines to be read one after the other; appended, harmless */
void cs_view_read(const struct cs_store *store, const struct cs_screen *screen, struct cs_buf *out);
const char *cs_view_name(enum cs_view view); /* "jobs" */
bool cs_view_find(const char *name, enum cs_view *view);

/* prepare of the view that is shown. Call it before drawing until it returns false, or draw in
 * between; cheap when everything is there. */
bool cs_screen_prepare(struct cs_screen *screen, const struct cs_store *store);

/* gpus.c: the GPUs shown, in the order of their rows, as indices of store->gpus; returns how
 * many */
int cs_gpu_list(const struct cs_store *store, const struct cs_screen *screen, int *out, int cap);

#endif
