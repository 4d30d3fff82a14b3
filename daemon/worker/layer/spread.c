/* Hosts: counts of pairs between the ranks of experts, the order of what comes, and both ways. */
#include "worker/layer/spread.h"

#include <string.h>

#include "worker/layer/exchange.h"
#include "worker/layer/stretch.h"

bool cs_layer_is_spread(const struct cs_run *run, const struct cs_layer_model *l)
{
    return run->experts != NULL && l->layer->kind == CS_LAYER_BLOCK &&
           l->layer->ffn == CS_FFN_EXPERTS;
}

static int32_t *ints(struct cs_scratch *memory, int64_t n)
{
    return cs_scratch_take(memory, (size_t)n * sizeof(int32_t));
}

/* theirs (ranks, experts here): pairs of every rank. count: own pairs of all experts of the layer. */
static void exchange_counts(const struct cs_spread *s, const struct cs_experts *e,
                            const int32_t *count, int32_t *theirs)
{
    const int64_t bytes = s->experts * (int64_t)sizeof *theirs;
    const struct cs_exchange x = cs_exchange_new(s->run, s->ranks);
    const int own = s->ranks->place, n = s->ranks->n;
    memset(theirs, 0, (size_t)n * (size_t)bytes); /* a peer that is gone sends none */
    memcpy(theirs + own * s->experts, count + cs_experts_begin(e, own), (size_t)bytes);
    for (int k = 1; k < n; k++) {
        const int r = (own + k) % n;
        cs_exchange_add(&x, r, (void *)(uintptr_t)(count + cs_experts_begin(e, r)),
                        cs_experts_held(e, r) * (int64_t)sizeof *count, true);
        cs_exchange_add(&x, r, theirs + r * s->experts, bytes, false);
    }
    cs_exchange_move(&x);
}

/* what comes, by expert: of each the rows of rank 0 first */
static void put_in_order(struct cs_spread *s, const int32_t *theirs, int32_t *first)
{
    const int n = s->ranks->n;
    int32_t *in_at = ints(s->run->scratch, n + 1), *next = ints(s->run->scratch, n);
    in_at[0] = 0;
    for (int r = 0; r < n; r++) {
        in_at[r + 1] = next[r] = in_at[r];
        for (int32_t e = 0; e < s->experts; e++)
            in_at[r + 1] += theirs[r * s->experts + e];
    }
    s->in_at = in_at;
    s->come = in_at[n];
    int32_t *index = ints(s->run->scratch, s->come), at = 0;
    for (int32_t e = 0; e < s->experts; e++) {
        first[e] = at;
        for (int r = 0; r < n; r++)
            for (int32_t i = 0; i < theirs[r * s->experts + e]; i++)
                index[at++] = next[r]++;
    }
    first[s->experts] = at;
    s->index = index;
}

static void meet(struct cs_spread *s, const struct cs_experts *e,
                 const struct cs_moe_routes *routes, int32_t *first)
{
    const int n = s->ranks->n;
    const int64_t rows = s->own_rows;
    int32_t *count = ints(s->run->scratch, e->n), *out_at = ints(s->run->scratch, n + 1),
            *theirs = ints(s->run->scratch, (int64_t)n * s->experts);
    for (int32_t i = 0; i < e->n; i++)
        count[i] = rows > 0 ? routes->first[i + 1] - routes->first[i] : 0;
    for (int r = 0; r <= n; r++)
        out_at[r] = rows > 0 ? routes->first[cs_experts_begin(e, r)] : 0;
    s->out_at = out_at;
    exchange_counts(s, e, count, theirs);
    put_in_order(s, theirs, first);
}

/* Nobody is there: as many come as can, where all ranks have as many rows. */
static void rehearse(struct cs_spread *s, const struct cs_experts *e)
{
    s->come = s->own_rows * cs_experts_pairs(e);
    (void)ints(s->run->scratch, e->n + 4 * (int64_t)s->ranks->n + s->ranks->n * s->experts);
    s->index = ints(s->run->scratch, s->come);
}

void cs_spread_begin(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     struct cs_spread *out)
{
    *out = (struct cs_spread){.run = run,
                              .own_rows = rows,
                              .rows = rows,
                              .is_stretched = cs_layer_is_stretched(l, run->input)};
    if (cs_layer_is_spread(run, l)) {
        out->ranks = run->experts;
        out->gathers = run->experts->sums;
    }
    if (out->gathers)
        cs_spread_count_rows(out);
    out->places = out->rows * l->arch->experts.top_k;
}

void cs_spread_open(struct cs_spread *s, const struct cs_layer_model *l,
                    const struct cs_moe_routes *routes, struct cs_scratch *first)
{
    const struct cs_experts *e = &l->arch->experts;
    s->experts = s->ranks != NULL ? cs_experts_held(e, e->at) : e->n;
    s->come = s->places;
    s->first = s->ranks != NULL ? routes->first + cs_experts_begin(e, e->at) : routes->first;
    if (!cs_spread_moves(s))
        return;
    int32_t *own_first = ints(first, s->experts + 1);
    s->first = own_first;
    if (s->ranks->start == NULL)
        rehearse(s, e);
    else
        meet(s, e, routes, own_first);
}

bool cs_spread_moves(const struct cs_spread *s)
{
    return s->ranks != NULL && !s->gathers;
}

struct cs_travel cs_spread_travel(const struct cs_spread *s, int64_t width, void *out, void *here)
{
    if (!cs_spread_moves(s))
        return (struct cs_travel){width, out, out, NULL};
    if (here == NULL)
        here = cs_scratch_floats(s->run->scratch, s->come * width);
    return (struct cs_travel){width, out, here,
                              cs_scratch_floats(s->run->scratch, s->come * width)};
}

/* rows from one array to another */
static void copy(const struct cs_spread *s, int64_t rows, int64_t width, const void *from, void *to)
{
    if (rows > 0)
        s->run->ops->copy_heads(s->run->ctx, rows, 1, width, from, width, 0, to, width, 0);
}

static float *row_of(void *array, int64_t row, int64_t width)
{
    return (float *)array + row * width;
}

/* All arrays between out and in; own rows are copied. */
static void move(const struct cs_spread *s, const struct cs_travel *travel, int n, bool is_back)
{
    const struct cs_exchange x = cs_exchange_new(s->run, s->ranks);
    const int own = s->ranks->place, ranks = s->ranks->n;
    for (int k = 0; k < ranks; k++) {
        const int r = (own + k) % ranks;
        const int64_t n_out = s->out_at[r + 1] - s->out_at[r], n_in = s->in_at[r + 1] - s->in_at[r];
        for (int i = 0; i < n; i++) {
            const struct cs_travel *t = &travel[i];
            float *const out = row_of(t->out, s->out_at[r], t->width), *const in = row_of(
                                                                           t->in, s->in_at[r],
                                                                           t->width);
            const int64_t bytes = t->width * (int64_t)sizeof(float);
            if (r == own)
                copy(s, n_out, t->width, is_back ? in : out, is_back ? out : in);
            else {
                cs_exchange_add(&x, r, out, n_out * bytes, !is_back);
                cs_exchange_add(&x, r, in, n_in * bytes, is_back);
            }
        }
    }
    cs_exchange_move(&x);
}

void cs_spread_go(const struct cs_spread *s, const struct cs_travel *travel, int n)
{
    if (!cs_spread_moves(s))
        return;
    if (s->ranks->start != NULL)
        move(s, travel, n, false);
    for (int i = 0; i < n && s->come > 0; i++)
        s->run->ops->gather_rows(s->run->ctx, s->come, travel[i].width, s->index, travel[i].in,
                                 travel[i].here);
}

void cs_spread_back(const struct cs_spread *s, const struct cs_travel *travel, int n)
{
    if (!cs_spread_moves(s))
        return;
    for (int i = 0; i < n && s->come > 0; i++)
        s->run->ops->scatter_rows(s->run->ctx, s->come, travel[i].width, s->index, travel[i].here,
                                  travel[i].in, 0);
    if (s->ranks->start != NULL)
        move(s, travel, n, true);
}
