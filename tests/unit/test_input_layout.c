/* Layouts: items, rows and text that a file becomes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "input/media/pixels.h"

static int make_arena(void **state)
{
    *state = cs_arena_new(0);
    return 0;
}

static int free_arena(void **state)
{
    cs_arena_free(*state);
    return 0;
}

static void siglip_makes_one_item_of_any_picture(void **state)
{
    const struct cs_arch arch = {
        .front = {.patch_frames = 1, .merge = 1},
        .family = "siglip",
        .image_size = 56,
        .patch_size = 14,
        .channels = 3
    };
    struct cs_processor p;
    const struct cs_media_encoder encoder = cs_media_encoder_of(&arch);
    const struct cs_medium medium = {.width = 100, .height = 30, .n_frames = 1};
    struct cs_media_layout out;
    struct cs_media_bounds bounds;

    cs_processor_default(&arch, &p);
    assert_int_equal(cs_media_layout_make(&p, &encoder, &medium, *state, &out, NULL), CS_OK);
    assert_int_equal(out.n_items, 1);
    assert_int_equal(out.items[0].shape.rows, 16);
    assert_int_equal(out.items[0].shape.grid[2], 4);
    assert_int_equal(out.items[0].shape.bytes, 56 * 56 * 3);
    assert_int_equal(out.n_rows, 16);
    assert_int_equal(out.n_pieces, 1);
    assert_int_equal(cs_media_bounds_of(&p, &encoder, &bounds, NULL), CS_OK);
    assert_int_equal(bounds.items, 1);
    assert_int_equal(bounds.placeholders, 16);
}

static void a_picture_is_cut_and_padded_where_a_step_says(void **state)
{
    uint8_t rgb[4 * 2 * 3], out[3 * 3 * 3];
    const struct cs_image image = {.width = 4, .height = 2, .rgb = rgb};
    const struct cs_medium medium = {.width = 4, .height = 2, .n_frames = 1};
    struct cs_picture_step step = {
        .op = CS_PICTURE_PLACE, .width = 3, .height = 3, .left = -2, .top = 1, .fill = {7, 8, 9}
    };
    struct cs_media_item item = {.shape = {.bytes = sizeof(out)}, .picture = 1};
    const struct cs_media_layout layout = {
        .n_items = 1, .items = &item, .n_steps = 1, .steps = &step};
    const struct cs_processor p = {.resample = CS_RESAMPLE_BICUBIC};

    (void)state;
    for (size_t i = 0; i < sizeof(rgb); i++)
        rgb[i] = (uint8_t)(100 + i);
    assert_int_equal(cs_pixels_make(&p, &layout, &medium, &image, (uint8_t *[]){out}, NULL), CS_OK);
    assert_int_equal(out[0], 7); /* above the picture */
    assert_int_equal(out[9], rgb[2 * 3]);
    assert_int_equal(out[9 + 3 + 2], rgb[3 * 3 + 2]);
    assert_int_equal(out[9 + 6 + 1], 8); /* right of it */
    assert_int_equal(out[18 + 4], rgb[4 * 3 + 3 * 3 + 1]);
}

static void wraps_are_not_doubled(void **state)
{
    struct cs_media_piece pieces[] = {
        {CS_MEDIA_TEXT, 0, "\n\n",    true,  false},
        {CS_MEDIA_TEXT, 0, "<start>", true,  true },
        {CS_MEDIA_ROWS, 4, NULL,      false, false},
        {CS_MEDIA_TEXT, 0, "<end>",   true,  true },
    };
    const struct cs_media_layout layout = {.n_pieces = 4, .pieces = pieces};

    static const struct {
        const char *before, *after;
        int32_t first, end;
    } rows[] = {
        {"",          "",        0, 4},
        {"a <start>", "<end> b", 2, 3},
        {"<start> ",  " <end>",  0, 4},
        {"<start>",   "<en",     2, 4},
        {"\n\n",      "<end>",   0, 3},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        int32_t first = -1, end = -1;
        cs_media_layout_trim(&layout, rows[i].before, strlen(rows[i].before), rows[i].after,
                             strlen(rows[i].after), &first, &end);
        assert_int_equal(first, rows[i].first);
        assert_int_equal(end, rows[i].end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(siglip_makes_one_item_of_any_picture, make_arena,
                                        free_arena),
        cmocka_unit_test(a_picture_is_cut_and_padded_where_a_step_says),
        cmocka_unit_test(wraps_are_not_doubled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
