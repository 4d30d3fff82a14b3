/* PNG decoding by libpng. libpng reports errors by longjmp, so everything that must survive the
 * jump lives in one context struct behind a pointer that never changes after setjmp. */
#include "input/picture/decoders.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "input/picture/png_mend.h"
#include "input/picture/png_orientation.h"

enum { CHUNK_CACHE_MAX = 128, CHUNK_BYTES_MAX = 8 * 1024 * 1024, SIDE_MAX = 1000000 };

/* What libpng leaves of a pixel, and who makes RGB of it. */
enum form { FORM_RGB, FORM_PALETTE, FORM_GRAY16 };

struct decoder {
    const uint8_t *bytes;
    size_t n_bytes, at;
    png_structp png;
    png_infop info;
    uint8_t *pixels; /* (height, width, bytes of the form) */
    png_uint_32 width, height;
    uint64_t rows_read, rows_expected; /* of all passes */
    int passes, n_palette;
    enum form form;
    bool is_mended, is_over_limit, is_header_only;
    uint8_t palette[256][CS_IMAGE_CHANNELS];
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

/* Called with each row that has been decompressed, of every pass. */
static void on_row(png_structp png, png_row_infop row, png_bytep data)
{
    struct decoder *d = png_get_user_transform_ptr(png);

    (void)row;
    (void)data;
    d->rows_read++;
}

static void take_palette(struct decoder *d)
{
    png_colorp entries = NULL;

    if (png_get_PLTE(d->png, d->info, &entries, &d->n_palette) == 0)
        png_error(d->png, "the palette is missing");
    for (int i = 0; i < d->n_palette && i < 256; i++)
        memcpy(d->palette[i], (uint8_t[]){entries[i].red, entries[i].green, entries[i].blue},
               CS_IMAGE_CHANNELS);
}

/* Every mode to 8-bit channels, high bytes of 16. Palette indices and gray of 16 bits stay, the rest
 * becomes RGB. */
static void set_transforms(struct decoder *d)
{
    int depth = png_get_bit_depth(d->png, d->info);
    int type = png_get_color_type(d->png, d->info);

    if (type == PNG_COLOR_TYPE_PALETTE) {
        d->form = FORM_PALETTE;
        png_set_packing(d->png);
        take_palette(d);
    } else if (type == PNG_COLOR_TYPE_GRAY && depth == 16) {
        d->form = FORM_GRAY16;
    } else {
        if (depth == 16)
            png_set_strip_16(d->png);
        if (depth < 8)
            png_set_expand_gray_1_2_4_to_8(d->png);
        if ((type & PNG_COLOR_MASK_COLOR) == 0)
            png_set_gray_to_rgb(d->png);
        if ((type & PNG_COLOR_MASK_ALPHA) != 0)
            png_set_strip_alpha(d->png);
    }
    png_set_read_user_transform_fn(d->png, on_row);
    png_set_user_transform_info(d->png, d, 0, 0);
    d->passes = png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
}

/* Adam7: rows of all passes that have any pixels. */
static uint64_t count_rows(const struct decoder *d)
{
    static const struct {
        uint32_t x, y, y_step;
    } passes[] = {
        {0, 0, 8},
        {4, 0, 8},
        {0, 4, 8},
        {2, 0, 4},
        {0, 2, 4},
        {1, 0, 2},
        {0, 1, 2}
    };

    uint64_t rows = 0;

    if (d->passes == 1)
        return d->height;
    for (size_t i = 0; i < CS_ARRAY_LEN(passes); i++)
        if (d->width > passes[i].x && d->height > passes[i].y)
            rows += (d->height - passes[i].y + passes[i].y_step - 1) / passes[i].y_step;
    return rows;
}

static size_t pixel_bytes(enum form form)
{
    return form == FORM_PALETTE ? 1 : form == FORM_GRAY16 ? 2 : CS_IMAGE_CHANNELS;
}

/* Returns false when the file is not readable; d->reason says why. No locals live across the
 * jump. */
static bool read_all(struct decoder *d, int64_t max_pixels)
{
    if (setjmp(png_jmpbuf(d->png)) != 0) {
        d->width = png_get_image_width(d->png, d->info);
        d->height = png_get_image_height(d->png, d->info);
        if (d->is_header_only) /* what follows the header may be broken */
            return d->width > 0;
        /* of a mended file the end of the compressed data may be missing too */
        return d->is_mended && d->rows_expected > 0 && d->rows_read == d->rows_expected;
    }
    png_set_read_fn(d->png, d, on_read);
    png_set_user_limits(d->png, SIDE_MAX, SIDE_MAX);
    png_set_chunk_cache_max(d->png, CHUNK_CACHE_MAX);
    png_set_chunk_malloc_max(d->png, CHUNK_BYTES_MAX);
    /* as it is: libpng keeps the first Exif block, and only one without a prefix */
    png_set_keep_unknown_chunks(d->png, PNG_HANDLE_CHUNK_ALWAYS, (png_const_bytep) "eXIf", 1);
    png_set_crc_action(d->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_read_info(d->png, d->info);
    d->width = png_get_image_width(d->png, d->info);
    d->height = png_get_image_height(d->png, d->info);
    if ((int64_t)d->width * (int64_t)d->height > max_pixels) {
        d->is_over_limit = true;
        return false;
    }
    if (d->is_header_only)
        return true;
    set_transforms(d);
    if (png_get_rowbytes(d->png, d->info) != (size_t)d->width * pixel_bytes(d->form))
        png_error(d->png, "unexpected row size");
    d->pixels = malloc((size_t)d->width * d->height * pixel_bytes(d->form));
    if (d->pixels == NULL)
        png_error(d->png, "no memory for the pixels");
    d->rows_expected = count_rows(d);
    for (int pass = 0; pass < d->passes; pass++)
        for (png_uint_32 y = 0; y < d->height; y++)
            png_read_row(d->png, d->pixels + (size_t)y * d->width * pixel_bytes(d->form), NULL);
    png_read_end(d->png, d->info);
    return true;
}

/* RGB of one pixel; false: it has none. */
static bool to_rgb(const struct decoder *d, size_t i, uint8_t *rgb)
{
    const uint8_t *p = d->pixels + i * pixel_bytes(d->form);

    if (d->form == FORM_GRAY16) {
        memset(rgb, p[0] != 0 ? 255 : p[1], CS_IMAGE_CHANNELS);
        return true;
    }
    memcpy(rgb, d->palette[p[0]], CS_IMAGE_CHANNELS);
    return p[0] < d->n_palette;
}

static enum cs_status make_rgb(struct decoder *d, const char *name, struct cs_err *err)
{
    size_t n = (size_t)d->width * d->height;
    uint8_t *rgb = NULL;

    if (d->form == FORM_RGB)
        return CS_OK;
    rgb = malloc(n * CS_IMAGE_CHANNELS);
    if (rgb == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory for %zu pixels", name, n);
    for (size_t i = 0; i < n; i++)
        if (!to_rgb(d, i, rgb + i * CS_IMAGE_CHANNELS)) {
            free(rgb);
            return cs_fail(err, CS_CORRUPT,
                           "%s: broken PNG: pixel (%zu, %zu) has colour %d of a palette of %d",
                           name, i % d->width, i / d->width, d->pixels[i], d->n_palette);
        }
    free(d->pixels);
    d->pixels = rgb;
    return CS_OK;
}

static enum cs_status decode(struct decoder *d, const struct cs_picture_file *file,
                             int *orientation, struct cs_err *err)
{
    const char *name = file->name;
    enum cs_status status = CS_OK;

    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, on_error, on_warning);
    d->info = d->png != NULL ? png_create_info_struct(d->png) : NULL;
    if (d->info == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory for the PNG decoder", name);
    if (!read_all(d, file->max_pixels))
        return d->is_over_limit ? cs_picture_check_size(file, d->width, d->height, err)
                                : cs_fail(err, CS_CORRUPT, "%s: broken PNG: %s", name,
                                          d->is_mended ? "the file ends too early" : d->reason);
    status = cs_png_orientation(d->png, d->info, orientation, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s", name);
    return d->is_header_only ? CS_OK : make_rgb(d, name, err);
}

/* out NULL: the head alone */
static enum cs_status run(const struct cs_picture_file *file, struct decoder *d,
                          struct cs_picture_head *head, struct cs_image *out, struct cs_err *err)
{
    enum cs_status status = decode(d, file, &head->orientation, err);

    head->width = (int32_t)d->width;
    head->height = (int32_t)d->height;
    if (status == CS_OK)
        status = cs_picture_check_size(file, d->width, d->height, err);
    if (status == CS_OK && out != NULL) {
        out->is_saturated = d->form == FORM_GRAY16;
        out->rgb = d->pixels;
        d->pixels = NULL;
    }
    png_destroy_read_struct(&d->png, &d->info, NULL);
    free(d->pixels);
    return status;
}

enum cs_status cs_png_decode(const struct cs_picture_file *file, struct cs_picture_head *head,
                             struct cs_image *out, struct cs_err *err)
{
    struct cs_buf mended = {0};
    struct decoder *d = calloc(1, sizeof *d);

    if (d == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory", file->name);
    enum cs_status status = cs_png_mend(file->bytes, file->n, &mended, &d->is_mended, err);
    d->bytes = d->is_mended ? (const uint8_t *)mended.data : file->bytes;
    d->n_bytes = d->is_mended ? mended.len : file->n;
    status =
        status == CS_OK ? run(file, d, head, out, err) : cs_wrap(err, status, "%s", file->name);
    cs_buf_free(&mended);
    free(d);
    return status;
}

enum cs_status cs_png_probe(const struct cs_picture_file *file, struct cs_picture_head *head,
                            struct cs_err *err)
{
    struct cs_buf bytes = {0};
    struct decoder *d = calloc(1, sizeof *d);

    if (d == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory", file->name);
    d->is_header_only = true;
    enum cs_status status = cs_png_strip(file->bytes, file->n, &bytes, err);
    d->bytes = (const uint8_t *)bytes.data;
    d->n_bytes = bytes.len;
    status =
        status == CS_OK ? run(file, d, head, NULL, err) : cs_wrap(err, status, "%s", file->name);
    cs_buf_free(&bytes);
    free(d);
    return status;
}
