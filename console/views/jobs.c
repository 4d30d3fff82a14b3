/* Jobs: the list, and below it what is known of the job under the cursor. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/view.h"
#include "core/base/str.h"
#include "core/wire/job_state.h"

enum { N_COLUMNS = 11, CELL = 64, MIN_LIST = 4 };

static const struct cs_column columns[N_COLUMNS] = {
    {"ID",      2, 8,  0, CS_ALIGN_RIGHT},
    {"NAME",    8, 28, 0, CS_ALIGN_LEFT },
    {"OWNER",   4, 12, 7, CS_ALIGN_LEFT },
    {"STATE",   5, 9,  0, CS_ALIGN_LEFT },
    {"STEP",    4, 17, 0, CS_ALIGN_LEFT },
    {"LOSS",    5, 8,  1, CS_ALIGN_RIGHT},
    {"EXACT",   5, 6,  6, CS_ALIGN_RIGHT},
    {"STEP MS", 5, 9,  2, CS_ALIGN_RIGHT},
    {"BUBBLE",  6, 6,  3, CS_ALIGN_RIGHT},
    {"ELAPSED", 5, 8,  5, CS_ALIGN_RIGHT},
    {"ETA",     5, 8,  4, CS_ALIGN_RIGHT},
};

struct job_cells {
    char text[N_COLUMNS][CELL];
};

static void fmt_steps(char *out, size_t cap, const struct cs_store_job *job)
{
    if (job->step < 0)
        snprintf(out, cap, "-");
    else if (job->steps < 0)
        snprintf(out, cap, "%lld", (long long)job->step);
    else
        snprintf(out, cap, "%lld/%lld", (long long)job->step, (long long)job->steps);
}

static void fill_cells(const struct cs_store *store, const struct cs_store_job *job,
                       struct job_cells *c)
{
    snprintf(c->text[0], CELL, "%lld", (long long)job->id);
    cs_str_copy(c->text[1], CELL, job->name);
    cs_str_copy(c->text[2], CELL, job->owner[0] ? job->owner : "-");
    cs_str_copy(c->text[3], CELL, job->state);
    fmt_steps(c->text[4], CELL, job);
    cs_fmt_known_loss(c->text[5], CELL, job->loss);
    if (isfinite(job->exact_match))
        snprintf(c->text[6], CELL, "%.3f", job->exact_match);
    else
        snprintf(c->text[6], CELL, "-");
    cs_fmt_ms(c->text[7], CELL, job->step_ns > 0 ? (double)job->step_ns : (double)NAN);
    cs_fmt_percent(c->text[8], CELL, job->bubble);
    cs_fmt_elapsed(c->text[9], CELL, cs_store_ran_ns(store, job));
    cs_fmt_elapsed(c->text[10], CELL, cs_store_eta_ns(store, job));
}

static enum cs_style state_style(const char *state)
{
    static const enum cs_style styles[] = {
        [CS_MOOD_PLAIN] = CS_STYLE_TEXT, [CS_MOOD_GOOD] = CS_STYLE_GOOD,
        [CS_MOOD_QUIET] = CS_STYLE_DIM,  [CS_MOOD_ATTENTION] = CS_STYLE_WARN,
        [CS_MOOD_BAD] = CS_STYLE_BAD,
    };

    return styles[cs_job_state_mood(state)];
}

static void draw_list(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_area area, int cursor)
{
    struct cs_grid grid = {.column = columns, .n_columns = N_COLUMNS};
    int rows = area.h - 1, top = cursor - rows / 2;
    struct job_cells cells[64];
    const char *text[64 * N_COLUMNS] = {NULL};
    rows = rows > 64 ? 64 : rows;
    top = top > store->n_jobs - rows ? store->n_jobs - rows : top;
    top = top < 0 ? 0 : top;
    rows = rows > store->n_jobs - top ? store->n_jobs - top : rows;
    for (int i = 0; i < rows; i++) {
        fill_cells(store, &store->jobs[top + i], &cells[i]);
        for (int c = 0; c < N_COLUMNS; c++)
            text[i * N_COLUMNS + c] = cells[i].text[c];
    }
    cs_grid_layout(&grid, text, rows > 0 ? rows : 0, area.w - 2);
    cs_grid_title(&grid, area, 1, 0);
    for (int i = 0; i < rows; i++) {
        enum cs_style styles[N_COLUMNS] = {CS_STYLE_TEXT};

        bool is_cursor = top + i == cursor;
        styles[3] = state_style(store->jobs[top + i].state);
        cs_grid_row(&grid, area, 1, i + 1, CS_STYLE_CURSOR, is_cursor ? NULL : styles,
                    screen->glyphs, &text[i * N_COLUMNS]);
        if (is_cursor)
            cs_draw(area, 0, i + 1, CS_STYLE_KEY, cs_glyph(screen->glyphs, CS_GLYPH_CURSOR));
    }
}

/* --- details ---------------------------------------------------------------------------------- */

struct detail {
    struct cs_area area;
    enum cs_glyph_set glyphs;
    int y;
};

static void put(struct detail *d, const char *label, const char *fmt, ...) CS_PRINTF(3, 4);

static void put(struct detail *d, const char *label, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    cs_draw(d->area, 1, d->y, CS_STYLE_TITLE, label);
    cs_draw_cut(d->area, 12, d->y++, d->area.w - 13, CS_STYLE_TEXT, d->glyphs, text);
}

static void put_modules(struct detail *d, const struct cs_graph *graph)
{
    struct cs_buf line = {0};
    for (int32_t m = 0; m < graph->n_modules; m++) {
        int64_t n = 0, trained = 0;
        char count[CS_FMT_CAP];
        const struct cs_module *module = &graph->modules[m];
        for (int32_t l = 0; l < module->n_layers; l++) {
            n += graph->layers[module->first_layer + l].n_elements;
            trained += graph->layers[module->first_layer + l].n_trained;
        }
        cs_fmt_count(count, sizeof count, n);
        cs_buf_addf(&line, "%s%s %s %s", m ? "   " : "", module->name, count,
                    trained == 0   ? "frozen"
                    : trained == n ? "TRAIN"
                                   : "part TRAIN");
    }
    put(d, "model", "%s", cs_buf_str(&line));
    cs_buf_free(&line);
}

static void put_plan(struct detail *d, const struct cs_store *store)
{
    const struct cs_plan *plan = store->model.plan;
    char ms[CS_FMT_CAP];
    cs_fmt_ms(ms, sizeof ms,
              store->predicted.arena ? (double)store->predicted.spans.makespan_ns : (double)NAN);
    put(d, "plan", "%s   %d stages, %d ranks   %s   %d slots x %d tokens   predicted %s ms",
        store->model.spec->modality, plan->n_stages, cs_plan_world(plan), plan->schedule,
        plan->slots, plan->budget.seq_tokens, ms);
}

static void put_loss(struct detail *d, const struct cs_store *store)
{
    double low, high;
    char from[CS_FMT_CAP], to[CS_FMT_CAP];
    int width = d->area.w - 40 < 64 ? d->area.w - 40 : 64;
    if (cs_series_last_step(store->loss) < 0 || width < 8)
        return;
    cs_draw(d->area, 1, d->y, CS_STYLE_TITLE, "loss");
    int n = cs_spark_draw(store->loss, d->area, 12, d->y, width, d->glyphs, &low, &high);
    cs_fmt_known_loss(from, sizeof from, low);
    cs_fmt_known_loss(to, sizeof to, high);
    cs_drawf(d->area, 12 + n + 2, d->y++, CS_STYLE_DIM, "%s to %s", from, to);
}

static void put_now(struct detail *d, const struct cs_store *store, const struct cs_store_job *job)
{
    char ms[CS_FMT_CAP], lr[CS_FMT_CAP] = "-", norm[CS_FMT_CAP], tokens[CS_FMT_CAP];
    cs_fmt_ms(ms, sizeof ms, job->step_ns > 0 ? (double)job->step_ns : (double)NAN);
    cs_fmt_known_loss(norm, sizeof norm, store->train.grad_norm);
    cs_fmt_tokens(tokens, sizeof tokens, cs_store_tokens_per_s(store));
    if (isfinite(store->train.lr))
        snprintf(lr, sizeof lr, "%.3g", store->train.lr);
    put(d, "now", "%s ms/step   %s tok/s   grad norm %s   lr %s", ms, tokens, norm, lr);
}

static enum cs_style level_style(int level)
{
    return level == CS_ERROR ? CS_STYLE_BAD : level == CS_WARN ? CS_STYLE_WARN : CS_STYLE_TEXT;
}

static void put_notes(struct detail *d, const struct cs_store *store)
{
    int room = d->area.h - d->y - 1, n = store->notes.n;
    int first = n > room ? n - room : 0;
    if (n == 0 || room < 1)
        return;
    d->y++;
    for (int i = first; i < n; i++) {
        const struct cs_store_line *note = cs_store_line(&store->notes, i);
        char clock[CS_FMT_CAP];
        cs_fmt_clock(clock, sizeof clock, note->wall_ns);
        cs_draw(d->area, 1, d->y, CS_STYLE_DIM, clock);
        cs_draw_cut(d->area, 12, d->y++, d->area.w - 13, level_style(note->level), d->glyphs,
                    note->text);
    }
}

/* the worst one; all are among the notes, and in 'show' */
static void put_alarms(struct detail *d, const struct cs_store_job *job)
{
    char more[32] = "";
    if (job->n_alarms == 0)
        return;
    if (job->n_alarms > 1)
        snprintf(more, sizeof more, "(1 of %d) ", job->n_alarms);
    cs_draw(d->area, 1, d->y, CS_STYLE_TITLE, "alarm");
    cs_draw_cut(d->area, 12, d->y, d->area.w - 13, CS_STYLE_TEXT, d->glyphs, more);
    const int at = 12 + (int)strlen(more);
    cs_draw_cut(d->area, at, d->y++, d->area.w - 1 - at, level_style(job->alarm_level), d->glyphs,
                job->alarm);
}

static void draw_details(const struct cs_store *store, const struct cs_screen *screen,
                         const struct cs_store_job *job, struct cs_area area)
{
    struct detail d = {.area = area, .glyphs = screen->glyphs, .y = 1};
    char submitted[CS_FMT_CAP], title[128];
    cs_fill(area, 0, 0, area.w, CS_STYLE_DIM, cs_glyph(screen->glyphs, CS_GLYPH_HLINE));
    snprintf(title, sizeof title, " %lld %s ", (long long)job->id, job->name);
    cs_draw_cut(area, 2, 0, area.w - 4, CS_STYLE_TITLE, screen->glyphs, title);
    cs_fmt_clock(submitted, sizeof submitted, job->submitted_ns);
    put(&d, "submitted", "%s by %s   spec %.8s   plan %.8s   generation %lld", submitted,
        job->owner[0] ? job->owner : "-", job->spec_hash[0] ? job->spec_hash : "-",
        job->plan_hash[0] ? job->plan_hash : "-", (long long)job->generation);
    if (job->checkpoint_step >= 0)
        put(&d, "checkpoint", "step %lld", (long long)job->checkpoint_step);
    if (job->place > 0)
        put(&d, "queue", "place %lld", (long long)job->place);
    if (job->reason[0])
        put(&d, "reason", "%s", job->reason);
    if (job->tags[0])
        put(&d, "tags", "%s", job->tags);
    if (job->note[0])
        put(&d, "note", "%s", job->note);
    put_alarms(&d, job);
    if (isfinite(job->exact_match))
        put(&d, "held-out", "exact match %.3f", job->exact_match);
    char energy[120];
    cs_fmt_energy(energy, sizeof energy, job->energy_mj, job->step_energy_mj, job->tokens_per_j);
    if (energy[0])
        put(&d, "energy", "%s", energy);
    if (job->id != store->job) {
        put(&d, "", "Enter opens it");
        return;
    }
    if (store->model.graph)
        put_modules(&d, store->model.graph);
    if (store->model.plan)
        put_plan(&d, store);
    if (store->model_error[0])
        put(&d, "problem", "%s", store->model_error);
    put_now(&d, store, job);
    put_loss(&d, store);
    put_notes(&d, store);
}

/* the job under the cursor, else the newest */
static const struct cs_store_job *job_of(const struct cs_store *store,
                                         const struct cs_screen *screen)
{
    int64_t id = screen->cursor_job ? screen->cursor_job : store->job;
    const struct cs_store_job *job = cs_store_find(store, id);
    return job || store->n_jobs == 0 ? job : &store->jobs[0];
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    const struct cs_store_job *job = job_of(store, screen);
    if (!job) {
        cs_draw(area, 1, 0, CS_STYLE_TEXT, "No jobs yet.");
        cs_draw(area, 1, 2, CS_STYLE_DIM, "cornstarch-console run SCRIPT.lua   starts one");
        return;
    }
    /* the list takes what it needs, but leaves the details at least half */
    int want = store->n_jobs + 1, list = area.h / 2 > MIN_LIST ? area.h / 2 : MIN_LIST;
    list = want < list ? want : list;
    bool has_details = area.h - list >= 6;
    list = has_details ? list : area.h;
    draw_list(store, screen, cs_area_part(area, 0, 0, area.w, list), (int)(job - store->jobs));
    if (has_details)
        draw_details(store, screen, job,
                     cs_area_part(area, 0, list + 1, area.w, area.h - list - 1));
}

/* --- keys ------------------------------------------------------------------------------------- */

static int index_of(const struct cs_store *store, int64_t job)
{
    for (int i = 0; i < store->n_jobs; i++)
        if (store->jobs[i].id == job)
            return i;
    return 0;
}

static void move(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    if (store->n_jobs > 0)
        screen->cursor_job = store
                                 ->jobs[cs_screen_clamp(index_of(store, screen->cursor_job) + rows,
                                                        0, store->n_jobs - 1)]
                                 .id;
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
    {.keys = NULL},
};

/* clang-format on */

const struct cs_view_ops cs_view_jobs = {
    .title = "Jobs",
    .short_title = "Jobs",
    .key = "1",
    .help = "All jobs, the newest first, and details of the one under the cursor.",
    .beside = {CS_VIEW_PIPELINE, CS_VIEW_LOGS},
    .keys = keys,
    .draw = draw,
    .move = move,
    .job = job_of,
};
