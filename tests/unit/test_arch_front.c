/* The order of an encoder's rows, where they go and what positions they are given. Resized tables are
 * held against torch (F.interpolate) over a 4 x 4 table whose row i is i * i / 16. */
#include "core/arch/arch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { MOST = 512 };

static struct cs_arch pictures(int32_t merge, int32_t window)
{
    struct cs_arch a = {.channels = 3, .patch_size = 2};
    a.front = (struct cs_front){
        .stem = CS_STEM_PATCHES, .patch_frames = 1, .merge = merge, .window = window, .pool = 1};
    return a;
}

/* frame, y, x and window of every row */
static void check_order(const struct cs_arch *a, const int32_t grid[3], const char *expected)
{
    struct cs_front_row row[MOST];
    char text[4096] = "";
    const int32_t n = cs_front_rows(a, grid);
    assert_true(n <= MOST);
    cs_front_order(a, grid, row);
    for (int32_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d%d%d/%d ", row[i].frame,
                 row[i].y, row[i].x, row[i].window);
    assert_string_equal(text, expected);
}

static void without_groups_rows_lie_line_by_line(void **state)
{
    (void)state;
    const struct cs_arch a = pictures(1, 0);
    check_order(&a, (int32_t[]){1, 2, 3}, "000/0 001/0 002/0 010/0 011/0 012/0 ");
}

static void groups_lie_side_by_side_in_windows(void **state)
{
    (void)state;
    const struct cs_arch merged = pictures(2, 0), windowed = pictures(2, 4);
    check_order(&merged, (int32_t[]){2, 2, 4},
                "000/0 001/0 010/0 011/0 002/0 003/0 012/0 013/0 "
                "100/1 101/1 110/1 111/1 102/1 103/1 112/1 113/1 ");
    check_order(&windowed, (int32_t[]){1, 2, 6},
                "000/0 001/0 010/0 011/0 002/0 003/0 012/0 013/0 004/1 005/1 014/1 015/1 ");
}

static void a_class_row_comes_first(void **state)
{
    (void)state;
    struct cs_arch a = pictures(1, 0);
    const int32_t grid[] = {1, 1, 2};
    a.front.has_class = true;
    check_order(&a, grid, "-1-1-1/0 000/0 001/0 ");
    assert_int_equal(cs_front_out_rows(&a, grid), 2);
    a.front.keeps_class = true;
    assert_int_equal(cs_front_out_rows(&a, grid), 3);
    assert_int_equal(cs_front_inner_most(&a, 20, 3), 23);
}

static void rows_leave_windows_for_the_place_they_had(void **state)
{
    (void)state;
    const struct cs_arch a = pictures(2, 4);
    const int32_t grid[] = {2, 6, 6}, n = 18;
    const int32_t expected[] = {0, 1, 3, 4, 2, 5, 6, 7, 8, 9, 10, 12, 13, 11, 14, 15, 16, 17};
    int32_t place[18];
    assert_int_equal(cs_front_out_rows(&a, grid), n);
    cs_front_places(&a, grid, place);
    assert_memory_equal(place, expected, sizeof expected);
}

/* Every patch once, every window and every group in one piece, places a permutation that names the
 * group where its rows lie. */
static void every_grid_is_walked_once(void **state)
{
    (void)state;
    for (int32_t merge = 1; merge <= 3; merge++)
        for (int32_t window = 0; window <= 3 * merge; window += merge)
            for (int32_t h = merge; h <= 5 * merge; h += merge)
                for (int32_t w = merge; w <= 4 * merge; w += merge) {
                    const struct cs_arch a = pictures(merge, window);
                    const int32_t grid[] = {2, h, w}, group = cs_front_group(&a);
                    const int32_t out = cs_front_out_rows(&a, grid);
                    struct cs_front_row row[MOST];
                    int32_t place[MOST];
                    bool is_seen[MOST] = {false};
                    assert_true(cs_front_rows(&a, grid) <= MOST && out * group == 2 * h * w);
                    cs_front_order(&a, grid, row);
                    cs_front_places(&a, grid, place);
                    for (int32_t i = 0; i < out * group; i++) {
                        const struct cs_front_row *r = &row[i];
                        const int32_t at = (r->frame * h + r->y) * w + r->x;
                        assert_false(is_seen[at]);
                        is_seen[at] = true;
                        assert_true(i == 0 || r->window == row[i - 1].window ||
                                    r->window == row[i - 1].window + 1);
                        assert_int_equal(place[i / group],
                                         (r->frame * (h / merge) + r->y / merge) * (w / merge) +
                                             r->x / merge);
                    }
                }
}

static void sounds_are_halved_and_joined(void **state)
{
    (void)state;
    struct cs_arch a = pictures(4, 0);
    a.front.stem = CS_STEM_FRAMES;
    a.channels = 80;
    assert_int_equal(cs_front_values(&a), 80);
    assert_int_equal(cs_front_rows(&a, (int32_t[]){3000, 1, 1}), 1500);
    assert_int_equal(cs_front_rows(&a, (int32_t[]){7, 1, 1}), 4);
    assert_int_equal(cs_front_out_rows(&a, (int32_t[]){3000, 1, 1}), 375);
    assert_int_equal(cs_front_out_rows(&a, (int32_t[]){11, 1, 1}), 0);
    a.front.merge = 1;
    a.front.pool = 2;
    assert_int_equal(cs_front_out_rows(&a, (int32_t[]){3000, 1, 1}), 750);
    assert_int_equal(cs_front_out_rows(&a, (int32_t[]){0, 1, 1}), 0);
}

static void grids_that_give_no_whole_groups_are_told(void **state)
{
    (void)state;
    const struct cs_arch a = pictures(2, 0);
    assert_int_equal(cs_front_out_rows(&a, (int32_t[]){1, 3, 3}), 0);
    assert_int_equal(cs_front_out_rows(&a, (int32_t[]){1, 4, 6}), 6);
}

/* ---- positions ---- */

static void check_positions(struct cs_arch *a, enum cs_position_kind kind, int32_t rows, int32_t h,
                            int32_t w, const float *expected)
{
    static int32_t start[MOST], index[MOST * 16];
    static float weight[MOST * 16];
    struct cs_front_row row[MOST];
    struct cs_front_weights out = {start, index, weight};
    const int32_t grid[] = {1, h, w};
    a->front.position = kind;
    a->front.position_rows = rows;
    start[0] = 0;
    cs_front_order(a, grid, row);
    cs_front_positions(a, grid, row, 0, &out);
    assert_true(start[h * w] <= cs_front_position_room(a, grid));
    for (int32_t i = 0; i < h * w; i++) {
        float sum = 0;
        for (int32_t k = start[i]; k < start[i + 1]; k++)
            sum += weight[k] * (float)(index[k] * index[k]) / 16;
        if (fabsf(sum - expected[i]) > 2e-5f)
            fail_msg("kind %d, row %d: %g, not %g", kind, i, (double)sum, (double)expected[i]);
    }
}

static void tables_are_resized_as_torch_does(void **state)
{
    (void)state;
    struct cs_arch a = pictures(1, 0);
    check_positions(&a, CS_POSITION_BICUBIC, 16, 3, 6,
                    (float[]){0.08053f, 0.13073f, 0.25736f, 0.40121f, 0.67887f, 0.87577f, 2.05447f,
                              2.44336f, 3.12413f, 3.66233f, 4.49414f, 5.02973f, 8.20434f, 8.93191f,
                              10.16683f, 11.09937f, 12.48533f, 13.35962f});
    check_positions(&a, CS_POSITION_AREA, 16, 2, 7,
                    (float[]){1.0f, 1.14987f, 1.38967f, 1.69196f, 2.01212f, 2.39477f, 2.63393f,
                              5.71429f, 6.14477f, 6.83355f, 7.58482f, 8.35395f, 9.18559f,
                              9.70536f});
    check_positions(&a, CS_POSITION_CORNERS, 16, 3, 5,
                    (float[]){0.0f, 0.04688f, 0.15625f, 0.32812f, 0.5625f, 2.5f, 3.10938f, 3.78125f,
                              4.51562f, 5.3125f, 9.0f, 10.17188f, 11.40625f, 12.70312f, 14.0625f});
}

static void tables_of_rows_buckets_and_axes(void **state)
{
    (void)state;
    struct cs_arch a = pictures(1, 0);
    check_positions(&a, CS_POSITION_ROW, 4, 2, 2, (float[]){0, 1 / 16.0f, 4 / 16.0f, 9 / 16.0f});
    /* shares 0 and 1/2 of height and width are rows 0 and 2 of four */
    check_positions(&a, CS_POSITION_BUCKETS, 16, 2, 2,
                    (float[]){0, 4 / 16.0f, 64 / 16.0f, 100 / 16.0f});
    /* width first, then height behind its five rows */
    check_positions(&a, CS_POSITION_AXES, 5, 2, 2,
                    (float[]){25 / 16.0f, 26 / 16.0f, 36 / 16.0f, 37 / 16.0f});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_groups_rows_lie_line_by_line),
        cmocka_unit_test(groups_lie_side_by_side_in_windows),
        cmocka_unit_test(a_class_row_comes_first),
        cmocka_unit_test(rows_leave_windows_for_the_place_they_had),
        cmocka_unit_test(every_grid_is_walked_once),
        cmocka_unit_test(sounds_are_halved_and_joined),
        cmocka_unit_test(grids_that_give_no_whole_groups_are_told),
        cmocka_unit_test(tables_are_resized_as_torch_does),
        cmocka_unit_test(tables_of_rows_buckets_and_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
