/* Rows of the convolution, and states of the rule, from rank to rank. */
#include "worker/model/halves/delta_part.h"

#include "worker/layer/exchange.h"
#include "worker/slot/split.h"

/* NULL: all rows are here */
static const struct cs_split_stretch *stretch_of(const struct cs_run *run)
{
    const struct cs_input_split *s = run->input->split;
    return s != NULL && s->stretch.begin != NULL ? &s->stretch : NULL;
}

/* Without rows in order any of the LLM's masks will do: only documents are looked at. */
const struct cs_mask_plan *cs_delta_mask(const struct cs_run *run)
{
    const struct cs_split_stretch *t = stretch_of(run);
    return t != NULL ? &t->at.mask : &run->input->at.mask[0];
}

static void add_floats(const struct cs_exchange *e, int place, float *data, int64_t n, bool is_send)
{
    cs_exchange_add(e, place, data, n * (int64_t)sizeof *data, is_send);
}

/* ---- the convolution ---- */

/* Rows of one rank that another one has in its halo: their first among the former's, and among the
 * halo's. */
struct overlap {
    int32_t own, halo, n;
};

static struct overlap overlap_of(const struct cs_split_stretch *t, int owner, int reader)
{
    const int32_t first = t->begin[reader] - t->halo[reader];
    const int32_t low = first > t->begin[owner] ? first : t->begin[owner];
    const int32_t high =
        t->begin[reader] < t->begin[owner + 1] ? t->begin[reader] : t->begin[owner + 1];
    return (struct overlap){low - t->begin[owner], low - first, high > low ? high - low : 0};
}

/* Rows x (rows, columns) dense, or their gradients back: into the halos of those that read them. theirs:
 * what comes back of the own rows, reader by reader. */
static void exchange_halos(struct cs_run *run, int64_t columns, void *own, void *halo, void *theirs,
                           bool is_back)
{
    const struct cs_split_stretch *t = stretch_of(run);
    const int place = run->input->split->place;
    const struct cs_exchange e = cs_exchange_new(run, run->context);
    for (int r = 0; r < run->input->split->ranks; r++) {
        const struct overlap in = overlap_of(t, r, place), out = overlap_of(t, place, r);
        if (r < place)
            cs_exchange_add_acts(&e, r, cs_run_at(run, halo, in.halo * columns), in.n * columns,
                                 is_back);
        if (r <= place || out.n == 0)
            continue;
        cs_exchange_add_acts(&e, r, is_back ? theirs : cs_run_at(run, own, out.own * columns),
                             out.n * columns, !is_back);
        theirs = is_back ? cs_run_at(run, theirs, out.n * columns) : theirs;
    }
    cs_exchange_move(&e);
}

struct cs_delta_rows cs_delta_widen(struct cs_run *run, int64_t rows, int64_t columns,
                                    void *product, int64_t ld)
{
    const struct cs_split_stretch *t = stretch_of(run);
    if (t == NULL)
        return (struct cs_delta_rows){product, ld, 0, cs_delta_mask(run)};
    const int32_t halo = t->halo[run->input->split->place];
    void *x = cs_run_take(run, (rows + halo) * columns);
    if (run->context != NULL) {
        void *own = cs_run_at(run, x, halo * columns);
        run->ops->copy_heads(run->ctx, rows, 1, columns, product, ld, 0, own, columns, 0);
        exchange_halos(run, columns, own, x, NULL, false);
    }
    return (struct cs_delta_rows){x, columns, halo, &t->at.wide};
}

void *cs_delta_wide_grads(struct cs_run *run, const struct cs_delta_rows *wide, int64_t rows,
                          int64_t columns, void *dproduct)
{
    return stretch_of(run) == NULL ? dproduct : cs_run_take(run, (rows + wide->halo) * columns);
}

/* Adds what readers of the own rows gave, in the order of ranks. */
static void add_theirs(struct cs_run *run, int64_t columns, void *theirs, void *own)
{
    const struct cs_split_stretch *t = stretch_of(run);
    const int place = run->input->split->place;
    for (int r = place + 1; r < run->input->split->ranks; r++) {
        const struct overlap o = overlap_of(t, place, r);
        void *to = cs_run_at(run, own, o.own * columns);
        if (o.n > 0)
            run->ops->add(run->ctx, o.n * columns, to, theirs, to);
        theirs = cs_run_at(run, theirs, o.n * columns);
    }
}

void cs_delta_narrow(struct cs_run *run, const struct cs_delta_rows *wide, int64_t rows,
                     int64_t columns, void *d_wide, void *dproduct, int64_t ld)
{
    const struct cs_input_split *s = run->input->split;
    if (stretch_of(run) == NULL)
        return;
    void *theirs = cs_run_take(run, (s->ranks - 1) * (int64_t)CS_SHORT_CONV_TAPS * columns);
    if (run->context == NULL)
        return;
    void *own = cs_run_at(run, d_wide, wide->halo * columns);
    exchange_halos(run, columns, own, d_wide, theirs, true);
    add_theirs(run, columns, theirs, own);
    run->ops->copy_heads(run->ctx, rows, 1, columns, own, columns, 0, dproduct, ld, 0);
}

/* ---- the states ---- */

/* What a rank has to tell of its rows, or is told: a map and what is added behind it. */
struct part {
    float *map, *add;
};

struct meeting {
    struct cs_run *run;
    struct cs_ctx ctx; /* with the rule's workspace */
    const struct cs_delta_shape *shape;
    const struct cs_split_stretch *t;
    int place;
    int64_t map, state; /* elements */
    bool is_back;
    struct part own_state,
        own_grad; /* of the state that leaves; of the gradient of the one that enters */
    float *parts; /* (ranks, map and state) of the others */
};

static struct part part_of(const struct meeting *m, int rank)
{
    float *at = m->parts + rank * (m->map + m->state);
    return (struct part){at, at + m->map};
}

/* A rank whose rows the state of this rank's document passes through: it has a map. */
static bool has_map_before(const struct meeting *m, int rank)
{
    return rank > m->t->from;
}

static bool has_map_behind(const struct meeting *m, int rank)
{
    return rank < m->t->to;
}

static void make_own(struct meeting *m, const struct cs_delta_in *in, const void *d_o)
{
    const bool goes_on = m->t->to > m->place, came = m->t->from < m->place;
    const bool has_map = m->t->host.mask.n_segments == 1 && came && goes_on;
    const struct cs_delta_pass pass = {
        .map = has_map ? m->own_state.map : NULL,
        .state = goes_on ? m->own_state.add : NULL,
        .d_state = came && m->is_back ? m->own_grad.add : NULL,
    };
    if (pass.state == NULL && pass.d_state == NULL)
        return;
    m->run->ops->delta_pass(&m->ctx, m->shape, cs_delta_mask(m->run), in, d_o, &pass);
}

/* A document that goes on from here: its state to those behind; one that came: its gradient to those
 * before. */
static void meet(struct meeting *m)
{
    const struct cs_exchange e = cs_exchange_new(m->run, m->run->context);
    const bool came = m->t->from<m->place, goes_on = m->t->to> m->place;
    const bool is_through = came && goes_on && m->t->host.mask.n_segments == 1;
    for (int r = m->t->from; r < m->place; r++) {
        add_floats(&e, r, part_of(m, r).add, m->state, false);
        add_floats(&e, r, part_of(m, r).map, has_map_before(m, r) ? m->map : 0, false);
        if (!m->is_back)
            continue;
        add_floats(&e, r, m->own_grad.add, m->state, true);
        add_floats(&e, r, m->own_grad.map, is_through ? m->map : 0, true);
    }
    for (int r = m->place + 1; r <= m->t->to; r++) {
        add_floats(&e, r, m->own_state.add, m->state, true);
        add_floats(&e, r, m->own_state.map, is_through ? m->map : 0, true);
        if (!m->is_back)
            continue;
        add_floats(&e, r, part_of(m, r).add, m->state, false);
        add_floats(&e, r, part_of(m, r).map, has_map_behind(m, r) ? m->map : 0, false);
    }
    cs_exchange_move(&e);
}

/* state <- the part's map of it, and what is added; the first in a row has no map */
static void join(struct meeting *m, int rank, bool is_first, bool is_transposed, float *state)
{
    const struct part p = part_of(m, rank);
    if (is_first)
        cs_device_copy(m->run->device, state, p.add, (size_t)m->state * sizeof *state);
    else
        m->run->ops->delta_join(&m->ctx, m->shape, p.map, is_transposed, p.add, state);
}

static struct meeting open_meeting(struct cs_run *run, const struct cs_delta_shape *shape,
                                   bool is_back)
{
    const int64_t heads = shape->heads, dk = shape->key_dim, dv = shape->value_dim;
    const int ranks = run->input->split->ranks;
    struct meeting m = {.run = run,
                        .ctx = cs_run_delta_ctx(run, shape, cs_delta_mask(run)),
                        .shape = shape,
                        .t = stretch_of(run),
                        .place = run->input->split->place,
                        .map = heads * dk * dk,
                        .state = heads * dk * dv,
                        .is_back = is_back};
    float *map = cs_scratch_floats(run->scratch, m.map);
    m.parts = cs_scratch_floats(run->scratch, ranks * (m.map + m.state));
    m.own_state = (struct part){map, cs_scratch_floats(run->scratch, m.state)};
    m.own_grad = (struct part){map, cs_scratch_floats(run->scratch, m.state)};
    return m;
}

void cs_delta_ends(struct cs_run *run, const struct cs_delta_shape *shape,
                   const struct cs_delta_in *in, const void *d_o, struct cs_delta_ends *out)
{
    *out = (struct cs_delta_ends){NULL, NULL};
    if (stretch_of(run) == NULL)
        return;
    const int64_t n = (int64_t)shape->heads * shape->key_dim * shape->value_dim;
    float *state = cs_scratch_floats(run->scratch, n);
    float *d_state = cs_scratch_floats(run->scratch, n);
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    struct meeting m = open_meeting(run, shape, d_o != NULL);
    if (run->context != NULL) {
        make_own(&m, in, d_o);
        meet(&m);
        for (int r = m.t->from; r < m.place; r++)
            join(&m, r, r == m.t->from, false, state);
        for (int r = m.t->to; m.is_back && r > m.place; r--)
            join(&m, r, r == m.t->to, true, d_state);
        out->state = m.t->from < m.place ? state : NULL;
        out->d_state = m.is_back && m.t->to > m.place ? d_state : NULL;
    }
    cs_scratch_rewind(run->scratch, mark);
}
