/* Rows of a frame made fewer, for video_layout.c. */
#ifndef CS_INPUT_MEDIA_VIDEO_VIDEO_POOL_H
#define CS_INPUT_MEDIA_VIDEO_VIDEO_POOL_H

#include "input/media/layout.h"

/* The rows of a frame, side x side, from row `first` of the items on, become half x half: out (half * half). */
void cs_video_pool_frame(struct cs_media_blend *out, int32_t first, int32_t side, int32_t half);

#endif
