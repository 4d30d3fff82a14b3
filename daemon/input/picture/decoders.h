/* The decoders behind image.h, one for each format. Inside of input/picture only.
 *
 * decode: *out gets rgb alone, as the file stores the picture; probe: the head alone, nothing decoded.
 * Both check the pixel count before they allocate: CS_LIMIT. CS_CORRUPT, CS_NO_MEMORY. All name the
 * file. */
#ifndef CS_INPUT_PICTURE_DECODERS_H
#define CS_INPUT_PICTURE_DECODERS_H

#include "input/picture/image.h"

/* bytes begin with what the format begins with. */
struct cs_picture_file {
    const uint8_t *bytes;
    size_t n;
    const char *name; /* for messages */
    int64_t max_pixels;
};

struct cs_picture_head {
    int32_t width, height; /* not yet turned */
    int orientation;       /* as in exif.h */
};

enum cs_status cs_png_decode(const struct cs_picture_file *file, struct cs_picture_head *head,
                             struct cs_image *out, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_png_probe(const struct cs_picture_file *file, struct cs_picture_head *head,
                            struct cs_err *err) CS_NODISCARD;
enum cs_status cs_jpeg_decode(const struct cs_picture_file *file, struct cs_picture_head *head,
                              struct cs_image *out, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_jpeg_probe(const struct cs_picture_file *file, struct cs_picture_head *head,
                             struct cs_err *err) CS_NODISCARD;
enum cs_status cs_webp_decode(const struct cs_picture_file *file, struct cs_picture_head *head,
                              struct cs_image *out, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_webp_probe(const struct cs_picture_file *file, struct cs_picture_head *head,
                             struct cs_err *err) CS_NODISCARD;
enum cs_status cs_gif_decode(const struct cs_picture_file *file, struct cs_picture_head *head,
                             struct cs_image *out, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_gif_probe(const struct cs_picture_file *file, struct cs_picture_head *head,
                            struct cs_err *err) CS_NODISCARD;

/* CS_LIMIT: over the file's max_pixels. */
enum cs_status cs_picture_check_size(const struct cs_picture_file *file, int64_t width,
                                     int64_t height, struct cs_err *err) CS_NODISCARD;

#endif
