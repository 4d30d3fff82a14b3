/* Adds steps, items and pieces to a layout. */
#include "input/media/layout_make.h"

#include <string.h>

/* The array with room for one more than its n things, of `bytes` each. */
static void *grown(struct cs_arena *arena, void *array, int32_t n, int32_t *room, size_t bytes)
{
    if (n < *room)
        return array;
    *room = *room * 2 + 4;
    void *larger = cs_arena_array(arena, bytes, (size_t)*room);
    if (n > 0)
        memcpy(larger, array, (size_t)n * bytes);
    return larger;
}

#define ADD(m, what)                                                                               \
    ((m)->out.what = grown((m)->arena, (m)->out.what, (m)->out.n_##what, &(m)->room_##what,        \
                           sizeof *(m)->out.what),                                                 \
     &(m)->out.what[(m)->out.n_##what++])

struct cs_extent cs_layout_extent(const struct cs_layout_maker *m, int32_t picture)
{
    if (picture == 0)
        return (struct cs_extent){m->medium->height, m->medium->width};
    const struct cs_picture_step *step = &m->out.steps[picture - 1];
    return (struct cs_extent){step->height, step->width};
}

static int32_t add_step(struct cs_layout_maker *m, const struct cs_picture_step *step)
{
    struct cs_picture_step *to = NULL;

    if (m->status != CS_OK)
        return step->from;
    if (step->width < 1 || step->height < 1 ||
        (int64_t)step->width * step->height > CS_IMAGE_MAX_PIXELS) {
        m->status = cs_fail(m->err, CS_LIMIT,
                            "%d x %d pixels become %d x %d under this processor; 1 to %d pixels "
                            "can be",
                            m->medium->width, m->medium->height, step->width, step->height,
                            CS_IMAGE_MAX_PIXELS);
        return step->from;
    }
    to = ADD(m, steps);
    *to = *step;
    return m->out.n_steps;
}

int32_t cs_layout_resize(struct cs_layout_maker *m, int32_t from, int32_t height, int32_t width)
{
    const struct cs_extent size = cs_layout_extent(m, from);
    const struct cs_picture_step step = {
        .op = CS_PICTURE_RESIZE, .from = from, .width = width, .height = height};

    return size.height == height && size.width == width ? from : add_step(m, &step);
}

int32_t cs_layout_place(struct cs_layout_maker *m, int32_t from,
                        const struct cs_picture_step *place)
{
    const struct cs_extent size = cs_layout_extent(m, from);
    struct cs_picture_step step = *place;

    step.op = CS_PICTURE_PLACE;
    step.from = from;
    return size.height == step.height && size.width == step.width && step.left == 0 && step.top == 0
               ? from
               : add_step(m, &step);
}

struct cs_media_item *cs_layout_item(struct cs_layout_maker *m, int32_t picture)
{
    const struct cs_media_encoder *e = m->encoder;
    const struct cs_extent size = cs_layout_extent(m, picture);
    const int32_t high = size.height / e->patch, wide = size.width / e->patch;
    const int32_t rows = e->side_tokens > 0 ? e->side_tokens * e->side_tokens
                                            : (high / e->merge) * (wide / e->merge);
    struct cs_media_item *item = ADD(m, items);

    if (m->status == CS_OK && (rows < 1 || (int64_t)size.height * size.width > CS_IMAGE_MAX_PIXELS))
        m->status = cs_fail(m->err, CS_LIMIT, "%d x %d pixels make %d rows, with patches of %d",
                            size.width, size.height, rows, e->patch * e->merge);
    *item = (struct cs_media_item){
        .shape = {.kind = m->medium->kind,
                  .grid = {1, high, wide},
                  .rows = rows + e->extra_rows,
                  .bytes = (int32_t)((int64_t)size.height * size.width * e->channels)},
        .picture = picture
    };
    if (m->out.n_items > 1)
        item->first_row = item[-1].first_row + item[-1].shape.rows;
    return item;
}

static struct cs_media_piece *piece(struct cs_layout_maker *m, enum cs_media_piece_kind kind)
{
    struct cs_media_piece *p = ADD(m, pieces);

    *p = (struct cs_media_piece){.kind = kind};
    return p;
}

void cs_layout_text(struct cs_layout_maker *m, const char *text)
{
    piece(m, CS_MEDIA_TEXT)->text = text;
}

void cs_layout_token(struct cs_layout_maker *m, const char *text)
{
    struct cs_media_piece *p = piece(m, CS_MEDIA_TEXT);

    p->text = text;
    p->is_token = true;
}

void cs_layout_wrap(struct cs_layout_maker *m, const char *text)
{
    cs_layout_text(m, text);
    m->out.pieces[m->out.n_pieces - 1].is_wrap = true;
}

void cs_layout_wrap_token(struct cs_layout_maker *m, const char *text)
{
    cs_layout_token(m, text);
    m->out.pieces[m->out.n_pieces - 1].is_wrap = true;
}

void cs_layout_rows(struct cs_layout_maker *m, int32_t n)
{
    piece(m, CS_MEDIA_ROWS)->n_rows = n;
    m->out.n_rows += n;
}

void cs_layout_learned(struct cs_layout_maker *m, int32_t n)
{
    piece(m, CS_MEDIA_LEARNED)->n_rows = n;
    m->out.n_rows += n;
    m->out.n_learned += n;
}
