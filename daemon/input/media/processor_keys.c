/* The keys of preprocessor_config.json and processor_config.json. */
#include "input/media/processor.h"

#define PIXELS_MAX 2147483647 /* pixels of size, for some classes */

/* clang-format off */
static const struct cs_doc_key size_keys[] = {
    {.names = "height", .types = CS_DOC_INT, .min = 1, .max = CS_PROCESSOR_SIDE_MAX},
    {.names = "width", .types = CS_DOC_INT, .min = 1, .max = CS_PROCESSOR_SIDE_MAX},
    {.names = "max_height", .types = CS_DOC_INT, .min = 1, .max = CS_PROCESSOR_SIDE_MAX},
    {.names = "max_width", .types = CS_DOC_INT, .min = 1, .max = CS_PROCESSOR_SIDE_MAX},
    {.names = "shortest_edge|min_pixels", .types = CS_DOC_INT, .min = 1, .max = PIXELS_MAX},
    {.names = "longest_edge|max_pixels", .types = CS_DOC_INT, .min = 1, .max = PIXELS_MAX},
};
static const struct cs_doc_table size_table = CS_DOC_TABLE(size_keys, NULL);

#define SIZE(name_) {.names = (name_), .types = CS_DOC_INT | CS_DOC_LIST | CS_DOC_OBJECT, .min = 1, .max = CS_PROCESSOR_SIDE_MAX, .inside = &size_table}
#define SWITCH(name_) {.names = (name_), .types = CS_DOC_BOOL}
#define COUNT(name_, most_) {.names = (name_), .types = CS_DOC_INT, .min = 1, .max = (most_)}

static const struct cs_doc_key keys[] = {
    {.names = "image_processor_type|feature_extractor_type", .types = CS_DOC_STRING},
    {.names = "processor_class", .types = CS_DOC_STRING, .text = "who calls it: some set options of their own"},
    SIZE("size"),
    SIZE("crop_size"),
    SIZE("pad_size"),
    SIZE("max_image_size"),
    {.names = "resample", .types = CS_DOC_INT, .min = 0, .max = CS_RESAMPLES - 1},
    SWITCH("do_resize"), SWITCH("do_rescale"), SWITCH("do_normalize"), SWITCH("do_center_crop"), SWITCH("do_pad"),
    SWITCH("default_to_square"), SWITCH("crop_to_patches"), SWITCH("do_pan_and_scan"), SWITCH("do_image_splitting"),
    {.names = "rescale_factor", .types = CS_DOC_POSITIVE, .max = 1e6},
    {.names = "image_mean", .types = CS_DOC_NUMBER | CS_DOC_LIST},
    {.names = "image_std", .types = CS_DOC_POSITIVE | CS_DOC_LIST, .max = 1e6},
    {.names = "patch_size", .types = CS_DOC_INT | CS_DOC_OBJECT, .min = 1, .max = 1024, .inside = &size_table},
    COUNT("merge_size", 64),
    COUNT("temporal_patch_size", 64),
    COUNT("min_pixels", PIXELS_MAX),
    COUNT("max_pixels", PIXELS_MAX),
    COUNT("max_num_patches", 1 << 20),
    COUNT("max_soft_tokens", 1 << 20),
    COUNT("pooling_kernel_size", 64),
    COUNT("min_patches", 256),
    COUNT("max_patches", 256),
    COUNT("pan_and_scan_min_crop_size", CS_PROCESSOR_SIDE_MAX),
    COUNT("pan_and_scan_max_num_crops", 256),
    {.names = "pan_and_scan_min_ratio_to_activate", .types = CS_DOC_POSITIVE, .max = 1e6},
    {.names = "image_grid_pinpoints", .types = CS_DOC_LIST},
    {.names = "do_convert_rgb", .types = CS_DOC_BOOL, .use = CS_DOC_REFUSED, .only = "true", .text = "pictures are always made RGB"},
    {.names = "data_format", .types = CS_DOC_STRING, .use = CS_DOC_REFUSED, .only = "\"channels_first\"", .text = "the encoder takes channels first"},
    /* of who calls the processor, and where it computes */
    {.names = "size_divisor|_processor_class|_valid_processor_keys|auto_map|return_tensors|input_data_format|device|disable_grouping|image_seq_length|num_channels|transformers_version|return_row_col_info|num_additional_image_tokens|vision_feature_select_strategy", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
};
static const struct cs_doc_table table = CS_DOC_TABLE(keys, NULL);

static const struct cs_doc_key pair_keys[] = {
    {.names = "image_processor", .types = CS_DOC_OBJECT, .inside = &table},
    {.names = "image_token", .types = CS_DOC_STRING},
    {.names = "patch_size", .types = CS_DOC_INT, .min = 1, .max = 4096},
    {.names = "spatial_merge_size", .types = CS_DOC_INT, .min = 1, .max = 64},
    {.names = "vision_feature_select_strategy", .types = CS_DOC_STRING, .accept = "default|full"},
    {.names = "num_additional_image_tokens", .types = CS_DOC_INT, .min = 0, .max = 64},
    {.names = "image_break_token", .types = CS_DOC_STRING, .use = CS_DOC_REFUSED, .only = "\"[IMG_BREAK]\"", .text = "lines of a picture end with [IMG_BREAK]"},
    {.names = "image_end_token", .types = CS_DOC_STRING, .use = CS_DOC_REFUSED, .only = "\"[IMG_END]\"", .text = "pictures end with [IMG_END]"},
    {.names = "vision_aspect_ratio", .types = CS_DOC_STRING, .use = CS_DOC_REFUSED, .only = "\"anyres_max_9\"", .text = "mosaics are made smaller from nine tiles on"},
    /* how many rows a picture has is told by processor and encoder */
    {.names = "image_seq_length|image_seq_len|num_image_tokens", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
    {.names = "processor_class|chat_template|auto_map|tokenizer|feature_extractor|video_processor|video_token|audio_token|audio_seq_length|audio_ms_per_token|transformers_version", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
};
static const struct cs_doc_table pair_table = CS_DOC_TABLE(pair_keys, NULL);

/* clang-format on */

const struct cs_doc_table *cs_processor_keys(void)
{
    return &table;
}

const struct cs_doc_table *cs_processor_pair_keys(void)
{
    return &pair_table;
}
