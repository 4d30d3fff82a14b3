/* Ranks that split the rows of a slot, or send them to the ranks of their experts, agree with one rank within
 * rounding, in every layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/layout_compare.h"

/* every rule; rows of pictures and text, empty slots, slots shorter than the ranks have blocks */
static void contexts_agree_with_one_rank(void **state)
{
    static const char *const rules[] = {"lpt",    "best",    "exact", "uniform",
                                        "zigzag", "striped", "random"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rules); i++)
        for (int cp = 2; cp <= 4; cp++)
            layout_agrees((struct cs_test_spec){.seed = 20,
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
        layout_agrees((struct cs_test_spec){.seed = 21,
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
        layout_agrees(options, 2 + options.llm_cp);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++)
        layout_agrees((struct cs_test_spec){.seed = 22,
                                            .slots = LAYOUT_REPLICA_SLOTS,
                                            .llm_cp = 2,
                                            .llm_keys = keys[i],
                                            .is_tied = i == 0,
                                            .mask = i == 0 ? "image_window" : NULL},
                      3);
    layout_agrees((struct cs_test_spec){.seed = 23,
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
        layout_agrees((struct cs_test_spec){.seed = rows[i].seed,
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
        layout_agrees((struct cs_test_spec){.seed = 40 + (int)i,
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
static const struct layout_row spread[] = {
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

static void experts_agree(bool is_lazy)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(spread); i++) {
        struct cs_test_spec options = spread[i].options;
        options.seed = 80 + (int)i;
        options.slots = LAYOUT_REPLICA_SLOTS;
        layout_agrees_on(is_lazy, options, spread[i].ranks);
    }
}

static void experts_on_several_ranks_agree_with_one_rank(void **state)
{
    (void)state;
    experts_agree(false);
}

/* ... and on devices, where rows go to all ranks and sums of experts come back. */
static void experts_on_several_devices_agree_with_one_rank(void **state)
{
    (void)state;
    assert_int_equal(setenv("CORNSTARCH_GRAPHS", "always", 1), 0);
    experts_agree(true);
    unsetenv("CORNSTARCH_GRAPHS");
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
        for (int is_lazy = 0; is_lazy < 2; is_lazy++) {
            layout_run_on(is_lazy != 0, &rows[i], NULL, &first);
            layout_run_on(is_lazy != 0, &rows[i], NULL, &again);
            layout_assert_same(&first, &again);
            layout_free(&first);
            layout_free(&again);
        }
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
        layout_agrees_on(true, options, rows[i].dp * (encoders + rows[i].llm * rows[i].cp));
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
        layout_agrees_on(true, options, rows[i].ranks);
    }
    unsetenv("CORNSTARCH_GRAPHS");
}

/* Hybrid context parallelism: short slots are on one rank, or on few, while the others work on other slots. */
static void slots_have_degrees_of_their_own(void **state)
{
    static const struct layout_row rows[] = {
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
    layout_all_agree(rows, CS_ARRAY_LEN(rows), 60, LAYOUT_REPLICA_SLOTS);
}

/* Tiles of the own keys come first, those of others once they are here: the same as one rank, on hosts and on devices,
 * in graphs and without. */
static void own_keys_first_agree_with_one_rank(void **state)
{
    static const struct layout_row rows[] = {
  /* clang-format off */
        {{.llm_cp = 2, .n_encoders = -1}, 2},
        {{.llm_cp = 3, .context = "zigzag", .is_tied = true, .recompute = "selective", .mask = "image_bidir"}, 4},
        {{.llm_cp = 4, .context = "random", .mask = "cornstarch", .n_encoders = 2, .recompute = "full"}, 6},
        {{.llm_cp = 3, .context = "uniform", .mask = "packed"}, 4},
        {{.llm_cp = 2, .mask = "window", .window = 7, .schedule = "zb-h1"}, 3},
        {{.llm_cp = 4, .n_encoders = -1, .seq_tokens = 335, .is_qwen3 = true}, 4},
        {{.llm_cp = 3, .context_rows = 60, .llm_pp = 2}, 7},
        {{.llm_cp = 2, .llm_tp = 2, .llm_sp = true, .n_encoders = -1}, 4},
        {{.llm_cp = 2, .llm_keys = CS_TEST_GEMMA4, .mask = "image_window", .is_tied = true}, 3},
        {{.llm_cp = 3, .is_recurrent = true, .context = "striped"}, 4},
        {{.llm_cp = 2, .has_experts = true, .dp = 2, .n_encoders = -1}, 4},
        {{.llm_cp = 2, .rules = "train:vision.projector", .modality = "encoder-colocated"}, 2},
  /* clang-format on */
    };

    (void)state;
    assert_int_equal(setenv("CORNSTARCH_CONTEXT_OWN_FIRST", "1", 1), 0);
    for (size_t i = 0; i < 2 * CS_ARRAY_LEN(rows); i++) {
        struct layout_row row = rows[i / 2];
        const bool is_lazy = i % 2 == 1;
        assert_int_equal(setenv("CORNSTARCH_CONTEXT_GROUPS", i % 3 == 0 ? "2" : "1", 1), 0);
        assert_int_equal(setenv("CORNSTARCH_GRAPHS", i % 4 < 2 ? "always" : "auto", 1), 0);
        row.options.seed = 120 + (int)i;
        row.options.slots = LAYOUT_REPLICA_SLOTS;
        layout_agrees_on(is_lazy, row.options, row.ranks);
    }
    unsetenv("CORNSTARCH_CONTEXT_OWN_FIRST");
    unsetenv("CORNSTARCH_CONTEXT_GROUPS");
    unsetenv("CORNSTARCH_GRAPHS");
}

#define SIX_HEADS  "{\"num_attention_heads\": 6, \"num_key_value_heads\": 3}"
#define MANY_HEADS "{\"num_attention_heads\": 12, \"num_key_value_heads\": 12}"
#define FEW_KEYS   "{\"num_attention_heads\": 12, \"num_key_value_heads\": 1}"

/* Heads go between ranks, not keys: every rank has all rows of some heads, which several may have the same keys
 * for; under every rule, with packed documents, what is frozen, recompute, stages, replicas and ranks that share
 * matrices; families with several kinds of attention, norms and gates of heads; recurrent layers between; and slots that
 * few of the ranks have, as many as can share heads. */
static const struct layout_row heads[] = {
  /* clang-format off */
        {{.llm_cp = 2}, 3},
        {{.llm_cp = 2, .context = "zigzag", .is_tied = true, .recompute = "selective"}, 3},
        {{.llm_cp = 3, .context = "uniform", .llm_keys = SIX_HEADS}, 4},
        {{.llm_cp = 4, .context = "striped"}, 5},
        {{.llm_cp = 4, .context = "random", .llm_keys = MANY_HEADS, .recompute = "full"}, 5},
        {{.llm_cp = 3, .context = "best", .llm_keys = FEW_KEYS, .mask = "packed"}, 4},
        {{.llm_cp = 4, .context = "exact", .n_encoders = -1, .seq_tokens = 335, .is_qwen3 = true}, 4},
        {{.llm_cp = 2, .llm_pp = 2, .dp = 2, .schedule = "zb-h1", .recompute = "selective", .n_encoders = -1}, 8},
        {{.llm_cp = 2, .llm_pp = 2, .rules = "train:vision.projector"}, 5},
        {{.llm_cp = 4, .rules = "train:* freeze:llm*", .mask = "image_bidir"}, 5},
        {{.llm_cp = 2, .rules = "train:llm.layers.2 train:llm.embed*", .n_encoders = -1, .schedule = "gpipe"}, 2},
        {{.llm_cp = 2, .llm_tp = 2}, 5},
        {{.llm_cp = 2, .llm_tp = 2, .llm_sp = true, .llm_keys = FEW_KEYS, .n_encoders = -1}, 4},
        {{.llm_cp = 2, .llm_keys = CS_TEST_GEMMA4, .mask = "image_window", .is_tied = true}, 3},
        {{.llm_cp = 4, .llm_keys = CS_TEST_PHI3, .context = "zigzag"}, 5},
        {{.llm_cp = 2, .mask = "window", .window = 7, .n_encoders = 2}, 4},
        {{.llm_cp = 2, .is_recurrent = true, .llm_pp = 2}, 5},
        {{.llm_cp = 2, .is_recurrent = true, .context = "zigzag", .recompute = "full"}, 3},
        {{.llm_cp = 2, .has_experts = true, .dp = 2, .llm_ep = 4, .n_encoders = -1}, 4},
        {{.llm_cp = 2, .vision_cp = 2, .schedule = "zb-h1"}, 4},
        {{.llm_cp = 2, .modality = "encoder-colocated", .zero = 3}, 2},
        {{.llm_cp = 2, .context_rows = 64}, 3},
        {{.llm_cp = 4, .context_rows = 20, .context = "zigzag", .llm_keys = MANY_HEADS}, 5},
        {{.llm_cp = 4, .context_rows = 30, .llm_pp = 2, .n_encoders = -1}, 8},
        {{.llm_cp = 3, .context_rows = 40, .llm_keys = SIX_HEADS, .schedule = "zb-h1", .recompute = "full"}, 4},
        {{.llm_cp = 6, .context_rows = 16, .llm_keys = SIX_HEADS, .n_encoders = -1}, 6},
        {{.llm_cp = 2, .context_rows = 50, .llm_tp = 2, .mask = "packed"}, 5},
        {{.llm_cp = 4, .context_rows = 24, .is_recurrent = true, .context = "striped"}, 5},
        {{.llm_cp = 2, .context_rows = 60, .has_experts = true, .dp = 2, .llm_ep = 4, .n_encoders = -1}, 4},
        {{.llm_cp = 4, .context_rows = 100, .context = "exact", .n_encoders = -1, .seq_tokens = 335, .is_qwen3 = true}, 4},
        {{.llm_cp = 2, .context_rows = 70, .llm_keys = CS_TEST_GEMMA4, .mask = "image_window", .is_tied = true}, 3},
        {{.llm_cp = 2, .context_rows = 127, .modality = "encoder-colocated", .rules = "train:vision.projector"}, 2},
        {{.llm_cp = 2, .context_rows = 90, .vision_cp = 2, .schedule = "zb-h1"}, 4},
  /* clang-format on */
};

static void heads_agree(bool is_lazy)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(heads); i++) {
        assert_int_equal(setenv("CORNSTARCH_CONTEXT_GROUPS", i % 2 == 0 ? "1" : "4", 1), 0);
        assert_int_equal(setenv("CORNSTARCH_GRAPHS", i % 3 == 0 ? "always" : "auto", 1), 0);
        struct cs_test_spec options = heads[i].options;
        options.seed = 90 + (int)i;
        options.slots = LAYOUT_REPLICA_SLOTS;
        options.exchange = "heads";
        layout_agrees_on(is_lazy, options, heads[i].ranks);
    }
    unsetenv("CORNSTARCH_CONTEXT_GROUPS");
    unsetenv("CORNSTARCH_GRAPHS");
}

static void heads_on_several_ranks_agree_with_one_rank(void **state)
{
    (void)state;
    heads_agree(false);
}

/* ... and on devices: rows are padded, heads travel in parts, graphs are cut where they do. */
static void heads_on_several_devices_agree_with_one_rank(void **state)
{
    (void)state;
    heads_agree(true);
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
        cmocka_unit_test(experts_on_several_devices_agree_with_one_rank),
        cmocka_unit_test(experts_on_several_ranks_repeat_to_the_bit),
        cmocka_unit_test(contexts_of_devices_agree_with_the_host),
        cmocka_unit_test(contexts_of_devices_exchange_all_else),
        cmocka_unit_test(slots_have_degrees_of_their_own),
        cmocka_unit_test(own_keys_first_agree_with_one_rank),
        cmocka_unit_test(heads_on_several_ranks_agree_with_one_rank),
        cmocka_unit_test(heads_on_several_devices_agree_with_one_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
