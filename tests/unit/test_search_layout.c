/* Layouts whose branches differ in dp, placement, chunks and experts: checks, meshes, groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/layout.h"
#include "core/search/search.h"
#include "support/need.h"
#include "tests/support/spec.h"

struct fixture {
    struct cs_arena *arena;
    json_t *root;
    struct cs_graph *graph;
    struct cs_cluster cluster;
};

static struct fixture open_model(void)
{
    struct fixture f = {.arena = cs_arena_new(0)};
    struct cs_spec *spec = NULL;
    struct cs_err err;
    f.root = cs_test_spec_json(&(struct cs_test_spec){.rules = "train:*"});
    if (cs_spec_read(f.root, f.arena, &spec, &err) != CS_OK ||
        cs_graph_build(spec, true, f.arena, &f.graph, &err) != CS_OK)
        fail_msg("%s", err.text);
    f.cluster = (struct cs_cluster){cs_device_class_find("h100-80g"), 2, 8};
    return f;
}

static void close_model(struct fixture *f)
{
    json_decref(f->root);
    cs_arena_free(f->arena);
}

/* an encoder with four replicas of one rank, an LLM of two replicas of two stages with tp 2 */
static struct cs_layout uneven(void)
{
    return (struct cs_layout){
        .branch = {{.name = "vision", .tp = 1, .cp = 1, .pp = 1, .dp = 4},
                   {.name = "llm", .tp = 2, .cp = 1, .pp = 2}},
        .n_branches = 2,
        .llm = 1,
        .dp = 2,
        .zero = 1
    };
}

static void refused(struct fixture *f, const struct cs_layout *layout, const char *words)
{
    struct cs_err err = {.text = ""};
    assert_int_equal(cs_layout_check(layout, f->graph, &f->cluster, &err), CS_PLAN);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, err.text);
}

static void branches_may_differ_in_dp(void **state)
{
    struct fixture f = open_model();
    struct cs_layout layout = uneven();
    struct cs_err err = {.text = ""};
    (void)state;
    if (cs_layout_check(&layout, f.graph, &f.cluster, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(cs_layout_ranks(&layout), 4 + 2 * 2 * 2);
    assert_int_equal(cs_layout_dp(&layout, 0), 4);
    assert_int_equal(cs_layout_dp(&layout, 1), 2);
    layout.branch[0].dp = 1; /* one encoder for two LLM replicas, which then straddle nodes */
    refused(&f, &layout, "a tp * cp group would reach over nodes of 8 devices");
    layout.may_leave_node = true;
    assert_int_equal(cs_layout_check(&layout, f.graph, &f.cluster, &err), CS_OK);
    layout.branch[0].dp = 3; /* neither divides the other */
    assert_int_equal(cs_layout_check(&layout, f.graph, &f.cluster, &err), CS_OK);
    close_model(&f);
}

/* Of seven ranks two that encode and five that read leave none idle; what divides evenly takes a tenth longer. */
static void replicas_that_do_not_divide_use_all_of_few_ranks(void **state)
{
    const struct cs_test_spec made = {.n_encoders = 1,
                                      .vision_layers = 24,
                                      .llm_layers = 12,
                                      .llm_width = 1024,
                                      .seq_tokens = 2048,
                                      .slots = 60};
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root = cs_test_spec_json(&made);
    const struct cs_cluster cluster = {cs_device_class_find("h200-141g"), 1, 7};
    struct cs_search_options options = {.skip_planners = true, .only_runs = true};
    struct cs_search_result found, even;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_err err = {0};
    (void)state;
    need(cs_spec_read(root, arena, &spec, &err), &err);
    need(cs_graph_build(spec, true, arena, &graph, &err), &err);
    need(cs_search(spec, graph, &cluster, NULL, &options, arena, &found, &err), &err);
    const struct cs_layout *layout = &found.plan[0].layout;
    assert_int_equal(cs_layout_dp(layout, 0), 2);
    assert_int_equal(layout->dp, 5);
    assert_int_equal(found.plan[0].n_ranks, 7);
    options.has_one_dp = true;
    options.only_runs = false; /* which says itself whether they have one */
    need(cs_search(spec, graph, &cluster, NULL, &options, arena, &even, &err), &err);
    assert_true(found.plan[0].job.step_ns + found.plan[0].job.step_ns / 10 <
                even.plan[0].job.step_ns);
    json_decref(root);
    cs_arena_free(arena);
}

static void impossible_layouts_are_refused_in_words(void **state)
{
    struct fixture f = open_model();
    struct cs_layout layout = uneven();
    (void)state;
    layout.branch[1].ep = 4;
    refused(&f, &layout, "has no layers with experts; leave ep away");
    layout = uneven();
    layout.branch[1].vpp = 64;
    refused(&f, &layout, "2 stages of 64 chunks are more than its");
    layout = uneven();
    layout.branch[1].place = CS_PLACE_COLOCATED;
    refused(&f, &layout, "the LLM has ranks of its own");
    layout = uneven();
    layout.branch[0].place = CS_PLACE_REPLICATED;
    refused(&f, &layout, "a replicated encoder has tp 2 and cp 1 of the LLM");
    layout.branch[0].place = CS_PLACE_COLOCATED;
    layout.branch[0].pp = 2;
    refused(&f, &layout, "colocated encoders stay whole");
    layout = uneven();
    layout.branch[0].dp = 16;
    refused(&f, &layout, "the layout needs 24 ranks");
    close_model(&f);
}

static void colocated_encoders_take_no_ranks(void **state)
{
    struct fixture f = open_model();
    struct cs_layout layout = uneven();
    struct cs_err err = {.text = ""};
    (void)state;
    layout.branch[0].place = CS_PLACE_COLOCATED;
    layout.branch[0].dp = 8; /* 2 replicas x 2 stages x 2 ranks of tp 1 */
    if (cs_layout_check(&layout, f.graph, &f.cluster, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(cs_layout_ranks(&layout), 8);
    layout.branch[0].shard = 1 + 3;
    assert_int_equal(cs_layout_zero(&layout, 0), 3);
    assert_int_equal(cs_layout_zero(&layout, 1), 1);
    close_model(&f);
}

static void meshes_hold_branches_of_unequal_dp(void **state)
{
    /* (stage, dp 4, cp 1, tp 2): ranks of tp 1 and of dp 2 stand in several cells */
    static const int32_t golden[] = {0, 0, 1, 1, 2, 2, 3, 3, 4,  5,  4,  5,
                                     6, 7, 6, 7, 8, 9, 8, 9, 10, 11, 10, 11};
    struct cs_layout layout = uneven();
    struct cs_mesh *mesh = NULL;
    struct cs_group *group = NULL;
    struct cs_err err = {.text = ""};
    struct cs_arena *arena = cs_arena_new(0);
    int32_t n_dp = 0;
    (void)state;
    if (cs_mesh_make(&layout, 12, arena, &mesh, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(mesh->dp, 4);
    assert_int_equal(mesh->n_stages * mesh->dp * mesh->cp * mesh->tp, 24);
    for (int32_t i = 0; i < 24; i++)
        assert_int_equal(mesh->rank[i], golden[i]);
    int32_t n = cs_mesh_groups(mesh, arena, &group);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 1; k < group[i].n; k++)
            assert_true(group[i].rank[k] > group[i].rank[k - 1]);
        n_dp += group[i].kind == CS_GROUP_DP;
    }
    assert_int_equal(n_dp, 1 + 2 * 2); /* of the encoder; of two stages and two tp ranks */
    assert_int_equal(cs_mesh_make(&layout, 13, arena, &mesh, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "the branches take 12 ranks"));
    layout.branch[0].dp = 3;
    assert_int_equal(cs_mesh_make(&layout, 11, arena, &mesh, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "must divide the largest one, 3"));
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_may_differ_in_dp),
        cmocka_unit_test(replicas_that_do_not_divide_use_all_of_few_ranks),
        cmocka_unit_test(impossible_layouts_are_refused_in_words),
        cmocka_unit_test(colocated_encoders_take_no_ranks),
        cmocka_unit_test(meshes_hold_branches_of_unequal_dp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
