/* Tokens: how the language model's rows of the last step lie over the ranks of a context, what work
 * that is, and who waited. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/view.h"

enum { N_COLUMNS = 7, CELL = 128, ROWS = 64, BELOW = 4 };

static const struct cs_column columns[N_COLUMNS] = {
    {"RANK",  4, 0,  0, CS_ALIGN_RIGHT},
    {"STAGE", 5, 16, 4, CS_ALIGN_LEFT },
    {"ROWS",  4, 0,  0, CS_ALIGN_RIGHT},
    {"PAIRS", 5, 0,  3, CS_ALIGN_RIGHT},
    {"WORK",  4, 0,  0, CS_ALIGN_LEFT },
    {"IDLE",  4, 0,  2, CS_ALIGN_RIGHT},
    {"WAIT",  4, 0,  1, CS_ALIGN_RIGHT},
};

struct cells {
    char text[N_COLUMNS][CELL];
};

static void bar(char *out, double share, int width, enum cs_glyph_set glyphs)
{
    static const char *const full[CS_GLYPH_SETS] = {"█", "#"};
    size_t used = 0;
    for (int i = 0; i < width && used + 4 < CELL; i++)
        used += (size_t)snprintf(out + used, CELL - used, "%s",
                                 i < (int)(share * width + 0.5) ? full[glyphs]
                                                                : cs_glyph(glyphs, CS_GLYPH_IDLE));
}

static const char *stage_of(const struct cs_store *store, int32_t rank)
{
    const struct cs_plan *plan = store->model.plan;
    for (int32_t s = 0; plan != NULL && s < plan->n_stages && rank < cs_plan_world(plan); s++)
        if (plan->stages[s].rank == cs_plan_rank_in_replica(plan, rank))
            return plan->stages[s].name;
    return "-";
}

static void fill_cells(const struct cs_store *store, const struct cs_store_part *p, int width,
                       enum cs_glyph_set glyphs, struct cells *c)
{
    const double share = p->most > 0 ? p->flops / p->most : 0;
    char ms[CS_FMT_CAP], of_step[CS_FMT_CAP] = "";
    snprintf(c->text[0], CELL, "%d", p->rank);
    snprintf(c->text[1], CELL, "%s", stage_of(store, p->rank));
    snprintf(c->text[2], CELL, "%lld", (long long)p->rows);
    cs_fmt_count(c->text[3], CELL, p->pairs);
    bar(c->text[4], share, width, glyphs);
    cs_fmt_percent(c->text[5], CELL, p->most > 0 ? 1 - share : (double)NAN);
    cs_fmt_ms(ms, sizeof ms, 1e3 * (double)p->wait_us);
    if (store->context.step_ns > 0)
        cs_fmt_percent(of_step, sizeof of_step,
                       1e3 * (double)p->wait_us / (double)store->context.step_ns);
    snprintf(c->text[6], CELL, "%s %s", ms, of_step);
}

static int draw_list(const struct cs_store *store, const struct cs_screen *screen,
                     struct cs_area area)
{
    const struct cs_store_context *c = &store->context;
    struct cs_grid grid = {.column = columns, .n_columns = N_COLUMNS};
    const char *text[ROWS * N_COLUMNS] = {NULL};
    int n = area.h - 1 < ROWS ? area.h - 1 : ROWS;
    n = c->n < n ? c->n : n;
    struct cells *cells = calloc((size_t)(n > 0 ? n : 1), sizeof *cells);
    CS_ASSERT(cells);
    for (int i = 0; i < n; i++) {
        fill_cells(store, &c->part[i], area.w < 100 ? 16 : 32, screen->glyphs, &cells[i]);
        for (int k = 0; k < N_COLUMNS; k++)
            text[i * N_COLUMNS + k] = cells[i].text[k];
    }
    cs_grid_layout(&grid, text, n, area.w - 2);
    cs_grid_title(&grid, area, 1, 0);
    for (int i = 0; i < n; i++)
        cs_grid_row(&grid, area, 1, i + 1, CS_STYLE_TEXT, NULL, screen->glyphs,
                    &text[i * N_COLUMNS]);
    free(cells);
    return n;
}

static void draw_title(const struct cs_store *store, struct cs_area area)
{
    const struct cs_store_context *c = &store->context;
    struct cs_fields fields = {.n = 0};
    int64_t rows = 0, most = 0;
    int n = 0;
    for (; n < c->n && c->part[n].group == c->part[0].group; n++) {
        rows += c->part[n].rows;
        most = c->part[n].rows > most ? c->part[n].rows : most;
    }
    cs_fields_add(&fields, CS_STYLE_TITLE, 0, "step %lld", (long long)c->step);
    cs_fields_add(&fields, CS_STYLE_TEXT, 0, "%lld rows over %d ranks", (long long)rows, n);
    if (store->model.spec != NULL)
        cs_fields_add(&fields, CS_STYLE_TEXT, 1, "by %s", store->model.spec->context);
    if (rows > 0)
        cs_fields_add(&fields, CS_STYLE_DIM, 2, "the most rows are %.2f of the mean",
                      (double)most * n / (double)rows);
    cs_fields_draw(&fields, area, 1, 0);
}

static void draw_history(const struct cs_store *store, struct cs_area area, int y,
                         enum cs_glyph_set glyphs)
{
    double low, high;
    const int x = 30;
    cs_drawf(area, 1, y, CS_STYLE_TITLE, "largest work / mean  %.3f", store->context.balance);
    if (cs_spark_draw(store->balance, area, x, y, area.w - x - 18, glyphs, &low, &high) > 0)
        cs_drawf(area, area.w - 17, y, CS_STYLE_DIM, "%.3f to %.3f", low, high);
    cs_draw_cut(area, 1, y + 1, area.w - 2, CS_STYLE_DIM, glyphs,
                "idle: less work than the most; wait: ms for rows of others, share of the step");
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    const struct cs_store_context *c = &store->context;
    if (c->n == 0) {
        cs_draw_cut(area, 1, 1, area.w - 2, CS_STYLE_TEXT, screen->glyphs,
                    "this job has no step whose rows are split over ranks");
        cs_draw_cut(
            area, 1, 2, area.w - 2, CS_STYLE_DIM, screen->glyphs,
            "cs.plan { parallel = { llm = { cp = 2 } } } splits those of the language model");
        return;
    }
    draw_title(store, area);
    const int room = area.h - 2 - BELOW;
    const int n = draw_list(store, screen, cs_area_part(area, 0, 2, area.w, room));
    int y = 2 + n + 1;
    if (n < c->n)
        cs_drawf(area, 1, y++, CS_STYLE_DIM, "and %d ranks more", c->n - n);
    draw_history(store, area, y + 1, screen->glyphs);
}

static const struct cs_key_row keys[] = {
    {.keys = NULL},
};

const struct cs_view_ops cs_view_tokens = {
    .title = "Tokens",
    .short_title = "Tok",
    .key = "4",
    .help = "Context parallelism: of the last step, for every rank that splits the language "
            "model's rows with others, its rows,\n"
            "the pairs of query and key that its masks allow, its work beside that of the rank "
            "with most, how much it is idle for\n"
            "that, and how long it waited for rows of others, measured.\n"
            "Below: the largest work over the mean, now and in all steps; 1 is even.",
    .beside = {CS_VIEW_PIPELINE, CS_VIEW_LOGS},
    .keys = keys,
    .draw = draw,
};
