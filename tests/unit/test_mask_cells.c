/* Cells of masks small enough to be written down by hand. */
#include "core/mask/cells.h"
#include "core/mask/span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

struct made {
    struct cs_arena *arena;
    struct cs_mask_plan plan;
    struct cs_mask_cells cells;
};

static struct made make(const struct cs_mask_span *span, int n, enum cs_mask_kind kind,
                        bool restart)
{
    struct made m = {.arena = cs_arena_new(0)};
    const struct cs_mask_rule rule = {.kind = kind, .window = 1, .prefix = 1};
    struct cs_err err = {.text = ""};
    if (cs_mask_from_spans(span, n, rule, CS_TEXT_SEES_ALL, m.arena, &m.plan, &err) != CS_OK)
        fail_msg("%s", err.text);
    int32_t *row =
        CS_NEW_ARRAY(m.arena, int32_t, m.plan.n_tokens / CS_MASK_TILE + m.plan.n_segments + 2);
    const int32_t tiles = cs_mask_tile_rows(&m.plan, restart, row);
    if (cs_mask_cells_make(&m.plan, NULL, row, tiles, row, tiles, m.arena, &m.cells, &err) != CS_OK)
        fail_msg("%s", err.text);
    return m;
}

static void assert_entry(const struct cs_mask_list *list, int32_t tile, int32_t i, uint32_t other,
                         uint32_t rank, const char *cells)
{
    const size_t at = (size_t)tile * (size_t)list->stride + (size_t)i;
    char got[CS_MASK_CELLS + 1] = "";
    assert_true(i < list->count[tile]);
    for (int c = 0; c < CS_MASK_CELLS; c++) {
        const int32_t cell = list->cell[at][c];
        got[c] = cell == CS_CELL_NONE ? '.' : (cell == CS_CELL_ALL ? '#' : '+');
    }
    assert_string_equal(got, cells);
    assert_int_equal(list->entry[at] & 0xffff, other);
    assert_int_equal(list->entry[at] >> 16, rank);
}

/* 300 tokens: tiles of 128, 128 and 44 rows, the last one's second half has none. */
static void causal_diagonal_is_partial_and_the_rest_whole(void **state)
{
    (void)state;
    const struct cs_mask_span span[] = {
        {CS_SPAN_TEXT, 300, 0, CS_SPAN_OWN_ITEM}
    };
    struct made m = make(span, 1, CS_MASK_CAUSAL, false);
    const struct cs_mask_list *q = &m.cells.by_q, *k = &m.cells.by_k;
    assert_int_equal(m.cells.n_q, 3);
    assert_int_equal(q->count[0], 1);
    assert_int_equal(q->count[1], 2);
    assert_int_equal(q->count[2], 3);
    assert_entry(q, 0, 0, 0, 0, "+.#+");
    assert_entry(q, 1, 0, 0, 1, "####");
    assert_entry(q, 1, 1, 1, 0, "+.#+");
    /* 44 query rows against whole keys are a bitmap: the cell is ragged */
    assert_entry(q, 2, 0, 0, 2, "++..");
    assert_entry(q, 2, 1, 1, 1, "++..");
    assert_entry(q, 2, 2, 2, 0, "+...");
    assert_entry(k, 0, 0, 1, 0, "####"); /* those without a bitmap first */
    assert_entry(k, 0, 1, 0, 0, "+.#+");
    assert_entry(k, 0, 2, 2, 0, "++..");
    assert_entry(k, 1, 0, 1, 1, "+.#+");
    assert_entry(k, 1, 1, 2, 1, "++..");
    assert_entry(k, 2, 0, 2, 2, "+...");
    /* costs 3, 7, 5 by queries; 9, 5, 1 by keys */
    assert_memory_equal(q->order, ((int32_t[]){1, 2, 0}), 3 * sizeof(int32_t));
    assert_memory_equal(k->order, ((int32_t[]){0, 1, 2}), 3 * sizeof(int32_t));
    /* the diagonal, 44 whole rows, the diagonal of 44 */
    assert_int_equal(*m.cells.n_bitmaps, 3);
    assert_int_equal(*m.cells.pairs, 300 * 301 / 2);
    cs_arena_free(m.arena);
}

/* Two images of 200 and 60 tokens: tiles start at them and no tile meets the other image. */
static void tiles_start_at_documents(void **state)
{
    (void)state;
    const struct cs_mask_span span[] = {
        {0, 200, 0, CS_SPAN_OWN_ITEM},
        {0, 60,  1, CS_SPAN_OWN_ITEM}
    };
    struct made m = make(span, 2, CS_MASK_FULL, true);
    assert_int_equal(m.cells.n_q, 3);
    assert_memory_equal(m.cells.q_row, ((int32_t[]){0, 128, 200, 260}), 4 * sizeof(int32_t));
    assert_entry(&m.cells.by_q, 0, 0, 0, 0, "####");
    assert_entry(&m.cells.by_q, 0, 1, 1, 0, "#+#+");
    assert_entry(&m.cells.by_q, 1, 0, 0, 1, "##++");
    assert_entry(&m.cells.by_q, 1, 1, 1, 1, "#+++");
    assert_entry(&m.cells.by_q, 2, 0, 2, 0, "+...");
    assert_int_equal(m.cells.by_q.count[2], 1);
    assert_int_equal(*m.cells.pairs, 200 * 200 + 60 * 60);
    cs_arena_free(m.arena);
}

/* 50 + 30 short rows, an image of 200, 60 of text, an image of 128, 10 of text */
static void tiles_do_not_mix_long_runs_with_others(void **state)
{
    (void)state;
    const struct cs_mask_span span[] = {
        {CS_SPAN_TEXT, 50,  0, CS_SPAN_OWN_ITEM},
        {0,            30,  0, CS_SPAN_OWN_ITEM},
        {0,            200, 0, CS_SPAN_OWN_ITEM},
        {CS_SPAN_TEXT, 60,  0, CS_SPAN_OWN_ITEM},
        {0,            128, 0, CS_SPAN_OWN_ITEM},
        {CS_SPAN_TEXT, 10,  0, CS_SPAN_OWN_ITEM}
    };
    static const int32_t want[] = {0, 80, 208, 280, 340, 468, 478};
    struct made m = make(span, 6, CS_MASK_ITEM, false);
    int32_t *row = CS_NEW_ARRAY(m.arena, int32_t, cs_mask_tile_room(&m.plan));
    assert_int_equal(cs_mask_tile_rows_at_runs(&m.plan, row), 6);
    assert_memory_equal(row, want, sizeof want);
    cs_arena_free(m.arena);
}

static void padding_meets_nothing_and_is_still_a_tile(void **state)
{
    (void)state;
    const struct cs_mask_span span[] = {
        {CS_SPAN_TEXT,    128, 0, CS_SPAN_OWN_ITEM},
        {CS_SPAN_PADDING, 130, 0, CS_SPAN_OWN_ITEM}
    };
    struct made m = make(span, 2, CS_MASK_FULL, false);
    assert_int_equal(m.cells.n_q, 3);
    assert_int_equal(m.cells.by_q.count[1], 0);
    assert_int_equal(m.cells.by_k.count[2], 0);
    assert_memory_equal(m.cells.by_q.order, ((int32_t[]){0, 1, 2}), 3 * sizeof(int32_t));
    assert_int_equal(*m.cells.n_bitmaps, 0);
    cs_arena_free(m.arena);
}

/* Thread t of a warpgroup holds rows 16 (t / 32) + (t % 32) / 4 and + 8, columns 2 (t % 4) + 8 j
 * and + 1. */
static void a_bitmap_is_in_the_order_of_an_accumulator(void **state)
{
    (void)state;
    uint64_t row[CS_MASK_CELL] = {0};
    row[37] = UINT64_C(1) << 30; /* thread 64 + 4 * 5 + 3, j 3, h 0, i 0 */
    row[45] = UINT64_C(1) << 63; /* same thread, j 7, h 1, i 1 */
    for (int t = 0; t < CS_MASK_TILE; t++) {
        assert_int_equal(cs_mask_cell_word(row, t), t == 87 ? 1u << 12 | 1u << 31 : 0);
        /* as keys: row 30 column 37: thread 32 + 4 * 6 + 2, j 4, h 1, i 1; row 63 column 45 */
        assert_int_equal(cs_mask_cell_word_t(row, t),
                         t == 58 ? 1u << 19 : (t == 126 ? 1u << 23 : 0));
    }
}

static void tiles_that_do_not_cover_the_rows_are_refused(void **state)
{
    (void)state;
    const struct cs_mask_span span[] = {
        {CS_SPAN_TEXT, 300, 0, CS_SPAN_OWN_ITEM}
    };
    struct made m = make(span, 1, CS_MASK_CAUSAL, false);
    static const int32_t bad[][4] = {
        {0, 128, 256, 299},
        {0, 129, 257, 300},
        {0, 128, 128, 300},
        {1, 128, 256, 300}
    };
    for (int i = 0; i < 4; i++) {
        struct cs_err err = {.text = ""};
        struct cs_mask_cells cells;
        assert_int_equal(
            cs_mask_cells_make(&m.plan, NULL, m.cells.q_row, 3, bad[i], 3, m.arena, &cells, &err),
            CS_INVALID);
        assert_non_null(strstr(err.text, "key"));
    }
    cs_arena_free(m.arena);
}

static void no_tokens_are_no_tiles(void **state)
{
    (void)state;
    const int32_t none[] = {0};
    const struct cs_mask_plan plan = {.segment = none};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_mask_cells cells;
    int32_t row[2] = {7, 7};
    assert_int_equal(cs_mask_tile_rows(&plan, true, row), 0);
    assert_int_equal(cs_mask_cells_make(&plan, NULL, row, 0, row, 0, arena, &cells, NULL), CS_OK);
    assert_int_equal(*cells.pairs, 0);
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal_diagonal_is_partial_and_the_rest_whole),
        cmocka_unit_test(tiles_start_at_documents),
        cmocka_unit_test(tiles_do_not_mix_long_runs_with_others),
        cmocka_unit_test(padding_meets_nothing_and_is_still_a_tile),
        cmocka_unit_test(a_bitmap_is_in_the_order_of_an_accumulator),
        cmocka_unit_test(tiles_that_do_not_cover_the_rows_are_refused),
        cmocka_unit_test(no_tokens_are_no_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
