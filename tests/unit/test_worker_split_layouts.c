/* Ranks that split the rows of a slot, share matrices or share the items of encoders agree with one rank
 * within rounding, in every layout. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/layout_compare.h"

/* Rows of a slot, or matrices, on several ranks: one rank, within rounding. */
static void agrees_over_context_on(bool is_lazy, struct cs_test_spec options, int ranks)
{
    struct cs_test_spec alone = options;
    struct layout_outcome one, many;
    alone.llm_tp = alone.vision_tp = alone.llm_ep = 1;
    alone.llm_sp = alone.vision_sp = false;
    alone.llm_cp = alone.dp = alone.vision_pp = alone.depth_pp = alone.llm_pp = 1;
    alone.vision_cp = alone.context_rows = alone.vision_dp = alone.depth_dp = 0;
    alone.modality = NULL;
    alone.schedule = alone.recompute = NULL;
    layout_run(&alone, layout_single, &one);
    layout_run_on(is_lazy, &options, NULL, &many);
    assert_int_equal(many.n_ranks, ranks);
    /* no update before it; gradients of decays move as much with the number of rows in a chunk */
    const double near = options.is_recurrent ? 5e-5 : 1e-6;
    if (!(fabs(one.loss[0] - many.loss[0]) <= 1e-6 * one.loss[0]) ||
        !(fabs(one.norm[0] - many.norm[0]) <= near * one.norm[0]))
        fail_msg("seed %d: loss %.9g and %.9g, norm %.9g and %.9g", options.seed, one.loss[0],
                 many.loss[0], one.norm[0], many.norm[0]);
    layout_assert_near(&options, &one, &many);
    layout_free(&one);
    layout_free(&many);
}

/* Devices and hosts in one layout. */
static void agrees_with_hosts(struct cs_test_spec options, int ranks)
{
    struct layout_outcome hosts, devices;
    layout_run(&options, NULL, &hosts);
    layout_run_on(true, &options, NULL, &devices);
    assert_int_equal(devices.n_ranks, ranks);
    layout_assert_near(&options, &hosts, &devices);
    layout_free(&hosts);
    layout_free(&devices);
}

static void agrees_over_context(struct cs_test_spec options, int ranks)
{
    agrees_over_context_on(false, options, ranks);
}

struct row {
    struct cs_test_spec options;
    int ranks;
};

/* seed: of the first, where it has none */
static void all_agree(const struct row *row, size_t n, int seed, int slots)
{
    for (size_t i = 0; i < n; i++) {
        struct cs_test_spec options = row[i].options;
        options.seed = options.seed != 0 ? options.seed : seed + (int)i;
        options.slots = slots;
        agrees_over_context(options, row[i].ranks);
    }
}

/* every rule; rows of pictures and text, empty slots, slots shorter than the ranks have blocks */
static void contexts_agree_with_one_rank(void **state)
{
    static const char *const rules[] = {"lpt",    "best",    "exact", "uniform",
                                        "zigzag", "striped", "random"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++)
        for (int cp = 2; cp <= 4; cp++)
            agrees_over_context((struct cs_test_spec){.seed = 20,
                                                      .slots = LAYOUT_REPLICA_SLOTS,
                                                      .context = rules[i],
                                                      .llm_cp = cp,
                                                      .is_tied = cp == 3},
                                1 + cp);
}

/* with stages, replicas, both halves of a backward, recompute, and what is frozen */
static void contexts_go_with_other_layouts(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute;
        int cp, dp, vision, llm;
        bool is_tied;
    } rows[] = {
        {"train:*",                                  "1f1b",        "none",      2, 1, 1, 2, true },
        {"train:*",                                  "gpipe",       "full",      3, 1, 2, 2, false},
        {"train:*",                                  "zb-h1",       "selective", 2, 1, 1, 2, true },
        {"train:*",                                  "1f1b",        "none",      2, 2, 1, 1, true },
        {"train:*",                                  "interleaved", "none",      2, 1, 1, 1, false},
        {"train:* freeze:vision.encoder*",           "1f1b",        "none",      2, 1, 1, 2, false},
        {"train:vision.projector",                   "1f1b",        "none",      3, 1, 1, 2, false},
        {"train:* freeze:llm*",                      "zb-h1",       "none",      2, 1, 2, 1, true },
        {"train:vision.encoder* train:llm.layers.1", "1f1b",        "full",      2, 1, 1, 1, false},
        {"train:llm.head",                           "1f1b",        "none",      2, 1, 1, 1, false},
        {"train:llm.embed",                          "1f1b",        "none",      2, 1, 1, 2, false},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = 21,
                                                  .slots = LAYOUT_REPLICA_SLOTS,
                                                  .rules = rows[i].rules,
                                                  .schedule = rows[i].schedule,
                                                  .recompute = rows[i].recompute,
                                                  .llm_cp = rows[i].cp,
                                                  .dp = rows[i].dp,
                                                  .vision_pp = rows[i].vision,
                                                  .llm_pp = rows[i].llm,
                                                  .is_tied = rows[i].is_tied},
                            rows[i].dp * (rows[i].vision + rows[i].llm * rows[i].cp));
}

/* windows, kinds of attention by layer, norms of heads, positions over axes, two encoders */
static void contexts_agree_for_masks_and_families(void **state)
{
    static const char *const keys[] = {CS_TEST_GEMMA4, CS_TEST_PHI3};
    (void)state;
    for (size_t i = 0; i < LAYOUT_MASKS; i++) {
        struct cs_test_spec options = layout_with_mask(&layout_masks[i]);
        options.slots = LAYOUT_REPLICA_SLOTS;
        options.n_encoders = 2;
        options.llm_cp = 2 + (int)(i % 2);
        agrees_over_context(options, 2 + options.llm_cp);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++)
        agrees_over_context((struct cs_test_spec){.seed = 22,
                                                  .slots = LAYOUT_REPLICA_SLOTS,
                                                  .llm_cp = 2,
                                                  .llm_keys = keys[i],
                                                  .is_tied = i == 0,
                                                  .mask = i == 0 ? "image_window" : NULL},
                            3);
    agrees_over_context((struct cs_test_spec){.seed = 23,
                                              .slots = LAYOUT_REPLICA_SLOTS,
                                              .llm_cp = 3,
                                              .n_encoders = -1,
                                              .is_qwen3 = true,
                                              .seq_tokens = 335},
                        3);
}

/* Recurrent layers: rows in order, states from rank to rank, documents that end on other ranks than they
 * begin, slots with fewer rows than a convolution reads; between them layers of rows as they are dealt. */
static void contexts_agree_for_recurrent_layers(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute, *context;
        int seed, cp, dp, llm, encoders, tokens;
    } rows[] = {
        {"train:*",                                  "1f1b",        "none",      "lpt",     24, 2, 1, 1, 1,  0   },
        {"train:*",                                  "1f1b",        "full",      "zigzag",  25, 3, 1, 2, 1,  0   },
        {"train:*",                                  "zb-h1",       "selective", "striped", 36, 4, 1, 1, 1,  0   },
        {"train:*",                                  "zb-h1",       "none",      "best",    27, 2, 2, 1, 1,  0   },
        {"train:*",                                  "interleaved", "none",      "random",  38, 3, 1, 1, 1,  0   },
        {"train:* freeze:llm*",                      "1f1b",        "none",      "exact",   29, 2, 1, 2, 1,  0   },
        {"train:vision.projector",                   "gpipe",       "full",      "uniform", 30, 3, 1, 1, 1,  0   },
        {"train:vision.encoder* train:llm.layers.1", "zb-h1",       "none",      "lpt",     31, 2, 1, 1, 1,  0   },
        {"train:*",                                  "1f1b",        "none",      "lpt",     32, 3, 1, 1, -1, 335 },
        {"train:*",                                  "1f1b",        "none",      "zigzag",  33, 4, 1, 1, -1, 1000},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = rows[i].seed,
                                                  .slots = LAYOUT_REPLICA_SLOTS,
                                                  .is_recurrent = true,
                                                  .rules = rows[i].rules,
                                                  .schedule = rows[i].schedule,
                                                  .recompute = rows[i].recompute,
                                                  .context = rows[i].context,
                                                  .llm_cp = rows[i].cp,
                                                  .dp = rows[i].dp,
                                                  .llm_pp = rows[i].llm,
                                                  .n_encoders = rows[i].encoders,
                                                  .seq_tokens = rows[i].tokens},
                            rows[i].dp * ((rows[i].encoders > 0) + rows[i].llm * rows[i].cp));
}

/* Experts: their balancing loss knows all rows of a slot, of which a rank may have none. */
static void contexts_agree_for_experts(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute, *context;
        int cp, dp, llm, encoders;
    } rows[] = {
        {"train:*",                             "1f1b",  "none",      "lpt",     2, 1, 2, 1 },
        {"train:*",                             "zb-h1", "full",      "zigzag",  3, 1, 1, 1 },
        {"train:*",                             "zb-h1", "selective", "striped", 4, 1, 1, -1},
        {"train:*",                             "1f1b",  "none",      "uniform", 2, 2, 1, 1 },
        {"train:vision.projector",              "1f1b",  "none",      "lpt",     2, 1, 1, 1 },
        {"train:llm.layers.2 train:llm.embed*", "1f1b",  "none",      "lpt",     3, 1, 1, -1},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = 40 + (int)i,
                                                  .slots = LAYOUT_REPLICA_SLOTS,
                                                  .has_experts = true,
                                                  .rules = rows[i].rules,
                                                  .schedule = rows[i].schedule,
                                                  .recompute = rows[i].recompute,
                                                  .context = rows[i].context,
                                                  .llm_cp = rows[i].cp,
                                                  .dp = rows[i].dp,
                                                  .llm_pp = rows[i].llm,
                                                  .n_encoders = rows[i].encoders},
                            rows[i].dp * ((rows[i].encoders > 0) + rows[i].llm * rows[i].cp));
}

/* Rows go to the ranks of their experts and back: among replicas, among the parts of a context, among
 * both; with fewer experts on some ranks than on others, frozen ones, empty slots (each step has one),
 * tensors of one expert or of all. */
static void experts_on_several_ranks_agree_with_one_rank(void **state)
{
    static const struct {
        struct cs_test_spec options;
        int ranks;
    } rows[] = {
  /* clang-format off */
        {{.has_experts = true, .dp = 2, .llm_ep = 2}, 4},
        {{.has_experts = true, .dp = 4, .llm_ep = 4, .n_encoders = -1}, 4},
        {{.has_experts = true, .dp = 4, .llm_ep = 2, .n_encoders = -1, .recompute = "full"}, 4},
        {{.has_experts = true, .llm_cp = 2, .llm_ep = 2, .llm_pp = 2, .schedule = "zb-h1"}, 5},
        {{.has_experts = true, .dp = 2, .llm_cp = 2, .llm_ep = 4, .n_encoders = -1, .schedule = "zb-h1", .recompute = "selective"}, 4},
        {{.has_experts = true, .dp = 2, .llm_cp = 3, .llm_ep = 2, .n_encoders = -1, .context = "zigzag"}, 6},
        {{.has_experts = true, .dp = 2, .llm_cp = 3, .llm_ep = 3, .n_encoders = -1, .schedule = "zb-h1", .recompute = "full"}, 6},
        {{.has_experts = true, .dp = 2, .llm_ep = 2, .llm_pp = 2, .schedule = "gpipe"}, 6},
        {{.has_experts = true, .dp = 2, .llm_ep = 2, .schedule = "interleaved", .is_tied = true}, 4},
        {{.has_experts = true, .dp = 2, .llm_ep = 2, .rules = "train:vision.projector"}, 4},
        {{.has_experts = true, .dp = 2, .llm_ep = 2, .n_encoders = -1, .rules = "train:llm.layers.2 train:llm.embed*"}, 2},
        {{.has_experts = true, .dp = 2, .llm_ep = 2, .n_encoders = -1, .schedule = "zb-h1", .rules = "train:* freeze:llm.layers.0 freeze:llm/*experts*"}, 2},
        {{.has_experts = true, .dp = 2, .llm_tp = 2, .llm_ep = 2, .n_encoders = -1}, 4},
        {{.has_experts = true, .llm_cp = 2, .llm_ep = 2, .context_rows = 60, .n_encoders = -1}, 2},
        {{.has_experts = true, .dp = 2, .llm_ep = 2, .modality = "encoder-colocated"}, 2},
        {{.has_experts = true, .dp = 2, .llm_ep = 2, .vision_dp = 1}, 3},
        {{.has_experts = true, .dp = 2, .llm_ep = 2, .vision_dp = 3, .schedule = "zb-h1", .recompute = "full"}, 5},
        {{.llm_keys = CS_TEST_MIXTRAL, .dp = 2, .llm_ep = 2, .llm_pp = 2}, 6},
        {{.llm_keys = CS_TEST_MIXTRAL, .dp = 2, .llm_cp = 2, .llm_ep = 4, .n_encoders = -1, .recompute = "selective"}, 4},
        {{.llm_keys = CS_TEST_QWEN3_VL_MOE, .dp = 2, .llm_ep = 2, .schedule = "zb-h1"}, 4},
        {{.llm_keys = CS_TEST_QWEN3_VL_MOE, .dp = 2, .llm_cp = 2, .llm_ep = 4, .n_encoders = -1}, 4},
        {{.llm_keys = CS_TEST_QWEN3_VL_MOE, .dp = 2, .llm_tp = 2, .llm_ep = 2, .n_encoders = -1, .schedule = "zb-h1"}, 4},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = rows[i].options;
        options.seed = 80 + (int)i;
        options.slots = LAYOUT_REPLICA_SLOTS;
        agrees_over_context(options, rows[i].ranks);
    }
}

/* Whoever is faster: what comes to an expert has one order, from run to run. */
static void experts_on_several_ranks_repeat_to_the_bit(void **state)
{
    static const struct cs_test_spec rows[] = {
        {.has_experts = true, .dp = 2,  .llm_ep = 2, .slots = LAYOUT_REPLICA_SLOTS},
        { .llm_keys = CS_TEST_MIXTRAL,
         .dp = 2,
         .llm_ep = 2,
         .slots = LAYOUT_REPLICA_SLOTS,
         .schedule = "zb-h1",
         .n_encoders = -1},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct layout_outcome first, again;
        layout_run(&rows[i], NULL, &first);
        layout_run(&rows[i], NULL, &again);
        layout_assert_same(&first, &again);
        layout_free(&first);
        layout_free(&again);
    }
}

/* The same where exchanges are enqueued between pieces of graphs, keys stay as they arrive, rows are
 * padded, and messages of an encoder go to every rank over a channel of its own. */
static void contexts_of_devices_agree_with_the_host(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute, *mask;
        int encoders, cp, dp, llm;
        bool is_tied, is_qwen3;
    } rows[] = {
        {"train:*",                "1f1b",  "none",      "causal",      -1, 2, 1, 1, false, false},
        {"train:*",                "1f1b",  "none",      "image_bidir", 1,  2, 1, 1, false, true },
        {"train:*",                "1f1b",  "full",      "item",        2,  3, 1, 1, true,  false},
        {"train:*",                "zb-h1", "selective", "cornstarch",  1,  2, 1, 2, true,  false},
        {"train:vision.projector", "1f1b",  "none",      "packed",      1,  4, 1, 1, false, true },
        {"train:*",                "1f1b",  "none",      "image_bidir", 1,  2, 2, 1, false, false},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const struct cs_test_spec options = {.seed = 24 + (int)i,
                                             .slots = LAYOUT_REPLICA_SLOTS,
                                             .n_encoders = rows[i].encoders,
                                             .rules = rows[i].rules,
                                             .schedule = rows[i].schedule,
                                             .recompute = rows[i].recompute,
                                             .mask = rows[i].mask,
                                             .llm_cp = rows[i].cp,
                                             .dp = rows[i].dp,
                                             .llm_pp = rows[i].llm,
                                             .is_tied = rows[i].is_tied,
                                             .is_qwen3 = rows[i].is_qwen3};
        assert_int_equal(setenv("CORNSTARCH_CONTEXT_GROUPS", i % 2 == 0 ? "2" : "1", 1), 0);
        const int encoders = rows[i].encoders > 0 ? rows[i].encoders : 0;
        agrees_over_context_on(true, options, rows[i].dp * (encoders + rows[i].llm * rows[i].cp));
    }
    unsetenv("CORNSTARCH_CONTEXT_GROUPS");
}

/* ... and of what has more to exchange than keys: states and rows in order, loads of experts, items of an
 * encoder on ranks of its own or those of the LLM; and of slots that few of the ranks have. */
static void contexts_of_devices_exchange_all_else(void **state)
{
    static const struct {
        struct cs_test_spec options;
        int ranks;
    } rows[] = {
  /* clang-format off */
        {{.llm_cp = 2, .is_recurrent = true, .n_encoders = -1}, 2},
        {{.llm_cp = 3, .is_recurrent = true, .schedule = "zb-h1", .recompute = "selective", .context = "striped"}, 4},
        {{.llm_cp = 2, .is_recurrent = true, .llm_pp = 2, .recompute = "full", .context = "zigzag"}, 5},
        {{.llm_cp = 2, .has_experts = true, .n_encoders = -1}, 2},
        {{.llm_cp = 3, .has_experts = true, .schedule = "zb-h1", .recompute = "full", .context = "zigzag"}, 4},
        {{.llm_cp = 3, .context_rows = 64, .llm_pp = 2}, 7},
        {{.llm_cp = 4, .context_rows = 8, .is_recurrent = true, .context = "striped"}, 5},
        {{.llm_cp = 3, .context_rows = 60, .has_experts = true, .schedule = "zb-h1"}, 4},
        {{.llm_cp = 2, .vision_cp = 2}, 4},
        {{.llm_cp = 2, .vision_cp = 3, .schedule = "zb-h1", .recompute = "selective", .context = "zigzag"}, 5},
        {{.llm_cp = 3, .vision_cp = 2, .n_encoders = 2, .context_rows = 90}, 7},
        {{.llm_pp = 2, .vision_cp = 2, .rules = "train:vision.projector", .recompute = "full"}, 4},
        {{.llm_cp = 2, .modality = "encoder-colocated"}, 2},
        {{.llm_cp = 2, .modality = "encoder-colocated", .dp = 2, .schedule = "zb-h1", .n_encoders = 2}, 4},
        {{.llm_cp = 3, .modality = "encoder-first", .is_recurrent = true, .context_rows = 64}, 3},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = rows[i].options;
        options.seed = 60 + (int)i;
        options.slots = LAYOUT_REPLICA_SLOTS;
        assert_int_equal(setenv("CORNSTARCH_GRAPHS", i % 2 == 0 ? "always" : "auto", 1), 0);
        agrees_over_context_on(true, options, rows[i].ranks);
    }
    unsetenv("CORNSTARCH_GRAPHS");
}

/* families, ranks with one head of keys for several, columns that do not divide; towers */
static void shared_matrices_agree_with_one_rank(void **state)
{
    static const struct {
        const char *keys;
        int tp, vision_tp;
        bool is_tied, is_qwen2, is_qwen3, is_recurrent, has_experts;
    } rows[] = {
        {NULL,                                                                                 2, 1, true,  false, false, false, false},
        {NULL,                                                                                 4, 1, false, false, false, false, false},
        {NULL,                                                                                 1, 2, false, false, false, false, false},
        {NULL,                                                                                 2, 4, true,  false, false, false, false},
        {NULL,                                                                                 4, 1, true,  true,  false, false, false},
        {NULL,                                                                                 2, 1, false, false, true,  false, false},
        {NULL,                                                                                 4, 1, false, false, true,  false, false},
        {NULL,                                                                                 2, 1, false, false, false, true,  false},
        {NULL,                                                                                 4, 1, false, false, false, false, true },
        {CS_TEST_GEMMA4,                                                                       4, 1, true,  false, false, false, false},
        {CS_TEST_PHI3,                                                                         2, 1, false, false, false, false, false},
        {"{\"num_attention_heads\": 6, \"num_key_value_heads\": 3, \"head_dim\": 8, "
         "\"intermediate_size\": 50}",                                                3, 1, false, false, false, false, false},
        {"{\"num_attention_heads\": 6, \"num_key_value_heads\": 3, \"head_dim\": 8, "
         "\"intermediate_size\": 50}",                                                2, 1, true,  false, false, false, false},
        {"{\"num_attention_heads\": 5, \"num_key_value_heads\": 5, \"head_dim\": 8}",          4, 1, false,
         false,                                                                                                    false, false, false},
        {"{\"model_type\": \"phi3\", \"num_attention_heads\": 6, \"num_key_value_heads\": 3}", 2, 1,
         false,                                                                                             false, false, false, false},
        {"{\"num_attention_heads\": 6, \"num_key_value_heads\": 1, \"head_dim\": 8, "
         "\"intermediate_size\": 50}",                                                3, 2, false, false, false, false, false},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = 30,
                                                  .slots = LAYOUT_REPLICA_SLOTS,
                                                  .llm_keys = rows[i].keys,
                                                  .llm_tp = rows[i].tp,
                                                  .vision_tp = rows[i].vision_tp,
                                                  .is_tied = rows[i].is_tied,
                                                  .is_qwen2 = rows[i].is_qwen2,
                                                  .is_qwen3 = rows[i].is_qwen3,
                                                  .is_recurrent = rows[i].is_recurrent,
                                                  .has_experts = rows[i].has_experts},
                            rows[i].tp + rows[i].vision_tp);
}

/* with stages, replicas, both halves of a backward, recompute, and what is frozen */
static void shared_matrices_go_with_other_layouts(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute, *modality;
        int tp, vision_tp, dp, vision, llm;
        bool is_tied;
    } rows[] = {
        {"train:*",                                  "1f1b",        "none",      NULL,                2, 1, 1, 1, 2, true },
        {"train:*",                                  "gpipe",       "full",      NULL,                3, 2, 1, 1, 1, false},
        {"train:*",                                  "zb-h1",       "selective", NULL,                2, 2, 1, 2, 2, true },
        {"train:*",                                  "1f1b",        "none",      NULL,                2, 1, 2, 1, 1, true },
        {"train:*",                                  "1f1b",        "none",      NULL,                2, 2, 2, 1, 1, false},
        {"train:*",                                  "interleaved", "none",      NULL,                2, 1, 1, 1, 1, false},
        {"train:* freeze:vision.encoder*",           "1f1b",        "none",      NULL,                2, 2, 1, 1, 2, false},
        {"train:vision.projector",                   "1f1b",        "none",      NULL,                2, 1, 1, 1, 2, false},
        {"train:* freeze:llm*",                      "zb-h1",       "none",      NULL,                2, 2, 1, 1, 1, true },
        {"train:vision.encoder* train:llm.layers.1", "1f1b",        "full",      NULL,                4, 2, 1, 1, 1, false},
        {"train:llm.head",                           "1f1b",        "none",      NULL,                2, 1, 1, 1, 1, false},
        {"train:llm.embed",                          "1f1b",        "none",      NULL,                2, 1, 1, 1, 2, true },
        {"train:*",                                  "1f1b",        "none",      "encoder-colocated", 2, 2, 1, 2, 2, true },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context(
            (struct cs_test_spec){.seed = 31,
                                  .slots = LAYOUT_REPLICA_SLOTS,
                                  .llm_keys = rows[i].tp == 3
                                                  ? "{\"num_attention_heads\": 3, "
                                                    "\"num_key_value_heads\": 3, \"head_dim\": 16}"
                                                  : NULL,
                                  .rules = rows[i].rules,
                                  .schedule = rows[i].schedule,
                                  .recompute = rows[i].recompute,
                                  .modality = rows[i].modality,
                                  .llm_tp = rows[i].tp,
                                  .vision_tp = rows[i].vision_tp,
                                  .dp = rows[i].dp,
                                  .vision_pp = rows[i].vision,
                                  .llm_pp = rows[i].llm,
                                  .is_tied = rows[i].is_tied},
            rows[i].modality != NULL
                ? rows[i].llm * rows[i].tp
                : rows[i].dp * (rows[i].vision * rows[i].vision_tp + rows[i].llm * rows[i].tp));
}

/* ranks of a context, each several that share matrices, beside encoders with as many, more or fewer */
static void shared_matrices_go_with_split_rows(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute;
        int tp, vision_tp, cp, dp, llm; /* vision_tp 0: no encoder */
        bool is_tied, is_qwen3, is_recurrent, has_experts;
    } rows[] = {
        {"train:*",                "1f1b",  "none",      2, 1, 2, 1, 1, true,  false, false, false},
        {"train:*",                "1f1b",  "full",      2, 4, 2, 1, 1, true,  false, false, false},
        {"train:*",                "gpipe", "none",      2, 0, 2, 1, 2, true,  false, false, false},
        {"train:vision.projector", "zb-h1", "selective", 2, 2, 3, 1, 1, false, false, false, false},
        {"train:*",                "1f1b",  "none",      2, 0, 2, 2, 1, false, false, false, false},
        {"train:*",                "1f1b",  "none",      4, 0, 2, 1, 1, false, true,  false, false},
        {"train:*",                "1f1b",  "none",      2, 1, 2, 1, 1, false, false, true,  false},
        {"train:*",                "1f1b",  "none",      2, 1, 3, 1, 1, false, false, false, true },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = 32,
                                                  .slots = LAYOUT_REPLICA_SLOTS,
                                                  .n_encoders = rows[i].vision_tp > 0 ? 1 : -1,
                                                  .rules = rows[i].rules,
                                                  .schedule = rows[i].schedule,
                                                  .recompute = rows[i].recompute,
                                                  .llm_tp = rows[i].tp,
                                                  .vision_tp = rows[i].vision_tp,
                                                  .llm_cp = rows[i].cp,
                                                  .dp = rows[i].dp,
                                                  .llm_pp = rows[i].llm,
                                                  .is_tied = rows[i].is_tied,
                                                  .is_qwen3 = rows[i].is_qwen3,
                                                  .is_recurrent = rows[i].is_recurrent,
                                                  .has_experts = rows[i].has_experts},
                            rows[i].dp *
                                (rows[i].vision_tp + rows[i].llm * rows[i].tp * rows[i].cp));
}

/* The same where sums are enqueued beside products in groups of rows and beside gradients of weights,
 * gradients in parts go from device to device, and one rank's message goes to several over channels of
 * their own. */
static void shared_matrices_of_devices_agree_with_the_host(void **state)
{
    static const struct {
        const char *keys, *rules, *schedule, *recompute, *modality;
        int tp, vision_tp, cp, dp, llm; /* vision_tp 0: no encoder */
        bool is_tied, is_qwen3, is_recurrent, has_experts;
    } rows[] = {
        {NULL,           "train:*",                "1f1b",  "none",      NULL,                2, 1, 1, 1, 1, true,  false, false, false},
        {NULL,           "train:*",                "1f1b",  "none",      NULL,                2, 0, 1, 1, 1, true,  true,  false, false},
        {NULL,           "train:*",                "1f1b",  "full",      NULL,                4, 2, 1, 1, 1, true,  true,  false, false},
        {NULL,           "train:*",                "zb-h1", "selective", NULL,                2, 4, 1, 1, 1, false, false, false, false},
        {NULL,           "train:*",                "1f1b",  "none",      NULL,                2, 1, 1, 1, 2, true,  false, false, false},
        {NULL,           "train:vision.projector", "1f1b",  "none",      NULL,                2, 1, 1, 1, 2, false, false, false,
         false                                                                                                                         },
        {NULL,           "train:*",                "1f1b",  "none",      NULL,                2, 0, 1, 2, 1, false, false, false, false},
        {NULL,           "train:*",                "1f1b",  "none",      NULL,                4, 0, 1, 2, 1, true,  true,  false, false},
        {NULL,           "train:*",                "1f1b",  "none",      "encoder-colocated", 2, 2, 1, 1, 1, true,  false, false,
         false                                                                                                                         },
        {NULL,           "train:*",                "1f1b",  "none",      NULL,                2, 1, 2, 1, 1, true,  false, false, false},
        {NULL,           "train:*",                "gpipe", "none",      NULL,                2, 0, 2, 1, 2, true,  true,  false, false},
        {NULL,           "train:*",                "1f1b",  "none",      NULL,                2, 0, 1, 1, 1, false, false, true,  false},
        {NULL,           "train:*",                "1f1b",  "none",      NULL,                4, 0, 1, 1, 1, false, false, false, true },
        {CS_TEST_GEMMA4, "train:*",                "1f1b",  "none",      NULL,                4, 0, 1, 1, 1, true,  false, false, false},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const bool is_apart = rows[i].modality == NULL;
        const struct cs_test_spec options = {.seed = 57 + (int)i,
                                             .slots = LAYOUT_REPLICA_SLOTS,
                                             .n_encoders = rows[i].vision_tp > 0 ? 1 : -1,
                                             .llm_keys = rows[i].keys,
                                             .rules = rows[i].rules,
                                             .schedule = rows[i].schedule,
                                             .recompute = rows[i].recompute,
                                             .modality = rows[i].modality,
                                             .llm_tp = rows[i].tp,
                                             .vision_tp = rows[i].vision_tp,
                                             .llm_cp = rows[i].cp,
                                             .dp = rows[i].dp,
                                             .llm_pp = rows[i].llm,
                                             .is_tied = rows[i].is_tied,
                                             .is_qwen3 = rows[i].is_qwen3,
                                             .is_recurrent = rows[i].is_recurrent,
                                             .has_experts = rows[i].has_experts};
        assert_int_equal(setenv("CORNSTARCH_TENSOR_GROUPS", i % 2 == 0 ? "2" : "1", 1), 0);
        agrees_with_hosts(options, rows[i].dp * ((is_apart ? rows[i].vision_tp : 0) +
                                                 rows[i].llm * rows[i].tp * rows[i].cp));
    }
    unsetenv("CORNSTARCH_TENSOR_GROUPS");
}

/* Sequence parallelism: families, rows that ranks cannot split evenly or have none of, towers, stages,
 * replicas, contexts, both halves of a backward, recompute, what is frozen. */
static void rows_between_products_are_split(void **state)
{
    static const struct row rows[] = {
  /* clang-format off */
        {{.llm_tp = 2, .llm_sp = true, .is_tied = true}, 3},
        {{.llm_tp = 4, .llm_sp = true, .is_qwen2 = true, .recompute = "selective"}, 5},
        {{.llm_tp = 4, .llm_sp = true, .is_qwen3 = true, .schedule = "zb-h1"}, 5},
        {{.llm_tp = 2, .llm_sp = true, .is_recurrent = true}, 3},
        {{.llm_tp = 4, .llm_sp = true, .has_experts = true, .schedule = "zb-h1", .recompute = "selective"}, 5},
        {{.llm_tp = 4, .llm_sp = true, .is_tied = true, .llm_keys = CS_TEST_GEMMA4}, 5},
        {{.llm_tp = 2, .llm_sp = true, .llm_keys = CS_TEST_GEMMA4, .schedule = "zb-h1", .recompute = "full"}, 3},
        {{.llm_tp = 2, .llm_sp = true, .llm_keys = CS_TEST_PHI3, .recompute = "full"}, 3},
        {{.vision_tp = 2, .vision_sp = true}, 3},
        {{.vision_tp = 4, .vision_sp = true, .llm_tp = 2, .llm_sp = true, .schedule = "zb-h1"}, 6},
        {{.llm_tp = 2, .llm_sp = true, .llm_pp = 3, .schedule = "zb-h1"}, 7},
        {{.llm_tp = 2, .llm_sp = true, .llm_pp = 2, .vision_tp = 2, .vision_pp = 2, .schedule = "gpipe", .recompute = "full"}, 8},
        {{.llm_tp = 2, .llm_sp = true, .dp = 2, .schedule = "interleaved"}, 6},
        {{.llm_tp = 2, .llm_sp = true, .llm_cp = 2, .is_qwen3 = true}, 5},
        {{.llm_tp = 2, .llm_sp = true, .llm_cp = 3, .is_recurrent = true, .schedule = "zb-h1"}, 7},
        {{.llm_tp = 2, .llm_sp = true, .llm_cp = 2, .has_experts = true}, 5},
        {{.llm_tp = 2, .llm_sp = true, .vision_tp = 2, .vision_sp = true, .modality = "encoder-colocated", .vision_pp = 2, .llm_pp = 2}, 4},
        {{.llm_tp = 2, .vision_tp = 2, .vision_sp = true, .modality = "encoder-colocated", .seed = 1}, 2},
        {{.llm_tp = 2, .llm_sp = true, .rules = "train:vision.projector", .schedule = "zb-h1"}, 3},
        {{.llm_tp = 2, .llm_sp = true, .vision_tp = 2, .vision_sp = true, .rules = "train:* freeze:llm*"}, 4},
        {{.llm_tp = 4, .llm_sp = true, .rules = "train:vision.encoder* train:llm.layers.1", .recompute = "full"}, 5},
        {{.llm_tp = 2, .llm_sp = true, .n_encoders = -1, .rules = "train:llm/*norm*"}, 2},
  /* clang-format on */
    };

    (void)state;
    all_agree(rows, CS_ARRAY_LEN(rows), 80, LAYOUT_REPLICA_SLOTS);
}

/* Activations of a rank in the middle of the language model, as they were kept. */
static void split_rows_keep_less(void **state)
{
    struct cs_test_spec options = {.seed = 140, .llm_tp = 2, .llm_pp = 3, .n_encoders = -1};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct layout_outcome whole, split;
        options.recompute = i == 0 ? "none" : i == 1 ? "selective" : "full";
        options.llm_sp = false;
        layout_run(&options, NULL, &whole);
        options.llm_sp = true;
        layout_run(&options, NULL, &split);
        const size_t before = whole.saved[2], after = split.saved[2];
        if (!(after > 0 && (double)after < 0.85 * (double)before))
            fail_msg("%s: %zu bytes are kept, without sp %zu", options.recompute, after, before);
        layout_free(&whole);
        layout_free(&split);
    }
}

/* The same where sums are of all rows, and rows are put together between pieces of graphs. */
static void rows_split_on_devices_agree_with_the_host(void **state)
{
    static const struct {
        struct cs_test_spec options;
        int ranks;
    } rows[] = {
  /* clang-format off */
        {{.llm_tp = 2, .llm_sp = true, .is_tied = true}, 3},
        {{.llm_tp = 4, .llm_sp = true, .is_qwen3 = true, .schedule = "zb-h1", .n_encoders = -1}, 4},
        {{.llm_tp = 2, .llm_sp = true, .llm_pp = 2, .recompute = "full", .vision_tp = 2, .vision_sp = true}, 6},
        {{.llm_tp = 2, .llm_sp = true, .llm_cp = 2, .n_encoders = -1, .recompute = "selective"}, 4},
        {{.llm_tp = 4, .llm_sp = true, .has_experts = true, .n_encoders = -1}, 4},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = rows[i].options;
        options.seed = 120 + (int)i;
        options.slots = LAYOUT_REPLICA_SLOTS;
        agrees_with_hosts(options, rows[i].ranks);
    }
}

/* Ranks share the items of encoders: on ranks of their own, as many as the context or other numbers, or on
 * the context's. Slots have fewer items than ranks, too. */
static void ranks_share_items_of_encoders(void **state)
{
    static const struct {
        const char *rules, *schedule, *recompute, *modality;
        int vision_cp, vision, encoders, cp, llm, dp, ranks;
    } rows[] = {
        {"train:*",                       "1f1b",  "none",      NULL,                2, 1, 1, 1, 1, 1, 3},
        {"train:*",                       "1f1b",  "none",      NULL,                3, 1, 1, 2, 1, 1, 5},
        {"train:*",                       "zb-h1", "full",      NULL,                2, 1, 1, 4, 1, 1, 6},
        {"train:*",                       "gpipe", "none",      NULL,                2, 2, 1, 2, 2, 1, 8},
        {"train:*",                       "1f1b",  "selective", NULL,                2, 1, 2, 3, 1, 1, 7},
        {"train:*",                       "1f1b",  "none",      NULL,                2, 1, 1, 2, 1, 2, 8},
        {"train:vision.projector",        "1f1b",  "none",      NULL,                2, 1, 1, 2, 1, 1, 4},
        {"train:* freeze:vision.*",       "zb-h1", "none",      NULL,                4, 1, 1, 2, 1, 1, 6},
        {"train:*",                       "1f1b",  "none",      "encoder-colocated", 0, 1, 1, 2, 1, 1, 2},
        {"train:*",                       "1f1b",  "full",      "encoder-colocated", 3, 2, 1, 3, 2, 1, 6},
        {"train:*",                       "zb-h1", "none",      "encoder-colocated", 0, 1, 2, 3, 1, 2, 6},
        {"train:* freeze:vision.encoder", "zb-h1", "selective", "encoder-colocated", 0, 1, 1, 4, 1,
         1,                                                                                            4},
        {"train:*",                       "1f1b",  "none",      "encoder-first",     0, 1, 1, 2, 2, 1, 4},
        {"train:vision.projector",        "1f1b",  "none",      "encoder-first",     0, 1, 2, 2, 3, 1, 6},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        agrees_over_context((struct cs_test_spec){.seed = 50 + (int)i,
                                                  .slots = LAYOUT_REPLICA_SLOTS,
                                                  .rules = rows[i].rules,
                                                  .schedule = rows[i].schedule,
                                                  .recompute = rows[i].recompute,
                                                  .modality = rows[i].modality,
                                                  .vision_cp = rows[i].vision_cp,
                                                  .vision_pp = rows[i].vision,
                                                  .depth_pp = rows[i].vision,
                                                  .n_encoders = rows[i].encoders,
                                                  .llm_cp = rows[i].cp,
                                                  .llm_pp = rows[i].llm,
                                                  .dp = rows[i].dp},
                            rows[i].ranks);
}

/* Encoders with replicas of their own number: more or fewer than the LLM, that divide each other or not, one
 * replica for two and two for one; with stages, contexts and shared matrices on either side. */
static void encoders_have_replicas_of_their_own(void **state)
{
    static const struct row rows[] = {
  /* clang-format off */
        {{.vision_dp = 1, .dp = 2}, 3},
        {{.vision_dp = 2, .dp = 1}, 3},
        {{.vision_dp = 3, .dp = 2}, 5},
        {{.vision_dp = 2, .dp = 3, .schedule = "gpipe"}, 5},
        {{.vision_dp = 5, .dp = 3, .schedule = "zb-h1", .recompute = "full"}, 8},
        {{.vision_dp = 3, .dp = 2, .llm_pp = 2}, 7},
        {{.vision_dp = 1, .dp = 2, .vision_pp = 2, .llm_pp = 2}, 6},
        {{.vision_dp = 3, .dp = 2, .llm_cp = 2}, 7},
        {{.vision_dp = 1, .dp = 2, .llm_cp = 3, .vision_cp = 2}, 8},
        {{.vision_dp = 1, .dp = 2, .llm_cp = 3, .context_rows = 40}, 7},
        {{.vision_dp = 1, .dp = 2, .vision_tp = 2, .llm_tp = 2, .is_tied = true}, 6},
        {{.vision_dp = 2, .dp = 3, .llm_tp = 2, .schedule = "zb-h1"}, 8},
        {{.vision_dp = 3, .dp = 2, .rules = "train:vision.projector"}, 5},
        {{.vision_dp = 3, .dp = 2, .rules = "train:* freeze:vision.*", .schedule = "zb-h1"}, 5},
        {{.vision_dp = 1, .depth_dp = 3, .dp = 2, .n_encoders = 2}, 6},
        {{.vision_dp = 4, .depth_dp = 1, .dp = 2, .n_encoders = 2, .schedule = "interleaved"}, 7},
  /* clang-format on */
    };

    (void)state;
    all_agree(rows, CS_ARRAY_LEN(rows), 80, LAYOUT_LANE_SLOTS);
}

/* Ranks share items of encoders beside others that share matrices, of either end or of both. */
static void items_and_matrices_are_shared_together(void **state)
{
    static const struct row rows[] = {
  /* clang-format off */
        {{.vision_cp = 2, .llm_tp = 2}, 4},
        {{.vision_cp = 2, .vision_tp = 2, .schedule = "zb-h1"}, 5},
        {{.vision_cp = 2, .vision_tp = 2, .llm_tp = 4, .is_tied = true}, 8},
        {{.vision_cp = 3, .vision_tp = 2, .llm_tp = 2, .llm_sp = true, .recompute = "full"}, 8},
        {{.vision_cp = 2, .llm_tp = 2, .llm_cp = 2, .vision_pp = 2}, 8},
        {{.vision_cp = 2, .vision_tp = 2, .llm_tp = 2, .llm_cp = 2, .rules = "train:vision.projector"}, 8},
        {{.vision_tp = 2, .llm_tp = 2, .llm_cp = 2, .modality = "encoder-colocated"}, 4},
        {{.vision_tp = 2, .llm_tp = 2, .llm_cp = 2, .modality = "encoder-colocated", .vision_sp = true, .vision_pp = 2, .llm_pp = 2, .schedule = "zb-h1"}, 8},
        {{.vision_cp = 2, .llm_tp = 2, .dp = 2}, 8},
  /* clang-format on */
    };

    (void)state;
    all_agree(rows, CS_ARRAY_LEN(rows), 160, LAYOUT_REPLICA_SLOTS);
}

/* Encoders on ranks of the LLM that share its matrices, and the items of the encoders; and ranks of their own
 * that share items, beside ranks that share matrices. */
static void items_are_shared_beside_matrices(void **state)
{
    static const struct {
        struct cs_test_spec options;
        int ranks;
    } rows[] = {
  /* clang-format off */
        {{.modality = "encoder-colocated", .llm_tp = 2}, 2},
        {{.modality = "encoder-colocated", .llm_tp = 2, .dp = 2, .vision_dp = 4}, 4},
        {{.modality = "encoder-colocated", .llm_tp = 4, .rules = "train:vision.projector", .schedule = "zb-h1"}, 4},
        {{.modality = "encoder-colocated", .llm_tp = 2, .llm_cp = 2, .is_tied = true}, 4},
        {{.modality = "encoder-colocated", .llm_tp = 2, .llm_pp = 2, .vision_pp = 2, .depth_pp = 2, .n_encoders = 2, .recompute = "full"}, 4},
        {{.modality = "encoder-first", .llm_tp = 2, .llm_pp = 2}, 4},
        {{.modality = "encoder-colocated", .llm_tp = 2, .llm_pp = 2, .schedule = "three-phase"}, 4},
        {{.modality = "encoder-colocated", .llm_tp = 2, .vision_tp = 2, .llm_pp = 2, .schedule = "anchors"}, 4},
        {{.vision_cp = 2, .llm_tp = 2}, 4},
        {{.vision_cp = 2, .vision_tp = 2, .llm_tp = 2, .llm_cp = 2}, 8},
        {{.vision_dp = 2, .vision_tp = 2, .dp = 1, .llm_tp = 4}, 8},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = rows[i].options;
        options.seed = 140 + (int)i;
        options.slots = LAYOUT_REPLICA_SLOTS;
        agrees_over_context(options, rows[i].ranks);
    }
}

/* Copies of encoders on the ranks of the LLM: each runs its share of the slots, or all of them beside its own
 * stage; with chunks, replicas, fewer slots than copies, contexts, and what is frozen. */
static void copies_of_encoders_agree_with_one_rank(void **state)
{
    static const struct row rows[] = {
  /* clang-format off */
        {{.schedule = "three-phase", .modality = "encoder-colocated", .llm_pp = 2}, 2},
        {{.schedule = "anchors", .modality = "encoder-colocated", .llm_pp = 2, .recompute = "full", .is_tied = true}, 2},
        {{.schedule = "three-phase", .modality = "encoder-colocated", .llm_pp = 3, .n_encoders = 2}, 3},
        {{.schedule = "anchors", .modality = "encoder-colocated", .llm_pp = 3, .dp = 2}, 6},
        {{.schedule = "three-phase", .modality = "encoder-colocated", .llm_pp = 2, .dp = 2, .recompute = "selective"}, 4},
        {{.schedule = "anchors", .modality = "encoder-colocated", .llm_pp = 2, .llm_cp = 2}, 4},
        {{.schedule = "three-phase", .modality = "encoder-colocated", .llm_pp = 2, .rules = "train:* freeze:vision.encoder*"}, 2},
        {{.schedule = "anchors", .modality = "encoder-colocated", .llm_pp = 3, .rules = "train:vision.projector"}, 3},
        {{.schedule = "three-phase", .modality = "encoder-colocated", .llm_pp = 2, .rules = "train:* freeze:vision.*"}, 2},
        {{.schedule = "1f1b", .modality = "encoder-replicated", .llm_pp = 2}, 2},
        {{.schedule = "gpipe", .modality = "encoder-replicated", .llm_pp = 3, .is_tied = true}, 3},
        {{.schedule = "zb-h1", .modality = "encoder-replicated", .llm_pp = 2, .dp = 2, .n_encoders = 2}, 4},
        {{.schedule = "1f1b", .modality = "encoder-replicated", .llm_pp = 2, .llm_cp = 2, .recompute = "full"}, 4},
        {{.schedule = "1f1b", .modality = "encoder-replicated", .llm_pp = 2, .rules = "train:vision.projector"}, 2},
  /* clang-format on */
    };

    (void)state;
    all_agree(rows, CS_ARRAY_LEN(rows), 110, LAYOUT_REPLICA_SLOTS);
}

/* Hybrid context parallelism: short slots are on one rank, or on few, while the others work on other slots. */
static void slots_have_degrees_of_their_own(void **state)
{
    static const struct row rows[] = {
  /* clang-format off */
        {{.llm_cp = 2, .context_rows = 100}, 3},
        {{.llm_cp = 3, .context_rows = 40, .schedule = "zb-h1", .recompute = "full"}, 4},
        {{.llm_cp = 4, .context_rows = 64, .context = "zigzag", .llm_pp = 2, .n_encoders = -1}, 8},
        {{.llm_cp = 2, .context_rows = 127, .llm_pp = 2, .dp = 2, .schedule = "gpipe", .n_encoders = -1}, 8},
        {{.llm_cp = 3, .context_rows = 30, .mask = "item", .n_encoders = 2, .is_tied = true}, 5},
        {{.llm_cp = 3, .context_rows = 50, .is_recurrent = true}, 4},
        {{.llm_cp = 4, .context_rows = 8, .is_recurrent = true, .context = "striped"}, 5},
        {{.llm_cp = 3, .context_rows = 200, .is_recurrent = true, .llm_pp = 2, .n_encoders = -1, .seq_tokens = 335}, 6},
        {{.llm_cp = 3, .context_rows = 60, .has_experts = true, .schedule = "zb-h1"}, 4},
        {{.llm_cp = 3, .context_rows = 90, .vision_cp = 2}, 5},
        {{.llm_cp = 2, .context_rows = 64, .modality = "encoder-colocated", .rules = "train:vision.projector"}, 2},
        {{.llm_cp = 3, .context_rows = 300, .context = "exact", .is_qwen3 = true, .n_encoders = -1, .seq_tokens = 1000}, 3},
  /* clang-format on */
    };

    (void)state;
    all_agree(rows, CS_ARRAY_LEN(rows), 60, LAYOUT_REPLICA_SLOTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_agree_with_one_rank),
        cmocka_unit_test(contexts_go_with_other_layouts),
        cmocka_unit_test(contexts_agree_for_masks_and_families),
        cmocka_unit_test(contexts_agree_for_recurrent_layers),
        cmocka_unit_test(contexts_agree_for_experts),
        cmocka_unit_test(experts_on_several_ranks_agree_with_one_rank),
        cmocka_unit_test(experts_on_several_ranks_repeat_to_the_bit),
        cmocka_unit_test(contexts_of_devices_agree_with_the_host),
        cmocka_unit_test(contexts_of_devices_exchange_all_else),
        cmocka_unit_test(shared_matrices_agree_with_one_rank),
        cmocka_unit_test(shared_matrices_go_with_other_layouts),
        cmocka_unit_test(shared_matrices_go_with_split_rows),
        cmocka_unit_test(shared_matrices_of_devices_agree_with_the_host),
        cmocka_unit_test(rows_between_products_are_split),
        cmocka_unit_test(split_rows_keep_less),
        cmocka_unit_test(rows_split_on_devices_agree_with_the_host),
        cmocka_unit_test(ranks_share_items_of_encoders),
        cmocka_unit_test(encoders_have_replicas_of_their_own),
        cmocka_unit_test(items_are_shared_beside_matrices),
        cmocka_unit_test(copies_of_encoders_agree_with_one_rank),
        cmocka_unit_test(items_and_matrices_are_shared_together),
        cmocka_unit_test(slots_have_degrees_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
