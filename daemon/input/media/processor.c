/* What an encoder sees of pixels. */
#include "input/media/processor.h"

void cs_processor_normalise(const struct cs_processor *processor, const uint8_t *pixels, size_t n,
                            float *values)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) {
            float v = (float)((double)pixels[i * 3 + c] * processor->rescale);
            values[c * n + i] = (v - processor->mean[c]) / processor->std[c];
        }
}

void cs_processor_default(const struct cs_arch *encoder, struct cs_processor *out)
{
    *out = (struct cs_processor){
        .kind = CS_PROCESSOR_PLAIN,
        .name = "SiglipImageProcessor",
        .height = encoder->image_size,
        .width = encoder->image_size,
        .channels = 3,
        .size = {.height = encoder->image_size, .width = encoder->image_size},
        .do_resize = true,
        .resample = CS_RESAMPLE_BICUBIC,
        .rescale = 1.0 / 255.0,
        .mean = { 0.5f,                         0.5f,                         0.5f},
        .std = { 0.5f,                         0.5f,                         0.5f},
    };
}
