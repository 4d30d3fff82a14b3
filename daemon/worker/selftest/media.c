/* What a tower of the golden is given: pictures, patches or frames as items of the slot, and their values in
 * the order of the encoder's rows. */
#include <stdlib.h>
#include <string.h>

#include "worker/selftest/media.h"

/* Grids from the place of every patch (items, patches, 2), x before y, -1: there is none. */
static enum cs_status grids_of_places(struct cs_golden *g, struct cs_golden_media *m,
                                      struct cs_err *err)
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
static enum cs_status frames_of_mask(struct cs_golden *g, struct cs_golden_media *m,
                                     struct cs_err *err)
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

static enum cs_status open_pictures(struct cs_golden *g, const struct cs_arch *a,
                                    struct cs_golden_media *m, struct cs_err *err)
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
    if (m->x == NULL)
        return CS_OK;
    if (m->x->n_dims < 2)
        return cs_fail(err, CS_UNSUPPORTED, "%s: in.x of %d dimensions is not known",
                       cs_st_path(g->file), m->x->n_dims);
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
    int64_t size = m->x->dim[dims - 1] * m->x->dim[dims - 2];
    if (!is_sound && dims > 2)
        size *= m->x->dim[dims - 3];
    if (is_sound || (m->sizes != NULL && !m->is_grid && m->x->count / size != count / 2))
        m->sizes = NULL; /* sizes of what tiles were cut from */
    m->n = m->sizes != NULL ? count / m->n_sizes : m->x->count / (size > 0 ? size : 1);
    if (is_sound)
        CS_TRY(frames_of_mask(g, m, err));
    return CS_OK;
}

/* Item i; *at: values before it, where items lie one behind the other. */
static struct cs_golden_medium medium_of(const struct cs_golden_media *m, const struct cs_arch *a,
                                         int64_t i, int64_t *at)
{
    const struct cs_st_tensor *x = m->x;
    const int64_t last = x->dim[x->n_dims - 1], before = x->dim[x->n_dims - 2];
    const int64_t *size = m->sizes != NULL ? m->sizes + i * m->n_sizes : NULL;
    struct cs_golden_medium out = {
        .grid = {1, 1, 1},
          .width = (int32_t)last, .plane = last
    };
    if (a->front.stem == CS_STEM_FRAMES) {
        out.order = CS_MEDIUM_FRAMES;
        out.grid[0] = (int32_t)(m->frames != NULL ? m->frames[i] : last);
        out.values = m->values + i * last * before;
        return out;
    }
    if (size != NULL && m->is_grid) {
        for (int k = 0; k < m->n_sizes; k++)
            out.grid[3 - m->n_sizes + k] = (int32_t)size[k];
        const int64_t n = (int64_t)out.grid[0] * out.grid[1] * out.grid[2] * cs_front_values(a);
        out.order = x->n_dims == 2 ? CS_MEDIUM_GROUPS : CS_MEDIUM_READING;
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
static enum cs_status check_item(const struct cs_golden *g, const struct cs_golden_media *m,
                                 const struct cs_golden_medium *one, const struct cs_arch *a,
                                 int64_t i, struct cs_err *err)
{
    const struct cs_st_tensor *x = m->x;
    const int64_t last = x->dim[x->n_dims - 1], before = x->dim[x->n_dims - 2];
    const int64_t patches = (int64_t)one->grid[0] * one->grid[1] * one->grid[2];
    int64_t n = patches * cs_front_values(a);
    int32_t fixed[3];
    cs_front_fixed_grid(a, fixed);
    if (a->front.position == CS_POSITION_ROW && fixed[0] > 0 &&
        (one->grid[1] != fixed[1] || one->grid[2] != fixed[2]))
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s: item %lld is a picture of %d x %d patches, and every one of this tower "
                       "has %d x %d: positions that are resized are not supported in its family",
                       cs_st_path(g->file), (long long)i, one->grid[1], one->grid[2], fixed[1],
                       fixed[2]);
    bool is_inside = one->grid[0] > 0 && one->grid[1] > 0 && one->grid[2] > 0;
    if (one->order == CS_MEDIUM_PICTURE)
        is_inside &= (int64_t)one->grid[1] * a->patch_size <= before &&
                     (int64_t)one->grid[2] * a->patch_size <= last;
    if (one->order == CS_MEDIUM_READING)
        is_inside &= n <= last * before;
    if (one->order == CS_MEDIUM_FRAMES)
        is_inside &= one->grid[0] <= last && before == a->channels;
    if (one->order == CS_MEDIUM_PICTURE || one->order == CS_MEDIUM_FRAMES)
        n = one->plane * a->channels;
    if (is_inside && one->values - m->values + n <= x->count)
        return CS_OK;
    return cs_fail(err, CS_CORRUPT,
                   "%s: item %lld with a grid of %d x %d x %d does not fit into %s of %lld values",
                   cs_st_path(g->file), (long long)i, one->grid[0], one->grid[1], one->grid[2],
                   x->name, (long long)x->count);
}

/* Videos lie patch by patch, as the pictures of the families that have them. */
static enum cs_status open_videos(struct cs_golden *g, struct cs_golden_media *m,
                                  struct cs_err *err)
{
    float *values;
    int64_t count;
    m->x = cs_st_find(g->file, "in.pixel_values_videos");
    if (m->x == NULL)
        return CS_OK;
    if (m->x->n_dims != 2 || !cs_golden_has(g, "in.video_grid_thw"))
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s: in.pixel_values_videos is not of patches with in.video_grid_thw beside "
                       "it: other videos are not supported",
                       cs_st_path(g->file));
    CS_TRY(cs_golden_floats(g, "in.pixel_values_videos", &values, NULL, err));
    CS_TRY(cs_golden_ints(g, "in.video_grid_thw", &m->sizes, &count, err));
    m->values = values;
    m->n_sizes = 3;
    m->n = count / 3;
    m->is_grid = true;
    return CS_OK;
}

/* Room that a sample does not need, which its class leaves out. */
static bool is_empty(const struct cs_golden_media *m, const struct cs_golden_medium *one)
{
    const int64_t n = one->plane * m->channels;
    bool is_zero = m->x->n_dims == 5 && one->order == CS_MEDIUM_PICTURE;
    for (int64_t i = 0; is_zero && i < n; i++)
        is_zero = !(one->values[i] < 0) && !(one->values[i] > 0);
    return is_zero;
}

enum cs_status cs_golden_next_medium(struct cs_golden *g, const struct cs_arch *a,
                                     struct cs_golden_media *m, int32_t time_step, int32_t *rows,
                                     struct cs_err *err)
{
    *rows = 0;
    while (m->next < m->n && *rows == 0) {
        const int64_t i = m->next++;
        struct cs_golden_medium one = medium_of(m, a, i, &m->at);
        CS_TRY(check_item(g, m, &one, a, i, err));
        if (is_empty(m, &one))
            continue;
        one.time_step = time_step;
        *rows = cs_front_out_rows(a, one.grid);
        g->patch_at[g->slot.head->n_items[0]] = g->patch_end - g->patches[0];
        CS_TRY(cs_golden_add_item(g, &one, a, &g->patch_end, err));
    }
    return CS_OK;
}

enum cs_status cs_golden_open_media(struct cs_golden *g, const struct cs_arch *a,
                                    struct cs_golden_media m[2], struct cs_err *err)
{
    CS_TRY(open_pictures(g, a, &m[0], err));
    CS_TRY(open_videos(g, &m[1], err));
    int64_t values = 1;
    for (int k = 0; k < 2; k++) {
        m[k].channels = a->channels;
        values += m[k].x != NULL ? m[k].x->count : 0;
    }
    g->patches[0] = g->patch_end = malloc((size_t)values * sizeof(float));
    g->patch_at = CS_NEW_ARRAY(g->arena, int64_t, m[0].n + m[1].n + 1);
    return g->patches[0] != NULL
               ? CS_OK
               : cs_fail(err, CS_NO_MEMORY, "no memory for the media of the golden");
}
