/* What a tower of the golden is given: pictures, patches or frames as items of the slot, and their values in
 * the order of the encoder's rows. */
#include <stdlib.h>
#include <string.h>

#include "worker/selftest/parts.h"

/* What the golden holds of one item: values (n_values) of its patches in the order of file, or of its
 * picture or frames, and its grid. */
struct medium {
    const float *values;
    int32_t grid[3], width; /* width: pixels of a line, where it is a picture */
    int64_t plane;          /* pixels of a channel */

    enum { PICTURE, READING, GROUPS, FRAMES } order;
};

/* One patch of a picture (channels, height, width), as a convolution's weight has it. */
static void cut_patch(const struct medium *m, const struct cs_arch *a,
                      const struct cs_front_row *row, float *out)
{
    const int64_t p = a->patch_size;
    for (int64_t c = 0; c < a->channels; c++)
        for (int64_t r = 0; r < p; r++, out += p)
            memcpy(out, m->values + c * m->plane + (row->y * p + r) * m->width + row->x * p,
                   (size_t)p * sizeof *out);
}

/* Where the golden has the patch: line by line, or group by group without windows. */
static int64_t place_of(const struct medium *m, const struct cs_arch *a,
                        const struct cs_front_row *row)
{
    const int32_t merge = a->front.merge, h = m->grid[1], w = m->grid[2];
    if (m->order == READING)
        return ((int64_t)row->frame * h + row->y) * w + row->x;
    const int64_t group =
        ((int64_t)row->frame * (h / merge) + row->y / merge) * (w / merge) + row->x / merge;
    return group * merge * merge + row->y % merge * merge + row->x % merge;
}

/* The item's patches in the order of the encoder's rows; returns the end. */
static float *arrange(struct cs_golden *g, const struct medium *m, const struct cs_arch *a,
                      float *out)
{
    const int32_t n = cs_front_rows(a, m->grid), values = cs_front_values(a);
    struct cs_front_row *order = CS_NEW_ARRAY(g->arena, struct cs_front_row, n + 1);
    if (m->order == FRAMES) { /* (bins, frames) become (frames, bins) */
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
        if (m->order == PICTURE)
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
static enum cs_status add_item(struct cs_golden *g, const struct medium *m, const struct cs_arch *a,
                               struct cs_err *err)
{
    const int64_t pixels = m->order == FRAMES
                               ? m->plane * a->channels * 4
                               : (int64_t)m->grid[0] * m->grid[1] * m->grid[2] * cs_front_values(a);
    const bool is_fixed = a->front.position == CS_POSITION_ROW && a->image_size > 0;
    const struct cs_item_shape shape = {
        .kind = m->order == FRAMES ? CS_ITEM_SOUND : CS_ITEM_IMAGE,
        .grid = {m->grid[0], m->grid[1], m->grid[2]},
        .rows = cs_front_out_rows(a, m->grid),
        .bytes = is_fixed ? a->image_size * a->image_size * a->channels : (int32_t)pixels
    };
    if (cs_slot_add_item(&g->slot, &g->plan->budget, 0, &shape, NULL) != NULL)
        return CS_OK;
    return cs_fail(err, CS_LIMIT, "%s: no room for an item of %d rows in a slot",
                   cs_st_path(g->file), shape.rows);
}

/* How many items in.x holds, and what is before each: by whatever says their sizes. */
struct media {
    const struct cs_st_tensor *x;
    const float *values;
    int64_t n,
        *sizes; /* sizes: (n, 2 or 3) of grids or pictures, NULL: all are of the whole tensor */
    int n_sizes;
    bool is_grid;
    int64_t *frames; /* (n) of sounds, NULL: all */
};

/* Grids from the place of every patch (items, patches, 2), x before y, -1: there is none. */
static enum cs_status grids_of_places(struct cs_golden *g, struct media *m, struct cs_err *err)
{
    int64_t *place, count;
    CS_TRY(cs_golden_ints(g, "in.image_position_ids", &place, &count, err));
    const int64_t n = m->x->dim[0], patches = count / (2 * n);
    m->sizes = CS_NEW_ARRAY(g->arena, int64_t, 2 * n + 1);
    m->n_sizes = 2;
    m->is_grid = true;
    m->n = n;
    for (int64_t i = 0; i < n * patches; i++)
        for (int k = 0; k < 2; k++) {
            int64_t *side = &m->sizes[i / patches * 2 + 1 - k];
            *side = place[2 * i + k] + 1 > *side ? place[2 * i + k] + 1 : *side;
        }
    return CS_OK;
}

/* Frames that are heard: the others are silence behind them. */
static enum cs_status frames_of_mask(struct cs_golden *g, struct media *m, struct cs_err *err)
{
    int64_t *is_heard, count;
    if (!cs_golden_has(g, "in.feature_attention_mask"))
        return CS_OK;
    CS_TRY(cs_golden_ints(g, "in.feature_attention_mask", &is_heard, &count, err));
    m->frames = CS_NEW_ARRAY(g->arena, int64_t, m->n + 1);
    for (int64_t i = 0; i < count; i++)
        m->frames[i / (count / m->n)] += is_heard[i];
    return CS_OK;
}

static enum cs_status open_media(struct cs_golden *g, const struct cs_arch *a, struct media *m,
                                 struct cs_err *err)
{
    static const struct {
        const char *name;
        int n;
        bool is_grid;
    } names[] = {
        {"in.grid",           3, true },
        {"in.image_grid_thw", 3, true },
        {"in.shapes",         2, true },
        {"in.sizes",          2, false},
        {"in.image_sizes",    2, false},
    };

    float *values;
    int64_t count = 0;
    m->x = cs_st_find(g->file, "in.x");
    CS_TRY(cs_golden_floats(g, "in.x", &values, NULL, err));
    m->values = values;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++)
        if (m->sizes == NULL && cs_golden_has(g, names[i].name)) {
            CS_TRY(cs_golden_ints(g, names[i].name, &m->sizes, &count, err));
            m->n_sizes = names[i].n;
            m->is_grid = names[i].is_grid;
        }
    if (cs_golden_has(g, "in.image_position_ids"))
        return grids_of_places(g, m, err);
    const bool is_sound = a->front.stem == CS_STEM_FRAMES;
    const int64_t dims = m->x->n_dims;
    int64_t size = is_sound ? m->x->dim[dims - 1] * m->x->dim[dims - 2]
                            : m->x->dim[dims - 1] * m->x->dim[dims - 2] * m->x->dim[dims - 3];
    if (is_sound || (m->sizes != NULL && !m->is_grid && m->x->count / size != count / 2))
        m->sizes = NULL; /* sizes of what tiles were cut from */
    m->n = m->sizes != NULL ? count / m->n_sizes : m->x->count / (size > 0 ? size : 1);
    if (is_sound)
        CS_TRY(frames_of_mask(g, m, err));
    return CS_OK;
}

/* Item i; *at: values before it, where items lie one behind the other. */
static struct medium medium_of(const struct media *m, const struct cs_arch *a, int64_t i,
                               int64_t *at)
{
    const struct cs_st_tensor *x = m->x;
    const int64_t last = x->dim[x->n_dims - 1], before = x->dim[x->n_dims - 2];
    const int64_t *size = m->sizes != NULL ? m->sizes + i * m->n_sizes : NULL;
    struct medium out = {
        .grid = {1, 1, 1},
          .width = (int32_t)last, .plane = last
    };
    if (a->front.stem == CS_STEM_FRAMES) {
        out.order = FRAMES;
        out.grid[0] = (int32_t)(m->frames != NULL ? m->frames[i] : last);
        out.values = m->values + i * last * before;
        return out;
    }
    if (size != NULL && m->is_grid) {
        for (int k = 0; k < m->n_sizes; k++)
            out.grid[3 - m->n_sizes + k] = (int32_t)size[k];
        const int64_t n = (int64_t)out.grid[0] * out.grid[1] * out.grid[2] * cs_front_values(a);
        out.order = x->n_dims == 2 ? GROUPS : READING;
        out.values = m->values + (x->n_dims == 2 ? *at : i * last * before);
        *at += n;
        return out;
    }
    out.plane = last * before;
    out.grid[1] = (int32_t)((size != NULL ? size[0] : before) / a->patch_size);
    out.grid[2] = (int32_t)((size != NULL ? size[1] : last) / a->patch_size);
    out.values = m->values + i * out.plane * a->channels;
    return out;
}

/* in.x holds as much as whatever says the sizes of the items speaks of */
static enum cs_status check_item(const struct cs_golden *g, const struct media *m,
                                 const struct medium *one, const struct cs_arch *a, int64_t i,
                                 struct cs_err *err)
{
    const struct cs_st_tensor *x = m->x;
    const int64_t last = x->dim[x->n_dims - 1], before = x->dim[x->n_dims - 2];
    const int64_t patches = (int64_t)one->grid[0] * one->grid[1] * one->grid[2];
    int64_t n = patches * cs_front_values(a);
    bool is_inside = one->grid[0] > 0 && one->grid[1] > 0 && one->grid[2] > 0;
    if (one->order == PICTURE)
        is_inside &= (int64_t)one->grid[1] * a->patch_size <= before &&
                     (int64_t)one->grid[2] * a->patch_size <= last;
    if (one->order == READING)
        is_inside &= n <= last * before;
    if (one->order == FRAMES)
        is_inside &= one->grid[0] <= last && before == a->channels;
    if (one->order == PICTURE || one->order == FRAMES)
        n = one->plane * a->channels;
    if (is_inside && one->values - m->values + n <= x->count)
        return CS_OK;
    return cs_fail(
        err, CS_CORRUPT,
        "%s: item %lld with a grid of %d x %d x %d does not fit into in.x of %lld values",
        cs_st_path(g->file), (long long)i, one->grid[0], one->grid[1], one->grid[2],
        (long long)x->count);
}

static enum cs_status add_media(struct cs_golden *g, const struct cs_arch *a, struct cs_err *err)
{
    struct media m = {.n = 0};
    int64_t at = 0;
    CS_TRY(open_media(g, a, &m, err));
    g->patches[0] = malloc(((size_t)m.x->count + 1) * sizeof(float));
    if (g->patches[0] == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the media of the golden");
    float *out = g->patches[0];
    g->patch_at = CS_NEW_ARRAY(g->arena, int64_t, m.n + 1);
    for (int64_t i = 0; i < m.n; i++) {
        g->patch_at[i] = out - g->patches[0];
        const struct medium one = medium_of(&m, a, i, &at);
        CS_TRY(check_item(g, &m, &one, a, i, err));
        out = arrange(g, &one, a, out);
        CS_TRY(add_item(g, &one, a, err));
    }
    return CS_OK;
}

/* The rows of the placeholders, in the order of the items. */
static enum cs_status place_rows(struct cs_golden *g, int64_t token, struct cs_err *err)
{
    const struct cs_slot_head *head = g->slot.head;
    int32_t n = 0;
    for (int32_t row = 0; row < head->n_tokens; row++)
        if (g->slot.ids[row] == token && n < head->n_rows[0])
            g->slot.rows[0][n++] = row;
        else if (g->slot.ids[row] == token)
            n++;
    if (n == head->n_rows[0])
        return CS_OK;
    return cs_fail(err, CS_CORRUPT, "%s: %d placeholders for %d rows of the tower",
                   cs_st_path(g->file), n, head->n_rows[0]);
}

enum cs_status cs_golden_add_media(struct cs_golden *g, struct cs_err *err)
{
    const struct cs_module *encoder = cs_graph_encoder(g->graph, 0);
    const struct cs_st_tensor *x = cs_st_find(g->file, "in.x");
    if (x == NULL)
        return CS_OK;
    if (encoder == NULL || x->n_dims < 2)
        return cs_fail(err, CS_UNSUPPORTED, "%s: in.x of %d dimensions is not known",
                       cs_st_path(g->file), x->n_dims);
    CS_TRY(add_media(g, &encoder->arch, err));
    const struct cs_hfdir *part = g->part[CS_MODULE_ENCODER];
    const struct cs_composite *root = part != NULL ? cs_hfdir_composite(part) : NULL;
    return root != NULL && cs_golden_has(g, "in.ids") ? place_rows(g, root->image_token, err)
                                                      : CS_OK;
}
