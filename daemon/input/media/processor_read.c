/* Reads preprocessor_config.json through a table of its keys. Sources: SiglipImageProcessor and
 * LlavaProcessor of transformers 5. */
#include <stdio.h>
#include <string.h>

#include "input/media/processor.h"

#define CROPS "only {height, width} is supported: edges, areas and crops are not"

/* clang-format off */
static const struct cs_doc_key size_keys[] = {
    {.names = "height", .types = CS_DOC_INT, .min = 1, .max = 16384},
    {.names = "width", .types = CS_DOC_INT, .min = 1, .max = 16384},
    {.names = "shortest_edge|longest_edge|max_height|max_width|min_pixels|max_pixels", .types = CS_DOC_ANY, .use = CS_DOC_REFUSED, .text = CROPS},
};
static const struct cs_doc_table size_table = CS_DOC_TABLE(size_keys, NULL);

static const struct cs_doc_key keys[] = {
    {.names = "image_processor_type|feature_extractor_type", .types = CS_DOC_STRING, .accept = "SiglipImageProcessor|SiglipImageProcessorFast|SiglipImageProcessorPil"},
    {.names = "size", .types = CS_DOC_OBJECT, .inside = &size_table},
    {.names = "resample", .types = CS_DOC_INT, .min = CS_RESAMPLE_BILINEAR, .max = CS_RESAMPLE_BICUBIC},
    {.names = "do_resize", .types = CS_DOC_BOOL},
    {.names = "do_rescale", .types = CS_DOC_BOOL},
    {.names = "do_normalize", .types = CS_DOC_BOOL},
    {.names = "rescale_factor", .types = CS_DOC_POSITIVE, .max = 1e6},
    {.names = "image_mean", .types = CS_DOC_NUMBER | CS_DOC_LIST},
    {.names = "image_std", .types = CS_DOC_POSITIVE | CS_DOC_LIST, .max = 1e6},
    {.names = "do_convert_rgb", .types = CS_DOC_BOOL, .use = CS_DOC_REFUSED, .only = "true", .text = "pictures are always made RGB"},
    {.names = "do_center_crop", .types = CS_DOC_BOOL, .use = CS_DOC_REFUSED, .only = "false", .text = "crops are not supported"},
    {.names = "do_pad", .types = CS_DOC_BOOL, .use = CS_DOC_REFUSED, .only = "false", .text = "padding is not supported"},
    {.names = "do_image_splitting|do_pan_and_scan", .types = CS_DOC_BOOL, .use = CS_DOC_REFUSED, .only = "false", .text = "cutting a picture into several is not supported"},
    {.names = "data_format", .types = CS_DOC_STRING, .use = CS_DOC_REFUSED, .only = "\"channels_first\"", .text = "the encoder takes channels first"},
    /* of crops and pads that are not done; of who calls the processor, and where it computes */
    {.names = "crop_size|pad_size|size_divisor|default_to_square|processor_class|_processor_class|_valid_processor_keys|auto_map|return_tensors|input_data_format|device|disable_grouping|image_seq_length|num_channels|transformers_version", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
};
static const struct cs_doc_table table = CS_DOC_TABLE(keys, NULL);

static const struct cs_doc_key pair_keys[] = {
    {.names = "image_processor", .types = CS_DOC_OBJECT, .inside = &table},
    {.names = "image_token", .types = CS_DOC_STRING},
    {.names = "patch_size", .types = CS_DOC_INT, .min = 1, .max = 4096},
    {.names = "vision_feature_select_strategy", .types = CS_DOC_STRING, .use = CS_DOC_REFUSED, .only = "\"full\"", .text = "it drops the first row of every picture, which belongs to an encoder with a class token"},
    {.names = "num_additional_image_tokens", .types = CS_DOC_INT, .use = CS_DOC_REFUSED, .only = "0", .text = "the encoder has no class token"},
    {.names = "processor_class|chat_template|auto_map|image_seq_length|tokenizer|feature_extractor|video_processor|video_token|audio_token|transformers_version", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
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

struct reader {
    const struct cs_doc *doc;
    struct cs_findings *findings;
    struct cs_err *err;
};

static const json_t *look_up(const struct reader *r, const char *key, const char *fallback)
{
    char path[256];
    const json_t *value = cs_doc_get(r->doc->json, key, NULL);
    if (value != NULL)
        return value;
    snprintf(path, sizeof path, "%s%s%s", r->doc->where, r->doc->where[0] != '\0' ? "." : "", key);
    cs_findings_say(r->findings, CS_FINDING_DEFAULT, r->doc->name, path, NULL,
                    "%s is not given: %s, the default of SiglipImageProcessor", path, fallback);
    return NULL;
}

static bool flag(const struct reader *r, const char *key)
{
    const json_t *value = look_up(r, key, "true");
    return value == NULL || json_is_true(value);
}

/* One number is that of all three channels. */
static enum cs_status read_triple(const struct reader *r, const char *key, bool is_positive,
                                  float out[3])
{
    char shown[CS_DOC_SHOWN];
    const json_t *value = look_up(r, key, "0.5");
    bool is_list = json_is_array(value);
    for (size_t i = 0; i < 3; i++) {
        const json_t *x = is_list ? json_array_get(value, i) : value;
        if (value != NULL && (!json_is_number(x) || (is_list && json_array_size(value) != 3) ||
                              (is_positive && !(json_number_value(x) > 0))))
            return cs_fail(r->err, CS_INVALID, "%s: %s is %s; it must be a list of three numbers%s",
                           r->doc->name, key, cs_doc_show(value, shown),
                           is_positive ? " above 0" : "");
        out[i] = value != NULL ? (float)json_number_value(x) : 0.5f;
    }
    return CS_OK;
}

static enum cs_status read_size(const struct reader *r, struct cs_processor *out)
{
    const json_t *size = look_up(r, "size", "224 x 224");
    const json_t *height = cs_doc_get(size, "height", NULL);
    const json_t *width = cs_doc_get(size, "width", NULL);
    if (size != NULL && (height == NULL || width == NULL))
        return cs_fail(r->err, CS_INVALID, "%s: size has no %s: it must be {height, width}",
                       r->doc->name, height == NULL ? "height" : "width");
    out->height = size != NULL ? (int32_t)json_integer_value(height) : 224;
    out->width = size != NULL ? (int32_t)json_integer_value(width) : 224;
    return CS_OK;
}

static enum cs_status read_colours(const struct reader *r, struct cs_processor *out)
{
    out->rescale = 1.0;
    if (flag(r, "do_rescale")) {
        const json_t *factor = look_up(r, "rescale_factor", "1/255");
        out->rescale = factor != NULL ? json_number_value(factor) : 1.0 / 255.0;
    }
    for (int i = 0; i < 3; i++) {
        out->mean[i] = 0.0f;
        out->std[i] = 1.0f;
    }
    if (!flag(r, "do_normalize"))
        return CS_OK;
    CS_TRY(read_triple(r, "image_mean", false, out->mean));
    return read_triple(r, "image_std", true, out->std);
}

enum cs_status cs_processor_read_doc(const struct cs_doc *doc, struct cs_findings *findings,
                                     struct cs_processor *out, struct cs_err *err)
{
    const struct reader r = {doc, findings, err};
    struct cs_doc known = *doc;
    known.table = &table;
    *out = (struct cs_processor){.channels = 3};
    CS_TRY(cs_doc_review(&known, findings, err));
    if (cs_doc_get(doc->json, "image_processor_type|feature_extractor_type", NULL) == NULL)
        return cs_fail(err, CS_INVALID, "%s: image_processor_type is missing", doc->name);
    CS_TRY(read_size(&r, out));
    out->do_resize = flag(&r, "do_resize");
    const json_t *resample = look_up(&r, "resample", "3 (bicubic)");
    out->resample = resample == NULL || json_integer_value(resample) == CS_RESAMPLE_BICUBIC
                        ? CS_RESAMPLE_BICUBIC
                        : CS_RESAMPLE_BILINEAR;
    return read_colours(&r, out);
}

enum cs_status cs_processor_read(const json_t *config, struct cs_processor *out, struct cs_err *err)
{
    return cs_processor_read_doc(
        &(struct cs_doc){.name = "preprocessor_config.json", .where = "", .json = config}, NULL,
        out, err);
}

void cs_processor_default(const struct cs_arch *encoder, struct cs_processor *out)
{
    *out = (struct cs_processor){
        .height = encoder->image_size,
        .width = encoder->image_size,
        .channels = 3,
        .do_resize = true,
        .resample = CS_RESAMPLE_BICUBIC,
        .rescale = 1.0 / 255.0,
        .mean = {0.5f, 0.5f, 0.5f},
        .std = {0.5f, 0.5f, 0.5f},
    };
}
