/* PNG decoding by libpng. libpng reports errors by longjmp, so everything that must survive the
 * jump lives in one context struct behind a pointer that never changes after setjmp. */
#include "input/media/image.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "store/fsio.h"

enum { CHUNK_CACHE_MAX = 128, CHUNK_BYTES_MAX = 8 * 1024 * 1024, SIDE_MAX = 1000000 };

struct decoder {
    const uint8_t *bytes;
    size_t n_bytes, at;
    png_structp png;
    png_infop info;
    uint8_t *pixels; /* (height, width, channels) */
    png_uint_32 width, height;
    int channels, passes;
    bool is_palette, is_over_limit;
    uint8_t palette[256][3];
    char reason[200];
};

static void on_error(png_structp png, png_const_charp text)
{
    struct decoder *d = png_get_error_ptr(png);

    strncpy(d->reason, text, sizeof(d->reason) - 1);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_read(png_structp png, png_bytep out, size_t n)
{
    struct decoder *d = png_get_io_ptr(png);

    if (n > d->n_bytes - d->at)
        png_error(png, "the file ends too early");
    memcpy(out, d->bytes + d->at, n);
    d->at += n;
}

/* Every mode to 8-bit channels: palette indices stay (looked up later), the rest becomes RGB. */
static void set_transforms(struct decoder *d)
{
    int depth = png_get_bit_depth(d->png, d->info);
    int type = png_get_color_type(d->png, d->info);

    if (depth == 16)
        png_set_strip_16(d->png);
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_colorp entries = NULL;
        int n = 0;
        d->is_palette = true;
        png_set_packing(d->png);
        if (png_get_PLTE(d->png, d->info, &entries, &n) == 0)
            png_error(d->png, "the palette is missing");
        for (int i = 0; i < n && i < 256; i++) {
            d->palette[i][0] = entries[i].red;
            d->palette[i][1] = entries[i].green;
            d->palette[i][2] = entries[i].blue;
        }
    } else if ((type & PNG_COLOR_MASK_COLOR) == 0) {
        if (depth < 8)
            png_set_expand_gray_1_2_4_to_8(d->png);
        png_set_gray_to_rgb(d->png);
    }
    if ((type & PNG_COLOR_MASK_ALPHA) != 0)
        png_set_strip_alpha(d->png);
    d->passes = png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
}

/* Returns false when the file is not readable; d->reason says why. No locals live across the
 * jump. */
static bool read_all(struct decoder *d, int64_t max_pixels)
{
    if (setjmp(png_jmpbuf(d->png)) != 0)
        return false;
    png_set_read_fn(d->png, d, on_read);
    png_set_user_limits(d->png, SIDE_MAX, SIDE_MAX);
    png_set_chunk_cache_max(d->png, CHUNK_CACHE_MAX);
    png_set_chunk_malloc_max(d->png, CHUNK_BYTES_MAX);
    png_read_info(d->png, d->info);
    d->width = png_get_image_width(d->png, d->info);
    d->height = png_get_image_height(d->png, d->info);
    if ((int64_t)d->width * (int64_t)d->height > max_pixels) {
        d->is_over_limit = true;
        return false;
    }
    set_transforms(d);
    d->channels = png_get_channels(d->png, d->info);
    if (d->channels != (d->is_palette ? 1 : CS_IMAGE_CHANNELS) ||
        png_get_rowbytes(d->png, d->info) != (size_t)d->width * (size_t)d->channels)
        png_error(d->png, "unexpected row size");
    d->pixels = malloc((size_t)d->width * d->height * (size_t)d->channels);
    if (d->pixels == NULL)
        png_error(d->png, "no memory for the pixels");
    for (int pass = 0; pass < d->passes; pass++)
        for (png_uint_32 y = 0; y < d->height; y++)
            png_read_row(d->png, d->pixels + (size_t)y * d->width * (size_t)d->channels, NULL);
    png_read_end(d->png, NULL);
    return true;
}

static enum cs_status look_up_palette(struct decoder *d, const char *name, struct cs_err *err)
{
    size_t n = (size_t)d->width * d->height;
    uint8_t *rgb = malloc(n * CS_IMAGE_CHANNELS);

    if (rgb == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory for %zu pixels", name, n);
    for (size_t i = 0; i < n; i++)
        memcpy(rgb + i * 3, d->palette[d->pixels[i]], 3);
    free(d->pixels);
    d->pixels = rgb;
    return CS_OK;
}

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

    if (n >= 8 && png_sig_cmp(bytes, 0, 8) == 0)
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
    struct decoder *d = NULL;
    enum cs_status status = CS_OK;

    *out = (struct cs_image){0};
    if (max_pixels <= 0)
        max_pixels = CS_IMAGE_MAX_PIXELS;
    CS_TRY(check_magic(bytes, n_bytes, name, err));
    d = calloc(1, sizeof *d);
    if (d == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory", name);
    d->bytes = bytes;
    d->n_bytes = n_bytes;
    /* Pillow's palettes start as a gray ramp; entries the file does not define keep it */
    for (int i = 0; i < 256; i++)
        memset(d->palette[i], i, 3);
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, on_error, on_warning);
    d->info = d->png != NULL ? png_create_info_struct(d->png) : NULL;
    if (d->info == NULL) {
        status = cs_fail(err, CS_NO_MEMORY, "%s: no memory for the PNG decoder", name);
        goto out;
    }
    if (!read_all(d, max_pixels)) {
        status = d->is_over_limit
                     ? cs_fail(err, CS_LIMIT, "%s: %u x %u pixels are over the limit of %lld", name,
                               (unsigned)d->width, (unsigned)d->height, (long long)max_pixels)
                     : cs_fail(err, CS_CORRUPT, "%s: broken PNG: %s", name, d->reason);
        goto out;
    }
    if (d->is_palette) {
        status = look_up_palette(d, name, err);
        if (status != CS_OK)
            goto out;
    }
    *out = (struct cs_image){(int32_t)d->width, (int32_t)d->height, d->pixels};
    d->pixels = NULL;
out:
    png_destroy_read_struct(&d->png, &d->info, NULL);
    free(d->pixels);
    free(d);
    return status;
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
