/* Plans from measured costs: cuts and times follow the profile, what is frozen leaves its parts
 * out, what was measured on something else is refused. */
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/profile.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/links/beside.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/sim/predict.h"
#include "tests/support/spec.h"

struct made {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_cluster cluster;
    struct cs_plan *plan;
    struct cs_err err;
};

#define KEY_OF_NOTHING "0000000000000000000000000000000000000000000000000000000000000000"

/* [0, 0, ns]: the same at any number of rows */
static json_t *flat(int ns)
{
    return json_pack("[i, i, i]", 0, 0, ns);
}

static void add_layer(json_t *profile, const char *module, const char *kind, int fwd, int input,
                      int weight)
{
    json_array_append_new(json_object_get(profile, "layers"),
                          json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:o}", "module", module, "kind",
                                    kind, "tp", 1, "cp", 1, "fwd", flat(fwd), "bwd_input",
                                    flat(input), "bwd_weight", flat(weight)));
}

static json_t *row_at(json_t *profile, size_t i)
{
    return json_array_get(json_object_get(profile, "layers"), i);
}

/* Of the text-only model: embed, block, head, with the key that the device asks for. */
static json_t *text_profile(const struct cs_graph *graph, const char *device)
{
    char key[65];
    cs_profile_key(graph, cs_device_class_find(device), key);
    json_t *profile = json_pack("{s:s, s:s, s:s, s:[]}", "schema", "cornstarch.profile/1", "key",
                                key, "device", device, "layers");
    add_layer(profile, "llm", "embed", 400, 0, 600);
    add_layer(profile, "llm", "block", 1000, 1100, 900);
    add_layer(profile, "llm", "head", 3000, 3000, 3000);
    return profile;
}

/* The plan of options with a profile, which is stolen. */
static enum cs_status make_with(struct made *m, const struct cs_test_spec *options, json_t *profile,
                                const char *device, const char *state)
{
    m->root = cs_test_spec_json(options);
    json_object_set_new(json_object_get(m->root, "optimizer"), "state", json_string(state));
    json_object_set_new(json_object_get(m->root, "plan"), "profile", profile);
    m->cluster = (struct cs_cluster){cs_device_class_find(device), 1, 8};
    if (cs_spec_read(m->root, m->arena, &m->spec, &m->err) != CS_OK ||
        cs_graph_build(m->spec, true, m->arena, &m->graph, &m->err) != CS_OK)
        fail_msg("%s", m->err.text);
    return cs_plan_make(m->spec, m->graph, &m->cluster, m->arena, &m->plan, &m->err);
}

static enum cs_status make_on(struct made *m, const struct cs_test_spec *options, json_t *profile,
                              const char *device)
{
    return make_with(m, options, profile, device, "fp32");
}

static enum cs_status make(struct made *m, const struct cs_test_spec *options, json_t *profile)
{
    return make_on(m, options, profile, "cpu");
}

static void need(const struct made *m, enum cs_status status)
{
    if (status != CS_OK)
        fail_msg("%s: %s", cs_status_slug(status), m->err.text);
}

static void done(struct made *m, json_t *first)
{
    json_decref(m->root);
    json_decref(first);
    cs_arena_free(m->arena);
}

/* embed 1000, four blocks of 3000, head 9000: 1000 + 3 * 3000 = 10000 | 3000 + 9000 = 12000 */
static void the_cut_is_the_one_of_the_measured_costs(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 4, .llm_pp = 2};
    struct made m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    (void)state;
    need(&m, make(&m, &options, text_profile(graph, "cpu")));
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
    done(&m, first);

    /* a head that costs as much as a block: 1000 + 2 * 3000 = 7000 | 3 * 3000 = 9000 */
    m = (struct made){.arena = cs_arena_new(0)};
    graph = cs_test_graph(&options, m.arena, &first);
    json_t *even = text_profile(graph, "cpu");
    json_object_set_new(row_at(even, 2), "fwd", flat(1000));
    json_object_set_new(row_at(even, 2), "bwd_input", flat(1000));
    json_object_set_new(row_at(even, 2), "bwd_weight", flat(1000));
    need(&m, make(&m, &options, even));
    assert_int_equal(m.plan->stages[0].n_layers, 3);
    assert_int_equal(m.plan->stages[1].n_layers, 3);
    done(&m, first);
}

/* What comes on top of a forward does so only where a gradient passes, or the layer trains. */
static void freezing_leaves_its_parts_out(void **state)
{
    const struct cs_test_spec options = {
        .n_encoders = -1, .llm_layers = 3, .rules = "freeze:* train:llm.layers.1"};
    struct made m = {.arena = cs_arena_new(0)};
    struct cs_layer_cost cost[8];
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    json_t *profile = text_profile(graph, "cpu");
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        json_object_set_new(row_at(profile, i), "fwd_input", flat(10));
        json_object_set_new(row_at(profile, i), "fwd_weight", flat(7));
    }
    need(&m, make(&m, &options, profile));
    need(&m, cs_spec_layer_costs(m.spec, m.graph, &m.plan->budget, m.cluster.device, m.arena, cost,
                                 NULL, &m.err));
    assert_int_equal(cost[0].fwd_ns, 400); /* embed: nothing passes */
    assert_int_equal(cost[1].fwd_ns, 1000);
    assert_int_equal(cost[1].bwd_input_ns + cost[1].bwd_weight_ns, 0);
    /* trains, with nothing before it: the inner part of its input half, not all of it */
    assert_int_equal(cost[2].fwd_ns, 1017);
    assert_int_equal(cost[2].bwd_weight_ns, 900);
    assert_in_range(cost[2].bwd_input_ns, 550, 1099);
    assert_int_equal(cost[3].fwd_ns, 1010); /* frozen, passes */
    assert_int_equal(cost[3].bwd_input_ns, 1100);
    assert_int_equal(cost[3].bwd_weight_ns, 0);
    assert_int_equal(cost[4].fwd_ns, 3010);
    assert_int_equal(cost[4].bwd_input_ns, 3000);
    done(&m, first);
}

/* x of a head: rows with a label; of all others: rows of the slot */
static void costs_are_taken_at_the_rows_of_a_slot(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .seq_tokens = 64, .rules = ""};
    struct made m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    json_t *profile = text_profile(graph, "cpu");
    (void)state;
    json_object_set_new(row_at(profile, 0), "fwd", flat(0));
    json_object_set_new(row_at(profile, 1), "fwd", json_pack("[f, f, f]", 0.5, 2.0, 3.0));
    json_object_set_new(row_at(profile, 2), "fwd", json_pack("[f, f, f]", 0.0, 10.0, 5.0));
    need(&m, make(&m, &options, profile));
    /* three blocks, and a head on half of the rows */
    assert_int_equal(m.plan->stages[0].fwd_ns, 3 * (2048 + 128 + 3) + 10 * 32 + 5);
    done(&m, first);
}

static json_t *with_step(json_t *profile)
{
    json_t *per = json_pack("[f, f, f]", 0.0, 0.25, 100.0);
    json_t *step = json_pack("{s:O, s:O, s:o}", "clear", per, "norm", per, "update",
                             json_pack("[f, f, f]", 0.0, 2.0, 50.0));
    json_decref(per);
    json_object_set_new(profile, "step", step);
    json_object_set_new(row_at(profile, 0), "prepare", flat(70));
    json_object_set_new(profile, "precision", json_string("fp32"));
    return profile;
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
        struct made m = {.arena = cs_arena_new(0)};
        json_t *first;
        json_t *profile = text_profile(cs_test_graph(&options, m.arena, &first), "cpu");
        add_layer(profile, "vision.encoder", "embed", 400, 0, 600);
        add_layer(profile, "vision.encoder", "block", 0, 1100, 900);
        add_layer(profile, "vision.encoder", "norm", 10, 20, 30);
        add_layer(profile, "vision.projector", "projector", 100, 200, 300);
        json_object_set_new(row_at(profile, 4), "fwd", json_pack("[i, i, i]", 0, 1000, 70));
        json_object_set_new(row_at(profile, 1), "bwd_weight", json_pack("[i, i, i]", 0, 10, 900));
        need(&m, make(&m, &options, profile));
        assert_true(m.graph->n_layers <= 16);
        need(&m, cs_spec_layer_costs(m.spec, m.graph, &m.plan->budget, m.cluster.device, m.arena,
                                     cost[i], NULL, &m.err));
        rows = cs_layer_work(m.graph, &m.graph->layers[1], &m.plan->budget).tokens;
        done(&m, first);
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
    struct made m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    (void)state;
    need(&m, make(&m, &options, with_step(text_profile(graph, "cpu"))));
    need(&m, cs_plan_predict(m.plan, m.graph, &m.cluster, m.arena, &m.err));
    const int64_t n = m.graph->n_trained, quarter = (n + 2) / 4;
    const int64_t slot = 1000 + 2 * 3000 + 9000;
    assert_int_equal(m.plan->stages[0].clear_ns, quarter + 100);
    assert_int_equal(m.plan->stages[0].update_ns, 2 * n + 50);
    assert_int_equal(m.plan->predicted_step_ns,
                     5 * slot + 5 * 70 + 2 * (quarter + 100) + 2 * n + 50);
    done(&m, first);
}

/* A tied table has two gradients, but is one parameter of the norm and of the optimizer. */
static void a_tied_table_is_updated_once(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 2, .is_tied = true};
    struct made m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    (void)state;
    need(&m, make(&m, &options, with_step(text_profile(graph, "cpu"))));
    const int64_t table = m.graph->params[m.graph->tied_param].count, n = m.graph->n_trained;
    assert_true(table > 0);
    assert_int_equal(m.plan->stages[0].update_ns, 2 * n + 50);
    assert_int_equal(m.plan->stages[0].clear_ns, (n + table + 2) / 4 + 100);
    assert_true(m.plan->stages[0].norm_ns > (n + 2) / 4 + 100); /* both are added */
    done(&m, first);
}

/* what a device that computes in bf16 is measured with, too */
static json_t *with_bf16(json_t *profile)
{
    json_object_set_new(profile, "step_bf16",
                        json_pack("{s:[f, f, f], s:[f, f, f], s:[f, f, f]}", "clear", 0.0, 0.125,
                                  30.0, "norm", 0.0, 0.0625, 40.0, "update", 0.0, 0.5, 20.0));
    json_object_set_new(row_at(profile, 1), "bwd_weight_bf16", flat(700));
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
        struct made m = {.arena = cs_arena_new(0)};
        json_t *first;
        struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
        json_t *profile = with_bf16(with_step(text_profile(graph, "h100-80g")));
        need(&m, make_with(&m, &options, profile, "h100-80g", is_bf16 ? "bf16" : "fp32"));
        const struct cs_stage *s = &m.plan->stages[0];
        const int64_t n = m.graph->n_trained;
        assert_int_equal(s->bwd_weight_ns, 600 + 2 * (is_bf16 ? 700 : 900) + 3000);
        assert_int_equal(s->update_ns, is_bf16 ? (n + 1) / 2 + 20 : 2 * n + 50);
        assert_int_equal(s->clear_ns, is_bf16 ? (n + 4) / 8 + 30 : (n + 2) / 4 + 100);
        assert_int_equal(s->norm_ns, is_bf16 ? (n + 8) / 16 + 40 : (n + 2) / 4 + 100);
        assert_false(says(m.plan, "in proportion to the bytes"));
        done(&m, first);
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
        struct made m = {.arena = cs_arena_new(0)};
        json_t *first;
        struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
        json_t *profile = with_step(text_profile(graph, "h100-80g"));
        json_object_set_new(profile, "precision", json_string("bf16"));
        need(&m, make_with(&m, &options, profile, "h100-80g", is_bf16 ? "bf16" : "fp32"));
        stage[is_bf16] = m.plan->stages[0];
        n = m.graph->n_trained;
        assert_int_equal(says(m.plan, "times with bf16 are in proportion to the bytes"), is_bf16);
        done(&m, first);
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
    struct made m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    (void)state;
    need(&m, make(&m, &options, text_profile(graph, "cpu")));
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
    done(&m, first);
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
        struct made m = {.arena = cs_arena_new(0)};
        const struct cs_action sum = {.op = CS_OP_TENSORS, .stage = -1};
        need(&m, make_on(&m, &rows[i].options, json_null(), rows[i].device));
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
        need(&m, cs_plan_predict(m.plan, m.graph, &m.cluster, m.arena, &m.err));
        const int64_t before =
            m.plan->predicted_step_ns; /* it is part of the step: rows are a hundredth of it */
        device.link_bytes_per_s /= 4;
        m.cluster.device = &device;
        need(&m, cs_plan_predict(m.plan, m.graph, &m.cluster, m.arena, &m.err));
        assert_true(!rows[i].has_guests ||
                    m.plan->predicted_step_ns - before >= 3 * (takes - 2 * device.link_latency_ns));
        done(&m, NULL);
    }
}

/* a link's bandwidth is more than the few multiprocessors of a channel move */
static void a_channel_moves_what_its_multiprocessors_can(void **state)
{
    const struct cs_device_class *cpu = cs_device_class_find("cpu");
    (void)state;
    assert_int_equal(cs_channel_of(cs_device_class_find("h200-141g")).bytes_per_s, 68000000000);
    assert_int_equal(cs_channel_of(cs_device_class_find("a40-48g")).bytes_per_s, 28000000000);
    assert_int_equal(cs_channel_of(cpu).bytes_per_s, cpu->link_bytes_per_s);
}

/* Of the 132 multiprocessors of a GPU every channel holds some: rows one way, gradients the other. */
static void messages_take_their_part_of_a_device(void **state)
{
    static const struct {
        const char *rules;
        int channels;
    } cases[] = {
        {"train:*",                 2},
        {"freeze:* train:llm.head", 1},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(cases); i++) {
        const struct cs_test_spec options = {
            .n_encoders = -1, .llm_layers = 4, .llm_pp = 2, .rules = cases[i].rules};
        struct made m = {.arena = cs_arena_new(0)};
        json_t *first;
        struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
        need(&m, make_on(&m, &options, text_profile(graph, "h100-80g"), "h100-80g"));
        const int n = m.plan->stages[0].n_layers - 1,
                  left = 132 - CS_CHANNEL_UNITS * cases[i].channels;
        assert_int_equal(m.plan->stages[0].fwd_ns, ((400 + n * 1000) * 132 + left - 1) / left);
        done(&m, first);
    }
    /* one rank has no messages */
    const struct cs_test_spec alone = {.n_encoders = -1, .llm_layers = 4};
    struct made m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&alone, m.arena, &first);
    need(&m, make_on(&m, &alone, text_profile(graph, "h100-80g"), "h100-80g"));
    assert_int_equal(m.plan->stages[0].fwd_ns, 400 + 4 * 1000 + 3000);
    done(&m, first);
}

static void a_plan_keeps_what_was_measured_when_it_is_written(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 2};
    struct made m = {.arena = cs_arena_new(0)};
    struct cs_plan *read;
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    (void)state;
    need(&m, make(&m, &options, with_step(text_profile(graph, "cpu"))));
    json_t *json = cs_plan_json(m.plan, m.graph);
    need(&m, cs_plan_read(json, m.graph, m.arena, &read, &m.err));
    assert_string_equal(read->hash, m.plan->hash);
    assert_int_equal(read->stages[0].prepare_ns, 70);
    assert_int_equal(read->stages[0].norm_ns, m.plan->stages[0].norm_ns);
    assert_int_equal(read->stages[0].update_ns, m.plan->stages[0].update_ns);
    json_decref(json);
    done(&m, first);
}

static void a_profile_is_written_as_it_was_read(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1};
    struct made m = {.arena = cs_arena_new(0)};
    struct cs_profile *read;
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    json_t *profile = with_step(text_profile(graph, "cpu"));
    (void)state;
    json_object_set_new(row_at(profile, 1), "fwd", json_pack("[f, f, f]", 0.0, 2.75, 1e3));
    json_object_set_new(row_at(profile, 1), "fwd_input", json_pack("[f, f, f]", 0.125, -2.5, 1e6));
    json_object_set_new(row_at(profile, 1), "fwd_weight", json_pack("[f, f, f]", 1e-9, 0.1, 7.0));
    (void)with_bf16(profile);
    need(&m, cs_profile_read(profile, m.arena, &read, &m.err));
    json_t *again = cs_profile_json(read);
    struct cs_profile *twice;
    need(&m, cs_profile_read(again, m.arena, &twice, &m.err));
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
    done(&m, first);
}

static json_t *link_row(const char *op, int ranks, int latency_ns, int bytes_per_s)
{
    return json_pack("{s:s, s:i, s:i, s:i}", "op", op, "ranks", ranks, "latency_ns", latency_ns,
                     "bytes_per_s", bytes_per_s);
}

/* by hand, of the rows of links_are_those_that_were_measured */
static void exchanges_take_what_was_measured(const struct cs_device_class *device)
{
    const int64_t s = 1000000000;
    assert_int_equal(cs_exchange_ns(device, CS_LINK_SEND, 2, 5000), 700 + s);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 4, 1000), 6000 + s);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 2, 10), 10 + s);
    /* three ranks of a ring: two thirds of the steps of four, 4/3 of the bytes where four send 6/4 */
    assert_in_range(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 3, 900), 4000 + s * 8 / 10 - 1,
                    4000 + s * 8 / 10 + 1);
    /* more ranks than were measured: from the largest group */
    assert_in_range(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 16, 1000), 30000 + s * 5 / 4 - 1,
                    30000 + s * 5 / 4 + 1);
    /* not measured: over the ring of the link, here 1000 ns a step and 1500 bytes/s */
    assert_int_equal(cs_exchange_ns(device, CS_LINK_REDUCE_SCATTER, 4, 2000), 3000 + s);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_ALL_TO_ALL, 4, 2000), 1000 + s);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_SHIFT, 4, 1500), 1000 + s);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 1, 1000), 0);
    assert_int_equal(cs_exchange_ns(device, CS_LINK_ALL_REDUCE, 4, 0), 0);
    assert_int_equal(cs_channel_of(device).bytes_per_s, 5000);
}

/* Between points what lies between them, beyond them the line; of other groups the bytes' time grows as on a ring. */
static void exchanges_take_what_points_say(struct made *m, json_t *profile, json_t *row,
                                           const struct cs_cluster *cluster)
{
    static const char *const none[] = {"[[100, 5], [100, 6]]", "[[100, -1]]", "[[100]]",
                                       "[[1.5, 2]]", "[[1, 1], [2, 2], [3, 3], [4, 4], [5, 5]]"};
    struct cs_cluster own = *cluster;
    struct cs_profile *read;
    json_object_set_new(row, "points",
                        json_loads("[[100, 2000], [300, 8000], [900, 9000]]", 0, NULL));
    need(m, cs_profile_read(profile, m->arena, &read, &m->err));
    cs_profile_cluster(read, m->arena, &own);
    const struct cs_device_class *d = own.device;
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 2, 100), 2000);
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 2, 200), 5000);
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 2, 600), 8500);
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 2, 1000), 50 + 10000); /* 100 MB/s */
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 2, 50), 50 + 500);
    assert_int_equal(cs_exchange_ns(d, CS_LINK_ALL_TO_ALL, 4, 200), 50 + (5000 - 50) * 3 / 2);
    assert_int_equal(cs_exchange_latency_ns(d, CS_LINK_ALL_TO_ALL, 2), 50);
    json_t *again = cs_profile_json(read);
    assert_true(json_equal(json_object_get(again, "links"), json_object_get(profile, "links")));
    json_decref(again);
    for (size_t i = 0; i < CS_ARRAY_LEN(none); i++) {
        json_object_set_new(row, "points", json_loads(none[i], 0, NULL));
        assert_int_equal(cs_profile_read(profile, m->arena, &read, &m->err), CS_INVALID);
        assert_non_null(strstr(m->err.text, "links[4].points"));
    }
    json_object_del(row, "points");
}

/* What every rank sends to the next takes as long in groups of any size; where it was not measured, as in older profiles,
 * as long as an all-to-all of two ranks of twice the bytes. By copy engines it takes nothing from what computes. */
static void shifts_take_what_was_measured(struct made *m, json_t *profile,
                                          const struct cs_cluster *cluster)
{
    struct cs_cluster own = *cluster;
    struct cs_profile *read;
    need(m, cs_profile_read(profile, m->arena, &read, &m->err));
    cs_profile_cluster(read, m->arena, &own); /* of two 50 ns and 100 MB/s */
    for (int64_t n = 2; n <= 8; n *= 2) {
        assert_int_equal(cs_exchange_ns(own.device, CS_LINK_SHIFT, n, 1000), 50 + 20000);
        assert_int_equal(cs_exchange_latency_ns(own.device, CS_LINK_SHIFT, n), 50);
    }
    json_t *row = link_row("shift", 2, 20, 200000000);
    json_object_set_new(row, "copy_engines", json_true());
    json_array_append_new(json_object_get(profile, "links"), row);
    need(m, cs_profile_read(profile, m->arena, &read, &m->err));
    assert_true(read->link[5].by_copy_engines && !read->link[4].by_copy_engines);
    cs_profile_cluster(read, m->arena, &own);
    for (int64_t n = 2; n <= 8; n *= 2) {
        const struct cs_beside x = cs_exchange_beside(own.device, CS_LINK_SHIFT, n, 1000);
        assert_true(x.alone_ns == 20 + 5000 && x.beside_ns == x.alone_ns && x.slows <= 0);
        assert_int_equal(cs_exchange_latency_ns(own.device, CS_LINK_SHIFT, n), 20);
    }
    json_t *again = cs_profile_json(read);
    assert_true(json_equal(json_object_get(again, "links"), json_object_get(profile, "links")));
    json_decref(again);
    json_object_set_new(row, "copy_engines", json_string("yes"));
    assert_int_equal(cs_profile_read(profile, m->arena, &read, &m->err), CS_INVALID);
    json_object_set_new(row, "copy_engines", json_true());
}

/* A ring of n ranks takes 2 (n - 1) steps for 2 (n - 1) / n of the bytes; the largest group counts, a message where
 * no ring was measured; the plan's prediction follows. */
static void links_are_those_that_were_measured(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 2, .llm_pp = 2};
    struct made m = {.arena = cs_arena_new(0)};
    struct cs_profile *read;
    json_t *first, *links = json_array();
    struct cs_graph *graph = cs_test_graph(&options, m.arena, &first);
    json_t *profile = with_step(text_profile(graph, "cpu"));
    struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8}, own = cluster;
    (void)state;
    cs_profile_cluster(NULL, m.arena, &own);
    assert_ptr_equal(own.device, cluster.device);
    json_object_set_new(profile, "links", links);
    json_array_append_new(links, link_row("send", 2, 700, 5000));
    need(&m, cs_profile_read(profile, m.arena, &read, &m.err));
    cs_profile_cluster(read, m.arena, &own);
    assert_true(own.device->link_latency_ns == 700 && own.device->link_bytes_per_s == 5000);
    assert_true(own.device->flops == cluster.device->flops);
    json_array_append_new(links, link_row("all-reduce", 4, 6000, 1000));
    json_array_append_new(links, link_row("all-gather", 8, 1, 1));
    json_array_append_new(links, link_row("all-reduce", 2, 10, 10));
    need(&m, cs_profile_read(profile, m.arena, &read, &m.err));
    assert_int_equal(read->n_links, 4);
    cs_profile_cluster(read, m.arena, &own);
    assert_true(own.device->link_latency_ns == 1000 && own.device->link_bytes_per_s == 1500);
    exchanges_take_what_was_measured(own.device);
    json_t *again = cs_profile_json(read);
    assert_true(json_equal(json_object_get(again, "links"), links));
    json_decref(again);
    need(&m, make(&m, &options, json_incref(profile)));
    need(&m, cs_spec_cluster(m.spec, NULL, m.arena, &m.cluster, &m.err));
    assert_int_equal(m.cluster.device->link_latency_ns, 1000);
    json_t *row = link_row("all-to-all", 2, 50, 100000000);
    json_array_append_new(links, row);
    exchanges_take_what_points_say(&m, profile, row, &cluster);
    shifts_take_what_was_measured(&m, profile, &cluster);
    json_object_del(json_array_get(links, 0), "bytes_per_s");
    assert_int_equal(cs_profile_read(profile, m.arena, &read, &m.err), CS_INVALID);
    assert_non_null(strstr(m.err.text, "links[0]"));
    json_decref(profile);
    done(&m, first);
}

/* Beside products bytes take longer and latency does not; groups that were not measured so, and kinds, are as alone and
 * hold their multiprocessors. */
static void exchanges_beside_computing_are_those_that_were_measured(void **state)
{
    const struct cs_test_spec options = {.n_encoders = -1};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_profile *read;
    struct cs_err err = {.text = ""};
    json_t *first, *links = json_array(), *row = link_row("all-gather", 2, 1000, 2000000000);
    struct cs_graph *graph = cs_test_graph(&options, arena, &first);
    json_t *profile = text_profile(graph, "h100-80g");
    struct cs_cluster own = {cs_device_class_find("h100-80g"), 1, 8};
    const double held = 16.0 / own.device->units;
    (void)state;
    json_object_set_new(row, "beside_bytes_per_s", json_integer(500000000));
    json_object_set_new(row, "slows", json_real(0.375));
    json_array_append_new(links, row);
    json_array_append_new(links, link_row("send", 2, 700, 8000));
    json_object_set_new(json_array_get(links, 1), "beside_bytes_per_s", json_integer(5000));
    json_object_set_new(json_array_get(links, 1), "slows", json_real(0.125));
    json_array_append_new(links, link_row("all-reduce", 2, 1000, 1000000000));
    json_array_append_new(links, link_row("reduce-scatter", 2, 1000, 1000000000));
    json_object_set_new(profile, "links", links);
    assert_int_equal(cs_profile_read(profile, arena, &read, &err), CS_OK);
    cs_profile_cluster(read, arena, &own);
    struct cs_beside x = cs_exchange_beside(own.device, CS_LINK_ALL_GATHER, 2, 8000);
    assert_true(x.alone_ns == 1000 + 4000 && llabs(x.beside_ns - (1000 + 16000)) <= 4);
    assert_float_equal(x.slows, 0.375, 1e-9);
    assert_true(cs_channel_of(own.device).latency_ns == 700 &&
                cs_channel_of(own.device).bytes_per_s == 5000);
    x = cs_exchange_beside(own.device, CS_LINK_ALL_GATHER, 1, 8000);
    assert_true(x.alone_ns == 0 && x.beside_ns == 0);
    x = cs_exchange_beside(own.device, CS_LINK_REDUCE_SCATTER, 2, 8000);
    assert_true(x.alone_ns == 1000 + 8000 && x.beside_ns == x.alone_ns);
    assert_float_equal(x.slows, held, 1e-9);
    json_t *again = cs_profile_json(read);
    assert_true(json_equal(json_object_get(again, "links"), links));
    json_decref(again);
    json_object_set_new(row, "slows", json_real(1));
    assert_int_equal(cs_profile_read(profile, arena, &read, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "slows"));
    json_object_del(row, "slows");
    assert_int_equal(cs_profile_read(profile, arena, &read, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "links[0]"));
    json_decref(profile);
    json_decref(first);
    cs_arena_free(arena);
}

static void refused(const struct cs_test_spec *options, json_t *(*change)(json_t *profile),
                    const char *device, const char *says)
{
    const struct cs_test_spec measured = {.n_encoders = -1};
    struct made m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&measured, m.arena, &first);
    const enum cs_status status = make(&m, options, change(text_profile(graph, device)));
    assert_true(status == CS_PLAN || status == CS_INVALID);
    if (strstr(m.err.text, says) == NULL || strstr(m.err.text, "plan.profile") == NULL)
        fail_msg("%s", m.err.text);
    done(&m, first);
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
    json_object_set_new(profile, "step", json_pack("{s:o}", "clear", flat(1)));
    return profile;
}

static json_t *with_half_a_step_in_bf16(json_t *profile)
{
    json_object_set_new(profile, "step_bf16", json_pack("{s:o}", "clear", flat(1)));
    return profile;
}

static json_t *with_a_word(json_t *profile)
{
    json_object_set_new(row_at(profile, 0), "prepare", json_string("soon"));
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
        add_layer(profile, "llm", "block", 1000, 1100, 900);
        json_object_set_new(row_at(profile, 0), cases[i].part,
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
    struct made m = {.arena = cs_arena_new(0)};
    json_t *first;
    struct cs_graph *graph = cs_test_graph(&train, m.arena, &first);
    (void)state;
    need(&m, make(&m, &freeze, text_profile(graph, "cpu")));
    assert_int_equal(m.plan->stages[0].fwd_ns, 400 + 3 * 1000 + 3000);
    assert_int_equal(m.plan->stages[0].bwd_input_ns + m.plan->stages[0].bwd_weight_ns, 0);
    done(&m, first);
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
        cmocka_unit_test(a_channel_moves_what_its_multiprocessors_can),
        cmocka_unit_test(messages_take_their_part_of_a_device),
        cmocka_unit_test(a_plan_keeps_what_was_measured_when_it_is_written),
        cmocka_unit_test(a_profile_is_written_as_it_was_read),
        cmocka_unit_test(links_are_those_that_were_measured),
        cmocka_unit_test(exchanges_beside_computing_are_those_that_were_measured),
        cmocka_unit_test(what_was_measured_on_something_else_is_refused),
        cmocka_unit_test(times_that_are_none_are_refused),
        cmocka_unit_test(a_profile_serves_every_frozen_setting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
