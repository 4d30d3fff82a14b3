/* GPUs: one row per card with its load, memory, power, temperature, clocks and who uses it; below,
 * what holds a card back, and the card under the cursor with its history and its processes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "console/views/gpu_card.h"
#include "console/views/state/view.h"
#include "core/base/str.h"
#include "core/base/units.h"

enum { N_COLUMNS = 11, CELL = CS_GPU_CELL, MIN_LIST = 5, ROWS = 64 };

static const struct cs_column columns[N_COLUMNS] = {
    {"DEVICE", 6, 8,  0, CS_ALIGN_LEFT },
    {"MODEL",  8, 22, 8, CS_ALIGN_LEFT },
    {"UTIL",   4, 0,  0, CS_ALIGN_LEFT },
    {"MEMORY", 6, 0,  0, CS_ALIGN_LEFT },
    {"POWER",  5, 0,  1, CS_ALIGN_RIGHT},
    {"TEMP",   4, 0,  0, CS_ALIGN_RIGHT},
    {"MHZ",    4, 0,  3, CS_ALIGN_RIGHT},
    {"HOLDS",  9, 22, 7, CS_ALIGN_LEFT },
    {"JOB",    5, 0,  2, CS_ALIGN_LEFT },
    {"OWNER",  5, 12, 6, CS_ALIGN_LEFT },
    {"STAGE",  5, 14, 5, CS_ALIGN_LEFT },
};

static const char *const sort_names[] = {"number", "load", "memory", "power", "temperature"};
_Static_assert(CS_ARRAY_LEN(sort_names) == CS_GPU_SORTS, "one name per order");

/* --- which cards ------------------------------------------------------------------------------ */

static double sort_value(const struct cs_store_gpu *gpu, enum cs_gpu_sort sort)
{
    const double values[CS_GPU_SORTS] = {
        [CS_GPU_BY_LOAD] = gpu->busy,
        [CS_GPU_BY_MEMORY] = gpu->mem_used_bytes < 0 ? (double)NAN : (double)gpu->mem_used_bytes,
        [CS_GPU_BY_POWER] = gpu->power_mw < 0 ? (double)NAN : (double)gpu->power_mw,
        [CS_GPU_BY_TEMP] = gpu->temp_c < 0 ? (double)NAN : (double)gpu->temp_c,
    };

    return isnan(values[sort]) ? -1 : values[sort];
}

static void row_text(const struct cs_store *store, const struct cs_store_gpu *gpu,
                     struct cs_buf *out);

static bool is_listed(const struct cs_store *store, const struct cs_screen *screen,
                      const struct cs_needle *filter, const struct cs_store_gpu *gpu)
{
    struct cs_buf text = {0};
    if (screen->gpus_of_job && store->job != 0 && gpu->job != store->job)
        return false;
    if (!filter->is_empty)
        row_text(store, gpu, &text);
    const bool is_match = cs_needle_match(filter, cs_buf_str(&text), NULL, NULL);
    cs_buf_free(&text);
    return is_match;
}

int cs_gpu_list(const struct cs_store *store, const struct cs_screen *screen, int *out, int cap)
{
    const struct cs_store_gpus *gpus = &store->gpus;
    struct cs_needle filter;
    int n = 0;
    cs_needle_make(&filter, screen->filter[CS_VIEW_GPUS]);
    for (int i = 0; i < gpus->n && n < cap; i++)
        if (is_listed(store, screen, &filter, &gpus->gpu[i]))
            out[n++] = i;
    cs_needle_free(&filter);
    for (int i = 1; i < n; i++) { /* few and nearly sorted; equal ones keep their order */
        int mine = out[i], k = i;
        for (; k > 0 && sort_value(&gpus->gpu[out[k - 1]], screen->gpu_sort) <
                            sort_value(&gpus->gpu[mine], screen->gpu_sort);
             k--)
            out[k] = out[k - 1];
        out[k] = mine;
    }
    return n;
}

/* --- cells ------------------------------------------------------------------------------------ */

static void bar(char *out, size_t cap, double ratio, int width, enum cs_glyph_set glyphs)
{
    static const char *const full[CS_GLYPH_SETS] = {"█", "#"};
    int filled = isnan(ratio) ? 0 : (int)(ratio * width + 0.5);
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < width && used + 4 < cap; i++)
        used += (size_t)snprintf(out + used, cap - used, "%s",
                                 i < filled ? full[glyphs] : cs_glyph(glyphs, CS_GLYPH_IDLE));
}

static void util_cell(char *out, const struct cs_store_gpu *gpu, int width,
                      enum cs_glyph_set glyphs)
{
    char text[CELL];
    bar(text, sizeof text, gpu->busy, width, glyphs);
    if (isnan(gpu->busy))
        snprintf(out, CELL, "%s    -", text);
    else
        snprintf(out, CELL, "%s %3.0f%%", text, gpu->busy * 100);
}

static double ratio_of(int64_t part, int64_t whole)
{
    return part < 0 || whole <= 0 ? (double)NAN : part > whole ? 1 : (double)part / (double)whole;
}

static void memory_cell(char *out, const struct cs_store_gpu *gpu, int width,
                        enum cs_glyph_set glyphs)
{
    char text[CELL], used[CS_FMT_CAP] = "?", all[CS_FMT_CAP] = "?";
    bar(text, sizeof text, ratio_of(gpu->mem_used_bytes, gpu->mem_bytes), width, glyphs);
    if (gpu->mem_used_bytes >= 0)
        snprintf(used, sizeof used, "%.1f", (double)gpu->mem_used_bytes / (1 << 30));
    if (gpu->mem_bytes >= 0)
        snprintf(all, sizeof all, "%.0f", (double)gpu->mem_bytes / (1 << 30));
    if (gpu->mem_used_bytes < 0 && gpu->mem_bytes < 0) {
        snprintf(out, CELL, "%s    -", text);
        return;
    }
    if (gpu->mem_bytes < 0) { /* of a CPU rank: the machine's memory is everybody's */
        cs_bytes_print(used, sizeof used, (uint64_t)gpu->mem_used_bytes);
        snprintf(out, CELL, "%s %8s", text, used);
        return;
    }
    snprintf(out, CELL, width < 8 ? "%s %4s/%s" : "%s %4s/%s GiB", text, used, all);
}

static void power_cell(char *out, const struct cs_store_gpu *gpu)
{
    char drawn[CELL], limit[CELL];
    cs_gpu_number(drawn, gpu->power_mw, 1000, "");
    cs_gpu_number(limit, gpu->power_limit_mw, 1000, "");
    if (gpu->power_mw < 0 && gpu->power_limit_mw < 0)
        snprintf(out, CELL, "-");
    else
        snprintf(out, CELL, "%.20s/%.20s W", drawn, limit);
}

static void stage_cell(char *out, const struct cs_store *store, const struct cs_store_gpu *gpu)
{
    size_t used = 0;
    snprintf(out, CELL, "-");
    for (int s = 0; s < store->n_stages && gpu->job == store->job && gpu->job > 0; s++)
        if (store->stages[s].rank == gpu->rank && used + 1 < CELL)
            used += (size_t)snprintf(out + used, CELL - used, "%s%s", used ? "+" : "",
                                     store->stages[s].name);
}

struct gpu_cells {
    char text[N_COLUMNS][CELL];
};

static void fill_cells(const struct cs_store *store, const struct cs_store_gpu *gpu, int width,
                       enum cs_glyph_set glyphs, struct gpu_cells *c)
{
    cs_str_copy(c->text[0], CELL, gpu->name);
    const char *model = cs_str_starts(gpu->model, "NVIDIA ") ? gpu->model + 7 : gpu->model;
    cs_str_copy(c->text[1], CELL, model);
    util_cell(c->text[2], gpu, width, glyphs);
    memory_cell(c->text[3], gpu, width - 2, glyphs);
    power_cell(c->text[4], gpu);
    cs_gpu_number(c->text[5], gpu->temp_c, 1, " C");
    cs_gpu_number(c->text[6], gpu->sm_mhz, 1, "");
    cs_str_copy(c->text[7], CELL,
                gpu->error[0]      ? gpu->error
                : gpu->throttle[0] ? gpu->throttle
                                   : "-");
    snprintf(c->text[8], CELL, "-");
    if (gpu->job > 0)
        snprintf(c->text[8], CELL, "%lld/%lld", (long long)gpu->job, (long long)gpu->rank);
    cs_str_copy(c->text[9], CELL, gpu->owner[0] ? gpu->owner : "-");
    stage_cell(c->text[10], store, gpu);
}

/* its figures without bars */
static void row_text(const struct cs_store *store, const struct cs_store_gpu *gpu,
                     struct cs_buf *out)
{
    struct gpu_cells c;
    fill_cells(store, gpu, 1, CS_GLYPHS_ASCII, &c);
    cs_buf_adds(out, c.text[0]);
    for (int i = 1; i < N_COLUMNS; i++)
        if (i != 2)
            cs_buf_addf(out, "  %s", c.text[i]);
    if (!isnan(gpu->busy))
        cs_buf_addf(out, "  busy %.0f%%", gpu->busy * 100);
}

static enum cs_style temp_style(const struct cs_store_gpu *gpu)
{
    if (gpu->temp_c < 0 || gpu->slowdown_c <= 0)
        return CS_STYLE_TEXT;
    return gpu->temp_c >= gpu->slowdown_c       ? CS_STYLE_BAD
           : gpu->temp_c >= gpu->slowdown_c - 5 ? CS_STYLE_WARN
                                                : CS_STYLE_TEXT;
}

/* --- the list --------------------------------------------------------------------------------- */

/* Bars with their figures are dropped or whole, never cut in the middle. */
static void keep_figures_whole(struct cs_column own[N_COLUMNS], const struct gpu_cells *cells,
                               int rows)
{
    memcpy(own, columns, sizeof columns);
    for (int c = 2; c <= 3; c++)
        for (int i = 0; i < rows; i++) {
            int width = cs_utf8_width(cells[i].text[c], strlen(cells[i].text[c]));
            own[c].min_width = width > own[c].min_width ? width : own[c].min_width;
        }
}

static int drawn_rows(struct cs_area area)
{
    return area.h - 1 < ROWS ? area.h - 1 : ROWS;
}

static int top_row(int rows, int n, int cursor)
{
    int top = cursor - rows / 2;
    top = top > n - rows ? n - rows : top;
    return top > 0 ? top : 0;
}

static void draw_list(const struct cs_store *store, const struct cs_screen *screen,
                      struct cs_area area, const int *list, int n, int cursor)
{
    struct cs_column own[N_COLUMNS];
    struct cs_grid grid = {.column = own, .n_columns = N_COLUMNS};
    int rows = drawn_rows(area), top = top_row(rows, n, cursor);
    int width = area.w < 100 ? 8 : 12;
    const char *text[ROWS * N_COLUMNS] = {NULL};
    rows = rows > n - top ? n - top : rows;
    struct gpu_cells *cells = calloc((size_t)(rows > 0 ? rows : 1), sizeof *cells);
    CS_ASSERT(cells);
    for (int i = 0; i < rows; i++) {
        fill_cells(store, &store->gpus.gpu[list[top + i]], width, screen->glyphs, &cells[i]);
        for (int c = 0; c < N_COLUMNS; c++)
            text[i * N_COLUMNS + c] = cells[i].text[c];
    }
    keep_figures_whole(own, cells, rows);
    cs_grid_layout(&grid, text, rows > 0 ? rows : 0, area.w - 2);
    cs_grid_title(&grid, area, 1, 0);
    for (int i = 0; i < rows; i++) {
        const struct cs_store_gpu *gpu = &store->gpus.gpu[list[top + i]];

        enum cs_style styles[N_COLUMNS] = {CS_STYLE_TEXT};

        bool is_cursor = top + i == cursor;
        styles[5] = temp_style(gpu);
        styles[7] = gpu->error[0] ? CS_STYLE_BAD : gpu->throttle[0] ? CS_STYLE_WARN : CS_STYLE_DIM;
        cs_grid_row(&grid, area, 1, i + 1, CS_STYLE_CURSOR, is_cursor ? NULL : styles,
                    screen->glyphs, &text[i * N_COLUMNS]);
        if (is_cursor)
            cs_draw(area, 0, i + 1, CS_STYLE_KEY, cs_glyph(screen->glyphs, CS_GLYPH_CURSOR));
    }
    free(cells);
}

/* --- all -------------------------------------------------------------------------------------- */

static void draw_none(const struct cs_store *store, struct cs_area area, enum cs_glyph_set glyphs)
{
    if (store->is_replay) {
        cs_draw(area, 1, 1, CS_STYLE_DIM, "a recorded job holds no readings of GPUs");
    } else if (!store->gpus.is_known) {
        cs_draw(area, 1, 1, CS_STYLE_DIM, "waiting for the daemon's first reading");
    } else {
        cs_draw(area, 1, 1, CS_STYLE_TEXT, "this node has no GPUs: its jobs run on CPU ranks");
        cs_draw_cut(area, 1, 2, area.w - 2, CS_STYLE_DIM, glyphs, store->gpus.note);
    }
}

/* of the list; the cards' troubles and the one under the cursor stand below it */
static int list_height(struct cs_area area, int n)
{
    const int below = area.h - 1 - n >= 8 ? area.h - 1 - n : 8;
    return area.h - below > MIN_LIST ? area.h - below : MIN_LIST;
}

static int cursor_row(const struct cs_screen *screen, int n)
{
    return cs_screen_clamp(screen->gpu_cursor, 0, n > 0 ? n - 1 : 0);
}

static void draw(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area)
{
    int list[CS_STORE_GPUS];
    int n = cs_gpu_list(store, screen, list, CS_STORE_GPUS);
    if (store->gpus.n == 0) {
        draw_none(store, area, screen->glyphs);
        return;
    }
    const int cursor = cursor_row(screen, n), list_h = list_height(area, n);
    draw_list(store, screen, cs_area_part(area, 0, 0, area.w, list_h), list, n, cursor);
    struct cs_area rest = cs_area_part(area, 0, list_h, area.w, area.h - list_h);
    int y = cs_gpu_troubles(store, rest, 1, 2, screen->glyphs);
    y += y > 1;
    if (n == 0) {
        cs_draw(rest, 1, y, CS_STYLE_DIM,
                screen->filter[CS_VIEW_GPUS][0]
                    ? "no row passes the filter; f changes it"
                    : "no GPU is held by the selected job; m shows all");
        return;
    }
    const struct cs_store_gpu *gpu = &store->gpus.gpu[list[cursor]];
    cs_gpu_figures(gpu, rest, y++);
    cs_gpu_history(gpu, rest, y++, screen->glyphs);
    if (screen->gpu_sort != CS_GPU_BY_NUMBER || screen->gpus_of_job ||
        screen->filter[CS_VIEW_GPUS][0])
        cs_drawf(rest, 1, y++, CS_STYLE_DIM, "sorted by %s%s%s%s", sort_names[screen->gpu_sort],
                 screen->gpus_of_job ? ", only of the selected job" : "",
                 screen->filter[CS_VIEW_GPUS][0] ? ", with " : "", screen->filter[CS_VIEW_GPUS]);
    cs_gpu_processes(gpu, rest, y + 1, screen->glyphs);
}

/* --- as a list -------------------------------------------------------------------------------- */

static int count(const struct cs_store *store, const struct cs_screen *screen)
{
    int list[CS_STORE_GPUS];
    return cs_gpu_list(store, screen, list, CS_STORE_GPUS);
}

static int cursor_of(const struct cs_store *store, const struct cs_screen *screen)
{
    return cursor_row(screen, count(store, screen));
}

static void each(const struct cs_store *store, const struct cs_screen *screen,
                 bool (*take)(void *user, int row, const char *text), void *user)
{
    int list[CS_STORE_GPUS];
    const int n = cs_gpu_list(store, screen, list, CS_STORE_GPUS);
    struct cs_buf text = {0};
    bool goes_on = true;
    for (int i = 0; i < n && goes_on; i++) {
        cs_buf_reset(&text);
        row_text(store, &store->gpus.gpu[list[i]], &text);
        goes_on = take(user, i, cs_buf_str(&text));
    }
    cs_buf_free(&text);
}

static int row_at(const struct cs_store *store, const struct cs_screen *screen, struct cs_area area,
                  int y)
{
    const int n = count(store, screen);
    const int rows = drawn_rows((struct cs_area){.w = area.w, .h = list_height(area, n)});
    const int row = top_row(rows, n, cursor_row(screen, n)) + y - 1;
    return y >= 1 && y <= rows && row < n ? row : -1;
}

static const struct cs_view_list as_list = {count, cursor_of, each, row_at};

/* --- keys ------------------------------------------------------------------------------------- */

static void move(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    int list[CS_STORE_GPUS];
    int n = cs_gpu_list(store, screen, list, CS_STORE_GPUS);
    screen->gpu_cursor = n > 0 ? cs_screen_clamp(screen->gpu_cursor + rows, 0, n - 1) : 0;
}

static unsigned next_sort(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    (void)argument;
    screen->gpu_sort = (enum cs_gpu_sort)((screen->gpu_sort + 1) % CS_GPU_SORTS);
    return CS_DO_DRAW;
}

static unsigned only_mine(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    screen->gpus_of_job = !screen->gpus_of_job;
    move(screen, store, 0);
    return CS_DO_DRAW;
}

/* clang-format off */
static const struct cs_key_row keys[] = {
    {"o", "o", "sort", 2, NULL, "order: number, load, memory, power, temperature", next_sort, 0},
    {"m", "m", "mine", 3, NULL, "only the GPUs of the selected job, or all",       only_mine, 0},
    {.keys = NULL},
};

/* clang-format on */

const struct cs_view_ops cs_view_gpus = {
    .title = "GPUs",
    .short_title = "GPU",
    .key = "6",
    .command = "nodes",
    .help = "The node's GPUs, a row each: load, memory, power and its limit, temperature, clock, "
            "what holds the clock down, the job\n"
            "and rank that hold the card.\n"
            "Below: cards that are too hot, slowed down or lost, and of the card under the cursor "
            "the load of the last two minutes\n"
            "and the processes on it.\n"
            "A dash or question mark is a value that this card or driver does not give.\n"
            "The daemon reads the cards once a second while this view is shown.",
    .beside = {CS_VIEW_PIPELINE, CS_VIEW_LOGS},
    .keys = keys,
    .draw = draw,
    .move = move,
    .list = &as_list,
    .subscribe = "gpus",
};
