/* Reads preprocessor_config.json and does to a picture what it says. */
#include "input/media/processor.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE_MAX = 16384 };

static enum cs_status read_size(const json_t *config, struct cs_processor *out, struct cs_err *err)
{
    const json_t *size = json_object_get(config, "size");
    const json_t *h = json_object_get(size, "height"), *w = json_object_get(size, "width");

    if (json_is_integer(size))
        h = w = size;
    if (!json_is_integer(h) || !json_is_integer(w))
        return cs_fail(err, CS_UNSUPPORTED,
                       "processor: size must be {height, width}; shortest_edge, longest_edge and "
                       "crops are not supported");
    if (json_integer_value(h) < 1 || json_integer_value(h) > SIDE_MAX ||
        json_integer_value(w) < 1 || json_integer_value(w) > SIDE_MAX)
        return cs_fail(err, CS_INVALID, "processor: size %lld x %lld is not in 1..%d",
                       (long long)json_integer_value(h), (long long)json_integer_value(w),
                       SIDE_MAX);
    out->height = (int32_t)json_integer_value(h);
    out->width = (int32_t)json_integer_value(w);
    return CS_OK;
}

/* Absent and null mean the default. */
static enum cs_status read_bool(const json_t *config, const char *key, bool fallback, bool *out,
                                struct cs_err *err)
{
    const json_t *v = json_object_get(config, key);

    *out = v == NULL || json_is_null(v) ? fallback : json_is_true(v);
    if (v != NULL && !json_is_null(v) && !json_is_boolean(v))
        return cs_fail(err, CS_INVALID, "processor: %s must be true or false", key);
    return CS_OK;
}

static enum cs_status read_triple(const json_t *config, const char *key, float out[3],
                                  struct cs_err *err)
{
    const json_t *v = json_object_get(config, key);

    if (v == NULL || json_is_null(v))
        v = NULL;
    else if (!json_is_number(v) && (!json_is_array(v) || json_array_size(v) != 3))
        return cs_fail(err, CS_INVALID, "processor: %s must be three numbers", key);
    for (size_t i = 0; i < 3; i++) {
        const json_t *x = json_is_array(v) ? json_array_get(v, i) : v;
        if (x != NULL && !json_is_number(x))
            return cs_fail(err, CS_INVALID, "processor: %s[%zu] is not a number", key, i);
        out[i] = x != NULL ? (float)json_number_value(x) : 0.5f;
    }
    return CS_OK;
}

static enum cs_status read_type(const json_t *config, struct cs_err *err)
{
    static const char *const types[] = {"SiglipImageProcessor", "SiglipImageProcessorFast",
                                        "SiglipImageProcessorPil"};
    const char *type = json_string_value(json_object_get(config, "image_processor_type"));

    if (!json_is_object(config))
        return cs_fail(err, CS_INVALID, "processor: not an object");
    if (type == NULL)
        type = json_string_value(json_object_get(config, "feature_extractor_type"));
    if (type == NULL)
        return cs_fail(err, CS_INVALID, "processor: image_processor_type is missing");
    for (size_t i = 0; i < CS_ARRAY_LEN(types); i++)
        if (strcmp(type, types[i]) == 0)
            return CS_OK;
    return cs_fail(
        err, CS_UNSUPPORTED,
        "processor: image_processor_type \"%s\" is not supported (SiglipImageProcessor is)", type);
}

static enum cs_status read_rescale(const json_t *config, struct cs_processor *out,
                                   struct cs_err *err)
{
    const json_t *factor = json_object_get(config, "rescale_factor");
    bool do_rescale = true, do_normalize = true;

    CS_TRY(read_bool(config, "do_rescale", true, &do_rescale, err));
    CS_TRY(read_bool(config, "do_normalize", true, &do_normalize, err));
    out->rescale = 1.0;
    if (do_rescale) {
        out->rescale = json_is_number(factor) ? json_number_value(factor) : 1.0 / 255.0;
        if (factor != NULL && !json_is_null(factor) && !json_is_number(factor))
            return cs_fail(err, CS_INVALID, "processor: rescale_factor is not a number");
    }
    for (int i = 0; i < 3; i++) {
        out->mean[i] = 0.0f;
        out->std[i] = 1.0f;
    }
    if (!do_normalize)
        return CS_OK;
    CS_TRY(read_triple(config, "image_mean", out->mean, err));
    CS_TRY(read_triple(config, "image_std", out->std, err));
    for (int i = 0; i < 3; i++)
        if (!(out->std[i] > 0.0f))
            return cs_fail(err, CS_INVALID, "processor: image_std[%d] must be > 0", i);
    return CS_OK;
}

enum cs_status cs_processor_read(const json_t *config, struct cs_processor *out, struct cs_err *err)
{
    const json_t *resample = json_object_get(config, "resample");
    bool on = false;

    *out = (struct cs_processor){.channels = 3, .resample = CS_RESAMPLE_BICUBIC};
    CS_TRY(read_type(config, err));
    CS_TRY(read_size(config, out, err));
    CS_TRY(read_bool(config, "do_resize", true, &out->do_resize, err));
    CS_TRY(read_bool(config, "do_center_crop", false, &on, err));
    if (on)
        return cs_fail(err, CS_UNSUPPORTED, "processor: do_center_crop is not supported");
    CS_TRY(read_bool(config, "do_pad", false, &on, err));
    if (on)
        return cs_fail(err, CS_UNSUPPORTED, "processor: do_pad is not supported");
    if (resample != NULL && !json_is_null(resample)) {
        json_int_t r = json_integer_value(resample);
        if (!json_is_integer(resample) || (r != CS_RESAMPLE_BILINEAR && r != CS_RESAMPLE_BICUBIC))
            return cs_fail(err, CS_UNSUPPORTED,
                           "processor: resample %lld is not supported (2 bilinear, 3 bicubic)",
                           (long long)r);
        out->resample = r == CS_RESAMPLE_BICUBIC ? CS_RESAMPLE_BICUBIC : CS_RESAMPLE_BILINEAR;
    }
    return read_rescale(config, out, err);
}

enum cs_status cs_processor_apply(const struct cs_processor *processor,
                                  const struct cs_image *image, uint8_t *pixels, struct cs_err *err)
{
    if (!processor->do_resize &&
        (image->width != processor->width || image->height != processor->height))
        return cs_fail(err, CS_INVALID,
                       "picture of %d x %d pixels, but do_resize is false and size is %d x %d",
                       image->width, image->height, processor->width, processor->height);
    return cs_resize_rgb(image->rgb, image->width, image->height, pixels, processor->width,
                         processor->height, processor->resample, err);
}

void cs_processor_normalise(const struct cs_processor *processor, const uint8_t *pixels,
                            float *values)
{
    size_t n = (size_t)processor->height * (size_t)processor->width;

    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) {
            float v = (float)((double)pixels[i * 3 + c] * processor->rescale);
            values[c * n + i] = (v - processor->mean[c]) / processor->std[c];
        }
}

enum cs_status cs_image_shape(const struct cs_processor *processor, const struct cs_arch *encoder,
                              struct cs_item_shape *shape, struct cs_err *err)
{
    if (processor->height != encoder->image_size || processor->width != encoder->image_size ||
        processor->channels != encoder->channels)
        return cs_fail(
            err, CS_INVALID,
            "the processor makes pictures of %d x %d x %d, the %s encoder takes "
            "%d x %d x %d: preprocessor_config.json and config.json do not belong together",
            processor->height, processor->width, processor->channels, encoder->family,
            encoder->image_size, encoder->image_size, encoder->channels);
    const int32_t side = encoder->image_size / encoder->patch_size; /* a rest is cut off */
    *shape = (struct cs_item_shape){
        .kind = CS_ITEM_IMAGE,
        .grid = {1, side, side},
        .rows = cs_arch_item_rows(encoder),
        .bytes = processor->height * processor->width * processor->channels,
    };
    return CS_OK;
}
