/* Interpolates the rows of frames, as LlavaOnevision's apply_pooling does it with torch. */
#include "input/media/video/video_pool.h"

#include <math.h>

/* One axis of the bilinear interpolation to half the rows, in float as torch has it. */
static int32_t half_axis(int32_t at, int32_t from, int32_t to, float *weight)
{
    const float scale = (float)from / (float)to;
    const float source = fmaxf(0.0f, ((float)at + 0.5f) * scale - 0.5f);
    const int32_t low = (int32_t)source;

    *weight = source - (float)low;
    return low;
}

void cs_video_pool_frame(struct cs_media_blend *out, int32_t first, int32_t side, int32_t half)
{
    for (int32_t y = 0; y < half; y++)
        for (int32_t x = 0; x < half; x++) {
            float down = 0, right = 0;
            const int32_t top = half_axis(y, side, half, &down);
            const int32_t left = half_axis(x, side, half, &right);
            const int32_t below = top + 1 < side ? side : 0, beside = left + 1 < side ? 1 : 0;
            const int32_t row = first + top * side + left;
            *out++ = (struct cs_media_blend){
                {row,                      row + beside,       row + below,        row + below + beside},
                {(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right        }
            };
        }
}
