/* Which items of an encoder are on which rank, and what goes where from there. */
#include "worker/slot/share.h"

#include <stdlib.h>

#include "worker/slot/item.h"
#include "worker/slot/pool.h"

static int32_t *ints(struct cs_input *in, int64_t n)
{
    return cs_scratch_take(&in->memory, (size_t)n * sizeof(int32_t));
}

/* ---- cuts ---- */

/* before[i]: patches of the items in front of item i */
static int64_t *count_patches(const struct cs_item_pool *p)
{
    int64_t *before = cs_scratch_take(&p->in->memory, ((size_t)p->n_items + 1) * sizeof *before);
    before[0] = 0;
    for (int32_t i = 0; i < p->n_items; i++) {
        int32_t grid[3];
        cs_input_item_grid(p->arch, cs_item_pool_item(p, i), grid);
        before[i + 1] = before[i] + cs_front_rows(p->arch, grid);
    }
    return before;
}

/* The cuts that lie nearest to even parts. */
static int32_t *cut_items(const struct cs_item_pool *p, int32_t ranks)
{
    const int64_t *before = count_patches(p);
    const bool *is_cut = cs_item_pool_cuts(p);
    const int32_t n = p->n_items;
    int32_t *item = ints(p->in, ranks + 1);
    item[0] = 0;
    item[ranks] = n;
    for (int32_t r = 1; r < ranks; r++) {
        const int64_t want = before[n] * r / ranks;
        int32_t best = item[r - 1];
        for (int32_t i = best; i <= n; i++)
            if ((i == n || is_cut[i]) && llabs(before[i] - want) < llabs(before[best] - want))
                best = i;
        item[r] = best;
    }
    return item;
}

static int32_t *count_rows(const struct cs_item_pool *p, int32_t ranks, const int32_t *item)
{
    int32_t *row = ints(p->in, ranks + 1);
    row[0] = 0;
    for (int32_t r = 0; r < ranks; r++) {
        row[r + 1] = row[r];
        for (int32_t i = item[r]; i < item[r + 1]; i++)
            row[r + 1] += cs_item_pool_item(p, i)->shape.rows;
    }
    return row;
}

static int32_t *count_fills(const struct cs_item_pool *p, int32_t ranks, const int32_t *item)
{
    int32_t *fill = ints(p->in, ranks + 1), n = 0;
    fill[0] = 0;
    for (int32_t r = 0; r < ranks; r++) {
        while (n < p->n_fills && (cs_item_pool_item_of(p, n) < item[r + 1] || r == ranks - 1))
            n++;
        fill[r + 1] = n;
    }
    return fill;
}

/* ---- ways ---- */

static int32_t at_least_one(int32_t n)
{
    return n > 1 ? n : 1;
}

/* the part of the LLM that has each of the rows that are filled */
static int32_t *find_takers(const struct cs_item_pool *p)
{
    const int32_t ranks = at_least_one(p->in->tables->context.ranks);
    int32_t *to = ints(p->in, p->n_fills), n = 0;
    for (int32_t l = 0; l < p->n_lanes; l++) {
        const struct cs_input *lane = p->lane[l];
        const struct cs_input_fills *f = &lane->whole[p->encoder];
        for (int32_t i = 0; i < f->n; i++)
            to[n++] = l * ranks + (lane->split != NULL ? lane->split->owner[f->row[i]] : 0);
    }
    return to;
}

static void make_map(const struct cs_item_pool *p, struct cs_item_share *s)
{
    const int32_t n_to = p->n_lanes * at_least_one(p->in->tables->context.ranks);
    struct cs_row_interval *interval =
        cs_scratch_take(&p->in->memory, ((size_t)p->n_fills + 1) * sizeof *interval);
    cs_row_map_make(s->fill, s->ranks, find_takers(p), n_to, interval, ints(p->in, s->ranks),
                    ints(p->in, n_to), &s->map);
}

void cs_shares_make(struct cs_input *in, const struct cs_input *const *beside)
{
    const struct cs_input_context *c = &in->tables->context;
    for (int32_t e = 0; e < in->tables->budget->n_encoders; e++) {
        const struct cs_slot_encoder *enc = &in->tables->enc[e];
        if (enc->ranks < 2 && c->ranks < 2 && c->lanes < 2)
            continue;
        const struct cs_item_pool p = cs_item_pool_of(in, e, beside);
        struct cs_item_share *s = in->share[e] = cs_scratch_take(&in->memory, sizeof *s);
        *s = (struct cs_item_share){.ranks = at_least_one(enc->ranks), .place = enc->place};
        s->llm = c->place < 0 ? -1 : c->lane * at_least_one(c->ranks) + c->place;
        s->item = cut_items(&p, s->ranks);
        s->row = count_rows(&p, s->ranks, s->item);
        s->fill = count_fills(&p, s->ranks, s->item);
        make_map(&p, s);
    }
}

/* ---- the own part ---- */

void cs_shares_take(struct cs_input *in, const struct cs_input *const *beside)
{
    for (int32_t e = 0; e < in->tables->budget->n_encoders; e++) {
        const struct cs_item_share *s = in->share[e];
        if (s == NULL || s->place < 0 || (s->ranks < 2 && in->tables->context.lanes < 2))
            continue;
        const struct cs_item_pool p = cs_item_pool_of(in, e, beside);
        const int32_t n_fills = in->n_fills[e];
        const int32_t *fill = in->fill[e], *item_of = in->item_of[e];
        cs_item_pool_take(&p, s->item[s->place], s->item[s->place + 1]);
        in->n_rows[e] = s->row[s->place + 1] - s->row[s->place];
        cs_item_pool_take_fills(&p, s->fill[s->place], s->fill[s->place + 1], s->row[s->place]);
        cs_input_prepare_encoder(in, e);
        in->n_fills[e] = n_fills; /* of the LLM */
        in->fill[e] = fill;
        in->item_of[e] = item_of;
    }
}

void cs_input_join(struct cs_input *input, const struct cs_input *const *beside)
{
    cs_shares_make(input, beside);
    cs_shares_take(input, beside);
}
