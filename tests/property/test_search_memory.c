/* Plans under a memory cap against every possible plan of small random problems: all counts of
 * stages, all cuts, all recompute and zero levels, each lowered, verified and simulated by
 * core/sched and its memory added up here from the definitions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/proof/kept.h"
#include "core/sched/sim/lab.h"
#include "core/search/search.h"

enum { MAX = 5, SLOTS = 5, TRIALS = 100, RECOMPUTES = 3 };

static uint64_t state_of;

static int64_t draw(int64_t low, int64_t high)
{
    state_of = state_of * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state_of >> 33) % (uint64_t)(high - low + 1));
}

struct small {
    struct cs_search_layer layer[2][RECOMPUTES][MAX];
    struct cs_search_option option[2][RECOMPUTES];
    struct cs_search_problem problem;
};

/* a layer and what recompute makes of it: less is kept, something is done again */
static void draw_layer(struct small *s, int b, int i, bool upstream)
{
    struct cs_search_layer l = {.fwd_ns = draw(2, 20), .weight_bytes = draw(1, 30)};
    l.blind_ns = 3 * l.fwd_ns;
    l.needs_input_grad = upstream;
    l.is_trained = draw(0, 1) == 0;
    l.bwd_input_ns = upstream ? l.fwd_ns : 0;
    l.bwd_weight_ns = l.is_trained ? draw(1, 20) : 0;
    l.grad_bytes = l.is_trained ? 2 * l.weight_bytes : 0;
    l.optim_bytes = l.is_trained ? 3 * l.weight_bytes : 0;
    l.saved_bytes = l.is_trained || upstream ? draw(6, 12) : 0;
    for (int r = 0; r < RECOMPUTES; r++) {
        s->layer[b][r][i] = l;
        if (l.saved_bytes == 0)
            continue;
        s->layer[b][r][i].saved_bytes = l.saved_bytes / (1 + r);
        s->layer[b][r][i].redo_ns = r == 0 ? 0 : r == 1 ? 1 : l.fwd_ns;
        s->layer[b][r][i].work_bytes = r == 2 ? l.saved_bytes : 0;
    }
}

static void draw_problem(struct small *s)
{
    bool trains = false;
    memset(s, 0, sizeof(*s));
    s->problem = (struct cs_search_problem){
        .n_branches = 2, .llm = 1, .n_ranks = (int32_t)draw(2, 4), .ranks_per_node = 8};
    for (int b = 0; b < 2; b++) {
        int n = (int)draw(2, MAX);
        for (int i = 0; i < n; i++) {
            draw_layer(s, b, i, trains);
            trains = trains || s->layer[b][0][i].is_trained;
        }
        for (int r = 0; r < RECOMPUTES; r++)
            s->option[b][r] = (struct cs_search_option){
                .tp = 1, .cp = 1, .recompute = (enum cs_recompute)r, .layer = s->layer[b][r]};
        s->problem.branch[b] = (struct cs_search_branch){.name = b ? "llm" : "v",
                                                         .n_layers = n,
                                                         .n_options = RECOMPUTES,
                                                         .option = s->option[b],
                                                         .inner_bytes = draw(0, 3),
                                                         .out_bytes = b ? 0 : draw(0, 3)};
    }
    int64_t held = 0;
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < s->problem.branch[b].n_layers; i++) {
            const struct cs_search_layer *l = &s->layer[b][0][i];
            held += l->weight_bytes + l->grad_bytes + l->optim_bytes + SLOTS * l->saved_bytes;
        }
    s->problem.mem_bytes = held * draw(25, 75) / 100;
}

struct brute {
    const struct small *s;
    int pp[2], size[2][MAX], recompute[2];
    int64_t best; /* step */
    int64_t n_fit, n_all;
};

/* memory of stage k of a branch, from the definitions in memory.h, but for boundaries */
static int64_t bytes_of(const struct brute *x, int b, int k, int live)
{
    int first = 0;
    for (int i = 0; i < k; i++)
        first += x->size[b][i];
    int end = first + x->size[b][k];
    int64_t held = 0, saved = 0, work = 0;
    for (int i = first; i < end; i++) {
        const struct cs_search_layer *l = &x->s->layer[b][x->recompute[b]][i];
        held += l->weight_bytes + l->grad_bytes + l->optim_bytes;
        saved += l->saved_bytes;
        work = l->work_bytes > work ? l->work_bytes : work;
    }
    return held + live * saved + work;
}

/* ... and these */
static int64_t boundary_of(const struct brute *x, const struct cs_lab *lab, int b, int k,
                           struct cs_arena *arena)
{
    const struct cs_search_branch *branch = x->s->problem.branch;
    const struct cs_plan *plan = lab->program->plan;
    const int32_t stage = lab->plan_stage[lab->first[b] + k];
    const struct cs_buffers buffers = cs_program_buffers(lab->program, arena);
    int32_t *n_buffers = CS_NEW_ARRAY(arena, int32_t, 2 * plan->n_edges + 1);
    int64_t bytes = 0;
    cs_buffers_count(&buffers, n_buffers);
    for (int32_t e = 0; e < plan->n_edges; e++) {
        const struct cs_edge *edge = &plan->edges[e];
        const bool is_join = plan->stages[edge->from].branch != plan->stages[edge->to].branch;
        const int at = plan->stages[edge->from].branch;
        const int64_t each = is_join ? branch[at].out_bytes : branch[at].inner_bytes;
        bytes += edge->from == stage ? n_buffers[2 * e] * each : 0;
        bytes += edge->to == stage ? n_buffers[2 * e + 1] * each : 0;
    }
    return bytes;
}

static struct cs_lab *make_lab(const struct brute *x, struct cs_arena *arena)
{
    double fwd[2][MAX], bwd[2][MAX];
    struct cs_lab_module module[2];
    struct cs_lab_options options = {.schedule = "1f1b", .slots = SLOTS};
    struct cs_lab *lab = NULL;
    struct cs_err err;
    for (int b = 0; b < 2; b++) {
        const struct cs_search_layer *l = x->s->layer[b][x->recompute[b]];
        for (int k = 0; k < x->pp[b]; k++) {
            fwd[b][k] = bwd[b][k] = 0;
            for (int i = 0; i < x->size[b][k]; i++, l++) {
                fwd[b][k] += (double)l->fwd_ns;
                bwd[b][k] += (double)(l->bwd_input_ns + l->bwd_weight_ns + l->redo_ns);
            }
        }
        module[b] = (struct cs_lab_module){.name = x->s->problem.branch[b].name,
                                           .feeds = b ? NULL : "llm",
                                           .n_stages = x->pp[b],
                                           .fwd = fwd[b],
                                           .bwd = bwd[b]};
    }
    if (cs_lab_make(module, 2, &options, arena, &lab, &err) != CS_OK)
        fail_msg("%s", err.text);
    return lab;
}

static void try_plan(struct brute *x)
{
    struct cs_arena *arena = cs_arena_new(0);
    const struct cs_lab *lab = make_lab(x, arena);
    struct cs_lab_result run;
    struct cs_err err;
    bool fits = true;
    if (cs_lab_simulate(lab, arena, &run, &err) != CS_OK)
        fail_msg("%s", err.text);
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < x->pp[b]; k++)
            fits = fits && bytes_of(x, b, k, run.peak[lab->first[b] + k]) +
                                   boundary_of(x, lab, b, k, arena) <=
                               x->s->problem.mem_bytes;
    x->n_all++;
    x->n_fit += fits;
    if (fits && (int64_t)run.makespan < x->best)
        x->best = (int64_t)run.makespan;
    cs_arena_free(arena);
}

static void each_cut(struct brute *x, int b, int stage, int left)
{
    if (b == 2) {
        try_plan(x);
        return;
    }
    if (stage == x->pp[b] - 1) {
        x->size[b][stage] = left;
        each_cut(x, b + 1, 0, x->s->problem.branch[1].n_layers);
        return;
    }
    for (int size = 1; size <= left - (x->pp[b] - 1 - stage); size++) {
        x->size[b][stage] = size;
        each_cut(x, b, stage + 1, left - size);
    }
}

static struct brute all_plans(const struct small *s)
{
    struct brute x = {.s = s, .best = INT64_MAX};
    int n0 = s->problem.branch[0].n_layers, n1 = s->problem.branch[1].n_layers;
    for (x.recompute[0] = 0; x.recompute[0] < RECOMPUTES; x.recompute[0]++)
        for (x.recompute[1] = 0; x.recompute[1] < RECOMPUTES; x.recompute[1]++)
            for (x.pp[0] = 1; x.pp[0] <= n0; x.pp[0]++)
                for (x.pp[1] = 1; x.pp[1] <= n1 && x.pp[0] + x.pp[1] <= s->problem.n_ranks;
                     x.pp[1]++)
                    each_cut(&x, 0, 0, n0);
    return x;
}

static struct cs_search_options everything(void)
{
    return (struct cs_search_options){.batch_slots = SLOTS,
                                      .modalities = 1u << CS_PLACE_OWN,
                                      .schedules = 1,
                                      .dp = 1,
                                      .n_simulate = 200,
                                      .n_refine = 200,
                                      .top = 300,
                                      .skip_planners = true};
}

static void the_best_is_the_best_of_all_that_fit(void **state)
{
    int n_bound = 0, n_none = 0;
    (void)state;
    state_of = 3;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct small s;
        struct cs_search_options options = everything();
        struct cs_search_result result;
        struct cs_err err = {.text = ""};
        struct cs_arena *arena = cs_arena_new(0);
        draw_problem(&s);
        struct brute x = all_plans(&s);
        enum cs_status st = cs_search_run(&s.problem, &options, arena, &result, &err);
        if (x.n_fit == 0) {
            assert_int_equal(st, CS_PLAN);
            assert_non_null(strstr(err.text, "does not fit"));
            n_none++;
        } else if (st != CS_OK) {
            fail_msg("trial %d: %s, but %lld of %lld plans fit", trial, err.text,
                     (long long)x.n_fit, (long long)x.n_all);
        } else {
            if (result.plan[0].step_ns != x.best)
                fail_msg("trial %d: found %lld, the best of %lld that fit takes %lld", trial,
                         (long long)result.plan[0].step_ns, (long long)x.n_fit, (long long)x.best);
            n_bound += x.n_fit < x.n_all;
        }
        cs_arena_free(arena);
    }
    assert_true(n_bound > TRIALS / 4); /* the cap mattered */
    assert_true(n_none > 0);
}

/* the memory of every stage that is handed back is what the definitions say */
static void peaks_are_what_the_definitions_say(void **state)
{
    (void)state;
    state_of = 29;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct small s;
        struct cs_search_options options = everything();
        struct cs_search_result result;
        struct cs_err err;
        struct cs_arena *arena = cs_arena_new(0);
        draw_problem(&s);
        s.problem.mem_bytes = 0;
        assert_int_equal(cs_search_run(&s.problem, &options, arena, &result, &err), CS_OK);
        for (int32_t p = 0; p < result.n_plans; p++) {
            const struct cs_search_plan *plan = &result.plan[p];
            struct brute x = {.s = &s};
            for (int32_t i = 0; i < plan->n_stages; i++)
                x.size[plan->stage[i].branch][plan->stage[i].index] = plan->stage[i].n_layers;
            for (int b = 0; b < 2; b++) {
                x.pp[b] = plan->layout.branch[b].pp;
                x.recompute[b] = (int)plan->layout.branch[b].recompute;
            }
            const struct cs_lab *lab = make_lab(&x, arena);
            for (int32_t i = 0; i < plan->n_stages; i++) {
                const struct cs_search_stage *st = &plan->stage[i];
                assert_int_equal(cs_memory_total(&st->memory),
                                 bytes_of(&x, st->branch, st->index, st->in_flight) +
                                     boundary_of(&x, lab, st->branch, st->index, arena));
            }
        }
        cs_arena_free(arena);
    }
}

/* of one shape of plan: the smallest slowest stage of all cuts under the cap; nothing lies between stages, for which a
 * cut has the buffers of the one before */
struct cuts {
    struct brute x;
    int64_t best; /* INT64_MAX: none fits */
};

static void each_capped(struct cuts *c, int b, int stage, int left)
{
    struct brute *x = &c->x;
    if (stage == x->pp[b] - 1) {
        int64_t worst = 0;
        const struct cs_search_layer *l = x->s->layer[b][x->recompute[b]];
        x->size[b][stage] = left;
        for (int k = 0; k < x->pp[b]; k++) {
            int64_t sum = 0;
            int depth = x->pp[b] - 1 - k + (b == 0 ? x->pp[1] : 0);
            bool has_backward = false;
            for (int i = 0; i < x->size[b][k]; i++, l++) {
                sum += l->fwd_ns + l->bwd_input_ns + l->bwd_weight_ns + l->redo_ns;
                has_backward = has_backward || l->bwd_input_ns + l->bwd_weight_ns > 0;
            }
            int live = has_backward ? (depth + 1 < SLOTS ? depth + 1 : SLOTS) : 1;
            if (bytes_of(x, b, k, live) > x->s->problem.mem_bytes)
                return;
            worst = sum > worst ? sum : worst;
        }
        c->best = worst < c->best ? worst : c->best;
        return;
    }
    for (int size = 1; size <= left - (x->pp[b] - 1 - stage); size++) {
        x->size[b][stage] = size;
        each_capped(c, b, stage + 1, left - size);
    }
}

static void capped_cuts_have_the_smallest_bottleneck(void **state)
{
    int n_plans = 0;
    (void)state;
    state_of = 37;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct small s;
        struct cs_search_options options = everything();
        struct cs_search_result result;
        struct cs_err err;
        struct cs_arena *arena = cs_arena_new(0);
        draw_problem(&s);
        s.problem.branch[0].inner_bytes = s.problem.branch[0].out_bytes = 0;
        s.problem.branch[1].inner_bytes = 0;
        options.n_refine = -1;
        bool works = cs_search_run(&s.problem, &options, arena, &result, &err) == CS_OK;
        for (int32_t p = 0; works && p < result.n_plans; p++) {
            const struct cs_search_plan *plan = &result.plan[p];
            struct cuts c = {.x = {.s = &s}};
            for (int b = 0; b < 2; b++) {
                c.x.pp[b] = plan->layout.branch[b].pp;
                c.x.recompute[b] = (int)plan->layout.branch[b].recompute;
            }
            for (int b = 0; b < 2; b++) {
                int64_t worst = 0;
                c.best = INT64_MAX;
                each_capped(&c, b, 0, s.problem.branch[b].n_layers);
                for (int32_t i = 0; i < plan->n_stages; i++) {
                    const struct cs_search_stage *st = &plan->stage[i];
                    int64_t ns = st->fwd_ns + st->bwd_input_ns + st->bwd_weight_ns;
                    worst = st->branch == b && ns > worst ? ns : worst;
                }
                assert_int_equal(worst, c.best);
            }
            n_plans++;
        }
        cs_arena_free(arena);
    }
    assert_true(n_plans > 10 * TRIALS);
}

static void more_memory_is_never_slower(void **state)
{
    int n = 0;
    (void)state;
    state_of = 31;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct small s;
        struct cs_search_options options = everything();
        struct cs_search_result result;
        struct cs_err err;
        int64_t before = INT64_MAX;
        draw_problem(&s);
        for (s.problem.mem_bytes = 100; s.problem.mem_bytes < 900; s.problem.mem_bytes += 100) {
            struct cs_arena *arena = cs_arena_new(0);
            int64_t step = INT64_MAX;
            if (cs_search_run(&s.problem, &options, arena, &result, &err) == CS_OK)
                step = result.plan[0].step_ns;
            assert_true(step <= before);
            n += step < before && before < INT64_MAX;
            before = step;
            cs_arena_free(arena);
        }
    }
    assert_true(n > TRIALS / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_is_the_best_of_all_that_fit),
        cmocka_unit_test(peaks_are_what_the_definitions_say),
        cmocka_unit_test(capped_cuts_have_the_smallest_bottleneck),
        cmocka_unit_test(more_memory_is_never_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
