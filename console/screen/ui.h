/* The screen of the console: terminal, store and views on one event loop. It draws at most ten
 * times a second and only what changed; without messages and keys it sleeps. */
#ifndef CS_CONSOLE_SCREEN_UI_H
#define CS_CONSOLE_SCREEN_UI_H

#include "console/draw/glyph.h"
#include "console/draw/theme.h"
#include "console/link/client.h"

struct cs_store;
struct cs_screen_command;
struct cs_engine;

struct cs_ui_options {
    struct cs_store *store; /* shown as it is, in the Plan view, without a client; borrowed */
    /* of a store with plans found: the plan number n from now on; NULL: none */
    enum cs_status (*pick)(void *user, struct cs_store *store, int n, struct cs_err *err);
    void *pick_user;
    int64_t job;        /* opens on this job's Pipeline; 0: the list of jobs */
    bool is_watching;   /* run mode: shows the end of `job` and stays until q */
    bool is_read_only;  /* no orders to jobs */
    const char *color;  /* "auto" "always" "never"; NULL: auto */
    const char *glyphs; /* "auto" "utf8" "ascii"; NULL: auto */
    bool has_mouse;
    const struct cs_screen_command *commands; /* that the palette offers; borrowed */
    int n_commands;
    const char *socket;             /* that those commands take; NULL: your own daemon */
    const struct cs_engine *engine; /* of the Lua view, borrowed; NULL: there is none */
};

struct cs_ui_result {
    int64_t job;    /* watched or last selected, 0 none */
    char state[16]; /* of that job when the screen closed */
    bool is_over;   /* the job has ended */
    int exit;       /* exit code a waiting console takes: 0 unless the watched job failed */
};

/* Takes over the terminal and the client's callbacks until the user leaves. client NULL: with a
 * store. CS_UNSUPPORTED:
 * standard input or output is no terminal, or it cannot place the cursor (fall back to plain
 * output). The terminal is always given back as it was; how to come back is printed on standard
 * output. */
enum cs_status cs_ui_run(struct event_base *base, struct cs_client *client,
                         const struct cs_ui_options *options, struct cs_ui_result *result,
                         struct cs_err *err) CS_NODISCARD;

#endif
