/* Pixels to rows of patches, ready for the GEMM that stands for the patch convolution. */
#include "kernels/cpu/cpu.h"

/* The values of one channel of one frame; they lie `step` apart in y. */
static void one_plane(const struct cs_patch_shape *shape, const uint8_t *corner, int32_t line,
                      float rescale, float mean, float std, int64_t step, float *y)
{
    for (int32_t r = 0; r < shape->patch; r++)
        for (int32_t x = 0; x < shape->patch; x++, y += step)
            *y =
                ((float)corner[(int64_t)r * line + (int64_t)x * shape->channels] * rescale - mean) /
                std;
}

void cs_cpu_patches(struct cs_ctx *ctx, int64_t rows, const struct cs_patch_shape *shape,
                    const struct cs_patch_place *place, const uint8_t *pixels, float rescale,
                    const float *mean, const float *std, void *y)
{
    (void)ctx;
    const int32_t channels = shape->channels, frames = shape->frames;
    const int64_t plane = (int64_t)shape->patch * shape->patch;
    const int64_t values = plane * channels * frames;
    for (int64_t i = 0; i < rows; i++)
        for (int32_t c = 0; c < channels; c++)
            for (int32_t f = 0; f < frames; f++) {
                float *out = (float *)y + i * values;
                out += shape->is_channels_last ? f * plane * channels + c
                                               : ((int64_t)c * frames + f) * plane;
                one_plane(shape, pixels + place[i].at + (int64_t)f * place[i].frame + c,
                          place[i].line, rescale, mean[c], std[c],
                          shape->is_channels_last ? channels : 1, out);
            }
}
