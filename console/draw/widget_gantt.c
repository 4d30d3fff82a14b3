/* Turns the spans of a step into the cells of a Gantt row, and a window of time into an axis. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/widget.h"
#include "core/sched/action.h"

enum { MAX_WIDTH = CS_CANVAS_MAX, TICK_COLUMNS = 9 };

struct cs_window cs_gantt_window(int64_t whole_ns, int zoom, double scroll)
{
    double length = (double)whole_ns / (zoom > 0 ? zoom : 1);
    double from = (double)whole_ns * (scroll > 0 ? scroll : 0);
    if (from > (double)whole_ns - length)
        from = (double)whole_ns - length;
    struct cs_window window = {(int64_t)from, (int64_t)(from + length)};
    if (window.to_ns <= window.from_ns)
        window.to_ns = window.from_ns + 1;
    return window;
}

static struct cs_gantt_cell mark_of(const struct cs_span_key *key)
{
    static const char forward[] = "1234567890";
    int slot = key->slot >= 0 ? key->slot : 0;
    const enum cs_op op = cs_op_of_letter(key->letter);
    if (cs_op_does(op, CS_PART_FORWARD))
        return (struct cs_gantt_cell){forward[slot % 10], CS_STYLE_FORWARD};
    if (cs_op_does(op, CS_PART_INPUT))
        return (struct cs_gantt_cell){(char)('a' + slot % 26), CS_STYLE_BACKWARD};
    if (cs_op_does(op, CS_PART_WEIGHT))
        return (struct cs_gantt_cell){(char)('A' + slot % 26), CS_STYLE_BACKWARD};
    return (struct cs_gantt_cell){'=', CS_STYLE_OPTIMIZER};
}

static bool is_on_row(const struct cs_span *span, int32_t stage, int32_t rank)
{
    if (!span->key.is_compute)
        return false;
    if (stage == CS_GANTT_ALL)
        return span->rank == rank;
    return (span->key.stage == stage || span->key.stage < 0) && span->rank == rank;
}

struct columns {
    double from, column_ns; /* start of the window, time of one column */
    int width;
    int n_spans; /* on this row, in the window */
    double covered[MAX_WIDTH], best[MAX_WIDTH];
    bool has_short[MAX_WIDTH]; /* the middle of a span shorter than a column */
};

static void add_span(struct columns *c, const struct cs_span *span, struct cs_gantt_cell *cells)
{
    double start = ((double)span->start_ns - c->from) / c->column_ns;
    double end = ((double)span->end_ns - c->from) / c->column_ns;
    if (!(end > 0 && start < c->width))
        return;
    start = start > 0 ? start : 0;
    end = end < c->width ? end : c->width;
    c->n_spans++;
    if (end - start < 1 && end > start)
        c->has_short[(int)((start + end) / 2)] = true;
    for (int i = (int)start; i < c->width && i < end; i++) {
        double part = fmin(end, i + 1) - fmax(start, i);
        c->covered[i] += part;
        if (part > c->best[i]) {
            c->best[i] = part;
            cells[i] = mark_of(&span->key);
        }
    }
}

/* spans are sorted by rank: the first of this one */
static int32_t first_of(const struct cs_span_step *step, int32_t rank)
{
    int32_t low = 0, high = step->n_spans;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (step->span[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void cs_gantt_row(const struct cs_span_step *step, int32_t stage, int32_t rank,
                  struct cs_window window, int width, struct cs_gantt_cell *cells)
{
    static const double half = 0.5 - 1e-9; /* a span of exactly half a column is shown */
    struct columns c = {.from = (double)window.from_ns};
    c.width = width < MAX_WIDTH ? width : MAX_WIDTH;
    if (c.width < 1)
        return;
    c.column_ns = (double)(window.to_ns - window.from_ns) / c.width;
    for (int i = 0; i < c.width; i++)
        cells[i] = (struct cs_gantt_cell){0, CS_STYLE_IDLE};
    for (int32_t i = first_of(step, rank); i < step->n_spans && step->span[i].rank == rank; i++)
        if (is_on_row(&step->span[i], stage, rank))
            add_span(&c, &step->span[i], cells);
    bool has_room = c.n_spans <= c.width; /* short spans are seen too, unless they would fill all */
    for (int i = 0; i < c.width; i++)
        if (c.covered[i] < half && !(has_room && c.has_short[i]))
            cells[i] = (struct cs_gantt_cell){0, CS_STYLE_IDLE};
}

/* --- axis ------------------------------------------------------------------------------------- */

static const struct unit {
    const char *name;
    double ns, up_to_ns; /* for windows up to this length */
} units[] = {
    {"us", 1e3, 2e6     },
    {"ms", 1e6, 2e10    },
    {"s",  1e9, INFINITY},
};

static const struct unit *unit_of(double length_ns)
{
    size_t i = 0;
    while (length_ns > units[i].up_to_ns)
        i++;
    return &units[i];
}

/* least of 1, 2, 5 times a power of ten that is not below `least` */
static double round_step(double least)
{
    static const double factors[] = {1, 2, 5, 10};
    double power = pow(10, floor(log10(least)));
    for (size_t i = 0; i < CS_ARRAY_LEN(factors); i++)
        if (factors[i] * power >= least * (1 - 1e-12))
            return factors[i] * power;
    return 10 * power;
}

const char *cs_gantt_axis(struct cs_window window, int width, char *out)
{
    double length = (double)(window.to_ns - window.from_ns);
    const struct unit *unit = unit_of(length);
    if (width < 1) {
        out[0] = '\0';
        return unit->name;
    }
    memset(out, ' ', (size_t)width);
    out[width] = '\0';
    double step = round_step(length / unit->ns / width * TICK_COLUMNS);
    double first = ceil((double)window.from_ns / unit->ns / step - 1e-9) * step + 0.0; /* no -0 */
    int free_from = 0;
    for (double at = first; at * unit->ns < (double)window.to_ns; at += step) {
        char label[32];
        int n = snprintf(label, sizeof label, step < 1 ? "%.3g" : "%.0f", at);
        int x = (int)((at * unit->ns - (double)window.from_ns) / length * width + 0.5);
        if (x < free_from || x + n > width)
            continue;
        memcpy(out + x, label, (size_t)n);
        free_from = x + n + 2;
    }
    return unit->name;
}
