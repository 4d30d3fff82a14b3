/* LLM rows by what fills them. Without sources these are the rows of the items in turn: they are not moved,
 * only counted in the order in which they leave the branch. With sources the last step of the branch
 * makes every LLM row from a list of rows and the learned row. */
#include "worker/slot/fills.h"

#include <string.h>

#include "worker/slot/item.h"
#include "worker/slot/row_mix.h"

struct filler {
    struct cs_input *in;
    const struct cs_arch *arch;
    int32_t encoder, n, n_rows; /* n: LLM rows */
    const int32_t *source;
    const struct cs_slot_blend *blends;
    int32_t *leaving, *owner; /* (n_rows), read line by line: the row that leaves, and its item */
};

static int32_t *ints(const struct filler *f, int64_t n)
{
    return cs_scratch_take(&f->in->memory, (size_t)n * sizeof(int32_t));
}

static float *floats(const struct filler *f, int64_t n)
{
    return cs_scratch_take(&f->in->memory, (size_t)n * sizeof(float));
}

/* ---- the order in which rows leave ---- */

static void make_order(struct filler *f)
{
    int32_t first = 0, grid[3];
    f->leaving = ints(f, f->n_rows);
    f->owner = ints(f, f->n_rows);
    int32_t *place = ints(f, f->n_rows);
    for (int32_t i = 0; i < f->in->n_items[f->encoder]; i++) {
        const struct cs_item *item = &f->in->slot.items[f->encoder][i];
        const int32_t count = item->shape.rows;
        cs_input_item_grid(f->arch, item, grid);
        const bool is_grid = cs_front_out_rows(f->arch, grid) == count;
        if (is_grid)
            cs_front_places(f->arch, grid, place + first);
        for (int32_t r = 0; r < count; r++) {
            f->leaving[first + (is_grid ? place[first + r] : r)] = first + r;
            f->owner[first + r] = i;
        }
        first += count;
    }
}

static void fill_in_turn(const struct filler *f)
{
    const int32_t *rows = f->in->slot.rows[f->encoder];
    int32_t *fill = ints(f, f->n);
    for (int32_t r = 0; r < f->n; r++)
        fill[f->leaving[r]] = rows[r];
    f->in->fill[f->encoder] = fill;
    f->in->item_of[f->encoder] = f->owner;
}

/* ---- sources ---- */

static const struct cs_slot_blend *blend_of(const struct filler *f, int32_t fill)
{
    const int32_t source = f->source[fill];
    return source <= CS_SOURCE_BLENDS ? &f->blends[CS_SOURCE_BLENDS - source] : NULL;
}

/* the rows that fill it, with their weights: at most 4 */
static int32_t rows_of(const struct filler *f, int32_t fill, int32_t *row, float *weight)
{
    const struct cs_slot_blend *blend = blend_of(f, fill);
    int32_t n = 0;
    if (f->source[fill] >= 0) {
        row[n] = f->leaving[f->source[fill]];
        weight[n++] = 1;
    }
    for (int k = 0; blend != NULL && k < 4; k++) {
        if (!(blend->weight[k] > 0) && !(blend->weight[k] < 0))
            continue;
        row[n] = f->leaving[blend->row[k]];
        weight[n++] = blend->weight[k];
    }
    return n;
}

static void mix_rows(const struct filler *f, struct cs_input_rows *out)
{
    int32_t *start = ints(f, f->n + 1), *index = ints(f, 4 * (int64_t)f->n);
    float *weight = floats(f, 4 * (int64_t)f->n);
    start[0] = 0;
    for (int32_t i = 0; i < f->n; i++)
        start[i + 1] = start[i] + rows_of(f, i, index + start[i], weight + start[i]);
    out->fill = (struct cs_row_mix){f->n, start[f->n], start, index, weight};
    out->fill_back = cs_row_mix_back(&f->in->memory, &out->fill, f->n_rows);
}

static void mix_learned(const struct filler *f, struct cs_input_rows *out)
{
    int32_t *start = ints(f, f->n + 1), *index = ints(f, f->n), n = 0;
    float *weight = floats(f, f->n);
    start[0] = 0;
    for (int32_t i = 0; i < f->n; i++) {
        if (f->source[i] == CS_SOURCE_LEARNED) {
            index[n] = 0;
            weight[n++] = 1;
        }
        start[i + 1] = n;
    }
    out->learned = (struct cs_row_mix){f->n, n, start, index, weight};
    out->learned_back = cs_row_mix_back(&f->in->memory, &out->learned, 1);
}

/* A learned row belongs to the item before it. */
static void own(const struct filler *f)
{
    int32_t *item = ints(f, f->n), last = 0;
    for (int32_t i = 0; i < f->n; i++) {
        const struct cs_slot_blend *blend = blend_of(f, i);
        const int32_t row = blend != NULL ? blend->row[0] : f->source[i];
        last = row >= 0 ? f->owner[row] : last;
        item[i] = last;
    }
    f->in->fill[f->encoder] = f->in->slot.rows[f->encoder];
    f->in->item_of[f->encoder] = item;
}

void cs_input_prepare_fills(struct cs_input *in, int32_t e)
{
    struct filler f = {.in = in,
                       .arch = &cs_graph_encoder(in->tables->graph, e)->arch,
                       .encoder = e,
                       .n = in->n_fills[e],
                       .n_rows = in->n_rows[e],
                       .source = in->slot.source[e],
                       .blends = in->slot.blends[e]};
    make_order(&f);
    if (!in->tables->budget->enc[e].has_sources) {
        fill_in_turn(&f);
        return;
    }
    mix_rows(&f, &in->rows[e]);
    mix_learned(&f, &in->rows[e]);
    own(&f);
}
