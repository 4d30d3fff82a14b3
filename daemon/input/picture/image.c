/* Reads pictures: tells the format by the first bytes, decodes, turns upright. */
#include "input/picture/image.h"

#include <stdlib.h>
#include <string.h>

#include "input/picture/decoders.h"
#include "input/picture/exif.h"
#include "store/fsio.h"

/* A format by what stands at a place of the file; decode NULL: it is not read. */
static const struct format {
    const char *magic, *name;
    size_t at, len;
    enum cs_status (*decode)(const struct cs_picture_file *, struct cs_picture_head *,
                             struct cs_image *, struct cs_err *);
    enum cs_status (*probe)(const struct cs_picture_file *, struct cs_picture_head *,
                            struct cs_err *);
} formats[] = {
    {"\x89PNG\r\n\x1a\n", "PNG",       0, 8, cs_png_decode,  cs_png_probe },
    {"\xff\xd8\xff",      "JPEG",      0, 3, cs_jpeg_decode, cs_jpeg_probe},
    {"WEBP",              "WebP",      8, 4, cs_webp_decode, cs_webp_probe},
    {"GIF87a",            "GIF",       0, 6, cs_gif_decode,  cs_gif_probe },
    {"GIF89a",            "GIF",       0, 6, cs_gif_decode,  cs_gif_probe },
    {"BM",                "BMP",       0, 2, NULL,           NULL         },
    {"II*\0",             "TIFF",      0, 4, NULL,           NULL         },
    {"MM\0*",             "TIFF",      0, 4, NULL,           NULL         },
    {"ftypavif",          "AVIF",      4, 8, NULL,           NULL         },
    {"ftyp",              "HEIF",      4, 4, NULL,           NULL         },
    {"\xff\x0a",          "JPEG XL",   0, 2, NULL,           NULL         },
    {"\0\0\0\x0cjP  ",    "JPEG 2000", 0, 8, NULL,           NULL         },
    {"<svg",              "SVG",       0, 4, NULL,           NULL         },
    {"<?xml",             "XML",       0, 5, NULL,           NULL         },
    {"%PDF",              "PDF",       0, 4, NULL,           NULL         },
};

static enum cs_status find_format(const struct cs_picture_file *file, const struct format **out,
                                  struct cs_err *err)
{
    *out = NULL;
    for (size_t i = 0; i < CS_ARRAY_LEN(formats) && *out == NULL; i++)
        if (file->n >= formats[i].at + formats[i].len &&
            memcmp(file->bytes + formats[i].at, formats[i].magic, formats[i].len) == 0)
            *out = &formats[i];
    if (*out == NULL)
        return cs_fail(err, CS_CORRUPT, "%s: not a picture: no PNG, JPEG, WebP or GIF (%zu bytes)",
                       file->name, file->n);
    if ((*out)->decode == NULL)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s: a %s file; PNG, JPEG, WebP and GIF are read, convert it", file->name,
                       (*out)->name);
    return CS_OK;
}

static struct cs_picture_file file_of(const void *bytes, size_t n, const char *name,
                                      int64_t max_pixels)
{
    return (struct cs_picture_file){bytes, n, name,
                                    max_pixels > 0 ? max_pixels : CS_IMAGE_MAX_PIXELS};
}

enum cs_status cs_image_decode(const void *bytes, size_t n_bytes, const char *name,
                               int64_t max_pixels, struct cs_image *out, struct cs_err *err)
{
    const struct cs_picture_file file = file_of(bytes, n_bytes, name, max_pixels);
    const struct format *format = NULL;
    struct cs_picture_head head = {0};

    *out = (struct cs_image){0};
    CS_TRY(find_format(&file, &format, err));
    enum cs_status status = format->decode(&file, &head, out, err);
    out->width = head.width;
    out->height = head.height;
    if (status == CS_OK) {
        status = cs_image_orient(out, head.orientation, err);
        if (status != CS_OK)
            status = cs_wrap(err, status, "%s", name);
    }
    if (status != CS_OK)
        cs_image_free(out);
    return status;
}

enum cs_status cs_image_probe_bytes(const void *bytes, size_t n_bytes, const char *name,
                                    int64_t max_pixels, int32_t *width, int32_t *height,
                                    struct cs_err *err)
{
    const struct cs_picture_file file = file_of(bytes, n_bytes, name, max_pixels);
    const struct format *format = NULL;
    struct cs_picture_head head = {0};

    *width = *height = 0;
    CS_TRY(find_format(&file, &format, err));
    CS_TRY(format->probe(&file, &head, err));
    const bool is_turned = cs_orientation_is_turned(head.orientation);
    *width = is_turned ? head.height : head.width;
    *height = is_turned ? head.width : head.height;
    return CS_OK;
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

enum cs_status cs_image_probe(const char *path, int64_t max_pixels, int32_t *width, int32_t *height,
                              struct cs_err *err)
{
    char *bytes = NULL;
    size_t n = 0;

    *width = *height = 0;
    CS_TRY(cs_fs_read(path, CS_IMAGE_MAX_FILE_BYTES, &bytes, &n, err));
    enum cs_status status = cs_image_probe_bytes(bytes, n, path, max_pixels, width, height, err);
    free(bytes);
    return status;
}

void cs_image_free(struct cs_image *image)
{
    free(image->rgb);
    *image = (struct cs_image){0};
}
