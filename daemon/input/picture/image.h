/* Pictures: PNG, JPEG, WebP and GIF files to RGB8, as Pillow gives them to transformers:
 * ImageOps.exif_transpose(Image.open(..)).convert("RGB"). The format is told by the first bytes, never
 * by the name; of animations the first frame is the picture.
 *
 * Gray is replicated (1, 2, 4 bits scaled to 8), palettes are looked up, alpha and transparent colours
 * are dropped without compositing, 16-bit channels keep their high byte; gray of 16 bits without alpha
 * is saturated instead: values over 255 become white. CMYK is taken as stored inverted, as Adobe
 * stores it. Colour profiles, gamma and significant bits do not change pixels. An orientation (Exif,
 * its text form, XMP) is carried out. One difference is deliberate: a colour that the palette does not
 * have makes the file corrupt, Pillow invents black.
 *
 * Nothing in the file is trusted: the pixel count is checked before anything is allocated,
 * ancillary chunks have limits, a corrupt file or one that ends before its pixels do is CS_CORRUPT
 * with the file's name and the reason, another format is CS_UNSUPPORTED naming it. Thread-safe: no
 * state. */
#ifndef CS_INPUT_PICTURE_IMAGE_H
#define CS_INPUT_PICTURE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

enum {
    CS_IMAGE_MAX_PIXELS = 64 * 1000 * 1000,
    CS_IMAGE_MAX_FILE_BYTES = 256 * 1024 * 1024,
    CS_IMAGE_CHANNELS = 3
};

struct cs_image {
    int32_t width, height;
    bool is_saturated; /* gray of 16 bits: what is over 255 became white */
    uint8_t *rgb;      /* (height, width, 3) malloc'ed, NULL when empty */
};

/* max_pixels 0: CS_IMAGE_MAX_PIXELS. Over the limit: CS_LIMIT. */
enum cs_status cs_image_read(const char *path, int64_t max_pixels, struct cs_image *out,
                             struct cs_err *err) CS_NODISCARD;
/* The same from memory; name only appears in messages. */
enum cs_status cs_image_decode(const void *bytes, size_t n_bytes, const char *name,
                               int64_t max_pixels, struct cs_image *out,
                               struct cs_err *err) CS_NODISCARD;
/* The size that cs_image_read gives, from the header: no pixel is decoded, so a file that it accepts may
 * still be corrupt further on. */
enum cs_status cs_image_probe(const char *path, int64_t max_pixels, int32_t *width, int32_t *height,
                              struct cs_err *err) CS_NODISCARD;
enum cs_status cs_image_probe_bytes(const void *bytes, size_t n_bytes, const char *name,
                                    int64_t max_pixels, int32_t *width, int32_t *height,
                                    struct cs_err *err) CS_NODISCARD;
void cs_image_free(struct cs_image *image); /* accepts an empty image */

#endif
