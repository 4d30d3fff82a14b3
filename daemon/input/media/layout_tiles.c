/* Pictures that become several items of one size: tiles or crops, and the whole made small. */
#include <math.h>

#include "input/media/layout_make.h"

static struct cs_extent tile_of(const struct cs_processor *p)
{
    return (struct cs_extent){p->height, p->width};
}

/* So many items of the encoder's size. */
static void bound_items(const struct cs_processor *p, const struct cs_media_encoder *e,
                        int32_t items, struct cs_media_bounds *out)
{
    *out = (struct cs_media_bounds){
        .items = items,
        .item_rows = cs_layout_item_rows(e, tile_of(p)),
        .item_bytes = p->height * p->width * p->channels,
    };
}

/* Without it pictures are not of the encoder's size, or tiles without end. */
static enum cs_status check_resize(const struct cs_processor *p, const struct cs_media_encoder *e,
                                   struct cs_err *err)
{
    const bool always = p->kind == CS_PROCESSOR_TILES ? p->is_cut && p->max_tiles > 1
                                                      : p->kind == CS_PROCESSOR_SPLIT && !p->is_cut;

    (void)e;
    if (p->do_resize || always)
        return CS_OK;
    return cs_fail(err, CS_UNSUPPORTED,
                   "do_resize is false: %s resizes all pictures, the encoder takes one size",
                   p->name);
}

/* InternVL */

static void make_tiles(struct cs_layout_maker *m)
{
    const struct cs_processor *p = m->processor;
    const struct cs_extent tile = tile_of(p);
    struct cs_extent grid = {1, 1};
    int32_t rows = 0;

    if (p->is_cut && p->max_tiles > 1)
        grid = cs_size_grid(cs_layout_extent(m, 0), tile, p->min_tiles, p->max_tiles);
    const struct cs_extent canvas = {grid.height * tile.height, grid.width * tile.width};
    const int32_t whole = cs_layout_resize(m, 0, canvas);
    for (int32_t i = 0; i < grid.height * grid.width; i++)
        rows += cs_layout_item(m, cs_layout_tile(m, whole, tile, i / grid.width, i % grid.width));
    if (grid.height * grid.width > 1)
        rows += cs_layout_item(m, cs_layout_resize(m, 0, tile));
    cs_layout_wrap_token(m, "<img>");
    cs_layout_rows(m, rows);
    cs_layout_wrap_token(m, "</img>");
}

static void bound_tiles(const struct cs_processor *p, const struct cs_media_encoder *e,
                        struct cs_media_bounds *out)
{
    bound_items(p, e, p->is_cut && p->max_tiles > 1 ? p->max_tiles + 1 : 1, out);
}

/* Gemma 3 */

/* Crops along the longer side: how many, 0: none. */
static int32_t count_crops(const struct cs_processor *p, double longer, double shorter)
{
    double n = 0;

    if (!p->is_cut || longer / shorter < p->pan_ratio)
        return 0;
    n = fmin(floor(longer / p->pan_side), floor(longer / shorter + 0.5));
    n = fmin(p->pan_crops, fmax(2, n));
    return fmin(ceil(longer / n), shorter) < p->pan_side ? 0 : (int32_t)n;
}

static void seen(struct cs_layout_maker *m, int32_t picture, bool is_alone)
{
    void (*text)(struct cs_layout_maker *, const char *) =
        is_alone ? cs_layout_wrap : cs_layout_text;
    void (*token)(struct cs_layout_maker *, const char *) =
        is_alone ? cs_layout_wrap_token : cs_layout_token;

    text(m, "\n\n");
    token(m, "<start_of_image>");
    cs_layout_rows(m, cs_layout_item(m, cs_layout_resize(m, picture, tile_of(m->processor))));
    token(m, "<end_of_image>");
    text(m, "\n\n");
}

static void make_pan(struct cs_layout_maker *m)
{
    const struct cs_extent from = cs_layout_extent(m, 0);
    const bool is_wide = from.width >= from.height;
    const int32_t n = is_wide ? count_crops(m->processor, from.width, from.height)
                              : count_crops(m->processor, from.height, from.width);

    if (n > 0)
        cs_layout_text(m, "Here is the original image ");
    seen(m, 0, n == 0);
    if (n > 0)
        cs_layout_text(m, " and here are some crops to help you see better ");
    for (int32_t i = 0; i < n; i++) {
        const int32_t longer = is_wide ? from.width : from.height;
        const int32_t step = (longer + n - 1) / n, at = i * step;
        const int32_t length = longer - at < step ? longer - at : step; /* the last is cut */
        const struct cs_extent size = is_wide ? (struct cs_extent){from.height, length}
                                              : (struct cs_extent){length, from.width};
        if (i > 0)
            cs_layout_text(m, " ");
        seen(m, cs_layout_place(m, 0, size, is_wide ? -at : 0, is_wide ? 0 : -at, NULL), false);
    }
}

static void bound_pan(const struct cs_processor *p, const struct cs_media_encoder *e,
                      struct cs_media_bounds *out)
{
    bound_items(p, e, p->is_cut ? 1 + p->pan_crops : 1, out);
}

/* Idefics 3 and SmolVLM */

static void tagged(struct cs_layout_maker *m, int32_t picture, const char *tag)
{
    cs_layout_token(m, "<fake_token_around_image>");
    cs_layout_token(m, tag);
    cs_layout_rows(m, cs_layout_item(m, picture));
}

static void make_split(struct cs_layout_maker *m)
{
    const struct cs_processor *p = m->processor;
    const struct cs_processor_size *s = &p->size;
    const struct cs_extent tile = tile_of(p);
    struct cs_extent from = cs_layout_extent(m, 0);
    int32_t whole = 0;

    if (p->do_resize)
        whole = cs_layout_resize(m, 0,
                                 s->longest_edge > 0 ? cs_size_longest(from, s->longest_edge)
                                                     : (struct cs_extent){s->height, s->width});
    if (p->is_cut)
        whole =
            cs_layout_resize(m, whole, cs_size_multiple(cs_layout_extent(m, whole), tile.height));
    from = cs_layout_extent(m, whole);
    for (int32_t i = 0; p->is_cut && i < from.height / tile.height; i++) {
        const int32_t columns = from.width / tile.width;
        if (columns * (from.height / tile.height) == 1)
            break;
        for (int32_t k = 0; k < columns; k++)
            tagged(m, cs_layout_tile(m, whole, tile, i, k),
                   cs_arena_printf(m->arena, "<row_%d_col_%d>", i + 1, k + 1));
        cs_layout_text(m, "\n");
    }
    if (m->out.n_items > 0)
        cs_layout_text(m, "\n");
    tagged(m, cs_layout_resize(m, whole, tile), "<global-img>");
    cs_layout_token(m, "<fake_token_around_image>");
}

static void bound_split(const struct cs_processor *p, const struct cs_media_encoder *e,
                        struct cs_media_bounds *out)
{
    const struct cs_processor_size *s = &p->size;
    const int32_t high = s->longest_edge > 0 ? s->longest_edge : s->height;
    const int32_t wide = s->longest_edge > 0 ? s->longest_edge : s->width;
    const int32_t rows = (high + p->height - 1) / p->height,
                  columns = (wide + p->width - 1) / p->width;

    bound_items(p, e, p->is_cut && rows * columns > 1 ? rows * columns + 1 : 1, out);
}

const struct cs_layout_kind cs_layout_tiles = {
    .has_one_size = true, .check = check_resize, .make = make_tiles, .bound = bound_tiles};
const struct cs_layout_kind cs_layout_pan = {
    .has_one_size = true, .check = check_resize, .make = make_pan, .bound = bound_pan};
const struct cs_layout_kind cs_layout_split = {
    .has_one_size = true, .check = check_resize, .make = make_split, .bound = bound_split};
