/* Keys of the Metrics view. */
#include <math.h>
#include <stdlib.h>

#include "console/views/metrics/data.h"

enum { ZOOM_MAX = 4096 };

static const double cursor_step = 1.0 / 64; /* of what is shown */

void cs_metrics_move(struct cs_screen *screen, const struct cs_store *store, int rows)
{
    struct cs_metrics_screen *m = &screen->metrics;
    struct cs_metrics_panel panel[CS_METRICS_PANELS];
    if (m->part == CS_METRICS_DIFF) {
        m->top = cs_screen_clamp(m->top + rows, 0, 400);
    } else if (m->part == CS_METRICS_JOBS) {
        const int n = store->n_jobs - (cs_store_selected(store) != NULL);
        m->list_row = cs_screen_clamp(m->list_row + rows, 0, n > 0 ? n - 1 : 0);
    } else {
        const int n = cs_metrics_panels(store, panel);
        m->panel = cs_screen_clamp(m->panel + rows, 0, n > 0 ? n - 1 : 0);
    }
}

static void scroll_to(struct cs_metrics_screen *m, double from)
{
    m->scroll = fmax(0, fmin(from, 1 - 1.0 / m->zoom));
}

/* through what is shown, and further: what is shown moves along */
static unsigned cursor(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_metrics_screen *m = &screen->metrics;
    (void)store;
    if (!m->has_cursor) {
        m->has_cursor = true;
        m->cursor = argument < 0 ? 1 : 0;
    }
    m->cursor += argument * cursor_step;
    if (m->cursor < 0 || m->cursor > 1)
        scroll_to(m, m->scroll + argument * 0.25 / m->zoom);
    m->cursor = fmax(0, fmin(m->cursor, 1));
    return CS_DO_DRAW;
}

/* around the cursor, without one around the end */
static unsigned zoom(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_metrics_screen *m = &screen->metrics;
    const double share = m->has_cursor ? m->cursor : 1, at = m->scroll + share / m->zoom;
    (void)store;
    m->zoom =
        argument == 0 ? 1 : cs_screen_clamp(argument > 0 ? m->zoom * 2 : m->zoom / 2, 1, ZOOM_MAX);
    scroll_to(m, at - share / m->zoom);
    if (argument == 0)
        m->has_cursor = false;
    return CS_DO_DRAW;
}

static unsigned log_axis(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_metrics_panel panel[CS_METRICS_PANELS];
    const int n = cs_metrics_panels(store, panel);
    (void)argument;
    if (n > 0)
        screen->metrics.log_panels ^=
            UINT64_C(1) << panel[cs_screen_clamp(screen->metrics.panel, 0, n - 1)].metric;
    return CS_DO_DRAW;
}

static unsigned smooth(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    screen->metrics.smoothing = (screen->metrics.smoothing + argument) % CS_METRICS_SMOOTHINGS;
    return CS_DO_DRAW;
}

static unsigned range(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    screen->metrics.range = (screen->metrics.range + argument) % CS_METRICS_RANGES;
    screen->metrics.zoom = 1;
    screen->metrics.scroll = 0;
    return CS_DO_DRAW;
}

static unsigned align(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)store;
    screen->metrics.align =
        (enum cs_metrics_align)(((int)screen->metrics.align + argument) % CS_BY_COUNT);
    return CS_DO_DRAW;
}

static unsigned open_part(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    struct cs_metrics_screen *m = &screen->metrics;
    (void)store;
    m->part = (int)m->part == argument ? CS_METRICS_CHARTS : (enum cs_metrics_part)argument;
    m->top = 0;
    return CS_DO_DRAW;
}

/* puts the job under the cursor over the charts, or takes it off */
static unsigned toggle_job(struct cs_screen *screen, const struct cs_store *store)
{
    struct cs_metrics_screen *m = &screen->metrics;
    int64_t *others = calloc(CS_STORE_JOBS, sizeof *others);
    CS_ASSERT(others);
    const int n = cs_metrics_others(store, others), before = m->n_beside;
    const int64_t job = n > 0 ? others[cs_screen_clamp(m->list_row, 0, n - 1)] : 0;
    int kept = 0;
    free(others);
    if (job == 0)
        return CS_DO_DRAW;
    for (int i = 0; i < before; i++)
        if (m->beside[i] != job)
            m->beside[kept++] = m->beside[i];
    m->n_beside = kept;
    if (kept == before && before == CS_STORE_BESIDE)
        cs_screen_say(screen, CS_STYLE_WARN, "four jobs are laid over already: take one off first");
    else if (kept == before)
        m->beside[m->n_beside++] = job;
    return CS_DO_DRAW | CS_DO_BESIDE;
}

static unsigned enter(struct cs_screen *screen, const struct cs_store *store, int argument)
{
    (void)argument;
    if (screen->metrics.part == CS_METRICS_JOBS)
        return toggle_job(screen, store);
    screen->metrics.is_single = !screen->metrics.is_single;
    return CS_DO_DRAW;
}

bool cs_metrics_back(struct cs_screen *screen)
{
    struct cs_metrics_screen *m = &screen->metrics;
    if (m->part != CS_METRICS_CHARTS)
        m->part = CS_METRICS_CHARTS;
    else if (m->is_single)
        m->is_single = false;
    else if (m->has_cursor)
        m->has_cursor = false;
    else
        return false;
    return true;
}

/* clang-format off */
const struct cs_key_row cs_metrics_keys[] = {
    {"Enter",         "Enter",   "alone",   3, NULL, "the chart alone, or all; in the list of jobs: lay it over or take it off", enter, 0},
    {"h,Left",        "h Left",  "",        0, NULL, "the cursor to the left",              cursor, -1},
    {"l,Right",       "l Right", "cursor",  4, NULL, "the cursor to the right",             cursor, 1},
    {"H",             "H",       "",        0, NULL, "eight places to the left",            cursor, -8},
    {"L",             "L",       "",        0, NULL, "eight places to the right",           cursor, 8},
    {"+,=",           "+",       "zoom",    4, NULL, "half of what is shown, around the cursor", zoom, 1},
    {"-",             "-",       "",        0, NULL, "twice of it",                         zoom, -1},
    {"0",             "0",       "",        0, NULL, "all of the range, no cursor",         zoom, 0},
    {"r",             "r",       "range",   5, NULL, "all steps, or the last 10000, 1000, 100", range, 1},
    {"x",             "x",       "log",     5, NULL, "a log axis for this metric, or a linear one", log_axis, 0},
    {"s",             "s",       "smooth",  5, NULL, "smoothing: none, 0.6, 0.9, 0.99 of the value before", smooth, 1},
    {"o",             "o",       "overlay", 2, NULL, "lay other jobs over this one",        open_part, CS_METRICS_JOBS},
    {"a",             "a",       "align",   6, NULL, "by step, tokens or time spent training", align, 1},
    {"d",             "d",       "diff",    6, NULL, "what differs in the specifications",  open_part, CS_METRICS_DIFF},
    {.keys = NULL},
};
/* clang-format on */
