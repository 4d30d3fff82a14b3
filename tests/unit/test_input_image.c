/* Pictures: every form of the formats, extreme sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input/media/resize.h"
#include "input/picture/image.h"
#include "store/safetensors.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_what_transformers_sees),
        cmocka_unit_test(pictures_equal_pillow),
        cmocka_unit_test(extreme_shapes_resize),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
