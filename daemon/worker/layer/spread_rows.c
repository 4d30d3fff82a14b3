/* Devices: rows of all ranks of experts to all of them, and the sums of what each has made of them back. */
#include <string.h>

#include "worker/layer/exchange.h"
#include "worker/layer/spread.h"

/* nobody is met in a rehearsal, in which all have as many rows as can be */
static bool meets(const struct cs_spread *s)
{
    return s->ranks->start != NULL;
}

static int64_t rows_of(const struct cs_spread *s, int rank)
{
    if (!meets(s) || rank == s->ranks->place)
        return s->own_rows;
    return s->ranks->rows[rank * s->ranks->row_step + s->is_stretched];
}

void cs_spread_count_rows(struct cs_spread *s)
{
    s->rows = 0;
    for (int r = 0; r < s->ranks->n; r++) {
        if (r == s->ranks->place)
            s->own_at = s->rows;
        s->rows += rows_of(s, r);
    }
}

/* k-th of the others in turn, so that not everybody begins with the first */
static int other(const struct cs_spread *s, int k)
{
    return (s->ranks->place + k) % s->ranks->n;
}

static int64_t first_of(const struct cs_spread *s, int rank)
{
    int64_t first = 0;
    for (int r = 0; r < rank; r++)
        first += rows_of(s, r);
    return first;
}

struct cs_spread_gather cs_spread_start_rows(const struct cs_spread *s, int64_t width,
                                             const void *x)
{
    struct cs_spread_gather g = {.rows = x};
    if (!s->gathers)
        return g;
    char *const all = cs_run_take(s->run, s->rows * width), *const here = cs_run_row(
                                                                s->run, all, s->own_at, width);
    g.rows = all;
    if (s->own_rows > 0)
        cs_device_copy(s->run->device, here, x,
                       (size_t)(s->own_rows * width) * s->run->ops->act_bytes);
    if (!meets(s))
        return g;
    g.moves = cs_exchange_new(s->run, s->ranks);
    for (int k = 1; k < s->ranks->n; k++) {
        const int r = other(s, k);
        cs_exchange_add_acts(&g.moves, r, here, s->own_rows * width, true);
        cs_exchange_add_acts(&g.moves, r, cs_run_row(s->run, all, first_of(s, r), width),
                             rows_of(s, r) * width, false);
    }
    cs_exchange_start(&g.moves);
    return g;
}

const void *cs_spread_finish_rows(const struct cs_spread_gather *gather)
{
    if (gather->moves.run != NULL)
        cs_exchange_finish(&gather->moves);
    return gather->rows;
}

const void *cs_spread_rows(const struct cs_spread *s, int64_t width, const void *x)
{
    const struct cs_spread_gather g = cs_spread_start_rows(s, width, x);
    return cs_spread_finish_rows(&g);
}

void cs_spread_clear(const struct cs_spread *s, int64_t width, void *x)
{
    if (s->gathers && s->come > 0)
        cs_device_zero(s->run->device, x, (size_t)(s->come * width) * s->run->ops->act_bytes);
}

void *cs_spread_part(const struct cs_spread *s, int64_t width, void *own)
{
    return s->gathers ? cs_run_take(s->run, s->rows * width) : own;
}

/* theirs (n - 1, own_rows, width): everybody's part of the own rows, by rank */
static void bring(const struct cs_spread *s, int64_t width, const void *part, char *theirs)
{
    const struct cs_exchange e = cs_exchange_new(s->run, s->ranks);
    for (int k = 1; k < s->ranks->n; k++) {
        const int r = other(s, k);
        cs_exchange_add_acts(&e, r, cs_run_row(s->run, part, first_of(s, r), width),
                             rows_of(s, r) * width, true);
        cs_exchange_add_acts(
            &e, r, cs_run_row(s->run, theirs, (r - (r > s->ranks->place)) * s->own_rows, width),
            s->own_rows * width, false);
    }
    cs_exchange_move(&e);
}

void cs_spread_sum(const struct cs_spread *s, int64_t width, const void *part, const void *more,
                   void *own)
{
    struct cs_run *run = s->run;
    const int64_t n = s->own_rows * width;
    if (!s->gathers)
        return;
    char *theirs = cs_run_take(run, (s->ranks->n - 1) * n);
    if (meets(s))
        bring(s, width, part, theirs);
    if (n == 0)
        return;
    const void *sum = cs_run_row(s->run, s->ranks->place > 0 ? theirs : part,
                                 s->ranks->place > 0 ? 0 : s->own_at, width);
    for (int r = 1; r < s->ranks->n; r++) {
        const bool is_own = r == s->ranks->place;
        const void *next =
            is_own ? cs_run_row(s->run, part, s->own_at, width)
                   : cs_run_row(s->run, theirs, (r - (r > s->ranks->place)) * s->own_rows, width);
        run->ops->add(run->ctx, n, sum, next, own);
        sum = own;
    }
    if (more != NULL)
        run->ops->add(run->ctx, n, own, more, own);
}

void cs_spread_join(const struct cs_spread *s, float *x)
{
    if (!s->gathers || !meets(s) || s->places == 0)
        return;
    const struct cs_exchange e = cs_exchange_new(s->run, s->ranks);
    cs_exchange_sum(&e, x, (size_t)s->places, CS_GRAD_F32);
    cs_exchange_move(&e);
}
