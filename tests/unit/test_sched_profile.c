/* Plans from measured costs: cuts and times follow the profile, what is frozen leaves its parts
 * out, what was measured on something else is refused. */
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/profile.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/sim/predict.h"
#include "tests/support/profiled.h"

#define KEY_OF_NOTHING "0000000000000000000000000000000000000000000000000000000000000000"

/* embed 1000, four blocks of 3000, head 9000: 1000 + 3 * 3000 = 10000 | 3000 + 9000 = 12000 */
static void the_cut_is_the_one_of_the_measured_costs(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 4, .llm_pp = 2};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    (void)state;
    cs_test_profiled_need(&m,
                          cs_test_profiled_make(&m, &options, cs_test_profile_text(graph, "cpu")));
    assert_int_equal(m.plan->n_stages, 2);
    assert_int_equal(m.plan->stages[0].n_layers, 4);
    assert_int_equal(m.plan->stages[1].n_layers, 2);
    assert_int_equal(m.plan->stages[0].fwd_ns, 400 + 3 * 1000);
    /* nothing is before the embedding; it trains, so blocks pass a gradient */
    assert_int_equal(m.plan->stages[0].bwd_input_ns, 3 * 1100);
    assert_int_equal(m.plan->stages[0].bwd_weight_ns, 600 + 3 * 900);
    assert_int_equal(m.plan->stages[1].fwd_ns, 4000);
    assert_int_equal(m.plan->stages[1].bwd_input_ns, 1100 + 3000);
    assert_int_equal(m.plan->stages[1].bwd_weight_ns, 900 + 3000);
    cs_test_profiled_free(&m, first);

    /* a head that costs as much as a block: 1000 + 2 * 3000 = 7000 | 3 * 3000 = 9000 */
    m = (struct cs_test_profiled){.arena = cs_arena_new(0)};
    graph = cs_test_graph(&options, m.arena, &first);
    json_t *even = cs_test_profile_text(graph, "cpu");
    json_object_set_new(cs_test_profile_row(even, 2), "fwd", cs_test_profile_flat(1000));
    json_object_set_new(cs_test_profile_row(even, 2), "bwd_input", cs_test_profile_flat(1000));
    json_object_set_new(cs_test_profile_row(even, 2), "bwd_weight", cs_test_profile_flat(1000));
    cs_test_profiled_need(&m, cs_test_profiled_make(&m, &options, even));
    assert_int_equal(m.plan->stages[0].n_layers, 3);
    assert_int_equal(m.plan->stages[1].n_layers, 3);
    cs_test_profiled_free(&m, first);
}

/* What comes on top of a forward does so only where a gradient passes, or the layer trains. */
static void freezing_leaves_its_parts_out(void **state)
{
    const struct cs_test_spec options = {
        .n_encoders = -1, .llm_layers = 3, .rules = "freeze:* train:llm.layers.1"};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    struct cs_layer_cost cost[8];
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    json_t *profile = cs_test_profile_text(graph, "cpu");
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        json_object_set_new(cs_test_profile_row(profile, i), "fwd_input", cs_test_profile_flat(10));
        json_object_set_new(cs_test_profile_row(profile, i), "fwd_weight", cs_test_profile_flat(7));
    }
    cs_test_profiled_need(&m, cs_test_profiled_make(&m, &options, profile));
    cs_test_profiled_need(&m, cs_spec_layer_costs(m.spec, m.graph, &m.plan->budget,
                                                  m.cluster.device, m.arena, cost, NULL, &m.err));
    assert_int_equal(cost[0].fwd_ns, 400); /* embed: nothing passes */
    assert_int_equal(cost[1].fwd_ns, 1000);
    assert_int_equal(cost[1].bwd_input_ns + cost[1].bwd_weight_ns, 0);
    /* trains, with nothing before it: the inner part of its input half, not all of it */
    assert_int_equal(cost[2].fwd_ns, 1017);
    assert_int_equal(cost[2].bwd_weight_ns, 900);
    assert_in_range(cost[2].bwd_input_ns, 550, 1099);
    /* frozen, passes; its ffn looks at half of the rows, those with a label */
    assert_int_equal(cost[3].fwd_ns, 1008);
    assert_int_equal(cost[3].bwd_input_ns, 1100);
    assert_int_equal(cost[3].bwd_weight_ns, 0);
    assert_int_equal(cost[4].fwd_ns, 3010);
    assert_int_equal(cost[4].bwd_input_ns, 3000);
    cs_test_profiled_free(&m, first);
}

/* x of a head: rows with a label; of all others: rows of the slot */
static void costs_are_taken_at_the_rows_of_a_slot(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .seq_tokens = 64, .rules = ""};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    json_t *profile = cs_test_profile_text(graph, "cpu");
    (void)state;
    json_object_set_new(cs_test_profile_row(profile, 0), "fwd", cs_test_profile_flat(0));
    json_object_set_new(cs_test_profile_row(profile, 1), "fwd",
                        json_pack("[f, f, f]", 0.5, 2.0, 3.0));
    json_object_set_new(cs_test_profile_row(profile, 2), "fwd",
                        json_pack("[f, f, f]", 0.0, 10.0, 5.0));
    cs_test_profiled_need(&m, cs_test_profiled_make(&m, &options, profile));
    /* two blocks, one whose ffn looks at half of the rows, and a head on these (llama: H 48, Q 48, K 24, F 80) */
    const double mixer = 2 * 64 * 48 * (2 * 48 + 2 * 24), pairs = 4 * 48 * (64 * 65 / 2),
                 ffn = 2 * 64 * 3 * 48 * 80,
                 part = (mixer + ffn / 2 + pairs) / (mixer + ffn + pairs);
    assert_int_equal(m.plan->stages[0].fwd_ns,
                     2 * (2048 + 128 + 3) + 3 + (int64_t)ceil((2048 + 128) * part) + 10 * 32 + 5);
    cs_test_profiled_free(&m, first);
}

/* Two ranks share an encoder's items and split the LLM's rows: of what was measured they halve what grows with rows. */
static void what_the_shortest_slot_takes_is_nobodys_share(void **state)
{
    struct cs_layer_cost cost[2][16];
    int64_t rows = 0;
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct cs_test_spec options = {
            .modality = "encoder-colocated", .llm_layers = 2, .llm_cp = i + 1};
        struct cs_test_profiled m = {.arena = cs_arena_new(0)};
        json_t *first;
        json_t *profile = cs_test_profile_text(cs_test_graph(&options, m.arena, &first), "cpu");
        cs_test_profile_add(profile, "vision.encoder", "embed", 400, 0, 600);
        cs_test_profile_add(profile, "vision.encoder", "block", 0, 1100, 900);
        cs_test_profile_add(profile, "vision.encoder", "norm", 10, 20, 30);
        cs_test_profile_add(profile, "vision.projector", "projector", 100, 200, 300);
        json_object_set_new(cs_test_profile_row(profile, 4), "fwd",
                            json_pack("[i, i, i]", 0, 1000, 70));
        json_object_set_new(cs_test_profile_row(profile, 1), "bwd_weight",
                            json_pack("[i, i, i]", 0, 10, 900));
        cs_test_profiled_need(&m, cs_test_profiled_make(&m, &options, profile));
        assert_true(m.graph->n_layers <= 16);
        cs_test_profiled_need(&m, cs_spec_layer_costs(m.spec, m.graph, &m.plan->budget,
                                                      m.cluster.device, m.arena, cost[i], NULL,
                                                      &m.err));
        rows = cs_layer_work(m.graph, &m.graph->layers[1], &m.plan->budget).tokens;
        cs_test_profiled_free(&m, first);
    }
    assert_int_equal(cost[0][1].fwd_ns, 1000 * rows + 70); /* a block of the encoder */
    assert_int_equal(cost[1][1].fwd_ns, 1000 * rows / 2 + 70);
    assert_int_equal(cost[1][1].bwd_input_ns, 1100);
    assert_int_equal(cost[1][1].bwd_weight_ns, 900);
    const int block =
        1 + 3 + 1 + 1 +
        1; /* behind the encoder's layers, its norm, projector and the LLM's embedding */
    assert_int_equal(cost[0][block].bwd_weight_ns, 10 * 128 + 900);
    assert_in_range(cost[1][block].bwd_weight_ns, 10 * 64 + 900, 10 * 66 + 900);
}

/* One rank: the simulated step is the sum of what was measured. */
static void a_step_is_predicted_from_all_that_was_measured(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 2, .slots = 5};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    (void)state;
    cs_test_profiled_need(
        &m, cs_test_profiled_make(&m, &options,
                                  cs_test_profile_with_step(cs_test_profile_text(graph, "cpu"))));
    cs_test_profiled_need(&m, cs_plan_predict(m.plan, m.graph, &m.cluster, m.arena, &m.err));
    const int64_t n = m.graph->n_trained, quarter = (n + 2) / 4;
    const int64_t slot = 1000 + 2 * 3000 + 9000;
    assert_int_equal(m.plan->stages[0].clear_ns, quarter + 100);
    assert_int_equal(m.plan->stages[0].update_ns, 2 * n + 50);
    assert_int_equal(m.plan->predicted_step_ns,
                     5 * slot + 5 * 70 + 2 * (quarter + 100) + 2 * n + 50);
    cs_test_profiled_free(&m, first);
}

/* A tied table has two gradients, but is one parameter of the norm and of the optimizer. */
static void a_tied_table_is_updated_once(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 2, .is_tied = true};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    (void)state;
    cs_test_profiled_need(
        &m, cs_test_profiled_make(&m, &options,
                                  cs_test_profile_with_step(cs_test_profile_text(graph, "cpu"))));
    const int64_t table = m.graph->params[m.graph->tied_param].count, n = m.graph->n_trained;
    assert_true(table > 0);
    assert_int_equal(m.plan->stages[0].update_ns, 2 * n + 50);
    assert_int_equal(m.plan->stages[0].clear_ns, (n + table + 2) / 4 + 100);
    assert_true(m.plan->stages[0].norm_ns > (n + 2) / 4 + 100); /* both are added */
    cs_test_profiled_free(&m, first);
}

/* what a device that computes in bf16 is measured with, too */
static json_t *with_bf16(json_t *profile)
{
    json_object_set_new(profile, "step_bf16",
                        json_pack("{s:[f, f, f], s:[f, f, f], s:[f, f, f]}", "clear", 0.0, 0.125,
                                  30.0, "norm", 0.0, 0.0625, 40.0, "update", 0.0, 0.5, 20.0));
    json_object_set_new(cs_test_profile_row(profile, 1), "bwd_weight_bf16",
                        cs_test_profile_flat(700));
    json_object_set_new(profile, "precision", json_string("bf16"));
    return profile;
}

static bool says(const struct cs_plan *plan, const char *what)
{
    for (int32_t i = 0; i < plan->n_why; i++)
        if (strstr(plan->why[i], what) != NULL)
            return true;
    return false;
}

/* One file has both: a plan takes what its job's state was measured with. */
static void a_state_has_the_times_that_were_measured_with_it(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 2};
    (void)state;
    for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
        struct cs_test_profiled m = {.arena = cs_arena_new(0)};
        json_t *first;
        struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
        json_t *profile =
            with_bf16(cs_test_profile_with_step(cs_test_profile_text(graph, "h100-80g")));
        cs_test_profiled_need(&m, cs_test_profiled_make_with(&m, &options, profile, "h100-80g",
                                                             is_bf16 ? "bf16" : "fp32"));
        const struct cs_stage *s = &m.plan->stages[0];
        const int64_t n = m.graph->n_trained;
        assert_int_equal(s->bwd_weight_ns, 600 + 2 * (is_bf16 ? 700 : 900) + 3000);
        assert_int_equal(s->update_ns, is_bf16 ? (n + 1) / 2 + 20 : 2 * n + 50);
        assert_int_equal(s->clear_ns, is_bf16 ? (n + 4) / 8 + 30 : (n + 2) / 4 + 100);
        assert_int_equal(s->norm_ns, is_bf16 ? (n + 8) / 16 + 40 : (n + 2) / 4 + 100);
        assert_false(says(m.plan, "in proportion to the bytes"));
        cs_test_profiled_free(&m, first);
    }
}

/* What was measured with state in fp32 alone: 30 bytes of an update become 14, gradients half, and
 * a tied table has one of them. */
static void state_in_bf16_takes_its_part_of_the_time(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 2, .is_tied = true};
    struct cs_stage stage[2];
    int64_t n = 0;
    (void)state;
    for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
        struct cs_test_profiled m = {.arena = cs_arena_new(0)};
        json_t *first;
        struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
        json_t *profile = cs_test_profile_with_step(cs_test_profile_text(graph, "h100-80g"));
        json_object_set_new(profile, "precision", json_string("bf16"));
        cs_test_profiled_need(&m, cs_test_profiled_make_with(&m, &options, profile, "h100-80g",
                                                             is_bf16 ? "bf16" : "fp32"));
        stage[is_bf16] = m.plan->stages[0];
        n = m.graph->n_trained;
        assert_int_equal(says(m.plan, "times with bf16 are in proportion to the bytes"), is_bf16);
        cs_test_profiled_free(&m, first);
    }
    assert_true(stage[1].update_ns > 0);
    assert_in_range(stage[1].update_ns, stage[0].update_ns * 14 / 30,
                    stage[0].update_ns * 14 / 30 + 1);
    assert_int_equal(stage[1].clear_ns, (n + 4) / 8 + 50);
    assert_int_equal(stage[1].bwd_weight_ns, stage[0].bwd_weight_ns);
    assert_true(stage[1].norm_ns < stage[0].norm_ns / 2 + 1); /* and no second gradient to add */
}

/* Across ranks its gradient is a message of all its bytes. */
static void a_tied_exchange_takes_the_bytes_of_its_table(void **state)
{
    const struct cs_test_spec options = {
        .n_encoders = -1, .llm_layers = 2, .llm_pp = 2, .is_tied = true};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    (void)state;
    cs_test_profiled_need(&m,
                          cs_test_profiled_make(&m, &options, cs_test_profile_text(graph, "cpu")));
    const int64_t bytes = 4 * m.graph->params[m.graph->tied_param].count;
    const struct cs_program program = {.plan = m.plan, .n_ranks = 2, .n_slots = 1};
    const struct cs_action tied = {.op = CS_OP_TIED, .stage = -1};
    struct cs_device_class device = *m.cluster.device;
    assert_int_equal(m.plan->tied_bytes, bytes);
    assert_in_range(cs_predict_cost(&device, &program, 0, &tied),
                    device.link_latency_ns + bytes * 1000 / 2000,
                    device.link_latency_ns + bytes); /* 2 GB/s, and reading them */
    device = *cs_device_class_find("h200-141g");     /* 400 GB/s; a channel moves 68 */
    assert_in_range(cs_predict_cost(&device, &program, 0, &tied),
                    device.link_latency_ns + bytes / 400, device.link_latency_ns + bytes / 200);
    cs_test_profiled_free(&m, first);
}

/* Ranks of an LLM that share its matrices share the items of its guests, and make parts of all their gradients: their
 * sum is a ring's, once a step. What is theirs alone, blocks whose matrices are cut, has none that counts. */
static void gradients_of_guests_are_summed_once_a_step(void **state)
{
    static const struct {
        struct cs_test_spec options;
        const char *device;
        bool has_guests;
    } rows[] = {
        {{.llm_tp = 2, .modality = "encoder-colocated"},                     "cpu",       true },
        {{.llm_tp = 2, .modality = "encoder-colocated"},                     "h200-141g", true },
        {{.llm_tp = 2, .modality = "encoder-colocated", .dp = 2},            "h200-141g", true },
        {{.llm_tp = 2, .modality = "encoder-colocated", .dp = 2, .zero = 2}, "h200-141g", false},
        {{.llm_tp = 2, .modality = "encoder-colocated", .vision_tp = 2},     "h200-141g", false},
        {{.llm_tp = 2},                                                      "h200-141g", false},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_profiled m = {.arena = cs_arena_new(0)};
        const struct cs_action sum = {.op = CS_OP_TENSORS, .stage = -1};
        cs_test_profiled_need(
            &m, cs_test_profiled_make_on(&m, &rows[i].options, json_null(), rows[i].device));
        const struct cs_program program = {
            .plan = m.plan, .n_ranks = m.plan->n_ranks, .n_slots = 1};
        struct cs_device_class device = *m.cluster.device;
        int64_t n = 0;
        for (int32_t k = 0; k < m.graph->n_params; k++)
            if (m.graph->params[k].is_trainable &&
                m.graph->modules[m.graph->params[k].module].branch != m.graph->llm)
                n += m.graph->params[k].count;
        const int32_t rank = m.plan->stages[m.plan->n_stages - 1].rank; /* the LLM's */
        const int64_t ns = cs_predict_cost(&device, &program, rank, &sum);
        const int64_t takes =
            2 * device.link_latency_ns + 4 * n * 1000000000 / device.link_bytes_per_s;
        assert_true(n > 1000);
        assert_in_range(ns, rows[i].has_guests ? takes : 0, rows[i].has_guests ? takes + 1 : 0);
        cs_test_profiled_need(&m, cs_plan_predict(m.plan, m.graph, &m.cluster, m.arena, &m.err));
        const int64_t before =
            m.plan->predicted_step_ns; /* it is part of the step: rows are a hundredth of it */
        device.link_bytes_per_s /= 4;
        m.cluster.device = &device;
        cs_test_profiled_need(&m, cs_plan_predict(m.plan, m.graph, &m.cluster, m.arena, &m.err));
        assert_true(!rows[i].has_guests ||
                    m.plan->predicted_step_ns - before >= 3 * (takes - 2 * device.link_latency_ns));
        cs_test_profiled_free(&m, NULL);
    }
}

static void a_plan_keeps_what_was_measured_when_it_is_written(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 2};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    struct cs_plan *read;
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    (void)state;
    cs_test_profiled_need(
        &m, cs_test_profiled_make(&m, &options,
                                  cs_test_profile_with_step(cs_test_profile_text(graph, "cpu"))));
    json_t *json = cs_plan_json(m.plan, m.graph);
    cs_test_profiled_need(&m, cs_plan_read(json, m.graph, m.arena, &read, &m.err));
    assert_string_equal(read->hash, m.plan->hash);
    assert_int_equal(read->stages[0].prepare_ns, 70);
    assert_int_equal(read->stages[0].norm_ns, m.plan->stages[0].norm_ns);
    assert_int_equal(read->stages[0].update_ns, m.plan->stages[0].update_ns);
    json_decref(json);
    cs_test_profiled_free(&m, first);
}

static void a_profile_is_written_as_it_was_read(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    struct cs_profile *read;
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    json_t *profile = cs_test_profile_with_step(cs_test_profile_text(graph, "cpu"));
    (void)state;
    json_object_set_new(cs_test_profile_row(profile, 1), "fwd",
                        json_pack("[f, f, f]", 0.0, 2.75, 1e3));
    json_object_set_new(cs_test_profile_row(profile, 1), "fwd_input",
                        json_pack("[f, f, f]", 0.125, -2.5, 1e6));
    json_object_set_new(cs_test_profile_row(profile, 1), "fwd_weight",
                        json_pack("[f, f, f]", 1e-9, 0.1, 7.0));
    (void)with_bf16(profile);
    cs_test_profiled_need(&m, cs_profile_read(profile, m.arena, &read, &m.err));
    json_t *again = cs_profile_json(read);
    struct cs_profile *twice;
    cs_test_profiled_need(&m, cs_profile_read(again, m.arena, &twice, &m.err));
    assert_true(twice->has_step);
    assert_string_equal(twice->precision, "bf16");
    assert_true(twice->step.update.b == 2.0 && twice->step.clear.c == 100.0);
    assert_true(twice->has_step_bf16 && twice->step_bf16.update.b == 0.5);
    assert_true(twice->row[1].bwd_weight_bf16.c == 700.0);
    assert_true(twice->row[1].fwd_input.a == 0.125 && twice->row[1].fwd_input.b == -2.5);
    assert_true(twice->row[1].fwd_weight.a == 1e-9 && twice->row[1].fwd_weight.b == 0.1);
    assert_true(twice->row[0].prepare.c == 70.0);
    json_t *third = cs_profile_json(twice);
    assert_true(json_equal(again, third));
    json_decref(third);
    json_decref(again);
    json_decref(profile);
    cs_test_profiled_free(&m, first);
}

static void refused(const struct cs_test_spec *options, json_t *(*change)(json_t *profile),
                    const char *device, const char *says)
{
    const struct cs_test_spec measured = {.n_encoders = -1};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&measured, m.arena, &first);
    const enum cs_status status =
        cs_test_profiled_make(&m, options, change(cs_test_profile_text(graph, device)));
    assert_true(status == CS_PLAN || status == CS_INVALID);
    if (strstr(m.err.text, says) == NULL || strstr(m.err.text, "plan.profile") == NULL)
        fail_msg("%s", m.err.text);
    cs_test_profiled_free(&m, first);
}

static json_t *as_it_is(json_t *profile)
{
    return profile;
}

static json_t *without_head(json_t *profile)
{
    json_array_remove(json_object_get(profile, "layers"), 2);
    return profile;
}

static json_t *of_bf16(json_t *profile)
{
    json_object_set_new(profile, "precision", json_string("bf16"));
    return profile;
}

static json_t *with_half_a_step(json_t *profile)
{
    json_object_set_new(profile, "step", json_pack("{s:o}", "clear", cs_test_profile_flat(1)));
    return profile;
}

static json_t *with_half_a_step_in_bf16(json_t *profile)
{
    json_object_set_new(profile, "step_bf16", json_pack("{s:o}", "clear", cs_test_profile_flat(1)));
    return profile;
}

static json_t *with_a_word(json_t *profile)
{
    json_object_set_new(cs_test_profile_row(profile, 0), "prepare", json_string("soon"));
    return profile;
}

static void what_was_measured_on_something_else_is_refused(void **state)
{
    const struct cs_test_spec same = {.n_encoders = -1}, wide = {.n_encoders = -1, .llm_width = 96};
    (void)state;
    refused(&same, as_it_is, "h100-80g", "measured on a h100-80g, the plan is for a cpu");
    refused(&wide, as_it_is, "cpu", "other shapes");
    refused(&wide, as_it_is, "cpu", "cornstarch-console profile SCRIPT --output FILE");
    refused(&same, without_head, "cpu", "no costs of llm.head");
    refused(&same, of_bf16, "cpu", "measured in bf16, the job computes in fp32");
    refused(&same, with_half_a_step, "cpu", "profile.step.norm must be three numbers");
    refused(&same, with_half_a_step_in_bf16, "cpu", "profile.step_bf16.norm must be three numbers");
    refused(&same, with_a_word, "cpu", "profile.layers[0].prepare must be three numbers");
}

/* freezing is no part of a profile's key: the same file serves every setting */
static void times_that_are_none_are_refused(void **state)
{
    static const struct {
        const char *part;
        double a, b, c;
        bool is_good;
    } cases[] = {
        {"fwd",        0,     0,     -1,    false},
        {"fwd",        0,     -5,    1e9,   false},
        {"fwd",        1e300, 0,     0,     false},
        {"bwd_input",  0,     1e300, 0,     false},
        {"bwd_weight", 0,     0,     1e13,  false},
        {"prepare",    0,     0,     -1e13, false},
        {"fwd_input",  0,     0,     -999,  true }, /* of 1000 */
        {"fwd_input",  0,     0,     -2000, false},
        {"fwd_weight", 0,     0,     -1001, false},
        {"fwd",        0,     2,     1e6,   true },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(cases); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_profile *read = NULL;
        struct cs_err err = {.text = ""};
        json_t *profile = json_pack("{s:s, s:s, s:s, s:[]}", "schema", "cornstarch.profile/1",
                                    "key", KEY_OF_NOTHING, "device", "cpu", "layers");
        cs_test_profile_add(profile, "llm", "block", 1000, 1100, 900);
        json_object_set_new(cs_test_profile_row(profile, 0), cases[i].part,
                            json_pack("[f, f, f]", cases[i].a, cases[i].b, cases[i].c));
        enum cs_status status = cs_profile_read(profile, arena, &read, &err);
        assert_int_equal(status, cases[i].is_good ? CS_OK : CS_INVALID);
        assert_true(cases[i].is_good || strstr(err.text, "profile.layers[0]"));
        json_decref(profile);
        cs_arena_free(arena);
    }
}

static void a_profile_serves_every_frozen_setting(void **state)
{
    const struct cs_test_spec train = {.n_encoders = -1}, freeze = {.n_encoders = -1, .rules = ""};
    struct cs_test_profiled m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&train, m.arena, &first);
    (void)state;
    cs_test_profiled_need(&m,
                          cs_test_profiled_make(&m, &freeze, cs_test_profile_text(graph, "cpu")));
    assert_int_equal(m.plan->stages[0].fwd_ns, 400 + 3 * 1000 + 3000);
    assert_int_equal(m.plan->stages[0].bwd_input_ns + m.plan->stages[0].bwd_weight_ns, 0);
    cs_test_profiled_free(&m, first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cut_is_the_one_of_the_measured_costs),
        cmocka_unit_test(freezing_leaves_its_parts_out),
        cmocka_unit_test(costs_are_taken_at_the_rows_of_a_slot),
        cmocka_unit_test(what_the_shortest_slot_takes_is_nobodys_share),
        cmocka_unit_test(a_step_is_predicted_from_all_that_was_measured),
        cmocka_unit_test(a_tied_table_is_updated_once),
        cmocka_unit_test(a_state_has_the_times_that_were_measured_with_it),
        cmocka_unit_test(state_in_bf16_takes_its_part_of_the_time),
        cmocka_unit_test(a_tied_exchange_takes_the_bytes_of_its_table),
        cmocka_unit_test(gradients_of_guests_are_summed_once_a_step),
        cmocka_unit_test(a_plan_keeps_what_was_measured_when_it_is_written),
        cmocka_unit_test(a_profile_is_written_as_it_was_read),
        cmocka_unit_test(what_was_measured_on_something_else_is_refused),
        cmocka_unit_test(times_that_are_none_are_refused),
        cmocka_unit_test(a_profile_serves_every_frozen_setting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
