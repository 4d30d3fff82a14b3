/* Adds steps, items and pieces to a layout. */
#include "input/media/layout_make.h"

#include <stdarg.h>
#include <stdio.h>
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

void cs_layout_fail(struct cs_layout_maker *m, enum cs_status status, const char *fmt, ...)
{
    char text[400];
    va_list args;

    if (m->status != CS_OK)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    m->status = cs_fail(m->err, status, "%s", text);
}

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

    if (m->status == CS_OK && (step->width < 1 || step->height < 1 ||
                               (int64_t)step->width * step->height > CS_IMAGE_MAX_PIXELS))
        cs_layout_fail(m, step->width < 1 || step->height < 1 ? CS_INVALID : CS_LIMIT,
                       "%d x %d pixels would become %d x %d under %s: too %s", m->medium->width,
                       m->medium->height, step->width, step->height, m->processor->name,
                       step->width < 1 || step->height < 1 ? "thin" : "large");
    if (m->status != CS_OK)
        return step->from;
    to = ADD(m, steps);
    *to = *step;
    return m->out.n_steps;
}

int32_t cs_layout_resize(struct cs_layout_maker *m, int32_t from, struct cs_extent to)
{
    const struct cs_extent size = cs_layout_extent(m, from);
    const struct cs_picture_step step = {
        .op = CS_PICTURE_RESIZE, .from = from, .width = to.width, .height = to.height};

    return size.height == to.height && size.width == to.width ? from : add_step(m, &step);
}

int32_t cs_layout_place(struct cs_layout_maker *m, int32_t from, struct cs_extent canvas,
                        int32_t left, int32_t top, const uint8_t *fill)
{
    const struct cs_extent size = cs_layout_extent(m, from);
    struct cs_picture_step step = {.op = CS_PICTURE_PLACE,
                                   .from = from,
                                   .width = canvas.width,
                                   .height = canvas.height,
                                   .left = left,
                                   .top = top};

    if (fill != NULL)
        memcpy(step.fill, fill, sizeof(step.fill));
    return size.height == canvas.height && size.width == canvas.width && left == 0 && top == 0
               ? from
               : add_step(m, &step);
}

int32_t cs_layout_tile(struct cs_layout_maker *m, int32_t from, struct cs_extent tile, int32_t row,
                       int32_t column)
{
    return cs_layout_place(m, from, tile, -column * tile.width, -row * tile.height, NULL);
}

int32_t cs_layout_item_rows(const struct cs_media_encoder *e, struct cs_extent size)
{
    const int32_t side = e->patch * e->merge;

    return e->extra_rows + (e->side_tokens > 0 ? e->side_tokens * e->side_tokens
                                               : size.height / side * (size.width / side));
}

int32_t cs_layout_item(struct cs_layout_maker *m, int32_t picture)
{
    const struct cs_media_encoder *e = m->encoder;
    const struct cs_extent size = cs_layout_extent(m, picture);
    const int32_t rows = cs_layout_item_rows(e, size);

    if (rows < 1 || (int64_t)size.height * size.width > CS_IMAGE_MAX_PIXELS)
        cs_layout_fail(m, rows < 1 ? CS_INVALID : CS_LIMIT,
                       "%d x %d pixels are %d rows of the %s encoder, with patches of %d",
                       size.width, size.height, rows, e->family, e->patch * e->merge);
    if (m->status != CS_OK)
        return 0;
    struct cs_media_item *item = ADD(m, items);
    *item = (struct cs_media_item){
        .shape = {.kind = m->medium->kind,
                  .grid = {1, size.height / e->patch, size.width / e->patch},
                  .rows = rows,
                  .bytes = size.height * size.width * e->channels},
        .picture = picture
    };
    if (m->out.n_items > 1)
        item->first_row = item[-1].first_row + item[-1].shape.rows;
    return rows;
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
