/* Image processors: golden values of every class. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input/media/pixels.h"
#include "input/media/sizes.h"
#include "store/safetensors.h"
#include "support/tmpdir.h"

/* How a class hands over its pixels. */
enum form { PLANES, MERGED, PATCHES };

struct golden {
    const char *name;
    struct cs_processor p;
    struct cs_media_encoder encoder;
    enum form form;
    struct cs_st_file *values;
    char images[400];
    int n_compared;
};

static struct cs_media_encoder encoder_for(const struct cs_processor *p)
{
    return (struct cs_media_encoder){
        .family = "golden",
        .side = p->height,
        .patch = p->patch > 0 ? p->patch : 14,
        .merge = p->merge,
        .frames = p->frames,
        .channels = 3,
    };
}

/* Value of channel c at (y, x): planes (3, height, width). */
static float at(const float *planes, int32_t height, int32_t width, int c, int32_t y, int32_t x)
{
    return planes[((size_t)c * (size_t)height + (size_t)y) * (size_t)width + (size_t)x];
}

/* (rows / m, columns / m, m, m, channel, frame, y, x): Qwen-VL, patches of a merged cell together */
static size_t put_merged(const struct golden *g, const float *planes, int32_t height, int32_t width,
                         float *out)
{
    const int32_t p = g->p.patch, m = g->p.merge, high = height / p, wide = width / p;
    size_t n = 0;

    for (int32_t cell = 0; cell < high / m * (wide / m) * m * m; cell++) {
        const int32_t inner = cell % (m * m), outer = cell / (m * m);
        const int32_t row = outer / (wide / m) * m + inner / m;
        const int32_t column = outer % (wide / m) * m + inner % m;
        for (int c = 0; c < 3; c++)
            for (int f = 0; f < g->p.frames; f++)
                for (int32_t i = 0; i < p * p; i++)
                    out[n++] = at(planes, height, width, c, row * p + i / p, column * p + i % p);
    }
    return n;
}

/* (rows, columns, y, x, channel): SigLIP 2, Gemma 4 */
static size_t put_patches(const struct golden *g, const float *planes, int32_t height,
                          int32_t width, float *out)
{
    const int32_t p = g->p.patch, wide = width / p;
    size_t n = 0;

    for (int32_t cell = 0; cell < height / p * wide; cell++)
        for (int32_t i = 0; i < p * p; i++)
            for (int c = 0; c < 3; c++)
                out[n++] =
                    at(planes, height, width, c, cell / wide * p + i / p, cell % wide * p + i % p);
    return n;
}

static struct cs_extent size_of(const struct cs_media_layout *layout,
                                const struct cs_medium *medium, int32_t item)
{
    const int32_t picture = layout->items[item].picture;
    if (picture == 0)
        return (struct cs_extent){medium->height, medium->width};
    return (struct cs_extent){layout->steps[picture - 1].height, layout->steps[picture - 1].width};
}

/* All items of a picture as the processor's tensor has them; returns how many values. */
static size_t values_of(const struct golden *g, const struct cs_media_layout *layout,
                        const struct cs_medium *medium, uint8_t *const *data, float *out)
{
    size_t n = 0;

    for (int32_t i = 0; i < layout->n_items; i++) {
        const struct cs_extent size = size_of(layout, medium, i);
        const size_t pixels = (size_t)size.height * (size_t)size.width;
        float *planes = g->form == PLANES ? out + n : malloc(pixels * 3 * sizeof *planes);
        assert_int_equal(layout->items[i].shape.bytes, pixels * 3);
        cs_processor_normalise(&g->p, data[i], pixels, planes);
        if (g->form == MERGED)
            n += put_merged(g, planes, size.height, size.width, out + n);
        else if (g->form == PATCHES)
            n += put_patches(g, planes, size.height, size.width, out + n);
        else
            n += pixels * 3;
        if (g->form != PLANES)
            free(planes);
    }
    return n;
}

static void compare(const struct golden *g, const char *file, const float *got, size_t n)
{
    const struct cs_st_tensor *tensor = cs_st_find(g->values, file);
    assert_non_null(tensor);
    const size_t n_want = (size_t)tensor->count;
    float *want = malloc(n_want * sizeof *want);
    double worst = 0;

    assert_int_equal(cs_st_read_f32(tensor, 0, tensor->count, want, NULL), CS_OK);
    if (g->form == PATCHES ? n > n_want : n != n_want) /* there they are padded */
        fail_msg("%s: %s is %zu values, not %zu", g->name, file, n, n_want);
    for (size_t i = 0; i < n; i++) {
        const double off = fabs((double)got[i] - (double)want[i]);
        worst = off <= worst ? worst : off;
    }
    if (!(worst <= 1e-5))
        fail_msg("%s: %s differs by %g", g->name, file, worst);
    free(want);
}

/* Numbers that the processor tells beside the pixels. */
static void compare_number(const struct golden *g, const char *file, const char *what, int which,
                           int64_t value)
{
    char name[300];
    int64_t want[4];

    snprintf(name, sizeof name, "%s.%s", file, what);
    const struct cs_st_tensor *tensor = cs_st_find(g->values, name);
    if (tensor == NULL)
        return;
    assert_true(tensor->dtype == CS_I64 && which < tensor->count && tensor->count <= 4);
    assert_int_equal(cs_st_read_raw(tensor, 0, (size_t)tensor->count * sizeof(int64_t), want, NULL),
                     CS_OK);
    if (want[which] != value)
        fail_msg("%s: %s is %lld, not %lld", g->name, name, (long long)value,
                 (long long)want[which]);
}

static void compare_shape(const struct golden *g, const char *file,
                          const struct cs_media_layout *layout)
{
    const struct cs_item_shape *s = &layout->items[0].shape;

    for (int i = 0; i < 3; i++) {
        compare_number(g, file, "grid", i, s->grid[i]);
        compare_number(g, file, "image_grid_thw", i, s->grid[i]);
        if (i > 0)
            compare_number(g, file, "spatial_shapes", i - 1, s->grid[i]);
    }
    compare_number(g, file, "num_patches", 0, layout->n_items);
    compare_number(g, file, "num_crops", 0, layout->n_items - 1);
    compare_number(g, file, "num_soft_tokens_per_image", 0, s->rows);
}

static void compare_picture(struct golden *g, const char *file)
{
    char path[512];
    struct cs_image image = {0};
    struct cs_err err = {0};
    struct cs_media_layout layout;
    struct cs_medium medium = {.kind = CS_ITEM_IMAGE, .n_frames = 1};
    struct cs_arena *arena = cs_arena_new(0);
    uint8_t *data[128] = {0};
    size_t most = 0;

    if (cs_st_find(g->values, file) == NULL) { /* Gemma 4's are of some pictures only */
        cs_arena_free(arena);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", g->images, file);
    if (cs_image_read(path, 0, &image, &err) != CS_OK ||
        cs_image_probe(path, 0, &medium.width, &medium.height, &err) != CS_OK ||
        cs_media_layout_make(&g->p, &g->encoder, &medium, arena, &layout, &err) != CS_OK)
        fail_msg("%s: %s: %s", g->name, file, err.text);
    assert_true(layout.n_items >= 1 && layout.n_items <= (int)CS_ARRAY_LEN(data));
    for (int i = 0; i < layout.n_items; i++) {
        data[i] = malloc((size_t)layout.items[i].shape.bytes); /* exact: ASan sees more */
        most += (size_t)layout.items[i].shape.bytes * (size_t)g->p.frames;
    }
    assert_int_equal(cs_pixels_make(&g->p, &layout, &medium, &image, data, &err), CS_OK);
    float *got = malloc(most * sizeof *got);
    compare(g, file, got, values_of(g, &layout, &medium, data, got));
    compare_shape(g, file, &layout);
    free(got);
    for (int i = 0; i < layout.n_items; i++)
        free(data[i]);
    cs_image_free(&image);
    cs_arena_free(arena);
    g->n_compared++;
}

/* One class of a golden directory; returns how many pictures. */
static int compare_class(const char *dir, const char *name)
{
    struct golden g = {.name = name};
    struct cs_err err = {0};
    char path[512];

    snprintf(path, sizeof path, "%s/%s.pil.json", dir, name);
    json_t *config = json_load_file(path, 0, NULL);
    assert_non_null(config);
    if (cs_processor_read(config, &g.p, &err) != CS_OK)
        fail_msg("%s: %s", path, err.text);
    json_decref(config);
    g.encoder = encoder_for(&g.p);
    g.form = g.p.kind == CS_PROCESSOR_SMART                                       ? MERGED
             : g.p.kind == CS_PROCESSOR_BUDGET || g.p.kind == CS_PROCESSOR_POOLED ? PATCHES
                                                                                  : PLANES;
    snprintf(path, sizeof path, "%s/%s.pil.safetensors", dir, name);
    assert_int_equal(cs_st_open(path, &g.values, &err), CS_OK);
    snprintf(g.images, sizeof g.images, "%s/images", dir);
    DIR *images = opendir(g.images);
    assert_non_null(images);
    for (struct dirent *entry; (entry = readdir(images)) != NULL;)
        if (entry->d_name[0] != '.')
            compare_picture(&g, entry->d_name);
    closedir(images);
    cs_st_close(g.values);
    return g.n_compared;
}

/* decode, resize, rescale, normalise: what transformers' Pillow back end returns */
static void siglip_values_equal_transformers(void **state)
{
    (void)state;
    assert_true(compare_class(source_path("tests/golden/processors"), "siglip") >= 11);
}

/* Every NAME.pil.json of the directory that is kept apart. */
static void values_of_every_class_equal_transformers(void **state)
{
    char dir[400];
    int n_classes = 0;

    (void)state;
    snprintf(dir, sizeof dir, "%s", source_path("../shared/golden/processors"));
    DIR *all = opendir(dir);
    if (all == NULL)
        skip();
    for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
        char name[256];
        const char *end = strstr(entry->d_name, ".pil.json");
        if (end == NULL)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(end - entry->d_name), entry->d_name);
        assert_true(compare_class(dir, name) >= 3);
        n_classes++;
    }
    closedir(all);
    assert_true(n_classes >= 15);
}

static void smart_sizes_equal_transformers(void **state)
{
    json_t *rows =
        json_load_file(source_path("../shared/golden/processors/smart_resize.json"), 0, NULL);
    json_t *row = NULL;
    size_t i = 0;

    (void)state;
    if (rows == NULL)
        skip();
    json_array_foreach(rows, i, row)
    {
        json_int_t in[5], want[2] = {0};
        struct cs_extent got;
        for (size_t k = 0; k < 5; k++)
            in[k] = json_integer_value(json_array_get(json_array_get(row, 0), k));
        for (size_t k = 0; k < 2; k++)
            want[k] = json_integer_value(json_array_get(json_array_get(row, 1), k));
        const struct cs_extent from = {(int32_t)in[0], (int32_t)in[1]};
        const enum cs_status status = cs_size_smart(from, (int32_t)in[2], in[3], in[4], &got, NULL);
        assert_int_equal(status == CS_OK, json_is_array(json_array_get(row, 1)));
        if (got.height != want[0] || got.width != want[1])
            fail_msg("%lld x %lld becomes %d x %d, not %lld x %lld", (long long)in[0],
                     (long long)in[1], got.height, got.width, (long long)want[0],
                     (long long)want[1]);
    }
    assert_true(i >= 211);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siglip_values_equal_transformers),
        cmocka_unit_test(values_of_every_class_equal_transformers),
        cmocka_unit_test(smart_sizes_equal_transformers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
