/* Jobs: the list, and below it what is known of the job under the cursor. */
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/job_rows.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/job_state.h"

enum { MIN_LIST = 4, N_COLUMNS = CS_JOB_COLUMNS };

static enum cs_style state_style(const char *state)
{
    static const enum cs_style styles[] = {
        [CS_MOOD_PLAIN] = CS_STYLE_TEXT, [CS_MOOD_GOOD] = CS_STYLE_GOOD,
        [CS_MOOD_QUIET] = CS_STYLE_DIM,  [CS_MOOD_ATTENTION] = CS_STYLE_WARN,
        [CS_MOOD_BAD] = CS_STYLE_BAD,
    };

    return styles[cs_job_state_mood(state)];
}

/* the row of the job under the cursor; 0 when the filter hides it */
static int cursor_row(const struct cs_store *store, const struct cs_screen *screen, const int *rows,
                      int n)
{
    const int64_t id = screen->cursor_job ? screen->cursor_job : store->job;
    for (int i = 0; i < n; i++)
        if (store->jobs[rows[i]].id == id)
            return i;
    return 0;
}

/* --- drawing ---------------------------------------------------------------------------------- */

enum { MOST_DRAWN = 64 };

static int drawn_rows(struct cs_area area, bool has_head)
{
    const int rows = area.h - 1 - has_head;
    return rows > MOST_DRAWN ? MOST_DRAWN : rows;
}

static int top_row(int rows, int n, int cursor)
{
    int top = cursor - rows / 2;
    top = top > n - rows ? n - rows : top;
    return top > 0 ? top : 0;
}

/* what was chosen, where it is not all of them in the usual order */
static bool has_head(const struct cs_screen *screen)
{
    return screen->filter[CS_VIEW_JOBS][0] || screen->job_sort != CS_JOB_BY_AGE;
}

static void draw_head(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_area area, int n)
{
    struct cs_fields fields = {0};
    if (screen->filter[CS_VIEW_JOBS][0])
        cs_fields_add(&fields, CS_STYLE_TITLE, 0, "%d of %d job%s with \"%.60s\"", n, store->n_jobs,
                      CS_PLURAL(store->n_jobs), screen->filter[CS_VIEW_JOBS]);
    if (screen->job_sort != CS_JOB_BY_AGE)
        cs_fields_add(&fields, CS_STYLE_TITLE, 0, "sorted by %s",
                      cs_job_sort_name(screen->job_sort));
    cs_fields_draw(&fields, area, 1, 0);
}

static void draw_list(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_area area, const int *list, int n)
{
    struct cs_grid grid = {.column = cs_job_columns, .n_columns = N_COLUMNS};
    const bool is_headed = has_head(screen);
    const int cursor = cursor_row(store, screen, list, n);
    int rows = drawn_rows(area, is_headed), y = 1 + is_headed;
    const int top = top_row(rows, n, cursor);
    struct cs_job_cells cells[MOST_DRAWN];
    const char *text[MOST_DRAWN * N_COLUMNS] = {NULL};
    rows = rows > n - top ? n - top : rows;
    for (int i = 0; i < rows; i++) {
        cs_job_cells_fill(store, &store->jobs[list[top + i]], &cells[i]);
        for (int c = 0; c < N_COLUMNS; c++)
            text[i * N_COLUMNS + c] = cells[i].text[c];
    }
    draw_head(store, screen, area, n);
    cs_grid_layout(&grid, text, rows > 0 ? rows : 0, area.w - 2);
    cs_grid_title(&grid, area, 1, y - 1);
    for (int i = 0; i < rows; i++) {
        enum cs_style styles[N_COLUMNS] = {CS_STYLE_TEXT};

        bool is_cursor = top + i == cursor;
        styles[3] = state_style(store->jobs[list[top + i]].state);
        cs_grid_row(&grid, area, 1, y + i, CS_STYLE_CURSOR, is_cursor ? NULL : styles,
                    screen->glyphs, &text[i * N_COLUMNS]);
        if (is_cursor)
            cs_draw(area, 0, y + i, CS_STYLE_KEY, cs_glyph(screen->glyphs, CS_GLYPH_CURSOR));
    }
}

/* the job under the cursor, else the first one */
static const struct cs_store_job *job_of(const struct cs_store *store,
                                         const struct cs_screen *screen)
{
    int rows[CS_STORE_JOBS];
    const int n = cs_job_rows(store, screen, rows);
    return n > 0 ? &store->jobs[rows[cursor_row(store, screen, rows, n)]] : NULL;
}

/* the list takes what it needs, but leaves the details at least half; 0 rows of details: no room */
static int list_height(const struct cs_screen *screen, struct cs_area area, int n)
{
    const int want = n + 1 + has_head(screen), half = area.h / 2 > MIN_LIST ? area.h / 2 : MIN_LIST;
    const int height = want < half ? want : half;
    return area.h - height >= 6 ? height : area.h;
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    int rows[CS_STORE_JOBS];
    const int n = cs_job_rows(store, screen, rows), list = list_height(screen, area, n);
    if (store->n_jobs == 0) {
        cs_draw(area, 1, 0, CS_STYLE_TEXT, "No jobs yet.");
        cs_draw(area, 1, 2, CS_STYLE_DIM, "cornstarch-console run SCRIPT.lua   starts one");
        return;
    }
    draw_list(store, screen, cs_area_part(area, 0, 0, area.w, list), rows, n);
    if (n > 0 && list < area.h)
        cs_job_details(store, screen, &store->jobs[rows[cursor_row(store, screen, rows, n)]],
                       cs_area_part(area, 0, list + 1, area.w, area.h - list - 1));
}

/* --- as a list -------------------------------------------------------------------------------- */

static int count(const struct cs_store *store, const struct cs_screen *screen)
{
    int rows[CS_STORE_JOBS];
    return cs_job_rows(store, screen, rows);
}

static int cursor_of(const struct cs_store *store, const struct cs_screen *screen)
{
    int rows[CS_STORE_JOBS];
    const int n = cs_job_rows(store, screen, rows);
    return cursor_row(store, screen, rows, n);
}

static void each(const struct cs_store *store, const struct cs_screen *screen,
                 bool (*take)(void *user, int row, const char *text), void *user)
{
    int rows[CS_STORE_JOBS];
    const int n = cs_job_rows(store, screen, rows);
    struct cs_buf text = {0};
    bool goes_on = true;
    for (int i = 0; i < n && goes_on; i++) {
        cs_buf_reset(&text);
        cs_job_row_text(store, &store->jobs[rows[i]], &text);
        goes_on = take(user, i, cs_buf_str(&text));
    }
    cs_buf_free(&text);
}

static int row_at(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area,
                  int y)
{
    int rows[CS_STORE_JOBS];
    const int n = cs_job_rows(store, screen, rows), first = 1 + has_head(screen);
    const int list = list_height(screen, area, n);
    const int drawn = drawn_rows((struct cs_area){.w = area.w, .h = list}, has_head(screen));
    const int row = top_row(drawn, n, cursor_row(store, screen, rows, n)) + y - first;
    return y >= first && y < first + drawn && row < n ? row : -1;
}

static const struct cs_view_list list = {count, cursor_of, each, row_at};

/* every figure with its name; what is not known is left out */
static void read(const struct cs_store *store, const struct cs_screen *screen, struct cs_buf *out)
{
    int rows[CS_STORE_JOBS];
    const int n = cs_job_rows(store, screen, rows);
    cs_buf_addf(out, "%d job%s.\n", n, CS_PLURAL(n));
    for (int i = 0; i < n; i++) {
        const struct cs_store_job *job = &store->jobs[rows[i]];
        struct cs_job_cells c;
        cs_job_cells_fill(store, job, &c);
        cs_buf_addf(out, "Job %lld, ", (long long)job->id);
        cs_str_escape(out, job->name, strlen(job->name), false);
        for (int k = 2; k < N_COLUMNS; k++)
            if (strcmp(c.text[k], "-") != 0)
                cs_buf_addf(out, ", %s %s", cs_job_columns[k].title, c.text[k]);
        cs_buf_adds(out, job->reason[0] ? ". " : ".");
        cs_str_escape(out, job->reason, strlen(job->reason), false);
        cs_buf_addc(out, '\n');
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

static void move(struct cs_screen *screen, const struct cs_store *store, int steps)
{
    int rows[CS_STORE_JOBS];
    const int n = cs_job_rows(store, screen, rows);
    if (n > 0) {
        const int row = cs_screen_clamp(cursor_row(store, screen, rows, n) + steps, 0, n - 1);
        screen->cursor_job = store->jobs[rows[row]].id;
    }
}

static unsigned next_sort(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->job_sort = (enum cs_job_sort)((screen->job_sort + 1) % CS_JOB_SORTS);
    return CS_DO_DRAW;
}

static unsigned open_job(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    const struct cs_store_job *job = job_of(store, screen);
    (void)argument;
    if (!job)
        return CS_DO_DRAW;
    screen->cursor_job = job->id;
    screen->view = CS_VIEW_PIPELINE;
    screen->at = (struct cs_screen_place){0};
    return job->id != store->job ? CS_DO_SELECT : CS_DO_DRAW;
}

/* clang-format off */
static const struct cs_key_row keys[] = {
    {"Enter", "Enter", "open", 1, NULL, "open the job under the cursor", open_job, 0},
    {"o",     "o",     "sort", 3, NULL, "order: the newest, name, owner, state, loss, step time, time left", next_sort, 0},
    {.keys = NULL},
};

/* clang-format on */

const struct cs_view_ops cs_view_jobs = {
    .title = "Jobs",
    .short_title = "Jobs",
    .key = "1",
    .command = "jobs",
    .help = "All jobs, the newest first, and details of the one under the cursor.",
    .beside = {CS_VIEW_PIPELINE, CS_VIEW_LOGS},
    .keys = keys,
    .draw = draw,
    .move = move,
    .job = job_of,
    .list = &list,
    .read = read,
};
