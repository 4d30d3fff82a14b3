/* Pairs of a document from amounts alone, against the pairs of a document that has them. */
#include "core/mask/amounts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/mask/runs.h"
#include "core/mask/span.h"

enum { MAX_SPANS = 16 };

/* 40 of text, an image of 30 of kind 0, 40, 50 of kind 1, 40, 30 of kind 0, 40: the middle of the
 * text is the middle of the document */
static const struct cs_mask_span symmetric[] = {
    {CS_SPAN_TEXT, 40, 0, CS_SPAN_OWN_ITEM},
    {0,            30, 0, CS_SPAN_OWN_ITEM},
    {CS_SPAN_TEXT, 40, 0, CS_SPAN_OWN_ITEM},
    {1,            50, 0, CS_SPAN_OWN_ITEM},
    {CS_SPAN_TEXT, 40, 0, CS_SPAN_OWN_ITEM},
    {0,            30, 0, CS_SPAN_OWN_ITEM},
    {CS_SPAN_TEXT, 40, 0, CS_SPAN_OWN_ITEM},
};
static const struct cs_mask_amounts amounts = {
    .tokens = 270, .n = 2, .modality = {{60, 2 * 30 * 30}, {50, 50 * 50}}
};

static int64_t count(const struct cs_mask_span *span, int n, struct cs_mask_rule rule)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_mask_plan plan;
    struct cs_mask_runs runs;
    struct cs_err err = {.text = ""};
    if (cs_mask_from_spans(span, n, rule, CS_TEXT_SEES_ALL, arena, &plan, &err) != CS_OK ||
        cs_mask_runs_make(&plan, arena, &runs, &err) != CS_OK)
        fail_msg("%s", err.text);
    int32_t *row = CS_NEW_ARRAY(arena, int32_t, plan.n_tokens);
    const int64_t pairs = cs_mask_row_pairs(&runs, arena, row);
    cs_arena_free(arena);
    return pairs;
}

static void every_rule_has_the_pairs_of_its_document(void **state)
{
    (void)state;
    static const int32_t sizes[] = {1, 7, 100, 269, 270, 271, 5000};
    for (int kind = 0; kind < CS_MASK_KINDS; kind++)
        for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++) {
            const struct cs_mask_rule rule = {(enum cs_mask_kind)kind, sizes[i], sizes[i]};
            const int64_t want = count(symmetric, (int)CS_ARRAY_LEN(symmetric), rule);
            if (cs_mask_amounts_pairs(rule, &amounts) != want)
                fail_msg("%s %d: %lld pairs, the document has %lld", cs_mask_kind_name(rule.kind),
                         sizes[i], (long long)cs_mask_amounts_pairs(rule, &amounts),
                         (long long)want);
        }
}

/* where spans stand does not matter to rules that only add to a causal mask */
static void rules_over_a_causal_mask_are_exact_in_any_order(void **state)
{
    (void)state;
    static const struct cs_mask_span last[] = {
        {CS_SPAN_TEXT, 160, 0, CS_SPAN_OWN_ITEM},
        {0,            30,  0, CS_SPAN_OWN_ITEM},
        {1,            50,  0, CS_SPAN_OWN_ITEM},
        {0,            30,  0, CS_SPAN_OWN_ITEM},
    };

    static const enum cs_mask_kind kinds[] = {CS_MASK_IMAGE_BIDIR, CS_MASK_MODALITY_BIDIR};

    for (size_t i = 0; i < CS_ARRAY_LEN(kinds); i++) {
        const struct cs_mask_rule rule = {.kind = kinds[i]};
        assert_int_equal(cs_mask_amounts_pairs(rule, &amounts), count(last, 4, rule));
    }
}

static void text_alone_is_causal_under_every_rule_of_spans(void **state)
{
    (void)state;

    static const enum cs_mask_kind kinds[] = {CS_MASK_CORNSTARCH, CS_MASK_ITEM, CS_MASK_IMAGE_BIDIR,
                                              CS_MASK_MODALITY_BIDIR};
    const struct cs_mask_amounts text = {.tokens = 1000};
    for (size_t i = 0; i < CS_ARRAY_LEN(kinds); i++)
        assert_int_equal(cs_mask_amounts_pairs((struct cs_mask_rule){.kind = kinds[i]}, &text),
                         1000 * 1001 / 2);
}

/* budgets may promise more rows of images than a slot holds */
static void more_rows_than_tokens_is_never_more_than_all(void **state)
{
    (void)state;
    const struct cs_mask_amounts many = {
        .tokens = 100, .n = 2, .modality = {{9 * 40, 9 * 40 * 40}, {3 * 200, 3 * 200 * 200}}
    };
    for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
        const struct cs_mask_rule rule = {(enum cs_mask_kind)kind, 10, 10};
        assert_in_range(cs_mask_amounts_pairs(rule, &many), 100, 100 * 100);
    }
    const struct cs_mask_amounts none = {.tokens = 0};
    for (int kind = 0; kind < CS_MASK_KINDS; kind++)
        assert_int_equal(
            cs_mask_amounts_pairs((struct cs_mask_rule){(enum cs_mask_kind)kind, 5, 5}, &none), 0);
}

/* the largest slot of a plan is 2^24 tokens */
static void pairs_of_a_long_document_do_not_overflow(void **state)
{
    (void)state;
    const int64_t t = 1 << 24;
    const struct cs_mask_amounts video = {.tokens = t, .n = 1, .modality = {{t, t * 4096}}};
    assert_int_equal(cs_mask_amounts_pairs((struct cs_mask_rule){.kind = CS_MASK_FULL}, &video),
                     t * t);
    assert_int_equal(
        cs_mask_amounts_pairs((struct cs_mask_rule){.kind = CS_MASK_CORNSTARCH}, &video), t * t);
    assert_int_equal(cs_mask_amounts_pairs((struct cs_mask_rule){.kind = CS_MASK_ITEM}, &video),
                     t * 4096);
}

static void rules_are_found_by_the_names_of_a_job(void **state)
{
    (void)state;
    struct cs_mask_rule rule;
    assert_true(cs_mask_rule_named(NULL, 0, 0, &rule));
    assert_int_equal(rule.kind, CS_MASK_CAUSAL);
    assert_true(cs_mask_rule_named("packed", 0, 0, &rule));
    assert_int_equal(rule.kind, CS_MASK_CAUSAL);
    assert_true(cs_mask_rule_named("window", 12, 0, &rule));
    assert_int_equal(rule.kind, CS_MASK_WINDOW);
    assert_int_equal(rule.window, 12);
    assert_true(cs_mask_rule_named("prefix", 0, 9, &rule));
    assert_int_equal(rule.kind, CS_MASK_PREFIX);
    assert_int_equal(rule.prefix, 9);
    assert_false(cs_mask_rule_named("bidirectional", 0, 0, &rule));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_has_the_pairs_of_its_document),
        cmocka_unit_test(rules_over_a_causal_mask_are_exact_in_any_order),
        cmocka_unit_test(text_alone_is_causal_under_every_rule_of_spans),
        cmocka_unit_test(more_rows_than_tokens_is_never_more_than_all),
        cmocka_unit_test(pairs_of_a_long_document_do_not_overflow),
        cmocka_unit_test(rules_are_found_by_the_names_of_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
