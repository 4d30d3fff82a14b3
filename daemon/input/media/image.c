/* Reads pictures: tells the format by the first bytes, decodes, turns upright. */
#include "input/media/image.h"

#include <stdlib.h>
#include <string.h>

#include "input/media/exif.h"
#include "input/media/png_decode.h"
#include "store/fsio.h"

static const char *format_name(const uint8_t *b, size_t n)
{
    static const struct {
        const char *magic, *name;
        size_t at, len;
    } formats[] = {
        {"\xff\xd8\xff", "JPEG", 0, 3},
        {"WEBP",         "WebP", 8, 4},
        {"GIF8",         "GIF",  0, 4},
        {"BM",           "BMP",  0, 2},
        {"II*\0",        "TIFF", 0, 4},
        {"MM\0*",        "TIFF", 0, 4},
        {"ftyp",         "HEIF", 4, 4},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(formats); i++)
        if (n >= formats[i].at + formats[i].len &&
            memcmp(b + formats[i].at, formats[i].magic, formats[i].len) == 0)
            return formats[i].name;
    return NULL;
}

static enum cs_status check_magic(const uint8_t *bytes, size_t n, const char *name,
                                  struct cs_err *err)
{
    const char *format = NULL;

    if (n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
        return CS_OK;
    format = format_name(bytes, n);
    if (format != NULL)
        return cs_fail(err, CS_UNSUPPORTED, "%s: a %s picture; only PNG is read, convert it", name,
                       format);
    return cs_fail(err, CS_CORRUPT, "%s: not a PNG picture (%zu bytes)", name, n);
}

enum cs_status cs_image_decode(const void *bytes, size_t n_bytes, const char *name,
                               int64_t max_pixels, struct cs_image *out, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    int orientation = CS_ORIENTATION_NONE;

    *out = (struct cs_image){0};
    if (max_pixels <= 0)
        max_pixels = CS_IMAGE_MAX_PIXELS;
    CS_TRY(check_magic(bytes, n_bytes, name, err));
    CS_TRY(cs_png_decode(bytes, n_bytes, name, max_pixels, out, &orientation, err));
    status = cs_image_orient(out, orientation, err);
    if (status == CS_OK)
        return CS_OK;
    cs_image_free(out);
    return cs_wrap(err, status, "%s", name);
}

enum cs_status cs_image_read(const char *path, int64_t max_pixels, struct cs_image *out,
                             struct cs_err *err)
{
    char *bytes = NULL;
    size_t n = 0;
    enum cs_status status = CS_OK;

    *out = (struct cs_image){0};
    CS_TRY(cs_fs_read(path, CS_IMAGE_MAX_FILE_BYTES, &bytes, &n, err));
    status = cs_image_decode(bytes, n, path, max_pixels, out, err);
    free(bytes);
    return status;
}

void cs_image_free(struct cs_image *image)
{
    free(image->rgb);
    *image = (struct cs_image){0};
}
