/* Items of slots side by side: found, cut, and taken over by the slot of a rank. */
#include "worker/slot/pool.h"

#include <string.h>

#include "worker/slot/item.h"

static void *take(const struct cs_item_pool *p, size_t n, size_t size)
{
    return cs_scratch_take(&p->in->memory, (n + 1) * size);
}

struct cs_item_pool cs_item_pool_of(struct cs_input *in, int32_t encoder,
                                    const struct cs_input *const *lane)
{
    struct cs_item_pool p = {.in = in,
                             .encoder = encoder,
                             .arch = &cs_graph_encoder(in->tables->graph, encoder)->arch,
                             .lane = lane,
                             .n_lanes =
                                 in->tables->context.lanes > 1 ? in->tables->context.lanes : 1};
    const size_t n = (size_t)p.n_lanes;
    int32_t *item = take(&p, n, sizeof *item), *fill = take(&p, n, sizeof *fill),
            *row = take(&p, n, sizeof *row);
    const struct cs_item **items = take(&p, n, sizeof *items);
    item[0] = fill[0] = row[0] = 0;
    for (int32_t l = 0; l < p.n_lanes; l++) {
        item[l + 1] = item[l] + lane[l]->n_items[encoder];
        fill[l + 1] = fill[l] + lane[l]->whole[encoder].n;
        row[l + 1] = row[l] + lane[l]->n_rows[encoder];
        items[l] = lane[l]->slot.items[encoder];
    }
    p.items = items;
    p.first_item = item;
    p.first_fill = fill;
    p.first_row = row;
    p.n_items = item[n];
    p.n_fills = fill[n];
    return p;
}

/* the slot that one of the numbers is in: first (n_lanes + 1) */
static int32_t lane_of(const struct cs_item_pool *p, const int32_t *first, int32_t i)
{
    int32_t l = 0;
    while (l < p->n_lanes - 1 && first[l + 1] <= i)
        l++;
    return l;
}

const struct cs_item *cs_item_pool_item(const struct cs_item_pool *p, int32_t i)
{
    const int32_t l = lane_of(p, p->first_item, i);
    return &p->items[l][i - p->first_item[l]];
}

int32_t cs_item_pool_item_of(const struct cs_item_pool *p, int32_t fill)
{
    const int32_t l = lane_of(p, p->first_fill, fill);
    return p->first_item[l] + p->lane[l]->whole[p->encoder].item[fill - p->first_fill[l]];
}

/* ---- cuts ---- */

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

/* the last item of a slot that fills a row: blends take from several */
static int32_t last_item_of(const struct cs_input *in, int32_t e, int32_t fill, int32_t *first)
{
    const struct cs_slot_blend *blend = blend_of(in, e, fill);
    int32_t last = *first = in->whole[e].item[fill];
    for (int k = 0; blend != NULL && k < 4; k++) {
        if (!(blend->weight[k] > 0) && !(blend->weight[k] < 0))
            continue;
        const int32_t item = item_of_row(in, e, blend->row[k]);
        last = item > last ? item : last;
        *first = item < *first ? item : *first;
    }
    return last;
}

/* is_cut (items of the slot): all true before */
static void close_cuts(const struct cs_input *in, int32_t e, bool *is_cut)
{
    int32_t most = -1;
    for (int32_t f = 0; in->slot.source[e] != NULL && f < in->whole[e].n; f++) {
        int32_t first;
        const int32_t last = last_item_of(in, e, f, &first);
        const int32_t end = last > most ? last : most;
        for (int32_t i = first + 1; i <= end; i++)
            is_cut[i] = false;
        most = end;
    }
}

const bool *cs_item_pool_cuts(const struct cs_item_pool *p)
{
    bool *is_cut = take(p, (size_t)p->n_items, sizeof *is_cut);
    memset(is_cut, 1, ((size_t)p->n_items + 1) * sizeof *is_cut);
    for (int32_t l = 0; l < p->n_lanes; l++)
        close_cuts(p->lane[l], p->encoder, is_cut + p->first_item[l]);
    return is_cut;
}

/* ---- taken ---- */

static int64_t values_of(const struct cs_arch *arch, const struct cs_item *item)
{
    int32_t grid[3];
    cs_input_item_grid(arch, item, grid);
    return arch->front.stem == CS_STEM_FRAMES
               ? item->shape.bytes / (arch->channels * (int32_t)sizeof(float))
               : cs_front_patches(arch, grid);
}

/* Data of items of one slot lie where they lay; those of several are put one behind the other. */
static uint8_t *take_data(const struct cs_item_pool *p, int32_t first, int32_t end, int64_t bytes)
{
    const int32_t l = lane_of(p, p->first_item, first);
    uint8_t *const begin =
        first < end ? p->lane[l]->slot.data[p->encoder] + cs_item_pool_item(p, first)->offset
                    : p->in->slot.data[p->encoder];
    if (first == end || lane_of(p, p->first_item, end - 1) == l)
        return begin;
    uint8_t *all = take(p, (size_t)bytes, 1), *to = all;
    for (int32_t i = first; i < end; i++) {
        const struct cs_item *item = cs_item_pool_item(p, i);
        const int32_t from = lane_of(p, p->first_item, i);
        memcpy(to, p->lane[from]->slot.data[p->encoder] + item->offset, (size_t)item->shape.bytes);
        to += item->shape.bytes;
    }
    return all;
}

/* Values that stand for the items' data: of one slot they stay where they are, behind those of the items before;
 * those of several are put one behind the other. */
static void take_values(const struct cs_item_pool *p, int32_t first, int32_t end)
{
    const size_t each = (size_t)cs_front_values(p->arch);
    struct cs_input *in = p->in;
    float *all = NULL;
    int64_t before = 0, n = 0;
    for (int32_t i = 0; i < end; i++)
        *(i < first ? &before : &n) += values_of(p->arch, cs_item_pool_item(p, i));
    if (p->n_lanes < 2)
        in->values_before[p->encoder] = before;
    if (p->n_lanes < 2 || in->patches[p->encoder] == NULL)
        return;
    float *to = all = take(p, (size_t)n * each, sizeof *all);
    for (int32_t l = 0, i = 0; l < p->n_lanes; l++) {
        const float *from = p->lane[l]->patches[p->encoder];
        for (; i < p->first_item[l + 1]; i++) {
            const size_t count = (size_t)values_of(p->arch, cs_item_pool_item(p, i)) * each;
            if (i >= first && i < end)
                memcpy(to, from, count * sizeof *to);
            to += i >= first && i < end ? count : 0;
            from += count;
        }
    }
    in->patches[p->encoder] = all;
}

void cs_item_pool_take(const struct cs_item_pool *p, int32_t first, int32_t end)
{
    struct cs_input *in = p->in;
    const int32_t e = p->encoder;
    struct cs_item *own = take(p, (size_t)(end - first), sizeof *own);
    int64_t bytes = 0;
    for (int32_t i = first; i < end; i++) {
        own[i - first] = *cs_item_pool_item(p, i);
        own[i - first].offset = bytes;
        bytes += own[i - first].shape.bytes;
    }
    uint8_t *data = take_data(p, first, end, bytes);
    take_values(p, first, end);
    in->n_bytes[e] = bytes;
    in->slot.items[e] = own;
    in->slot.data[e] = data;
    in->n_items[e] = end - first;
}

/* Sources count rows of the encoder from the first that is here, blends through all slots. */
static void take_sources(const struct cs_item_pool *p, const struct cs_slot *slots, int32_t first,
                         int32_t end, int32_t first_row)
{
    const int32_t e = p->encoder;
    int32_t *own = take(p, (size_t)(end - first), sizeof *own), n_blends = 0;
    for (int32_t l = 0; l < p->n_lanes; l++)
        n_blends += slots[l].head->n_blends[e];
    struct cs_slot_blend *blends = take(p, (size_t)n_blends, sizeof *blends);
    n_blends = 0;
    for (int32_t l = 0; l < p->n_lanes; l++) {
        for (int32_t i = first; i < end; i++) {
            if (lane_of(p, p->first_fill, i) != l)
                continue;
            const int32_t source = slots[l].source[e][i - p->first_fill[l]];
            own[i - first] = source >= 0                  ? source + p->first_row[l] - first_row
                             : source <= CS_SOURCE_BLENDS ? source - n_blends
                                                          : source;
        }
        for (int32_t b = 0; b < slots[l].head->n_blends[e]; b++) {
            struct cs_slot_blend *blend = &blends[n_blends++];
            *blend = slots[l].blends[e][b];
            for (int k = 0; k < 4; k++)
                blend->row[k] += p->first_row[l] - first_row;
        }
    }
    p->in->slot.source[e] = own;
    p->in->slot.blends[e] = blends;
}

void cs_item_pool_take_fills(const struct cs_item_pool *p, int32_t first, int32_t end,
                             int32_t first_row)
{
    struct cs_input *in = p->in;
    const int32_t e = p->encoder;
    struct cs_slot *slots = take(p, (size_t)p->n_lanes, sizeof *slots);
    int32_t *rows = take(p, (size_t)(end - first), sizeof *rows);
    for (int32_t l = 0; l < p->n_lanes; l++)
        slots[l] = p->lane[l]->slot;
    for (int32_t i = first; i < end; i++) {
        const int32_t l = lane_of(p, p->first_fill, i);
        rows[i - first] = slots[l].rows[e][i - p->first_fill[l]];
    }
    in->n_fills[e] = end - first;
    in->slot.rows[e] = rows;
    if (slots[0].source[e] != NULL)
        take_sources(p, slots, first, end, first_row);
}
