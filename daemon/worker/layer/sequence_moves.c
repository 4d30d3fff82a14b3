/* Rows of a block under way between the ranks that share its matrices. */
#include "worker/layer/sequence_moves.h"

int cs_sequence_turns(const struct cs_run *run)
{
    return cs_sequence_is_split(run) ? run->tensors->n : 1;
}

/* of the rank `behind` places behind this one, in a circle */
static struct cs_sequence_rows rows_of(const struct cs_run *run, int64_t rows, int behind)
{
    const int n = cs_sequence_turns(run);
    if (n == 1)
        return (struct cs_sequence_rows){0, rows};
    if (run->is_rehearsal)
        return (struct cs_sequence_rows){0, (rows + n - 1) / n};
    const struct cs_tp_share share =
        cs_tp_share(rows, (struct cs_tp){.ranks = n, .at = (run->tensors->place + behind) % n});
    return (struct cs_sequence_rows){share.begin, share.end - share.begin};
}

struct cs_sequence_rows cs_sequence_from(const struct cs_run *run, int64_t rows, int turn)
{
    return rows_of(run, rows, cs_sequence_turns(run) - turn);
}

struct cs_sequence_rows cs_sequence_to(const struct cs_run *run, int64_t rows, int turn)
{
    return rows_of(run, rows, turn);
}

/* What goes and comes in a turn; nobody is met in a rehearsal. */
struct turn {
    const void *out;
    int64_t n_out;
    void *in;
    int64_t n_in;
};

static void add(const struct cs_exchange *e, int turn, const struct turn *t)
{
    const struct cs_context *c = e->context;
    cs_exchange_add_acts(e, (c->place + turn) % c->n, (void *)(uintptr_t)t->out, t->n_out, true);
    cs_exchange_add_acts(e, (c->place + c->n - turn) % c->n, t->in, t->n_in, false);
}

/* with what this rank keeps (NULL: nothing), which a device copies beside what travels */
static struct cs_exchange start(struct cs_run *run, int turn, const struct turn *travels,
                                const struct turn *stays)
{
    struct cs_context *c = run->tensors;
    if (c->start == NULL)
        return (struct cs_exchange){.run = NULL};
    const struct cs_exchange e = cs_exchange_new(run, c);
    add(&e, turn, travels);
    if (stays != NULL && c->sums)
        add(&e, 0, stays);
    cs_exchange_start(&e);
    return e;
}

static void finish(const struct cs_exchange *e)
{
    if (e->run != NULL)
        cs_exchange_finish(e);
}

/* ---- rows that come ---- */

static void copy(struct cs_run *run, const struct turn *t)
{
    if (t->n_out > 0 && t->in != t->out)
        cs_device_copy(run->device, t->in, t->out, (size_t)t->n_out * run->ops->act_bytes);
}

void cs_sequence_gather_start(struct cs_run *run, int64_t rows, int64_t width, const void *own,
                              void *all, bool is_whole, struct cs_sequence_gather *gather)
{
    gather->run = run;
    gather->rows = rows;
    gather->width = width;
    gather->own = own;
    gather->all = all;
    const struct cs_sequence_rows mine = cs_sequence_to(run, rows, 0);
    const struct turn stays = {own, mine.n * width, cs_run_row(run, all, mine.at, width),
                               mine.n * width};
    const bool is_split = cs_sequence_is_split(run);
    for (int k = 1; k < cs_sequence_turns(run); k++) {
        const struct cs_sequence_rows from = cs_sequence_from(run, rows, k);
        const struct turn travels = {own, mine.n * width, cs_run_row(run, all, from.at, width),
                                     from.n * width};
        gather->turn[k] = start(run, k, &travels, is_whole && k == 1 ? &stays : NULL);
    }
    if (is_whole && !(is_split && run->tensors->sums))
        copy(run, &stays);
}

const void *cs_sequence_gather_next(const struct cs_sequence_gather *gather, int turn)
{
    if (turn == 0)
        return gather->own;
    const int64_t at = cs_sequence_from(gather->run, gather->rows, turn).at;
    finish(&gather->turn[turn]);
    return cs_run_row(gather->run, gather->all, at, gather->width);
}

void cs_sequence_gather_finish(const struct cs_sequence_gather *gather)
{
    for (int k = 1; k < cs_sequence_turns(gather->run); k++)
        (void)cs_sequence_gather_next(gather, k);
}

/* ---- sums ---- */

void cs_sequence_sum_start(struct cs_run *run, int64_t rows, int64_t width,
                           struct cs_sequence_sum *sum)
{
    const int64_t own = cs_sequence_to(run, rows, 0).n;
    sum->run = run;
    sum->rows = rows;
    sum->width = width;
    sum->theirs = cs_run_take(run, (cs_sequence_turns(run) - 1) * own * width);
}

static char *theirs(const struct cs_sequence_sum *s, int turn)
{
    return cs_run_row(s->run, s->theirs, (turn - 1) * cs_sequence_to(s->run, s->rows, 0).n,
                      s->width);
}

void cs_sequence_sum_send(struct cs_sequence_sum *sum, int turn, void *part)
{
    struct cs_run *run = sum->run;
    const struct turn travels = {part, cs_sequence_to(run, sum->rows, turn).n * sum->width,
                                 theirs(sum, turn),
                                 cs_sequence_to(run, sum->rows, 0).n * sum->width};
    sum->turn[turn] = start(run, turn, &travels, NULL);
}

void cs_sequence_sum_finish(const struct cs_sequence_sum *sum, void *own)
{
    struct cs_run *run = sum->run;
    const int64_t n = cs_sequence_to(run, sum->rows, 0).n * sum->width;
    for (int k = 1; k < cs_sequence_turns(run); k++) {
        finish(&sum->turn[k]);
        if (n > 0)
            run->ops->add(run->ctx, n, own, theirs(sum, k), own);
    }
}
