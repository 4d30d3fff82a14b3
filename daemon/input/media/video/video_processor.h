/* Video processors: what video_preprocessor_config.json, or the video_processor of processor_config.json, says is
 * done to a video before the encoder. A class is a row of a table: its kind and its defaults. Where a directory
 * has none, transformers makes one of the picture processor's document, and so does cs_video_processor_read.
 *
 * Sources: Qwen2VLVideoProcessor, Qwen3VLVideoProcessor, LlavaOnevisionVideoProcessor, InternVLVideoProcessor,
 * SmolVLMVideoProcessor and Gemma4VideoProcessor of transformers 5 (they resize with torchvision, resize.h). */
#ifndef CS_INPUT_MEDIA_VIDEO_VIDEO_PROCESSOR_H
#define CS_INPUT_MEDIA_VIDEO_VIDEO_PROCESSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/doc/doc.h"
#include "input/media/resize.h"

enum cs_video_kind {
    CS_VIDEO_QWEN2, /* Qwen2-VL and 2.5-VL: one item, a budget of pixels for a frame */
    CS_VIDEO_QWEN3, /* Qwen3-VL: an item for each patch in time with its time before it, a budget for the video */
    CS_VIDEO_POOLED, /* LLaVA-OneVision: frames of one size, their rows made fewer by interpolation */
    CS_VIDEO_NUMBERED, /* InternVL: frames of one size, each a picture with its number */
    CS_VIDEO_TIMED, /* SmolVLM: frames of one size, each a picture with its time, and a sentence before all */
    CS_VIDEO_SOFT, /* Gemma 4: frames with at most so many rows, each with its time */
    CS_VIDEO_KINDS
};

struct cs_video_processor {
    enum cs_video_kind kind;
    const char *name; /* of the class, for messages: a constant */

    /* which frames */
    bool does_sample;
    int32_t num_frames; /* 0: not said */
    double fps;         /* of the frames that are taken; 0: not said */
    int32_t min_frames, max_frames;
    bool is_centred; /* NUMBERED: the middle of each part of the video, not its beginning */
    double shift;    /* NUMBERED, not centred: the first frame */

    /* their sizes, pixels */
    bool does_resize;
    enum cs_resample resample;
    int32_t height, width;          /* of every frame; 0: they follow the video */
    int64_t min_pixels, max_pixels; /* QWEN2: of a frame; QWEN3: of the video */
    bool caps_frames; /* each frame at most its share of max_video_tokens (QWEN3: that itself) */
    int64_t max_video_tokens;
    int32_t longest_edge;         /* TIMED: of the step before */
    int32_t patch, merge, frames; /* frames: of a patch in time */
    int32_t max_rows;             /* SOFT: of a frame */

    double rescale;        /* 1 when do_rescale is false */
    float mean[3], std[3]; /* 0 and 1 when do_normalize is false */
};

/* The keys of video_preprocessor_config.json. */
const struct cs_doc_table *cs_video_processor_keys(void);
/* doc->table is not looked at. doc may be a picture processor's: keys that only it has are of no interest then.
 * Findings: unknown keys, defaults that are taken; or NULL. Another class, or an option that changes the pixels
 * and is not known, is CS_UNSUPPORTED by name. */
enum cs_status cs_video_processor_read(const struct cs_doc *doc, struct cs_findings *findings,
                                       struct cs_video_processor *out,
                                       struct cs_err *err) CS_NODISCARD;

#endif
