/* Classes of video processors and their defaults. */
#include "input/media/video/video_classes.h"

#include <string.h>

#define CLIP_MEAN                                                                                  \
    {                                                                                              \
        0.48145466, 0.4578275, 0.40821073                                                          \
    }
#define CLIP_STD                                                                                   \
    {                                                                                              \
        0.26862954, 0.26130258, 0.27577711                                                         \
    }
#define HALF                                                                                       \
    {                                                                                              \
        0.5, 0.5, 0.5                                                                              \
    }

/* Classes by the word before "VideoProcessor" or "ImageProcessor", and what they do if nothing else is said. */
static const struct cs_video_class classes[] = {
    {"Qwen2VL",
     {.kind = CS_VIDEO_QWEN2,
      .name = "Qwen2VLVideoProcessor",
      .min_pixels = 128 * 28 * 28,
      .max_pixels = 28 * 28 * 768,
      .patch = 14,
      .merge = 2,
      .frames = 2,
      .min_frames = 4,
      .max_frames = 768,
      .max_video_tokens = 128000},
     CLIP_MEAN, CLIP_STD},
    {"Qwen3VL",
     {.kind = CS_VIDEO_QWEN3,
      .name = "Qwen3VLVideoProcessor",
      .min_pixels = 128 * 32 * 32,
      .max_pixels = 32 * 32 * 768,
      .patch = 16,
      .merge = 2,
      .frames = 2,
      .min_frames = 4,
      .max_frames = 768,
      .max_video_tokens = 768,
      .does_sample = true,
      .fps = 2},
     HALF,      HALF    },
    {"LlavaOnevision",
     {.kind = CS_VIDEO_POOLED, .name = "LlavaOnevisionVideoProcessor", .height = 384, .width = 384},
     CLIP_MEAN, CLIP_STD},
    {"InternVL",
     {.kind = CS_VIDEO_NUMBERED,
      .name = "InternVLVideoProcessor",
      .height = 384,
      .width = 384,
      .is_centred = true},
     CLIP_MEAN, CLIP_STD},
    {"SmolVLM",
     {.kind = CS_VIDEO_TIMED,
      .name = "SmolVLMVideoProcessor",
      .height = 364,
      .width = 364,
      .longest_edge = 4 * 364},
     HALF,      HALF    },
    {"Gemma4",
     {.kind = CS_VIDEO_SOFT,
      .name = "Gemma4VideoProcessor",
      .patch = 16,
      .merge = 3,
      .max_rows = 70,
      .does_sample = true,
      .num_frames = 32},
     {0, 0, 0},
     {1, 1, 1}          },
};

enum cs_status cs_video_class_find(const struct cs_doc *doc, const struct cs_video_class **out,
                                   struct cs_err *err)
{
    char shown[CS_DOC_SHOWN];
    const json_t *value = cs_doc_get(
        doc->json, "video_processor_type|image_processor_type|feature_extractor_type", NULL);
    const char *said = json_string_value(value);

    *out = NULL;
    if (said == NULL)
        return cs_fail(err, CS_INVALID, "%s: video_processor_type is missing", doc->name);
    for (size_t i = 0; i < CS_ARRAY_LEN(classes); i++) {
        const size_t n = strlen(classes[i].word);
        if (strncmp(said, classes[i].word, n) == 0 &&
            (strncmp(said + n, "VideoProcessor", 14) == 0 ||
             strncmp(said + n, "ImageProcessor", 14) == 0)) {
            *out = &classes[i];
            return CS_OK;
        }
    }
    return cs_fail(err, CS_UNSUPPORTED,
                   "%s: videos of %s are not read; those of Qwen2VL, Qwen3VL, LlavaOnevision, "
                   "InternVL, SmolVLM and Gemma4 are",
                   doc->name, cs_doc_show(value, shown));
}
