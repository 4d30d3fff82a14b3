/* Pixels of a picture's items, by the steps of its layout. */
#ifndef CS_INPUT_MEDIA_PIXELS_H
#define CS_INPUT_MEDIA_PIXELS_H

#include "input/media/layout.h"

/* data[i]: shape.bytes of item i, (height, width, 3) uint8, the caller's memory. The image is of the
 * size that the layout was made for: CS_CORRUPT when it is not (the file was changed meanwhile). */
enum cs_status cs_pixels_make(const struct cs_processor *processor,
                              const struct cs_media_layout *layout, const struct cs_medium *medium,
                              const struct cs_image *image, uint8_t *const *data,
                              struct cs_err *err) CS_NODISCARD;

#endif
