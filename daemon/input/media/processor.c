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
