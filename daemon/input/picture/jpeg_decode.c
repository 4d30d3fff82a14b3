/* JPEG decoding by libjpeg-turbo with the settings that Pillow leaves as they are: slow integer DCT,
 * fancy upsampling. libjpeg reports errors by a jump, so everything that must survive it lives in one
 * struct behind a pointer that never changes after setjmp. */
#include "input/picture/decoders.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "core/base/buf.h"
#include "input/picture/exif.h"

enum { SCANS_MAX = 500, CMYK = 4, EXIF_PREFIX = 6, EXIF_MAX = 1 << 20 };

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    struct cs_buf exif;
    int64_t max_pixels;
    int orientation;
    uint8_t *rgb, *line; /* line: of CMYK */
    bool is_over_limit, is_header_only;
    char reason[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr jpeg)
{
    struct decoder *d = jpeg->client_data;

    jpeg->err->format_message(jpeg, d->reason);
    longjmp(d->back, 1);
}

static void on_message(j_common_ptr jpeg, int level)
{
    (void)jpeg;
    (void)level;
}

static void fail(struct decoder *d, const char *reason)
{
    snprintf(d->reason, sizeof(d->reason), "%s", reason);
    longjmp(d->back, 1);
}

/* A small file may ask for thousands of passes over a large picture. */
static void on_progress(j_common_ptr jpeg)
{
    struct decoder *d = jpeg->client_data;

    if (d->jpeg.input_scan_number > SCANS_MAX)
        fail(d, "it has too many scans");
}

static void on_start(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

static boolean on_end_of_bytes(j_decompress_ptr jpeg)
{
    fail(jpeg->client_data, "the file ends too early");
    return FALSE;
}

static void on_skip(j_decompress_ptr jpeg, long n)
{
    if (n <= 0)
        return;
    if ((size_t)n > jpeg->src->bytes_in_buffer)
        fail(jpeg->client_data, "the file ends too early");
    jpeg->src->next_input_byte += n;
    jpeg->src->bytes_in_buffer -= (size_t)n;
}

/* APP1: of several Exif segments what follows the first one's prefix is joined; of XMP the last holds.
 * An Exif block that cannot be read says nothing: Pillow has looked into it for the resolution before,
 * and does not look again. libjpeg's markers live until the last line is read. */
static void find_orientation(struct decoder *d)
{
    static const char tag[] = "http://ns.adobe.com/xap/1.0/";
    int xmp = CS_ORIENTATION_NONE;

    for (jpeg_saved_marker_ptr m = d->jpeg.marker_list; m != NULL; m = m->next) {
        const size_t skip = d->exif.len > 0 ? EXIF_PREFIX : 0;
        if (m->data_length >= EXIF_PREFIX && memcmp(m->data, "Exif\0\0", EXIF_PREFIX) == 0 &&
            d->exif.len < EXIF_MAX)
            cs_buf_add(&d->exif, m->data + skip, m->data_length - skip);
        else if (m->data_length >= sizeof(tag) && memcmp(m->data, tag, sizeof(tag)) == 0)
            xmp = cs_xmp_orientation((const char *)m->data + sizeof(tag),
                                     m->data_length - sizeof(tag));
    }
    if (cs_exif_orientation((const uint8_t *)cs_buf_str(&d->exif), d->exif.len, &d->orientation,
                            NULL) != CS_OK)
        d->orientation = CS_ORIENTATION_NONE;
    else if (d->orientation == CS_ORIENTATION_NONE)
        d->orientation = xmp;
}

/* One line of inverted CMYK to RGB, each product rounded as Pillow does. */
static void line_to_rgb(const uint8_t *cmyk, uint8_t *rgb, size_t n)
{
    for (size_t i = 0; i < n; i++, cmyk += CMYK, rgb += CS_IMAGE_CHANNELS) {
        const int white = cmyk[3]; /* 255 - k of what is stored as 255 - k */
        for (int c = 0; c < CS_IMAGE_CHANNELS; c++) {
            const int product = (255 - cmyk[c]) * white + 128;
            const int left = white - (((product >> 8) + product) >> 8);
            rgb[c] = (uint8_t)(left < 0 ? 0 : left);
        }
    }
}

static void read_pixels(struct decoder *d)
{
    struct jpeg_decompress_struct *jpeg = &d->jpeg;
    const size_t width = jpeg->image_width, step = width * CS_IMAGE_CHANNELS;

    d->rgb = malloc(step * jpeg->image_height);
    d->line = malloc(width * CMYK);
    if (d->rgb == NULL || d->line == NULL)
        fail(d, "no memory for the pixels");
    jpeg->out_color_space = jpeg->num_components == CMYK ? JCS_CMYK : JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW;
    jpeg->do_fancy_upsampling = TRUE;
    (void)jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *rgb = d->rgb + jpeg->output_scanline * step;
        JSAMPROW row = jpeg->num_components == CMYK ? d->line : rgb;
        (void)jpeg_read_scanlines(jpeg, &row, 1);
        if (jpeg->num_components == CMYK)
            line_to_rgb(d->line, rgb, width);
    }
    (void)jpeg_finish_decompress(jpeg);
}

/* Returns false when the file is not readable; d->reason says why. No locals live across the jump. */
static bool read_all(struct decoder *d)
{
    if (setjmp(d->back) != 0)
        return false;
    jpeg_create_decompress(&d->jpeg);
    d->jpeg.src = &d->source;
    d->jpeg.progress = &d->progress;
    jpeg_save_markers(&d->jpeg, JPEG_APP0 + 1, 0xffff);
    (void)jpeg_read_header(&d->jpeg, TRUE);
    if (d->jpeg.data_precision != 8)
        fail(d, "its samples are not of 8 bits");
    if (d->jpeg.num_components != 1 && d->jpeg.num_components != 3 &&
        d->jpeg.num_components != CMYK)
        fail(d, "it has neither 1 nor 3 nor 4 channels");
    find_orientation(d);
    d->is_over_limit = (int64_t)d->jpeg.image_width * (int64_t)d->jpeg.image_height > d->max_pixels;
    if (!d->is_over_limit && !d->is_header_only)
        read_pixels(d);
    return true;
}

static enum cs_status decode(struct decoder *d, const struct cs_picture_file *file,
                             struct cs_picture_head *head, struct cs_err *err)
{
    if (!read_all(d))
        return strstr(d->reason, "emory") != NULL
                   ? cs_fail(err, CS_NO_MEMORY, "%s: %s", file->name, d->reason)
                   : cs_fail(err, CS_CORRUPT, "%s: broken JPEG: %s", file->name, d->reason);
    *head = (struct cs_picture_head){.width = (int32_t)d->jpeg.image_width,
                                     .height = (int32_t)d->jpeg.image_height,
                                     .orientation = d->orientation};
    return cs_picture_check_size(file, head->width, head->height, err);
}

/* rgb NULL: the head alone */
static enum cs_status run(const struct cs_picture_file *file, struct cs_picture_head *head,
                          uint8_t **rgb, struct cs_err *err)
{
    struct decoder *d = calloc(1, sizeof *d);

    if (d == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory", file->name);
    d->jpeg.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
    d->jpeg.client_data = d;
    d->source = (struct jpeg_source_mgr){.next_input_byte = file->bytes,
                                         .bytes_in_buffer = file->n,
                                         .init_source = on_start,
                                         .fill_input_buffer = on_end_of_bytes,
                                         .skip_input_data = on_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = on_start};
    d->progress.progress_monitor = on_progress;
    d->max_pixels = file->max_pixels;
    d->is_header_only = rgb == NULL;
    enum cs_status status = decode(d, file, head, err);
    if (status == CS_OK && rgb != NULL) {
        *rgb = d->rgb;
        d->rgb = NULL;
    }
    jpeg_destroy_decompress(&d->jpeg);
    cs_buf_free(&d->exif);
    free(d->rgb);
    free(d->line);
    free(d);
    return status;
}

enum cs_status cs_jpeg_decode(const struct cs_picture_file *file, struct cs_picture_head *head,
                              struct cs_image *out, struct cs_err *err)
{
    return run(file, head, &out->rgb, err);
}

enum cs_status cs_jpeg_probe(const struct cs_picture_file *file, struct cs_picture_head *head,
                             struct cs_err *err)
{
    return run(file, head, NULL, err);
}
