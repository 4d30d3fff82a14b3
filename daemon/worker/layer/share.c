/* Moves rows of an encoder from who makes them to who has the rows of the LLM that they fill. */
#include "worker/layer/share.h"

#include "worker/layer/exchange.h"
#include "worker/slot/share.h"

/* The parts at both ends are those of a context of n ranks: each rank meets its own like in the others. */
static bool is_of_context(int32_t n_from, int32_t n_to, int32_t n)
{
    return n_from == n_to && n_to == n;
}

bool cs_layer_shares_with_all(const struct cs_layer_model *l, const struct cs_input_tables *tables,
                              int32_t context)
{
    const int32_t n_from = tables->enc[l->encoder].ranks;
    const int32_t lanes = tables->context.lanes > 1 ? tables->context.lanes : 1;
    const int32_t parts = tables->context.ranks > 1 ? tables->context.ranks : 1;
    return l->feeds_own_ranks && n_from > 1 && !is_of_context(n_from, lanes * parts, context);
}

bool cs_layer_is_shared(const struct cs_layer_model *l, const struct cs_input *input)
{
    return l->feeds_own_ranks && input->share[l->encoder] != NULL &&
           input->tables->enc[l->encoder].ranks > 1;
}

struct move {
    struct cs_run *run;
    const struct cs_item_share *s;
    struct cs_exchange exchange;
    void *made, *taken; /* acts */
    int64_t width;
    bool is_back;
};

/* A rank of a part at one end, of ranks that are numbered part by part: those that share a part lie side by
 * side. */
struct side {
    int32_t n, part, sharer;
};

static struct side side_of(const struct move *m, int32_t n_parts)
{
    const int32_t n = m->run->all->n / n_parts, place = m->run->all->place;
    return (struct side){n, place / n, place % n};
}

static bool goes_in_context(const struct move *m)
{
    return m->run->context != NULL &&
           is_of_context(m->s->map.n_from, m->s->map.n_to, m->run->context->n);
}

/* What this rank sends, or what comes to it, of the rows of one end, but for what it has. Where the parts are
 * those of a context each rank meets its own like in the others. Ranks
 * that have the gradients of the same rows send shares of them. */
static void add(struct move *m, bool is_maker, bool is_send)
{
    const struct side maker = side_of(m, m->s->map.n_from), taker = side_of(m, m->s->map.n_to);
    const struct side *here = is_maker ? &maker : &taker, *there = is_maker ? &taker : &maker;
    const struct cs_row_end end = {.is_maker = is_maker,
                                   .is_send = is_send,
                                   .part = here->part,
                                   .sharer = here->sharer,
                                   .here = here->n,
                                   .there = there->n,
                                   .is_cut = m->is_back && taker.n > maker.n,
                                   .is_same = true};
    struct cs_row_piece *piece = cs_scratch_take(
        &m->run->input->memory, ((size_t)m->s->map.n * (size_t)there->n + 1) * sizeof *piece);
    const int32_t n = cs_row_map_pieces(&m->s->map, &end, piece);
    void *rows = is_maker ? m->made : m->taken;
    for (int32_t i = 0; i < n; i++) {
        const int32_t place = piece[i].part * there->n + piece[i].sharer;
        cs_exchange_add_acts(&m->exchange, goes_in_context(m) ? piece[i].part : place,
                             cs_run_at(m->run, rows, piece[i].row * m->width),
                             piece[i].n * m->width, is_send);
    }
}

/* Rows that this rank has made and takes. */
static void copy_own(const struct move *m)
{
    const struct side maker = side_of(m, m->s->map.n_from), taker = side_of(m, m->s->map.n_to);
    for (int32_t i = 0; i < m->s->map.n; i++) {
        const struct cs_row_interval *r = &m->s->map.interval[i];
        void *made = cs_run_at(m->run, m->made, r->from_row * m->width),
             *taken = cs_run_at(m->run, m->taken, r->to_row * m->width);
        if (r->from == maker.part && r->to == taker.part)
            m->run->ops->copy_heads(m->run->ctx, r->n, 1, m->width, m->is_back ? taken : made,
                                    m->width, 0, m->is_back ? made : taken, m->width, 0);
    }
}

static void move(struct move *m)
{
    if (m->run->all == NULL)
        return;
    m->exchange = cs_exchange_new(m->run, goes_in_context(m) ? m->run->context : m->run->all);
    copy_own(m);
    add(m, !m->is_back, true);
    add(m, m->is_back, false);
    cs_exchange_move(&m->exchange);
}

/* what is read is not written, whatever its pointer says */
static void *written(const void *x)
{
    return (void *)(uintptr_t)x;
}

void cs_share_rows(struct cs_run *run, int32_t encoder, int64_t width, const void *made,
                   void *taken)
{
    struct move m = {.run = run,
                     .s = run->input->share[encoder],
                     .made = written(made),
                     .taken = taken,
                     .width = width};
    move(&m);
}

void cs_share_rows_back(struct cs_run *run, int32_t encoder, int64_t width, const void *taken,
                        void *made)
{
    struct move m = {.run = run,
                     .s = run->input->share[encoder],
                     .made = made,
                     .taken = written(taken),
                     .width = width,
                     .is_back = true};
    move(&m);
}
