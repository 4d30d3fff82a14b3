/* What one video becomes under its processor: see layout.h, whose contract this follows. From the size of the video and
 * the frames that are taken alone.
 *
 * Qwen-VL's items are of kind CS_ITEM_VIDEO: data uint8 (frames, height, width, 3), as many frames as all patches
 * in time need, the last one repeated; Qwen2 and 2.5: one item, grid {time, height, width}; Qwen3: an item for each
 * patch in time, grid {1, height, width}. All others show frames as pictures of kind CS_ITEM_IMAGE. The steps
 * of a layout are done to every frame, with torchvision's weights (CS_RESIZE_SHORT). */
#ifndef CS_INPUT_MEDIA_VIDEO_VIDEO_LAYOUT_H
#define CS_INPUT_MEDIA_VIDEO_VIDEO_LAYOUT_H

#include "input/media/layout.h"
#include "input/media/video/frames.h"

/* What must be the same for videos and pictures of one encoder: CS_INVALID names what differs. */
enum cs_status cs_video_check(const struct cs_video_processor *processor,
                              const struct cs_processor *pictures,
                              const struct cs_media_encoder *encoder,
                              struct cs_err *err) CS_NODISCARD;
enum cs_status cs_video_layout_make(const struct cs_video_processor *processor,
                                    const struct cs_media_encoder *encoder,
                                    const struct cs_video_info *info,
                                    const struct cs_video_frames *frames, struct cs_arena *arena,
                                    struct cs_media_layout *out, struct cs_err *err) CS_NODISCARD;
/* Whether rows of items are blended, or a learned row is put behind them. */
bool cs_video_mixes_rows(const struct cs_video_processor *processor);
/* Frames that the processor takes of a video at most; 0: it takes all and does not say how many may be. */
int32_t cs_video_most_frames(const struct cs_video_processor *processor);
/* The most that a video of which so many frames are taken can become. */
enum cs_status cs_video_bounds_of(const struct cs_video_processor *processor,
                                  const struct cs_media_encoder *encoder, int32_t most_frames,
                                  struct cs_media_bounds *out, struct cs_err *err) CS_NODISCARD;

/* Puts the k-th of the frames that are taken, rgb (height, width, 3) of the video's size, where the items show it.
 * data[i]: shape.bytes of item i, the caller's memory. */
enum cs_status cs_video_pixels(const struct cs_video_processor *processor,
                               const struct cs_media_layout *layout, int32_t k, const uint8_t *rgb,
                               int32_t width, int32_t height, uint8_t *const *data,
                               struct cs_err *err) CS_NODISCARD;

#endif
