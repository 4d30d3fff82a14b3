/* PNG files to RGB8 pixels, and what they say of the picture's orientation. */
#ifndef CS_INPUT_MEDIA_PNG_DECODE_H
#define CS_INPUT_MEDIA_PNG_DECODE_H

#include "input/media/image.h"

/* bytes begin with PNG's signature. *out: as the file stores the picture, not yet turned;
 * *orientation: as in exif.h. CS_CORRUPT, CS_LIMIT and CS_NO_MEMORY name the file. */
enum cs_status cs_png_decode(const uint8_t *bytes, size_t n_bytes, const char *name,
                             int64_t max_pixels, struct cs_image *out, int *orientation,
                             struct cs_err *err) CS_NODISCARD;

#endif
