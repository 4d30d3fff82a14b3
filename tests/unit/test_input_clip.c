/* Clips: frames of folders, lists and files; what is refused. */
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

#include "input/media/video/clip.h"
#include "store/safetensors.h"
#include "support/avi.h"
#include "support/need.h"
#include "support/tmpdir.h"

enum { WIDTH = 12, HEIGHT = 10, FRAMES = 9, BYTES = WIDTH * HEIGHT * 3 };

static char *dir;
static uint8_t frames_rgb[FRAMES][BYTES];

static void write_picture(const char *path, int k, int width)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = HEIGHT,
                       .format = PNG_FORMAT_RGB};

    assert_true(png_image_write_to_file(&image, path, 0, frames_rgb[k], 0, NULL));
}

/* What is taken by hand. */
static struct cs_video_frames taken(const int32_t *index, int32_t n)
{
    return (struct cs_video_frames){
        .n = n, .index = (int32_t *)(uintptr_t)index, .fps = 4, .taken_fps = 4, .duration = 1};
}

struct seen {
    int32_t n, width, height;
    uint8_t rgb[FRAMES * 2][BYTES];
};

static enum cs_status see(void *user, int32_t k, const uint8_t *rgb, int32_t width, int32_t height,
                          struct cs_err *err)
{
    struct seen *s = user;

    (void)err;
    assert_int_equal(k, s->n);
    assert_true(width * height * 3 <= BYTES && s->n < FRAMES * 2);
    memcpy(s->rgb[s->n++], rgb, (size_t)(width * height * 3));
    s->width = width;
    s->height = height;
    return CS_OK;
}

static void expect_frames(const struct cs_clip_source *source, const int32_t *index, int32_t n)
{
    const struct cs_video_frames frames = taken(index, n);
    struct cs_video_info info = {0};
    struct seen s = {0};
    struct cs_err err = {0};

    need(cs_clip_probe(source, &info, &err), &err);
    assert_int_equal(info.width, WIDTH);
    assert_int_equal(info.height, HEIGHT);
    assert_int_equal(info.n_frames, FRAMES);
    need(cs_clip_read(source, &info, &frames, see, &s, &err), &err);
    assert_int_equal(s.n, n);
    for (int32_t k = 0; k < n; k++)
        if (memcmp(s.rgb[k], frames_rgb[index[k]], BYTES) != 0)
            fail_msg("%s: frame %d is not that of the video", source->name, index[k]);
}

static void folders_and_lists_have_frames_in_order(void **state)
{
    static const int32_t index[] = {0, 2, 2, 7, 8};
    struct cs_clip_picture list[FRAMES];
    char *folder = strdup(tmpdir_path(dir, "frames")), *paths[FRAMES];
    struct cs_video_info info;

    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    for (int k = 0; k < FRAMES; k++) {
        char name[32];
        snprintf(name, sizeof name, "f%d.png", k + 5); /* f5 to f13: not in the order of letters */
        paths[k] = strdup(tmpdir_path(folder, name));
        list[k] = (struct cs_clip_picture){.name = paths[k]};
        write_picture(paths[k], k, WIDTH);
    }
    tmpdir_write(tmpdir_path(folder, ".hidden"), "x", 1);
    const struct cs_clip_source as_folder = {.name = folder, .fps = 4};
    const struct cs_clip_source as_list = {.name = "list", .pictures = list, .n_pictures = FRAMES};
    expect_frames(&as_folder, index, 5);
    expect_frames(&as_list, index, 5);
    size_t n = 0;
    char *bytes = tmpdir_read(paths[2], &n);
    list[2] = (struct cs_clip_picture){"in memory", bytes, n};
    expect_frames(&as_list, index, 5);
    free(bytes);
    need(cs_clip_probe(&as_folder, &info, NULL), &(struct cs_err){0});
    assert_true(info.fps == 4 && info.is_list);
    for (int k = 0; k < FRAMES; k++)
        free(paths[k]);
    free(folder);
}

static void expect_refused(const struct cs_clip_source *source, const int32_t *index, int32_t n,
                           enum cs_status want, const char *word)
{
    const struct cs_video_frames frames = taken(index, n);
    struct cs_video_info info = {0};
    struct seen s = {0};
    struct cs_err err = {0};
    enum cs_status status = cs_clip_probe(source, &info, &err);

    if (status == CS_OK)
        status = cs_clip_read(source, &info, &frames, see, &s, &err);
    if (status != want || strstr(err.text, word) == NULL)
        fail_msg("%s: %s \"%s\", want \"%s\"", source->name, cs_status_slug(status), err.text,
                 word);
}

static void frames_that_do_not_fit_are_refused(void **state)
{
    static const int32_t index[] = {0, 1};
    char *folder = strdup(tmpdir_path(dir, "unlike")), *empty = strdup(tmpdir_path(dir, "empty"));

    (void)state;
    mkdir(folder, 0700);
    mkdir(empty, 0700);
    write_picture(tmpdir_path(folder, "1.png"), 0, WIDTH);
    write_picture(tmpdir_path(folder, "2.png"), 1, WIDTH - 2);
    expect_refused(&(struct cs_clip_source){.name = folder}, index, 2, CS_INVALID,
                   "2.png: 10 x 10");
    expect_refused(&(struct cs_clip_source){.name = empty}, index, 1, CS_INVALID, "empty folder");
    tmpdir_write(tmpdir_path(folder, "3.txt"), "text", 4);
    expect_refused(&(struct cs_clip_source){.name = folder}, (const int32_t[]){2}, 1, CS_CORRUPT,
                   "3.txt");
    free(folder);
    free(empty);
}

static void files_have_their_frames(void **state)
{
    static const int32_t index[] = {0, 1, 4, 4, 8};
    size_t size = 0;
    struct cs_video_info info;
    struct cs_err err = {0};

    (void)state;
    if (!cs_clip_has_files())
        skip();
    uint8_t *avi = cs_test_avi(frames_rgb[0], FRAMES, WIDTH, HEIGHT, 30000, 1001, &size);
    const char *path = tmpdir_path(dir, "clip.avi");
    tmpdir_write(path, avi, size);
    const struct cs_clip_source in_memory = {.name = "memory", .bytes = avi, .n_bytes = size};
    const struct cs_clip_source on_disk = {.name = path};
    need(cs_clip_probe(&on_disk, &info, &err), &err);
    assert_true(info.fps > 29.96 && info.fps < 29.98 && !info.is_list);
    expect_frames(&on_disk, index, 5);
    expect_frames(&in_memory, index, 5);
    free(avi);
}

struct golden_clip {
    const uint8_t *frames;
    int32_t n;
    size_t bytes; /* of a frame */
    const char *name;
};

/* Colours are made RGB by another build of swscale: not all processors round alike. */
static enum cs_status compare(void *user, int32_t k, const uint8_t *rgb, int32_t width,
                              int32_t height, struct cs_err *err)
{
    const struct golden_clip *g = user;

    (void)err;
    assert_int_equal(width * height * 3, g->bytes);
    for (size_t i = 0; i < g->bytes; i++)
        if (abs((int)rgb[i] - (int)g->frames[(size_t)k * g->bytes + i]) > 2)
            fail_msg("%s: frame %d, byte %zu is %d", g->name, k, i, rgb[i]);
    return CS_OK;
}

/* H.264, VP9 and MPEG-4 in the containers that people bring: the frames that PyAV hands to transformers */
static void files_equal_pyav(void **state)
{
    static const char *const names[] = {"h264.mp4", "h264.mkv", "vp9.webm", "mpeg4.avi"};
    static const int32_t index[] = {0, 1, 2, 3, 4, 5, 6};
    struct cs_st_file *golden = NULL;
    struct cs_err err = {0};

    (void)state;
    if (!cs_clip_has_files())
        skip();
    need(cs_st_open(source_path("tests/golden/media.safetensors"), &golden, &err), &err);
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        const struct cs_st_tensor *t = cs_st_find(golden, names[i]);
        char path[256];
        int32_t rate[2];
        struct cs_video_info info = {0};
        const struct cs_video_frames frames = taken(index, 7);
        assert_non_null(t);
        uint8_t *want = malloc((size_t)t->count);
        need(cs_st_read_raw(t, 0, (size_t)t->count, want, &err), &err);
        snprintf(path, sizeof path, "%s.rate", names[i]);
        need(cs_st_read_raw(cs_st_find(golden, path), 0, sizeof rate, rate, &err), &err);
        snprintf(path, sizeof path, "%s/%s", source_path("tests/golden/media"), names[i]);
        const struct cs_clip_source source = {.name = path};
        struct golden_clip g = {want, 7, (size_t)t->count / 7, names[i]};
        need(cs_clip_probe(&source, &info, &err), &err);
        assert_int_equal(info.n_frames, 7);
        assert_true(info.fps > 0.999 * rate[0] / rate[1] && info.fps < 1.001 * rate[0] / rate[1]);
        need(cs_clip_read(&source, &info, &frames, compare, &g, &err), &err);
        free(want);
    }
    cs_st_close(golden);
}

static void bad_files_are_refused(void **state)
{
    static const int32_t last[] = {FRAMES - 1};
    size_t size = 0;
    uint8_t *avi = cs_test_avi(frames_rgb[0], FRAMES, WIDTH, HEIGHT, 10, 1, &size);
    const struct cs_clip_source whole = {.name = "whole", .bytes = avi, .n_bytes = size};
    const struct cs_clip_source text = {
        .name = "text", .bytes = "#EXTM3U\nfile.ts\n", .n_bytes = 16};
    const struct cs_clip_source none = {.name = "/no/such.mp4"};
    const struct cs_video_frames frames = taken(last, 1);
    struct cs_video_info info = {0};
    struct seen s = {0};
    struct cs_err err = {0};

    (void)state;
    if (!cs_clip_has_files()) {
        free(avi);
        skip();
    }
    expect_refused(&text, last, 1, CS_CORRUPT, "no video file");
    expect_refused(&none, last, 1, CS_NOT_FOUND, "such.mp4");
    expect_refused(&(struct cs_clip_source){.name = "void", .bytes = "", .n_bytes = 0}, last, 1,
                   CS_CORRUPT, "empty file");
    need(cs_clip_probe(&whole, &info, &err), &err);
    const struct cs_clip_source cut = {.name = "cut", .bytes = avi, .n_bytes = size / 2};
    assert_int_equal(cs_clip_read(&cut, &info, &frames, see, &s, &err), CS_CORRUPT);
    assert_non_null(strstr(err.text, "cut: "));
    info.width = WIDTH * 2; /* the file was changed since it was looked at */
    assert_int_equal(cs_clip_read(&whole, &info, &frames, see, &s, &err), CS_CORRUPT);
    free(avi);
}

static void without_the_libraries_files_are_refused_by_name(void **state)
{
    (void)state;
    if (cs_clip_has_files())
        skip();
    expect_refused(&(struct cs_clip_source){.name = "a.mp4", .bytes = "x", .n_bytes = 1}, NULL, 0,
                   CS_UNSUPPORTED, "a.mp4");
}

static int set_up(void **state)
{
    uint32_t x = 1;

    (void)state;
    dir = tmpdir_new();
    for (int k = 0; k < FRAMES; k++)
        for (int i = 0; i < BYTES; i++) {
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
        cmocka_unit_test(folders_and_lists_have_frames_in_order),
        cmocka_unit_test(frames_that_do_not_fit_are_refused),
        cmocka_unit_test(files_have_their_frames),
        cmocka_unit_test(files_equal_pyav),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(without_the_libraries_files_are_refused_by_name),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
