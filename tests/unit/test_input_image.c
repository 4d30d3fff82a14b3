/* Pictures: every form of the formats, cut and giant files, other formats, extreme sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "input/media/resize.h"
#include "input/picture/image.h"
#include "store/safetensors.h"
#include "support/limited.h"
#include "support/tmpdir.h"

struct golden_picture {
    char *name, *file, *width, *height, *pixels;
};

static uint8_t *from_hex(const char *text, size_t *n)
{
    uint8_t *out = NULL;

    *n = strlen(text) / 2;
    out = malloc(*n + 1);
    for (size_t i = 0; i < *n; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return out;
}

static void compare_picture(const struct golden_picture *g)
{
    struct cs_image image = {0};
    struct cs_err err = {0};
    size_t n = 0, n_want = 0;
    uint8_t *bytes = from_hex(g->file, &n), *want = NULL;
    enum cs_status status = cs_image_decode(bytes, n, g->name, 0, &image, &err);

    int32_t width = 0, height = 0;
    const enum cs_status probed = cs_image_probe_bytes(bytes, n, g->name, 0, &width, &height, NULL);

    if (status == CS_OK && (probed != CS_OK || width != image.width || height != image.height))
        fail_msg("%s: its header is read as %d x %d", g->name, width, height);
    if (strcmp(g->width, "-") == 0) {
        if (status != CS_CORRUPT || strstr(err.text, g->pixels) == NULL)
            fail_msg("%s: status %d, \"%s\"", g->name, (int)status, err.text);
        assert_non_null(strstr(err.text, g->name));
        assert_null(image.rgb);
    } else {
        if (status != CS_OK)
            fail_msg("%s", err.text);
        want = from_hex(g->pixels, &n_want);
        if (image.width != atoi(g->width) || image.height != atoi(g->height) ||
            memcmp(image.rgb, want, n_want) != 0)
            fail_msg("%s: other pixels than transformers has", g->name);
        assert_int_equal(image.is_saturated, strstr(g->name, "gray-16") != NULL &&
                                                 strcmp(g->name, "gray-16-alpha") != 0);
    }
    cs_image_free(&image);
    free(bytes);
    free(want);
}

/* Depths, palettes, transparency, colour metadata, orientations wherever they are written, missing ends:
 * the pixels that transformers sees; what it would invent is refused. */
/* Returns how many rows the file has. */
static int compare_rows(const char *file)
{
    char *text = tmpdir_read(source_path(file), &(size_t){0});
    char *line_end = NULL;
    int rows = 0;

    assert_non_null(text);
    for (char *line = strtok_r(text, "\n", &line_end); line != NULL;
         line = strtok_r(NULL, "\n", &line_end)) {
        struct golden_picture g = {0};
        char **fields[] = {&g.name, &g.file, &g.width, &g.height, &g.pixels};
        for (size_t i = 0; i < CS_ARRAY_LEN(fields); i++) {
            *fields[i] = strsep(&line, "\t");
            assert_non_null(*fields[i]);
        }
        compare_picture(&g);
        rows++;
    }
    free(text);
    return rows;
}

static void every_form_is_what_transformers_sees(void **state)
{
    (void)state;
    assert_true(compare_rows("tests/golden/pictures.tsv") > 80);
    assert_true(compare_rows("tests/golden/photos.tsv") > 70);
}

/* Pixels and resizes of Pillow, bit for bit: tensors FILE.rgb and FILE.WxH.FILTER. */
static void pictures_equal_pillow(void **state)
{
    char dir[400], path[512];
    struct cs_st_file *golden = NULL;

    (void)state;
    snprintf(dir, sizeof dir, "%s", source_path("../shared/golden/processors"));
    snprintf(path, sizeof path, "%s/pil.safetensors", dir);
    if (access(path, R_OK) != 0)
        skip();
    assert_int_equal(cs_st_open(path, &golden, NULL), CS_OK);
    for (int i = 0; i < cs_st_count(golden); i++) {
        const struct cs_st_tensor *want = cs_st_at(golden, i);
        const char *end = strstr(want->name, ".rgb");
        const bool is_resized = end == NULL;
        struct cs_image image = {0};
        const int32_t height = (int32_t)want->dim[0], width = (int32_t)want->dim[1];
        uint8_t *got = malloc((size_t)want->count);
        end = is_resized ? strchr(strchr(want->name, '.') + 1, '.') : end;
        snprintf(path, sizeof path, "%s/images/%.*s", dir, (int)(end - want->name), want->name);
        assert_int_equal(cs_image_read(path, 0, &image, NULL), CS_OK);
        assert_true(is_resized || (image.width == width && image.height == height));
        assert_int_equal(cs_resize_rgb(image.rgb, image.width, image.height, got, width, height,
                                       strstr(want->name, "bilinear") != NULL ? CS_RESAMPLE_BILINEAR
                                                                              : CS_RESAMPLE_BICUBIC,
                                       NULL),
                         CS_OK);
        if (memcmp(got, want->data, (size_t)want->count) != 0)
            fail_msg("%s differs", want->name);
        free(got);
        cs_image_free(&image);
    }
    cs_st_close(golden);
}

/* B-94 */
static void png_cut_anywhere_is_corrupt(void **state)
{
    size_t n = 0;
    char *bytes = tmpdir_read(source_path("tests/golden/processors/images/rgba.png"), &n);

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < 100; i++) {
        size_t cut = n * i / 100;
        char *copy = malloc(cut + 1); /* exact size: ASan sees a read behind it */
        struct cs_image image = {0};
        struct cs_err err = {0};
        memcpy(copy, bytes, cut);
        assert_int_equal(cs_image_decode(copy, cut, "cut.png", 0, &image, &err), CS_CORRUPT);
        assert_non_null(strstr(err.text, "cut.png"));
        assert_null(image.rgb);
        free(copy);
    }
    free(bytes);
}

static void flipped_bytes_never_crash(void **state)
{
    size_t n = 0;
    char *bytes = tmpdir_read(source_path("tests/golden/processors/images/palette.png"), &n);

    (void)state;
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i += 3) {
        struct cs_image image = {0};
        bytes[i] = (char)(bytes[i] ^ 0x55);
        (void)!cs_image_decode(bytes, n, "x", 0, &image, NULL);
        cs_image_free(&image);
        bytes[i] = (char)(bytes[i] ^ 0x55);
    }
    free(bytes);
}

static long peak_kib(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* B-95: 30000 x 30000 by its header alone; refused before anything of that size is allocated */
static void giant_picture_is_refused_by_its_header(void **state)
{
    static const unsigned char giant[] = {0x89, 'P',  'N', 'G', '\r', '\n', 0x1a, '\n', 0,
                                          0,    0,    13,  'I', 'H',  'D',  'R',  0,    0,
                                          0x75, 0x30, 0,   0,   0x75, 0x30, 8,    2,    0,
                                          0,    0,    0,   0,   0,    0, /* CRC, computed below */
                                          0,    0,    0,   2,   'I',  'D',  'A',  'T',  0,
                                          0,    0,    0,   0,   0};
    struct cs_image image = {0};
    struct cs_err err = {0};
    long before = peak_kib();
    unsigned char bytes[sizeof(giant)];
    unsigned crc = 0xffffffffu;

    (void)state;
    memcpy(bytes, giant, sizeof(bytes));
    for (size_t i = 12; i < 29; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    crc = ~crc;
    for (int i = 0; i < 4; i++)
        bytes[29 + i] = (unsigned char)(crc >> (24 - 8 * i));
    assert_int_equal(cs_image_decode(bytes, sizeof(bytes), "giant.png", 0, &image, &err), CS_LIMIT);
    assert_non_null(strstr(err.text, "30000 x 30000"));
    assert_null(image.rgb);
    assert_true(peak_kib() - before < 64 * 1024);
}

static void other_formats_are_named(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        enum cs_status status;
        const char *text;
    } rows[] = {
        {"\xff\xd8\xff\xe0....", 8,  CS_CORRUPT,     "broken JPEG: the file ends too early"},
        {"RIFF....WEBP",         12, CS_CORRUPT,     "broken WebP"                         },
        {"GIF89a..",             8,  CS_CORRUPT,     "broken GIF: the file ends too early" },
        {"BM......",             8,  CS_UNSUPPORTED, "a BMP file; PNG, JPEG"               },
        {"II*\0....",            8,  CS_UNSUPPORTED, "TIFF"                                },
        {"....ftypheic",         12, CS_UNSUPPORTED, "HEIF"                                },
        {"....ftypavif",         12, CS_UNSUPPORTED, "AVIF"                                },
        {"hello, no picture",    17, CS_CORRUPT,     "not a picture"                       },
        {"",                     0,  CS_CORRUPT,     "not a picture"                       },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_image image = {0};
        struct cs_err err = {0};
        assert_int_equal(cs_image_decode(rows[i].bytes, rows[i].n, "f", 0, &image, &err),
                         rows[i].status);
        assert_non_null(strstr(err.text, rows[i].text));
    }
}

/* B-19: whatever the shape, a picture becomes height x width */
static void extreme_shapes_resize(void **state)
{
    static const int32_t sizes[][2] = {
        {1,    1   },
        {1,    5000},
        {5000, 1   },
        {13,   13  },
        {29,   27  },
        {227,  1   },
        {2,    3   }
    };
    uint8_t out[28 * 28 * 3];

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++) {
        size_t n = (size_t)sizes[i][0] * (size_t)sizes[i][1] * 3;
        uint8_t *rgb = malloc(n);
        memset(rgb, 137, n);
        for (int f = 0; f < CS_RESAMPLES; f++) {
            assert_int_equal(cs_resize_rgb(rgb, sizes[i][0], sizes[i][1], out, 28, 28,
                                           (enum cs_resample)f, NULL),
                             CS_OK);
            for (size_t k = 0; k < sizeof(out); k++)
                assert_int_equal(out[k], 137); /* weights sum to one */
        }
        free(rgb);
    }
}

enum { LONG_CUT_BYTES = 64 << 20 };

static enum cs_status decode_cut(void *user)
{
    struct cs_image image = {0};
    struct cs_err err = {0};
    const enum cs_status status = cs_image_decode(user, LONG_CUT_BYTES, "cut.png", 0, &image, &err);
    return strstr(err.text, "cut.png: no memory") != NULL ? status : CS_INTERNAL;
}

/* The end that it lacks is written behind a copy of it: a bad sample it is not. */
static void a_cut_file_too_large_to_mend_is_no_memory(void **state)
{
    static const uint8_t start[] = "\x89PNG\r\n\x1a\n\x7f\xff\xff\xffIDAT";
    uint8_t *bytes = calloc(1, LONG_CUT_BYTES);

    (void)state;
    if (!cs_test_can_limit()) {
        free(bytes);
        skip();
    }
    memcpy(bytes, start, sizeof start - 1);
    assert_int_equal(cs_test_within_mib(30, decode_cut, bytes), CS_NO_MEMORY);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_what_transformers_sees),
        cmocka_unit_test(pictures_equal_pillow),
        cmocka_unit_test(png_cut_anywhere_is_corrupt),
        cmocka_unit_test(flipped_bytes_never_crash),
        cmocka_unit_test(giant_picture_is_refused_by_its_header),
        cmocka_unit_test(a_cut_file_too_large_to_mend_is_no_memory),
        cmocka_unit_test(other_formats_are_named),
        cmocka_unit_test(extreme_shapes_resize),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
