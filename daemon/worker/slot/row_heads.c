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

void cs_row_heads_make(struct cs_input *in)
{
    const struct cs_input_context *c = &in->tables->context;
    struct cs_input_split *s = in->split;
    if (s == NULL || s->place < 0 || !c->moves_heads)
        return;
    struct cs_split_heads *h = &s->heads;
    *h = (struct cs_split_heads){
        .n = in->n_tokens, .rows = in->mask[0].n_tokens, .own = in->llm_rows};
    make_order(in, h);
    for (int32_t a = 0; a < in->tables->graph->n_attentions; a++)
        if (c->copies[a] > 1)
            h->host.sums[a] = make_sums(in, h->own, c->copies[a]);
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
    for (int32_t a = 0; a < in->tables->graph->n_attentions; a++)
        if (c->copies[a] > 1)
            h->at.sums[a] = put(block, h->host.sums[a], (int64_t)h->own * c->copies[a],
                                (int64_t)c->most * c->copies[a]);
}
