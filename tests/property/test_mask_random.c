/* Closed forms of masks against the rule asked for every pair. */
#include "core/mask/runs.h"
#include "core/mask/span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { CASES = 3000, MAX_SPANS = 12 };

static uint64_t seed = 7;

static int32_t between(int32_t lo, int32_t hi)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int32_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

static void make_random(struct cs_arena *arena, struct cs_mask_plan *plan)
{
    struct cs_mask_span span[MAX_SPANS];
    const struct cs_mask_rule rule = {(enum cs_mask_kind)between(0, CS_MASK_KINDS - 1),
                                      between(1, 40), between(1, 40)};
    int n = between(1, MAX_SPANS);
    int32_t doc = 0;
    for (int i = 0; i < n; i++) {
        doc += i > 0 && between(0, 4) == 0;
        span[i] = (struct cs_mask_span){between(-2, 3), between(i == 0, 30), doc,
                                        between(0, 2) ? CS_SPAN_OWN_ITEM : between(0, 2)};
    }
    struct cs_err err = {.text = ""};
    const enum cs_mask_text text = between(0, 3) ? CS_TEXT_SEES_ALL : CS_TEXT_SEES_TEXT;
    if (cs_mask_from_spans(span, n, rule, text, arena, plan, &err) != CS_OK)
        fail_msg("%s", err.text);
    /* positions need not start at 0 */
    if (between(0, 3) == 0) {
        int32_t *pos = CS_NEW_ARRAY(arena, int32_t, plan->n_tokens), shift = between(-5, 20);
        for (int32_t i = 0; i < plan->n_tokens; i++)
            pos[i] = plan->pos[i] + shift;
        plan->pos = pos;
    }
}

static bool allows(const struct cs_mask_plan *plan, int32_t q, int32_t k)
{
    return cs_mask_allows(plan->rule, cs_mask_token_at(plan, q), cs_mask_token_at(plan, k));
}

static void row_pairs_equal_the_dense_mask(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_mask_plan plan;
        struct cs_mask_runs runs;
        int64_t sum = 0;
        make_random(arena, &plan);
        assert_int_equal(cs_mask_runs_make(&plan, arena, &runs, NULL), CS_OK);
        int32_t *pairs = CS_NEW_ARRAY(arena, int32_t, plan.n_tokens);
        const int64_t all = cs_mask_row_pairs(&runs, arena, pairs);
        for (int32_t q = 0; q < plan.n_tokens; q++) {
            int32_t want = 0;
            for (int32_t k = 0; k < plan.n_tokens; k++)
                want += allows(&plan, q, k);
            if (pairs[q] != want)
                fail_msg("case %d, rule %s, row %d: %d, dense %d", c,
                         cs_mask_kind_name(plan.rule.kind), (int)q, (int)pairs[q], (int)want);
            sum += want;
        }
        assert_int_equal(all, sum);
        cs_arena_free(arena);
    }
}

static int dense_tile(const struct cs_mask_plan *plan, const struct cs_mask_tiles *tiles, int32_t q,
                      int32_t k)
{
    int64_t yes = 0, area = 0;
    for (int32_t i = q * tiles->q_rows; i < (q + 1) * tiles->q_rows && i < plan->n_tokens; i++)
        for (int32_t j = k * tiles->k_rows; j < (k + 1) * tiles->k_rows && j < plan->n_tokens;
             j++) {
            yes += allows(plan, i, j);
            area++;
        }
    return yes == 0 ? CS_TILE_NONE : (yes == area ? CS_TILE_ALL : CS_TILE_PARTIAL);
}

static void tiles_of_any_size_equal_the_dense_mask(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_mask_plan plan;
        struct cs_mask_runs runs;
        struct cs_mask_tiles tiles;
        make_random(arena, &plan);
        assert_int_equal(cs_mask_runs_make(&plan, arena, &runs, NULL), CS_OK);
        assert_int_equal(
            cs_mask_tiles_make(&runs, between(1, 40), between(1, 40), arena, &tiles, NULL), CS_OK);
        for (int32_t q = 0; q < tiles.n_q; q++)
            for (int32_t k = 0; k < tiles.n_k; k++)
                if (tiles.tile[q * tiles.n_k + k] != dense_tile(&plan, &tiles, q, k))
                    fail_msg("case %d, rule %s, tile %d %d of %d x %d", c,
                             cs_mask_kind_name(plan.rule.kind), (int)q, (int)k, (int)tiles.q_rows,
                             (int)tiles.k_rows);
        cs_arena_free(arena);
    }
}

/* whoever uses the class in place of the token must get the same relation */
static void equal_classes_stand_in_equal_relations(void **state)
{
    (void)state;
    for (int c = 0; c < CASES / 10; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_mask_plan plan;
        make_random(arena, &plan);
        for (int32_t q = 0; q < plan.n_tokens; q += 3)
            for (int32_t k = 0; k < plan.n_tokens; k += 3) {
                const struct cs_mask_token a = cs_mask_token_at(&plan, q),
                                           b = cs_mask_token_at(&plan, k);
                assert_int_equal(cs_mask_relation(plan.rule, a, b),
                                 cs_mask_relation(plan.rule, cs_mask_class(plan.rule, a),
                                                  cs_mask_class(plan.rule, b)));
            }
        cs_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_pairs_equal_the_dense_mask),
        cmocka_unit_test(tiles_of_any_size_equal_the_dense_mask),
        cmocka_unit_test(equal_classes_stand_in_equal_relations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
