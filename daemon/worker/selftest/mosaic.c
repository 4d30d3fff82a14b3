/* Pictures that a golden has as the whole and tiles of a mosaic: items, and what fills the placeholders. */
#include "core/data/mosaic.h"

#include <stdlib.h>
#include <string.h>

#include "worker/selftest/parts.h"

enum { MAX_PINS = 256, USUAL_TILES = 9 };

static const char *const pins_key = "image_grid_pinpoints";

bool cs_golden_has_mosaics(const json_t *root)
{
    return json_is_array(json_object_get(root, pins_key));
}

struct mosaics {
    struct cs_golden *g;
    const struct cs_arch *arch;
    int32_t pin[MAX_PINS][2], n_pins;
    int32_t most_tiles;
    const struct cs_st_tensor *x;
    const float *values;
    float *out;
    int64_t tile_values, next; /* next: tile, where all lie one behind the other */
    int32_t room;              /* of g->sources */
};

static enum cs_status read_pins(struct mosaics *m, const json_t *root, struct cs_err *err)
{
    const json_t *list = json_object_get(root, pins_key);
    const int32_t side = m->arch->image_size;
    m->n_pins = (int32_t)json_array_size(list);
    for (int32_t i = 0; i < m->n_pins && i < MAX_PINS; i++)
        for (int k = 0; k < 2; k++) {
            const json_t *value = json_array_get(json_array_get(list, (size_t)i), (size_t)k);
            const json_int_t pixels = json_integer_value(value);
            if (side < 1 || pixels < side || pixels > 1 << 20 || pixels % side != 0)
                return cs_fail(err, CS_INVALID, "%s[%d] is no multiple of a tile of %d pixels",
                               pins_key, i, side);
            m->pin[i][k] = (int32_t)pixels;
        }
    if (m->n_pins < 1 || m->n_pins > MAX_PINS)
        return cs_fail(err, CS_INVALID, "%s lists %d sizes: 1 to %d can be", pins_key, m->n_pins,
                       MAX_PINS);
    return CS_OK;
}

/* "anyres_max_9": more rows than those of 9 tiles are blended; LLaVA-NeXT has no such key */
static int32_t tiles_of(const json_t *root)
{
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const char *said = json_string_value(json_object_get(root, "vision_aspect_ratio"));
    if (type == NULL || strcmp(type, "llava_onevision") != 0)
        return 0;
    const size_t words = said != NULL ? strcspn(said, "0123456789") : 0;
    const int tiles = said != NULL ? atoi(said + words) : 0;
    return tiles > 0 ? tiles : USUAL_TILES;
}

static enum cs_status add_tile(struct mosaics *m, int64_t tile, struct cs_err *err)
{
    const int32_t side = m->arch->image_size, n = side / m->arch->patch_size;
    const struct cs_golden_medium one = {
        .values = m->values + tile * m->tile_values,
        .grid = {1, n, n},
        .width = side,
        .plane = (int64_t)side * side,
        .order = CS_MEDIUM_PICTURE,
    };
    if ((tile + 1) * m->tile_values > m->x->count)
        return cs_fail(err, CS_CORRUPT,
                       "%s: in.x has %lld tiles, the sizes of its pictures ask "
                       "for one more",
                       cs_st_path(m->g->file), (long long)(m->x->count / m->tile_values));
    return cs_golden_add_item(m->g, &one, m->arch, &m->out, err);
}

static enum cs_status put(struct mosaics *m, int32_t source, struct cs_err *err)
{
    if (m->g->n_sources == m->room)
        return cs_fail(err, CS_LIMIT, "%s: its pictures have more than %d rows",
                       cs_st_path(m->g->file), m->room);
    m->g->sources[m->g->n_sources++] = source;
    return CS_OK;
}

/* What fills the rows of a picture whose first row is `first` of the slot. */
static enum cs_status put_rows(struct mosaics *m, const struct cs_mosaic *mosaic, int32_t first,
                               struct cs_err *err)
{
    for (int32_t i = 0; i < mosaic->tile.height * mosaic->tile.width; i++)
        CS_TRY(put(m, first + i, err));
    for (int32_t y = 0; y < mosaic->size.height; y++) {
        for (int32_t x = 0; x < mosaic->size.width; x++) {
            if (!cs_mosaic_is_blended(mosaic)) {
                CS_TRY(put(m, first + cs_mosaic_row(mosaic, y, x), err));
                continue;
            }
            struct cs_slot_blend blend = cs_mosaic_blend(mosaic, y, x);
            for (int k = 0; k < 4; k++)
                blend.row[k] += first;
            CS_TRY(put(m, cs_slot_add_blend(&m->g->slot, 0, &blend), err));
        }
        CS_TRY(put(m, CS_SOURCE_LEARNED, err));
    }
    return CS_OK;
}

static enum cs_status add_picture(struct mosaics *m, int64_t i, const int64_t size[2],
                                  struct cs_err *err)
{
    const int32_t side = m->arch->image_size, n = side / m->arch->patch_size;
    const struct cs_extent from = {(int32_t)size[0], (int32_t)size[1]};
    const int32_t first = m->g->slot.head->n_rows[0];
    const bool is_stacked = m->x->n_dims == 5; /* (pictures, the most tiles, ...) */
    if (from.height < 1 || from.width < 1 || from.height > 1 << 20 || from.width > 1 << 20)
        return cs_fail(err, CS_CORRUPT, "%s: picture %lld is of %d x %d pixels",
                       cs_st_path(m->g->file), (long long)i, from.height, from.width);
    const struct mosaics *const pins = m;
    const int32_t pin = cs_size_pin(from, pins->pin, pins->n_pins);
    if (pin < 0)
        return cs_fail(err, CS_CORRUPT, "%s: picture %lld fits none of %s", cs_st_path(m->g->file),
                       (long long)i, pins_key);
    const struct cs_extent tiles = {m->pin[pin][0] / side, m->pin[pin][1] / side};
    const struct cs_mosaic mosaic =
        cs_mosaic_make(from, tiles, (struct cs_extent){n, n}, m->most_tiles);
    const int64_t n_tiles = 1 + (int64_t)tiles.height * tiles.width;
    if (is_stacked && n_tiles > m->x->dim[1])
        return cs_fail(err, CS_CORRUPT, "%s: picture %lld has %lld tiles, in.x has room for %lld",
                       cs_st_path(m->g->file), (long long)i, (long long)n_tiles,
                       (long long)m->x->dim[1]);
    for (int64_t k = 0; k < n_tiles; k++)
        CS_TRY(add_tile(m, is_stacked ? i * m->x->dim[1] + k : m->next++, err));
    return put_rows(m, &mosaic, first, err);
}

enum cs_status cs_golden_add_mosaics(struct cs_golden *g, const struct cs_arch *a,
                                     struct cs_err *err)
{
    const json_t *root = cs_hfdir_root_config(g->part[CS_MODULE_ENCODER]);
    struct mosaics m = {.g = g,
                        .arch = a,
                        .most_tiles = tiles_of(root),
                        .x = cs_st_find(g->file, "in.x"),
                        .out = g->patch_end,
                        .room = g->plan->budget.seq_tokens,
                        .tile_values = (int64_t)a->image_size * a->image_size * a->channels};
    int64_t *sizes, count;
    float *values;
    CS_TRY(read_pins(&m, root, err));
    CS_TRY(cs_golden_ints(g, "in.image_sizes", &sizes, &count, err));
    CS_TRY(cs_golden_floats(g, "in.x", &values, NULL, err));
    m.values = values;
    g->sources = CS_NEW_ARRAY(g->arena, int32_t, m.room + 1);
    for (int64_t i = 0; i < count / 2; i++)
        CS_TRY(add_picture(&m, i, sizes + 2 * i, err));
    return CS_OK;
}
