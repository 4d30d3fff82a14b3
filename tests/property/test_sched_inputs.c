/* The simulator's inputs: stragglers, jitter, shared links and copies against what must hold of
 * them on random plans. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/lower/lower.h"
#include "core/sched/sim/lab.h"
#include "core/sched/sim/sim.h"
#include "tests/support/random_plan.h"

enum { ROUNDS = 150, MAX_RANKS = 128, MAX_COPIES = 6 };

static uint64_t seed = 5;

static int next_random(int below)
{
    return cs_test_random(&seed, below);
}

struct made {
    struct cs_test_random_plan m;
    struct cs_arena *arena;
    struct cs_program *program;
};

static void make(struct made *made, int round)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    struct cs_program_options how = {.n_slots = 1 + next_random(12)};
    struct cs_err err = {.text = ""};
    cs_test_random_plan(&made->m, &seed, (enum cs_test_placing)(round % 3),
                        schedules[round / 3 % 3]);
    for (int32_t s = 0; s < made->m.plan.n_stages; s++) {
        made->m.stage[s].fwd_ns *= 100 + next_random(100);
        made->m.stage[s].bwd_input_ns *= 100 + next_random(100);
    }
    made->arena = cs_arena_new(0);
    made->program = NULL;
    if (cs_program_make_with(&made->m.plan, NULL, &how, made->arena, &made->program, &err) != CS_OK)
        fail_msg("round %d: %s", round, err.text);
}

static struct cs_sim_result simulate(struct made *made, const struct cs_sim_options *options)
{
    struct cs_sim_result r;
    struct cs_err err = {.text = ""};
    if (cs_simulate(made->program, options, made->arena, &r, &err) != CS_OK)
        fail_msg("%s", err.text);
    return r;
}

static const struct cs_rank_program *rank_of(const struct made *made, int32_t rank)
{
    return &made->program->rank[rank % made->program->n_ranks];
}

/* every event of the ranks given, to the bit */
static void check_same_events(const struct made *made, const struct cs_event *a,
                              const struct cs_event *b, int32_t rank)
{
    size_t bytes = rank_of(made, rank)->n_actions * sizeof *a;
    if (memcmp(a, b, bytes) != 0)
        fail_msg("rank %d: other events", rank);
}

static void check_same(const struct made *made, const struct cs_sim_result *a,
                       const struct cs_sim_result *b)
{
    assert_int_equal(a->makespan_ns, b->makespan_ns);
    assert_int_equal(a->n_critical, b->n_critical);
    if (a->n_critical > 0)
        assert_memory_equal(a->critical, b->critical,
                            2 * (size_t)a->n_critical * sizeof *a->critical);
    for (int32_t r = 0; r < made->program->n_ranks; r++)
        check_same_events(made, a->events[r], b->events[r], r);
}

static void no_action_is_earlier(const struct made *made, const struct cs_sim_result *fast,
                                 const struct cs_sim_result *slow)
{
    assert_true(slow->makespan_ns >= fast->makespan_ns);
    for (int32_t r = 0; r < made->program->n_ranks; r++)
        for (uint32_t i = 0; i < rank_of(made, r)->n_actions; i++) {
            assert_true(slow->events[r][i].start_ns >= fast->events[r][i].start_ns);
            assert_true(slow->events[r][i].end_ns >= fast->events[r][i].end_ns);
        }
}

static void factors_of_one_change_nothing(void **state)
{
    (void)state;
    int32_t rank[MAX_RANKS], stage[MAX_RANKS];
    for (int i = 0; i < MAX_RANKS; i++)
        rank[i] = stage[i] = 1000;
    for (int round = 0; round < ROUNDS; round++) {
        struct made made;
        make(&made, round);
        struct cs_sim_options plain = {.hop_ns = next_random(50), .cores = round % 4 == 0 ? 2 : 0};
        struct cs_sim_options ones = plain;
        ones.rank_permille = rank;
        ones.stage_permille = stage;
        ones.seed = 77; /* without jitter the seed means nothing */
        struct cs_sim_result a = simulate(&made, &plain), b = simulate(&made, &ones);
        check_same(&made, &a, &b);
        cs_arena_free(made.arena);
    }
}

static void slower_ranks_never_make_anything_earlier(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct made made;
        int32_t rank[MAX_RANKS], stage[MAX_RANKS];
        make(&made, round);
        for (int i = 0; i < MAX_RANKS; i++) {
            rank[i] = 800 + next_random(400);
            stage[i] = 800 + next_random(400);
        }
        struct cs_sim_options options = {
            .hop_ns = next_random(50), .rank_permille = rank, .stage_permille = stage};
        struct cs_sim_result before = simulate(&made, &options);
        for (int step = 0; step < 4; step++) {
            rank[next_random(made.program->n_ranks)] += next_random(900);
            stage[next_random(made.m.plan.n_stages)] += next_random(900);
            struct cs_sim_result after = simulate(&made, &options);
            no_action_is_earlier(&made, &before, &after);
            before = after;
        }
        cs_arena_free(made.arena);
    }
}

static void all_ranks_twice_as_slow_take_twice_as_long(void **state)
{
    (void)state;
    int32_t two[MAX_RANKS];
    for (int i = 0; i < MAX_RANKS; i++)
        two[i] = 2000;
    for (int round = 0; round < ROUNDS; round++) {
        struct made made;
        make(&made, round);
        struct cs_sim_options plain = {0}, by_rank = {.rank_permille = two},
                              by_stage = {.stage_permille = two};
        int64_t want = 2 * simulate(&made, &plain).makespan_ns;
        assert_int_equal(simulate(&made, &by_rank).makespan_ns, want);
        assert_int_equal(simulate(&made, &by_stage).makespan_ns, want);
        cs_arena_free(made.arena);
    }
}

static void jitter_follows_its_seed_and_stays_in_its_bounds(void **state)
{
    (void)state;
    int differ = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct made made;
        make(&made, round);
        struct cs_sim_options plain = {.hop_ns = 1000},
                              jitter = {.hop_ns = 1000, .jitter_permille = 100, .seed = 3};
        struct cs_sim_result a = simulate(&made, &plain), b = simulate(&made, &jitter),
                             again = simulate(&made, &jitter);
        check_same(&made, &b, &again);
        for (int32_t r = 0; r < made.program->n_ranks; r++)
            for (uint32_t i = 0; i < rank_of(&made, r)->n_actions; i++) {
                int64_t was = (int64_t)(a.events[r][i].end_ns - a.events[r][i].start_ns),
                        is = (int64_t)(b.events[r][i].end_ns - b.events[r][i].start_ns);
                assert_true(10 * is <= 11 * was + 10 && 10 * is >= 9 * was - 10);
            }
        jitter.seed = 4;
        differ += simulate(&made, &jitter).makespan_ns != b.makespan_ns;
        jitter.jitter_permille = 0;
        struct cs_sim_result none = simulate(&made, &jitter);
        check_same(&made, &a, &none);
        cs_arena_free(made.arena);
    }
    assert_true(differ > ROUNDS / 2);
}

static void jitter_is_even_around_the_time(void **state)
{
    (void)state;
    struct made made;
    double sum = 0, low = 0;
    int n = 0;
    for (int round = 0; round < 60; round++) {
        make(&made, round);
        struct cs_sim_options jitter = {.jitter_permille = 500, .seed = (uint64_t)round};
        struct cs_sim_options plain = {0};
        struct cs_sim_result a = simulate(&made, &plain), b = simulate(&made, &jitter);
        for (int32_t s = 0; s < made.m.plan.n_stages; s++) {
            double ratio = (double)b.busy_ns[s] / (double)a.busy_ns[s] - 1;
            sum += ratio;
            low += ratio < 0;
            n++;
        }
        cs_arena_free(made.arena);
    }
    assert_true(!(fabs(sum / n) > 0.02));
    assert_true(low > 0.4 * n && low < 0.6 * n);
}

static int64_t message_cost(void *user, const struct cs_program *program, int rank,
                            const struct cs_action *action)
{
    const struct cs_stage *stage =
        action->stage >= 0 ? &program->plan->stages[action->stage] : NULL;
    (void)user;
    (void)rank;
    return action->op == CS_OP_FWD         ? stage->fwd_ns
           : action->op == CS_OP_BWD       ? stage->bwd_input_ns + stage->bwd_weight_ns
           : action->op == CS_OP_BWD_INPUT ? stage->bwd_input_ns
           : action->op == CS_OP_BWD_WEIGHT
               ? stage->bwd_weight_ns
               : (action->op == CS_OP_SEND ? 50 + 100 * program->plan->edges[action->edge].max_rows
                                           : 0);
}

static int64_t all_of_it(void *user, const struct cs_program *program, int rank,
                         const struct cs_action *action)
{
    return message_cost(user, program, rank, action);
}

static int64_t fixed_latency(void *user, const struct cs_program *program, int rank,
                             const struct cs_action *action)
{
    (void)user;
    (void)program;
    (void)rank;
    (void)action;
    return 50;
}

static void fill_links(int32_t *node, int32_t *nic, int per_node, int per_nic)
{
    for (int r = 0; r < MAX_RANKS; r++) {
        node[r] = r / per_node;
        nic[r] = r / per_nic;
    }
}

static void shared_links_never_make_anything_earlier(void **state)
{
    (void)state;
    int slower = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct made made;
        int32_t node[MAX_RANKS], nic[MAX_RANKS];
        make(&made, round);
        int32_t n = made.program->n_ranks;
        struct cs_sim_links links = {node, nic};
        struct cs_sim_options plain = {.cost = message_cost}, shared = {.cost = message_cost,
                                                                        .latency = fixed_latency,
                                                                        .links = &links};
        fill_links(node, nic, 1 + next_random(n), 1 + next_random(n));
        struct cs_sim_result a = simulate(&made, &plain), b = simulate(&made, &shared),
                             again = simulate(&made, &shared);
        no_action_is_earlier(&made, &a, &b);
        check_same(&made, &b, &again);
        slower += b.makespan_ns > a.makespan_ns;
        /* a message that is all latency occupies nothing: links might as well be infinitely many */
        shared.latency = all_of_it;
        struct cs_sim_result none = simulate(&made, &shared);
        check_same(&made, &a, &none);
        cs_arena_free(made.arena);
    }
    assert_true(slower > ROUNDS / 10);
}

/* between two ranks messages of one direction follow each other: nothing to divide */
static void two_ranks_share_nothing(void **state)
{
    (void)state;
    static const double f[] = {3, 2}, b[] = {4, 5};
    const struct cs_lab_module llm = {"llm", NULL, 2, f, b, NULL};
    for (int slots = 1; slots < 9; slots++) {
        struct cs_lab_options options = {"1f1b", slots, 6};
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_lab *lab = NULL;
        struct cs_lab_result plain, shared;
        struct cs_err err;
        assert_int_equal(cs_lab_make(&llm, 1, &options, arena, &lab, &err), CS_OK);
        assert_int_equal(cs_lab_simulate(lab, arena, &plain, &err), CS_OK);
        for (int32_t per_node = 1; per_node <= 2; per_node++) {
            struct cs_lab_inputs in = {.ranks_per_node = per_node, .latency = 1};
            assert_int_equal(cs_lab_simulate_with(lab, &in, arena, &shared, &err), CS_OK);
            assert_true(!(fabs(shared.makespan - plain.makespan) > 0));
        }
        cs_arena_free(arena);
    }
}

static void more_latency_in_a_hop_shares_less(void **state)
{
    (void)state;
    static const double f[] = {1, 1, 1}, b[] = {2, 2, 2};
    const struct cs_lab_module modules[] = {
        {"v",   "llm", 1, f, b, NULL},
        {"a",   "llm", 1, f, b, NULL},
        {"llm", NULL,  3, f, b, NULL},
    };
    struct cs_lab_options options = {"1f1b", 8, 4};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_lab *lab = NULL;
    struct cs_lab_result r;
    struct cs_err err;
    assert_int_equal(cs_lab_make(modules, 3, &options, arena, &lab, &err), CS_OK);
    double before = INFINITY;
    for (int latency = 0; latency <= 4; latency++) {
        struct cs_lab_inputs in = {.ranks_per_node = 1, .ranks_per_nic = 5, .latency = latency};
        assert_int_equal(cs_lab_simulate_with(lab, &in, arena, &r, &err), CS_OK);
        assert_true(r.makespan <= before);
        before = r.makespan;
    }
    assert_int_equal(cs_lab_simulate(lab, arena, &r, &err), CS_OK);
    assert_true(!(fabs(r.makespan - before) > 0));
    cs_arena_free(arena);
}

static void classes_equal_the_full_simulation(void **state)
{
    (void)state;
    int several = 0, fewer = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct made made;
        int32_t factor[MAX_RANKS * MAX_COPIES];
        make(&made, round);
        int32_t n = made.program->n_ranks, stages = made.m.plan.n_stages;
        int32_t copies = 1 + next_random(MAX_COPIES), kinds = 1 + next_random(3);
        for (int32_t c = 0; c < copies; c++) {
            int32_t kind = next_random(kinds);
            for (int32_t r = 0; r < n; r++)
                factor[c * n + r] = r == kind && kind > 0 ? 1000 + 300 * kind : 1000;
        }
        struct cs_sim_options few = {
            .hop_ns = next_random(40), .rank_permille = factor, .copies = copies};
        struct cs_sim_options full = few;
        full.is_full = true;
        struct cs_sim_result a = simulate(&made, &few), b = simulate(&made, &full);
        assert_int_equal(a.makespan_ns, b.makespan_ns);
        assert_int_equal(b.n_classes, copies);
        several += a.n_classes > 1;
        fewer += a.n_classes < copies;
        for (int32_t c = 0; c < copies; c++) {
            int32_t class = a.class_of[c];
            for (int32_t r = 0; r < n; r++)
                check_same_events(&made, a.events[class * n + r], b.events[c * n + r], r);
            for (int32_t s = 0; s < stages; s++) {
                assert_int_equal(a.busy_ns[class * stages + s], b.busy_ns[c * stages + s]);
                assert_int_equal(a.peak[class * stages + s], b.peak[c * stages + s]);
                assert_int_equal(a.stage_exposed_ns[class * stages + s],
                                 b.stage_exposed_ns[c * stages + s]);
            }
            for (int32_t r = 0; r < n; r++) {
                assert_int_equal(a.peak_bytes[class * n + r], b.peak_bytes[c * n + r]);
                assert_int_equal(a.span_idle_ns[class * n + r], b.span_idle_ns[c * n + r]);
                assert_int_equal(a.exposed_ns[class * n + r], b.exposed_ns[c * n + r]);
            }
        }
        cs_arena_free(made.arena);
    }
    assert_true(several > ROUNDS / 5 && fewer > ROUNDS / 2);
}

/* one straggler among 4096 ranks makes two classes; the others wait for it at the end of the
 * step */
static void one_slow_rank_of_4096_makes_two_classes(void **state)
{
    (void)state;

    enum { P = 16, COPIES = 256 };

    static double slow[P * COPIES];
    double f[P], b[P];
    for (int s = 0; s < P; s++) {
        f[s] = 1;
        b[s] = 2;
    }
    const struct cs_lab_module llm = {"llm", NULL, P, f, b, NULL};
    struct cs_lab_options options = {"1f1b", 64, 0};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_lab *lab = NULL;
    struct cs_lab_result r;
    struct cs_err err = {.text = ""};
    assert_int_equal(cs_lab_make(&llm, 1, &options, arena, &lab, &err), CS_OK);
    struct cs_lab_inputs in = {.copies = COPIES};
    assert_int_equal(cs_lab_simulate_with(lab, &in, arena, &r, &err), CS_OK);
    assert_int_equal(r.n_classes, 1);
    assert_true(!(fabs(r.makespan - (64 + P - 1) * 3) > 0));
    for (int i = 0; i < P * COPIES; i++)
        slow[i] = i == 77 * P + P - 1 ? 2 : 1;
    in.rank_factor = slow;
    assert_int_equal(cs_lab_simulate_with(lab, &in, arena, &r, &err), CS_OK);
    assert_int_equal(r.n_classes, 2);
    assert_int_equal(r.first[1], 77);
    assert_int_equal(r.class_of[76], 0);
    assert_int_equal(r.class_of[77], 1);
    /* the last stage decides: 64 slots of 6 and the ramp of the others */
    assert_true(!(fabs(r.makespan - (64 * 6 + (P - 1) * 3)) > 0));
    assert_true(r.bubble[P - 1] > 0.5 && r.bubble[P + P - 1] < 0.15);
    assert_non_null(strstr(r.critical[r.n_critical - 1], "(copy 77)"));
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_of_one_change_nothing),
        cmocka_unit_test(slower_ranks_never_make_anything_earlier),
        cmocka_unit_test(all_ranks_twice_as_slow_take_twice_as_long),
        cmocka_unit_test(jitter_follows_its_seed_and_stays_in_its_bounds),
        cmocka_unit_test(jitter_is_even_around_the_time),
        cmocka_unit_test(shared_links_never_make_anything_earlier),
        cmocka_unit_test(two_ranks_share_nothing),
        cmocka_unit_test(more_latency_in_a_hop_shares_less),
        cmocka_unit_test(classes_equal_the_full_simulation),
        cmocka_unit_test(one_slow_rank_of_4096_makes_two_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
