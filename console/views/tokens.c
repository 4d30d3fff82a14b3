/* Tokens: how the language model's rows of the last step lie over the ranks of a context, what work
 * that is, and who waited. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/row_list.h"
#include "console/views/tokens.h"
#include "core/base/units.h"

enum { N_COLUMNS = 8, CELL = 128, HISTORY = 2 };

static const struct cs_column columns[N_COLUMNS] = {
    {"RANK",  4, 0,  0, CS_ALIGN_RIGHT},
    {"STAGE", 5, 16, 4, CS_ALIGN_LEFT },
    {"ROWS",  4, 0,  0, CS_ALIGN_RIGHT},
    {"PAIRS", 5, 0,  3, CS_ALIGN_RIGHT},
    {"WORK",  4, 0,  0, CS_ALIGN_LEFT },
    {"IDLE",  4, 0,  2, CS_ALIGN_RIGHT},
    {"TIME",  4, 0,  5, CS_ALIGN_RIGHT},
    {"WAIT",  4, 0,  1, CS_ALIGN_RIGHT},
};

struct cells {
    char text[N_COLUMNS][CELL];
};

static void bar(char *out, double share, int width, enum cs_glyph_set glyphs)
{
    static const char *const full[CS_GLYPH_SETS] = {"█", "#"};
    size_t used = 0;
    out[0] = '\0';
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
    const int64_t own_us = p->busy_us - p->wait_us;
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
    cs_fmt_ms(c->text[6], CELL, p->busy_us >= 0 ? 1e3 * (double)(own_us > 0 ? own_us : 0) : -1);
    snprintf(c->text[7], CELL, "%s %s", ms, of_step);
}

/* --- as a list -------------------------------------------------------------------------------- */

static int count_ranks(const struct cs_store *store)
{
    return store->context.n;
}

static void rank_text(const struct cs_store *store, const void *made, int i, struct cs_buf *out)
{
    struct cells c;
    (void)made;
    fill_cells(store, &store->context.part[i], 0, CS_GLYPHS_ASCII, &c);
    for (int k = 0; k < N_COLUMNS; k++)
        if (c.text[k][0])
            cs_buf_addf(out, "%s%s %s", k ? "  " : "", columns[k].title, c.text[k]);
}

static double rank_key(const struct cs_store *store, const void *made, int i, int sort)
{
    (void)made;
    const struct cs_store_part *p = &store->context.part[i];
    return sort == 1 ? p->flops : sort == 2 ? (double)p->wait_us : (double)p->rows;
}

static const struct cs_rows rows_of = {
    CS_VIEW_TOKENS, count_ranks, NULL, rank_text, rank_key, {"rank", "work", "wait", "rows"}
};

static int count(const struct cs_store *store, const struct cs_screen *screen)
{
    return cs_rows_count(&rows_of, store, screen);
}

static int cursor_of(const struct cs_store *store, const struct cs_screen *screen)
{
    const int n = count(store, screen);
    return cs_screen_clamp(screen->at.tokens_top, 0, n > 0 ? n - 1 : 0);
}

static void each(const struct cs_store *store, const struct cs_screen *screen,
                 bool (*take)(void *user, int row, const char *text), void *user)
{
    cs_rows_each(&rows_of, store, screen, take, user);
}

static const struct cs_view_list list = {count, cursor_of, each, NULL};

/* from the first rank shown on; returns how many rows it has drawn */
static int draw_list(const struct cs_store *store, const struct cs_screen *screen,
                     struct cs_area area)
{
    const struct cs_store_context *c = &store->context;
    struct cs_grid grid = {.column = columns, .n_columns = N_COLUMNS};
    int order[CS_ROWS_MAX];
    const int all = cs_rows_order(&rows_of, store, screen, order);
    const bool is_cut = all > area.h - 1;
    const int n = is_cut ? area.h - 2 : all;
    if (n < 1) {
        if (all == 0)
            cs_draw(area, 1, 0, CS_STYLE_DIM, "no rank passes the filter (f)");
        return all == 0;
    }
    const int top = cs_screen_clamp(screen->at.tokens_top, 0, all - n);
    struct cells *cells = calloc((size_t)n, sizeof *cells);
    const char **text = calloc((size_t)n * N_COLUMNS, sizeof *text);
    CS_ASSERT(cells != NULL && text != NULL);
    for (int i = 0; i < n; i++) {
        fill_cells(store, &c->part[order[top + i]], area.w < 100 ? 16 : 32, screen->glyphs,
                   &cells[i]);
        for (int k = 0; k < N_COLUMNS; k++)
            text[i * N_COLUMNS + k] = cells[i].text[k];
    }
    cs_grid_layout(&grid, text, n, area.w - 2);
    cs_grid_title(&grid, area, 1, 0);
    for (int i = 0; i < n; i++)
        cs_grid_row(&grid, area, 1, i + 1,
                    cs_rows_style(&rows_of, store, screen, NULL, order[top + i], CS_STYLE_TEXT),
                    NULL, screen->glyphs, &text[i * N_COLUMNS]);
    if (is_cut)
        cs_drawf(area, 1, n + 1, CS_STYLE_DIM, "%d to %d of %d ranks, j and k for others", top + 1,
                 top + n, all);
    free(cells);
    free(text);
    return 1 + n + is_cut;
}

static void draw_title(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_area area)
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
    cs_fields_add(&fields, CS_STYLE_TEXT, 0, "%lld row%s over %d rank%s", (long long)rows,
                  CS_PLURAL(rows), n, CS_PLURAL(n));
    if (store->model.spec != NULL)
        cs_fields_add(&fields, CS_STYLE_TEXT, 1, "by %s%s", store->model.spec->context,
                      store->model.plan != NULL && store->model.plan->moves_heads
                          ? ", attention by heads"
                          : "");
    if (rows > 0)
        cs_fields_add(&fields, CS_STYLE_DIM, 2, "the most rows are %.2f of the mean",
                      (double)most * n / (double)rows);
    if (c->sequence.n_cells > 0)
        cs_fields_add(&fields, CS_STYLE_DIM, 3, "a slot of %lld in blocks of %lld",
                      (long long)c->sequence.rows, (long long)c->sequence.block);
    cs_rows_head(&rows_of, store, screen, &fields);
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
                "idle: less work than the most; time: ms without the wait for rows of others");
}

struct rows {
    int sequence, list, rules, gap; /* gap: empty ones between the parts */
};

/* What is left goes to the ranks; without room for some of them the rules go first. */
static struct rows share_rows(const struct cs_store *store, const struct cs_screen *screen, int h)
{
    enum { LEAST = 4, PARTS = 4 };
    const struct cs_store_context *c = &store->context;
    const int wanted = 1 + count(store, screen);
    struct rows rows = {.sequence = c->sequence.n_cells > 0 ? 2 : 0,
                        .rules = cs_tokens_rules_want(store)};
    int left = h - 1 - rows.sequence - HISTORY - rows.rules;
    if (left < LEAST && left < wanted) {
        left += rows.rules;
        rows.rules = 0;
    }
    rows.gap = left >= wanted + PARTS || left >= LEAST + 2 * PARTS;
    left -= rows.gap * PARTS;
    rows.list = left < wanted ? left : wanted;
    return rows;
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
    draw_title(store, screen, area);
    int y = 1;
    const struct rows rows = share_rows(store, screen, area.h);
    if (rows.sequence > 0) {
        cs_tokens_sequence_draw(store, screen, area, y + rows.gap);
        y += rows.gap + rows.sequence;
    }
    y += rows.gap;
    y += draw_list(store, screen, cs_area_part(area, 0, y, area.w, rows.list)) + rows.gap;
    if (rows.rules > 0)
        y += cs_tokens_rules_draw(store, screen, cs_area_part(area, 0, 0, area.w, y + rows.rules),
                                  y) +
             rows.gap;
    draw_history(store, area, y, screen->glyphs);
}

static void move(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    const int n = count(store, screen);
    screen->at.tokens_top = cs_screen_clamp(cursor_of(store, screen) + rows, 0, n > 0 ? n - 1 : 0);
}

static unsigned next_sort(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    return cs_rows_next_sort(&rows_of, screen);
}

/* clang-format off */
static const struct cs_key_row keys[] = {
    {"o", "o", "sort", 3, NULL, "order: rank, work, wait, rows", next_sort, 0},
    {.keys = NULL},
};

/* clang-format on */

const struct cs_view_ops cs_view_tokens = {
    .title = "Tokens",
    .short_title = "Tok",
    .key = "4",
    .help =
        "Context parallelism: the sequence with most work of the last step, what its rows are "
        "and where their work lies.\n"
        "Of every rank that splits the language model's rows with others: its rows, the pairs of "
        "query and key that its masks\n"
        "allow, its work beside that of the rank with most, how much it is idle for that, how "
        "long it computed, and how long it\n"
        "waited for rows of others, measured.\n"
        "The same sequence under every rule: the load of each rank in percent of an even share, "
        "the largest over the mean, and\n"
        "how much slower than the best of them that is; the job's own rule is marked.\n"
        "Below: the largest work over the mean, now and in all steps; 1 is even.",
    .beside = {CS_VIEW_PIPELINE, CS_VIEW_LOGS},
    .keys = keys,
    .draw = draw,
    .move = move,
    .list = &list,
};
