/* Video files where the program was built without ffmpeg's headers: refused by name. */
#include "input/media/video/clip_parts.h"

bool cs_clip_has_files(void)
{
    return false;
}

static enum cs_status refuse(const struct cs_clip_source *source, struct cs_err *err)
{
    return cs_fail(
        err, CS_UNSUPPORTED,
        "%s: a video file; this program was built without ffmpeg's libraries: build it "
        "where libavformat-dev, libavcodec-dev and libswscale-dev are installed, or give "
        "a folder of pictures",
        source->name);
}

enum cs_status cs_clip_file_probe(const struct cs_clip_source *source, struct cs_video_info *out,
                                  struct cs_err *err)
{
    *out = (struct cs_video_info){0};
    return refuse(source, err);
}

enum cs_status cs_clip_file_read(const struct cs_clip_source *source,
                                 const struct cs_video_info *info,
                                 const struct cs_video_frames *frames, cs_clip_sink *sink,
                                 void *user, struct cs_err *err)
{
    (void)info;
    (void)frames;
    (void)sink;
    (void)user;
    return refuse(source, err);
}
