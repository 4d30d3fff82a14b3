/* The classes of video processors that are known, for video_read.c. */
#ifndef CS_INPUT_MEDIA_VIDEO_VIDEO_CLASSES_H
#define CS_INPUT_MEDIA_VIDEO_VIDEO_CLASSES_H

#include "input/media/video/video_processor.h"

struct cs_video_class {
    const char *word;             /* of its name, before "VideoProcessor" or "ImageProcessor" */
    struct cs_video_processor is; /* if nothing else is said, but for the colours */
    double mean[3], std[3];
};

/* The class that the document names, as a video's or as a picture's. CS_INVALID: it names none; CS_UNSUPPORTED:
 * another one. */
enum cs_status cs_video_class_find(const struct cs_doc *doc, const struct cs_video_class **out,
                                   struct cs_err *err) CS_NODISCARD;

#endif
