/* Videos: frames that are taken, their sizes, pixels and texts against transformers (tests/golden/make_videos.py);
 * clips from folders, lists and files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/media/video/clip.h"
#include "input/media/video/number_words.h"
#include "input/media/video/video_layout.h"
#include "input/media/video/video_sizes.h"
#include "store/safetensors.h"
#include "support/need.h"
#include "support/tmpdir.h"

static json_t *golden;

/* The same numbers and pixels as make_videos.py. */
static uint32_t below(uint32_t *x, uint32_t n)
{
    *x = *x * UINT32_C(1664525) + UINT32_C(1013904223);
    return (*x >> 8) % n;
}

static uint64_t digest(uint64_t h, int32_t number)
{
    for (int i = 0; i < 4; i++)
        h = (h ^ (((uint32_t)number >> (8 * i)) & 0xff)) * UINT64_C(0x100000001b3);
    return h;
}

static const uint64_t digest_start = UINT64_C(0xcbf29ce484222325);

static uint8_t *make_frame(int k, int32_t height, int32_t width)
{
    uint8_t *out = malloc((size_t)height * (size_t)width * 3), *at = out;

    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < 3; c++)
                *at++ = (uint8_t)((x * 5 + y * 3 + k * 29 + c * 71 + ((x * y) >> 3)) ^
                                  ((x >> 2) * (k + 1)));
    return out;
}

static void check_digest(uint64_t h, const json_t *row)
{
    char text[20];

    snprintf(text, sizeof text, "%016llx", (unsigned long long)h);
    if (strcmp(text, json_string_value(json_object_get(row, "digest"))) != 0) {
        char *shown = json_dumps(row, 0);
        fail_msg("%s: digest %s", shown, text);
    }
}

static struct cs_video_processor read_row(const json_t *row)
{
    struct cs_video_processor p;
    struct cs_err err = {0};
    json_t *config = json_deep_copy(json_object_get(row, "document"));
    const struct cs_doc doc = {.name = "v.json", .where = "", .json = config};

    json_object_set_new(
        config, "video_processor_type",
        json_sprintf("%sVideoProcessor", json_string_value(json_object_get(row, "class"))));
    need(cs_video_processor_read(&doc, NULL, &p, &err), &err);
    json_decref(config);
    return p;
}

static int32_t integer(const json_t *row, const char *key)
{
    return (int32_t)json_integer_value(json_object_get(row, key));
}

static void taken_frames_equal_transformers(void **state)
{
    static const double rates[] = {24.0, 25.0, 30.0, 29.97002997002997, 23.976023976023978,
                                   15.0, 60.0, 12.5};
    json_t *row = NULL;
    size_t i = 0;

    (void)state;
    json_array_foreach(json_object_get(golden, "frames"), i, row)
    {
        const struct cs_video_processor p = read_row(row);
        uint64_t h = digest_start;
        uint32_t x = 7;
        for (int v = 0; v < 2000; v++) {
            struct cs_arena *arena = cs_arena_new(0);
            struct cs_video_frames frames = {0};
            struct cs_video_info info = {.width = 8, .height = 8};
            info.n_frames = 1 + below(&x, 900);
            info.fps = rates[below(&x, 8)];
            if (cs_video_frames_take(&p, &info, arena, &frames, NULL) != CS_OK)
                frames.n = 0;
            h = digest(h, frames.n);
            for (int32_t k = 0; k < frames.n; k++)
                h = digest(h, frames.index[k]);
            cs_arena_free(arena);
        }
        check_digest(h, row);
    }
    assert_true(i > 10);
}

/* 100,000 videos for each setting */
static void sizes_equal_transformers(void **state)
{
    json_t *row = NULL;
    size_t i = 0;

    (void)state;
    json_array_foreach(json_object_get(golden, "sizes"), i, row)
    {
        const struct cs_video_processor p = read_row(row);
        uint64_t h = digest_start;
        uint32_t x = 11;
        for (int v = 0; v < 100000; v++) {
            const int32_t n = 1 + (int32_t)below(&x, 60);
            struct cs_extent from, to = {-1, -1};
            from.height = 1 + (int32_t)below(&x, 1500);
            from.width = 1 + (int32_t)below(&x, 1500);
            if (cs_video_size(&p, from, n, &to, NULL) != CS_OK)
                to = (struct cs_extent){-1, -1};
            h = digest(digest(h, to.height), to.width);
        }
        check_digest(h, row);
    }
    assert_true(i > 4);
}

/* A video of frames that are all taken, laid out for an encoder. */
struct laid_out {
    struct cs_arena *arena;
    struct cs_video_frames frames;
    struct cs_media_layout layout;
};

static struct laid_out lay_out(const struct cs_video_processor *p,
                               const struct cs_media_encoder *encoder,
                               const struct cs_video_info *info)
{
    struct laid_out l = {.arena = cs_arena_new(0)};
    struct cs_err err = {0};

    need(cs_video_frames_take(p, info, l.arena, &l.frames, &err), &err);
    need(cs_video_layout_make(p, encoder, info, &l.frames, l.arena, &l.layout, &err), &err);
    return l;
}

/* What an encoder must be for a processor. */
static struct cs_media_encoder encoder_for(const struct cs_video_processor *p, int32_t patch,
                                           int32_t merge)
{
    return (struct cs_media_encoder){
        .family = "test",
        .side = p->height,
        .patch = p->height > 0 ? patch : p->patch,
        .merge = p->height > 0 ? merge : p->merge,
        .frames = p->frames,
        .channels = 3,
    };
}

/* Value of channel c at a pixel of a frame of the items, as the encoder gets it. */
static float value_at(const struct cs_video_processor *p, const uint8_t *data, size_t at, int c)
{
    return ((float)((double)data[at * 3 + (size_t)c] * p->rescale) - p->mean[c]) / p->std[c];
}

/* The i-th value of what transformers returns, from the frames of the items (all frames one behind the other). */
static float original_order(const struct cs_video_processor *p, const uint8_t *data, int64_t i,
                            int32_t height, int32_t width, const int32_t *shape)
{
    const int64_t s = p->patch > 0 ? p->patch : 1, m = p->merge > 0 ? p->merge : 1;
    int64_t k = 0, y = 0, x = 0, c = 0;

    if (p->kind == CS_VIDEO_QWEN2 || p->kind == CS_VIDEO_QWEN3) {
        /* (time, group row, group column, row, column) x (channel, frame, y, x) */
        const int64_t values = 3 * p->frames * s * s, patch = i / values, in = i % values;
        const int64_t wide = width / s, high = height / s, per = high * wide, t = patch / per;
        const int64_t group = patch % per / (m * m), within = patch % (m * m);
        c = in / (p->frames * s * s);
        k = t * p->frames + in / (s * s) % p->frames;
        y = (group / (wide / m) * m + within / m) * s + in / s % s;
        x = (group % (wide / m) * m + within % m) * s + in % s;
    } else if (p->kind == CS_VIDEO_SOFT) {
        /* (frame, patch, y, x, channel), padded with patches of zeros */
        const int64_t values = shape[3], patch = i / values % shape[2], in = i % values;
        const int64_t wide = width / s, high = height / s;
        if (patch >= wide * high)
            return 0;
        k = i / (values * shape[2]);
        c = in % 3;
        y = patch / wide * s + in / 3 / s;
        x = patch % wide * s + in / 3 % s;
    } else { /* (frame, channel, y, x) */
        const int64_t area = (int64_t)height * width;
        k = i / (3 * area);
        c = i / area % 3;
        y = i % area / width;
        x = i % width;
    }
    return value_at(p, data, (size_t)((k * height + y) * width + x), (int)c);
}

enum { ALL_BYTES = 1 << 22 };

static void compare_pixels(const struct cs_st_file *file, const json_t *row)
{
    const struct cs_video_processor p = read_row(row);
    const char *name = json_string_value(json_object_get(row, "name"));
    const struct cs_media_encoder encoder = encoder_for(&p, 7, 1);
    const struct cs_video_info info = {.n_frames = integer(row, "frames"),
                                       .height = integer(row, "height"),
                                       .width = integer(row, "width"),
                                       .fps = 4,
                                       .is_list = true};
    const struct cs_st_tensor *want = cs_st_find(file, name);
    struct laid_out l = lay_out(&p, &encoder, &info);
    struct cs_err err = {0};
    int32_t shape[8] = {0};
    char shape_name[64];
    size_t bytes = 0;

    assert_non_null(want);
    snprintf(shape_name, sizeof shape_name, "%s.shape", name);
    const struct cs_st_tensor *shape_of = cs_st_find(file, shape_name);
    need(cs_st_read_raw(shape_of, 0, (size_t)shape_of->count * 4, shape, &err), &err);
    for (int32_t i = 0; i < l.layout.n_items; i++)
        bytes += (uint32_t)l.layout.items[i].shape.bytes;
    assert_true(bytes <= ALL_BYTES);
    uint8_t *all = malloc(ALL_BYTES), **data = calloc((size_t)l.layout.n_items, sizeof *data);
    for (int32_t i = 0; i < l.layout.n_items; i++)
        data[i] = i == 0 ? all : data[i - 1] + l.layout.items[i - 1].shape.bytes;
    for (int32_t k = 0; k < l.frames.n; k++) {
        uint8_t *rgb = make_frame(l.frames.index[k], info.height, info.width);
        need(cs_video_pixels(&p, &l.layout, k, rgb, info.width, info.height, data, &err), &err);
        free(rgb);
    }
    const struct cs_picture_step *last = &l.layout.steps[l.layout.items[0].picture - 1];
    int64_t n = 1;
    for (int64_t i = 0; i < shape_of->count; i++)
        n *= shape[i];
    assert_int_equal(want->count, (n + 16) / 17);
    float *values = malloc((size_t)want->count * sizeof *values);
    need(cs_st_read_f32(want, 0, want->count, values, &err), &err);
    for (int64_t i = 0; i < want->count; i++) {
        const float got = original_order(&p, all, i * 17, last->height, last->width, shape);
        if (!(fabsf(got - values[i]) < 1e-5f))
            fail_msg("%s: value %lld is %g, want %g", name, (long long)(i * 17), (double)got,
                     (double)values[i]);
    }
    free(values);
    free(all);
    free(data);
    cs_arena_free(l.arena);
}

static void pixels_equal_transformers(void **state)
{
    struct cs_st_file *file = NULL;
    struct cs_err err = {0};
    json_t *row = NULL;
    size_t i = 0;

    (void)state;
    need(cs_st_open(source_path("tests/golden/videos.safetensors"), &file, &err), &err);
    json_array_foreach(json_object_get(golden, "pixels"), i, row) compare_pixels(file, row);
    assert_int_equal(i, 6);
    cs_st_close(file);
}

/* Pieces as text: placeholder rows as [n]. */
static char *text_of(const struct cs_media_layout *layout)
{
    char *out = calloc(1, 1 << 16), *at = out;
    int32_t rows = 0;

    for (int32_t i = 0; i <= layout->n_pieces; i++) {
        const struct cs_media_piece *piece = &layout->pieces[i];
        if (i < layout->n_pieces && piece->kind != CS_MEDIA_TEXT) {
            rows += piece->n_rows;
            continue;
        }
        if (rows > 0)
            at += sprintf(at, "[%d]", rows);
        rows = 0;
        if (i < layout->n_pieces)
            at += sprintf(at, "%s", piece->text);
    }
    return out;
}

static void texts_equal_transformers(void **state)
{
    json_t *row = NULL;
    size_t i = 0;

    (void)state;
    json_array_foreach(json_object_get(golden, "texts"), i, row)
    {
        const struct cs_video_processor p = read_row(row);
        const int32_t patch = p.kind == CS_VIDEO_POOLED ? 7 : p.kind == CS_VIDEO_TIMED ? 16 : 4;
        const struct cs_media_encoder encoder =
            encoder_for(&p, patch, p.kind == CS_VIDEO_NUMBERED ? 2 : 1);
        const struct cs_video_info info = {.n_frames = integer(row, "frames"),
                                           .height = 40,
                                           .width = 36,
                                           .fps = json_number_value(json_object_get(row, "fps")),
                                           .is_list = true};
        struct laid_out l = lay_out(&p, &encoder, &info);
        const double seconds = json_number_value(json_object_get(row, "seconds"));
        char *text = text_of(&l.layout);
        assert_string_equal(text, json_string_value(json_object_get(row, "text")));
        if (seconds > 0)
            assert_true(fabs(l.layout.grid_seconds - seconds) < 1e-6 * seconds);
        free(text);
        cs_arena_free(l.arena);
    }
    assert_true(i > 10);
}

/* tokens_per_second times whole seconds; frames less than a second apart all stand at one position */
static void times_of_qwen25_are_whole_seconds(void **state)
{
    static const struct {
        double fps;
        int32_t step;
    } rows[] = {
        {2.0,  2 },
        {0.8,  4 },
        {0.99, 4 },
        {24.0, -1},
    };
    const struct cs_video_processor p = {.kind = CS_VIDEO_QWEN2,
                                         .name = "test",
                                         .patch = 14,
                                         .merge = 2,
                                         .frames = 2,
                                         .min_pixels = 784,
                                         .max_pixels = 9000,
                                         .does_resize = true};

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_media_encoder encoder = encoder_for(&p, 14, 2);
        const struct cs_video_info info = {
            .n_frames = 6, .height = 30, .width = 30, .fps = rows[i].fps, .is_list = true};
        encoder.tokens_per_second = 2;
        struct laid_out l = lay_out(&p, &encoder, &info);
        assert_int_equal(l.layout.items[0].shape.time_step, rows[i].step);
        cs_arena_free(l.arena);
    }
}

static void blended_rows_equal_torch(void **state)
{
    json_t *row = NULL;
    size_t i = 0;

    (void)state;
    json_array_foreach(json_object_get(golden, "blends"), i, row)
    {
        const int32_t side = integer(row, "side"), half = (side + 1) / 2;
        const struct cs_video_processor p = {.kind = CS_VIDEO_POOLED,
                                             .name = "test",
                                             .frames = 1,
                                             .height = side * 4,
                                             .width = side * 4,
                                             .does_resize = true};
        const struct cs_media_encoder encoder = encoder_for(&p, 4, 1);
        const struct cs_video_info info = {.n_frames = 2, .height = 9, .width = 9, .is_list = true};
        struct laid_out l = lay_out(&p, &encoder, &info);
        const json_t *rows = json_object_get(row, "rows"), *out = json_object_get(row, "out");
        assert_int_equal(l.layout.n_rows, 2 * half * half + 1);
        assert_int_equal(l.layout.n_learned, 1);
        for (int32_t k = 0; k < half * half; k++) {
            const struct cs_media_blend *b = &l.layout.blends[half * half + k]; /* 2nd frame */
            double sum = 0;
            for (int j = 0; j < 4; j++) {
                assert_in_range(b->row[j], side * side, 2 * side * side - 1);
                sum += b->weight[j] *
                       json_number_value(json_array_get(rows, (size_t)(b->row[j] - side * side)));
            }
            if (!(fabs(sum - json_number_value(json_array_get(out, (size_t)k))) < 1e-5))
                fail_msg("side %d, row %d: %g", side, k, sum);
        }
        cs_arena_free(l.arena);
    }
    assert_int_equal(i, 2);
}

/* No video becomes more than the bounds say. */
static void bounds_hold(void **state)
{
    static const char *const documents[] = {
        "{\"class\": \"Qwen2VL\", \"document\": {\"fps\": 2, \"do_sample_frames\": true, "
        "\"max_frames\": 20}}",
        "{\"class\": \"Qwen2VL\", \"document\": {\"fps\": 2, \"do_sample_frames\": true, "
        "\"max_frames\": 20, \"cap_pixels_per_frame\": true, \"max_video_tokens\": 900}}",
        "{\"class\": \"Qwen3VL\", \"document\": {\"max_frames\": 30}}",
        "{\"class\": \"Qwen3VL\", \"document\": {\"max_frames\": 30, \"cap_pixels_per_frame\": "
        "true}}",
        "{\"class\": \"LlavaOnevision\", \"document\": {\"num_frames\": 5, \"do_sample_frames\": "
        "true}}",
        "{\"class\": \"Gemma4\", \"document\": {}}",
    };
    uint32_t x = 5;

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(documents); i++) {
        json_t *row = json_loads(documents[i], 0, NULL);
        const struct cs_video_processor p = read_row(row);
        const struct cs_media_encoder encoder = encoder_for(&p, 16, 1);
        struct cs_media_bounds most;
        struct cs_err err = {0};
        need(cs_video_bounds_of(&p, &encoder, cs_video_most_frames(&p), &most, &err), &err);
        for (int k = 0; k < 3000; k++) {
            struct cs_arena *arena = cs_arena_new(0);
            struct cs_video_info info = {.fps = 10};
            struct cs_video_frames f;
            struct cs_media_layout l;
            int64_t rows = 0;
            info.n_frames = 1 + below(&x, 400);
            info.width = 1 + (int32_t)below(&x, k % 3 == 0 ? 60 : 2500);
            info.height = 1 + (int32_t)below(&x, k % 5 == 0 ? 60 : 2500);
            if (cs_video_frames_take(&p, &info, arena, &f, NULL) == CS_OK &&
                cs_video_layout_make(&p, &encoder, &info, &f, arena, &l, NULL) == CS_OK) {
                for (int32_t n = 0; n < l.n_items; n++) {
                    rows += l.items[n].shape.rows;
                    assert_true(l.items[n].shape.rows <= most.item_rows);
                    assert_true(l.items[n].shape.bytes <= most.item_bytes);
                }
                assert_true(l.n_items <= most.items && rows <= most.rows);
                assert_true(l.n_rows <= most.placeholders);
            }
            cs_arena_free(arena);
        }
        json_decref(row);
    }
}

/* frames that are taken as they are, in a number that nobody can hold */
static void videos_without_end_are_refused(void **state)
{
    static const char *const documents[] = {
        "{\"class\": \"Qwen2VL\", \"document\": {\"max_pixels\": 1073741824, \"min_pixels\": "
        "60000000}}",
        "{\"class\": \"LlavaOnevision\", \"document\": {\"size\": {\"height\": 7000, \"width\": "
        "7000}}}",
        "{\"class\": \"InternVL\", \"document\": {\"size\": {\"height\": 7000, \"width\": 7000}}}",
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(documents); i++) {
        json_t *row = json_loads(documents[i], 0, NULL);
        const struct cs_video_processor p = read_row(row);
        const struct cs_media_encoder encoder = encoder_for(&p, 1, 1);
        const struct cs_video_info info = {
            .n_frames = CS_VIDEO_MAX_FRAMES, .height = 900, .width = 900, .is_list = true};
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_video_frames frames;
        struct cs_media_layout layout;
        struct cs_err err = {0};
        need(cs_video_frames_take(&p, &info, arena, &frames, &err), &err);
        assert_int_equal(cs_video_layout_make(&p, &encoder, &info, &frames, arena, &layout, &err),
                         CS_LIMIT);
        assert_non_null(strstr(err.text, "more than 2 GiB"));
        cs_arena_free(arena);
        json_decref(row);
    }
}

static void numbers_are_spelled(void **state)
{
    static const struct {
        int n;
        const char *words;
    } rows[] = {
        {0,      "zero"                                                               },
        {13,     "thirteen"                                                           },
        {64,     "sixty-four"                                                         },
        {100,    "one hundred"                                                        },
        {101,    "one hundred and one"                                                },
        {1000,   "one thousand"                                                       },
        {1001,   "one thousand and one"                                               },
        {1100,   "one thousand, one hundred"                                          },
        {16384,  "sixteen thousand, three hundred and eighty-four"                    },
        {999999, "nine hundred and ninety-nine thousand, nine hundred and ninety-nine"},
    };

    char words[CS_NUMBER_WORDS_CAP];

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        cs_number_words(rows[i].n, words);
        assert_string_equal(words, rows[i].words);
    }
}

static void processors_that_do_otherwise_are_refused(void **state)
{
    static const struct {
        const char *document, *word;
    } rows[] = {
        {"{}",                                                                                       "video_processor_type"},
        {"{\"video_processor_type\": \"Glm4vVideoProcessor\"}",                                      "Glm4v"               },
        {"{\"video_processor_type\": \"InternVLVideoProcessor\", \"do_center_crop\": true}",
         "do_center_crop"                                                                                                  },
        {"{\"video_processor_type\": \"InternVLVideoProcessor\", \"size\": {\"shortest_edge\": 5}}",
         "height"                                                                                                          },
        {"{\"video_processor_type\": \"Qwen3VLVideoProcessor\", \"size\": {\"height\": 5, "
         "\"width\": 5}}",                                                                  "shortest_edge"       },
        {"{\"video_processor_type\": \"Qwen3VLVideoProcessor\", \"image_std\": [1, 0, 1]}",
         "image_std"                                                                                                       },
        {"{\"video_processor_type\": \"Qwen3VLVideoProcessor\", \"fps\": -1}",                       "fps"                 },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_video_processor p;
        struct cs_err err = {0};
        json_t *config = json_loads(rows[i].document, 0, NULL);
        const struct cs_doc doc = {.name = "v.json", .where = "", .json = config};
        assert_non_null(config);
        assert_int_not_equal(cs_video_processor_read(&doc, NULL, &p, &err), CS_OK);
        if (strstr(err.text, rows[i].word) == NULL || strstr(err.text, "v.json") == NULL)
            fail_msg("%s: %s", rows[i].document, err.text);
        json_decref(config);
    }
}

/* where a directory has no document for videos, that of its pictures stands for both */
static void a_picture_processor_stands_for_videos(void **state)
{
    struct cs_video_processor p;
    struct cs_err err = {0};
    json_t *config = json_loads(
        "{\"image_processor_type\": \"Qwen2VLImageProcessorFast\", \"min_pixels\": 3136, "
        "\"max_pixels\": 12845056, \"patch_size\": 14, \"merge_size\": 2, "
        "\"temporal_patch_size\": 2, \"image_mean\": [0.5, 0.5, 0.5]}",
        0, NULL);
    const struct cs_doc doc = {.name = "p.json", .where = "", .json = config};

    (void)state;
    need(cs_video_processor_read(&doc, NULL, &p, &err), &err);
    assert_int_equal(p.kind, CS_VIDEO_QWEN2);
    assert_int_equal(p.min_pixels, 3136);
    assert_int_equal(p.max_pixels, 12845056);
    assert_true(p.mean[0] == 0.5f);
    assert_false(p.does_sample);
    json_decref(config);
}

static int set_up(void **state)
{
    (void)state;
    golden = json_load_file(source_path("tests/golden/videos.json"), 0, NULL);
    return golden == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_frames_equal_transformers),
        cmocka_unit_test(sizes_equal_transformers),
        cmocka_unit_test(pixels_equal_transformers),
        cmocka_unit_test(texts_equal_transformers),
        cmocka_unit_test(times_of_qwen25_are_whole_seconds),
        cmocka_unit_test(blended_rows_equal_torch),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(videos_without_end_are_refused),
        cmocka_unit_test(numbers_are_spelled),
        cmocka_unit_test(processors_that_do_otherwise_are_refused),
        cmocka_unit_test(a_picture_processor_stands_for_videos),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
