/* From a model to the numbers of a search: sharding, recompute, profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/place.h"
#include "core/search/search.h"
#include "tests/support/spec.h"

struct fixture {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_cluster cluster;
};

static struct fixture open_model(const char *rules, bool is_tied)
{
    struct fixture f = {.arena = cs_arena_new(0)};
    struct cs_err err;
    f.root = cs_test_spec_json(&(struct cs_test_spec){.rules = rules, .is_tied = is_tied});
    if (cs_spec_read(f.root, f.arena, &f.spec, &err) != CS_OK ||
        cs_graph_build(f.spec, true, f.arena, &f.graph, &err) != CS_OK)
        fail_msg("%s", err.text);
    f.cluster = (struct cs_cluster){cs_device_class_find("h100-80g"), 2, 8};
    return f;
}

static void close_model(struct fixture *f)
{
    json_decref(f->root);
    cs_arena_free(f->arena);
}

static struct cs_search_problem *problem_of(struct fixture *f, const struct cs_profile *profile)
{
    struct cs_search_problem *problem = NULL;
    struct cs_err err;
    if (cs_search_problem_make(f->spec, f->graph, &f->cluster, profile, false, f->arena, &problem,
                               &err) != CS_OK)
        fail_msg("%s", err.text);
    return problem;
}

static const struct cs_search_option *option(const struct cs_search_problem *problem, int b,
                                             int32_t tp, int32_t cp, enum cs_recompute r)
{
    for (int i = 0; i < problem->branch[b].n_options; i++) {
        const struct cs_search_option *o = &problem->branch[b].option[i];
        if (o->tp == tp && o->cp == cp && o->recompute == r)
            return o;
    }
    return NULL;
}

/* without tp and cp, costs and bytes are those of the plan */
static void one_rank_is_what_the_plan_says(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        struct fixture f = open_model("train:*", tied);
        struct cs_search_problem *problem = problem_of(&f, NULL);
        struct cs_slot_budget budget;
        struct cs_err err;
        struct cs_layer_cost *cost = CS_NEW_ARRAY(f.arena, struct cs_layer_cost, f.graph->n_layers);
        assert_int_equal(cs_plan_budget(f.spec, f.graph, &budget, &err), CS_OK);
        cs_layer_costs(f.graph, &budget, f.cluster.device, cost);
        for (int32_t b = 0; b < f.graph->n_branches; b++) {
            const struct cs_search_option *o = option(problem, b, 1, 1, CS_RECOMPUTE_NONE);
            assert_non_null(o);
            for (int32_t i = 0; i < problem->branch[b].n_layers; i++) {
                const struct cs_layer *layer =
                    &f.graph->layers[f.graph->branches[b].first_layer + i];
                struct cs_layer_bytes bytes =
                    cs_layer_bytes(f.graph, layer, &budget, f.cluster.device);
                assert_int_equal(o->layer[i].fwd_ns, cost[layer->id].fwd_ns);
                assert_int_equal(o->layer[i].bwd_input_ns, cost[layer->id].bwd_input_ns);
                assert_int_equal(o->layer[i].weight_bytes, bytes.weight);
                assert_int_equal(o->layer[i].grad_bytes + o->layer[i].optim_bytes, bytes.state);
                assert_int_equal(o->layer[i].saved_bytes, bytes.saved);
                assert_int_equal(o->layer[i].blind_ns, 3 * cost[layer->id].fwd_ns);
            }
        }
        close_model(&f);
    }
}

/* width 48, 4 heads of 12, 2 kv heads, ffn 80: a block has 2 * 48 norm elements that stay whole */
static void tp_cuts_matrices_and_leaves_norms(void **state)
{
    struct fixture f = open_model("train:*", false);
    struct cs_search_problem *problem = problem_of(&f, NULL);
    const struct cs_search_option *one = option(problem, 1, 1, 1, CS_RECOMPUTE_NONE);
    const struct cs_search_option *two = option(problem, 1, 2, 1, CS_RECOMPUTE_NONE);
    (void)state;
    assert_non_null(two);
    assert_null(option(problem, 1, 4, 1, CS_RECOMPUTE_NONE)); /* 2 kv heads */
    int64_t norms = 2 * 48 * 2;
    assert_int_equal(two->layer[1].weight_bytes, (one->layer[1].weight_bytes - norms) / 2 + norms);
    assert_true(two->layer[1].saved_bytes < one->layer[1].saved_bytes);
    assert_true(two->layer[1].saved_bytes > one->layer[1].saved_bytes / 2);
    /* cp halves the rows, and what is saved of them */
    const struct cs_search_option *cp = option(problem, 1, 1, 2, CS_RECOMPUTE_NONE);
    assert_int_equal(cp->layer[1].saved_bytes, one->layer[1].saved_bytes / 2);
    assert_int_equal(cp->layer[1].weight_bytes, one->layer[1].weight_bytes);
    close_model(&f);
}

static void recompute_saves_bytes_and_costs_time(void **state)
{
    struct fixture f = open_model("train:*", false);
    struct cs_search_problem *problem = problem_of(&f, NULL);
    const struct cs_search_layer *none = option(problem, 1, 1, 1, CS_RECOMPUTE_NONE)->layer;
    const struct cs_search_layer *some = option(problem, 1, 1, 1, CS_RECOMPUTE_SELECTIVE)->layer;
    const struct cs_search_layer *full = option(problem, 1, 1, 1, CS_RECOMPUTE_FULL)->layer;
    (void)state;
    assert_true(full[1].saved_bytes < some[1].saved_bytes);
    assert_true(some[1].saved_bytes < none[1].saved_bytes);
    assert_int_equal(full[1].saved_bytes, 128 * 48 * 2); /* rows * width in bf16: its input */
    assert_int_equal(none[1].redo_ns, 0);
    assert_true(some[1].redo_ns > 0);
    assert_int_equal(full[1].redo_ns, full[1].fwd_ns);
    assert_int_equal(full[1].blind_ns, 4 * full[1].fwd_ns);
    close_model(&f);
}

static void frozen_layers_have_no_backward_and_keep_nothing(void **state)
{
    struct fixture f = open_model("train:vision.projector", false);
    struct cs_search_problem *problem = problem_of(&f, NULL);
    const struct cs_search_branch *vision = &problem->branch[0], *llm = &problem->branch[1];
    (void)state;
    for (int32_t i = 0; i < vision->n_layers - 1; i++) {
        assert_int_equal(vision->option[0].layer[i].bwd_input_ns, 0);
        assert_int_equal(vision->option[0].layer[i].saved_bytes, 0);
        assert_int_equal(vision->option[0].layer[i].optim_bytes, 0);
        assert_true(vision->option[0].layer[i].blind_ns > 0);
    }
    assert_true(vision->option[0].layer[vision->n_layers - 1].bwd_weight_ns > 0);
    for (int32_t i = 1; i < llm->n_layers; i++) {
        assert_true(llm->option[0].layer[i].bwd_input_ns > 0);
        assert_int_equal(llm->option[0].layer[i].bwd_weight_ns, 0);
    }
    close_model(&f);
}

static struct cs_profile *profile_for(struct fixture *f)
{
    struct cs_profile *profile = CS_NEW(f->arena, struct cs_profile);
    profile->device = "h100-80g";
    profile->n_rows = 1;
    profile->row = CS_NEW(f->arena, struct cs_profile_row);
    profile->row[0] = (struct cs_profile_row){
        .module = "llm",
        .kind = CS_LAYER_BLOCK,
        .tp = 1,
        .cp = 1,
        .fwd = {0.5,  2, 7  },
        .bwd_input = {0.25, 1, 0  },
        .bwd_weight = {0,    3, 0.4}
    };
    cs_profile_key(f->graph, f->cluster.device, profile->key);
    return profile;
}

static void a_profile_is_read_as_it_was_written_and_used(void **state)
{
    struct fixture f = open_model("train:*", false);
    struct cs_profile *profile = profile_for(&f), *read = NULL;
    struct cs_err err;
    (void)state;
    json_t *json = cs_profile_json(profile);
    assert_int_equal(cs_profile_read(json, f.arena, &read, &err), CS_OK);
    json_t *again = cs_profile_json(read);
    assert_true(json_equal(json, again));
    const struct cs_search_layer *block =
        &option(problem_of(&f, read), 1, 1, 1, CS_RECOMPUTE_NONE)->layer[1];
    assert_int_equal(block->fwd_ns, 128 * 128 / 2 + 2 * 128 + 7);
    assert_int_equal(block->bwd_input_ns, 128 * 128 / 4 + 128);
    assert_int_equal(block->bwd_weight_ns, 3 * 128);
    /* what was not measured is a share of what was, not of the roofline */
    const struct cs_search_layer *half =
        &option(problem_of(&f, read), 1, 1, 2, CS_RECOMPUTE_NONE)->layer[1];
    assert_int_equal(half->bwd_weight_ns, block->bwd_weight_ns / 2);
    assert_true(half->fwd_ns >= block->fwd_ns / 2);
    json_decref(json);
    json_decref(again);
    close_model(&f);
}

static void a_profile_of_something_else_is_refused(void **state)
{
    struct fixture f = open_model("train:*", false);
    struct cs_profile *profile = profile_for(&f);
    struct cs_search_problem *problem = NULL;
    struct cs_err err;
    (void)state;
    f.cluster.device = cs_device_class_find("a100-80g");
    assert_int_equal(cs_search_problem_make(f.spec, f.graph, &f.cluster, profile, false, f.arena,
                                            &problem, &err),
                     CS_PLAN);
    assert_non_null(strstr(err.text, "measure again"));
    json_t *junk[] = {
        json_pack("{s:s}", "schema", "cornstarch.job/1"),
        json_pack("{s:s s:s s:s s:[]}", "schema", "cornstarch.profile/1", "key", "short", "device",
                  "x", "layers"),
        json_pack("{s:s s:s s:s s:[{s:s s:s}]}", "schema", "cornstarch.profile/1", "key",
                  profile->key, "device", "x", "layers", "module", "llm", "kind", "blocks"),
        json_pack("{s:s s:s s:s s:[{s:s s:s s:i s:i s:[i, i]}]}", "schema", "cornstarch.profile/1",
                  "key", profile->key, "device", "x", "layers", "module", "llm", "kind", "block",
                  "tp", 1, "cp", 1, "fwd", 1, 2),
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(junk); i++) {
        struct cs_profile *read = NULL;
        assert_non_null(junk[i]);
        assert_int_equal(cs_profile_read(junk[i], f.arena, &read, &err), CS_INVALID);
        json_decref(junk[i]);
    }
    close_model(&f);
}

static void layouts_that_do_not_divide_are_refused(void **state)
{
    struct fixture f = open_model("train:*", false);
    struct cs_err err;
    struct cs_layout layout = {
        .branch = {{"vision", 1, 1, 1, CS_RECOMPUTE_NONE}, {"llm", 4, 1, 1, CS_RECOMPUTE_NONE}},
        .n_branches = 2,
        .dp = 1
    };
    (void)state;
    assert_int_equal(cs_layout_check(&layout, f.graph, &f.cluster, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "key-value heads of llm, 2"));
    layout.branch[1].tp = 2;
    assert_int_equal(cs_layout_check(&layout, f.graph, &f.cluster, &err), CS_OK);
    layout.branch[1].pp = 99;
    assert_int_equal(cs_layout_check(&layout, f.graph, &f.cluster, &err), CS_PLAN);
    layout.branch[1].pp = 1;
    layout.dp = 6;
    assert_int_equal(cs_layout_check(&layout, f.graph, &f.cluster, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "18 ranks"));
    close_model(&f);
}

static void every_plan_of_a_search_passes_the_checks(void **state)
{
    struct fixture f = open_model("train:*", false);
    struct cs_search_options options = {.batch_slots = 16, .top = 100};
    struct cs_search_result result;
    struct cs_err err;
    (void)state;
    if (cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_true(result.n_plans > 10);
    for (int32_t i = 0; i < result.n_plans; i++) {
        const struct cs_search_plan *p = &result.plan[i];
        if (p->modality != CS_SEARCH_PARALLEL)
            continue;
        assert_int_equal(cs_layout_check(&p->layout, f.graph, &f.cluster, &err), CS_OK);
        assert_int_equal(cs_layout_ranks(&p->layout), p->n_ranks);
        assert_int_equal(p->step_ns, p->pipeline_ns + p->sync_ns + p->optim_ns);
    }
    close_model(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_is_what_the_plan_says),
        cmocka_unit_test(tp_cuts_matrices_and_leaves_norms),
        cmocka_unit_test(recompute_saves_bytes_and_costs_time),
        cmocka_unit_test(frozen_layers_have_no_backward_and_keep_nothing),
        cmocka_unit_test(a_profile_is_read_as_it_was_written_and_used),
        cmocka_unit_test(a_profile_of_something_else_is_refused),
        cmocka_unit_test(layouts_that_do_not_divide_are_refused),
        cmocka_unit_test(every_plan_of_a_search_passes_the_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
