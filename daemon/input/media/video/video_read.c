/* Reads the documents of video processors through a table of their keys; what is not said is the default of the class. */
#include <stdio.h>

#include "input/media/video/video_classes.h"

enum { SIDE_MAX = 16384, PIXELS_MAX = 1 << 30, FRAMES_MAX = 1 << 20 };

/* clang-format off */
static const struct cs_doc_key size_keys[] = {
    {.names = "height|width", .types = CS_DOC_INT, .min = 1, .max = SIDE_MAX},
    {.names = "shortest_edge|min_pixels|longest_edge|max_pixels", .types = CS_DOC_INT, .min = 1, .max = PIXELS_MAX},
};
static const struct cs_doc_table size_table = CS_DOC_TABLE(size_keys, NULL);

static const struct cs_doc_key sampling_keys[] = {
    {.names = "fps", .types = CS_DOC_POSITIVE, .max = 1e6},
    {.names = "max_frames", .types = CS_DOC_INT, .min = 1, .max = FRAMES_MAX},
    {.names = "video_size", .types = CS_DOC_OBJECT, .inside = &size_table},
};
static const struct cs_doc_table sampling_table = CS_DOC_TABLE(sampling_keys, NULL);

static const struct cs_doc_key keys[] = {
    {.names = "video_processor_type|image_processor_type|feature_extractor_type", .types = CS_DOC_STRING},
    {.names = "size|max_image_size", .types = CS_DOC_OBJECT, .inside = &size_table},
    {.names = "video_sampling", .types = CS_DOC_OBJECT, .inside = &sampling_table},
    {.names = "min_pixels", .types = CS_DOC_INT, .min = 1, .max = PIXELS_MAX},
    {.names = "max_pixels", .types = CS_DOC_INT, .min = 1, .max = PIXELS_MAX},
    {.names = "resample", .types = CS_DOC_INT, .min = 1, .max = 3},
    {.names = "do_resize|do_rescale|do_normalize|do_sample_frames|cap_pixels_per_frame", .types = CS_DOC_BOOL},
    {.names = "rescale_factor", .types = CS_DOC_POSITIVE, .max = 1e6},
    {.names = "image_mean|image_std", .types = CS_DOC_NUMBER | CS_DOC_LIST},
    {.names = "patch_size", .types = CS_DOC_INT, .min = 1, .max = 4096},
    {.names = "merge_size|pooling_kernel_size", .types = CS_DOC_INT, .min = 1, .max = 64},
    {.names = "temporal_patch_size", .types = CS_DOC_INT, .min = 1, .max = 64},
    {.names = "max_soft_tokens", .types = CS_DOC_INT, .min = 1, .max = 65536},
    {.names = "max_video_tokens", .types = CS_DOC_INT, .min = 1, .max = PIXELS_MAX},
    {.names = "num_frames|min_frames|max_frames", .types = CS_DOC_INT, .min = 1, .max = FRAMES_MAX},
    {.names = "fps", .types = CS_DOC_POSITIVE, .max = 1e6},
    {.names = "initial_shift", .types = CS_DOC_BOOL | CS_DOC_NUMBER, .min = 0, .max = FRAMES_MAX},
    {.names = "do_convert_rgb", .types = CS_DOC_BOOL, .use = CS_DOC_REFUSED, .only = "true", .text = "videos are always made RGB"},
    {.names = "do_center_crop", .types = CS_DOC_BOOL, .use = CS_DOC_REFUSED, .only = "false", .text = "frames are not cut"},
    {.names = "data_format", .types = CS_DOC_STRING, .use = CS_DOC_REFUSED, .only = "\"channels_first\"", .text = "the encoder takes channels first"},
    /* of crops that are not done, of who calls the processor and where, of frames beside each other in a batch */
    {.names = "crop_size|size_divisor|default_to_square|do_pad|processor_class|auto_map|return_tensors|input_data_format|device|return_metadata|video_metadata|transformers_version", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
    /* what only pictures are asked for, where the picture processor's document stands for both */
    {.names = "image_grid_pinpoints|do_image_splitting|return_row_col_info|crop_to_patches|min_patches|max_patches|do_pan_and_scan|pan_and_scan_min_crop_size|pan_and_scan_max_num_crops|pan_and_scan_min_ratio_to_activate|_processor_class|_valid_processor_keys|image_seq_length|num_channels|disable_grouping", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
};
static const struct cs_doc_table table = CS_DOC_TABLE(keys, NULL);

/* clang-format on */

const struct cs_doc_table *cs_video_processor_keys(void)
{
    return &table;
}

struct reader {
    const struct cs_doc *doc;
    struct cs_findings *findings;
    struct cs_err *err;
    struct cs_video_processor *out;
};

static bool is_null(const struct reader *r, const char *key)
{
    return json_is_null(json_object_get(r->doc->json, key));
}

/* A number if it is said; the default is noted where there is one. */
static double number(const struct reader *r, const char *key, double fallback)
{
    char path[CS_DOC_NAME * 2];
    const json_t *value = cs_doc_get(r->doc->json, key, NULL);

    if (value != NULL)
        return json_number_value(value);
    if (fallback <= 0)
        return 0;
    snprintf(path, sizeof path, "%s%s%s", r->doc->where, r->doc->where[0] != '\0' ? "." : "", key);
    cs_findings_say(r->findings, CS_FINDING_DEFAULT, r->doc->name, path, NULL,
                    "%s is not given: %g, the default of %s", path, fallback, r->out->name);
    return fallback;
}

static bool flag(const struct reader *r, const char *key, bool fallback)
{
    const json_t *value = cs_doc_get(r->doc->json, key, NULL);

    return value != NULL ? json_is_true(value) : fallback;
}

static int64_t inside(const json_t *object, const char *names)
{
    return json_integer_value(cs_doc_get(object, names, NULL));
}

static enum cs_status read_budgets(const struct reader *r, const json_t *size)
{
    struct cs_video_processor *p = r->out;

    if (size != NULL) {
        p->min_pixels = inside(size, "shortest_edge|min_pixels");
        p->max_pixels = inside(size, "longest_edge|max_pixels");
    }
    if (p->kind == CS_VIDEO_QWEN2) { /* the older spelling stands above the newer one */
        const int64_t min = inside(r->doc->json, "min_pixels");
        const int64_t max = inside(r->doc->json, "max_pixels");
        p->min_pixels = min > 0 ? min : p->min_pixels;
        p->max_pixels = max > 0 ? max : p->max_pixels;
    }
    if (p->min_pixels < 1 || p->max_pixels < 1)
        return cs_fail(r->err, CS_INVALID,
                       "%s: size must have shortest_edge and longest_edge, numbers of pixels",
                       r->doc->name);
    return CS_OK;
}

static enum cs_status read_sides(const struct reader *r, const json_t *size)
{
    struct cs_video_processor *p = r->out;

    if (size == NULL)
        return CS_OK;
    p->height = (int32_t)inside(size, "height");
    p->width = (int32_t)inside(size, "width");
    if (p->height < 1 || p->width < 1)
        return cs_fail(r->err, CS_UNSUPPORTED,
                       "%s: size must be {height, width}: frames of %s have one size", r->doc->name,
                       p->name);
    return CS_OK;
}

/* Two steps: the longest edge, then a square. The document's size stands above the one in video_sampling. */
static enum cs_status read_timed(const struct reader *r, const json_t *size)
{
    struct cs_video_processor *p = r->out;
    const json_t *sampling = cs_doc_get(r->doc->json, "video_sampling", NULL);
    const json_t *square = cs_doc_get(r->doc->json, "max_image_size", NULL);

    if (sampling != NULL) {
        p->num_frames = (int32_t)inside(sampling, "max_frames");
        p->fps = json_number_value(cs_doc_get(sampling, "fps", NULL));
        size = size != NULL ? size : cs_doc_get(sampling, "video_size", NULL);
    }
    if (size != NULL)
        p->longest_edge = (int32_t)inside(size, "longest_edge");
    if (square != NULL)
        p->height = p->width = (int32_t)inside(square, "longest_edge");
    if (p->longest_edge < 1 || p->height < 1)
        return cs_fail(r->err, CS_UNSUPPORTED, "%s: size and max_image_size must have longest_edge",
                       r->doc->name);
    return CS_OK;
}

static enum cs_status read_size(const struct reader *r)
{
    const json_t *size = cs_doc_get(r->doc->json, "size", NULL);

    switch (r->out->kind) {
    case CS_VIDEO_QWEN2:
    case CS_VIDEO_QWEN3:
        return read_budgets(r, size);
    case CS_VIDEO_POOLED:
    case CS_VIDEO_NUMBERED:
        return read_sides(r, size);
    case CS_VIDEO_TIMED:
        return read_timed(r, size);
    case CS_VIDEO_SOFT:
    case CS_VIDEO_KINDS:
        break;
    }
    return CS_OK;
}

/* One number is that of all three channels. */
static enum cs_status read_triple(const struct reader *r, const char *key, const double *fallback,
                                  bool is_positive, float out[3])
{
    const json_t *value = cs_doc_get(r->doc->json, key, NULL);
    const bool is_list = json_is_array(value);

    for (size_t i = 0; i < 3; i++) {
        const json_t *x = is_list ? json_array_get(value, i) : value;
        const double v = value == NULL ? fallback[i] : json_number_value(x);
        if (value != NULL && (!json_is_number(x) || (is_list && json_array_size(value) != 3) ||
                              (is_positive && !(v > 0))))
            return cs_fail(r->err, CS_INVALID, "%s: %s must be a list of three numbers%s",
                           r->doc->name, key, is_positive ? " above 0" : "");
        out[i] = (float)v;
    }
    return CS_OK;
}

static enum cs_status read_colours(const struct reader *r, const struct cs_video_class *class)
{
    static const double zero[3] = {0, 0, 0}, one[3] = {1, 1, 1};
    struct cs_video_processor *p = r->out;

    p->rescale = flag(r, "do_rescale", true) ? number(r, "rescale_factor", 1.0 / 255.0) : 1.0;
    if (!flag(r, "do_normalize", true)) {
        for (int i = 0; i < 3; i++) {
            p->mean[i] = (float)zero[i];
            p->std[i] = (float)one[i];
        }
        return CS_OK;
    }
    CS_TRY(read_triple(r, "image_mean", class->mean, false, p->mean));
    return read_triple(r, "image_std", class->std, true, p->std);
}

/* Lanczos is not among torchvision's filters: transformers takes the cubic one instead. */
static void read_resize(const struct reader *r)
{
    const json_t *value = cs_doc_get(r->doc->json, "resample", NULL);

    r->out->does_resize = flag(r, "do_resize", true);
    r->out->resample = json_integer_value(value) == CS_RESAMPLE_BILINEAR ? CS_RESAMPLE_BILINEAR
                                                                         : CS_RESAMPLE_BICUBIC;
}

static void read_frames(const struct reader *r)
{
    struct cs_video_processor *p = r->out;
    const json_t *shift = cs_doc_get(r->doc->json, "initial_shift", NULL);

    p->does_sample = flag(r, "do_sample_frames", p->does_sample);
    p->num_frames = is_null(r, "num_frames") ? 0 : (int32_t)number(r, "num_frames", p->num_frames);
    p->fps = is_null(r, "fps") ? 0 : number(r, "fps", p->fps);
    p->min_frames = (int32_t)number(r, "min_frames", p->min_frames);
    p->max_frames = (int32_t)number(r, "max_frames", p->max_frames);
    if (shift != NULL) {
        p->is_centred = json_is_true(shift);
        p->shift = json_number_value(shift);
    }
}

enum cs_status cs_video_processor_read(const struct cs_doc *doc, struct cs_findings *findings,
                                       struct cs_video_processor *out, struct cs_err *err)
{
    const struct reader r = {doc, findings, err, out};
    struct cs_doc known = *doc;
    const struct cs_video_class *class = NULL;

    known.table = &table;
    *out = (struct cs_video_processor){0};
    CS_TRY(cs_doc_review(&known, findings, err));
    CS_TRY(cs_video_class_find(doc, &class, err));
    *out = class->is;
    read_frames(&r);
    CS_TRY(read_size(&r));
    read_resize(&r);
    out->patch = (int32_t)number(&r, "patch_size", out->patch);
    out->merge = (int32_t)number(
        &r, out->kind == CS_VIDEO_SOFT ? "pooling_kernel_size" : "merge_size", out->merge);
    out->frames = (int32_t)number(&r, "temporal_patch_size", out->frames);
    out->frames = out->frames > 0 ? out->frames : 1;
    out->max_rows = (int32_t)number(&r, "max_soft_tokens", out->max_rows);
    out->caps_frames = flag(&r, "cap_pixels_per_frame", false);
    out->max_video_tokens = (int64_t)number(&r, "max_video_tokens", (double)out->max_video_tokens);
    return read_colours(&r, class);
}
