/* Which way query tiles are cut, on the shapes that kernels were measured on, and the count that
 * decides it against cells for which the rule was asked for every pair. */
#include "core/mask/cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/mask/runs.h"
#include "core/mask/span.h"

enum { IMAGE = 729, MAX_SPANS = 256 };

struct made {
    struct cs_arena *arena;
    struct cs_mask_plan plan;
    int32_t *plain, *cut, *chosen;
    int32_t n_plain, n_cut, n_chosen;
};

static struct made make(const struct cs_mask_span *span, int n, struct cs_mask_rule rule)
{
    struct made m = {.arena = cs_arena_new(0)};
    struct cs_err err = {.text = ""};
    if (cs_mask_from_spans(span, n, rule, CS_TEXT_SEES_ALL, m.arena, &m.plan, &err) != CS_OK)
        fail_msg("%s", err.text);
    const int32_t room = cs_mask_tile_room(&m.plan);
    m.plain = CS_NEW_ARRAY(m.arena, int32_t, room);
    m.cut = CS_NEW_ARRAY(m.arena, int32_t, room);
    m.chosen = CS_NEW_ARRAY(m.arena, int32_t, room);
    m.n_plain = cs_mask_tile_rows(&m.plan, false, m.plain);
    m.n_cut = cs_mask_tile_rows_at_runs(&m.plan, m.cut);
    m.n_chosen = cs_mask_tile_rows_chosen(&m.plan, m.chosen);
    return m;
}

static bool is_cut(const struct made *m)
{
    const bool is_plain =
        m->n_chosen == m->n_plain &&
        memcmp(m->chosen, m->plain, ((size_t)m->n_plain + 1) * sizeof *m->plain) == 0;
    if (!is_plain) {
        assert_int_equal(m->n_chosen, m->n_cut);
        assert_memory_equal(m->chosen, m->cut, ((size_t)m->n_cut + 1) * sizeof *m->cut);
    }
    return !is_plain;
}

/* text of 32 to 511 and images in turn, n tokens; a third of them each in a document when packed */
static int mixed(int32_t n, bool is_packed, struct cs_mask_span *span)
{
    uint32_t x = 12345;
    int32_t at = 0, doc = 0, border = n / 3;
    int i = 0;
    while (at < n) {
        x = x * 1664525u + 1013904223u;
        const int32_t text = 32 + (int32_t)((x >> 8) % 480), own = text < n - at ? text : n - at;
        span[i++] = (struct cs_mask_span){CS_SPAN_TEXT, own, doc, CS_SPAN_OWN_ITEM};
        at += own;
        const int32_t image = IMAGE < n - at ? IMAGE : n - at;
        span[i++] = (struct cs_mask_span){0, image, doc, CS_SPAN_OWN_ITEM};
        at += image;
        if (is_packed && at >= border) {
            doc++;
            border += n / 3;
        }
    }
    return i;
}

static bool chooses_cut(int32_t n, bool is_packed, enum cs_mask_kind kind)
{
    struct cs_mask_span span[MAX_SPANS];
    struct made m = make(span, mixed(n, is_packed, span), (struct cs_mask_rule){.kind = kind});
    const bool out = is_cut(&m);
    cs_arena_free(m.arena);
    return out;
}

/* measured: faster with tiles at images */
static void images_that_see_only_themselves_are_cut_at_their_borders(void **state)
{
    (void)state;
    assert_true(chooses_cut(16384, false, CS_MASK_ITEM));
    assert_true(chooses_cut(32768, false, CS_MASK_ITEM));
}

/* measured: slower with tiles at images */
static void masks_whose_rows_see_nearly_the_same_stay_plain(void **state)
{
    (void)state;
    assert_false(chooses_cut(8192, true, CS_MASK_IMAGE_BIDIR));
    assert_false(chooses_cut(16384, true, CS_MASK_IMAGE_BIDIR));
    assert_false(chooses_cut(32768, true, CS_MASK_IMAGE_BIDIR));
    assert_false(chooses_cut(8192, false, CS_MASK_ITEM)); /* 5 % fewer tiles are not enough */
    assert_false(chooses_cut(16384, false, CS_MASK_CAUSAL));
    assert_false(chooses_cut(16384, true, CS_MASK_CAUSAL));
    assert_false(chooses_cut(16384, false, CS_MASK_MODALITY_BIDIR));
}

static void packed_documents_of_text_stay_plain(void **state)
{
    (void)state;
    struct cs_mask_span span[MAX_SPANS];
    uint32_t x = 777;
    int n = 0;
    for (int32_t at = 0; at < 16384; n++) {
        x = x * 1664525u + 1013904223u;
        const int32_t want = 64 + (int32_t)((x >> 8) % 960),
                      own = want < 16384 - at ? want : 16384 - at;
        span[n] = (struct cs_mask_span){CS_SPAN_TEXT, own, n, CS_SPAN_OWN_ITEM};
        at += own;
    }
    struct made m = make(span, n, (struct cs_mask_rule){.kind = CS_MASK_CAUSAL});
    assert_false(is_cut(&m));
    cs_arena_free(m.arena);
}

/* Two images whose border is a tile's: both ways are the same. */
static void nothing_is_cut_where_borders_are_those_of_tiles(void **state)
{
    (void)state;
    static const struct cs_mask_span span[] = {
        {0, 256, 0, CS_SPAN_OWN_ITEM},
        {0, 384, 0, CS_SPAN_OWN_ITEM}
    };
    struct made m = make(span, 2, (struct cs_mask_rule){.kind = CS_MASK_ITEM});
    assert_int_equal(m.n_chosen, 5);
    assert_false(is_cut(&m));
    cs_arena_free(m.arena);
}

/* Context parallelism hands rows out in another order: nothing is counted, tiles are plain. */
static void rows_that_are_not_in_order_stay_plain(void **state)
{
    (void)state;
    struct cs_mask_span span[MAX_SPANS];
    struct made m =
        make(span, mixed(16384, false, span), (struct cs_mask_rule){.kind = CS_MASK_ITEM});
    int32_t *pos = CS_NEW_ARRAY(m.arena, int32_t, m.plan.n_tokens);
    memcpy(pos, m.plan.pos, (size_t)m.plan.n_tokens * sizeof *pos);
    pos[5] = 6;
    pos[6] = 5;
    m.plan.pos = pos;
    assert_true(is_cut(&m));
    m.n_chosen = cs_mask_tile_rows_chosen(&m.plan, m.chosen);
    assert_false(is_cut(&m));
    cs_arena_free(m.arena);
}

/* A rank of a context: some rows, without documents that are counted, before the keys of all. */
static void rows_before_other_keys_stay_plain(void **state)
{
    (void)state;
    struct cs_mask_span span[MAX_SPANS];
    struct made m =
        make(span, mixed(16384, true, span), (struct cs_mask_rule){.kind = CS_MASK_ITEM});
    const struct cs_mask_plan keys = m.plan;
    m.plan.n_tokens /= 2;
    m.plan.n_segments = 0;
    m.plan.segment = NULL;
    m.plan.keys = &keys;
    m.n_plain = cs_mask_tile_rows(&m.plan, false, m.plain);
    m.n_chosen = cs_mask_tile_rows_chosen(&m.plan, m.chosen);
    assert_false(is_cut(&m));
    struct cs_mask_runs runs;
    struct cs_err err = {.text = ""};
    assert_int_equal(cs_mask_runs_make(&m.plan, m.arena, &runs, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "keys that are other rows"));
    cs_arena_free(m.arena);
}

/* ---- the count ---- */

static uint64_t seed = 5;

static int32_t between(int32_t lo, int32_t hi)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int32_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

/* halves of query tiles against key tiles with a cell that is not empty, and all of them */
static void count_cells(const struct made *m, const int32_t *q_row, int32_t n_q, int64_t *halves,
                        int64_t *tiles)
{
    struct cs_mask_cells cells;
    struct cs_err err = {.text = ""};
    if (cs_mask_cells_make(&m->plan, NULL, q_row, n_q, m->plain, m->n_plain, m->arena, &cells,
                           &err) != CS_OK)
        fail_msg("%s", err.text);
    *halves = *tiles = 0;
    for (int32_t t = 0; t < n_q; t++) {
        *tiles += cells.by_q.count[t];
        for (int32_t e = 0; e < cells.by_q.count[t]; e++) {
            const int32_t *c = cells.by_q.cell[(size_t)t * (size_t)cells.by_q.stride + (size_t)e];
            *halves += c[0] != CS_CELL_NONE || c[1] != CS_CELL_NONE;
            *halves += c[2] != CS_CELL_NONE || c[3] != CS_CELL_NONE;
        }
    }
}

static int64_t met(const struct made *m, const struct cs_mask_runs *runs, const int32_t *row,
                   int32_t n, int32_t step)
{
    int32_t *block = CS_NEW_ARRAY(m->arena, int32_t, m->plan.n_tokens + 1), blocks = 0;
    for (int32_t t = 0; t < n; t++)
        for (int32_t at = row[t]; at < row[t + 1]; at += step)
            block[blocks++] = at;
    block[blocks] = row[n];
    return cs_mask_tiles_met(runs, block, blocks, CS_MASK_TILE, m->arena, NULL);
}

static void blocks_meet_the_tiles_that_have_cells(void **state)
{
    (void)state;
    for (int i = 0; i < 150; i++) {
        struct cs_mask_span span[12];
        const int n = between(1, 12);
        int32_t doc = 0;
        for (int s = 0; s < n; s++) {
            doc += s > 0 && between(0, 4) == 0;
            span[s] = (struct cs_mask_span){between(-2, 2), between(s == 0, 260), doc,
                                            between(0, 2) ? CS_SPAN_OWN_ITEM : between(0, 2)};
        }
        const struct cs_mask_rule rule = {(enum cs_mask_kind)(i % CS_MASK_KINDS), between(1, 300),
                                          between(1, 300)};
        struct made m = make(span, n, rule);
        struct cs_mask_runs runs;
        struct cs_err err = {.text = ""};
        int64_t halves, tiles;
        if (cs_mask_runs_make(&m.plan, m.arena, &runs, &err) != CS_OK)
            fail_msg("%s", err.text);
        count_cells(&m, m.plain, m.n_plain, &halves, &tiles);
        assert_int_equal(met(&m, &runs, m.plain, m.n_plain, CS_MASK_CELL), halves);
        assert_int_equal(met(&m, &runs, m.plain, m.n_plain, CS_MASK_TILE), tiles);
        count_cells(&m, m.cut, m.n_cut, &halves, &tiles);
        assert_int_equal(met(&m, &runs, m.cut, m.n_cut, CS_MASK_CELL), halves);
        assert_int_equal(met(&m, &runs, m.cut, m.n_cut, CS_MASK_TILE), tiles);
        cs_arena_free(m.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_that_see_only_themselves_are_cut_at_their_borders),
        cmocka_unit_test(masks_whose_rows_see_nearly_the_same_stay_plain),
        cmocka_unit_test(packed_documents_of_text_stay_plain),
        cmocka_unit_test(nothing_is_cut_where_borders_are_those_of_tiles),
        cmocka_unit_test(rows_that_are_not_in_order_stay_plain),
        cmocka_unit_test(rows_before_other_keys_stay_plain),
        cmocka_unit_test(blocks_meet_the_tiles_that_have_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
