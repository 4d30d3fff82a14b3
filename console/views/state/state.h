/* The state of a screen: what the user has chosen. Everything else that is shown comes from the
 * store. */
#ifndef CS_CONSOLE_VIEWS_STATE_STATE_H
#define CS_CONSOLE_VIEWS_STATE_STATE_H

#include "console/draw/glyph.h"
#include "console/draw/theme.h"
#include "console/store/store.h"
#include "console/views/state/edit.h"
#include "console/views/state/job_orders.h"
#include "console/views/state/lua_state.h"
#include "console/views/state/metrics_state.h"
#include "console/views/state/needle.h"
#include "console/views/state/registry.h"
#include "console/whatif/previews.h"

/* parts of the Plan view */
enum cs_plan_part {
    CS_PLAN_TIMELINE,
    CS_PLAN_MEMORY,
    CS_PLAN_WHATIF,
    CS_PLAN_BALANCE,
    CS_PLAN_PATH,
    CS_PLAN_FOUND, /* of a script that searches */
    CS_PLAN_PARTS
};

/* rows of its timeline and memory: what fits best (ranks, or groups of many), every stage, or
 * groups */
enum cs_plan_rows { CS_PLAN_ROWS_AUTO, CS_PLAN_ROWS_EACH, CS_PLAN_ROWS_GROUPS, CS_PLAN_ROWS_COUNT };

enum cs_scale { CS_SCALE_AUTO, CS_SCALE_SAME, CS_SCALE_OWN, CS_SCALE_COUNT };

enum cs_gpu_sort {
    CS_GPU_BY_NUMBER,
    CS_GPU_BY_LOAD,
    CS_GPU_BY_MEMORY,
    CS_GPU_BY_POWER,
    CS_GPU_BY_TEMP,
    CS_GPU_SORTS
};

enum cs_job_sort {
    CS_JOB_BY_AGE,
    CS_JOB_BY_NAME,
    CS_JOB_BY_OWNER,
    CS_JOB_BY_STATE,
    CS_JOB_BY_LOSS,
    CS_JOB_BY_STEP_TIME,
    CS_JOB_BY_ETA,
    CS_JOB_SORTS
};

enum cs_prompt {
    CS_PROMPT_NONE,
    CS_PROMPT_CONFIRM, /* y */
    CS_PROMPT_TYPE,    /* the number of the job */
    CS_PROMPT_FIND,    /* lines that are typed: edit */
    CS_PROMPT_FILTER,
    CS_PROMPT_COMMAND
};

/* A command of the program, for the palette, which lends it the terminal. */
struct cs_screen_command {
    const char *name, *usage, *help; /* "metrics", "[options] ID" */
    bool changes;                    /* something: not for a console that is read-only */
};

enum { CS_RANK_ALL = -100, CS_ZOOM_MAX = 64, CS_BATCH_DEFAULT_RANKS = 4 };

/* Where the reader stands in the selected job: all zero, at the beginning, when another is opened. */
struct cs_screen_place {
    int model_top;     /* Model: first row shown */
    int tokens_top;    /* Tokens: first rank shown */
    int stage_top;     /* Pipeline: first stage shown */
    bool is_held;      /* Pipeline: the timeline stands still */
    int plan_top;      /* Plan: first row of the part */
    int plan_cursor;   /* Plan: row of What-if, rule of Balance */
    int64_t log_line;  /* Logs: number of the line under the cursor; 0: follows the newest */
    bool is_log_whole; /* Logs: it stands whole below the others */
};

/* One view is shown (others may stand beside it); at most one prompt is open, about `order`. Made by
 * cs_screen_init, ended by cs_screen_free. */
struct cs_screen {
    enum cs_view view;
    enum cs_glyph_set glyphs;
    bool is_read_only;

    int pending[2]; /* keys of a sequence that may go on */
    int n_pending;
    bool has_help;
    int help_top;

    struct cs_screen_place at;
    int64_t cursor_job; /* Jobs; 0: the first */
    enum cs_job_sort job_sort;
    int64_t
        opened_ns; /* wall time when the screen was opened: later failures are told; 0: none are */
    int64_t failure;   /* job whose failure covers the view, 0 none */
    int64_t dismissed; /* job whose failure is told no more, and those before it; 0 none */

    /* Pipeline, and the timeline of Plan */
    int zoom;            /* 1, 2, 4 .. CS_ZOOM_MAX */
    double scroll;       /* start of the window, share of the whole, 0..1 */
    enum cs_scale scale; /* same time axis for predicted and measured */

    enum cs_plan_part plan_part;
    enum cs_plan_rows plan_rows;
    bool has_variant; /* a preview of job variant_job, else the job's own plan */
    int64_t variant_job;
    struct cs_variant variant;
    int pick;                    /* of the plans found: the one that CS_DO_PICK shows, from 1 */
    int batch_ranks, batch_slot; /* Balance; ranks 0: as the plan or CS_BATCH_DEFAULT_RANKS */
    enum cs_mask_kind batch_mask;
    struct cs_previews *previews; /* owned; NULL: nothing was made yet */

    int gpu_cursor; /* GPUs: row */
    enum cs_gpu_sort gpu_sort;
    bool gpus_of_job; /* only those of the selected job */

    struct cs_metrics_screen metrics;
    struct cs_lua_screen *lua; /* owned; NULL: nothing was typed yet */

    enum cs_log_level log_level;
    int log_rank; /* CS_RANK_ALL or a rank as in the store */
    bool log_wraps;

    char find[CS_NEEDLE_CAP];                  /* what n and N look for */
    int row_sort[CS_VIEW_COUNT];               /* of a table: views/row_list.h; 0: as they come */
    char filter[CS_VIEW_COUNT][CS_NEEDLE_CAP]; /* rows of a list without it are not shown */

    enum cs_prompt prompt;
    const struct cs_job_order
        *order; /* that the prompt is about; NULL: `question`, then CS_DO_SHELL */
    char question[120];
    int64_t order_job;
    char typed[24];
    struct cs_edit edit;
    int choice;                               /* of the palette: the one under the cursor */
    const struct cs_screen_command *commands; /* that it offers, borrowed */
    int n_commands;
    char shell[CS_EDIT_CAP];               /* the command that CS_DO_SHELL runs */
    const struct cs_screen_config *config; /* keys of the user, borrowed; NULL: none */
    bool has_mouse;
    int theme;         /* index of cs_theme_name, CS_THEME_AUTO: as the terminal and --color say */
    char message[256]; /* shown in place of the keys until the next key */
    enum cs_style message_style;
};

void cs_screen_init(struct cs_screen *screen, enum cs_glyph_set glyphs);
void cs_screen_free(struct cs_screen *screen); /* what it owns */
/* the job that orders and Enter are about: the view's own (under the cursor in Jobs), else the
 * selected one; NULL */
const struct cs_store_job *cs_screen_job(const struct cs_store *store,
                                         const struct cs_screen *screen);

/* what keys do in more than one view */
int cs_screen_clamp(int value, int low, int high);
/* a line in place of the keys until the next key */
void cs_screen_say(struct cs_screen *screen, enum cs_style style, const char *text);
void cs_screen_show(struct cs_screen *screen, enum cs_view view);
/* a line that is typed in place of the keys: find, filter */
void cs_screen_ask(struct cs_screen *screen, enum cs_prompt prompt, const char *text);
void cs_screen_zoom(struct cs_screen *screen, int direction);   /* of the timeline: twice or half */
void cs_screen_scroll(struct cs_screen *screen, int direction); /* by a quarter of what is shown */

#endif
