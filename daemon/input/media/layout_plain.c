/* Pictures that all become one item of one size. */
#include "input/media/layout_make.h"

static struct cs_extent resized(const struct cs_processor_size *s, struct cs_extent from)
{
    if (s->shortest_edge > 0)
        return cs_size_shortest(from, s->shortest_edge, s->longest_edge);
    if (s->max_height > 0)
        return cs_size_box(from, s->max_height, s->max_width);
    return (struct cs_extent){s->height, s->width};
}

/* First pixel of what is cut from the middle, or less than 0: of what is put there. Half a pixel goes
 * to the left where pixels are cut and to the right where they are added. */
static int32_t middle(int32_t from, int32_t to)
{
    return from >= to ? (from - to) / 2 : -((to - from + 1) / 2);
}

static int32_t crop(struct cs_layout_maker *m, int32_t picture)
{
    const struct cs_extent from = cs_layout_extent(m, picture);
    const struct cs_extent to = {m->processor->crop.height, m->processor->crop.width};

    return cs_layout_place(m, picture, to, -middle(from.width, to.width),
                           -middle(from.height, to.height), NULL);
}

static int32_t pad(struct cs_layout_maker *m, int32_t picture)
{
    const struct cs_extent from = cs_layout_extent(m, picture);
    const struct cs_extent to = {m->processor->pad.height, m->processor->pad.width};

    if (from.height > to.height || from.width > to.width)
        cs_layout_fail(m, CS_INVALID, "%d x %d pixels are larger than pad_size, %d x %d",
                       from.width, from.height, to.width, to.height);
    return cs_layout_place(m, picture, to, 0, 0, NULL);
}

static int32_t square(struct cs_layout_maker *m, int32_t picture)
{
    const struct cs_extent from = cs_layout_extent(m, picture);
    const int32_t side = from.height > from.width ? from.height : from.width;

    return cs_layout_place(m, picture, (struct cs_extent){side, side}, (side - from.width) / 2,
                           (side - from.height) / 2, m->processor->ground);
}

int32_t cs_layout_fit(struct cs_layout_maker *m, int32_t picture)
{
    const struct cs_processor *p = m->processor;

    if (p->do_resize)
        picture = cs_layout_resize(m, picture, resized(&p->size, cs_layout_extent(m, picture)));
    if (p->crop.height > 0)
        picture = crop(m, picture);
    return p->pad.height > 0 ? pad(m, picture) : picture;
}

static void make(struct cs_layout_maker *m)
{
    const struct cs_processor *p = m->processor;
    const int32_t picture = cs_layout_fit(m, p->pads_square ? square(m, 0) : 0);

    cs_layout_rows(m, cs_layout_item(m, picture));
}

static void bound(const struct cs_processor *p, const struct cs_media_encoder *e,
                  struct cs_media_bounds *out)
{
    *out = (struct cs_media_bounds){
        .items = 1,
        .item_rows = cs_layout_item_rows(e, (struct cs_extent){p->height, p->width}),
        .item_bytes = p->height * p->width * p->channels,
    };
}

const struct cs_layout_kind cs_layout_plain = {.has_one_size = true, .make = make, .bound = bound};
