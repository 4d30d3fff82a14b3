/* What every stage did with its time. */
#include "console/views/pipeline_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "console/draw/fmt.h"
#include "console/whatif/groups.h"
#include "core/base/str.h"

enum { N_COLUMNS = 10, CELL = 24, MAX_SHOWN = CS_PIPELINE_SHOWN };

static const struct cs_column columns[N_COLUMNS] = {
    {"rank",      4,  5,  0, CS_ALIGN_LEFT },
    {"stage",     8,  14, 0, CS_ALIGN_LEFT },
    {"busy ms",   7,  9,  0, CS_ALIGN_RIGHT},
    {"idle ms",   7,  9,  1, CS_ALIGN_RIGHT},
    {"bubble",    6,  7,  3, CS_ALIGN_RIGHT},
    {"wait recv", 9,  9,  5, CS_ALIGN_RIGHT},
    {"send",      5,  8,  7, CS_ALIGN_RIGHT},
    {"opt ms",    5,  8,  6, CS_ALIGN_RIGHT},
    {"fwd / bwd", 15, 19, 4, CS_ALIGN_RIGHT},
    {"drift",     6,  9,  2, CS_ALIGN_RIGHT},
};

void cs_pipeline_ranks(const struct cs_store *store, int32_t s, char *out, size_t cap)
{
    const struct cs_plan *plan = store->model.plan;
    if (plan && s < plan->n_stages)
        cs_groups_of_stage(plan, s, out, cap);
    else
        snprintf(out, cap, "%d", store->stages[s].rank);
}

/* measured over predicted work of a slot, minus 1; measured: the mean over the last steps */
static double drift_of(const struct cs_store *store, int32_t s)
{
    struct cs_timeline_stage predicted =
        cs_timeline_stage(&store->predicted, s, store->stages[s].rank);
    double planned_ns = cs_timeline_work_ns(&predicted);
    return planned_ns > 0 ? store->stages[s].work_ns / planned_ns - 1 : (double)NAN;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Slow: 5 % further behind its plan than the median stage. All devices may be faster or slower than
 * a plan assumed; that is nobody's fault. Returns the drift from which a stage is slow. */
static double slow_from(const struct cs_store *store)
{
    double drift[MAX_SHOWN];
    int n = 0;
    for (int32_t i = 0; i < store->n_stages && n < MAX_SHOWN; i++)
        if (!isnan(drift_of(store, i)))
            drift[n++] = drift_of(store, i);
    if (n < 2)
        return INFINITY;
    qsort(drift, (size_t)n, sizeof *drift, compare_doubles);
    return 1.05 * (1 + drift[(n - 1) / 2]) - 1;
}

static void fill_row(const struct cs_store *store, int32_t s, const struct cs_timeline *timeline,
                     char cell[N_COLUMNS][CELL])
{
    const struct cs_store_stage *stage = &store->stages[s];
    struct cs_timeline_stage t = cs_timeline_stage(timeline, s, stage->rank);
    char fwd[CS_FMT_CAP], bwd[CS_FMT_CAP];
    cs_pipeline_ranks(store, s, cell[0], CELL);
    cs_str_copy(cell[1], CELL, stage->name);
    cs_fmt_ms(cell[2], CELL, (double)t.busy_ns);
    cs_fmt_ms(cell[3], CELL, (double)t.idle_ns);
    cs_fmt_percent(cell[4], CELL, t.bubble);
    cs_fmt_ms(cell[5], CELL, (double)t.wait_recv_ns);
    cs_fmt_ms(cell[6], CELL, (double)t.wait_send_ns);
    cs_fmt_ms(cell[7], CELL, (double)t.opt_ns);
    cs_fmt_ms(fwd, sizeof fwd, t.fwd_ns);
    cs_fmt_ms(bwd, sizeof bwd, t.bwd_ns);
    snprintf(cell[8], CELL, "%.10s / %.10s", fwd, bwd);
    cs_fmt_drift(cell[9], CELL, drift_of(store, s));
}

static int count_stages(const struct cs_store *store)
{
    return store->predicted.arena || store->measured.arena ? store->n_stages : 0;
}

static const struct cs_timeline *told(const struct cs_store *store)
{
    return store->measured.arena ? &store->measured : &store->predicted;
}

static void stage_text(const struct cs_store *store, const void *made, int i, struct cs_buf *out)
{
    char cell[N_COLUMNS][CELL];
    (void)made;
    fill_row(store, i, told(store), cell);
    for (int k = 0; k < N_COLUMNS; k++)
        cs_buf_addf(out, "%s%s %s", k ? "  " : "", columns[k].title, cell[k]);
}

static double stage_key(const struct cs_store *store, const void *made, int i, int sort)
{
    (void)made;
    const struct cs_timeline_stage t = cs_timeline_stage(told(store), i, store->stages[i].rank);
    return sort == 1 ? t.bubble : sort == 2 ? (double)t.busy_ns : drift_of(store, i);
}

const struct cs_rows cs_pipeline_rows = {
    CS_VIEW_PIPELINE, count_stages, NULL,
    stage_text,       stage_key,    {"stage", "bubble", "busy", "drift"}
};

void cs_pipeline_table(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_area area, const int *stage, int n, int y)
{
    const struct cs_timeline *timeline = told(store);
    char cell[CS_PIPELINE_SHOWN][N_COLUMNS][CELL];
    const char *text[CS_PIPELINE_SHOWN * N_COLUMNS] = {NULL};
    struct cs_grid grid = {.column = columns, .n_columns = N_COLUMNS};
    for (int i = 0; i < n; i++) {
        fill_row(store, stage[i], timeline, cell[i]);
        for (int k = 0; k < N_COLUMNS; k++)
            text[i * N_COLUMNS + k] = cell[i][k];
    }
    const double slow = slow_from(store);
    cs_grid_layout(&grid, text, n, area.w - 2 - 6);
    cs_grid_title(&grid, area, 1, y);
    for (int i = 0; i < n; i++) {
        int x = 1;
        cs_grid_row(&grid, area, 1, y + 1 + i, CS_STYLE_TEXT, NULL, screen->glyphs,
                    &text[i * N_COLUMNS]);
        for (int k = 0; k < N_COLUMNS; k++)
            x += grid.width[k] > 0 ? grid.width[k] + CS_TABLE_GAP : 0;
        if (drift_of(store, stage[i]) > slow)
            cs_draw(area, x, y + 1 + i, CS_STYLE_WARN, "slow");
    }
}
