/* Views: pure functions of (store, screen state) into an area of the canvas, of any size. One table
 * lists them; the numbers are keys. 4 Tokens, 5 Metrics and 8 Lua keep theirs free.
 *
 * The Plan view shows simulations that somebody has to make before it is drawn: cs_screen_prepare.
 */
#ifndef CS_CONSOLE_VIEWS_VIEW_H
#define CS_CONSOLE_VIEWS_VIEW_H

#include "console/draw/canvas.h"
#include "console/store/store.h"

enum cs_view {
    CS_VIEW_JOBS,
    CS_VIEW_MODEL,
    CS_VIEW_PIPELINE,
    CS_VIEW_GPUS,
    CS_VIEW_LOGS,
    CS_VIEW_PLAN,
    CS_VIEW_COUNT
};

/* parts of the Plan view */
enum cs_plan_part {
    CS_PLAN_TIMELINE,
    CS_PLAN_MEMORY,
    CS_PLAN_WHATIF,
    CS_PLAN_BALANCE,
    CS_PLAN_PATH,
    CS_PLAN_PARTS
};

/* rows of its timeline and memory: what fits best (ranks, or groups of many), every stage, groups
 */
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

enum cs_prompt {
    CS_PROMPT_NONE,
    CS_PROMPT_CONFIRM, /* y */
    CS_PROMPT_TYPE     /* the number of the job */
};

enum { CS_RANK_ALL = -100, CS_ZOOM_MAX = 64, CS_BATCH_DEFAULT_RANKS = 4 };

/* What the user has chosen; everything else comes from the store. Zero-initialise, then
 * cs_screen_init. */
struct cs_screen {
    enum cs_view view;
    enum cs_glyph_set glyphs;
    bool is_read_only;

    int pending[2]; /* keys of a sequence that may go on */
    int n_pending;
    bool has_help;
    int help_top;

    int64_t cursor_job; /* Jobs; 0: the first */
    int model_top;      /* Model: first row shown */

    int stage_top;       /* Pipeline: first stage shown */
    int zoom;            /* 1, 2, 4 .. CS_ZOOM_MAX */
    double scroll;       /* start of the window, share of the whole, 0..1 */
    enum cs_scale scale; /* same time axis for predicted and measured */
    bool is_held;        /* the timeline stands still */

    enum cs_plan_part plan_part;
    enum cs_plan_rows plan_rows;
    int plan_top;     /* first row of the part */
    int plan_cursor;  /* What-if: row; Balance: rule */
    bool has_variant; /* a preview of job variant_job, else the job's own plan */
    int64_t variant_job;
    struct cs_variant variant;
    int batch_ranks, batch_slot; /* Balance; ranks 0: as the plan or CS_BATCH_DEFAULT_RANKS */
    enum cs_mask_kind batch_mask;

    int gpu_cursor; /* GPUs: row */
    enum cs_gpu_sort gpu_sort;
    bool gpus_of_job; /* only those of the selected job */

    enum cs_log_level log_level;
    int log_rank;       /* CS_RANK_ALL or a rank as in the store */
    bool is_log_still;  /* not following */
    int64_t log_bottom; /* then: number of the lowest line, counted from 0 since the selection */

    enum cs_prompt prompt;
    const char *order; /* message type that the prompt is about, "job.stop" */
    int64_t order_job;
    char typed[24];
    char message[256]; /* shown in place of the keys until the next key */
    enum cs_style message_style;
};

struct cs_view_row {
    const char *name; /* for --view and the manual */
    const char *title, *short_title;
    int number;             /* its key */
    enum cs_view beside[2]; /* shown beside it on large screens */
    void (*draw)(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area);
};

void cs_screen_init(struct cs_screen *screen, enum cs_glyph_set glyphs);
const struct cs_view_row *cs_view_row(enum cs_view view);
bool cs_view_find(const char *name, enum cs_view *view);

/* Makes the next piece of what this screen shows beyond the daemon's own figures (the Plan view);
 * returns whether more is left. Call it before drawing; cheap when everything is there. */
bool cs_screen_prepare(struct cs_store *store, const struct cs_screen *screen);
/* The whole screen: header, tabs, views, key line; whatever the canvas' size. */
void cs_screen_draw(const struct cs_store *store, const struct cs_screen *screen,
                    struct cs_canvas *canvas);

void cs_view_jobs(const struct cs_store *store, const struct cs_screen *screen,
                  struct cs_area area);
void cs_view_model(const struct cs_store *store, const struct cs_screen *screen,
                   struct cs_area area);
void cs_view_pipeline(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_area area);
void cs_view_gpus(const struct cs_store *store, const struct cs_screen *screen,
                  struct cs_area area);
void cs_view_logs(const struct cs_store *store, const struct cs_screen *screen,
                  struct cs_area area);
void cs_view_plan(const struct cs_store *store, const struct cs_screen *screen,
                  struct cs_area area);
/* keys of the current view, generated from the key table */
void cs_view_help(const struct cs_screen *screen, struct cs_area area);

/* the job that orders and Enter are about: under the cursor in Jobs, else the selected one; NULL */
const struct cs_store_job *cs_screen_job(const struct cs_store *store,
                                         const struct cs_screen *screen);
/* the variant that the Plan view is about; false: there is no plan */
bool cs_screen_variant(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_variant *variant);
int32_t cs_screen_batch_ranks(const struct cs_screen *screen);
/* Plan: moves the cursor or the first row of the part that is shown */
void cs_plan_move(struct cs_screen *screen, const struct cs_store *store, int rows);
/* the GPUs shown, in the order of their rows, as indices of store->gpus; returns how many */
int cs_gpu_list(const struct cs_store *store, const struct cs_screen *screen, int *out, int cap);
/* whether Logs shows a line */
bool cs_log_is_shown(const struct cs_screen *screen, const struct cs_store_line *line);

#endif
