/* Pictures that are not as they should be: cut, damaged, giant, of other formats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "input/picture/image.h"
#include "support/limited.h"
#include "support/tmpdir.h"

/* One of each format, and of each coding of it. */
static const char *const files[] = {
    "rgba.png",   "palette.png",   "subsampled.jpg", "progressive.jpg", "cmyk.jpg",
    "photo.webp", "lossless.webp", "animated.webp",  "interlaced.gif",  "transparent.gif"};

static char *read_picture(const char *file, size_t *n)
{
    char path[300];

    snprintf(path, sizeof path, "tests/golden/processors/images/%s", file);
    char *bytes = tmpdir_read(source_path(path), n);
    assert_non_null(bytes);
    return bytes;
}

/* Of an animation the first frame may be whole long before the end: that is for the decoder to say. */
static void check_cut(const char *file, const char *bytes, size_t cut)
{
    char *copy = malloc(cut + 1); /* exact size: ASan sees a read behind it */
    struct cs_image image = {0};
    struct cs_err err = {0};
    int32_t width = 0, height = 0;

    memcpy(copy, bytes, cut);
    const enum cs_status status = cs_image_decode(copy, cut, file, 0, &image, &err);
    (void)!cs_image_probe_bytes(copy, cut, file, 0, &width, &height, NULL);
    if (status != CS_CORRUPT || strstr(err.text, file) == NULL || image.rgb != NULL)
        fail_msg("%s, the first %zu bytes: status %d, %s", file, cut, (int)status, err.text);
    free(copy);
}

/* B-94 */
static void pictures_cut_anywhere_are_corrupt(void **state)
{
    (void)state;
    for (size_t f = 0; f < CS_ARRAY_LEN(files); f++) {
        size_t n = 0;
        char *bytes = read_picture(files[f], &n);
        for (size_t i = 0; i < 100; i++)
            check_cut(files[f], bytes, (n - 20) * i / 100);
        free(bytes);
    }
}

static void flipped_bytes_never_crash(void **state)
{
    (void)state;
    for (size_t f = 0; f < CS_ARRAY_LEN(files); f++) {
        size_t n = 0;
        char *bytes = read_picture(files[f], &n);
        for (size_t i = 0; i < n; i += 3) {
            struct cs_image image = {0};
            bytes[i] = (char)(bytes[i] ^ 0x55);
            (void)!cs_image_decode(bytes, n, "x", 0, &image, NULL);
            cs_image_free(&image);
            bytes[i] = (char)(bytes[i] ^ 0x55);
        }
        free(bytes);
    }
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

/* The same of the other formats: small files whose headers say 16383 x 16383. */
static void giant_pictures_of_other_formats_are_refused(void **state)
{
    static const struct {
        const char *file;
        const char *mark; /* before the two sides */
        size_t n_mark, skip;
        bool is_big_endian;
    } rows[] = {
        {"subsampled.jpg",  "\xff\xc0",     2, 3, true },
        {"progressive.jpg", "\xff\xc2",     2, 3, true },
        {"photo.webp",      "\x9d\x01\x2a", 3, 0, false},
        {"transparent.gif", "GIF89a",       6, 0, false},
    };

    const long before = peak_kib();

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        size_t n = 0;
        uint8_t *bytes = (uint8_t *)read_picture(rows[i].file, &n);
        uint8_t *at = memmem(bytes, n, rows[i].mark, rows[i].n_mark);
        struct cs_image image = {0};
        struct cs_err err = {0};
        int32_t width = 0, height = 0;
        assert_non_null(at);
        at += rows[i].n_mark + rows[i].skip;
        for (int side = 0; side < 2; side++) {
            at[2 * side] = rows[i].is_big_endian ? 0x3f : 0xff;
            at[2 * side + 1] = rows[i].is_big_endian ? 0xff : 0x3f;
        }
        if (cs_image_decode(bytes, n, "giant", 0, &image, &err) != CS_LIMIT ||
            strstr(err.text, "16383 x 16383") == NULL)
            fail_msg("%s: %s", rows[i].file, err.text);
        assert_int_equal(cs_image_probe_bytes(bytes, n, "giant", 0, &width, &height, NULL),
                         CS_LIMIT);
        free(bytes);
    }
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
        cmocka_unit_test(pictures_cut_anywhere_are_corrupt),
        cmocka_unit_test(flipped_bytes_never_crash),
        cmocka_unit_test(giant_picture_is_refused_by_its_header),
        cmocka_unit_test(giant_pictures_of_other_formats_are_refused),
        cmocka_unit_test(a_cut_file_too_large_to_mend_is_no_memory),
        cmocka_unit_test(other_formats_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
