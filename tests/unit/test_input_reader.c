/* Files of samples as an encoder reads them: sounds and videos from their keys to the data of their items. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "input/data/reader.h"
#include "input/media/video/clip.h"
#include "support/avi.h"
#include "support/need.h"
#include "support/tmpdir.h"

enum { SIDE = 28, FRAMES = 6, FRAME_BYTES = SIDE * SIDE * 3 };

static char *dir;
static uint8_t frames_rgb[FRAMES][FRAME_BYTES];

/* One sample and the reader of its only encoder. */
struct world {
    struct cs_arena *arena;
    struct cs_spec_module spec;
    struct cs_module module;
    struct cs_record_keys *keys;
    struct cs_dataset *set;
    struct cs_reader reader;
    struct cs_sizes *sizes;
    struct cs_reader_caches caches;
    char *cache_dir;
    struct cs_record *record;
    struct cs_err err;
};

static void open_world(struct world *w, const struct cs_arch *arch, const char *processor,
                       const char *video, const char *sample)
{
    const bool has_sound = arch->front.stem == CS_STEM_FRAMES;
    const struct cs_record_encoder encoder = {.name = "it",
                                              .token = has_sound ? "<|AUDIO|>" : "<image>",
                                              .key = "",
                                              .has_sound = has_sound,
                                              .has_video = video != NULL};
    const struct cs_dataset_options options = {.root = dir};
    const char *path = tmpdir_path(dir, "set.jsonl");

    memset(w, 0, sizeof *w);
    w->arena = cs_arena_new(0);
    w->spec.processor = json_loads(processor, 0, NULL);
    w->spec.video = video != NULL ? json_loads(video, 0, NULL) : NULL;
    w->module = (struct cs_module){.name = "it.encoder", .arch = *arch, .spec = &w->spec};
    w->sizes = cs_sizes_new();
    w->caches.memory = cs_cache_new(1 << 22);
    w->cache_dir = tmpdir_new();
    need(cs_disk_cache_open(w->cache_dir, 1 << 24, &w->caches.disk, &w->err), &w->err);
    tmpdir_write(path, sample, strlen(sample));
    need(cs_record_keys_new(&encoder, 1, w->arena, &w->keys, &w->err), &w->err);
    need(cs_dataset_open(path, &options, w->keys, &w->set, &w->err), &w->err);
    need(cs_reader_open(&w->module, 0, &w->reader, &w->err), &w->err);
    need(cs_dataset_read(w->set, 0, NULL, &w->record, &w->err), &w->err);
}

static void close_world(struct world *w)
{
    cs_record_free(w->record);
    cs_dataset_close(w->set);
    cs_sizes_free(w->sizes);
    cs_cache_free(w->caches.memory);
    cs_disk_cache_close(w->caches.disk);
    tmpdir_free(w->cache_dir);
    json_decref((json_t *)(uintptr_t)w->spec.processor);
    json_decref((json_t *)(uintptr_t)w->spec.video);
    cs_arena_free(w->arena);
}

/* The i-th file of the sample, laid out and loaded three times: again from memory, and from disk. */
static uint8_t *load_file(struct world *w, int32_t i, struct cs_sample_media *media)
{
    bool is_saturated = false;

    *media = (struct cs_sample_media){.file = &w->record->files[0][i]};
    need(cs_reader_lay_out(&w->reader, w->set, w->sizes, 1, w->arena, media, &w->err), &w->err);
    const size_t n = cs_reader_bytes(&media->layout);
    uint8_t *data = malloc(n + 1), *again = malloc(n + 1);
    need(cs_reader_load(&w->reader, w->set, &w->caches, media, data, &is_saturated, &w->err),
         &w->err);
    need(cs_reader_load(&w->reader, w->set, &w->caches, media, again, &is_saturated, &w->err),
         &w->err);
    assert_memory_equal(data, again, n);
    struct cs_reader_caches empty = {.memory = cs_cache_new(0), .disk = w->caches.disk};
    struct cs_disk_cache_use before, after;
    cs_disk_cache_use(w->caches.disk, &before);
    memset(again, 0, n);
    need(cs_reader_load(&w->reader, w->set, &empty, media, again, &is_saturated, &w->err), &w->err);
    cs_disk_cache_use(w->caches.disk, &after);
    const bool is_list = media->file->frames != NULL || strchr(media->file->name, '.') == NULL;
    assert_int_equal(after.n_found - before.n_found,
                     is_list ? 0 : 1); /* lists and folders are made anew */
    assert_memory_equal(data, again, n);
    cs_cache_free(empty.memory);
    free(again);
    return data;
}

/* --- sounds ----------------------------------------------------------------------------------- */

#define WHISPER "{\"feature_extractor_type\": \"WhisperFeatureExtractor\", \"feature_size\": 80}"

static void copy_media(const char *name)
{
    char from[256];
    size_t n = 0;

    snprintf(from, sizeof from, "%s/%s", source_path("tests/golden/media"), name);
    char *bytes = tmpdir_read(from, &n);
    assert_non_null(bytes);
    tmpdir_write(tmpdir_path(dir, name), bytes, n);
    free(bytes);
}

static void sounds_become_the_features_of_their_encoder(void **state)
{
    static const struct {
        const char *type;
        int32_t group, rows; /* of its projector; of the language model, 0: as the sound is long */
    } encoders[] = {
        {"whisper",             1, 1500},
        {"qwen2_audio_encoder", 1, 0   },
        {"voxtral_encoder",     1, 1500},
        {"voxtral_encoder",     4, 375 },
    };

    (void)state;
    copy_media("stereo.mp3");
    for (size_t f = 0; f < CS_ARRAY_LEN(encoders); f++) {
        json_t *config =
            json_pack("{s:s, s:i}", "model_type", encoders[f].type, "num_mel_bins", 80);
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_arch arch;
        struct cs_err err = {0};
        need(cs_arch_from_config(config, arena, &arch, &err), &err);
        arch.front.merge = encoders[f].group; /* as the graph joins them */
        struct world w;
        struct cs_sample_media media;
        struct cs_sound_layout layout;
        struct cs_sound sound = {0};
        struct cs_mel *mel = NULL;
        const char *path = tmpdir_path(dir, "stereo.mp3");
        open_world(
            &w, &arch, WHISPER, NULL,
            "{\"audios\": [\"stereo.mp3\"], \"messages\": [{\"role\": \"user\", "
            "\"content\": \"<audio>What?\"}, {\"role\": \"assistant\", \"content\": \"A\"}]}");
        assert_int_equal(w.record->n_files[0], 1);
        uint8_t *data = load_file(&w, 0, &media);
        const struct cs_item_shape *shape = &media.layout.items[0].shape;
        need(cs_sound_read(&(struct cs_sound_source){.name = path}, 16000, 0, &sound, NULL, &w.err),
             &w.err);
        assert_int_equal(media.medium.n_samples, sound.n_samples);
        need(cs_sound_layout_make(&w.reader.sound, w.reader.family, sound.n_samples, &layout, NULL),
             &w.err);
        assert_int_equal(shape->kind, CS_ITEM_SOUND);
        assert_int_equal(shape->rows, encoders[f].rows > 0 ? encoders[f].rows : layout.rows);
        assert_int_equal(layout.rows < 1500 && encoders[f].group == 1, encoders[f].rows == 0);
        assert_int_equal(shape->bytes, layout.data_frames * 80 * 4);
        need(cs_mel_new(16000, 80, 400, 160, &mel, &w.err), &w.err);
        float *want = malloc((size_t)shape->bytes);
        need(cs_sound_features(&w.reader.sound, mel, &layout, sound.samples, want, &w.err), &w.err);
        assert_memory_equal(data, want, (size_t)shape->bytes);
        cs_mel_free(mel);
        cs_sound_free(&sound);
        free(want);
        free(data);
        close_world(&w);
        cs_arena_free(arena);
        json_decref(config);
    }
}

static void a_processor_of_other_bands_is_refused(void **state)
{
    const struct cs_arch arch = {.kind = CS_MODULE_ENCODER, .family = "whisper", .channels = 128};
    struct cs_spec_module spec = {.processor = json_loads(WHISPER, 0, NULL)};
    const struct cs_module module = {.name = "audio.encoder", .arch = arch, .spec = &spec};
    struct cs_reader reader;
    struct cs_err err = {0};

    (void)state;
    assert_int_equal(cs_reader_open(&module, 0, &reader, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "audio.encoder"));
    assert_non_null(strstr(err.text, "80 mel bands"));
    json_decref((json_t *)(uintptr_t)spec.processor);
}

/* --- videos ----------------------------------------------------------------------------------- */

#define PICTURES                                                                                   \
    "{\"image_processor_type\": \"SiglipImageProcessor\", \"size\": {\"height\": 28, \"width\": "  \
    "28}}"
#define VIDEO                                                                                      \
    "{\"video_processor_type\": \"InternVLVideoProcessor\", \"size\": {\"height\": 28, "           \
    "\"width\": 28}, \"num_frames\": 3, \"do_sample_frames\": true, \"image_mean\": 0.5, "         \
    "\"image_std\": 0.5}"

static const struct cs_arch picture_arch = {
    .kind = CS_MODULE_ENCODER,
    .family = "siglip",
    .image_size = SIDE,
    .patch_size = 7,
    .channels = 3,
    .front = {.merge = 1, .patch_frames = 1}
};

static void write_frames(void)
{
    const char *folder = tmpdir_path(dir, "clip");
    size_t size = 0;

    mkdir(folder, 0700);
    for (int k = 0; k < FRAMES; k++) {
        char name[32];
        png_image image = {
            .version = PNG_IMAGE_VERSION, .width = SIDE, .height = SIDE, .format = PNG_FORMAT_RGB};
        snprintf(name, sizeof name, "clip/%d.png", k + 8);
        assert_true(
            png_image_write_to_file(&image, tmpdir_path(dir, name), 0, frames_rgb[k], 0, NULL));
    }
    uint8_t *avi = cs_test_avi(frames_rgb[0], FRAMES, SIDE, SIDE, 10, 1, &size);
    tmpdir_write(tmpdir_path(dir, "clip.avi"), avi, size);
    free(avi);
}

/* The frames of a file are these of the video. */
static void expect_frames(struct world *w, int32_t i, const int *index, int n)
{
    struct cs_sample_media media;
    uint8_t *data = load_file(w, i, &media);

    assert_true(media.file->is_video);
    assert_int_equal(media.layout.n_items, n);
    assert_int_equal(media.layout.n_rows, 16 * n);
    for (int k = 0; k < n; k++)
        assert_memory_equal(data + k * FRAME_BYTES, frames_rgb[index[k]], FRAME_BYTES);
    free(data);
}

static void videos_are_files_folders_and_lists(void **state)
{
    static const int all[] = {0, 1, 2, 3, 4, 5}, list[] = {4, 1}, middle[] = {1, 3, 5};
    struct world w;

    (void)state;
    write_frames();
    open_world(&w, &picture_arch, PICTURES, VIDEO,
               "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"video\", "
               "\"video\": \"clip\", \"fps\": 10}, {\"type\": \"video\", \"video\": "
               "[\"clip/12.png\", \"clip/9.png\"]}, {\"type\": \"video\", \"path\": \"clip.avi\"}, "
               "{\"type\": \"image\", \"image\": \"clip/8.png\"}, {\"type\": \"text\", \"text\": "
               "\"?\"}]}, {\"role\": \"assistant\", \"content\": \"A\"}]}");
    assert_int_equal(w.record->n_files[0], 4);
    expect_frames(&w, 0, all, FRAMES);
    expect_frames(&w, 1, list, 2);
    if (cs_clip_has_files())
        expect_frames(&w, 2, middle, 3);
    assert_false(w.record->files[0][3].is_video);
    close_world(&w);
}

/* places take files of their kind; "<image>" may stand for a video where there is no picture left */
static void places_take_files_of_their_kind(void **state)
{
    struct world w;

    (void)state;
    write_frames();
    open_world(&w, &picture_arch, PICTURES, VIDEO,
               "{\"image\": \"clip/8.png\", \"videos\": [\"clip\", {\"frames\": [\"clip/9.png\"], "
               "\"fps\": 2}], \"messages\": [{\"role\": \"user\", \"content\": \"<video> <image> "
               "<image>?\"}, {\"role\": \"assistant\", \"content\": \"A\"}]}");
    assert_int_equal(w.record->n_files[0], 3);
    assert_true(w.record->files[0][0].is_video);
    assert_string_equal(w.record->files[0][0].name, "clip");
    assert_false(w.record->files[0][1].is_video);
    assert_true(w.record->files[0][2].is_video);
    assert_int_equal(w.record->files[0][2].n_frames, 1);
    assert_true(w.record->files[0][2].fps == 2);
    close_world(&w);
}

static void an_encoder_that_reads_no_videos_says_so(void **state)
{
    struct cs_record_keys *keys = NULL;
    struct cs_record *record = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    const struct cs_record_encoder encoder = {.name = "it", .token = "<image>", .key = ""};
    json_t *item = json_loads("{\"video\": \"a.mp4\", \"messages\": []}", 0, NULL);
    struct cs_err err = {0};

    (void)state;
    need(cs_record_keys_new(&encoder, 1, arena, &keys, &err), &err);
    assert_int_not_equal(cs_record_read(item, keys, NULL, &record, &err), CS_OK);
    assert_non_null(strstr(err.text, "video"));
    json_decref(item);
    cs_arena_free(arena);
}

static int set_up(void **state)
{
    uint32_t x = 3;

    (void)state;
    dir = tmpdir_new();
    for (int k = 0; k < FRAMES; k++)
        for (int i = 0; i < FRAME_BYTES; i++) {
            x = x * UINT32_C(1664525) + UINT32_C(1013904223);
            frames_rgb[k][i] = (uint8_t)(x >> 24);
        }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tmpdir_free(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sounds_become_the_features_of_their_encoder),
        cmocka_unit_test(a_processor_of_other_bands_is_refused),
        cmocka_unit_test(videos_are_files_folders_and_lists),
        cmocka_unit_test(places_take_files_of_their_kind),
        cmocka_unit_test(an_encoder_that_reads_no_videos_says_so),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
