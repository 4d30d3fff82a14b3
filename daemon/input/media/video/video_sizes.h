/* Sizes that frames are resized to, as the video processors of transformers 5 compute them. */
#ifndef CS_INPUT_MEDIA_VIDEO_VIDEO_SIZES_H
#define CS_INPUT_MEDIA_VIDEO_VIDEO_SIZES_H

#include "input/media/sizes.h"
#include "input/media/video/video_processor.h"

/* n_frames: that are taken. CS_INVALID: sides too unlike, too few frames for a patch in time. */
enum cs_status cs_video_size(const struct cs_video_processor *processor, struct cs_extent from,
                             int32_t n_frames, struct cs_extent *out,
                             struct cs_err *err) CS_NODISCARD;

#endif
