/* Places of rows on three axes against those of transformers; documents of a slot begin anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/axes.h"
#include "support/step.h"
#include "support/tmpdir.h"

enum { MOST = 512 };

static const struct cs_slot_budget budget = {
    .seq_tokens = MOST,
    .n_encoders = 1,
    .enc = {{.items = 32,
             .rows = MOST,
             .patches = 4 * MOST,
             .bytes = 4 * MOST,
             .item_rows = MOST,
             .item_patches = 4 * MOST,
             .item_bytes = 4 * MOST}},
};

/* the pieces of a case as a document of the slot; returns its rows */
static int32_t add_document(struct cs_slot *slot, const json_t *c)
{
    const int32_t merge = (int32_t)json_integer_value(json_object_get(c, "merge"));
    const int32_t begin = slot->head->n_tokens, doc = slot->head->n_samples++;
    int32_t row = begin, first;
    json_t *piece;
    size_t i;
    json_array_foreach(json_object_get(c, "pieces"), i, piece)
    {
        int32_t n = (int32_t)json_integer_value(piece);
        if (json_is_array(piece)) {
            struct cs_item_shape s = {
                .kind = CS_ITEM_IMAGE,
                .time_step = (int32_t)json_integer_value(json_object_get(c, "time_step"))};
            for (size_t d = 0; d < 3; d++)
                s.grid[d] = (int32_t)json_integer_value(json_array_get(piece, d));
            n = s.rows = s.grid[0] * s.grid[1] * s.grid[2] / (merge * merge);
            assert_non_null(cs_slot_add_item(slot, &budget, 0, &s, &first));
            for (int32_t k = 0; k < n; k++)
                slot->rows[0][first + k] = row + k;
        }
        for (int32_t k = 0; k < n; k++)
            slot->doc[row++] = doc;
    }
    slot->head->n_tokens = row;
    return row - begin;
}

static void assert_places(const int32_t *pos, int32_t all, int32_t first, int32_t n,
                          const json_t *c)
{
    for (size_t axis = 0; axis < 3; axis++) {
        const json_t *want = json_array_get(json_object_get(c, "pos"), axis);
        assert_int_equal(json_array_size(want), (size_t)n);
        for (int32_t i = 0; i < n; i++)
            assert_int_equal(pos[(int32_t)axis * all + first + i],
                             json_integer_value(json_array_get(want, (size_t)i)));
    }
}

/* every case alone, and behind another one in the same slot */
static void places_are_those_of_transformers(void **state)
{
    size_t bytes;
    (void)state;
    char *text = tmpdir_read(source_path("tests/golden/axes.json"), &bytes);
    json_t *cases = json_loadb(text, bytes, 0, NULL);
    const size_t n_cases = json_array_size(cases);
    assert_true(n_cases > 20);
    for (size_t i = 0; i < n_cases; i++) {
        const json_t *a = json_array_get(cases, i), *b = json_array_get(cases, (i + 5) % n_cases);
        const int32_t merge[] = {(int32_t)json_integer_value(json_object_get(a, "merge"))};
        struct cs_test_step step;
        int32_t pos[3 * MOST];
        cs_test_step_new(&step, &budget, 1, 0);
        struct cs_slot *slot = &step.slot[0];
        const int32_t first = add_document(slot, a);
        const bool is_same = merge[0] == json_integer_value(json_object_get(b, "merge"));
        const int32_t second = is_same ? add_document(slot, b) : 0;
        cs_slot_axes(slot, &budget, merge, pos);
        assert_places(pos, first + second, 0, first, a);
        if (is_same)
            assert_places(pos, first + second, first, second, b);
        cs_test_step_free(&step);
    }
    json_decref(cases);
    free(text);
}

/* rows of an encoder that is told to count as text */
static void other_encoders_are_text(void **state)
{
    (void)state;
    static const int32_t merge[] = {0};
    struct cs_test_step step;
    int32_t pos[3 * MOST];
    json_t *c = json_pack("{s:i, s:i, s:[i, [i, i, i], i]}", "merge", 1, "time_step", 1, "pieces",
                          3, 1, 4, 4, 2);
    cs_test_step_new(&step, &budget, 1, 0);
    const int32_t n = add_document(&step.slot[0], c);
    cs_slot_axes(&step.slot[0], &budget, merge, pos);
    for (int32_t i = 0; i < 3 * n; i++)
        assert_int_equal(pos[i], i % n);
    cs_test_step_free(&step);
    json_decref(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_those_of_transformers),
        cmocka_unit_test(other_encoders_are_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
