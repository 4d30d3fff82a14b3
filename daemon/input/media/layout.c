/* Lays out media: one function of a table for each kind of processor. */
#include "input/media/layout.h"

#include <string.h>

#include "input/media/layout_make.h"

struct cs_media_encoder cs_media_encoder_of(const struct cs_arch *arch)
{
    return (struct cs_media_encoder){
        .family = arch->family,
        .side = arch->image_size,
        .patch = arch->patch_size,
        .merge = 1,
        .frames = 1,
        .channels = arch->channels,
    };
}

enum cs_status cs_media_layout_make(const struct cs_processor *processor,
                                    const struct cs_media_encoder *encoder,
                                    const struct cs_medium *medium, struct cs_arena *arena,
                                    struct cs_media_layout *out, struct cs_err *err)
{
    struct cs_layout_maker m = {
        .processor = processor, .encoder = encoder, .medium = medium, .arena = arena, .err = err};

    CS_ASSERT(medium->width >= 1 && medium->height >= 1);
    cs_layout_fixed(&m);
    *out = m.status == CS_OK ? m.out : (struct cs_media_layout){0};
    return m.status;
}

enum cs_status cs_media_bounds_of(const struct cs_processor *processor,
                                  const struct cs_media_encoder *encoder,
                                  struct cs_media_bounds *out, struct cs_err *err)
{
    const struct cs_medium any = {.kind = CS_ITEM_IMAGE,
                                  .width = processor->width,
                                  .height = processor->height,
                                  .n_frames = 1};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_media_layout layout;
    enum cs_status status = cs_media_layout_make(processor, encoder, &any, arena, &layout, err);

    *out = (struct cs_media_bounds){0};
    if (status == CS_OK)
        *out = (struct cs_media_bounds){.items = 1,
                                        .rows = layout.items[0].shape.rows,
                                        .item_rows = layout.items[0].shape.rows,
                                        .item_bytes = layout.items[0].shape.bytes,
                                        .placeholders = layout.n_rows};
    cs_arena_free(arena);
    return status;
}

enum cs_status cs_image_shape(const struct cs_processor *processor, const struct cs_arch *encoder,
                              struct cs_item_shape *shape, struct cs_err *err)
{
    const struct cs_media_encoder seen = cs_media_encoder_of(encoder);
    const struct cs_medium any = {.kind = CS_ITEM_IMAGE,
                                  .width = processor->width,
                                  .height = processor->height,
                                  .n_frames = 1};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_media_layout layout;
    enum cs_status status = cs_media_layout_make(processor, &seen, &any, arena, &layout, err);

    *shape = status == CS_OK ? layout.items[0].shape : (struct cs_item_shape){0};
    cs_arena_free(arena);
    return status;
}

void cs_media_layout_trim(const struct cs_media_layout *layout, const char *before, size_t n_before,
                          const char *after, size_t n_after, int32_t *first, int32_t *end)
{
    int32_t a = 0, b = layout->n_pieces;

    while (a < b && layout->pieces[a].is_wrap)
        a++;
    while (b > a && layout->pieces[b - 1].is_wrap)
        b--;
    const char *open = a > 0 ? layout->pieces[a - 1].text : NULL;
    const char *close = b < layout->n_pieces ? layout->pieces[b].text : NULL;
    const size_t n_open = open != NULL ? strlen(open) : 0;
    const size_t n_close = close != NULL ? strlen(close) : 0;
    const bool has_open =
        open != NULL && n_open <= n_before && memcmp(before + n_before - n_open, open, n_open) == 0;
    const bool has_close =
        close != NULL && n_close <= n_after && memcmp(after, close, n_close) == 0;
    *first = has_open ? a : 0;
    *end = has_close ? b : layout->n_pieces;
}
