/* Cuts the rows of a slot into one stretch for each rank that has some: as many rows each, the first ranks
 * one more. */
#include "worker/slot/stretch.h"

#include <string.h>

static int32_t *ints(struct cs_input *in, int64_t n)
{
    return cs_scratch_take(&in->memory, (size_t)n * sizeof(int32_t));
}

static int32_t *cut(struct cs_input *in)
{
    const struct cs_context_group *group = &in->split->group;
    int32_t *begin = ints(in, in->split->ranks + 1);
    begin[0] = 0;
    for (int32_t r = 0; r < in->split->ranks; r++) {
        const int32_t k = r - group->first;
        begin[r + 1] = begin[r];
        if (k >= 0 && k < group->n)
            begin[r + 1] += in->n_tokens / group->n + (k < in->n_tokens % group->n);
    }
    return begin;
}

/* the document that has a row: its number among those of the slot */
static int32_t document_of(const struct cs_mask_plan *all, int32_t row)
{
    int32_t d = 0;
    while (all->segment[d + 1] <= row)
        d++;
    return d;
}

static int32_t rank_of(const int32_t *begin, int32_t row)
{
    int32_t r = 0;
    while (begin[r + 1] <= row)
        r++;
    return r;
}

/* Documents of `before` rows in front of the own ones and of these. */
static struct cs_mask_plan documents(struct cs_input *in, const struct cs_mask_plan *all,
                                     int32_t first, int32_t n, int32_t before)
{
    int32_t *segment = ints(in, (int64_t)n + before + 2), count = 0;
    for (int32_t d = 0; d < all->n_segments; d++)
        if (all->segment[d] < first + n && all->segment[d + 1] > first)
            segment[count++] = all->segment[d] > first ? all->segment[d] - first + before : 0;
    segment[count] = n + before;
    return (struct cs_mask_plan){.n_tokens = n + before,
                                 .doc = all->doc + first - before,
                                 .pos = all->pos + first - before,
                                 .n_segments = count,
                                 .segment = segment};
}

static int32_t *halos(struct cs_input *in, const struct cs_mask_plan *all, const int32_t *begin)
{
    const struct cs_input_context *c = &in->tables->context;
    int32_t *halo = ints(in, c->ranks);
    for (int32_t r = 0; r < c->ranks; r++) {
        halo[r] = 0;
        if (begin[r] == begin[r + 1])
            continue;
        halo[r] = begin[r] - all->segment[document_of(all, begin[r])];
        halo[r] = halo[r] < c->taps - 1 ? halo[r] : c->taps - 1;
    }
    return halo;
}

/* Where the own rows in order come from, and where those that are dealt to this rank go. */
static void find_ways(struct cs_input *in, const int32_t *begin, struct cs_split_stretch *s)
{
    const struct cs_input_context *c = &in->tables->context;
    const int32_t *owner = in->split->owner + begin[c->place];
    int32_t *go = ints(in, c->ranks), *come = ints(in, c->ranks), *next = ints(in, c->ranks);
    int32_t *order = ints(in, s->n), *place = ints(in, s->n);
    memset(go, 0, (size_t)c->ranks * sizeof *go);
    memset(come, 0, (size_t)c->ranks * sizeof *come);
    for (int32_t i = 0; i < in->n_tokens; i++)
        if (in->split->owner[i] == c->place)
            go[rank_of(begin, i)]++;
    for (int32_t i = 0; i < s->n; i++)
        come[owner[i]]++;
    for (int32_t r = 0, at = 0; r < c->ranks; at += come[r++])
        next[r] = at;
    for (int32_t i = 0; i < s->n; i++) {
        order[i] = next[owner[i]]++;
        place[order[i]] = i;
    }
    s->go = go;
    s->come = come;
    s->host.order = order;
    s->host.place = place;
}

static void take(struct cs_input *in, const int32_t *begin)
{
    const struct cs_input_context *c = &in->tables->context;
    const struct cs_mask_plan *all = &in->split->all;
    struct cs_split_stretch *s = &in->split->stretch;
    const int32_t first = begin[c->place], n = begin[c->place + 1] - first;
    *s = (struct cs_split_stretch){.begin = begin, .n = n, .from = c->place, .to = c->place};
    s->halo = halos(in, all, begin);
    s->host.mask = documents(in, all, first, n, 0);
    s->host.wide = documents(in, all, first, n, s->halo[c->place]);
    find_ways(in, begin, s);
    s->at = s->host;
    if (n == 0)
        return;
    s->from = rank_of(begin, all->segment[document_of(all, first)]);
    s->to = rank_of(begin, all->segment[document_of(all, first + n - 1) + 1] - 1);
}

void cs_stretch_make(struct cs_input *in)
{
    if (in->tables->context.taps > 0)
        take(in, cut(in));
}

static const int32_t *put(struct cs_slot_block *b, const int32_t *host, int32_t n, int32_t most)
{
    return cs_slot_block_put_room(b, host, (size_t)n * sizeof *host, (size_t)most * sizeof *host);
}

static void put_documents(struct cs_slot_block *b, const struct cs_mask_plan *host, int32_t most,
                          struct cs_mask_plan *at)
{
    at->doc = put(b, host->doc, host->n_tokens, most);
    at->pos = put(b, host->pos, host->n_tokens, most);
    at->segment = put(b, host->segment, host->n_segments + 1, most + 1);
}

void cs_stretch_put(struct cs_input *in, struct cs_slot_block *block)
{
    const struct cs_input_context *c = &in->tables->context;
    struct cs_split_stretch *s = &in->split->stretch;
    const int32_t most = c->most_in_order;
    if (s->begin == NULL || block->is_host)
        return;
    s->at.order = put(block, s->host.order, s->n, most);
    s->at.place = put(block, s->host.place, s->n, most);
    put_documents(block, &s->host.mask, most, &s->at.mask);
    put_documents(block, &s->host.wide, most + c->taps, &s->at.wide);
}

void cs_stretch_make_fullest(struct cs_input *in)
{
    const struct cs_input_context *c = &in->tables->context;
    const int32_t left = in->n_tokens - c->most_in_order;
    int32_t *begin = ints(in, c->ranks + 1);
    if (c->taps == 0)
        return;
    for (int32_t r = 0; r <= c->ranks; r++) /* the others' rows are before the own ones */
        begin[r] = r < c->place ? 0 : r == c->place ? left : in->n_tokens;
    if (c->place == 0) {
        begin[0] = 0;
        begin[1] = c->most_in_order;
    }
    take(in, begin);
}
