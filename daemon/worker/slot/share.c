/* Which items of an encoder are on which rank, and what goes where from there. */
#include "worker/slot/share.h"

#include <stdlib.h>
#include <string.h>

#include "worker/slot/item.h"
#include "worker/slot/row_runs.h"

static int32_t *ints(struct cs_input *in, int64_t n)
{
    return cs_scratch_take(&in->memory, (size_t)n * sizeof(int32_t));
}

static const struct cs_arch *arch_of(const struct cs_input *in, int32_t e)
{
    return &cs_graph_encoder(in->tables->graph, e)->arch;
}

/* ---- cuts ---- */

/* before[i]: patches of the items in front of item i */
static int64_t *count_patches(struct cs_input *in, int32_t e)
{
    const int32_t n = in->n_items[e];
    int64_t *before = cs_scratch_take(&in->memory, ((size_t)n + 1) * sizeof *before);
    before[0] = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t grid[3];
        cs_input_item_grid(arch_of(in, e), &in->slot.items[e][i], grid);
        before[i + 1] = before[i] + cs_front_rows(arch_of(in, e), grid);
    }
    return before;
}

static const struct cs_slot_blend *blend_of(const struct cs_input *in, int32_t e, int32_t fill)
{
    const int32_t source = in->slot.source[e][fill];
    return source <= CS_SOURCE_BLENDS ? &in->slot.blends[e][CS_SOURCE_BLENDS - source] : NULL;
}

static int32_t item_of_row(const struct cs_input *in, int32_t e, int32_t row)
{
    int32_t i = 0;
    for (int32_t end = in->slot.items[e][0].shape.rows; end <= row && i < in->n_items[e] - 1;)
        end += in->slot.items[e][++i].shape.rows;
    return i;
}

/* the last item that fills a row: blends take from several */
static int32_t last_item_of(const struct cs_input *in, int32_t e, int32_t fill, int32_t *first)
{
    const struct cs_slot_blend *blend = blend_of(in, e, fill);
    int32_t last = *first = in->item_of[e][fill];
    for (int k = 0; blend != NULL && k < 4; k++) {
        if (!(blend->weight[k] > 0) && !(blend->weight[k] < 0))
            continue;
        const int32_t item = item_of_row(in, e, blend->row[k]);
        last = item > last ? item : last;
        *first = item < *first ? item : *first;
    }
    return last;
}

/* is_cut[i]: nothing that items before i fill comes behind what others fill, or needs them too: pieces
 * of one picture stay together */
static bool *find_cuts(struct cs_input *in, int32_t e)
{
    const int32_t n = in->n_items[e];
    bool *is_cut = cs_scratch_take(&in->memory, (size_t)n + 1);
    int32_t most = -1;
    memset(is_cut, 1, (size_t)n + 1);
    for (int32_t f = 0; in->slot.source[e] != NULL && f < in->n_fills[e]; f++) {
        int32_t first;
        const int32_t last = last_item_of(in, e, f, &first);
        const int32_t end = last > most ? last : most;
        for (int32_t i = first + 1; i <= end; i++)
            is_cut[i] = false;
        most = end;
    }
    return is_cut;
}

/* The cuts that lie nearest to even parts. */
static int32_t *cut_items(struct cs_input *in, int32_t e, int32_t ranks)
{
    const int64_t *before = count_patches(in, e);
    const bool *is_cut = find_cuts(in, e);
    const int32_t n = in->n_items[e];
    int32_t *item = ints(in, ranks + 1);
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

static int32_t *count_rows(struct cs_input *in, int32_t e, int32_t ranks, const int32_t *item)
{
    int32_t *row = ints(in, ranks + 1);
    row[0] = 0;
    for (int32_t r = 0; r < ranks; r++) {
        row[r + 1] = row[r];
        for (int32_t i = item[r]; i < item[r + 1]; i++)
            row[r + 1] += in->slot.items[e][i].shape.rows;
    }
    return row;
}

static int32_t *count_fills(struct cs_input *in, int32_t e, int32_t ranks, const int32_t *item)
{
    int32_t *fill = ints(in, ranks + 1), n = 0;
    fill[0] = 0;
    for (int32_t r = 0; r < ranks; r++) {
        while (n < in->n_fills[e] && (in->item_of[e][n] < item[r + 1] || r == ranks - 1))
            n++;
        fill[r + 1] = n;
    }
    return fill;
}

/* ---- ways ---- */

static int32_t owner_of(const int32_t *owner, int32_t row)
{
    return owner != NULL ? owner[row] : 0;
}

static int32_t *count_come(struct cs_input *in, int32_t e, const int32_t *owner,
                           const struct cs_item_share *s)
{
    int32_t *come = ints(in, s->ranks + 1);
    come[0] = 0;
    for (int32_t r = 0; r < s->ranks; r++) {
        come[r + 1] = come[r];
        for (int32_t f = s->fill[r]; f < s->fill[r + 1]; f++)
            come[r + 1] += owner_of(owner, in->fill[e][f]) == s->llm;
    }
    return come;
}

static int32_t *count_taken(struct cs_input *in, int32_t e, const int32_t *owner)
{
    const int32_t ranks = owner != NULL ? in->tables->context.ranks : 1;
    int32_t *taken = ints(in, ranks);
    memset(taken, 0, (size_t)ranks * sizeof *taken);
    for (int32_t f = 0; f < in->n_fills[e]; f++)
        taken[owner_of(owner, in->fill[e][f])]++;
    return taken;
}

void cs_shares_make(struct cs_input *in, const int32_t *owner)
{
    for (int32_t e = 0; e < in->tables->budget->n_encoders; e++) {
        const struct cs_slot_encoder *enc = &in->tables->enc[e];
        if (enc->ranks < 2)
            continue;
        struct cs_item_share *s = in->share[e] = cs_scratch_take(&in->memory, sizeof *s);
        *s = (struct cs_item_share){.ranks = enc->ranks, .place = enc->place};
        s->llm = owner != NULL ? in->tables->context.place : 0;
        s->item = cut_items(in, e, s->ranks);
        s->row = count_rows(in, e, s->ranks, s->item);
        s->fill = count_fills(in, e, s->ranks, s->item);
        s->come = count_come(in, e, owner, s);
        s->taken = count_taken(in, e, owner);
        if (s->place >= 0)
            s->go = cs_row_runs_make(in, owner, in->fill[e] + s->fill[s->place],
                                     s->fill[s->place + 1] - s->fill[s->place]);
    }
}

/* ---- the own part ---- */

static int64_t values_of(const struct cs_arch *arch, const struct cs_item *item)
{
    int32_t grid[3];
    cs_input_item_grid(arch, item, grid);
    return arch->front.stem == CS_STEM_FRAMES
               ? item->shape.bytes / (arch->channels * (int32_t)sizeof(float))
               : cs_front_patches(arch, grid);
}

/* Items whose data begin with their own; how many values there are of those before. */
static void take_items(struct cs_input *in, int32_t e, const struct cs_item_share *s)
{
    const struct cs_item *all = in->slot.items[e];
    const int32_t first = s->item[s->place], end = s->item[s->place + 1], n = end - first;
    struct cs_item *own = cs_scratch_take(&in->memory, ((size_t)n + 1) * sizeof *own);
    const int64_t begin = n > 0 ? all[first].offset : 0;
    for (int32_t i = 0; i < first; i++)
        in->values_before[e] += values_of(arch_of(in, e), &all[i]);
    in->n_bytes[e] = 0;
    for (int32_t i = 0; i < n; i++) {
        own[i] = all[first + i];
        own[i].offset -= begin;
        in->n_bytes[e] = own[i].offset + own[i].shape.bytes;
    }
    in->slot.items[e] = own;
    in->slot.data[e] += begin;
    in->n_items[e] = n;
    in->n_rows[e] = s->row[s->place + 1] - s->row[s->place];
}

/* Sources count rows of the encoder from the first that is here. */
static void take_sources(struct cs_input *in, int32_t e, int32_t first_fill, int32_t n_fills,
                         int32_t first_row)
{
    const int32_t n_blends = in->slot.head->n_blends[e];
    const int32_t *all = in->slot.source[e] + first_fill;
    int32_t *own = ints(in, n_fills);
    struct cs_slot_blend *blends =
        cs_scratch_take(&in->memory, ((size_t)n_blends + 1) * sizeof *blends);
    for (int32_t i = 0; i < n_fills; i++)
        own[i] = all[i] >= 0 ? all[i] - first_row : all[i];
    for (int32_t b = 0; b < n_blends; b++) {
        blends[b] = in->slot.blends[e][b];
        for (int k = 0; k < 4; k++)
            blends[b].row[k] -= first_row;
    }
    in->slot.source[e] = own;
    in->slot.blends[e] = blends;
}

void cs_shares_take(struct cs_input *in)
{
    for (int32_t e = 0; e < in->tables->budget->n_encoders; e++) {
        const struct cs_item_share *s = in->share[e];
        if (s == NULL || s->place < 0)
            continue;
        const int32_t n_fills = in->n_fills[e], first = s->fill[s->place];
        const int32_t *fill = in->fill[e], *item_of = in->item_of[e];
        take_items(in, e, s);
        in->n_fills[e] = s->fill[s->place + 1] - first;
        in->slot.rows[e] += first;
        if (in->slot.source[e] != NULL)
            take_sources(in, e, first, in->n_fills[e], s->row[s->place]);
        cs_input_prepare_encoder(in, e);
        in->n_fills[e] = n_fills; /* of the LLM */
        in->fill[e] = fill;
        in->item_of[e] = item_of;
    }
}
