/* What a PNG file says of its orientation. Inside of input/picture only. */
#ifndef CS_INPUT_PICTURE_PNG_ORIENTATION_H
#define CS_INPUT_PICTURE_PNG_ORIENTATION_H

#include <png.h>

#include "core/base/status.h"

/* *out: as in exif.h. CS_CORRUPT: what should say it cannot be read. */
enum cs_status cs_png_orientation(png_structp png, png_infop info, int *out,
                                  struct cs_err *err) CS_NODISCARD;

#endif
