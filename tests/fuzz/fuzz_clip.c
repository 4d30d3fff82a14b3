/* libFuzzer target: any bytes as a video file; its first frames are laid out and put into items. */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/edit.h"
#include "input/media/video/clip.h"
#include "input/media/video/video_layout.h"

enum { FRAMES = 4, PIXELS_MAX = 1 << 18 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct into {
    const struct cs_video_processor *processor;
    const struct cs_media_layout *layout;
    uint8_t **data;
};

static enum cs_status put(void *user, int32_t k, const uint8_t *rgb, int32_t width, int32_t height,
                          struct cs_err *err)
{
    const struct into *to = user;

    return cs_video_pixels(to->processor, to->layout, k, rgb, width, height, to->data, err);
}

static void read_clip(const struct cs_clip_source *source, const struct cs_video_info *info,
                      struct cs_arena *arena)
{
    const struct cs_video_processor p = {.kind = CS_VIDEO_QWEN3,
                                         .name = "fuzz",
                                         .does_sample = true,
                                         .num_frames = FRAMES,
                                         .does_resize = true,
                                         .resample = CS_RESAMPLE_BICUBIC,
                                         .min_pixels = 1024,
                                         .max_pixels = 16384,
                                         .patch = 16,
                                         .merge = 1,
                                         .frames = 2};
    const struct cs_media_encoder encoder = {
        .family = "fuzz", .patch = 16, .merge = 1, .frames = 2, .channels = 3};
    struct cs_video_frames frames;
    struct cs_media_layout layout;

    if (cs_video_frames_take(&p, info, arena, &frames, NULL) != CS_OK ||
        cs_video_layout_make(&p, &encoder, info, &frames, arena, &layout, NULL) != CS_OK)
        return;
    struct into to = {&p, &layout, CS_NEW_ARRAY(arena, uint8_t *, layout.n_items)};
    for (int32_t i = 0; i < layout.n_items; i++)
        to.data[i] = cs_arena_alloc(arena, (size_t)layout.items[i].shape.bytes);
    (void)!cs_clip_read(source, info, &frames, put, &to, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct cs_clip_source source = {.name = "fuzz", .bytes = data, .n_bytes = size};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_video_info info = {0};
    struct cs_err err = {0};

    if (size == 0 || cs_clip_probe(&source, &info, &err) != CS_OK)
        fuzz_must(size == 0 || err.text[0] != '\0');
    else if ((int64_t)info.width * info.height <= PIXELS_MAX)
        read_clip(&source, &info, arena);
    cs_arena_free(arena);
    return 0;
}
