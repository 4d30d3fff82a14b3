/* Which frames of a video are taken, and when each is shown: the arithmetic of the processors' sample_frames, to the
 * last rounding (torch.arange counts in float, numpy.linspace in double). Pure. */
#ifndef CS_INPUT_MEDIA_VIDEO_FRAMES_H
#define CS_INPUT_MEDIA_VIDEO_FRAMES_H

#include "core/base/arena.h"
#include "input/media/video/video_processor.h"

enum { CS_VIDEO_MAX_FRAMES = 16384 /* that are taken */, CS_VIDEO_DEFAULT_FPS = 24 };

/* A video as its header, or the list of its frames, describes it. */
struct cs_video_info {
    int32_t width, height; /* pixels */
    int64_t n_frames;
    double fps;   /* 0: not known */
    bool is_list; /* of pictures: frames that somebody has taken already; all of them stay */
};

struct cs_video_frames {
    int32_t n;
    int32_t *index;   /* (n) rising, in the arena */
    double fps;       /* of the video; CS_VIDEO_DEFAULT_FPS where it is not known */
    double taken_fps; /* of the frames that are taken */
    double duration;  /* seconds */
};

/* A video without frames, or fewer than are asked for, is CS_INVALID; too many are CS_LIMIT. */
enum cs_status cs_video_frames_take(const struct cs_video_processor *processor,
                                    const struct cs_video_info *info, struct cs_arena *arena,
                                    struct cs_video_frames *out, struct cs_err *err) CS_NODISCARD;

#endif
