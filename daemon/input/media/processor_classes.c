/* The table of image processors: kinds and defaults. Sources: the classes of transformers 5 (Pillow back
 * end) and of transformers 4 under their older names. */
#include "input/media/processor_classes.h"

#include <stdio.h>
#include <string.h>

#define CLIP_COLOURS                                                                               \
    "\"image_mean\": [0.48145466, 0.4578275, 0.40821073], "                                        \
    "\"image_std\": [0.26862954, 0.26130258, 0.27577711], "
#define HALF_COLOURS "\"image_mean\": [0.5, 0.5, 0.5], \"image_std\": [0.5, 0.5, 0.5], "
#define CLIP_SIZES                                                                                 \
    "\"size\": {\"shortest_edge\": 224}, \"crop_size\": {\"height\": 224, \"width\": 224}, "       \
    "\"do_center_crop\": true, "
#define SQUARE(n)   "\"size\": {\"height\": " #n ", \"width\": " #n "}, "
#define RESAMPLE(n) "\"resample\": " #n ", "
/* every class */
#define ALWAYS                                                                                     \
    "\"do_resize\": true, \"do_rescale\": true, \"rescale_factor\": 0.00392156862745098, "         \
    "\"do_normalize\": true"
#define CROPS "size|crop_size|do_center_crop|do_pad|pad_size"
#define TILES_384                                                                                  \
    "[384, 384], [384, 768], [384, 1152], [384, 1536], [384, 1920], [384, 2304], "                 \
    "[768, 384], [768, 768], [768, 1152], [768, 1536], [768, 1920], [768, 2304], "                 \
    "[1152, 384], [1152, 768], [1152, 1152], [1152, 1536], [1152, 1920], [1152, 2304], "           \
    "[1536, 384], [1536, 768], [1536, 1152], [1536, 1536], [1536, 1920], [1536, 2304], "           \
    "[1920, 384], [1920, 768], [1920, 1152], [1920, 1536], [1920, 1920], [1920, 2304], "           \
    "[2304, 384], [2304, 768], [2304, 1152], [2304, 1536], [2304, 1920], [2304, 2304]"
#define SPLIT                                                                                      \
    "{\"size\": {\"longest_edge\": 1456}, \"max_image_size\": {\"longest_edge\": 364}, "           \
    "\"do_image_splitting\": true, " RESAMPLE(1) HALF_COLOURS ALWAYS "}"
#define SPLIT_READS "size|max_image_size|do_image_splitting|do_pad"

static const struct cs_processor_class classes[] = {
    {"CLIPImageProcessor",           "CLIPFeatureExtractor",                           CS_PROCESSOR_PLAIN,  false, false,
     "{" CLIP_SIZES RESAMPLE(3) CLIP_COLOURS ALWAYS "}",                                                                         CROPS                                                      },
    {"SiglipImageProcessor",         NULL,                                             CS_PROCESSOR_PLAIN,  false, false,
     "{" SQUARE(224) RESAMPLE(3) HALF_COLOURS ALWAYS "}",                                                                        CROPS                                                      },
    {"BitImageProcessor",            NULL,                                             CS_PROCESSOR_PLAIN,  false, false,
     "{" CLIP_SIZES RESAMPLE(3) CLIP_COLOURS ALWAYS "}",                                                                         CROPS                                                      },
    {"ViTImageProcessor",            "ViTFeatureExtractor",                            CS_PROCESSOR_PLAIN,  true,  false,
     "{" SQUARE(224) RESAMPLE(2) HALF_COLOURS ALWAYS "}",                                                                        CROPS                                                      },
    {"LlavaImageProcessor",          NULL,                                             CS_PROCESSOR_PLAIN,  false, true,
     "{" CLIP_SIZES "\"do_pad\": false, " RESAMPLE(3) CLIP_COLOURS ALWAYS "}",                                                   CROPS                                                      },
    {"Qwen2VLImageProcessor",        "Qwen2_5_VLImageProcessor|Qwen3VLImageProcessor", CS_PROCESSOR_SMART,
     false,                                                                                                        false,
     "{\"size\": {\"shortest_edge\": 3136, \"longest_edge\": 1003520}, \"patch_size\": 14, "
     "\"merge_size\": 2, \"temporal_patch_size\": 2, " RESAMPLE(3) CLIP_COLOURS ALWAYS "}",
     "size|patch_size|merge_size|temporal_patch_size|min_pixels|max_pixels"                                                                                                                 },
    {"PixtralImageProcessor",        NULL,                                             CS_PROCESSOR_WITHIN, true,  false,
     "{\"size\": {\"longest_edge\": 1024}, \"patch_size\": {\"height\": 16, \"width\": "
     "16}, " RESAMPLE(3) CLIP_COLOURS ALWAYS "}",
     "size|patch_size"                                                                                                                                                                      },
    {"Siglip2ImageProcessor",        NULL,                                             CS_PROCESSOR_BUDGET, true,  false,
     "{\"patch_size\": 16, \"max_num_patches\": 256, " RESAMPLE(2) HALF_COLOURS ALWAYS "}",
     "patch_size|max_num_patches"                                                                                                                                                           },
    {"Gemma4ImageProcessor",         NULL,                                             CS_PROCESSOR_POOLED, true,  false,
     "{\"patch_size\": 16, \"max_soft_tokens\": 280, \"pooling_kernel_size\": 3, " RESAMPLE(
         3) "\"image_mean\": [0, 0, 0], \"image_std\": [1, 1, 1], \"do_resize\": true, "
            "\"do_rescale\": true, \"rescale_factor\": 0.00392156862745098, \"do_normalize\": "
            "false}",                                                                                                            "patch_size|max_soft_tokens|pooling_kernel_size"           },
    {"GotOcr2ImageProcessor",        NULL,                                             CS_PROCESSOR_TILES,  true,  false,
     "{" SQUARE(
         384) "\"crop_to_patches\": false, \"min_patches\": 1, \"max_patches\": 12, " RESAMPLE(3)
         CLIP_COLOURS ALWAYS "}",
     "size|crop_to_patches|min_patches|max_patches"                                                                                                                                         },
    {"Gemma3ImageProcessor",         NULL,                                             CS_PROCESSOR_PAN,    true,  false,
     "{" SQUARE(224) "\"do_pan_and_scan\": false, "
                     "\"pan_and_scan_min_crop_size\": 256, \"pan_and_scan_max_num_crops\": 4, "
                     "\"pan_and_scan_min_ratio_to_activate\": 1.2, " RESAMPLE(2) HALF_COLOURS ALWAYS
     "}",                                                                                                                        "size|do_pan_and_scan|pan_and_scan_min_crop_size|pan_and_scan_max_num_crops|"
     "pan_and_scan_min_ratio_to_activate"                                                                                                                                          },
    {"LlavaNextImageProcessor",      NULL,                                             CS_PROCESSOR_ANYRES, false, false,
     "{" CLIP_SIZES RESAMPLE(3) CLIP_COLOURS ALWAYS
     ", \"image_grid_pinpoints\": "
     "[[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]}",                                                          "size|image_grid_pinpoints|crop_size|do_center_crop|do_pad"},
    {"LlavaOnevisionImageProcessor", NULL,                                             CS_PROCESSOR_ANYRES, false, true,
     "{" SQUARE(384) RESAMPLE(3) CLIP_COLOURS ALWAYS ", \"image_grid_pinpoints\": [" TILES_384 "]}",
     "size|image_grid_pinpoints|crop_size|do_center_crop|do_pad"                                                                                                                            },
    {"Idefics3ImageProcessor",       NULL,                                             CS_PROCESSOR_SPLIT,  true,  false, SPLIT, SPLIT_READS                                                },
    {"SmolVLMImageProcessor",        NULL,                                             CS_PROCESSOR_SPLIT,  true,  false, SPLIT, SPLIT_READS                                                },
};

static bool is_name(const char *known, const char *name)
{
    const size_t n = strlen(known);

    return strncmp(known, name, n) == 0 &&
           (name[n] == '\0' || strcmp(name + n, "Fast") == 0 || strcmp(name + n, "Pil") == 0);
}

const struct cs_processor_class *cs_processor_class_find(const char *name)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(classes); i++)
        if (is_name(classes[i].name, name) ||
            (classes[i].others != NULL && cs_doc_is_word(classes[i].others, name)))
            return &classes[i];
    return NULL;
}

void cs_processor_class_names(char *out, size_t n)
{
    size_t at = 0;

    out[0] = '\0';
    for (size_t i = 0; i < CS_ARRAY_LEN(classes) && at < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%s", i > 0 ? ", " : "", classes[i].name);
}

bool cs_processor_class_reads(const struct cs_processor_class *row, const char *key)
{
    return cs_doc_is_word(row->reads, key);
}
