/* Ranks that share matrices, or the items of encoders, agree with one rank within rounding, in every layout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/groups.h"
#include "core/plan/primitive.h"
#include "support/layout_compare.h"
#include "support/lazy_device.h"
#include "support/planned.h"
#include "worker/comm/context_comm.h"
#include "worker/comm/replicas.h"
#include "worker/selftest/ranks.h"
#include "worker/train/trainer.h"

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
        layout_agrees((struct cs_test_spec){.seed = 30,
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
        layout_agrees(
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
        layout_agrees((struct cs_test_spec){.seed = 32,
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
                      rows[i].dp * (rows[i].vision_tp + rows[i].llm * rows[i].tp * rows[i].cp));
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
        layout_agrees_with_hosts(options, rows[i].dp * ((is_apart ? rows[i].vision_tp : 0) +
                                                        rows[i].llm * rows[i].tp * rows[i].cp));
    }
    unsetenv("CORNSTARCH_TENSOR_GROUPS");
}

/* Sequence parallelism: families, rows that ranks cannot split evenly or have none of, towers, stages,
 * replicas, contexts, both halves of a backward, recompute, what is frozen. */
static void rows_between_products_are_split(void **state)
{
    static const struct layout_row rows[] = {
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
    layout_all_agree(rows, CS_ARRAY_LEN(rows), 80, LAYOUT_REPLICA_SLOTS);
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

/* The same where rows come and go between pieces of graphs, beside products of others. */
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
        {{.llm_tp = 4, .llm_sp = true, .is_recurrent = true, .n_encoders = -1, .llm_keys = "{\"linear_num_key_heads\": 4, \"linear_num_value_heads\": 4}"}, 4},
        {{.llm_tp = 2, .llm_sp = true, .llm_keys = CS_TEST_GEMMA4, .n_encoders = -1, .schedule = "zb-h1", .recompute = "full"}, 2},
        {{.llm_tp = 3, .llm_sp = true, .dp = 2, .n_encoders = -1, .llm_keys = "{\"num_attention_heads\": 6, \"num_key_value_heads\": 3, \"head_dim\": 8}"}, 6},
        {{.vision_tp = 4, .vision_sp = true, .llm_tp = 2, .rules = "train:vision.encoder*", .recompute = "selective"}, 6},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = rows[i].options;
        options.seed = 120 + (int)i;
        options.slots = LAYOUT_REPLICA_SLOTS;
        layout_agrees_with_hosts(options, rows[i].ranks);
    }
}

/* Rows that come in stripes, or those alone that a rank asks for, are those that come whole. */
static void has_the_bits_of_whole_messages(const struct cs_test_spec *options)
{
    struct cs_test_spec other = *options;
    struct layout_outcome cut, whole;
    other.stripes = "never";
    layout_run(options, NULL, &cut);
    layout_run(&other, NULL, &whole);
    layout_assert_same(&whole, &cut);
    layout_free(&whole);
    layout_free(&cut);
}

/* Every way from layout to layout, on hosts and devices: messages in stripes, from fewer ranks and from more, over
 * parts of a context and lanes, with loads of experts, in halves, of slots with fewer rows than there are ranks; rows
 * that ranks split anyway; items that all ranks put together, whose gradients each takes for itself. */
static void rows_go_by_every_primitive(void **state)
{
    enum {
        ID = CS_PRIMITIVE_IDENTITY,
        NARROW = CS_PRIMITIVE_NARROW,
        ALL = CS_PRIMITIVE_ALL_GATHER,
        P2P = CS_PRIMITIVE_POINT_TO_POINT,
        CUT = CS_PRIMITIVE_STRIPED
    };

    static const struct {
        struct cs_test_spec options;
        int ranks, rows,
            gradients; /* primitives of the first edge that leaves an encoder, or of the first */
    } rows[] = {
  /* clang-format off */
        {{.llm_tp = 4, .stripes = "always"}, 5, CUT, P2P},
        {{.llm_tp = 4, .stripes = "never"}, 5, P2P, P2P},
        {{.vision_tp = 4, .llm_tp = 2, .stripes = "always", .schedule = "zb-h1"}, 6, CUT, CUT},
        {{.vision_tp = 4, .stripes = "always", .is_tied = true}, 5, P2P, CUT},
        {{.vision_tp = 4, .vision_sp = true, .llm_tp = 2, .llm_cp = 2, .stripes = "always"}, 8, CUT, CUT},
        {{.vision_tp = 2, .llm_tp = 4, .stripes = "always", .rules = "train:vision.projector"}, 6, CUT, CUT},
        {{.vision_dp = 1, .dp = 2, .vision_tp = 2, .llm_tp = 2, .stripes = "always"}, 6, CUT, CUT},
        {{.vision_dp = 3, .dp = 2, .vision_tp = 2, .stripes = "always"}, 8, P2P, CUT},
        {{.vision_cp = 2, .vision_tp = 2, .llm_tp = 2, .llm_cp = 2, .stripes = "always", .schedule = "gpipe"}, 8, CUT, CUT},
        {{.n_encoders = -1, .llm_tp = 4, .llm_pp = 2, .stripes = "always", .recompute = "full"}, 8, CUT, CUT},
        {{.n_encoders = -1, .llm_tp = 2, .llm_pp = 2, .stripes = "always", .has_experts = true}, 4, CUT, CUT},
        {{.n_encoders = -1, .llm_tp = 4, .llm_pp = 2, .llm_sp = true, .schedule = "zb-h1", .has_experts = true}, 8, NARROW, NARROW},
        {{.n_encoders = -1, .llm_tp = 2, .llm_pp = 3, .llm_sp = true, .recompute = "full"}, 6, NARROW, NARROW},
        {{.n_encoders = -1, .llm_tp = 2, .llm_pp = 2, .llm_cp = 2, .llm_sp = true, .is_recurrent = true, .stripes = "always"}, 8, CUT, NARROW},
        {{.vision_tp = 2, .vision_pp = 2, .vision_sp = true, .stripes = "always"}, 5, P2P, CUT},
        {{.llm_tp = 4, .vision_dp = 4, .modality = "encoder-colocated"}, 4, ALL, NARROW},
        {{.llm_tp = 2, .vision_dp = 4, .llm_cp = 2, .modality = "encoder-colocated"}, 4, P2P, P2P},
        {{.llm_tp = 2, .vision_tp = 2, .modality = "encoder-colocated"}, 2, ID, ID},
  /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_spec options = rows[i].options;
        struct cs_test_planned m = cs_test_plan(&options);
        const struct cs_plan *plan = m.plan;
        int32_t e = 0;
        while (options.n_encoders >= 0 && plan->edges[e].feed < 0)
            e++;
        for (int f = 0; f < CS_FLOWS; f++)
            if ((int)cs_edge_primitive(plan, e, (enum cs_edge_flow)f) !=
                (f == CS_FLOW_ROWS ? rows[i].rows : rows[i].gradients))
                fail_msg("row %zu: %s go %s", i, f == CS_FLOW_ROWS ? "rows" : "gradients",
                         cs_primitive_name(cs_edge_primitive(plan, e, (enum cs_edge_flow)f)));
        cs_test_planned_free(&m);
        options.seed = 400 + (int)i;
        options.slots = LAYOUT_LANE_SLOTS;

        has_the_bits_of_whole_messages(&options);
        layout_agrees(options, rows[i].ranks);
        layout_agrees_with_hosts(options, rows[i].ranks);
    }
}

/* Queries and keys that are normed over all heads as one, of which a rank has some: on hosts and devices, with
 * split rows, unequal heads, both halves of a backward, recompute. */
static void norms_over_all_heads_are_shared(void **state)
{
    static const struct layout_row rows[] = {
  /* clang-format off */
        {{.vision_tp = 2, .vision_keys = CS_TEST_INTERN_VIT}, 3},
        {{.vision_tp = 3, .vision_keys = CS_TEST_INTERN_VIT, .recompute = "selective"}, 4},
        {{.vision_tp = 4, .vision_sp = true, .llm_tp = 2, .vision_keys = CS_TEST_INTERN_VIT, .schedule = "zb-h1"}, 6},
        {{.vision_tp = 2, .llm_tp = 2, .dp = 2, .modality = "encoder-colocated", .vision_keys = CS_TEST_INTERN_VIT, .recompute = "full"}, 4},
        {{.vision_tp = 2, .vision_keys = CS_TEST_INTERN_VIT, .rules = "train:vision.encoder/*norm*"}, 3},
  /* clang-format on */
    };

    (void)state;
    layout_all_agree(rows, CS_ARRAY_LEN(rows), 200, LAYOUT_REPLICA_SLOTS);
    for (size_t i = 0; i < 3; i++) {
        struct cs_test_spec options = rows[i].options;
        options.seed = 210 + (int)i;
        options.slots = LAYOUT_REPLICA_SLOTS;
        layout_agrees_with_hosts(options, rows[i].ranks);
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
        layout_agrees((struct cs_test_spec){.seed = 50 + (int)i,
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
    static const struct layout_row rows[] = {
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
    layout_all_agree(rows, CS_ARRAY_LEN(rows), 80, LAYOUT_LANE_SLOTS);
}

static void replicas_of_their_own_agree_on_devices(void **state)
{
    static const struct layout_row rows[] = {
  /* clang-format off */
        {{.vision_dp = 1, .dp = 2}, 3},
        {{.vision_dp = 2, .dp = 1, .schedule = "zb-h1"}, 3},
        {{.vision_dp = 3, .dp = 2, .llm_pp = 2, .recompute = "full"}, 7},
        {{.vision_dp = 2, .dp = 3, .is_tied = true}, 5},
        {{.vision_dp = 5, .dp = 3}, 8},
        {{.vision_dp = 1, .dp = 2, .llm_cp = 2, .vision_cp = 2, .context_rows = 60}, 6},
        {{.vision_dp = 3, .dp = 2, .llm_tp = 2, .rules = "train:vision.projector"}, 7},
        {{.vision_dp = 1, .dp = 2, .vision_tp = 2, .llm_tp = 2}, 6},
        {{.vision_dp = 1, .depth_dp = 3, .dp = 2, .n_encoders = 2}, 6},
        {{.modality = "encoder-colocated", .llm_tp = 2, .dp = 2, .vision_dp = 4}, 4},
        {{.modality = "encoder-colocated", .llm_tp = 2, .llm_cp = 2, .schedule = "zb-h1"}, 4},
  /* clang-format on */
    };

    (void)state;
    layout_all_agree_on_devices(rows, CS_ARRAY_LEN(rows), 180, LAYOUT_LANE_SLOTS);
}

/* Ranks share items of encoders beside others that share matrices, of either end or of both. */
static void items_and_matrices_are_shared_together(void **state)
{
    static const struct layout_row rows[] = {
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
    layout_all_agree(rows, CS_ARRAY_LEN(rows), 160, LAYOUT_REPLICA_SLOTS);
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
        layout_agrees(options, rows[i].ranks);
    }
}

static void forget_group(struct cs_test_planned *made, enum cs_group_kind kind)
{
    struct cs_plan *plan = made->plan;
    struct cs_group *group = CS_NEW_ARRAY(made->arena, struct cs_group, plan->n_groups);
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_groups; i++)
        if (plan->group[i].kind != kind)
            group[n++] = plan->group[i];
    assert_true(n < plan->n_groups);
    plan->group = group;
    plan->n_groups = n;
}

/* Starts, with what the plan's groups say, and tells how that ended. */
static enum cs_status start_on_device(void *user, int rank, const int *fds, struct cs_err *err)
{
    const struct cs_test_planned *made = user;
    struct cs_device *device = cs_lazy_device_new();
    struct cs_comm *comm = NULL;
    struct cs_context_comm *sharers = NULL, *items = NULL;
    struct cs_replicas *replicas = NULL;
    struct cs_trainer *t = NULL;
    CS_TRY(cs_comm_socket_new(rank, cs_plan_world(made->plan), fds, &comm, err));
    CS_TRY(cs_context_comm_new(device, made->plan, CS_GROUP_TP, rank, comm, 60000, &sharers, err));
    CS_TRY(cs_context_comm_new(device, made->plan, CS_GROUP_ITEMS, rank, comm, 60000, &items, err));
    CS_TRY(cs_replicas_new(device, made->plan, rank, comm, 60000, &replicas, err));
    const struct cs_trainer_config config = {.spec = made->spec,
                                             .graph = made->graph,
                                             .plan = made->plan,
                                             .device = device,
                                             .comm = comm,
                                             .sharers = sharers,
                                             .items = items,
                                             .replicas = replicas,
                                             .rank = rank,
                                             .deadline_ms = 60000};
    const enum cs_status status = cs_trainer_new(&config, &t, err);
    cs_replicas_free(replicas);
    cs_trainer_free(t);
    cs_context_comm_free(items);
    cs_context_comm_free(sharers);
    cs_lazy_device_free(device);
    comm->table->free(comm);
    return status;
}

/* else the first step would be the end of the process */
static void devices_that_share_items_do_not_start_without_a_communicator(void **state)
{
    (void)state;
    for (int is_known = 0; is_known < 2; is_known++) {
        struct cs_test_planned made =
            cs_test_plan(&(struct cs_test_spec){.modality = "encoder-colocated", .llm_tp = 2});
        struct cs_err err = {.text = ""};
        if (!is_known)
            forget_group(&made, CS_GROUP_ITEMS);
        const enum cs_status status =
            cs_selftest_run_ranks(cs_plan_world(made.plan), start_on_device, &made, &err);
        if (status != (is_known ? CS_OK : CS_PLAN))
            fail_msg("%s", err.text);
        if (!is_known)
            assert_non_null(
                strstr(err.text, "what stage vision.0 makes goes to all 2 ranks that it is on"));
        cs_test_planned_free(&made);
    }
}

/* Copies of encoders on the ranks of the LLM: each runs its share of the slots, or all of them beside its own
 * stage; with chunks, replicas, fewer slots than copies, contexts, and what is frozen. */
static void copies_of_encoders_agree_with_one_rank(void **state)
{
    static const struct layout_row rows[] = {
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
    layout_all_agree(rows, CS_ARRAY_LEN(rows), 110, LAYOUT_REPLICA_SLOTS);
}

/* Sums over copies come before those over replicas, which devices else begin within the last backward. */
static void copies_of_encoders_agree_on_devices(void **state)
{
    static const struct layout_row rows[] = {
  /* clang-format off */
        {{.schedule = "three-phase", .modality = "encoder-colocated", .llm_pp = 2}, 2},
        {{.schedule = "anchors", .modality = "encoder-colocated", .llm_pp = 3, .dp = 2}, 6},
        {{.schedule = "three-phase", .modality = "encoder-colocated", .llm_pp = 3, .n_encoders = 2, .recompute = "full"}, 3},
        {{.schedule = "anchors", .modality = "encoder-colocated", .llm_pp = 2, .llm_cp = 2, .rules = "train:vision.projector"}, 4},
        {{.schedule = "three-phase", .modality = "encoder-colocated", .llm_tp = 2, .llm_pp = 2}, 4},
        {{.schedule = "three-phase", .modality = "encoder-colocated", .llm_pp = 2, .rules = "train:* freeze:vision.*"}, 2},
        {{.schedule = "1f1b", .modality = "encoder-replicated", .llm_pp = 2, .dp = 2, .is_tied = true}, 4},
        {{.schedule = "zb-h1", .modality = "encoder-replicated", .llm_pp = 2, .dp = 2, .n_encoders = 2}, 4},
        {{.schedule = "gpipe", .modality = "encoder-replicated", .llm_pp = 3}, 3},
  /* clang-format on */
    };

    (void)state;
    layout_all_agree_on_devices(rows, CS_ARRAY_LEN(rows), 200, LAYOUT_REPLICA_SLOTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_matrices_agree_with_one_rank),
        cmocka_unit_test(shared_matrices_go_with_other_layouts),
        cmocka_unit_test(shared_matrices_go_with_split_rows),
        cmocka_unit_test(shared_matrices_of_devices_agree_with_the_host),
        cmocka_unit_test(rows_between_products_are_split),
        cmocka_unit_test(split_rows_keep_less),
        cmocka_unit_test(rows_split_on_devices_agree_with_the_host),
        cmocka_unit_test(rows_go_by_every_primitive),
        cmocka_unit_test(norms_over_all_heads_are_shared),
        cmocka_unit_test(ranks_share_items_of_encoders),
        cmocka_unit_test(replicas_of_their_own_agree_on_devices),
        cmocka_unit_test(copies_of_encoders_agree_on_devices),
        cmocka_unit_test(encoders_have_replicas_of_their_own),
        cmocka_unit_test(items_and_matrices_are_shared_together),
        cmocka_unit_test(items_are_shared_beside_matrices),
        cmocka_unit_test(devices_that_share_items_do_not_start_without_a_communicator),
        cmocka_unit_test(copies_of_encoders_agree_with_one_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
