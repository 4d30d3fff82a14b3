/* Grids and sizes of items: those of encoders with one size of picture follow from the encoder. */
#include "worker/slot/item.h"

#include <string.h>

void cs_input_item_grid(const struct cs_arch *encoder, const struct cs_item *item, int32_t grid[3])
{
    if (encoder->front.position == CS_POSITION_ROW && encoder->front.stem == CS_STEM_PATCHES)
        cs_front_fixed_grid(encoder, grid); /* its pictures have one size */
    else
        memcpy(grid, item->shape.grid, 3 * sizeof *grid);
}

void cs_input_picture_size(const struct cs_arch *encoder, const int32_t grid[3], int32_t *height,
                           int32_t *width)
{
    const struct cs_arch *a = encoder;
    const bool is_fixed = a->front.position == CS_POSITION_ROW && a->image_size > 0;
    *height = is_fixed ? a->image_size : grid[1] * a->patch_size;
    *width = is_fixed ? a->image_size : grid[2] * a->patch_size;
}

int64_t cs_input_item_bytes(const struct cs_arch *encoder, const int32_t grid[3])
{
    const struct cs_arch *a = encoder;
    int32_t height, width;
    if (a->front.stem == CS_STEM_FRAMES)
        return (int64_t)grid[0] * a->channels * (int64_t)sizeof(float);
    cs_input_picture_size(a, grid, &height, &width);
    return (int64_t)height * width * a->channels * grid[0] * a->front.patch_frames;
}
