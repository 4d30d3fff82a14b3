/* Pixels to rows of patches, ready for the GEMM that stands for the patch convolution. */
#include "kernels/cpu/cpu.h"

/* One patch: (channel, row, column) order, as a convolution weight is stored. */
static void one_patch(int32_t width, int32_t channels, int32_t patch, const uint8_t *corner,
                      float rescale, const float *mean, const float *std, float *y)
{
    for (int32_t c = 0; c < channels; c++)
        for (int32_t r = 0; r < patch; r++) {
            const uint8_t *line = corner + (int64_t)r * width * channels + c;
            for (int32_t x = 0; x < patch; x++)
                *y++ = ((float)line[(int64_t)x * channels] * rescale - mean[c]) / std[c];
        }
}

void cs_cpu_patches(struct cs_ctx *ctx, int32_t items, int32_t height, int32_t width,
                    int32_t channels, int32_t patch, const uint8_t *pixels, float rescale,
                    const float *mean, const float *std, void *y)
{
    (void)ctx;
    const int32_t ph = height / patch, pw = width / patch;
    const int64_t image = (int64_t)height * width * channels;
    const int64_t row = (int64_t)channels * patch * patch;
    float *out = y;
    for (int32_t i = 0; i < items; i++)
        for (int32_t r = 0; r < ph; r++)
            for (int32_t c = 0; c < pw; c++, out += row)
                one_patch(width, channels, patch,
                          pixels + i * image + ((int64_t)r * width + c) * patch * channels, rescale,
                          mean, std, out);
}
