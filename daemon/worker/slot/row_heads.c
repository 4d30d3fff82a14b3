/* Rows come by the rank that has them, each rank's in their order in the slot; attention takes them in the order of
 * the slot, and what it makes goes back as they came. */
#include "worker/slot/row_heads.h"

static int32_t *ints(struct cs_input *in, int64_t n)
{
    return cs_scratch_take(&in->memory, (size_t)n * sizeof(int32_t));
}

/* Rows that are added come from nowhere: they are zeros. */
static void make_order(struct cs_input *in, struct cs_split_heads *h)
{
    const struct cs_input_split *s = in->split;
    int32_t *order = ints(in, h->rows), *place = ints(in, h->n), at = 0;
    for (int32_t i = h->n; i < h->rows; i++)
        order[i] = -1;
    for (int32_t r = 0; r < s->ranks; r++)
        for (int32_t k = s->tokens.first[r]; k < s->tokens.first[r + 1]; k++)
            for (int32_t i = 0; i < s->tokens.run[k].n; i++) {
                place[at] = s->tokens.run[k].row + i;
                order[place[at]] = at;
                at++;
            }
    h->host.order = order;
    h->host.place = place;
}

/* of `copies` arrays (own) that follow each other, row by row */
static const int32_t *make_sums(struct cs_input *in, int32_t own, int32_t copies)
{
    int32_t *index = ints(in, (int64_t)own * copies), *at = index;
    for (int32_t i = 0; i < own; i++)
        for (int32_t c = 0; c < copies; c++)
            *at++ = c * own + i;
    return index;
}

/* of so many ranks those that have the same heads of keys; 1: no other */
static int32_t copies_of(const struct cs_input_context *c, int32_t attention, int32_t ranks)
{
    const int32_t keys = c->keys[attention];
    return keys > 0 && keys < ranks ? ranks / keys : 1;
}

void cs_row_heads_make(struct cs_input *in)
{
    const struct cs_input_context *c = &in->tables->context;
    struct cs_input_split *s = in->split;
    if (s == NULL || s->place < 0 || !c->moves_heads)
        return;
    struct cs_split_heads *h = &s->heads;
    *h = (struct cs_split_heads){.own = in->llm_rows};
    if (s->group.n < 2 || !cs_split_has_part(s))
        return;
    h->n = in->n_tokens;
    h->rows = in->mask[0].n_tokens;
    make_order(in, h);
    for (int32_t a = 0; a < in->tables->graph->n_attentions; a++) {
        const int32_t copies = copies_of(c, a, s->group.n);
        if (copies > 1)
            h->host.sums[a] = make_sums(in, h->own, copies);
    }
    h->at = h->host;
}

static const int32_t *put(struct cs_slot_block *b, const int32_t *host, int64_t n, int64_t most)
{
    return cs_slot_block_put_room(b, host, (size_t)n * sizeof *host, (size_t)most * sizeof *host);
}

void cs_row_heads_put(struct cs_input *in, struct cs_slot_block *block)
{
    const struct cs_input_context *c = &in->tables->context;
    const int32_t most = in->tables->budget->seq_tokens;
    struct cs_split_heads *h = &in->split->heads;
    if (!c->moves_heads || block->is_host)
        return;
    h->at.order = put(block, h->host.order, h->rows, most);
    h->at.place = put(block, h->host.place, h->n, most);
    for (int32_t a = 0; a < in->tables->graph->n_attentions; a++) {
        const int64_t own = h->host.sums[a] != NULL ? h->own : 0;
        if (copies_of(c, a, c->ranks) > 1)
            h->at.sums[a] = put(block, h->host.sums[a], own * copies_of(c, a, in->split->group.n),
                                (int64_t)c->most * copies_of(c, a, c->ranks));
    }
}
