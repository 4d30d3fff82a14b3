/* Every pipeline layout gives the bits of one rank: losses, norms, weights; replicas agree with
 * each other to the bit and with one rank to 1e-5. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/layout_compare.h"

static void layouts_equal_one_rank(struct cs_test_spec options)
{
    static const int layouts[][2] = {
        {1, 1},
        {1, 2},
        {2, 2},
        {3, 3}
    };
    struct layout_outcome one, many;
    layout_run(&options, layout_single, &one);
    assert_int_equal(one.n_ranks, 1);
    assert_int_equal(one.messages, 0);
    for (size_t i = 0; i < CS_ARRAY_LEN(layouts); i++) {
        options.vision_pp = layouts[i][0];
        options.llm_pp = layouts[i][1];
        layout_run(&options, NULL, &many);
        assert_int_equal(many.n_ranks, options.vision_pp + options.llm_pp);
        layout_assert_same(&one, &many);
        assert_int_equal(many.messages, many.sends);
        assert_true(many.messages > 0);
    }
}

/* What is told under a source is the loss of its labels. */
static void losses_by_source_are_those_of_their_labels(void **state)
{
    struct cs_test_spec options = {.seed = 21};
    struct layout_outcome one, many;
    (void)state;
    layout_run(&options, layout_single, &one);
    for (int k = 0; k < LAYOUT_SOURCES; k++) {
        assert_true(one.source[k].tokens > 0);
        assert_true(fabs(one.source[k].sum - one.alone[k]) <= 1e-5 * one.alone[k]);
        assert_true(k == 0 || fabs(one.source[k].sum - one.source[0].sum) > 1e-3);
    }
    options =
        (struct cs_test_spec){.seed = 21, .llm_pp = 2, .dp = 2, .slots = LAYOUT_REPLICA_SLOTS};
    layout_run(&options, NULL, &many);
    layout_free(&many);
    options.dp = options.llm_pp = 0;
    layout_run(&options, layout_single, &one);
    layout_free(&one);
    for (int k = 0; k < LAYOUT_SOURCES; k++) {
        assert_int_equal(many.source[k].tokens, one.source[k].tokens);
        assert_true(fabs(many.source[k].sum - one.source[k].sum) <= 1e-4 * one.source[k].sum);
    }
}

static void untied_layouts_equal_one_rank(void **state)
{
    (void)state;
    layouts_equal_one_rank((struct cs_test_spec){.seed = 3});
}

static void tied_layouts_equal_one_rank(void **state)
{
    (void)state;
    layouts_equal_one_rank((struct cs_test_spec){.seed = 4, .is_tied = true, .is_qwen2 = true});
}

static void gpipe_layouts_equal_one_rank(void **state)
{
    (void)state;
    layouts_equal_one_rank(
        (struct cs_test_spec){.seed = 5, .is_tied = true, .is_qwen3 = true, .schedule = "gpipe"});
}

static void layouts_of_other_families_equal_one_rank(void **state)
{
    (void)state;
    layouts_equal_one_rank((struct cs_test_spec){
        .seed = 7, .is_tied = true, .llm_keys = CS_TEST_GEMMA4, .mask = "image_window"});
    layouts_equal_one_rank((struct cs_test_spec){.seed = 8, .llm_keys = CS_TEST_PHI3});
}

/* Recurrent blocks, and experts with their balancing loss, which knows the rows of the step. */
static void other_halves_equal_one_rank(void **state)
{
    static const char *const schedules[] = {"1f1b", "zb-h1"};
    static const char *const rules[] = {"train:*", "train:* freeze:llm.layers.0",
                                        "train:vision.projector"};
    (void)state;
    for (size_t i = 0; i < 2 * CS_ARRAY_LEN(rules); i++) {
        struct cs_test_spec options = {.seed = 12,
                                       .is_recurrent = i % 2 == 0,
                                       .has_experts = i % 2 == 1,
                                       .rules = rules[i / 2]};
        struct layout_outcome one, many;
        layout_run(&options, layout_single, &one);
        for (size_t k = 0; k < CS_ARRAY_LEN(schedules); k++)
            for (options.llm_pp = 2; options.llm_pp <= 3; options.llm_pp++) {
                options.schedule = schedules[k];
                for (const char *const *level =
                         (const char *const[]){"none", "selective", "full", NULL};
                     *level; level++) {
                    options.recompute = *level;
                    layout_run(&options, NULL, &many);
                    layout_assert_same(&one, &many);
                }
            }
    }
}

static void frozen_layouts_equal_one_rank(void **state)
{
    static const char *const rules[] = {
        "train:vision.projector",
        "train:* freeze:vision.encoder*",
        "train:* freeze:llm*",
        "train:llm*",
        "train:vision.encoder* train:llm.layers.1",
        "train:llm.head",
        "train:llm.embed",
    };
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++) {
        layouts_equal_one_rank((struct cs_test_spec){.seed = 6, .rules = rules[i]});
        layouts_equal_one_rank(
            (struct cs_test_spec){.seed = 6, .rules = rules[i], .is_tied = true});
    }
}

/* Input and weight gradients as two actions, several stages on a rank, against whole backwards on
 * one rank. */
static void other_schedules_equal_one_rank(void **state)
{
    static const char *const rules[] = {
        "train:*",
        "train:vision.projector",
        "train:* freeze:vision.encoder*",
        "train:* freeze:llm*",
        "train:vision.encoder* train:llm.layers.1",
        "train:llm.head",
        "train:llm.embed",
    };

    static const struct {
        const char *name;
        int vision, llm;
    } schedules[] = {
        {"zb-h1",       2, 3},
        {"zb-h2",       1, 1},
        {"interleaved", 1, 2},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++) {
        struct cs_test_spec options = {.seed = 9,
                                       .is_tied = i % 2 == 0,
                                       .rules = rules[i],
                                       .llm_keys = i % 3 == 0 ? CS_TEST_GEMMA4 : NULL};
        struct layout_outcome one, many;
        layout_run(&options, layout_single, &one);
        for (size_t k = 0; k < CS_ARRAY_LEN(schedules); k++) {
            options.schedule = schedules[k].name;
            options.vision_pp = schedules[k].vision;
            options.llm_pp = schedules[k].llm;
            layout_run(&options, NULL, &many);
            layout_assert_same(&one, &many);
            assert_int_equal(many.messages, many.sends);
        }
    }
}

/* What is made again has the bits of what is kept, and less is kept. */
static void recompute_changes_memory_only(void **state)
{
    static const char *const rules[] = {"train:*", "train:* freeze:llm*", "train:vision.projector"};
    static const char *const schedules[] = {"1f1b", "zb-h1"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules) * CS_ARRAY_LEN(schedules); i++) {
        struct cs_test_spec options = {.seed = 10,
                                       .is_tied = i % 2 == 0,
                                       .is_qwen3 = i % 2 == 1,
                                       .llm_keys = i / 2 == 1 ? NULL : CS_TEST_GEMMA4,
                                       .rules = rules[i / 2],
                                       .schedule = schedules[i % 2],
                                       .llm_pp = 2};
        struct layout_outcome kept, again;
        layout_run(&options, NULL, &kept);
        size_t before = kept.saved[2];
        for (const char *const *level = (const char *const[]){"selective", "full", NULL}; *level;
             level++) {
            options.recompute = *level;
            layout_run(&options, NULL, &again);
            layout_assert_same(&kept, &again);
            if (options.schedule == schedules[0] && i / 2 == 0) {
                assert_true(again.saved[2] < before);
                before = again.saved[2];
            }
        }
    }
}

static void two_encoders_equal_one_rank(void **state)
{
    struct cs_test_spec options = {.seed = 7, .n_encoders = 2, .is_tied = true};
    struct layout_outcome one, many;
    (void)state;
    layout_run(&options, layout_single, &one);
    options.llm_pp = 2;
    layout_run(&options, NULL, &many);
    assert_int_equal(many.n_ranks, 4);
    layout_assert_same(&one, &many);
    assert_int_equal(many.messages, many.sends);
}

/* several stages on a rank, also such that the rows come back to a rank they have been on */
static void shared_ranks_equal_one_rank(void **state)
{
    static const int places[][4] = {
        {0, 0, 1, 1},
        {0, 1, 0, 1},
        {1, 0, 1, 0},
        {0, 1, 2, 1},
        {0, 1, 2, 0},
        {1, 0, 0, 1},
    };
    struct cs_test_spec options = {.seed = 8, .vision_pp = 2, .llm_pp = 2, .is_tied = true};
    struct layout_outcome one, many;
    (void)state;
    layout_run(&options, layout_single, &one);
    for (size_t i = 0; i < CS_ARRAY_LEN(places); i++) {
        layout_run(&options, places[i], &many);
        assert_true(many.n_ranks > 1);
        layout_assert_same(&one, &many);
        assert_int_equal(many.messages, many.sends);
    }
}

static void replicas_agree_with_one_rank(void **state)
{
    static const struct {
        const char *rules, *schedule;
        int dp, vision, llm; /* llm 0: all on one rank */
        bool is_tied, is_recurrent, has_experts;
    } rows[] = {
        {"train:*",                        "1f1b",  2, 1, 0, true,  false, false},
        {"train:*",                        "1f1b",  4, 1, 0, false, false, false},
        {"train:*",                        "1f1b",  2, 1, 2, true,  false, false},
        {"train:*",                        "zb-h1", 2, 2, 2, true,  false, false},
        {"train:* freeze:vision.encoder*", "1f1b",  2, 1, 1, false, false, false},
        {"train:vision.projector",         "1f1b",  2, 1, 2, false, false, false},
        {"train:* freeze:llm*",            "1f1b",  2, 2, 1, true,  false, false},
        {"train:llm.embed",                "1f1b",  2, 1, 2, true,  false, false},
        {"train:*",                        "1f1b",  2, 1, 2, false, true,  false},
        {"train:*",                        "1f1b",  2, 1, 2, false, false, true },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = {.seed = 11,
                                       .slots = LAYOUT_REPLICA_SLOTS,
                                       .is_tied = rows[i].is_tied,
                                       .is_recurrent = rows[i].is_recurrent,
                                       .has_experts = rows[i].has_experts,
                                       .rules = rows[i].rules};
        struct layout_outcome one, many;
        layout_run(&options, layout_single, &one);
        options.dp = rows[i].dp;
        options.schedule = rows[i].schedule;
        options.vision_pp = rows[i].vision;
        options.llm_pp = rows[i].llm > 0 ? rows[i].llm : 1;
        layout_run(&options, rows[i].llm > 0 ? NULL : layout_single, &many);
        assert_int_equal(many.n_ranks,
                         rows[i].dp * (rows[i].llm > 0 ? rows[i].vision + rows[i].llm : 1));
        layout_assert_near(&options, &one, &many);
        assert_int_equal(many.messages, many.sends);
        layout_free(&one);
        layout_free(&many);
    }
}

/* Ranks of a pipeline under every rule of the LLM's mask; the rules differ. */
static void every_mask_equals_one_rank(void **state)
{
    double loss[LAYOUT_MASKS];
    (void)state;
    for (size_t i = 0; i < LAYOUT_MASKS; i++) {
        struct cs_test_spec options = layout_with_mask(&layout_masks[i]);
        struct layout_outcome one, many;
        options.n_encoders = 2;
        layout_run(&options, layout_single, &one);
        options.llm_pp = 2;
        layout_run(&options, NULL, &many);
        assert_int_equal(many.n_ranks, 4);
        layout_assert_same(&one, &many);
        loss[i] = one.loss[0];
        for (size_t k = 0; k < i; k++)
            if ((loss[k] == loss[i]) != (layout_masks[k].like == layout_masks[i].like))
                fail_msg("%s and %s: losses %.9g, %.9g", layout_masks[k].name, layout_masks[i].name,
                         loss[k], loss[i]);
    }
}

static void replicas_agree_under_every_mask(void **state)
{
    (void)state;
    for (size_t i = 0; i < LAYOUT_MASKS; i++) {
        struct cs_test_spec options = layout_with_mask(&layout_masks[i]);
        struct layout_outcome one, many;
        options.slots = LAYOUT_REPLICA_SLOTS;
        layout_run(&options, layout_single, &one);
        options.dp = 2;
        options.llm_pp = 2;
        layout_run(&options, NULL, &many);
        assert_int_equal(many.n_ranks, 6);
        layout_assert_near(&options, &one, &many);
        layout_free(&one);
        layout_free(&many);
    }
}

static void encoders_on_the_first_rank_equal_one_rank(void **state)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    struct cs_test_spec options = {.seed = 12, .is_tied = true, .n_encoders = 2};
    struct layout_outcome one, many;
    (void)state;
    layout_run(&options, layout_single, &one);
    options.llm_pp = 3;
    options.modality = "encoder-first";
    for (size_t i = 0; i < CS_ARRAY_LEN(schedules); i++) {
        options.schedule = schedules[i];
        layout_run(&options, NULL, &many);
        assert_int_equal(many.n_ranks, 3);
        layout_assert_same(&one, &many);
    }
}

static void frozen_encoder_keeps_nothing(void **state)
{
    struct cs_test_spec options = {.rules = "train:* freeze:vision.*"};
    struct layout_outcome frozen, trained;
    (void)state;
    layout_run(&options, NULL, &frozen);
    options.rules = "train:*";
    layout_run(&options, NULL, &trained);
    assert_int_equal(frozen.n_ranks, 2);
    assert_int_equal(frozen.saved[0], 0);
    assert_true(trained.saved[0] > 0);
    assert_true(frozen.saved[1] > 0);
    /* and no gradient is sent back: half the messages */
    assert_int_equal(trained.messages, 2 * frozen.messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_by_source_are_those_of_their_labels),
        cmocka_unit_test(untied_layouts_equal_one_rank),
        cmocka_unit_test(tied_layouts_equal_one_rank),
        cmocka_unit_test(gpipe_layouts_equal_one_rank),
        cmocka_unit_test(layouts_of_other_families_equal_one_rank),
        cmocka_unit_test(other_halves_equal_one_rank),
        cmocka_unit_test(frozen_layouts_equal_one_rank),
        cmocka_unit_test(other_schedules_equal_one_rank),
        cmocka_unit_test(recompute_changes_memory_only),
        cmocka_unit_test(two_encoders_equal_one_rank),
        cmocka_unit_test(shared_ranks_equal_one_rank),
        cmocka_unit_test(encoders_on_the_first_rank_equal_one_rank),
        cmocka_unit_test(replicas_agree_with_one_rank),
        cmocka_unit_test(every_mask_equals_one_rank),
        cmocka_unit_test(replicas_agree_under_every_mask),
        cmocka_unit_test(frozen_encoder_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
