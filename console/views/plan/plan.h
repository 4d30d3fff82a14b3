/* Parts of the Plan view, private to plan*.c. Each draws itself into an area and says how many rows
 * it would like. */
#ifndef CS_CONSOLE_VIEWS_PLAN_PLAN_H
#define CS_CONSOLE_VIEWS_PLAN_PLAN_H

#include "console/draw/widget.h"
#include "console/views/state/view.h"

struct cs_plan_part_row {
    const char *title; /* its key is its first letter */
    int (*want)(const struct cs_store *store, const struct cs_screen *screen, int width);
    void (*draw)(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area,
                 bool is_chosen);
    enum cs_plan_part below[2]; /* shown below it when there is room; CS_PLAN_PARTS: none */
    bool needs_preview;
};

/* plan_state.c: what variants of the store's plan are made from; plan NULL: there is none */
struct cs_variant_base cs_plan_base(const struct cs_store *store);
/* what was made of the store's plan as it is now, empty at first */
const struct cs_previews *cs_plan_previews(const struct cs_store *store,
                                           const struct cs_screen *screen);
/* the variant that the view is about; false: there is no plan */
bool cs_plan_variant(const struct cs_store *store, const struct cs_screen *screen,
                     struct cs_variant *variant);
/* found.c */
int cs_plan_found_want(const struct cs_store *store, const struct cs_screen *screen, int width);
void cs_plan_found_draw(const struct cs_store *store, const struct cs_screen *screen,
                        struct cs_area area, bool is_chosen);
void cs_plan_found_read(const struct cs_store *store, struct cs_buf *out); /* as lines */
unsigned cs_plan_found_pick(struct cs_screen *screen, const struct cs_store *store);
enum cs_view_run cs_plan_found_can_run(const struct cs_store *store,
                                       const struct cs_screen *screen);
unsigned cs_plan_found_run(struct cs_screen *screen, const struct cs_store *store);
int32_t cs_plan_batch_ranks(const struct cs_store *store, const struct cs_screen *screen);
bool cs_plan_prepare(struct cs_screen *screen, const struct cs_store *store);
/* the cursor or the first row of the part that is shown */
void cs_plan_move(struct cs_screen *screen, const struct cs_store *store, int rows);
/* plan_keys.c; ends with a row without keys */
extern const struct cs_key_row cs_plan_keys[];

/* the last of the rank's stages, and how many more: "llm.0 +1" */
void cs_plan_rank_name(const struct cs_forecast *forecast, int32_t rank, char *out, size_t cap);

int cs_plan_timeline_want(const struct cs_store *store, const struct cs_screen *screen, int width);
int cs_plan_memory_want(const struct cs_store *store, const struct cs_screen *screen, int width);
int cs_plan_whatif_want(const struct cs_store *store, const struct cs_screen *screen, int width);
int cs_plan_balance_want(const struct cs_store *store, const struct cs_screen *screen, int width);
int cs_plan_path_want(const struct cs_store *store, const struct cs_screen *screen, int width);
void cs_plan_timeline_draw(const struct cs_store *store, const struct cs_screen *screen,
                           struct cs_area area, bool is_chosen);
void cs_plan_memory_draw(const struct cs_store *store, const struct cs_screen *screen,
                         struct cs_area area, bool is_chosen);
void cs_plan_whatif_draw(const struct cs_store *store, const struct cs_screen *screen,
                         struct cs_area area, bool is_chosen);
void cs_plan_balance_draw(const struct cs_store *store, const struct cs_screen *screen,
                          struct cs_area area, bool is_chosen);
void cs_plan_path_draw(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_area area, bool is_chosen);

/* Rows of a list of n things in `room` rows: one each from `top` on, or groups of `per`. */
struct cs_plan_rows_shown {
    int first, n; /* rows; row i holds things [ (first + i) * per, ... + per ) cut to the list */
    int per;
};
struct cs_plan_rows_shown cs_plan_rows_share(const struct cs_screen *screen, int n, int room,
                                             int top);
/* "rows 3-10 of 64 (j/k)" at the right end of a line, when not all are shown */
void cs_plan_rows_note(const struct cs_plan_rows_shown *rows, int n, const char *what,
                       struct cs_area area, int y);

#endif
