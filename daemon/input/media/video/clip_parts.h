/* The two kinds of videos, for clip.c. */
#ifndef CS_INPUT_MEDIA_VIDEO_CLIP_PARTS_H
#define CS_INPUT_MEDIA_VIDEO_CLIP_PARTS_H

#include "input/media/video/clip.h"

enum cs_status cs_clip_file_probe(const struct cs_clip_source *source, struct cs_video_info *out,
                                  struct cs_err *err) CS_NODISCARD;
enum cs_status cs_clip_file_read(const struct cs_clip_source *source,
                                 const struct cs_video_info *info,
                                 const struct cs_video_frames *frames, cs_clip_sink *sink,
                                 void *user, struct cs_err *err) CS_NODISCARD;

#endif
