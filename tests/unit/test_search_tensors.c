/* Ranks that share matrices, as a search has them: rows between products. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/profile.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/stage/scratch.h"
#include "core/plan/make/planner.h"
#include "core/sched/sim/predict.h"
#include "core/search/problem/widths.h"
#include "core/search/search.h"
#include "support/need.h"
#include "support/spec.h"

struct searched {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_cluster cluster;
    struct cs_search_result result;
};

/* of a text model wide enough that its products take longer than its rows do over a link */
#define HEADS "{\"num_attention_heads\": 32, \"num_key_value_heads\": 8}"

static struct searched search_for(const char *device, int32_t tp, int32_t sp)
{
    const struct cs_test_spec options = {
        .n_encoders = -1, .llm_width = 1536, .llm_keys = HEADS, .seq_tokens = 4096};
    struct searched s = {.arena = cs_arena_new(0)};
    struct cs_search_options o = {.batch_slots = 2, .top = 4, .skip_planners = true};
    struct cs_err err = {0};
    s.root = cs_test_spec_json(&options);
    need(cs_spec_read(s.root, s.arena, &s.spec, &err), &err);
    need(cs_graph_build(s.spec, true, s.arena, &s.graph, &err), &err);
    s.cluster = (struct cs_cluster){cs_device_class_find(device), 1, 2};
    o.fix[s.graph->llm].tp = tp;
    o.fix[s.graph->llm].sp = sp;
    need(cs_search(s.spec, s.graph, &s.cluster, NULL, &o, s.arena, &s.result, &err), &err);
    assert_true(s.result.n_plans > 0);
    return s;
}

static struct searched search_with(const char *device, int32_t tp)
{
    return search_for(device, tp, 0);
}

static void close_search(struct searched *s)
{
    json_decref(s->root);
    cs_arena_free(s->arena);
}

static bool says_sp(const struct cs_search_result *result)
{
    json_t *json = cs_search_result_json(result);
    char *text = json_dumps(json, JSON_COMPACT);
    const bool says = strstr(text, "\"sp\":true") != NULL;
    free(text);
    json_decref(json);
    return says;
}

/* On GPUs rows travel beside products, so they are split; CPU ranks ask for them once more in the backward, and one
 * rank has nobody to split them with. What is found is what is planned, and keeps less than whole rows. */
static void rows_are_split_where_that_takes_no_longer(void **state)
{
    static const struct {
        const char *device;
        int32_t tp;
        bool sp;
    } rows[] = {
        {"h200-141g", 2, true },
        {"h200-141g", 1, false},
        {"cpu",       2, false},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct searched s = search_with(rows[i].device, rows[i].tp);
        struct cs_plan *plan, *whole;
        struct cs_err err = {0};
        const struct cs_search_plan *found = &s.result.plan[0];
        struct cs_spec spec = cs_search_spec(&found->layout, 0, s.spec);
        assert_int_equal(found->layout.branch[s.graph->llm].sp, rows[i].sp);
        assert_int_equal(spec.parallel[s.graph->llm].sp, rows[i].sp);
        assert_int_equal(says_sp(&s.result), rows[i].sp);
        assert_true(found->runs);
        need(cs_plan_make(&spec, s.graph, &s.cluster, s.arena, &plan, &err), &err);
        assert_int_equal(plan->stages[0].splits_rows, rows[i].sp);
        spec.parallel[s.graph->llm].sp = false;
        need(cs_plan_make(&spec, s.graph, &s.cluster, s.arena, &whole, &err), &err);
        if (rows[i].sp)
            assert_true(plan->stages[0].saved_bytes < whole->stages[0].saved_bytes);
        close_search(&s);
    }
}

/* Whatever takes longer, what is asked for is what is found, and what its plan has: with any tp where rows are split. */
static void rows_are_split_where_that_is_asked_for(void **state)
{
    static const char *const devices[] = {"h200-141g", "cpu"};

    (void)state;
    for (int i = 0; i < 2; i++)
        for (int32_t tp = 0; tp <= 2; tp += 2)
            for (int sp = 0; sp < 2; sp++) {
                struct searched s = search_for(devices[i], tp, 1 + sp);
                for (int32_t k = 0; k < s.result.n_plans; k++) {
                    const struct cs_branch_layout *llm =
                        &s.result.plan[k].layout.branch[s.graph->llm];
                    struct cs_spec spec = cs_search_spec(&s.result.plan[k].layout, 0, s.spec);
                    struct cs_plan *plan;
                    struct cs_err err = {0};
                    assert_int_equal(llm->sp, sp);
                    assert_true(llm->tp == tp || (tp == 0 && (llm->tp > 1 || sp == 0)));
                    need(cs_plan_make(&spec, s.graph, &s.cluster, s.arena, &plan, &err), &err);
                    assert_int_equal(plan->stages[0].splits_rows, sp);
                }
                close_search(&s);
            }
}

/* Rows cannot be split over one rank: not where tp is 1, nor where no other divides the heads. */
static void one_rank_splits_no_rows(void **state)
{
    struct searched s = search_with("cpu", 1);
    struct cs_search_options o = {.batch_slots = 2, .skip_planners = true};
    struct cs_err err = {0};
    (void)state;
    o.fix[s.graph->llm].sp = 2;
    o.fix[s.graph->llm].tp = 1;
    assert_int_equal(cs_search(s.spec, s.graph, &s.cluster, NULL, &o, s.arena, &s.result, &err),
                     CS_PLAN);
    assert_non_null(strstr(err.text, "parallel.llm.sp = true: ranks that share matrices split rows "
                                     "between them, and tp is 1; set parallel.llm.tp"));
    o.fix[s.graph->llm].tp = 0;
    s.cluster = (struct cs_cluster){s.cluster.device, 2, 1};
    assert_int_equal(cs_search(s.spec, s.graph, &s.cluster, NULL, &o, s.arena, &s.result, &err),
                     CS_PLAN);
    assert_non_null(strstr(err.text, "no tp above 1 divides llm on nodes of 1 rank; leave sp out"));
    close_search(&s);
}

/* Forward of all layers of the LLM on two ranks that share matrices. */
static int64_t forward_ns(const struct searched *s, const struct cs_device_class *device,
                          int32_t per_node)
{
    const struct cs_cluster cluster = {device, 2 / per_node, per_node};
    struct cs_search_problem *problem = NULL;
    struct cs_err err = {0};
    int64_t ns = 0;
    need(cs_search_problem_make(s->spec, s->graph, &cluster, NULL,
                                &(struct cs_search_reach){.may_leave_node = true}, s->arena,
                                &problem, &err),
         &err);
    const struct cs_search_branch *llm = &problem->branch[problem->llm];
    for (int32_t o = 0; o < llm->n_options; o++)
        for (int32_t i = 0; llm->option[o].tp == 2 && i < llm->n_layers; i++)
            ns += llm->option[o].layer[i].fwd_ns;
    return ns;
}

/* Links of a profile are those of a node: exchanges within it take what was measured, between nodes the network's time. */
static void measured_links_are_those_of_a_node(void **state)
{
    struct searched s = search_with("h200-141g", 2);
    struct cs_link_curves slow;
    struct cs_device_class device = *cs_device_class_find("h200-141g"), measured = device;
    (void)state;
    for (int op = 0; op < CS_LINK_OPS; op++)
        for (int g = 0; g < CS_LINK_GROUPS; g++)
            slow.curve[op][g] =
                (struct cs_link_curve){.latency_ns = 1000000, .bytes_per_s = 1000000000};
    measured.measured = &slow;
    assert_true(forward_ns(&s, &measured, 2) > 2 * forward_ns(&s, &device, 2));
    assert_int_equal(forward_ns(&s, &measured, 1), forward_ns(&s, &device, 1));
    close_search(&s);
}

/* the first option of the LLM with so many ranks that share matrices, and its first block */
static const struct cs_search_layer *block_of(const struct searched *s,
                                              const struct cs_profile *profile, int32_t tp,
                                              const struct cs_search_option **option)
{
    struct cs_search_problem *problem = NULL;
    struct cs_err err = {0};
    need(cs_search_problem_make(s->spec, s->graph, &s->cluster, profile, NULL, s->arena, &problem,
                                &err),
         &err);
    const struct cs_search_branch *llm = &problem->branch[problem->llm];
    for (int32_t o = 0; o < llm->n_options; o++)
        if (llm->option[o].tp == tp) {
            *option = &llm->option[o];
            return &llm->option[o].layer[1];
        }
    fail_msg("no option with tp %d", tp);
    return NULL;
}

/* As plans do, searches take what was measured on two ranks in the place of half of what one took, with the same
 * waits; what does not grow with the slot too. Rows are split where they were measured to take less so. */
static void two_ranks_take_what_was_measured_on_two(void **state)
{
    const int64_t x = 4096;
    struct cs_profile_row row[] = {
        {.module = "llm",
         .kind = CS_LAYER_BLOCK,
         .tp = 1,
         .cp = 1,
         .fwd = {0, 1e6, 2e6},
         .bwd_input = {0, 1e6, 4e6},
         .bwd_weight = {0, 1e6, 0}  },
        {               .module = "llm",
         .kind = CS_LAYER_BLOCK,
         .tp = 2,
         .cp = 1,
         .fwd = {0, 7e5, 2e6},
         .bwd_input = {0, 8e5, 3e6},
         .bwd_weight = {0, 6e5, 0}},
        { .module = "llm",
         .kind = CS_LAYER_BLOCK,
         .tp = 2,
         .cp = 1,
         .sp = true,
         .fwd = {0, 1e5, 0},
         .bwd_input = {0, 1e5, 0},
         .bwd_weight = {0, 1e5, 0}},
    };
    struct searched s = search_with("cpu", 1);
    struct cs_profile profile = {.device = "cpu", .precision = "", .row = row, .n_rows = 1};
    const struct cs_search_option *option;
    (void)state;
    cs_profile_key(s.graph, s.cluster.device, profile.key);
    const struct cs_search_layer *half = block_of(&s, &profile, 2, &option);
    assert_false(option->sp);
    profile.n_rows = 2;
    const struct cs_search_layer *two = block_of(&s, &profile, 2, &option);
    assert_false(option->sp);
    assert_int_equal(two->fwd_ns - half->fwd_ns, 200000 * x + 1000000);
    assert_int_equal(two->bwd_input_ns - half->bwd_input_ns, 300000 * x + 1000000);
    assert_int_equal(two->bwd_weight_ns, 600000 * x);
    assert_int_equal(two->fwd_fixed_ns - half->fwd_fixed_ns, 1000000);
    assert_int_equal(two->bwd_fixed_ns - half->bwd_fixed_ns, 1000000);
    profile.n_rows = 3;
    const struct cs_search_layer *split = block_of(&s, &profile, 2, &option);
    assert_true(option->sp);
    assert_int_equal(split->bwd_weight_ns, 100000 * x);
    close_search(&s);
}

static const struct cs_search_option *option_with(const struct searched *s,
                                                  const struct cs_search_problem *problem,
                                                  const struct cs_spec_parallel *parallel)
{
    const struct cs_search_branch *llm = &problem->branch[s->graph->llm];
    for (int32_t i = 0; i < llm->n_options; i++) {
        const struct cs_search_option *o = &llm->option[i];
        if (o->tp == parallel->tp && o->cp == parallel->cp && o->recompute == CS_RECOMPUTE_NONE)
            return o;
    }
    fail_msg("no option with tp %d, cp %d", parallel->tp, parallel->cp);
    return NULL;
}

/* Every layer takes in a search what it takes in a plan: blocks, look-up and head, with rows that are split between
 * products and without, of ranks that share a slot too. */
static void layers_take_what_they_take_in_plans(void **state)
{
    static const struct {
        const char *device;
        struct cs_spec_parallel parallel;
    } rows[] = {
        {"cpu",       {.tp = 2, .cp = 1}             },
        {"cpu",       {.tp = 2, .cp = 2}             },
        {"cpu",       {.tp = 4, .cp = 1}             },
        {"h200-141g", {.tp = 2, .cp = 1, .sp = true} },
        {"h200-141g", {.tp = 2, .cp = 2, .sp = true} },
        {"h200-141g", {.tp = 1, .cp = 4, .sp = false}},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct searched s = search_with(rows[i].device, 1);
        const struct cs_branch *llm = &s.graph->branches[s.graph->llm];
        struct cs_layer_cost *cost = CS_NEW_ARRAY(s.arena, struct cs_layer_cost, s.graph->n_layers);
        struct cs_spec spec = cs_search_spec(&s.result.plan[0].layout, 0, s.spec);
        struct cs_spec_parallel *parallel = &spec.parallel[s.graph->llm];
        struct cs_search_problem *problem = NULL;
        struct cs_slot_budget budget;
        struct cs_err err = {0};
        s.cluster.devices_per_node = 4;
        parallel->tp = rows[i].parallel.tp;
        parallel->cp = rows[i].parallel.cp;
        parallel->sp = rows[i].parallel.sp;
        need(cs_plan_budget(&spec, s.graph, &budget, &err), &err);
        need(cs_spec_layer_costs(&spec, s.graph, &budget, s.cluster.device, s.arena, cost, NULL,
                                 &err),
             &err);
        need(cs_search_problem_make(s.spec, s.graph, &s.cluster, NULL, NULL, s.arena, &problem,
                                    &err),
             &err);
        const struct cs_search_option *o = option_with(&s, problem, parallel);
        assert_int_equal(o->sp, parallel->sp);
        for (int32_t l = 0; l < llm->n_layers; l++) {
            const struct cs_layer_cost *of = &cost[llm->first_layer + l];
            assert_true(of->fwd_ns > 0);
            assert_int_equal(o->layer[l].fwd_ns, of->fwd_ns);
            assert_int_equal(o->layer[l].bwd_input_ns, of->bwd_input_ns);
            assert_int_equal(o->layer[l].bwd_weight_ns, of->bwd_weight_ns);
        }
        close_search(&s);
    }
}

/* Replicas that divide gradients, and weights, hide most of their exchanges in a search as in the plan of what it found,
 * of one stage and of two; CPU ranks hide none. */
static void exchanges_of_replicas_hide_as_in_plans(void **state)
{
    static const struct {
        const char *device;
        int zero;
        int32_t devices;
    } rows[] = {
        {"h200-141g", 2, 2},
        {"h200-141g", 3, 2},
        {"h200-141g", 2, 4},
        {"h200-141g", 3, 4},
        {"cpu",       2, 2},
        {"cpu",       3, 2},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct searched s = search_with(rows[i].device, 1);
        struct cs_search_options o = {.batch_slots = 16,
                                      .top = 1,
                                      .skip_planners = true,
                                      .dp = 2,
                                      .zeros = 1u << rows[i].zero};
        struct cs_plan *plan;
        struct cs_err err = {0};
        s.cluster.devices_per_node = rows[i].devices;
        s.spec->slots = o.batch_slots;
        o.fix[s.graph->llm].tp = o.fix[s.graph->llm].cp = 1;
        o.fix[s.graph->llm].pp = rows[i].devices / 2;
        need(cs_search(s.spec, s.graph, &s.cluster, NULL, &o, s.arena, &s.result, &err), &err);
        const struct cs_search_plan *found = &s.result.plan[0];
        struct cs_spec spec = cs_search_spec(&found->layout, 0, s.spec);
        spec.schedule = found->schedule;
        assert_int_equal(found->layout.zero, rows[i].zero);
        need(cs_plan_make(&spec, s.graph, &s.cluster, s.arena, &plan, &err), &err);
        assert_int_equal(plan->stages[0].zero, rows[i].zero);
        need(cs_plan_predict(plan, s.graph, &s.cluster, s.arena, &err), &err);
        const double ratio = (double)found->step_ns / (double)plan->predicted_step_ns;
        if (!(ratio > 0.9 && ratio < 1.1))
            fail_msg("%s, zero %d, %d devices: a step of %lld ns, not %lld", rows[i].device,
                     rows[i].zero, rows[i].devices, (long long)found->step_ns,
                     (long long)plan->predicted_step_ns);
        close_search(&s);
    }
}

/* Few ranks of a context may split a slot where heads move: these take more than all of them, and are counted as in
 * plans, with the rows that one may have. */
static void heads_of_few_ranks_are_counted(void **state)
{
    enum { CP = 4 };

    static const int32_t rows_each[] = {0, 1200, 1800};
    int64_t before = 0;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows_each); i++) {
        struct searched s = search_with("h200-141g", 1);
        const int32_t seq = s.spec->seq_tokens;
        const struct cs_layer *block =
            &s.graph->layers[s.graph->branches[s.graph->llm].first_layer + 1];
        const struct cs_context_degrees degrees = {.ranks = CP, .rows_each = rows_each[i]};
        struct cs_search_options o = {.batch_slots = 2,
                                      .top = 1,
                                      .skip_planners = true,
                                      .recomputes = 1u << CS_RECOMPUTE_NONE,
                                      .dp = 1,
                                      .zeros = 1u << 1};
        struct cs_err err = {0};
        s.cluster.devices_per_node = CP;
        s.spec->context_exchange = "heads";
        s.spec->context_rows = rows_each[i];
        o.fix[s.graph->llm].tp = 1;
        o.fix[s.graph->llm].cp = CP;
        need(cs_search(s.spec, s.graph, &s.cluster, NULL, &o, s.arena, &s.result, &err), &err);
        const int32_t room = cs_context_room(seq, CP, rows_each[i]);
        const int element = cs_device_element_bytes(s.cluster.device);
        const int64_t bytes = s.result.plan[0].stage[0].memory.workspace;
        assert_int_equal(
            bytes, cs_context_heads_bytes(cs_layer_attention(s.graph, block), &degrees, seq, room,
                                          element) +
                       cs_layer_scratch_bytes(s.graph, block, room, CS_RECOMPUTE_NONE, element));
        assert_true(bytes > before);
        before = bytes;
        close_search(&s);
    }
}

/* Numbers of ranks that are no powers of two: on few ranks all, on many what divides a node. */
static void ranks_in_threes_are_laid_out(void **state)
{
    static const struct {
        int32_t nodes, per_node, tp, cp, pp, dp;
    } rows[] = {
        {1, 3,  1, 3, 1, 1},
        {1, 3,  3, 1, 1, 1},
        {1, 6,  1, 3, 2, 1},
        {1, 6,  2, 3, 1, 1},
        {1, 8,  3, 1, 2, 1}, /* two ranks are left */
        {1, 8,  1, 5, 1, 1},
        {1, 12, 3, 2, 2, 1},
        {8, 6,  3, 2, 2, 4},
        {8, 6,  6, 1, 1, 8},
        {4, 8,  3, 1, 2, 1}, /* of many ranks too, where they are asked for */
        {4, 8,  1, 5, 1, 1},
        {4, 8,  3, 1, 2, 4}, /* some groups leave their nodes */
    };
    const struct cs_test_spec made = {
        .n_encoders = -1,
        .llm_width = 1536,
        .llm_keys = "{\"num_attention_heads\": 24, \"num_key_value_heads\": 12, "
                    "\"intermediate_size\": 4608}",
        .seq_tokens = 4096};
    struct cs_err err = {0};
    (void)state;
    struct searched s = {.arena = cs_arena_new(0), .root = cs_test_spec_json(&made)};
    need(cs_spec_read(s.root, s.arena, &s.spec, &err), &err);
    need(cs_graph_build(s.spec, true, s.arena, &s.graph, &err), &err);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_search_options o = {.batch_slots = 16, .top = 40, .dp = rows[i].dp};
        const int32_t group = rows[i].tp * rows[i].cp;
        o.may_leave_node =
            rows[i].per_node % group != 0 && group * rows[i].pp * rows[i].dp > rows[i].per_node;
        o.fix[0].tp = rows[i].tp;
        o.fix[0].cp = rows[i].cp;
        o.fix[0].pp = rows[i].pp;
        s.cluster =
            (struct cs_cluster){cs_device_class_find("h200-141g"), rows[i].nodes, rows[i].per_node};
        need(cs_search(s.spec, s.graph, &s.cluster, NULL, &o, s.arena, &s.result, &err), &err);
        if (!s.result.plan[0].runs)
            fail_msg("row %zu: %s", i, s.result.plan[0].why_not_run);
    }
    close_search(&s);
}

/* Which numbers are tried, and which ratios of replicas. */
static void few_ranks_are_tried_in_all_numbers_and_nodes_in_their_divisors(void **state)
{
    static const struct {
        int32_t n_ranks, per_node, widest, n, last[4]; /* the last ones, falling */
    } rows[] = {
        {3,    3, 3,  3,  {3, 2, 1, 0}    },
        {16,   8, 16, 16, {16, 15, 14, 13}},
        {64,   8, 8,  4,  {8, 4, 2, 1}    },
        {48,   6, 6,  5,  {6, 4, 3, 2}    },
        {48,   6, 48, 11, {48, 32, 24, 16}},
        {4096, 8, 64, 7,  {64, 32, 16, 8} },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        int32_t width[CS_SEARCH_WIDEST];
        assert_int_equal(
            cs_search_widths(rows[i].n_ranks, rows[i].per_node, rows[i].widest, 0, width),
            rows[i].n);
        for (int k = 0; k < 4 && rows[i].last[k] > 0; k++)
            assert_int_equal(width[rows[i].n - 1 - k], rows[i].last[k]);
    }
    int32_t width[CS_SEARCH_WIDEST]; /* and what is asked for */
    assert_int_equal(cs_search_widths(32, 8, 8, 1u << 2 | 1u << 8, width), 5);
    assert_int_equal(width[2], 3);
    assert_true(cs_search_tries_ratio((struct cs_search_ratio){1, 3}, 12));
    assert_true(cs_search_tries_ratio((struct cs_search_ratio){6, 1}, 96));
    assert_false(cs_search_tries_ratio((struct cs_search_ratio){3, 1}, 64));
    assert_true(cs_search_tries_ratio((struct cs_search_ratio){2, 5}, 7));
    assert_false(cs_search_tries_ratio((struct cs_search_ratio){2, 5}, 20));
    assert_true(cs_search_tries_ratio((struct cs_search_ratio){16, 1}, 64));
}

/* Slots that replicas cannot have as many of are not rounded up to more than was asked for. */
static void slots_that_replicas_cannot_share_are_refused(void **state)
{
    struct searched s = search_with("h200-141g", 1);
    struct cs_search_options o = {.batch_slots = 4, .dp = 3, .skip_planners = true};
    struct cs_err err = {.text = ""};
    (void)state;
    s.cluster.devices_per_node = 3;
    assert_int_equal(cs_search(s.spec, s.graph, &s.cluster, NULL, &o, s.arena, &s.result, &err),
                     CS_PLAN);
    assert_non_null(strstr(err.text, "give batch_slots = 3 or 6, or a dp that divides 4"));
    o.batch_slots = 6;
    need(cs_search(s.spec, s.graph, &s.cluster, NULL, &o, s.arena, &s.result, &err), &err);
    assert_int_equal(s.result.plan[0].slots, 2);
    close_search(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_split_where_that_takes_no_longer),
        cmocka_unit_test(rows_are_split_where_that_is_asked_for),
        cmocka_unit_test(one_rank_splits_no_rows),
        cmocka_unit_test(measured_links_are_those_of_a_node),
        cmocka_unit_test(two_ranks_take_what_was_measured_on_two),
        cmocka_unit_test(layers_take_what_they_take_in_plans),
        cmocka_unit_test(exchanges_of_replicas_hide_as_in_plans),
        cmocka_unit_test(heads_of_few_ranks_are_counted),
        cmocka_unit_test(ranks_in_threes_are_laid_out),
        cmocka_unit_test(few_ranks_are_tried_in_all_numbers_and_nodes_in_their_divisors),
        cmocka_unit_test(slots_that_replicas_cannot_share_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
