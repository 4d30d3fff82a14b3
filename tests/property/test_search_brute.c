/* The search against every possible plan of small random problems, and what must hold between
 * problems that differ in one thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/sim/lab.h"
#include "core/search/search.h"

enum { MAX = 6, SLOTS = 6, TRIALS = 60 };

static uint64_t state_of;

static int64_t draw(int64_t low, int64_t high)
{
    state_of = state_of * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state_of >> 33) % (uint64_t)(high - low + 1));
}

struct small {
    struct cs_search_layer layer[2][MAX];
    struct cs_search_option option[2];
    struct cs_search_problem problem;
};

static void draw_problem(struct small *s, bool has_memory)
{
    memset(s, 0, sizeof(*s));
    s->problem = (struct cs_search_problem){
        .n_branches = 2, .llm = 1, .n_ranks = (int32_t)draw(2, 5), .ranks_per_node = 8};
    bool trains = false;
    for (int b = 0; b < 2; b++) {
        int n = (int)draw(2, MAX);
        for (int i = 0; i < n; i++) {
            struct cs_search_layer *l = &s->layer[b][i];
            l->fwd_ns = draw(1, 20);
            l->blind_ns = 3 * l->fwd_ns;
            l->needs_input_grad = trains;
            l->is_trained = draw(0, 2) == 0;
            trains = trains || l->is_trained;
            l->bwd_input_ns = l->needs_input_grad ? l->fwd_ns : 0;
            l->bwd_weight_ns = l->is_trained ? draw(1, 20) : 0;
            if (has_memory) {
                l->weight_bytes = draw(1, 30);
                l->saved_bytes = l->is_trained || l->needs_input_grad ? draw(1, 10) : 0;
            }
        }
        s->option[b] = (struct cs_search_option){
            .tp = 1, .cp = 1, .recompute = CS_RECOMPUTE_NONE, .layer = s->layer[b]};
        s->problem.branch[b] = (struct cs_search_branch){
            .name = b ? "llm" : "v", .n_layers = n, .n_options = 1, .option = &s->option[b]};
    }
    s->problem.mem_bytes = has_memory ? draw(120, 400) : 0;
}

static struct cs_search_options parallel_1f1b(void)
{
    return (struct cs_search_options){.batch_slots = SLOTS,
                                      .modalities = 1u << CS_PLACE_OWN,
                                      .schedules = 1,
                                      .dp = 1,
                                      .n_simulate = 100,
                                      .n_refine = -1};
}

struct brute {
    const struct small *s;
    int cut[2][MAX]; /* sizes */
    int n[2];
    int64_t best;
};

static void sum_stages(const struct brute *b, int branch, double *fwd, double *bwd)
{
    const struct cs_search_layer *l = b->s->layer[branch];
    for (int k = 0; k < b->n[branch]; k++) {
        fwd[k] = bwd[k] = 0;
        for (int i = 0; i < b->cut[branch][k]; i++, l++) {
            fwd[k] += (double)l->fwd_ns;
            bwd[k] += (double)(l->bwd_input_ns + l->bwd_weight_ns);
        }
    }
}

static int64_t worst_of(const struct brute *b)
{
    int64_t worst = 0;
    for (int m = 0; m < 2; m++) {
        double fwd[MAX], bwd[MAX];
        sum_stages(b, m, fwd, bwd);
        for (int k = 0; k < b->n[m]; k++)
            worst = (int64_t)(fwd[k] + bwd[k]) > worst ? (int64_t)(fwd[k] + bwd[k]) : worst;
    }
    return worst;
}

/* every contiguous cut of the branch in n stages, then of the next branch */
static void each_cut(struct brute *b, int branch, int stage, int left)
{
    if (branch == 2) {
        int64_t worst = worst_of(b);
        b->best = worst < b->best ? worst : b->best;
        return;
    }
    if (stage == b->n[branch] - 1) {
        b->cut[branch][stage] = left;
        int next = branch == 0 ? b->s->problem.branch[1].n_layers : 0;
        each_cut(b, branch + 1, 0, next);
        return;
    }
    for (int size = 1; size <= left - (b->n[branch] - 1 - stage); size++) {
        b->cut[branch][stage] = size;
        each_cut(b, branch, stage + 1, left - size);
    }
}

/* the smallest bottleneck of all cuts with the stage counts of a plan */
static void cuts_are_the_best_there_are(void **state)
{
    (void)state;
    state_of = 7;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct small s;
        struct cs_search_options options = parallel_1f1b();
        struct cs_search_result result;
        struct cs_err err;
        struct cs_arena *arena = cs_arena_new(0);
        draw_problem(&s, false);
        options.skip_planners = true;
        if (cs_search_run(&s.problem, &options, arena, &result, &err) != CS_OK)
            fail_msg("%s", err.text);
        for (int32_t i = 0; i < result.n_plans; i++) {
            const struct cs_search_plan *plan = &result.plan[i];
            struct brute b = {.s = &s, .best = INT64_MAX};
            int64_t worst = 0;
            b.n[0] = plan->layout.branch[0].pp;
            b.n[1] = plan->layout.branch[1].pp;
            each_cut(&b, 0, 0, s.problem.branch[0].n_layers);
            for (int32_t k = 0; k < plan->n_stages; k++) {
                const struct cs_search_stage *st = &plan->stage[k];
                int64_t ns = st->fwd_ns + st->bwd_input_ns + st->bwd_weight_ns;
                worst = ns > worst ? ns : worst;
            }
            assert_int_equal(worst, b.best);
        }
        cs_arena_free(arena);
    }
}

/* every pair of stage counts that the ranks allow is there, and the fastest is first */
static void all_stage_counts_are_tried(void **state)
{
    (void)state;
    state_of = 11;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct small s;
        struct cs_search_options options = parallel_1f1b();
        struct cs_search_result result;
        struct cs_err err;
        struct cs_arena *arena = cs_arena_new(0);
        draw_problem(&s, false);
        options.skip_planners = true;
        options.top = 100;
        assert_int_equal(cs_search_run(&s.problem, &options, arena, &result, &err), CS_OK);
        int32_t expected = 0;
        for (int a = 1; a <= s.problem.branch[0].n_layers; a++)
            for (int b = 1; b <= s.problem.branch[1].n_layers; b++)
                expected += a + b <= s.problem.n_ranks;
        assert_int_equal(result.n_plans, expected);
        for (int32_t i = 1; i < result.n_plans; i++)
            assert_true(result.plan[i].step_ns >= result.plan[0].step_ns);
        cs_arena_free(arena);
    }
}

static void aware_is_never_slower_than_blind(void **state)
{
    (void)state;
    state_of = 13;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct small s;
        struct cs_search_options options = parallel_1f1b();
        struct cs_search_result result;
        struct cs_err err;
        struct cs_arena *arena = cs_arena_new(0);
        draw_problem(&s, false);
        assert_int_equal(cs_search_run(&s.problem, &options, arena, &result, &err), CS_OK);
        assert_non_null(result.blind);
        assert_true(result.plan[0].step_ns <= result.blind->step_ns);
        cs_arena_free(arena);
    }
}

static int64_t least_score(const struct cs_search_result *result)
{
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < result->n_plans; i++)
        least = result->plan[i].score_ns < least ? result->plan[i].score_ns : least;
    return least;
}

static void dearer_layers_never_lower_the_best_score(void **state)
{
    (void)state;
    state_of = 17;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct small s;
        struct cs_search_options options = parallel_1f1b();
        struct cs_search_result before, after;
        struct cs_err err;
        struct cs_arena *arena = cs_arena_new(0);
        draw_problem(&s, false);
        options.skip_planners = true;
        options.top = 100;
        assert_int_equal(cs_search_run(&s.problem, &options, arena, &before, &err), CS_OK);
        for (int b = 0; b < 2; b++)
            for (int i = 0; i < s.problem.branch[b].n_layers; i++) {
                struct cs_search_layer *l = &s.layer[b][i];
                l->fwd_ns *= 3;
                l->bwd_input_ns *= 3;
                l->bwd_weight_ns *= 3;
            }
        assert_int_equal(cs_search_run(&s.problem, &options, arena, &after, &err), CS_OK);
        assert_int_equal(after.plan[0].step_ns, 3 * before.plan[0].step_ns); /* scaling */
        int b = (int)draw(0, 1), i = (int)draw(0, s.problem.branch[b].n_layers - 1);
        before = after;
        s.layer[b][i].fwd_ns += 50;
        assert_int_equal(cs_search_run(&s.problem, &options, arena, &after, &err), CS_OK);
        assert_true(least_score(&after) >= least_score(&before));
        cs_arena_free(arena);
    }
}

static void what_is_handed_back_fits(void **state)
{
    int fitted = 0;
    (void)state;
    state_of = 19;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct small s;
        struct cs_search_options options = parallel_1f1b();
        struct cs_search_result result;
        struct cs_err err;
        struct cs_arena *arena = cs_arena_new(0);
        draw_problem(&s, true);
        enum cs_status st = cs_search_run(&s.problem, &options, arena, &result, &err);
        assert_true(st == CS_OK || st == CS_PLAN);
        for (int32_t i = 0; st == CS_OK && i < result.n_plans; i++) {
            assert_true(result.plan[i].peak_bytes <= s.problem.mem_bytes);
            fitted++;
        }
        cs_arena_free(arena);
    }
    assert_true(fitted > TRIALS);
}

static void equal_searches_give_equal_plans(void **state)
{
    struct small s;
    struct cs_search_options options = parallel_1f1b();
    struct cs_search_result a, b;
    struct cs_err err;
    struct cs_arena *arena = cs_arena_new(0);
    (void)state;
    state_of = 23;
    draw_problem(&s, false);
    options.modalities = options.schedules = 0;
    options.dp = 0;
    assert_int_equal(cs_search_run(&s.problem, &options, arena, &a, &err), CS_OK);
    assert_int_equal(cs_search_run(&s.problem, &options, arena, &b, &err), CS_OK);
    json_t *x = cs_search_result_json(&a), *y = cs_search_result_json(&b);
    assert_true(json_equal(x, y));
    json_decref(x);
    json_decref(y);
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_are_the_best_there_are),
        cmocka_unit_test(all_stage_counts_are_tried),
        cmocka_unit_test(aware_is_never_slower_than_blind),
        cmocka_unit_test(dearer_layers_never_lower_the_best_score),
        cmocka_unit_test(what_is_handed_back_fits),
        cmocka_unit_test(equal_searches_give_equal_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
