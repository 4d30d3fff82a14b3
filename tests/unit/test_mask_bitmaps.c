/* There is room for all bitmaps that a mask has, also where every picture sees every other. */
#include "core/mask/bitmaps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/mask/cut.h"
#include "core/mask/span.h"

enum { TOKENS = 2500, MAX_SPANS = 512 };

static uint32_t between(uint32_t *x, uint32_t lo, uint32_t hi)
{
    *x = *x * 1664525u + 1013904223u;
    return lo + (*x >> 8) % (hi - lo + 1);
}

/* Pictures of that many rows with text of up to `text` rows between, a document of every `per`. */
static int lay_out(uint32_t rows, uint32_t text, int per, struct cs_mask_span *span)
{
    uint32_t x = rows * 31 + text;
    int n = 0;
    for (int32_t at = 0, i = 0; at < TOKENS; i++) {
        const int32_t t = (int32_t)between(&x, 1, text), own = t < TOKENS - at ? t : TOKENS - at;
        span[n++] = (struct cs_mask_span){CS_SPAN_TEXT, own, i / per, CS_SPAN_OWN_ITEM};
        at += own;
        const int32_t picture = (int32_t)rows < TOKENS - at ? (int32_t)rows : TOKENS - at;
        span[n++] = (struct cs_mask_span){i % 2, picture, i / per, CS_SPAN_OWN_ITEM};
        at += picture;
        assert_true(n + 2 <= MAX_SPANS);
    }
    return n;
}

/* bitmaps of the mask, with query tiles as they are chosen */
static int32_t count(const struct cs_mask_span *span, int n, struct cs_mask_rule rule,
                     int32_t *room, int64_t *cells)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_mask_plan plan;
    struct cs_mask_cells made;
    struct cs_err err = {.text = ""};
    if (cs_mask_from_spans(span, n, rule, CS_TEXT_SEES_ALL, arena, &plan, &err) != CS_OK)
        fail_msg("%s", err.text);
    int32_t *q = CS_NEW_ARRAY(arena, int32_t, cs_mask_tile_room(&plan)),
            *k = CS_NEW_ARRAY(arena, int32_t, cs_mask_tile_room(&plan));
    const int32_t n_q = cs_mask_tile_rows_chosen(&plan, q),
                  n_k = cs_mask_tile_rows(&plan, false, k);
    if (cs_mask_cells_make(&plan, NULL, q, n_q, k, n_k, arena, &made, &err) != CS_OK)
        fail_msg("%s", err.text);
    *room = cs_mask_bitmap_room(&plan, q, n_q, n_k);
    *cells = (int64_t)CS_MASK_CELLS * n_q * n_k;
    const int32_t bitmaps = *made.n_bitmaps;
    cs_arena_free(arena);
    return bitmaps;
}

static void every_bitmap_has_room(void **state)
{
    (void)state;
    static const uint32_t rows[] = {16, 64, 100, 144, 257}, texts[] = {1, 7, 40, 200};
    static const int per[] = {1, 5, 1000};
    struct cs_mask_span span[MAX_SPANS];
    for (size_t i = 0; i < CS_ARRAY_LEN(rows) * CS_ARRAY_LEN(texts) * CS_ARRAY_LEN(per); i++) {
        const uint32_t size = rows[i % 5], text = texts[i / 5 % 4];
        const int n = lay_out(size, text, per[i / 20], span);
        for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
            const struct cs_mask_rule rule = {(enum cs_mask_kind)kind, 300, 300};
            int32_t room;
            int64_t cells;
            const int32_t need = count(span, n, rule, &room, &cells);
            if (need > room || room > cells)
                fail_msg("%s, pictures of %u, text to %u, %d a document: %d bitmaps, room for %d",
                         cs_mask_kind_name(rule.kind), size, text, per[i / 20], need, room);
        }
    }
}

/* the rules that need many are those that get more than usual */
static void room_grows_where_pictures_see_each_other(void **state)
{
    (void)state;
    struct cs_mask_span span[MAX_SPANS];
    const int n = lay_out(16, 40, 1000, span);
    int32_t usual, room;
    int64_t cells;
    assert_in_range(count(span, n, (struct cs_mask_rule){.kind = CS_MASK_ITEM}, &usual, &cells), 1,
                    300);
    const int32_t need =
        count(span, n, (struct cs_mask_rule){.kind = CS_MASK_CORNSTARCH}, &room, &cells);
    assert_true(need > usual);
    assert_true(room >= need);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bitmap_has_room),
        cmocka_unit_test(room_grows_where_pictures_see_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
