/* From a model to the numbers of a search: sharding, recompute, profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/system/stop.h"
#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/operators.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/stage/stages.h"
#include "core/plan/make/planner.h"
#include "core/plan/make/split.h"
#include "core/search/search.h"
#include "tests/support/spec.h"

struct fixture {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_cluster cluster;
};

static struct fixture open_spec(const struct cs_test_spec *options)
{
    struct fixture f = {.arena = cs_arena_new(0)};
    struct cs_err err;
    f.root = cs_test_spec_json(options);
    if (cs_spec_read(f.root, f.arena, &f.spec, &err) != CS_OK ||
        cs_graph_build(f.spec, true, f.arena, &f.graph, &err) != CS_OK)
        fail_msg("%s", err.text);
    f.cluster = (struct cs_cluster){cs_device_class_find("h100-80g"), 2, 8};
    return f;
}

static struct fixture open_model(const char *rules, bool is_tied)
{
    return open_spec(&(struct cs_test_spec){.rules = rules, .is_tied = is_tied});
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
    if (cs_search_problem_make(f->spec, f->graph, &f->cluster, profile, NULL, f->arena, &problem,
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
    /* cp shares out the rows, and what is saved of them: as many as a rank may have */
    const struct cs_search_option *cp = option(problem, 1, 1, 2, CS_RECOMPUTE_NONE);
    assert_int_equal(cp->layer[1].saved_bytes,
                     one->layer[1].saved_bytes / 128 * cs_context_most(128, 2));
    assert_int_equal(cp->layer[1].weight_bytes, one->layer[1].weight_bytes);
    close_model(&f);
}

/* forward of a block of the LLM on the slower of two ranks, without its exchange: rows and pairs of the
 * causal slot as a rule deals them out */
static int64_t slower_ns(const struct fixture *f, const struct cs_slot_budget *budget, double rows,
                         double pairs)
{
    struct cs_layer_cost *cost = CS_NEW_ARRAY(f->arena, struct cs_layer_cost, f->graph->n_layers);
    const struct cs_layer *block = &f->graph->layers[f->graph->branches[1].first_layer + 1];
    const double all = (double)cs_layer_fwd_flops(f->graph, block, 128, 128 * 129 / 2, 0),
                 linear = (double)cs_layer_fwd_flops(f->graph, block, 128, 0, 0);
    cs_layer_costs(f->graph, budget, f->cluster.device, cost);
    return (int64_t)((double)cost[block->id].fwd_ns *
                     (linear / all * rows / 128 + (all - linear) / all * pairs / (64 * 129)));
}

/* A layer takes what it takes on the rank with most work: uniform halves of a causal slot, 64 rows each,
 * have 2080 and 6176 pairs, and the second one needs the keys of the first. A host moves them itself, and computes then. */
static void a_context_takes_what_its_slowest_rank_takes(void **state)
{
    struct fixture f = open_model("train:*", false);
    struct cs_slot_budget budget;
    struct cs_err err;
    (void)state;
    f.cluster = (struct cs_cluster){cs_device_class_find("cpu"), 1, 8};
    f.spec->context = "uniform";
    assert_int_equal(cs_plan_budget(f.spec, f.graph, &budget, &err), CS_OK);
    const int64_t ns = slower_ns(&f, &budget, 64, 6176);
    const int64_t bytes = 64 * 2 * 24 * 4;  /* keys and values: two heads of 12, fp32 */
    const int64_t move = 20000 + bytes / 2; /* 2e9 bytes a second */
    struct cs_search_problem *uniform = problem_of(&f, NULL);
    const struct cs_search_layer *block = &option(uniform, 1, 1, 2, CS_RECOMPUTE_NONE)->layer[1];
    assert_in_range(block->fwd_ns, ns + move - 2, ns + move + 2);
    f.spec->context = "lpt";
    struct cs_search_problem *lpt = problem_of(&f, NULL);
    block = &option(lpt, 1, 1, 2, CS_RECOMPUTE_NONE)->layer[1];
    assert_in_range(block->fwd_ns, slower_ns(&f, &budget, 64, 4128) + 20000, ns + move);
    struct cs_context_work work; /* even, for the price of keys that go both ways */
    assert_int_equal(cs_context_work_make(f.graph, &budget, "lpt", false, 2, f.arena, &work, &err),
                     CS_OK);
    assert_true(work.slack >= 1 && work.slack < 1.01);
    assert_int_equal(work.rows[0] + work.rows[1], 128);
    assert_in_range(work.most_moved, 64 - 16, 64 + 16);
    assert_int_equal(cs_context_work_make(f.graph, &budget, "lpd", false, 2, f.arena, &work, &err),
                     CS_INVALID);
    assert_non_null(strstr(err.text, "lpd"));
    close_model(&f);
}

/* Long sequences, few of them: only ranks that share one are all busy. What jobs do not run is told by
 * name, the rest is planned as the search has it. */
static void long_sequences_are_shared_and_found_plans_run(void **state)
{
    struct fixture f = open_model("train:*", false);
    struct cs_search_options options = {.batch_slots = 1, .top = 40, .skip_planners = true};
    struct cs_search_result result;
    struct cs_err err;
    int n_uneven = 0;
    (void)state;
    f.cluster = (struct cs_cluster){cs_device_class_find("cpu"), 1, 8};
    f.spec->seq_tokens = 16384;
    if (cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    const struct cs_branch_layout *first = &result.plan[0].layout.branch[1];
    assert_true(first->cp > 1 && result.plan[0].layout.dp == 1);
    options.fix[1].tp = 2;
    if (cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    for (int32_t i = 0; i < result.n_plans; i++) {
        const struct cs_search_plan *plan = &result.plan[i];
        assert_true(plan->runs == (plan->why_not_run == NULL || plan->why_not_run[0] == '\0'));
        n_uneven += plan->runs && plan->layout.branch[0].place == CS_PLACE_OWN &&
                    cs_layout_dp(&plan->layout, 0) != plan->layout.dp;
    }
    assert_true(n_uneven > 0); /* encoders with replicas of their own number */
    options.only_runs = true;
    if (cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    for (int32_t i = 0; i < result.n_plans; i++)
        assert_true(result.plan[i].runs && result.plan[i].layout.branch[1].tp == 2);
    options.fix[1].tp = 0;
    if (cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    for (int32_t i = 0; i < result.n_plans; i++)
        if (!result.plan[i].runs)
            fail_msg("plan %d: %s", i, result.plan[i].why_not_run);
    assert_true(result.plan[0].layout.branch[1].cp > 1);
    options.fix[0].cp = 2;
    if (cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_true(result.n_plans > 0 && result.plan[0].layout.branch[0].cp == 2);
    f.cluster.device = cs_device_class_find("h100-80g");
    if (cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_true(result.n_plans > 0 && result.plan[0].layout.branch[0].cp == 2);
    close_model(&f);
}

/* What moves between ranks is chosen for each of their numbers; the other way is known too, for slots that few of more
 * ranks have; and how many can share heads. */
static void options_know_both_exchanges(void **state)
{
    static const char *const exchanges[] = {"auto", "keys", "heads"};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(exchanges); i++) {
        struct fixture f = open_spec(&(struct cs_test_spec){
            .n_encoders = -1,
            .llm_width = 2048,
            .seq_tokens = 16384,
            .llm_keys =
                "{\"num_attention_heads\": 24, \"num_key_value_heads\": 24, \"head_dim\": 128}",
            .exchange = exchanges[i]});
        const struct cs_search_option *two = option(problem_of(&f, NULL), 0, 1, 2, 0),
                                      *four = option(problem_of(&f, NULL), 0, 1, 4, 0);
        assert_int_equal(four->moves_heads, i != 1);
        assert_int_equal(four->can, i != 1 ? 0xf : 0); /* one, two, three, four */
        assert_true((two->other != NULL) == (i == 0));
        assert_true((four->other != NULL) == (i == 0));
        if (i == 0) /* of a block keys are the slower ones */
            assert_true(four->other[1].fwd_ns > four->layer[1].fwd_ns);
        close_model(&f);
    }
}

/* Options with and without spread experts: the last of two ranks has 3 of 5 in every block that has some, and of the
 * optimizer's state that of 6 to share, as in plans; a step waits for their rows. Found plans have an ep that
 * divides dp * cp, and jobs run them on CPU ranks. */
static void experts_are_spread_and_found_plans_run(void **state)
{
    struct fixture f = open_spec(&(struct cs_test_spec){.has_experts = true, .n_encoders = -1});
    struct cs_search_options options = {.batch_slots = 8, .top = 40, .skip_planners = true};
    struct cs_search_result result;
    struct cs_err err;
    int n_spread = 0;
    (void)state;
    f.cluster = (struct cs_cluster){cs_device_class_find("cpu"), 1, 8};
    const struct cs_search_branch *branch = &problem_of(&f, NULL)->branch[0];
    for (int i = 1; i < branch->n_options; i++) {
        const struct cs_search_option *one = &branch->option[i - 1], *two = &branch->option[i];
        if (one->ep != 1 || two->ep != 2)
            continue;
        assert_true(one->tp == two->tp && one->cp == two->cp && one->recompute == two->recompute);
        for (int32_t l = 1; l < 4; l += 2) { /* behind the embedding, its second block has none */
            const int64_t left = one->layer[l].weight_bytes - two->layer[l].weight_bytes;
            assert_int_equal(left, 2 * 3 * 24 * 48 * 4 / one->tp);
            assert_int_equal(one->layer[l].grad_bytes - two->layer[l].grad_bytes, left);
            assert_int_equal(two->layer[l].optim_bytes - one->layer[l].optim_bytes, left);
            assert_true(two->layer[l].fwd_ns > one->layer[l].fwd_ns);
            assert_true(two->layer[l].bwd_input_ns > one->layer[l].bwd_input_ns);
        }
        assert_int_equal(one->layer[2].weight_bytes, two->layer[2].weight_bytes);
        n_spread++;
    }
    assert_true(n_spread > 3);
    for (options.fix[0].ep = 2; options.fix[0].ep <= 4; options.fix[0].ep *= 2) {
        if (cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err) != CS_OK)
            fail_msg("%s", err.text);
        assert_true(result.n_plans > 0);
        for (int32_t i = 0; i < result.n_plans; i++) {
            const struct cs_layout *layout = &result.plan[i].layout;
            assert_int_equal(layout->branch[0].ep, options.fix[0].ep);
            assert_int_equal(layout->dp * layout->branch[0].cp % options.fix[0].ep, 0);
            if (!result.plan[i].runs)
                fail_msg("plan %d: %s", i, result.plan[i].why_not_run);
        }
    }
    options.fix[0].ep = 8;
    assert_int_equal(cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err),
                     CS_PLAN);
    assert_non_null(strstr(err.text, "ep = 8: its experts are spread over at most 5 ranks here"));
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
    profile->precision = "";
    profile->n_rows = 1;
    profile->row = CS_NEW(f->arena, struct cs_profile_row);
    profile->row[0] = (struct cs_profile_row){
        .module = "llm",
        .kind = CS_LAYER_BLOCK,
        .tp = 1,
        .cp = 1,
        .fwd = {0.5,  2, 7  },
        .bwd_input = {0.25, 1, 0  },
        .bwd_weight = {0,    3, 100}
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
    assert_int_equal(block->bwd_weight_ns, 3 * 128 + 100);
    assert_int_equal(block->fwd_fixed_ns, 7);
    assert_int_equal(block->weight_fixed_ns, 100);
    /* what was not measured is a share of what was, not of the roofline; what a short slot takes is nobody's share */
    const struct cs_search_layer *half =
        &option(problem_of(&f, read), 1, 1, 2, CS_RECOMPUTE_NONE)->layer[1];
    assert_int_equal(half->bwd_weight_ns, 3 * 128 / 2 + 100);
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
    assert_int_equal(
        cs_search_problem_make(f.spec, f.graph, &f.cluster, profile, NULL, f.arena, &problem, &err),
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
        json_pack("{s:s s:s s:s s:[{s:s s:s s:i s:i s:b s:[i, i, i]}]}", "schema",
                  "cornstarch.profile/1", "key", profile->key, "device", "x", "layers", "module",
                  "llm", "kind", "block", "tp", 1, "cp", 1, "sp", 1, "fwd", 1, 2, 3),
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(junk); i++) {
        struct cs_profile *read = NULL;
        assert_non_null(junk[i]);
        assert_int_equal(cs_profile_read(junk[i], f.arena, &read, &err), CS_INVALID);
        assert_int_equal(strstr(err.text, "rows are split over tp ranks and tp is 1") != NULL,
                         i == CS_ARRAY_LEN(junk) - 1);
        json_decref(junk[i]);
    }
    close_model(&f);
}

/* --- optimizer.state --- */

/* the plan of a document with a state, on one node of H100s */
static struct fixture open_state(const struct cs_test_spec *options, const char *state)
{
    struct fixture f = {.arena = cs_arena_new(0)};
    struct cs_err err;
    f.root = cs_test_spec_json(options);
    json_object_set_new(json_object_get(f.root, "optimizer"), "state", json_string(state));
    if (cs_spec_read(f.root, f.arena, &f.spec, &err) != CS_OK ||
        cs_graph_build(f.spec, true, f.arena, &f.graph, &err) != CS_OK)
        fail_msg("%s", err.text);
    f.cluster = (struct cs_cluster){cs_device_class_find("h100-80g"), 1, 8};
    return f;
}

/* the layout of the document alone, cut once */
static struct cs_search_options as_given(const struct cs_test_spec *o)
{
    struct cs_search_options options = {.batch_slots = 8,
                                        .modalities = 1u << CS_PLACE_OWN,
                                        .schedules = 1,
                                        .recomputes = 1u << CS_RECOMPUTE_NONE,
                                        .zeros = 1u << 1,
                                        .skip_planners = true,
                                        .explains = true,
                                        .n_refine = -1};
    options.fix[0].pp = 1;
    options.fix[1].pp = o->llm_pp;
    for (int b = 0; b < 2; b++) {
        options.fix[b].tp = options.fix[b].cp = options.fix[b].vpp = 1;
        options.fix[b].dp = o->dp;
    }
    return options;
}

static const struct cs_search_plan *found(struct fixture *f, const struct cs_test_spec *o,
                                          const struct cs_profile *profile,
                                          struct cs_search_result *result)
{
    const struct cs_search_options options = as_given(o);
    struct cs_err err;
    if (cs_search(f->spec, f->graph, &f->cluster, profile, &options, f->arena, result, &err) !=
        CS_OK)
        fail_msg("pp %d dp %d tied %d: %s", o->llm_pp, o->dp, o->is_tied, err.text);
    assert_int_equal(result->n_plans, 1);
    return &result->plan[0];
}

static struct cs_plan *planned(struct fixture *f)
{
    struct cs_plan *plan = NULL;
    struct cs_err err;
    if (cs_plan_make(f->spec, f->graph, &f->cluster, f->arena, &plan, &err) != CS_OK)
        fail_msg("%s", err.text);
    return plan;
}

/* clang-format off */
static const struct cs_test_spec layouts[] = {
    {.llm_pp = 1, .dp = 1},
    {.llm_pp = 1, .dp = 1, .is_tied = true, .rules = "train:llm"},
    {.llm_pp = 2, .dp = 1, .is_tied = true},
    {.llm_pp = 2, .dp = 2},
    {.llm_pp = 3, .dp = 2, .rules = "train:llm"},
    {.llm_pp = 2, .dp = 1, .rules = "train:vision.projector"},
};
/* clang-format on */

static const char *const states[] = {"fp32", "bf16"};

/* weights, gradients and optimizer of every stage are those of the plan with the same state; bf16
 * keeps 6 bytes of a trained parameter where fp32 keeps 16 */
static void a_layout_has_the_memory_of_its_plan(void **state)
{
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(layouts); i++) {
        int64_t held[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            struct fixture f = open_state(&layouts[i], states[k]);
            struct cs_search_result result;
            const struct cs_search_plan *p = found(&f, &layouts[i], NULL, &result);
            const struct cs_plan *plan = planned(&f);
            assert_int_equal(p->n_stages, plan->n_stages);
            for (int32_t s = 0; s < plan->n_stages; s++) {
                const struct cs_memory *m = &p->stage[s].memory;
                assert_int_equal(p->stage[s].n_layers, plan->stages[s].n_layers);
                assert_int_equal(m->weights, plan->stages[s].weight_bytes);
                assert_int_equal(m->grads + m->optimizer, plan->stages[s].state_bytes);
                held[k] += m->grads + m->optimizer;
            }
            close_model(&f);
        }
        assert_true(held[1] > 0 && held[1] < held[0]);
        if (layouts[i].dp == 1 && !layouts[i].is_tied)
            assert_int_equal(held[1] * 16, held[0] * 6);
    }
}

/* a profile with times of a step with either state; of layers there are none */
static struct cs_profile *step_profile(struct fixture *f)
{
    struct cs_profile *profile = CS_NEW(f->arena, struct cs_profile);
    *profile = (struct cs_profile){
        .device = "h100-80g",
        .precision = "bf16",
        .has_step = true,
        .has_step_bf16 = true,
        .step = {{0, 1, 10},  {0, 2, 20}, {0, 4, 40}},
        .step_bf16 = {{0, 0.5, 5}, {0, 1, 10}, {0, 3, 30}},
    };
    cs_profile_key(f->graph, f->cluster.device, profile->key);
    return profile;
}

/* the slowest stage: what moves and a few operators, or what was measured with that state */
static void the_optimizer_takes_the_time_of_its_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(layouts); i++) {
        int64_t ns[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            struct fixture f = open_state(&layouts[i], states[k]);
            struct cs_search_result result;
            const struct cs_profile *profile = step_profile(&f);
            struct cs_plan *plan = planned(&f);
            int64_t moved = 0, measured = 0;
            for (int32_t s = 0; s < plan->n_stages; s++)
                moved = plan->stages[s].state_bytes > moved ? plan->stages[s].state_bytes : moved;
            cs_stage_step_costs(f.graph, &f.cluster, profile, plan);
            for (int32_t s = 0; s < plan->n_stages; s++) {
                const struct cs_stage *st = &plan->stages[s];
                const int64_t own = st->clear_ns + (st->norm_ns + st->update_ns) / layouts[i].dp;
                measured = own > measured ? own : measured;
            }
            const struct cs_search_plan *p = found(&f, &layouts[i], NULL, &result);
            const int64_t roofline =
                CS_STEP_OPERATORS * f.cluster.device->operator_ns +
                (int64_t)(1e9 * 2 * (double)moved / (double)f.cluster.device->bytes_per_s);
            assert_int_equal(p->optim_ns, roofline);
            assert_int_equal(result.optimizer.source, CS_STEP_BYTES);
            p = found(&f, &layouts[i], profile, &result);
            assert_in_range(p->optim_ns, measured - 1, measured); /* rounded up there */
            assert_int_equal(result.optimizer.source, CS_STEP_MEASURED);
            assert_int_equal(p->step_ns, p->pipeline_ns + p->sync_ns + p->optim_ns);
            ns[k] = p->optim_ns;
            close_model(&f);
        }
        assert_true(ns[1] > 0 && ns[1] < ns[0]);
    }
}

/* a device with room for state in bf16 alone */
static void more_layouts_fit_with_state_in_bf16(void **state)
{
    const struct cs_test_spec options = {.llm_pp = 1, .dp = 1};
    int64_t peak[2];
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct fixture f = open_state(&options, states[k]);
        struct cs_search_result result;
        peak[k] = found(&f, &options, NULL, &result)->peak_bytes;
        close_model(&f);
    }
    assert_true(peak[1] < peak[0]);
    for (int k = 0; k < 2; k++) {
        struct fixture f = open_state(&options, states[k]);
        struct cs_device_class device = *f.cluster.device;
        struct cs_search_options asked = as_given(&options);
        struct cs_search_result result;
        struct cs_err err;
        device.mem_bytes = (peak[0] + peak[1]) / 2;
        f.cluster.device = &device;
        const enum cs_status status =
            cs_search(f.spec, f.graph, &f.cluster, NULL, &asked, f.arena, &result, &err);
        assert_int_equal(status, k == 0 ? CS_PLAN : CS_OK);
        if (k == 0)
            assert_non_null(strstr(err.text, "does not fit"));
        close_model(&f);
    }
}

/* what a rank of a plan needs is what it must have, a tied table on one rank once */
static void a_layout_fits_in_what_it_needs(void **state)
{
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(layouts); i++)
        for (int k = 0; k < 2; k++) {
            struct fixture f = open_state(&layouts[i], states[k]);
            struct cs_device_class device = *f.cluster.device;
            const struct cs_search_options asked = as_given(&layouts[i]);
            struct cs_search_result result;
            struct cs_err err;
            device.mem_bytes = found(&f, &layouts[i], NULL, &result)->peak_bytes;
            f.cluster.device = &device;
            (void)found(&f, &layouts[i], NULL, &result);
            device.mem_bytes--;
            if (layouts[i].llm_pp == 1) /* there is no other cut */
                assert_int_equal(
                    cs_search(f.spec, f.graph, &f.cluster, NULL, &asked, f.arena, &result, &err),
                    CS_PLAN);
            close_model(&f);
        }
}

static bool explains(const struct cs_search_result *result, const char *what)
{
    for (int32_t i = 0; i < result->explain.n_cut; i++)
        if (strstr(result->explain.cut[i], what) != NULL)
            return true;
    return false;
}

static void a_result_says_which_state_it_assumed(void **state)
{
    static const char *const sentence[] = {"optimizer: state in fp32, 18 bytes",
                                           "optimizer: state in bf16, 8 bytes"};
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct fixture f = open_state(&layouts[0], states[k]);
        struct cs_search_result result;
        struct cs_profile *profile = step_profile(&f);
        (void)found(&f, &layouts[0], NULL, &result);
        assert_true(explains(&result, sentence[k]));
        json_t *json = cs_search_result_json(&result), *o = json_object_get(json, "optimizer");
        json_t *plan = json_array_get(json_object_get(json, "plans"), 0);
        assert_string_equal(json_string_value(json_object_get(o, "state")), states[k]);
        assert_int_equal(json_integer_value(json_object_get(o, "param_bytes")), k == 0 ? 18 : 8);
        assert_string_equal(json_string_value(json_object_get(o, "time")), "bandwidth");
        assert_string_equal(json_string_value(json_object_get(plan, "optimizer_state")), states[k]);
        json_decref(json);
        profile->has_step_bf16 = false; /* an older file */
        (void)found(&f, &layouts[0], profile, &result);
        json = cs_search_result_json(&result);
        o = json_object_get(json, "optimizer");
        assert_string_equal(json_string_value(json_object_get(o, "time")),
                            k == 0 ? "measured" : "scaled from fp32");
        json_decref(json);
        close_model(&f);
    }
}

static void ranks_that_cannot_keep_a_state_are_refused(void **state)
{
    struct fixture f = open_state(&layouts[0], "bf16");
    struct cs_search_options options = as_given(&layouts[0]);
    struct cs_search_result result;
    struct cs_profile *profile = step_profile(&f);
    struct cs_err err;
    (void)state;
    profile->precision = "fp32";
    assert_int_equal(
        cs_search(f.spec, f.graph, &f.cluster, profile, &options, f.arena, &result, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "measured in fp32, the job computes in bf16"));
    f.cluster.device = cs_device_class_find("cpu");
    assert_int_equal(cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err),
                     CS_INVALID);
    assert_non_null(strstr(err.text, "optimizer.state is \"bf16\", but CPU ranks"));
    close_model(&f);
}

static void layouts_that_do_not_divide_are_refused(void **state)
{
    struct fixture f = open_model("train:*", false);
    struct cs_err err;
    struct cs_layout layout = {
        .branch = {{"vision", 1, 1, 1, CS_RECOMPUTE_NONE}, {"llm", 4, 1, 1, CS_RECOMPUTE_NONE}},
        .n_branches = 2,
        .llm = 1,
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
        if (p->modality != CS_PLACE_OWN)
            continue;
        assert_int_equal(cs_layout_check(&p->layout, f.graph, &f.cluster, &err), CS_OK);
        assert_int_equal(cs_layout_ranks(&p->layout), p->n_ranks);
        assert_int_equal(p->step_ns, p->pipeline_ns + p->sync_ns + p->optim_ns);
    }
    close_model(&f);
}

/* Of the plans that are handed back: the search itself has another order. */
static void found_plans_are_ranked_by_what_jobs_make_of_them(void **state)
{
    struct fixture f = open_model("train:*", false);
    const struct cs_search_options options = {.batch_slots = 8, .top = 64, .only_runs = true};
    struct cs_search_result r;
    struct cs_err err = {.text = ""};
    int32_t n_other = 0;
    (void)state;
    f.cluster = (struct cs_cluster){cs_device_class_find("cpu"), 1, 8};
    assert_int_equal(cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &r, &err), 0);
    for (int32_t i = 1; i < r.n_plans; i++) {
        assert_true(r.plan[i - 1].job.step_ns <= r.plan[i].job.step_ns);
        n_other += r.plan[i - 1].step_ns > r.plan[i].step_ns;
    }
    assert_true(n_other > 0);
    close_model(&f);
}

/* Whoever waits may give it up: at once, and anew afterwards. What is told to stop has no result. */
static void a_search_that_is_told_to_stop_ends(void **state)
{
    struct fixture f = open_model("train:*", false);
    struct cs_search_options options = {.batch_slots = 4, .n_simulate = 1000};
    struct cs_search_result result;
    struct cs_err err = {.text = ""};
    atomic_bool stop = true;
    const double cost[] = {1, 2, 3};
    int sizes[2];
    (void)state;
    f.cluster = (struct cs_cluster){cs_device_class_find("cpu"), 1, 8};
    assert_null(cs_stop_set(&stop));
    assert_int_equal(cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err),
                     CS_INTERRUPTED);
    assert_string_equal(err.text, "stopped");
    assert_int_equal(cs_split(cost, 3, 2, sizes, NULL, &err), CS_INTERRUPTED);
    stop = false;
    assert_int_equal(cs_search(f.spec, f.graph, &f.cluster, NULL, &options, f.arena, &result, &err),
                     CS_OK);
    for (int32_t i = 0; i < result.n_plans; i++)
        assert_true(result.plan[i].runs == (result.plan[i].job.step_ns > 0));
    assert_ptr_equal(cs_stop_set(NULL), &stop);
    close_model(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_is_what_the_plan_says),
        cmocka_unit_test(tp_cuts_matrices_and_leaves_norms),
        cmocka_unit_test(a_context_takes_what_its_slowest_rank_takes),
        cmocka_unit_test(long_sequences_are_shared_and_found_plans_run),
        cmocka_unit_test(options_know_both_exchanges),
        cmocka_unit_test(experts_are_spread_and_found_plans_run),
        cmocka_unit_test(recompute_saves_bytes_and_costs_time),
        cmocka_unit_test(frozen_layers_have_no_backward_and_keep_nothing),
        cmocka_unit_test(a_profile_is_read_as_it_was_written_and_used),
        cmocka_unit_test(a_profile_of_something_else_is_refused),
        cmocka_unit_test(a_layout_has_the_memory_of_its_plan),
        cmocka_unit_test(the_optimizer_takes_the_time_of_its_state),
        cmocka_unit_test(more_layouts_fit_with_state_in_bf16),
        cmocka_unit_test(a_layout_fits_in_what_it_needs),
        cmocka_unit_test(a_result_says_which_state_it_assumed),
        cmocka_unit_test(ranks_that_cannot_keep_a_state_are_refused),
        cmocka_unit_test(layouts_that_do_not_divide_are_refused),
        cmocka_unit_test(every_plan_of_a_search_passes_the_checks),
        cmocka_unit_test(found_plans_are_ranked_by_what_jobs_make_of_them),
        cmocka_unit_test(a_search_that_is_told_to_stop_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
