/* Puts frames into items, by the steps of the layout. */
#include <stdlib.h>
#include <string.h>

#include "input/media/video/video_layout.h"

enum { STEPS_MAX = 4, CHANNELS = 3 };

/* The frame after the steps that lead to `picture`, in *out: rgb itself where there are none, else malloc'ed. */
static enum cs_status follow(const struct cs_video_processor *p,
                             const struct cs_media_layout *layout, int32_t picture,
                             const uint8_t *rgb, int32_t width, int32_t height, uint8_t **out,
                             struct cs_err *err)
{
    const struct cs_picture_step *chain[STEPS_MAX];
    uint8_t *last = NULL;
    int n = 0;

    for (int32_t at = picture; at > 0; at = chain[n - 1]->from) {
        CS_ASSERT(n < STEPS_MAX && layout->steps[at - 1].op == CS_PICTURE_RESIZE);
        chain[n++] = &layout->steps[at - 1];
    }
    *out = NULL;
    while (n-- > 0) {
        const struct cs_picture_step *to = chain[n];
        uint8_t *next = malloc((size_t)to->width * (size_t)to->height * CHANNELS);
        enum cs_status status =
            next == NULL
                ? cs_fail(err, CS_NO_MEMORY, "no memory for a frame of %d x %d pixels", to->width,
                          to->height)
                : cs_resize_rgb_with(last != NULL ? last : rgb, width, height, next, to->width,
                                     to->height, p->resample, CS_RESIZE_SHORT, err);
        free(last);
        last = next;
        width = to->width;
        height = to->height;
        if (status != CS_OK) {
            free(last);
            return status;
        }
    }
    *out = last;
    return CS_OK;
}

static size_t frame_bytes(const struct cs_media_layout *layout, const struct cs_media_item *item,
                          int32_t width, int32_t height)
{
    if (item->picture > 0) {
        width = layout->steps[item->picture - 1].width;
        height = layout->steps[item->picture - 1].height;
    }
    return (size_t)width * (size_t)height * CHANNELS;
}

/* The last frame of an item goes on to its end. */
static void put(const struct cs_media_item *item, int32_t k, const uint8_t *frame, size_t bytes,
                uint8_t *data)
{
    const size_t n = (size_t)item->shape.bytes / bytes, at = (size_t)(k - item->first_frame);
    const bool is_last = k == item->first_frame + item->n_frames - 1;

    for (size_t i = at; i < (is_last ? n : at + 1); i++)
        memcpy(data + i * bytes, frame, bytes);
}

enum cs_status cs_video_pixels(const struct cs_video_processor *p,
                               const struct cs_media_layout *layout, int32_t k, const uint8_t *rgb,
                               int32_t width, int32_t height, uint8_t *const *data,
                               struct cs_err *err)
{
    uint8_t *made = NULL;

    CS_ASSERT(layout->n_items > 0); /* all of them show the same picture of their frames */
    CS_TRY(follow(p, layout, layout->items[0].picture, rgb, width, height, &made, err));
    const size_t bytes = frame_bytes(layout, &layout->items[0], width, height);
    for (int32_t i = 0; i < layout->n_items; i++) {
        const struct cs_media_item *item = &layout->items[i];
        if (k >= item->first_frame && k < item->first_frame + item->n_frames)
            put(item, k, made != NULL ? made : rgb, bytes, data[i]);
    }
    free(made);
    return CS_OK;
}
