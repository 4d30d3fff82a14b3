/* Pictures: golden SigLIP values, cut and giant files, other formats, extreme sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "input/media/processor.h"
#include "store/safetensors.h"
#include "support/limited.h"
#include "support/tmpdir.h"

static json_t *load_json(const char *path)
{
    json_t *json = json_load_file(path, 0, NULL);

    assert_non_null(json);
    return json;
}

/* decode, resize, rescale, normalise: to the bit what transformers' Pillow back end returns */
static void siglip_values_equal_transformers(void **state)
{
    const char *dir = source_path("tests/golden/processors");
    char path[512];
    struct cs_st_file *golden = NULL;
    struct cs_processor p;
    struct cs_err err = {0};
    struct dirent *entry = NULL;
    DIR *images = NULL;
    int n = 0;

    (void)state;
    snprintf(path, sizeof(path), "%s/siglip.pil.json", dir);
    json_t *config = load_json(path);
    assert_int_equal(cs_processor_read(config, &p, &err), CS_OK);
    snprintf(path, sizeof(path), "%s/siglip.pil.safetensors", dir);
    assert_int_equal(cs_st_open(path, &golden, &err), CS_OK);
    snprintf(path, sizeof(path), "%s/images", dir);
    images = opendir(path);
    assert_non_null(images);
    size_t pixels = (size_t)p.height * (size_t)p.width * 3;
    uint8_t *resized = malloc(pixels);
    float *values = malloc(pixels * sizeof(float)), *want = malloc(pixels * sizeof(float));
    while ((entry = readdir(images)) != NULL) {
        struct cs_image image = {0};
        const struct cs_st_tensor *tensor = cs_st_find(golden, entry->d_name);
        if (strstr(entry->d_name, ".png") == NULL)
            continue;
        assert_non_null(tensor);
        assert_int_equal(tensor->count, pixels);
        assert_int_equal(cs_st_read_f32(tensor, 0, (int64_t)pixels, want, &err), CS_OK);
        snprintf(path, sizeof(path), "%s/images/%s", dir, entry->d_name);
        if (cs_image_read(path, 0, &image, &err) != CS_OK ||
            cs_processor_apply(&p, &image, resized, &err) != CS_OK)
            fail_msg("%s", err.text);
        cs_processor_normalise(&p, resized, values);
        for (size_t i = 0; i < pixels; i++)
            if (!(values[i] == want[i]))
                fail_msg("%s: value %zu is %.9g, want %.9g", entry->d_name, i, (double)values[i],
                         (double)want[i]);
        cs_image_free(&image);
        n++;
    }
    assert_int_equal(n, 11);
    closedir(images);
    cs_st_close(golden);
    json_decref(config);
    free(resized);
    free(values);
    free(want);
}

/* One row of tests/golden/pictures.tsv; the fields point into the line. */
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
static void every_form_of_png_is_what_transformers_sees(void **state)
{
    char *text = tmpdir_read(source_path("tests/golden/pictures.tsv"), &(size_t){0});
    char *line_end = NULL;
    int rows = 0;

    (void)state;
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
    assert_true(rows > 80);
    free(text);
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
        {"\xff\xd8\xff\xe0....", 8,  CS_UNSUPPORTED, "JPEG"     },
        {"RIFF....WEBP",         12, CS_UNSUPPORTED, "WebP"     },
        {"GIF89a..",             8,  CS_UNSUPPORTED, "GIF"      },
        {"hello, no picture",    17, CS_CORRUPT,     "not a PNG"},
        {"",                     0,  CS_CORRUPT,     "not a PNG"},
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
        for (int f = CS_RESAMPLE_BILINEAR; f <= CS_RESAMPLE_BICUBIC; f++) {
            assert_int_equal(cs_resize_rgb(rgb, sizes[i][0], sizes[i][1], out, 28, 28,
                                           (enum cs_resample)f, NULL),
                             CS_OK);
            for (size_t k = 0; k < sizeof(out); k++)
                assert_int_equal(out[k], 137); /* weights sum to one */
        }
        free(rgb);
    }
}

static void processors_that_differ_are_refused(void **state)
{
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"{\"image_processor_type\":\"CLIPImageProcessor\"}",                                       "CLIPImageProcessor"             },
        {"{\"size\":{\"height\":3,\"width\":3}}",                                                   "image_processor_type is missing"},
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"shortest_edge\":3}}",
         "shortest_edge"                                                                                                             },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"height\":0,\"width\":3}}",
         "size.height is 0; it must be"                                                                                              },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"height\":3,\"width\":3},"
         "\"resample\":1}",                                                                "resample is 1; it must be"      },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"height\":3,\"width\":3},"
         "\"do_center_crop\":true}",                                                       "do_center_crop"                 },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"height\":3,\"width\":3},"
         "\"image_std\":[0,1,1]}",                                                         "image_std is [0,1,1]"           },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"height\":3,\"width\":3},"
         "\"image_mean\":[1]}",                                                            "image_mean"                     },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":28}",
         "size is 28; it must be an object"                                                                                          },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"height\":28}}",
         "size has no width"                                                                                                         },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"do_convert_rgb\":false}",
         "do_convert_rgb is false"                                                                                                   },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"do_resize\":1}",
         "do_resize is 1; it must be true or false"                                                                                  },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"rescale_factor\":0}",
         "rescale_factor is 0; it must be a number above 0"                                                                          },
        {"[]",                                                                                      "not an object"                  },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        json_t *json = json_loads(rows[i].json, 0, NULL);
        struct cs_processor p;
        struct cs_err err = {0};
        assert_int_not_equal(cs_processor_read(json, &p, &err), CS_OK);
        if (strstr(err.text, rows[i].text) == NULL)
            fail_msg("%s: %s", rows[i].json, err.text);
        json_decref(json);
    }
}

/* B-05 */
static void processor_and_encoder_must_agree(void **state)
{
    struct cs_processor p = {.height = 56, .width = 56, .channels = 3};
    struct cs_arch arch = {.family = "siglip", .image_size = 56, .patch_size = 8, .channels = 3};
    struct cs_err err = {0};
    struct cs_item_shape shape;

    (void)state;
    assert_int_equal(cs_image_shape(&p, &arch, &shape, &err), CS_OK);
    assert_int_equal(shape.kind, CS_ITEM_IMAGE);
    assert_int_equal(shape.rows, 49);
    assert_int_equal(shape.bytes, 56 * 56 * 3);
    assert_int_equal(shape.grid[0], 1);
    assert_int_equal(shape.grid[1] * shape.grid[2], 49);
    arch.image_size = 224;
    assert_int_equal(cs_image_shape(&p, &arch, &shape, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "56 x 56"));
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
        cmocka_unit_test(siglip_values_equal_transformers),
        cmocka_unit_test(every_form_of_png_is_what_transformers_sees),
        cmocka_unit_test(png_cut_anywhere_is_corrupt),
        cmocka_unit_test(flipped_bytes_never_crash),
        cmocka_unit_test(giant_picture_is_refused_by_its_header),
        cmocka_unit_test(a_cut_file_too_large_to_mend_is_no_memory),
        cmocka_unit_test(other_formats_are_named),
        cmocka_unit_test(extreme_shapes_resize),
        cmocka_unit_test(processors_that_differ_are_refused),
        cmocka_unit_test(processor_and_encoder_must_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
