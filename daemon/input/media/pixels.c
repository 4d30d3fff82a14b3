/* Carries out the steps of a layout. Each intermediate picture lives until all are made. */
#include "input/media/pixels.h"

#include <stdlib.h>
#include <string.h>

/* A picture in memory that somebody else owns. */
struct view {
    const uint8_t *rgb;
    int32_t width, height;
};

static void place(const struct view *from, const struct cs_picture_step *step, uint8_t *out)
{
    const size_t line = (size_t)step->width * CS_IMAGE_CHANNELS;
    const int32_t x0 = step->left > 0 ? step->left : 0, y0 = step->top > 0 ? step->top : 0;
    const int32_t right = from->width + step->left, bottom = from->height + step->top;
    const int32_t x1 = right < step->width ? right : step->width;
    const int32_t y1 = bottom < step->height ? bottom : step->height;

    for (size_t i = 0; i < line * (size_t)step->height; i += CS_IMAGE_CHANNELS)
        memcpy(out + i, step->fill, CS_IMAGE_CHANNELS);
    for (int32_t y = y0; y < y1 && x0 < x1; y++)
        memcpy(out + (size_t)y * line + (size_t)x0 * CS_IMAGE_CHANNELS,
               from->rgb +
                   ((size_t)(y - step->top) * (size_t)from->width + (size_t)(x0 - step->left)) *
                       CS_IMAGE_CHANNELS,
               (size_t)(x1 - x0) * CS_IMAGE_CHANNELS);
}

static enum cs_status make(const struct cs_picture_step *step, const struct view *from,
                           enum cs_resample filter, uint8_t *out, struct cs_err *err)
{
    if (step->op == CS_PICTURE_RESIZE)
        return cs_resize_rgb(from->rgb, from->width, from->height, out, step->width, step->height,
                             filter, err);
    place(from, step, out);
    return CS_OK;
}

/* views: (n_steps + 1), the file's own first */
static enum cs_status make_all(const struct cs_processor *processor,
                               const struct cs_media_layout *layout, struct view *views,
                               struct cs_err *err)
{
    for (int32_t i = 0; i < layout->n_steps; i++) {
        const struct cs_picture_step *step = &layout->steps[i];
        uint8_t *out = malloc((size_t)step->width * (size_t)step->height * CS_IMAGE_CHANNELS);
        if (out == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for %d x %d pixels", step->width,
                           step->height);
        views[i + 1] = (struct view){out, step->width, step->height};
        CS_TRY(make(step, &views[step->from], processor->resample, out, err));
    }
    return CS_OK;
}

enum cs_status cs_pixels_make(const struct cs_processor *processor,
                              const struct cs_media_layout *layout, const struct cs_medium *medium,
                              const struct cs_image *image, uint8_t *const *data,
                              struct cs_err *err)
{
    struct view *views = NULL;
    enum cs_status status = CS_OK;

    if (image->width != medium->width || image->height != medium->height)
        return cs_fail(err, CS_CORRUPT, "picture of %d x %d pixels, its header said %d x %d",
                       image->width, image->height, medium->width, medium->height);
    views = calloc((size_t)layout->n_steps + 1, sizeof *views);
    if (views == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for %d pictures", layout->n_steps);
    views[0] = (struct view){image->rgb, image->width, image->height};
    status = make_all(processor, layout, views, err);
    for (int32_t i = 0; i < layout->n_items && status == CS_OK; i++)
        memcpy(data[i], views[layout->items[i].picture].rgb, (size_t)layout->items[i].shape.bytes);
    for (int32_t i = 0; i < layout->n_steps; i++)
        free((void *)(uintptr_t)views[i + 1].rgb);
    free(views);
    return status;
}
