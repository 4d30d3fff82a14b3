/* One item of a golden: its values in the order of the encoder's rows, and its place in the slot. */
#include <string.h>

#include "worker/selftest/parts.h"

/* One patch of a picture (channels, height, width), as a convolution's weight has it. */
static void cut_patch(const struct cs_golden_medium *m, const struct cs_arch *a,
                      const struct cs_front_row *row, float *out)
{
    const int64_t p = a->patch_size;
    for (int64_t c = 0; c < a->channels; c++)
        for (int64_t r = 0; r < p; r++, out += p)
            memcpy(out, m->values + c * m->plane + (row->y * p + r) * m->width + row->x * p,
                   (size_t)p * sizeof *out);
}

/* Where the golden has the patch: line by line, or group by group without windows. */
static int64_t place_of(const struct cs_golden_medium *m, const struct cs_arch *a,
                        const struct cs_front_row *row)
{
    const int32_t merge = a->front.merge, h = m->grid[1], w = m->grid[2];
    if (m->order == CS_MEDIUM_READING)
        return ((int64_t)row->frame * h + row->y) * w + row->x;
    const int64_t group =
        ((int64_t)row->frame * (h / merge) + row->y / merge) * (w / merge) + row->x / merge;
    return group * merge * merge + row->y % merge * merge + row->x % merge;
}

/* The item's patches in the order of the encoder's rows; returns the end. */
static float *arrange(struct cs_golden *g, const struct cs_golden_medium *m,
                      const struct cs_arch *a, float *out)
{
    const int32_t n = cs_front_rows(a, m->grid), values = cs_front_values(a);
    struct cs_front_row *order = CS_NEW_ARRAY(g->arena, struct cs_front_row, n + 1);
    if (m->order == CS_MEDIUM_FRAMES) { /* (bins, frames) become (frames, bins) */
        for (int64_t f = 0; f < m->plane; f++)
            for (int32_t b = 0; b < values; b++)
                *out++ = m->values[(int64_t)b * m->plane + f];
        return out;
    }
    cs_front_order(a, m->grid, order);
    float *const begin = out;
    for (int32_t i = 0; i < n; i++) {
        if (order[i].frame < 0)
            continue;
        if (m->order == CS_MEDIUM_PICTURE)
            cut_patch(m, a, &order[i], out);
        else
            memcpy(out, m->values + place_of(m, a, &order[i]) * values,
                   (size_t)values * sizeof *out);
        out += values;
    }
    for (float *value = begin; a->front.is_centred && value < out; value++)
        *value = 2 * *value - 1; /* as the class does, which is given pixels */
    return out;
}

/* The item in the slot; its data stay zero, for patches take their place. */
static enum cs_status add_item(struct cs_golden *g, const struct cs_golden_medium *m,
                               const struct cs_arch *a, struct cs_err *err)
{
    const int64_t pixels = m->order == CS_MEDIUM_FRAMES
                               ? m->plane * a->channels * 4
                               : (int64_t)m->grid[0] * m->grid[1] * m->grid[2] * cs_front_values(a);
    const bool is_fixed = a->front.position == CS_POSITION_ROW && a->image_size > 0;
    const struct cs_item_shape shape = {
        .kind = m->order == CS_MEDIUM_FRAMES ? CS_ITEM_SOUND : CS_ITEM_IMAGE,
        .grid = {m->grid[0], m->grid[1], m->grid[2]},
        .rows = cs_front_out_rows(a, m->grid),
        .time_step = m->time_step,
        .bytes = is_fixed ? a->image_size * a->image_size * a->channels : (int32_t)pixels
    };
    if (cs_slot_add_item(&g->slot, &g->plan->budget, 0, &shape, NULL) != NULL)
        return CS_OK;
    return cs_fail(err, CS_LIMIT, "%s: no room for an item of %d rows in a slot",
                   cs_st_path(g->file), shape.rows);
}

enum cs_status cs_golden_add_item(struct cs_golden *g, const struct cs_golden_medium *medium,
                                  const struct cs_arch *encoder, float **out, struct cs_err *err)
{
    *out = arrange(g, medium, encoder, *out);
    return add_item(g, medium, encoder, err);
}
