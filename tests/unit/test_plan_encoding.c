/* Plans as documents: what is written is read back, hashes tell plans apart, damage is refused; clusters. */
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/json_put.h"
#include "support/planned.h"

/* what is not encoded, too: it follows from the model */
static void check_edges(const struct cs_plan *got, const struct cs_plan *want)
{
    assert_int_equal(got->n_edges, want->n_edges);
    for (int32_t i = 0; i < want->n_edges; i++) {
        const struct cs_edge *a = &got->edges[i], *b = &want->edges[i];
        assert_int_equal(a->id, b->id);
        assert_int_equal(a->from, b->from);
        assert_int_equal(a->to, b->to);
        assert_int_equal(a->width, b->width);
        assert_int_equal(a->has_grad, b->has_grad);
        assert_int_equal(a->max_rows, b->max_rows);
        assert_int_equal(a->feed, b->feed);
        assert_int_equal(a->is_inner, b->is_inner);
        assert_int_equal(a->load_bytes, b->load_bytes);
        assert_memory_equal(a->takes_part, b->takes_part, sizeof a->takes_part);
        assert_memory_equal(a->is_striped, b->is_striped, sizeof a->is_striped);
    }
}

/* Rows inside an encoder are others than those that leave it, and what experts have to do goes with the rows
 * of the language model: ranks make their buffers and messages from the plan that they read. */
static void edges_that_are_read_are_those_that_were_planned(void **state)
{
    (void)state;
    const struct cs_test_spec o = {.vision_pp = 2, .llm_pp = 3, .has_experts = true};
    struct cs_test_planned m = cs_test_plan(&o);
    struct cs_plan *read = NULL;
    int n_inner = 0, n_loads = 0;
    json_t *json = cs_plan_json(m.plan, m.graph);
    if (cs_plan_read(json, m.graph, m.arena, &read, &m.err) != CS_OK)
        fail_msg("%s", m.err.text);
    check_edges(read, m.plan);
    for (int32_t i = 0; i < read->n_edges; i++) {
        n_inner += read->edges[i].is_inner;
        n_loads += read->edges[i].load_bytes > 0;
    }
    assert_int_equal(n_inner, 1);
    assert_int_equal(n_loads, 2);
    json_decref(json);
    cs_test_planned_free(&m);
}

static void encoding_round_trips_and_the_hash_is_stable(void **state)
{
    (void)state;
    const struct cs_test_spec o = {.n_encoders = 2,
                                   .llm_pp = 2,
                                   .is_tied = true,
                                   .dp = 2,
                                   .rules = "train:depth.projector train:llm"};
    struct cs_test_planned m = cs_test_plan(&o);
    struct cs_test_planned other = cs_test_plan(&o);
    struct cs_plan *read = NULL;
    assert_int_equal(strlen(m.plan->hash), 64);
    assert_string_equal(m.plan->hash, other.plan->hash);
    m.plan->predicted_step_ns = 12345;
    m.plan->predicted_bubble = (double[]){0.1, 0.25, 1.0 / 3, 0.5, 0};
    json_t *json = cs_plan_json(m.plan, m.graph);
    char *text = json_dumps(json, JSON_SORT_KEYS), *again;
    json_t *parsed = json_loads(text, 0, NULL);
    if (cs_plan_read(parsed, m.graph, m.arena, &read, &m.err) != CS_OK)
        fail_msg("%s", m.err.text);
    assert_string_equal(read->hash, other.plan->hash);
    check_edges(read, m.plan);
    json_t *second = cs_plan_json(read, m.graph);
    again = json_dumps(second, JSON_SORT_KEYS);
    assert_string_equal(text, again);
    assert_true(read->predicted_bubble[2] == 1.0 / 3);
    assert_int_equal(read->dp, 2);
    free(text);
    free(again);
    json_decref(json);
    json_decref(parsed);
    json_decref(second);
    cs_test_planned_free(&m);
    cs_test_planned_free(&other);
    other = cs_test_plan(&(struct cs_test_spec){.n_encoders = 2, .depth_pp = 2, .llm_pp = 2});
    cs_test_planned_free(&other);
}

/* What an edge is beside what is written follows from the rest; striped is written, where it is so. */
static void flows_of_edges_are_read_as_they_were_planned(void **state)
{
    static const struct {
        struct cs_test_spec options;
        const char *striped;
    } rows[] = {
        {{.llm_pp = 2, .llm_tp = 2, .llm_sp = true},                        NULL       },
        {{.llm_pp = 2, .llm_tp = 2, .stripes = "always", .n_encoders = -1}, "both"     },
        {{.llm_tp = 2, .stripes = "always"},                                "rows"     },
        {{.vision_tp = 2, .stripes = "always"},                             "gradients"},
        {{.llm_tp = 2, .stripes = "never"},                                 NULL       },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_test_planned m = cs_test_plan(&rows[i].options);
        struct cs_plan *read = NULL;
        json_t *json = cs_plan_json(m.plan, m.graph);
        const int32_t e = m.plan->n_edges - 1;
        const json_t *edge = json_array_get(json_object_get(json, "edges"), (size_t)e);
        const char *striped = json_string_value(json_object_get(edge, "striped"));
        if (cs_plan_read(json, m.graph, m.arena, &read, &m.err) != CS_OK)
            fail_msg("%s", m.err.text);
        check_edges(read, m.plan);
        assert_true(i != 0 || read->edges[e].takes_part[CS_FLOW_ROWS]);
        assert_true((striped == NULL) == (rows[i].striped == NULL));
        if (striped != NULL)
            assert_string_equal(striped, rows[i].striped);
        json_decref(json);
        cs_test_planned_free(&m);
    }
}

static void other_plans_have_other_hashes(void **state)
{
    (void)state;
    static const struct cs_test_spec o[] = {
        {.llm_pp = 2},
        {           .llm_pp = 3          },
        { .llm_pp = 2,           .schedule = "gpipe"},
        {           .llm_pp = 2,           .slots = 5},
        {           .llm_pp = 2,           .seq_tokens = 64},
        {           .llm_pp = 2,           .rules = "train:llm"},
        {           .llm_pp = 2,           .dp = 2}
    };
    char hash[CS_ARRAY_LEN(o)][65];
    for (size_t i = 0; i < CS_ARRAY_LEN(o); i++) {
        struct cs_test_planned m = cs_test_plan(&o[i]);
        memcpy(hash[i], m.plan->hash, 65);
        cs_test_planned_free(&m);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(hash[i], hash[k]);
    }
}

static void damaged_plans_are_refused(void **state)
{
    (void)state;
    struct cs_test_planned m =
        cs_test_plan(&(struct cs_test_spec){.llm_pp = 2, .rules = "train:vision.projector"});

    struct {
        const char *path;
        json_t *value;
        const char *words;
    } rows[] = {
        {"schema",                      json_string("cornstarch.plan/9"), "schema"                            },
        {"schedule",                    json_string("none"),              "schedule"                          },
        {"slots",                       json_integer(0),                  "slots"                             },
        {"slots",                       json_integer(5),                  "hash"                              },
        {"n_ranks",                     json_integer(4),                  "rank 3 has no stage"               },
        {"n_ranks",                     json_integer(2),                  "rank"                              },
        {"stages",                      json_array(),                     "stages"                            },
        {"stages/0",                    json_integer(1),                  "stages[0]"                         },
        {"stages/0/rank",               json_integer(3),                  "stages[0].rank"                    },
        {"stages/0/rank",               json_integer(1),                  "rank 0 has no stage"               },
        {"stages/0/rank",               json_integer(-1),                 "stages[0].rank"                    },
        {"stages/1/branch",             json_string("x"),                 "stages[1].branch"                  },
        {"stages/1/name",               json_string("x"),                 "stages[1].name"                    },
        {"stages/1/id",                 json_integer(0),                  "stages[1].id"                      },
        {"stages/1/n_layers",           json_integer(1000),               "does not continue"                 },
        {"stages/1/n_layers",           json_integer(0),                  "does not continue"                 },
        {"stages/1/first_layer",        json_integer(0),                  "does not continue"                 },
        {"stages/0/fwd_ns",             json_real(1.5),                   "stages[0].fwd_ns"                  },
        {"stages/0/fwd_ns",             json_integer(1),                  "hash"                              },
        {"stages/0/has_backward",       json_false(),                     "gradients differ"                  },
        {"stages/0/has_backward",       json_integer(1),                  "true or false"                     },
        {"edges/0/striped",             json_string("all"),               "edges[0].striped must be"          },
        {"edges/0/striped",             json_string("rows"),              "no ranks share its matrices"       },
        {"edges/0/to",                  json_integer(2),                  "edges[0] must be vision.0 -> llm.0"},
        {"edges/0/has_grad",            json_false(),                     "edges[0]"                          },
        {"edges",                       json_array(),                     "edges must have 2"                 },
        {"budget/seq_tokens",           json_integer(0),                  "seq_tokens"                        },
        {"budget/encoders",             json_array(),                     "budget.encoders"                   },
        {"budget/encoders/0/rows",      json_integer(17),                 "items * item_rows"                 },
        {"budget/encoders/0/item_rows", json_integer(8),                  "items of vision have 16 rows"      },
        {"head_stage",                  json_integer(0),                  "head_stage"                        },
        {"head_stage",                  json_integer(7),                  "head_stage"                        },
        {"is_tied_across",              json_true(),                      "is_tied_across"                    },
        {"predicted_bubble",            json_pack("[f]",                  0.5),                                 "predicted_bubble"},
        {"why",                             json_pack("[i]",                                                         1),                                                  "why[0]"},
        {"hash",                     json_string("0123"),                                                     "hash"                                  },
        {"extra",                       json_integer(1),   "keys"},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        json_t *json = cs_plan_json(m.plan, m.graph);
        struct cs_plan *read = NULL;
        cs_test_json_put(json, rows[i].path, rows[i].value);
        enum cs_status status = cs_plan_read(json, m.graph, m.arena, &read, &m.err);
        if (status == CS_OK || !strstr(m.err.text, rows[i].words))
            fail_msg("%s: status %d, \"%s\" does not say \"%s\"", rows[i].path, (int)status,
                     m.err.text, rows[i].words);
        json_decref(json);
    }
    cs_test_planned_free(&m);
}

/* every replica runs as many slots of a step */
static void slots_that_replicas_cannot_share_are_refused(void **state)
{
    struct cs_test_planned m = cs_test_plan(&(struct cs_test_spec){.dp = 2, .slots = 4});
    struct cs_plan *read = NULL;
    (void)state;
    json_t *json = cs_plan_json(m.plan, m.graph);
    assert_int_equal(cs_plan_read(json, m.graph, m.arena, &read, &m.err), CS_OK);
    json_object_set_new(json, "slots", json_integer(3));
    assert_int_equal(cs_plan_read(json, m.graph, m.arena, &read, &m.err), CS_CORRUPT);
    assert_non_null(strstr(m.err.text, "slots is 3, no multiple of dp = 2"));
    json_decref(json);
    cs_test_planned_free(&m);
}

static void plan_for_another_model_is_refused(void **state)
{
    (void)state;
    struct cs_test_planned m = cs_test_plan(&(struct cs_test_spec){.llm_pp = 2});
    struct cs_test_planned other =
        cs_test_plan(&(struct cs_test_spec){.llm_pp = 2, .llm_layers = 4});
    struct cs_plan *read = NULL;
    json_t *json = cs_plan_json(m.plan, m.graph);
    assert_int_equal(cs_plan_read(json, other.graph, m.arena, &read, &m.err), CS_CORRUPT);
    assert_int_equal(cs_plan_read(json_null(), m.graph, m.arena, &read, &m.err), CS_CORRUPT);
    json_decref(json);
    cs_test_planned_free(&m);
    cs_test_planned_free(&other);
}

static void clusters_are_read_or_refused(void **state)
{
    (void)state;
    struct cs_cluster c;
    struct cs_err err;
    json_t *here = json_string("here"),
           *box = json_pack("{s:i, s:s}", "nodes", 2, "device", "h100-80g");
    json_t *bad[] = {json_string("there"),
                     json_pack("{s:s}", "device", "k80"),
                     json_pack("{s:i}", "nodes", 0),
                     json_pack("{s:i}", "node", 1),
                     json_true(),
                     json_pack("{s:f}", "nodes", 1.5),
                     json_pack("{s:i}", "device", 5)};
    assert_int_equal(cs_cluster_read(here, 3, &c, &err), CS_OK);
    assert_int_equal(c.devices_per_node, 3);
    assert_string_equal(c.device->name, "cpu");
    assert_int_equal(cs_cluster_read(here, 0, &c, &err), CS_OK);
    assert_int_equal(c.devices_per_node, 8);
    assert_int_equal(cs_cluster_read(box, 3, &c, &err), CS_OK);
    assert_int_equal(c.n_nodes, 2);
    assert_int_equal(c.devices_per_node, 8);
    assert_string_equal(c.device->name, "h100-80g");
    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++) {
        assert_int_equal(cs_cluster_read(bad[i], 0, &c, &err), CS_INVALID);
        json_decref(bad[i]);
    }
    json_decref(here);
    json_decref(box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoding_round_trips_and_the_hash_is_stable),
        cmocka_unit_test(edges_that_are_read_are_those_that_were_planned),
        cmocka_unit_test(flows_of_edges_are_read_as_they_were_planned),
        cmocka_unit_test(other_plans_have_other_hashes),
        cmocka_unit_test(damaged_plans_are_refused),
        cmocka_unit_test(slots_that_replicas_cannot_share_are_refused),
        cmocka_unit_test(plan_for_another_model_is_refused),
        cmocka_unit_test(clusters_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
