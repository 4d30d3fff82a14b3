/* LLaVA-NeXT and LLaVA-OneVision: the whole picture made small, and a mosaic of tiles into which it is
 * laid with its aspect kept. Rows of the mosaic are read line by line over all its tiles, without those
 * of the padding; a learned row ends each line. */
#include <math.h>
#include <string.h>

#include "input/media/layout_make.h"

static enum cs_status check(const struct cs_processor *p, const struct cs_media_encoder *e,
                            struct cs_err *err)
{
    if (e->extra_rows != 0)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s makes mosaics of tiles; the %s encoder must drop its class token "
                       "(vision_feature_select_strategy default) for them",
                       p->name, e->family);
    for (int32_t i = 0; i < p->n_pins; i++)
        if (p->pin[i][0] % p->height != 0 || p->pin[i][1] % p->width != 0)
            return cs_fail(err, CS_INVALID,
                           "image_grid_pinpoints[%d] is [%d, %d], no multiple of a tile of %d x %d",
                           i, p->pin[i][0], p->pin[i][1], p->height, p->width);
    return CS_OK;
}

static int32_t most_tiles(const struct cs_processor *p, const struct cs_media_encoder *e)
{
    return p->mosaic_tiles > 0 && e->mosaic_tiles > 0 ? e->mosaic_tiles : p->mosaic_tiles;
}

static struct cs_mosaic mosaic_of(const struct cs_processor *p, const struct cs_media_encoder *e,
                                  struct cs_extent from, int32_t pin)
{
    const int32_t side = e->patch * e->merge;
    const struct cs_extent tiles = {p->pin[pin][0] / p->height, p->pin[pin][1] / p->width};
    struct cs_extent tile = {p->height / side, p->width / side};
    if (e->side_tokens > 0)
        tile = (struct cs_extent){e->side_tokens, e->side_tokens};
    return cs_mosaic_make(from, tiles, tile, most_tiles(p, e));
}

/* Maps of all tiles: -1 for what is not kept. */
static void map_rows(struct cs_layout_maker *m, const struct cs_mosaic *mosaic)
{
    const int32_t n = mosaic->tile.height * mosaic->tile.width;
    int32_t *to = cs_arena_array(m->arena, sizeof *to, (size_t)(m->out.n_items * n));

    for (int32_t i = 0; i < m->out.n_items * n; i++)
        to[i] = -1;
    for (int32_t y = 0; y < mosaic->kept.height; y++)
        for (int32_t x = 0; x < mosaic->kept.width; x++)
            to[cs_mosaic_row(mosaic, y, x)] = n + y * (mosaic->kept.width + 1) + x;
    for (int32_t i = 1; i < m->out.n_items; i++) {
        m->out.items[i].row = to + (size_t)i * (size_t)n;
        m->out.items[i].first_row = -1;
    }
}

/* The mosaic is made smaller: lines and columns of blends; those of learned rows stay 0. */
static void blend_rows(struct cs_layout_maker *m, const struct cs_mosaic *mosaic)
{
    const struct cs_extent size = mosaic->size;
    const int32_t n = mosaic->tile.height * mosaic->tile.width;
    struct cs_media_blend *out =
        cs_arena_array(m->arena, sizeof *out, (size_t)(n + size.height * (size.width + 1)));

    m->out.blends = out;
    for (int32_t i = 0; i < n; i++)
        *out++ = (struct cs_media_blend){{i}, {1}};
    for (int32_t y = 0; y < size.height; y++, out++)
        for (int32_t x = 0; x < size.width; x++) {
            const struct cs_slot_blend blend = cs_mosaic_blend(mosaic, y, x);
            memcpy(out->row, blend.row, sizeof out->row);
            memcpy(out->weight, blend.weight, sizeof out->weight);
            out++;
        }
}

static void lines(struct cs_layout_maker *m, struct cs_extent size)
{
    for (int32_t y = 0; y < size.height; y++) {
        cs_layout_rows(m, size.width);
        cs_layout_learned(m, 1);
    }
}

/* The whole picture as one item, padded to a square: OneVision's way with several pictures. */
static void make_one_of_many(struct cs_layout_maker *m)
{
    const struct cs_extent from = cs_layout_extent(m, 0);
    const int32_t side = from.height > from.width ? from.height : from.width;
    const int32_t square =
        cs_layout_place(m, 0, (struct cs_extent){side, side}, (side - from.width) / 2,
                        (side - from.height) / 2, m->processor->ground);

    cs_layout_rows(m, cs_layout_item(m, cs_layout_fit(m, square)));
    cs_layout_learned(m, 1);
}

static void make(struct cs_layout_maker *m)
{
    const struct cs_processor *p = m->processor;
    const struct cs_extent from = cs_layout_extent(m, 0), tile = {p->height, p->width};
    const int32_t pin = cs_size_pin(from, p->pin, p->n_pins);

    if (p->pads_square && m->medium->n_of_sample > 1) {
        make_one_of_many(m);
        return;
    }
    if (pin < 0) {
        cs_layout_fail(m, CS_INVALID, "%d x %d pixels fit none of image_grid_pinpoints", from.width,
                       from.height);
        return;
    }
    const struct cs_mosaic mosaic = mosaic_of(p, m->encoder, from, pin);
    const struct cs_extent canvas = {p->pin[pin][0], p->pin[pin][1]};
    const struct cs_extent whole =
        p->size.height > 0 ? (struct cs_extent){p->size.height, p->size.width}
                           : (struct cs_extent){p->size.shortest_edge, p->size.shortest_edge};
    const struct cs_extent inside = cs_size_inside(from, canvas);
    const int32_t resized = cs_layout_resize(m, 0, inside);
    const int32_t laid = cs_layout_place(m, resized, canvas, (canvas.width - inside.width) / 2,
                                         (canvas.height - inside.height) / 2, NULL);
    cs_layout_rows(m, cs_layout_item(m, cs_layout_fit(m, cs_layout_resize(m, 0, whole))));
    for (int32_t i = 0; i < mosaic.tiles.height * mosaic.tiles.width; i++)
        (void)cs_layout_item(m,
                             cs_layout_fit(m, cs_layout_tile(m, laid, tile, i / mosaic.tiles.width,
                                                             i % mosaic.tiles.width)));
    if (m->status != CS_OK)
        return;
    lines(m, mosaic.size);
    if (cs_mosaic_is_blended(&mosaic))
        blend_rows(m, &mosaic);
    else
        map_rows(m, &mosaic);
}

static void bound(const struct cs_processor *p, const struct cs_media_encoder *e,
                  struct cs_media_bounds *out)
{
    const int32_t tiles = most_tiles(p, e);

    *out = (struct cs_media_bounds){
        .item_rows = cs_layout_item_rows(e, (struct cs_extent){p->height, p->width}),
        .item_bytes = p->height * p->width * p->channels,
    };
    for (int32_t i = 0; i < p->n_pins; i++) {
        const struct cs_mosaic m = mosaic_of(p, e, (struct cs_extent){1, 1}, i);
        const int32_t items = 1 + m.tiles.height * m.tiles.width;
        int32_t rows = m.full.height * m.full.width;
        if (tiles > 0) /* it is only made smaller from 1.1 times a side on */
            rows = (int32_t)fmin(rows, 1.21 * tiles * m.tile.height * m.tile.height);
        rows += m.full.height + out->item_rows;
        out->items = items > out->items ? items : out->items;
        out->placeholders = rows > out->placeholders ? rows : out->placeholders;
    }
}

const struct cs_layout_kind cs_layout_anyres = {
    .has_one_size = true, .check = check, .make = make, .bound = bound};
