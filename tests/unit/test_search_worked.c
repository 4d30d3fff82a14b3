/* The search on plain numbers: the worked case of Cornstarch's stage partition, and memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/search/search.h"

enum { ENC = 25, LLM = 16 };

struct worked {
    struct cs_search_layer enc[ENC], llm[LLM];
    struct cs_search_option option[2];
    struct cs_search_problem problem;
};

/* 24 frozen encoder layers of F = 1, a projector that trains and costs nothing, 16 frozen LLM
 * layers of F = 2 and Bd = F, on 4 ranks */
static void make(struct worked *w, bool redoes)
{
    memset(w, 0, sizeof(*w));
    for (int i = 0; i < ENC - 1; i++)
        w->enc[i] = (struct cs_search_layer){.fwd_ns = 1, .blind_ns = redoes ? 4 : 3};
    w->enc[ENC - 1].is_trained = true;
    for (int i = 0; i < LLM; i++)
        w->llm[i] = (struct cs_search_layer){.fwd_ns = 2,
                                             .bwd_input_ns = 2,
                                             .redo_ns = redoes ? 2 : 0,
                                             .blind_ns = redoes ? 8 : 6,
                                             .needs_input_grad = true};
    enum cs_recompute how = redoes ? CS_RECOMPUTE_FULL : CS_RECOMPUTE_NONE;
    w->option[0] = (struct cs_search_option){.tp = 1, .cp = 1, .recompute = how, .layer = w->enc};
    w->option[1] = (struct cs_search_option){.tp = 1, .cp = 1, .recompute = how, .layer = w->llm};
    w->problem = (struct cs_search_problem){
        .branch = {{.name = "vision", .n_layers = ENC, .n_options = 1, .option = &w->option[0]},
                   {.name = "llm", .n_layers = LLM, .n_options = 1, .option = &w->option[1]}},
        .n_branches = 2,
        .llm = 1,
        .n_ranks = 4,
        .ranks_per_node = 4
    };
}

static struct cs_search_result search(const struct worked *w, struct cs_arena *arena)
{
    struct cs_search_options options = {.batch_slots = 16,
                                        .modalities = 1u << CS_PLACE_OWN,
                                        .schedules = 1,
                                        .dp = 1,
                                        .n_simulate = 100,
                                        .n_refine = -1};
    struct cs_search_result result;
    struct cs_err err;
    if (cs_search_run(&w->problem, &options, arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    return result;
}

static void worked_case_is(bool redoes, int64_t aware, int64_t blind)
{
    struct worked w;
    struct cs_arena *arena = cs_arena_new(0);
    make(&w, redoes);
    struct cs_search_result result = search(&w, arena);
    const struct cs_search_plan *best = &result.plan[0];
    assert_int_equal(best->step_ns, aware);
    assert_int_equal(best->layout.branch[0].pp, 1);
    assert_int_equal(best->layout.branch[1].pp, 3);
    assert_int_equal(best->stage[1].n_layers, 5);
    assert_int_equal(best->stage[2].n_layers, 5);
    assert_int_equal(best->stage[3].n_layers, 6);
    assert_false(best->is_blind_cut);
    assert_non_null(result.blind);
    assert_int_equal(result.blind->step_ns, blind);
    assert_int_equal(result.blind->layout.branch[0].pp, 2);
    assert_int_equal(result.blind->stage[0].n_layers, 12);
    assert_int_equal(result.blind->stage[1].n_layers, 13);
    assert_int_equal(result.blind->stage[2].n_layers, 8);
    cs_arena_free(arena);
}

static void aware_448_and_blind_568(void **state)
{
    (void)state;
    worked_case_is(false, 448, 568);
}

static void with_recompute_aware_660_and_blind_840(void **state)
{
    (void)state;
    worked_case_is(true, 660, 840);
}

static void plans_come_fastest_first_and_name_the_bottleneck(void **state)
{
    struct worked w;
    struct cs_arena *arena = cs_arena_new(0);
    (void)state;
    make(&w, false);
    struct cs_search_result result = search(&w, arena);
    assert_true(result.n_plans > 4);
    for (int32_t i = 1; i < result.n_plans; i++)
        assert_true(result.plan[i - 1].step_ns <= result.plan[i].step_ns);
    assert_non_null(strstr(result.plan[0].why, "bottleneck vision.0"));
    assert_non_null(strstr(result.plan[0].why, "frozen-blind planner would take 568 ns (1.27x)"));
    assert_true(result.plan[0].is_pareto);
    cs_arena_free(arena);
}

static bool says(const char *const *sentence, int32_t n, const char *words)
{
    for (int32_t i = 0; i < n; i++)
        if (strstr(sentence[i], words))
            return true;
    return false;
}

static void explanations_carry_the_figures(void **state)
{
    struct worked w;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_options options = {.batch_slots = 16,
                                        .modalities = 1u << CS_PLACE_OWN,
                                        .schedules = 1,
                                        .dp = 1,
                                        .n_refine = -1,
                                        .explains = true};
    struct cs_search_result r;
    struct cs_err err;
    (void)state;
    make(&w, false);
    assert_int_equal(cs_search_run(&w.problem, &options, arena, &r, &err), CS_OK);
    const struct cs_search_explain *e = &r.explain;
    assert_true(says(e->cut, e->n_cut, "layers of every stage: vision 25; llm 5 x 2 6"));
    assert_true(says(e->cut, e->n_cut,
                     "slowest stage, vision.0, takes 24 ns of a slot (F 24 ns, B 0 ns), the "
                     "average stage 22 ns; with 16 slots that alone is 384 ns of 448 ns"));
    assert_true(says(e->cut, e->n_cut, "vision: of 25 layers 25 have no backward"));
    assert_true(says(e->cut, e->n_cut, "llm: of 16 layers 0 have no backward and 16 only pass"));
    assert_true(says(e->cut, e->n_cut,
                     "planner blind would cut vision 12 13; llm 8 x 2: slowest llm.0 with 32 ns a "
                     "slot, step 568 ns (1.27x)"));
    assert_int_equal(e->n_bind, 0); /* no limits, no idle ranks */
    for (int32_t i = 1; i < r.n_plans; i++)
        assert_true(r.plan[i].loses &&
                    (r.plan[i].loses[0] == '+' || strcmp(r.plan[i].loses, "nothing in time") == 0));
    assert_null(r.plan[0].loses);
    for (int i = 0; i < LLM; i++) /* a stage of six layers no longer fits */
        w.llm[i].weight_bytes = 100;
    w.problem.mem_bytes = 599;
    options.fix[0].pp = 1;
    options.fix[1].pp = 3;
    assert_int_equal(cs_search_run(&w.problem, &options, arena, &r, &err), CS_PLAN);
    w.problem.mem_bytes = 600;
    for (int i = 0; i < 5; i++) { /* heavy and cheap: what fits is not what is fast */
        w.llm[i].fwd_ns = w.llm[i].bwd_input_ns = 1;
        w.enc[i].fwd_ns = w.enc[i + 5].fwd_ns = w.enc[i + 10].fwd_ns = 0;
    }
    assert_int_equal(cs_search_run(&w.problem, &options, arena, &r, &err), CS_OK);
    assert_true(
        says(r.explain.bind, r.explain.n_bind, "memory binds: with more than 600 B a rank"));
    cs_arena_free(arena);
}

static void memory_classes_are_closed_forms(void **state)
{
    struct cs_search_layer layer[2] = {
        {.weight_bytes = 100,
         .grad_bytes = 40,
         .optim_bytes = 120,
         .saved_bytes = 7,
         .work_bytes = 9},
        {.weight_bytes = 11,     .saved_bytes = 5, .work_bytes = 30},
    };
    struct cs_memory_load load = {.zero = 1, .shards = 4, .in_flight = 3, .chunks = 1};
    struct cs_memory m = {0};
    (void)state;
    cs_memory_add(layer, 2, &load, &m);
    assert_int_equal(m.weights, 111);
    assert_int_equal(m.grads, 40);
    assert_int_equal(m.optimizer, 30);
    assert_int_equal(m.activations, 36);
    assert_int_equal(m.workspace, 30);
    assert_int_equal(cs_memory_total(&m), 111 + 40 + 30 + 36 + 30);
    m.boundary = 80;
    m.windows = 7;
    assert_int_equal(cs_memory_total(&m), 111 + 40 + 30 + 36 + 30 + 80 + 7);
    load.zero = 3;
    m = (struct cs_memory){0};
    cs_memory_add(layer, 2, &load, &m);
    assert_int_equal(m.weights, 25 + 2);
    assert_int_equal(m.grads, 10);
    assert_int_equal(m.workspace, 30 + 100 + 40);
}

/* Layers take turns at two buffers where one comes while the other works, wherever a stage begins and
 * however many pieces of the branch a rank has. */
static void what_zero_makes_whole_takes_turns(void **state)
{
    const struct cs_search_layer layer[4] = {
        {.weight_bytes = 100, .grad_bytes = 40, .work_bytes = 9},
        {.weight_bytes = 11,  .work_bytes = 30},
        {.weight_bytes = 70,   .grad_bytes = 70,  .work_bytes = 8               },
        {.weight_bytes = 20,    .grad_bytes = 5,  .work_bytes = 7},
    };
    struct cs_memory_load load = {.zero = 3, .shards = 4, .chunks = 1, .turns = 2};
    struct cs_memory all = {0}, part = {0}, own = {0};
    (void)state;
    cs_memory_add(layer, 4, &load, &all);
    assert_int_equal(all.workspace, 30 + (100 + 70) + (20 + 5)); /* weights and gradients apart */
    cs_memory_add(layer, 1, &load, &part);
    load.first = 3;
    cs_memory_add(layer + 3, 1, &load, &part);
    assert_int_equal(part.workspace, 9 + (100 + 40) + (20 + 5));
    load.zero = 2;
    load.first = 0;
    cs_memory_add(layer, 4, &load, &own);
    assert_int_equal(own.workspace, 30 + 70 + 5);
    load.shards = 1; /* nothing is divided */
    own = (struct cs_memory){0};
    cs_memory_add(layer, 4, &load, &own);
    assert_int_equal(own.workspace, 30);
}

static void what_does_not_fit_is_refused_with_figures(void **state)
{
    struct worked w;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_result result;
    struct cs_err err;
    struct cs_search_options options = {
        .batch_slots = 16, .dp = 1, .modalities = 1u << CS_PLACE_OWN};
    (void)state;
    make(&w, false);
    for (int i = 0; i < LLM; i++)
        w.llm[i].weight_bytes = (int64_t)10 << 30;
    w.problem.mem_bytes = (int64_t)16 << 30;
    assert_int_equal(cs_search_run(&w.problem, &options, arena, &result, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "does not fit: llm alone needs 40.0 GiB on each of 4 ranks"));
    w.problem.mem_bytes = (int64_t)60 << 30;
    options.skip_planners = true;
    assert_int_equal(cs_search_run(&w.problem, &options, arena, &result, &err), CS_OK);
    assert_int_equal(result.plan[0].layout.branch[1].pp, 3);
    assert_int_equal(result.plan[0].peak_bytes, (int64_t)60 << 30);
    options.fix[1].pp = 40;
    assert_int_equal(cs_search_run(&w.problem, &options, arena, &result, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "no layout of llm is possible"));
    options.fix[1].pp = 0;
    options.batch_slots = 0;
    assert_int_equal(cs_search_run(&w.problem, &options, arena, &result, &err), CS_PLAN);
    cs_arena_free(arena);
}

static void memory_refusal_names_rank_and_classes(void **state)
{
    struct cs_memory m = {.weights = (int64_t)27 << 30, .activations = (int64_t)64 << 30};
    struct cs_buf text = {0};
    (void)state;
    cs_memory_explain(&m, 5, "llm.2", 4, (int64_t)80 << 30, &text);
    assert_string_equal(cs_buf_str(&text),
                        "rank 5 (llm.2) needs 91.0 GiB of 80.0 GiB: 64.0 GiB activations, 27.0 GiB "
                        "weights, with 4 slots in flight");
    cs_buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aware_448_and_blind_568),
        cmocka_unit_test(with_recompute_aware_660_and_blind_840),
        cmocka_unit_test(plans_come_fastest_first_and_name_the_bottleneck),
        cmocka_unit_test(explanations_carry_the_figures),
        cmocka_unit_test(memory_classes_are_closed_forms),
        cmocka_unit_test(what_zero_makes_whole_takes_turns),
        cmocka_unit_test(what_does_not_fit_is_refused_with_figures),
        cmocka_unit_test(memory_refusal_names_rank_and_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
