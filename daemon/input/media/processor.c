/* Does to a picture what its processor says. */
#include "input/media/processor.h"

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
