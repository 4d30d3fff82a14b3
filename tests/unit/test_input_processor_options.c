/* Options of image processors: those that change pixels, and documents that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/media/pixels.h"
#include "input/media/sizes.h"
#include "support/tmpdir.h"

struct given {
    const char *name;
    struct cs_processor p;
    struct cs_media_encoder encoder;
    char images[400];
};

static struct cs_extent size_of(const struct cs_media_layout *layout,
                                const struct cs_medium *medium, int32_t item)
{
    const int32_t picture = layout->items[item].picture;
    if (picture == 0)
        return (struct cs_extent){medium->height, medium->width};
    return (struct cs_extent){layout->steps[picture - 1].height, layout->steps[picture - 1].width};
}

static uint64_t fnv(const uint8_t *bytes, size_t n)
{
    uint64_t value = 0xcbf29ce484222325u;

    for (size_t i = 0; i < n; i++)
        value = (value ^ bytes[i]) * 0x100000001b3u;
    return value;
}

/* One picture of tests/golden/processors.json: want has height, width and hash of its items. */
static void compare_items(const struct given *g, const char *file, const json_t *want,
                          int32_t n_of_sample)
{
    char path[512], hash[20];
    struct cs_image image = {0};
    struct cs_err err = {0};
    struct cs_media_layout layout;
    struct cs_arena *arena = cs_arena_new(0);
    uint8_t *data[64] = {0};

    snprintf(path, sizeof path, "%s/%s", g->images, file);
    assert_int_equal(cs_image_read(path, 0, &image, &err), CS_OK);
    const struct cs_medium medium = {.kind = CS_ITEM_IMAGE,
                                     .width = image.width,
                                     .height = image.height,
                                     .n_frames = 1,
                                     .n_of_sample = n_of_sample};
    if (cs_media_layout_make(&g->p, &g->encoder, &medium, arena, &layout, &err) != CS_OK)
        fail_msg("%s: %s: %s", g->name, file, err.text);
    if ((size_t)layout.n_items != json_array_size(want))
        fail_msg("%s: %s: %d items, not %zu", g->name, file, layout.n_items, json_array_size(want));
    for (int i = 0; i < layout.n_items; i++)
        data[i] = malloc((size_t)layout.items[i].shape.bytes);
    assert_int_equal(cs_pixels_make(&g->p, &layout, &medium, &image, data, &err), CS_OK);
    for (int i = 0; i < layout.n_items; i++) {
        const json_t *item = json_array_get(want, (size_t)i);
        const struct cs_extent size = size_of(&layout, &medium, i);
        snprintf(hash, sizeof hash, "%016llx",
                 (unsigned long long)fnv(data[i], (size_t)layout.items[i].shape.bytes));
        if (size.height != json_integer_value(json_array_get(item, 0)) ||
            size.width != json_integer_value(json_array_get(item, 1)) ||
            strcmp(hash, json_string_value(json_array_get(item, 2))) != 0)
            fail_msg("%s: %s: item %d of %d x %d differs", g->name, file, i, size.width,
                     size.height);
        free(data[i]);
    }
    cs_image_free(&image);
    cs_arena_free(arena);
}

/* Sizes in every spelling, filters, padding, cuts: the very pixels of transformers. */
static void options_change_pixels_as_in_transformers(void **state)
{
    json_t *entries = json_load_file(source_path("tests/golden/processors.json"), 0, NULL);
    json_t *entry = NULL, *want = NULL;
    size_t i = 0;

    (void)state;
    assert_true(json_array_size(entries) >= 30);
    json_array_foreach(entries, i, entry)
    {
        struct given g = {0};
        struct cs_err err = {0};
        char name[2000];
        const char *file = NULL;
        json_t *doc = json_object_get(entry, "processor");
        json_t *items = json_object_get(entry, "items");
        const bool is_together = json_is_true(json_object_get(entry, "together"));
        char *shown = json_dumps(doc, 0);
        snprintf(name, sizeof name, "%s", shown);
        free(shown);
        g.name = name;
        if (cs_processor_read(doc, &g.p, &err) != CS_OK)
            fail_msg("%s: %s", name, err.text);
        g.encoder = (struct cs_media_encoder){
            .family = "golden",
            .side = g.p.height,
            .patch = (int32_t)json_integer_value(json_object_get(entry, "patch")),
            .merge = g.p.merge,
            .frames = g.p.frames,
            .channels = 3};
        snprintf(g.images, sizeof g.images, "%s", source_path("tests/golden/processors/images"));
        json_object_foreach(items, file, want)
            compare_items(&g, file, want, is_together ? (int32_t)json_object_size(items) : 1);
    }
    json_decref(entries);
}

static void processors_that_differ_are_refused(void **state)
{
    static const struct {
        const char *json, *text;
    } rows[] = {
        {"{\"image_processor_type\":\"MyImageProcessor\"}",
         "MyImageProcessor is not known; those that are: CLIPImageProcessor"                                                            },
        {"{\"size\":{\"height\":3,\"width\":3}}",                                                   "image_processor_type is missing"   },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"shortest_edge\":3}}",
         "shortest_edge"                                                                                                                },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"height\":0,\"width\":3}}",
         "size.height is 0; it must be"                                                                                                 },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"resample\":6}",
         "resample is 6; it must be"                                                                                                    },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"image_std\":[0,1,1]}",
         "image_std is [0,1,1]"                                                                                                         },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"image_std\":[1e300,1,1]}",
         "image_std is [1e300"                                                                                                          },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"image_mean\":[1]}",                  "image_mean"                        },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":28}",
         "size is 28; for SiglipImageProcessor it must be"                                                                              },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":[28]}",
         "size is [28]; it must be"                                                                                                     },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"height\":28}}",
         "size has no width"                                                                                                            },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"size\":{\"height\":28,\"width\":28,"
         "\"shortest_edge\":28}}",                                                         "one kind of size"                  },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"do_convert_rgb\":false}",
         "do_convert_rgb is false"                                                                                                      },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"do_resize\":1}",
         "do_resize is 1; it must be true or false"                                                                                     },
        {"{\"image_processor_type\":\"SiglipImageProcessor\",\"rescale_factor\":0}",
         "rescale_factor is 0; it must be a number above 0"                                                                             },
        {"{\"image_processor_type\":\"Qwen2VLImageProcessor\",\"min_pixels\":9,\"max_pixels\":8}",
         "min_pixels is 9, over max_pixels"                                                                                             },
        {"{\"image_processor_type\":\"Qwen2VLImageProcessor\",\"size\":{\"shortest_edge\":9}}",
         "numbers of pixels"                                                                                                            },
        {"{\"image_processor_type\":\"PixtralImageProcessor\",\"patch_size\":{\"height\":4,"
         "\"width\":5}}",                                                                  "patch_size must be a square"       },
        {"{\"image_processor_type\":\"GotOcr2ImageProcessor\",\"min_patches\":5,"
         "\"max_patches\":4}",                                                             "min_patches is 5, over max_patches"},
        {"{\"image_processor_type\":\"LlavaNextImageProcessor\",\"image_grid_pinpoints\":[[3]]}",
         "image_grid_pinpoints[0]"                                                                                                      },
        {"{\"image_processor_type\":\"SmolVLMImageProcessor\",\"max_image_size\":64}",
         "max_image_size must be"                                                                                                       },
        {"{\"image_processor_type\":\"LlavaImageProcessor\",\"do_pad\":true,\"image_mean\":[2,0,0]"
         "}",                                                                              "padded with it"                    },
        {"[]",                                                                                      "not an object"                     },
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
    struct cs_arch arch = {
        .family = "siglip",
        .image_size = 56,
        .patch_size = 8,
        .channels = 3,
        .front = {.patch_frames = 1, .merge = 1}
    };
    struct cs_media_encoder encoder = cs_media_encoder_of(&arch);
    struct cs_processor p;
    struct cs_err err = {0};
    struct cs_media_bounds bounds;

    (void)state;
    cs_processor_default(&arch, &p);
    assert_int_equal(cs_media_bounds_of(&p, &encoder, &bounds, &err), CS_OK);
    assert_int_equal(bounds.rows, 49);
    assert_int_equal(bounds.item_bytes, 56 * 56 * 3);
    encoder.side = 224;
    assert_int_equal(cs_media_bounds_of(&p, &encoder, &bounds, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "56 x 56"));
    p.kind = CS_PROCESSOR_SMART;
    p.patch = 14;
    assert_int_equal(cs_media_bounds_of(&p, &encoder, &bounds, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "patch_size is 14"));
}

/* A size beside that of the tiles would bring more rows than the encoder has for a picture. */
static void items_have_the_size_of_their_encoder(void **state)
{
    static const char *const documents[] = {
        "{\"image_processor_type\":\"LlavaNextImageProcessor\",\"do_center_crop\":false,"
        "\"size\":{\"shortest_edge\":224},\"crop_size\":{\"height\":28,\"width\":28},"
        "\"image_grid_pinpoints\":[[28,56],[56,28]]}",
        "{\"image_processor_type\":\"CLIPImageProcessor\",\"do_center_crop\":true,\"do_resize\":"
        "true,"
        "\"size\":{\"shortest_edge\":28},\"crop_size\":{\"height\":28,\"width\":28}}",
    };
    const struct cs_media_encoder encoder = {
        .family = "test", .side = 28, .patch = 14, .merge = 1, .frames = 1, .channels = 3};
    const struct cs_medium medium = {
        .kind = CS_ITEM_IMAGE, .width = 300, .height = 200, .n_frames = 1, .n_of_sample = 1};

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(documents); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_err err = {.text = ""};
        struct cs_media_layout layout;
        struct cs_processor p;
        json_t *json = json_loads(documents[i], 0, NULL);
        assert_non_null(json);
        assert_int_equal(cs_processor_read(json, &p, &err), CS_OK);
        const enum cs_status status =
            cs_media_layout_make(&p, &encoder, &medium, arena, &layout, &err);
        if (status != (i == 0 ? CS_INVALID : CS_OK) ||
            (i == 0 && strstr(err.text, "224 x 224 pixels, but the encoder takes 28 x 28") == NULL))
            fail_msg("document %zu: %s", i, err.text);
        json_decref(json);
        cs_arena_free(arena);
    }
}

/* found by fuzzing: a picture as it is, larger than what slots have room for */
static void pictures_that_are_not_resized_stay_within_the_bounds(void **state)
{
    static const char document[] =
        "{\"image_processor_type\":\"Qwen2VLImageProcessor\",\"size\":{},"
        "\"patch_size\":14,\"merge_size\":1,\"temporal_patch_size\":1,"
        "\"do_resize\":false}";

    static const struct {
        int32_t side;
        enum cs_status status;
    } rows[] = {
        {28,   CS_OK     },
        {980,  CS_OK     },
        {1848, CS_INVALID}
    };
    const struct cs_media_encoder encoder = {
        .family = "test", .patch = 14, .merge = 1, .frames = 1, .channels = 3};

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_err err = {.text = ""};
        struct cs_media_layout layout;
        struct cs_processor p;
        json_t *json = json_loads(document, 0, NULL);
        const struct cs_medium medium = {.kind = CS_ITEM_IMAGE,
                                         .width = rows[i].side,
                                         .height = rows[i].side,
                                         .n_frames = 1,
                                         .n_of_sample = 1};
        assert_non_null(json);
        assert_int_equal(cs_processor_read(json, &p, &err), CS_OK);
        if (cs_media_layout_make(&p, &encoder, &medium, arena, &layout, &err) != rows[i].status ||
            (rows[i].status != CS_OK &&
             strstr(err.text, "do_resize is false and the processor's") == NULL))
            fail_msg("%d pixels a side: %s", rows[i].side, err.text);
        json_decref(json);
        cs_arena_free(arena);
    }
}

/* B-19, B-20: whatever the picture and the budget, sides are multiples and no side is lost. */
static void smart_sizes_never_lose_a_side(void **state)
{
    static const int32_t sides[] = {1, 13, 14, 27, 28, 29, 70, 257, 690, 5000, 15420};
    uint32_t random = 12345;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        int32_t side[2];
        struct cs_extent got;
        for (int k = 0; k < 2; k++) {
            random = random * 1664525u + 1013904223u;
            side[k] =
                i < 121 ? sides[k == 0 ? i / 11 : i % 11] : 1 + (int32_t)(random >> 8) % 20000;
        }
        const int32_t factor = random & 1 ? 28 : 32;
        const int64_t min = 1 + (random >> 4) % 100000, max = min + (random >> 2) % 1000000;
        const double ratio = (double)side[0] / side[1];
        const enum cs_status status =
            cs_size_smart((struct cs_extent){side[0], side[1]}, factor, min, max, &got, NULL);
        assert_int_equal(status == CS_OK, ratio <= 200 && ratio >= 1.0 / 200);
        assert_true(status != CS_OK || (got.height >= factor && got.width >= factor &&
                                        got.height % factor == 0 && got.width % factor == 0));
    }
}

/* What the joint processor of a model asks for holds over the document, which is told; so are keys that
 * the class does not read. */
static void what_does_not_hold_is_told(void **state)
{
    static const struct {
        const char *json;
        bool is_cut;
        enum cs_finding_kind kind;
        const char *text;
    } rows[] = {
        {"{\"image_processor_type\":\"GotOcr2ImageProcessorFast\",\"crop_to_patches\":false,"
         "\"processor_class\":\"InternVLProcessor\"}",                            true,  CS_FINDING_SHADOWED, "InternVLProcessor always asks for true"                          },
        {"{\"image_processor_type\":\"GotOcr2ImageProcessor\",\"crop_to_patches\":false}", false,
         CS_FINDING_DEFAULT,                                                                                           "size is not given"                                               },
        {"{\"image_processor_type\":\"Gemma3ImageProcessor\",\"do_pan_and_scan\":true,"
         "\"processor_class\":\"Gemma3Processor\"}",                              false, CS_FINDING_SHADOWED, "Gemma3Processor always asks for false"                           },
        {"{\"image_processor_type\":\"Gemma3ImageProcessor\",\"do_pan_and_scan\":true}",   true,
         CS_FINDING_DEFAULT,                                                                                           "the default of Gemma3ImageProcessor"                             },
        {"{\"image_processor_type\":\"Qwen2VLImageProcessor\",\"do_center_crop\":true}",   false,
         CS_FINDING_UNKNOWN,                                                                                           "do_center_crop is a key that Qwen2VLImageProcessor does not read"},
        {"{\"image_processor_type\":\"Qwen2VLImageProcessor\",\"min_pixel\":9}",           false,
         CS_FINDING_UNKNOWN,                                                                                           "did you mean \"min_pixels\""                                     },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_findings findings = {.arena = cs_arena_new(0)};
        json_t *json = json_loads(rows[i].json, 0, NULL);
        struct cs_processor p;
        bool is_told = false;
        assert_int_equal(
            cs_processor_read_doc(&(struct cs_doc){.name = "p", .where = "", .json = json},
                                  &findings, &p, NULL),
            CS_OK);
        assert_int_equal(p.is_cut, rows[i].is_cut);
        for (int k = 0; k < findings.n; k++)
            is_told = is_told || (findings.items[k].kind == rows[i].kind &&
                                  strstr(findings.items[k].text, rows[i].text) != NULL);
        if (!is_told)
            fail_msg("%s: nothing says \"%s\"", rows[i].json, rows[i].text);
        json_decref(json);
        cs_arena_free(findings.arena);
    }
}

/* A worker reads these keys alone: they must say what the class does where the document says nothing. */
static void a_document_without_colours_gets_those_of_its_class(void **state)
{
    static const char *const names[] = {"CLIPImageProcessor",    "SiglipImageProcessor",
                                        "LlavaImageProcessor",   "PixtralImageProcessor",
                                        "Gemma4ImageProcessor",  "GotOcr2ImageProcessor",
                                        "Qwen2VLImageProcessor", "LlavaNextImageProcessor"};

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        json_t *config = json_pack("{s:s, s:n}", "image_processor_type", names[i], "image_std");
        struct cs_processor before, after;
        struct cs_err err = {0};
        if (cs_processor_read(config, &before, &err) != CS_OK)
            fail_msg("%s: %s", names[i], err.text);
        cs_processor_say_colours(config);
        const json_t *mean = json_object_get(config, "image_mean"),
                     *std = json_object_get(config, "image_std");
        assert_int_equal(cs_processor_read(config, &after, &err), CS_OK);
        assert_memory_equal(before.mean, after.mean, sizeof before.mean);
        assert_memory_equal(before.std, after.std, sizeof before.std);
        assert_true(json_number_value(json_object_get(config, "rescale_factor")) > 0);
        assert_true(json_is_boolean(json_object_get(config, "do_rescale")));
        assert_int_equal(json_array_size(mean), 3);
        assert_int_equal(json_array_size(std), 3);
        for (size_t c = 0; c < 3 && json_is_true(json_object_get(config, "do_normalize")); c++) {
            assert_float_equal(json_number_value(json_array_get(mean, c)), before.mean[c], 1e-7);
            assert_float_equal(json_number_value(json_array_get(std, c)), before.std[c], 1e-7);
        }
        assert_int_equal(json_is_true(json_object_get(config, "do_normalize")), i != 4);
        json_decref(config);
    }
    json_t *said = json_pack("{s:s, s:f, s:[f,f,f]}", "image_processor_type", "CLIPImageProcessor",
                             "image_mean", 0.25, "image_std", 1.0, 2.0, 3.0);
    cs_processor_say_colours(said);
    assert_float_equal(json_number_value(json_array_get(json_object_get(said, "image_mean"), 2)),
                       0.25, 0);
    assert_float_equal(json_number_value(json_array_get(json_object_get(said, "image_std"), 1)),
                       2.0, 0);
    json_decref(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_change_pixels_as_in_transformers),
        cmocka_unit_test(processors_that_differ_are_refused),
        cmocka_unit_test(a_document_without_colours_gets_those_of_its_class),
        cmocka_unit_test(smart_sizes_never_lose_a_side),
        cmocka_unit_test(what_does_not_hold_is_told),
        cmocka_unit_test(processor_and_encoder_must_agree),
        cmocka_unit_test(items_have_the_size_of_their_encoder),
        cmocka_unit_test(pictures_that_are_not_resized_stay_within_the_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
