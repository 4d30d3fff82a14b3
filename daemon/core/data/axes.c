/* Walks the rows of a slot and gives each its place on the three axes. */
#include "core/data/axes.h"

enum { TIME, HEIGHT, WIDTH, AXES };

/* what the walk knows */
struct walk {
    const struct cs_slot *slot;
    const int32_t *merge;
    int32_t n_encoders, n, *pos;
    int32_t next;                  /* position of the next row that is text */
    int32_t fill[CS_MAX_ENCODERS]; /* the next row that the encoder fills */
    int32_t item[CS_MAX_ENCODERS]; /* the item that it is of ... */
    int32_t seen[CS_MAX_ENCODERS]; /* ... and how many of its rows were before */
};

/* the encoder that fills the row by its place in a picture, -1: none */
static int32_t filler_of(const struct walk *w, int32_t row)
{
    for (int32_t e = 0; e < w->n_encoders; e++)
        if (w->fill[e] < w->slot->head->n_fills[e] && w->slot->rows[e][w->fill[e]] == row)
            return e;
    return -1;
}

static void put(struct walk *w, int32_t row, int32_t time, int32_t height, int32_t width)
{
    w->pos[TIME * w->n + row] = time;
    w->pos[HEIGHT * w->n + row] = height;
    w->pos[WIDTH * w->n + row] = width;
}

static void put_text(struct walk *w, int32_t row)
{
    put(w, row, w->next, w->next, w->next);
    w->next++;
}

/* Rows of an item from `row` on, as far as they follow each other. Returns the row behind them. */
static int32_t put_picture(struct walk *w, int32_t row, int32_t e)
{
    const struct cs_item_shape *s = &w->slot->items[e][w->item[e]].shape;
    const int32_t high = s->grid[1] / w->merge[e], wide = s->grid[2] / w->merge[e];
    const int32_t step = s->time_step > 0 ? s->time_step : s->time_step == 0,
                  first = w->seen[e] / (high * wide);
    const int32_t doc = w->slot->doc[row];
    do {
        const int32_t k = w->seen[e]++, at = k % (high * wide);
        put(w, row, w->next + (k / (high * wide) - first) * step, w->next + at / wide,
            w->next + at % wide);
        w->fill[e]++;
        row++;
    } while (w->seen[e] < s->rows && row < w->n && w->slot->doc[row] == doc &&
             filler_of(w, row) == e);
    w->next += high > wide ? high : wide;
    if (w->seen[e] == s->rows) {
        w->seen[e] = 0;
        w->item[e]++;
    }
    return row;
}

void cs_slot_axes(const struct cs_slot *slot, const struct cs_slot_budget *budget,
                  const int32_t *merge, int32_t *pos)
{
    struct walk w = {.slot = slot,
                     .merge = merge,
                     .n_encoders = budget->n_encoders,
                     .n = slot->head->n_tokens,
                     .pos = pos};
    for (int32_t row = 0; row < w.n;) {
        if (row == 0 || slot->doc[row] != slot->doc[row - 1])
            w.next = 0;
        const int32_t e = filler_of(&w, row);
        if (e >= 0 && merge[e] > 0) {
            row = put_picture(&w, row, e);
            continue;
        }
        if (e >= 0)
            w.fill[e]++;
        put_text(&w, row++);
    }
}
