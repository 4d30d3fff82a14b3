/* Assignment of random samples: nothing lost, nothing twice, the same again, better than random;
 * the pipe's recurrence against the simulator. */
#include "core/spread/slot_policies.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/sim/lab.h"
#include "core/sched/sim/sim.h"
#include "core/spread/assign_replicas.h"
#include "core/spread/defer.h"

enum { MAX_SAMPLES = 400 };

static uint64_t seed = 23;
static double enc[MAX_SAMPLES], llm[MAX_SAMPLES], tokens[MAX_SAMPLES];

static int32_t between(int32_t lo, int32_t hi)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int32_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

/* heavy tails, a third without pictures */
static struct cs_assign_samples random_samples(int32_t n, bool has_tokens)
{
    for (int32_t i = 0; i < n; i++) {
        const double tail = between(0, 9) == 0 ? 8 : 1;
        enc[i] = between(0, 2) == 0 ? 0 : between(1, 100) * tail;
        llm[i] = between(1, 100) * (between(0, 9) == 0 ? 8 : 1);
        tokens[i] = between(1, 4096);
    }
    return (struct cs_assign_samples){n, enc, llm, has_tokens ? tokens : NULL};
}

static void check_sums(const struct cs_assign_samples *s, const struct cs_assign_result *r)
{
    const int32_t cells = r->replicas * r->slots;
    double *want = calloc((size_t)cells * 3, sizeof *want);
    for (int32_t i = 0; i < s->n; i++) {
        assert_in_range(r->replica[i], 0, r->replicas - 1);
        assert_in_range(r->slot[i], 0, r->slots - 1);
        assert_in_range(r->llm_slot[i], 0, r->slots - 1);
        want[r->replica[i] * r->slots + r->slot[i]] += s->enc[i];
        want[cells + r->replica[i] * r->slots + r->llm_slot[i]] += s->llm[i];
        want[2 * cells + r->replica[i] * r->slots + r->llm_slot[i]] += s->enc[i];
    }
    assert_memory_equal(want, r->enc, (size_t)cells * sizeof *want);
    assert_memory_equal(want + cells, r->llm, (size_t)cells * sizeof *want);
    assert_memory_equal(want + 2 * cells, r->enc_back, (size_t)cells * sizeof *want);
    free(want);
}

static double largest(const double *value, int32_t n)
{
    double max = 0;
    for (int32_t i = 0; i < n; i++)
        max = fmax(max, value[i]);
    return max;
}

static void every_policy_places_every_sample_once_and_again(void **state)
{
    (void)state;
    for (int c = 0; c < 400; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        const struct cs_assign_samples s = random_samples(between(0, MAX_SAMPLES), between(0, 1));
        const struct cs_assign_options o = {.how =
                                                (enum cs_assign_how)between(0, CS_ASSIGN_HOWS - 1),
                                            .replicas = between(1, 6),
                                            .slots = between(1, 20),
                                            .seed = (uint64_t)c,
                                            .enc_stages = between(0, 3),
                                            .llm_stages = between(0, 5),
                                            .is_slots_limited = between(0, 1)};
        struct cs_assign_result a, b;
        struct cs_err err = {.text = ""};
        if (cs_assign(&s, &o, arena, &a, &err) != CS_OK ||
            cs_assign(&s, &o, arena, &b, &err) != CS_OK)
            fail_msg("%s", err.text);
        check_sums(&s, &a);
        const double before = largest(a.llm, o.replicas * o.slots);
        assert_int_equal(cs_defer(&s, arena, &a, NULL), CS_OK);
        check_sums(&s, &a);
        assert_true(largest(a.llm, o.replicas * o.slots) <= before + 1e-9 * before);
        assert_int_equal(cs_defer(&s, arena, &b, NULL), CS_OK);
        assert_memory_equal(a.replica, b.replica, (size_t)s.n * sizeof(int32_t));
        assert_memory_equal(a.slot, b.slot, (size_t)s.n * sizeof(int32_t));
        assert_memory_equal(a.llm_slot, b.llm_slot, (size_t)s.n * sizeof(int32_t));
        cs_arena_free(arena);
    }
}

static void a_deferred_sample_waits_one_slot_only(void **state)
{
    (void)state;
    int deferred = 0;
    for (int c = 0; c < 200; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        const struct cs_assign_samples s = random_samples(between(1, 120), false);
        const struct cs_assign_options o = {
            .how = CS_ASSIGN_LPT_ENC, .replicas = 2, .slots = between(2, 9)};
        struct cs_assign_result r;
        assert_int_equal(cs_assign(&s, &o, arena, &r, NULL), CS_OK);
        assert_int_equal(cs_defer(&s, arena, &r, NULL), CS_OK);
        for (int32_t i = 0; i < s.n; i++) {
            assert_true(r.llm_slot[i] == r.slot[i] ||
                        (r.slot[i] % 2 == 0 && r.llm_slot[i] == r.slot[i] + 1));
            deferred += r.llm_slot[i] != r.slot[i];
        }
        cs_arena_free(arena);
    }
    assert_true(deferred > 200);
}

static double unevenness(const struct cs_assign_samples *s, enum cs_assign_how how, uint64_t key)
{
    struct cs_arena *arena = cs_arena_new(0);
    const struct cs_assign_options o = {.how = how, .replicas = 4, .slots = 8, .seed = key};
    struct cs_assign_result r;
    assert_int_equal(cs_assign(s, &o, arena, &r, NULL), CS_OK);
    double e = 0, l = 0;
    for (int32_t i = 0; i < s->n; i++) {
        e += s->enc[i];
        l += s->llm[i];
    }
    const double worst = fmax(largest(r.enc, 32) / e, largest(r.llm, 32) / l) * 32;
    cs_arena_free(arena);
    return worst;
}

static void list2d_is_better_than_the_others_on_average(void **state)
{
    (void)state;
    double sum[CS_ASSIGN_HOWS] = {0};
    for (int c = 0; c < 60; c++) {
        const struct cs_assign_samples s = random_samples(256, false);
        for (int how = 0; how < CS_ASSIGN_HOWS; how++)
            sum[how] += unevenness(&s, (enum cs_assign_how)how, (uint64_t)c);
    }
    for (int how = 1; how < CS_ASSIGN_HOWS; how++)
        assert_true(sum[CS_ASSIGN_LIST2D] < sum[how]);
    assert_true(sum[CS_ASSIGN_LIST2D] < 0.6 * sum[CS_ASSIGN_RANDOM]);
    assert_true(sum[CS_ASSIGN_ENTRAIN] < sum[CS_ASSIGN_ENTRAIN_LITERAL]);
}

/* units of cost do not matter */
static void scaling_the_costs_changes_nothing(void **state)
{
    (void)state;
    for (int c = 0; c < 100; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        const struct cs_assign_samples s = random_samples(between(1, 200), false);
        const struct cs_assign_options o = {
            .how = (enum cs_assign_how)(c % CS_ASSIGN_HOWS), .replicas = 3, .slots = 5};
        double big_enc[MAX_SAMPLES], big_llm[MAX_SAMPLES];
        for (int32_t i = 0; i < s.n; i++) {
            big_enc[i] = 1024 * enc[i];
            big_llm[i] = 1024 * llm[i];
        }
        const struct cs_assign_samples big = {s.n, big_enc, big_llm, NULL};
        struct cs_assign_result a, b;
        assert_int_equal(cs_assign(&s, &o, arena, &a, NULL), CS_OK);
        assert_int_equal(cs_assign(&big, &o, arena, &b, NULL), CS_OK);
        assert_memory_equal(a.replica, b.replica, (size_t)s.n * sizeof(int32_t));
        assert_memory_equal(a.slot, b.slot, (size_t)s.n * sizeof(int32_t));
        cs_arena_free(arena);
    }
}

struct replica_cost {
    struct cs_pipe pipe;
    struct cs_pipe_slots slots;
    double *scratch;
};

static double replica_cost(void *user, const int32_t *order, int32_t n)
{
    const struct replica_cost *c = user;
    assert_int_equal(n, c->slots.n);
    return cs_pipe_run(&c->pipe, &c->slots, order, c->scratch, NULL);
}

static void searching_longer_never_costs_more(void **state)
{
    (void)state;
    for (int c = 0; c < 40; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        const int32_t n = between(1, 20);
        random_samples(n, false);
        struct replica_cost user = {
            {3, 5,   2,    2  },
            {n, enc, NULL, llm},
            NULL
        };
        user.scratch = CS_NEW_ARRAY(arena, double, cs_pipe_scratch(&user.pipe, n));
        int32_t order[20];
        for (int32_t i = 0; i < n; i++)
            order[i] = n - 1 - i;
        double last = replica_cost(&user, order, n);
        for (int32_t rounds = 1; rounds <= 256; rounds *= 4) {
            const struct cs_order_search search = {n, enc, rounds, 5, replica_cost, &user};
            int32_t found[20], seen = 0;
            memcpy(found, order, sizeof found);
            const double now = cs_order_search(&search, arena, found);
            assert_true(now <= last);
            assert_true(now == replica_cost(&user, found, n));
            for (int32_t i = 0; i < n; i++)
                seen |= 1 << found[i];
            assert_int_equal(seen, (1 << n) - 1);
            last = now;
        }
        cs_arena_free(arena);
    }
}

static int64_t action_cost(void *user, const struct cs_program *program, int rank,
                           const struct cs_action *action)
{
    const struct replica_cost *c = user;
    (void)program;
    (void)rank;
    if (action->op != CS_OP_FWD && action->op != CS_OP_BWD)
        return 0;
    const bool is_enc = action->stage < c->pipe.enc_stages, is_back = action->op == CS_OP_BWD;
    const double work = is_enc ? (is_back ? c->slots.enc_back : c->slots.enc)[action->slot]
                               : c->slots.llm[action->slot];
    return (int64_t)(work * (is_back ? 2 : 1) / (is_enc ? c->pipe.enc_stages : c->pipe.llm_stages));
}

/* whole costs that every number of stages up to 4 divides, so that integer nanoseconds are exact */
static void the_recurrence_equals_the_simulator(void **state)
{
    (void)state;
    static const double ones[] = {1, 1, 1, 1};
    for (int c = 0; c < 200; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        const int32_t n = between(1, 16), e = between(1, 4), l = between(1, 4);
        double back[16];
        random_samples(n, false);
        for (int32_t i = 0; i < n; i++) {
            enc[i] *= 12;
            llm[i] *= 12;
            back[i] = 12 * between(0, 50);
        }
        struct replica_cost user = {
            {e, l,   2,    2  },
            {n, enc, back, llm},
            NULL
        };
        user.scratch = CS_NEW_ARRAY(arena, double, cs_pipe_scratch(&user.pipe, n));
        const struct cs_lab_module modules[] = {
            {"v",   "llm", e, ones, ones, NULL},
            {"llm", NULL,  l, ones, ones, NULL}
        };
        const struct cs_lab_options options = {"1f1b", n, 0};
        const struct cs_sim_options sim = {.cost = action_cost, .user = &user};
        struct cs_lab *lab = NULL;
        struct cs_sim_result result;
        struct cs_err err = {.text = ""};
        if (cs_lab_make(modules, 2, &options, arena, &lab, &err) != CS_OK ||
            cs_simulate(lab->program, &sim, arena, &result, &err) != CS_OK)
            fail_msg("%s", err.text);
        const double own = replica_cost(&user, NULL, n);
        if (!((double)result.makespan_ns == own))
            fail_msg("%d slots on %d + %d stages: %.0f, simulated %.0f", (int)n, (int)e, (int)l,
                     own, (double)result.makespan_ns);
        cs_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_places_every_sample_once_and_again),
        cmocka_unit_test(a_deferred_sample_waits_one_slot_only),
        cmocka_unit_test(list2d_is_better_than_the_others_on_average),
        cmocka_unit_test(scaling_the_costs_changes_nothing),
        cmocka_unit_test(searching_longer_never_costs_more),
        cmocka_unit_test(the_recurrence_equals_the_simulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
