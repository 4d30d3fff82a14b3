/* How a picture is to be held: the orientation that cameras and editors write beside the pixels.
 *
 * 1 as it is, 2 mirrored, 3 half turn, 4 upside down, 5 transposed, 6 quarter turn to the right,
 * 7 transverse, 8 quarter turn to the left; anything else means 1. Read as Pillow reads it. */
#ifndef CS_INPUT_PICTURE_EXIF_H
#define CS_INPUT_PICTURE_EXIF_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "input/picture/image.h"

enum { CS_ORIENTATION_NONE = 0, CS_ORIENTATION_UPRIGHT = 1 };

/* An Exif block, with or without its "Exif\0\0": a TIFF header and its first directory.
 * *out CS_ORIENTATION_NONE: it does not say. CS_CORRUPT: not an Exif block. */
enum cs_status cs_exif_orientation(const uint8_t *bytes, size_t n_bytes, int *out,
                                   struct cs_err *err) CS_NODISCARD;
/* The same as the text that ImageMagick writes: "\nexif\n LENGTH\n" and hexadecimal digits. */
enum cs_status cs_exif_profile_orientation(const char *text, size_t n, int *out,
                                           struct cs_err *err) CS_NODISCARD;
/* The first tiff:Orientation of an XMP packet. */
int cs_xmp_orientation(const char *text, size_t n);

/* whether rows of the upright picture are columns of the stored one */
bool cs_orientation_is_turned(int orientation);
/* Turns and mirrors the pixels so that the picture is upright. CS_NO_MEMORY leaves it as it was. */
enum cs_status cs_image_orient(struct cs_image *image, int orientation,
                               struct cs_err *err) CS_NODISCARD;

#endif
