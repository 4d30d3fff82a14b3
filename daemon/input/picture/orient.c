/* Turns and mirrors pixels: each orientation is a walk over the source with two steps. */
#include <stdlib.h>
#include <string.h>

#include "input/picture/exif.h"

/* Where in the source the first pixel of the upright picture lies (at its last column, its last row)
 * and whether the upright picture's rows are columns of the source. */
struct walk {
    bool from_right, from_bottom, is_turned;
};

static const struct walk walks[] = {
    {false, false, false}, /* not used */
    {false, false, false}, /* 1 */
    {true,  false, false}, /* 2: mirrored */
    {true,  true,  false}, /* 3: half turn */
    {false, true,  false}, /* 4: upside down */
    {false, false, true }, /* 5: transposed */
    {false, true,  true }, /* 6: quarter turn to the right */
    {true,  true,  true }, /* 7: transverse */
    {true,  false, true }, /* 8: quarter turn to the left */
};

bool cs_orientation_is_turned(int orientation)
{
    return orientation > 0 && orientation < (int)CS_ARRAY_LEN(walks) &&
           walks[orientation].is_turned;
}

enum cs_status cs_image_orient(struct cs_image *image, int orientation, struct cs_err *err)
{
    const ptrdiff_t width = image->width, height = image->height;
    const struct walk *w = NULL;
    uint8_t *out = NULL;

    if (orientation <= CS_ORIENTATION_UPRIGHT || orientation >= (int)CS_ARRAY_LEN(walks))
        return CS_OK;
    w = &walks[orientation];
    out = malloc((size_t)width * (size_t)height * CS_IMAGE_CHANNELS);
    if (out == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to turn %d x %d pixels", image->width,
                       image->height);
    ptrdiff_t across = w->from_right ? -1 : 1, down = w->from_bottom ? -width : width;
    ptrdiff_t first = (w->from_right ? width - 1 : 0) + (w->from_bottom ? (height - 1) * width : 0);
    ptrdiff_t columns = w->is_turned ? height : width, rows = w->is_turned ? width : height;
    ptrdiff_t step = w->is_turned ? down : across, next_row = w->is_turned ? across : down;
    uint8_t *to = out;
    for (ptrdiff_t y = 0; y < rows; y++)
        for (ptrdiff_t x = 0; x < columns; x++, to += CS_IMAGE_CHANNELS)
            memcpy(to, image->rgb + (first + y * next_row + x * step) * CS_IMAGE_CHANNELS,
                   CS_IMAGE_CHANNELS);
    free(image->rgb);
    image->rgb = out;
    image->width = (int32_t)columns;
    image->height = (int32_t)rows;
    return CS_OK;
}
