/* Random graphs of one to three encoders, also with stages that share ranks: programs are accepted,
 * run to their end and count what they must; equal slots may be permuted. */
#include "core/sched/lower/lower.h"
#include "core/sched/proof/limits.h"
#include "core/sched/proof/verify.h"
#include "core/sched/sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "tests/support/random_plan.h"

enum { MAX_S = CS_TEST_MAX_STAGES };

static uint64_t seed = 11;

static int next_random(int below)
{
    return cs_test_random(&seed, below);
}

static void check_counts(const struct cs_program *program, const struct cs_sim_result *r)
{
    const struct cs_plan *plan = program->plan;
    int64_t bound = 0;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *st = &plan->stages[s];
        int64_t work = st->fwd_ns + (program->is_eval ? 0 : st->bwd_input_ns + st->bwd_weight_ns);
        assert_int_equal(r->busy_ns[s], work * program->n_slots);
        assert_in_range(r->peak[s], 1, program->n_slots);
        assert_int_equal(r->left[s], 0);
    }
    for (int32_t rank = 0; rank < plan->n_ranks; rank++) {
        int64_t busy = 0;
        for (int32_t s = 0; s < plan->n_stages; s++)
            busy += plan->stages[s].rank == rank ? r->busy_ns[s] : 0;
        bound = busy > bound ? busy : bound;
    }
    assert_true(r->makespan_ns >= bound);
}

/* an encoder without backward whose ranks have none either */
static bool may_lead(const struct cs_test_random_plan *m)
{
    for (int b = 0; b + 1 < m->n_branches; b++) {
        bool leads = true;
        for (int s = m->first[b]; s < m->first[b] + m->count[b]; s++)
            for (int32_t o = 0; o < m->plan.n_stages; o++)
                leads = leads && !(m->stage[o].rank == m->stage[s].rank &&
                                   (m->stage[o].has_backward || o == m->plan.head_stage));
        if (leads)
            return true;
    }
    return false;
}

static void random_graphs_never_hang(void **state)
{
    (void)state;
    for (int round = 0; round < 600; round++) {
        struct cs_test_random_plan m;
        static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "zb-h2", "zb-h2-late"};
        const char *schedule = schedules[round % 5];
        int slots = (round % 5 >= 3 ? 2 * MAX_S : 1) + next_random(12);
        cs_test_random_plan(&m, &seed, (enum cs_test_placing)(round % 3), schedule);
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_program *program = NULL, *again = NULL;
        struct cs_sim_options options = {.hop_ns = next_random(3)};
        struct cs_sim_result r, shared;
        struct cs_err err = {.text = ""};
        bool is_eval = next_random(4) == 0;
        struct cs_program_options how = {
            .n_slots = slots, .is_eval = is_eval, .ahead = next_random(3)};
        if (next_random(2) && !is_eval && may_lead(&m)) {
            how.lead_before = next_random(slots + 1);
            how.lead_after = next_random(slots + 1);
        }
        if (cs_program_make_with(&m.plan, NULL, &how, arena, &program, &err) != CS_OK ||
            cs_simulate(program, &options, arena, &r, &err) != CS_OK)
            fail_msg("round %d: %s", round, err.text);
        if (how.lead_before == how.lead_after)
            check_counts(program, &r);
        assert_int_equal(cs_program_make_with(&m.plan, NULL, &how, arena, &again, &err), CS_OK);
        assert_string_equal(program->hash, again->hash);
        options.cores = 2;
        assert_int_equal(cs_simulate(program, &options, arena, &shared, &err), CS_OK);
        int64_t all = 0;
        for (int32_t s = 0; s < m.plan.n_stages; s++)
            all += shared.busy_ns[s];
        assert_true(2 * shared.makespan_ns >= all);
        assert_true(shared.makespan_ns >= r.makespan_ns);
        cs_arena_free(arena);
    }
}

struct tally {
    int refused, stalled, hangs;
};

/* What the verifier lets through runs to its end; what waits in a cycle stalls, and both say who
 * waits for whom. */
static void check_damaged(const struct cs_program *program, struct cs_arena *arena,
                          struct tally *tally)
{
    struct cs_sim_options options = {.hop_ns = 1};
    struct cs_sim_result r;
    struct cs_err err = {.text = ""}, why = {.text = ""};
    bool passes = cs_program_verify(program, &why) == CS_OK;
    bool runs = cs_simulate(program, &options, arena, &r, &err) == CS_OK;
    bool hangs = strstr(why.text, "it would hang") != NULL;
    if (passes && !runs)
        fail_msg("passed, but: %s", err.text);
    if (hangs && runs)
        fail_msg("refused, but it runs: %s", why.text);
    if (!runs)
        assert_non_null(strstr(err.text, "dead-lock"));
    if (hangs) {
        assert_non_null(strstr(err.text, "in a cycle: rank"));
        assert_non_null(strstr(err.text, " waits for rank"));
        assert_non_null(strstr(why.text, " waits for rank"));
    }
    tally->refused += !passes;
    tally->stalled += !runs;
    tally->hangs += hangs;
}

static void swap_two(uint32_t *list, int n)
{
    uint32_t *one = &list[next_random(n)], *other = &list[next_random(n)], kept = *one;
    *one = *other;
    *other = kept;
}

static struct cs_program *random_program(int round, struct cs_test_random_plan *m,
                                         struct cs_arena *arena)
{
    static const char *const schedules[] = {"1f1b", "zb-h1", "zb-h2", "gpipe"};
    struct cs_program *program = NULL;
    struct cs_err err = {.text = ""};
    cs_test_random_plan(m, &seed, (enum cs_test_placing)(round % 3), schedules[round / 3 % 4]);
    if (cs_program_make(&m->plan, NULL, 2 * MAX_S, false, arena, &program, &err) != CS_OK)
        fail_msg("%s", err.text);
    return program;
}

/* Two compute actions of one rank exchange their places. */
static void crossed_work_is_refused_and_stalls_or_runs(void **state)
{
    (void)state;
    struct tally tally = {0};
    for (int round = 0; round < 600; round++) {
        struct cs_test_random_plan m;
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_program *program = random_program(round, &m, arena);
        struct cs_rank_program *rp = &program->rank[next_random(m.plan.n_ranks)];
        swap_two(rp->fifo[CS_STREAM_COMPUTE], (int)rp->n_fifo[CS_STREAM_COMPUTE] - 2);
        check_damaged(program, arena, &tally);
        cs_arena_free(arena);
    }
    assert_in_range(tally.stalled, 200, tally.refused);
    assert_in_range(tally.hangs, 50, tally.stalled);
}

/* Two messages or collectives of one rank exchange their places: they meet others, or hang. */
static void crossed_messages_are_refused_and_stall_or_run(void **state)
{
    (void)state;
    struct tally tally = {0};
    for (int round = 0; round < 600; round++) {
        struct cs_test_random_plan m;
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_program *program = random_program(round, &m, arena);
        struct cs_rank_program *rp = &program->rank[next_random(m.plan.n_ranks)];
        swap_two(rp->fifo[CS_STREAM_COMM], (int)rp->n_fifo[CS_STREAM_COMM]);
        check_damaged(program, arena, &tally);
        cs_arena_free(arena);
    }
    assert_in_range(tally.stalled, 100, tally.refused);
}

/* An arc that is not there: an action must wait for one that comes after it on its rank, or for one
 * of another rank that waits for it. */
static void crossed_dependencies_hang_and_stall(void **state)
{
    (void)state;
    struct tally tally = {0};
    for (int round = 0; round < 300; round++) {
        struct cs_test_random_plan m;
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_program *program = random_program(round, &m, arena);
        struct cs_rank_program *rp = &program->rank[next_random(m.plan.n_ranks)];
        uint32_t n = rp->n_fifo[CS_STREAM_COMPUTE], i = (uint32_t)next_random((int)n - 1);
        uint32_t first = rp->fifo[CS_STREAM_COMPUTE][i];
        uint32_t later =
            rp->fifo[CS_STREAM_COMPUTE][i + 1 + (uint32_t)next_random((int)(n - i - 1))];
        struct cs_action *a = &rp->actions[first];
        uint32_t *deps = CS_NEW_ARRAY(arena, uint32_t, rp->n_deps + a->n_deps + 1);
        memcpy(deps, rp->deps, rp->n_deps * sizeof *deps);
        memcpy(deps + rp->n_deps, rp->deps + a->first_dep, a->n_deps * sizeof *deps);
        deps[rp->n_deps + a->n_deps] = later;
        a->first_dep = rp->n_deps;
        rp->n_deps += ++a->n_deps;
        rp->deps = deps;
        check_damaged(program, arena, &tally);
        cs_arena_free(arena);
    }
    assert_int_equal(tally.hangs, 300);
    assert_int_equal(tally.stalled, 300);
}

/* The memory check passes at exactly what the simulator counts at the peak. */
static void memory_limit_is_the_simulated_peak(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        struct cs_test_random_plan m;
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_program *program = random_program(round, &m, arena);
        struct cs_sim_options options = {.hop_ns = 1};
        struct cs_sim_result r;
        struct cs_err err = {.text = ""};
        struct cs_program_limits limits = {0, 0};
        int64_t most = 0;
        assert_int_equal(cs_program_check_limits(program, &limits, &err), CS_OK);
        assert_int_equal(cs_simulate(program, &options, arena, &r, &err), CS_OK);
        for (int32_t rank = 0; rank < program->n_ranks; rank++)
            most = r.peak_bytes[rank] > most ? r.peak_bytes[rank] : most;
        limits.mem_bytes = most;
        if (cs_program_check_limits(program, &limits, &err) != CS_OK)
            fail_msg("%s", err.text);
        limits.mem_bytes = most - 1;
        assert_int_equal(cs_program_check_limits(program, &limits, &err), CS_PLAN);
        assert_non_null(strstr(err.text, "program refused: rank "));
        assert_non_null(strstr(err.text, "activations of live slots"));
        cs_arena_free(arena);
    }
}

/* two branches of p stages on p ranks */
static void make_grid(struct cs_test_random_plan *m, int p, int fwd, int bwd, const char *schedule)
{
    memset(m, 0, sizeof *m);
    for (int id = 0; id < 2 * p; id++) {
        m->stage[id] = (struct cs_stage){.name = "stage",
                                         .id = id,
                                         .branch = id / p,
                                         .index = id % p,
                                         .rank = id % p,
                                         .fwd_ns = fwd,
                                         .bwd_input_ns = bwd,
                                         .has_backward = true};
        if (id > 0)
            m->edge[id - 1] =
                (struct cs_edge){.id = id - 1, .from = id - 1, .to = id, .has_grad = true};
    }
    m->plan = (struct cs_plan){.stages = m->stage,
                               .edges = m->edge,
                               .n_stages = 2 * p,
                               .n_edges = 2 * p - 1,
                               .n_ranks = p,
                               .schedule = schedule,
                               .embed_stage = p,
                               .head_stage = 2 * p - 1};
}

static struct cs_sim_result run_grid(int p, int m, int fwd, int bwd, const char *schedule,
                                     struct cs_arena *arena)
{
    struct cs_test_random_plan plan;
    struct cs_program *program = NULL;
    struct cs_sim_options options = {0};
    struct cs_sim_result r;
    struct cs_err err = {.text = ""};
    make_grid(&plan, p, fwd, bwd, schedule);
    if (cs_program_make(&plan.plan, NULL, m, false, arena, &program, &err) != CS_OK ||
        cs_simulate(program, &options, arena, &r, &err) != CS_OK)
        fail_msg("%s", err.text);
    return r;
}

/* encoder and LLM on the same ranks take what an interleaved pipeline of two chunks takes */
static void colocated_branches_are_two_chunks(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p++)
        for (int m = p; m <= 4 * p; m += p) {
            struct cs_arena *arena = cs_arena_new(0);
            int f = 1 + m % 3, b = 1 + p % 4, t = 2 * (f + b);
            struct cs_sim_result one = run_grid(p, m, f, b, "1f1b", arena);
            struct cs_sim_result all = run_grid(p, m, f, b, "gpipe", arena);
            assert_int_equal(one.makespan_ns, m * t + (p - 1) * t / 2);
            assert_int_equal(all.makespan_ns, m * t + (p - 1) * t / 2);
            for (int s = 0; s < p; s++) {
                int units = 2 * (p - s - 1) + p + 1, held = one.peak[s] + one.peak[p + s];
                assert_in_range(held, 1, 2 * m < units + p ? 2 * m : units + p);
                assert_int_equal(all.peak[s], m);
            }
            cs_arena_free(arena);
        }
}

struct permuted {
    int slot[64];
    int64_t weight[64]; /* of a sample */
};

static int64_t permuted_cost(void *user, const struct cs_program *program, int rank,
                             const struct cs_action *action)
{
    const struct permuted *p = user;
    const struct cs_stage *stage =
        action->stage >= 0 ? &program->plan->stages[action->stage] : NULL;
    (void)rank;
    if (action->op != CS_OP_FWD && action->op != CS_OP_BWD)
        return 0;
    return p->weight[p->slot[action->slot]] *
           (action->op == CS_OP_FWD ? stage->fwd_ns : stage->bwd_input_ns);
}

static void equal_slots_may_be_permuted(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct cs_test_random_plan m;
        struct permuted p;
        int slots = 2 + next_random(10);
        int64_t makespan[2];
        cs_test_random_plan(&m, &seed, CS_TEST_OWN_RANKS, "1f1b");
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_program *program = NULL;
        struct cs_sim_options options = {.cost = permuted_cost, .user = &p};
        struct cs_sim_result r;
        struct cs_err err;
        assert_int_equal(cs_program_make(&m.plan, NULL, slots, false, arena, &program, &err),
                         CS_OK);
        for (int i = 0; i < slots; i++) {
            p.slot[i] = i;
            p.weight[i] = 3;
        }
        for (int k = 0; k < 2; k++) {
            assert_int_equal(cs_simulate(program, &options, arena, &r, &err), CS_OK);
            makespan[k] = r.makespan_ns;
            for (int i = slots - 1; i > 0; i--) {
                int other = next_random(i + 1), kept = p.slot[i];
                p.slot[i] = p.slot[other];
                p.slot[other] = kept;
            }
        }
        assert_int_equal(makespan[0], makespan[1]);
        cs_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_never_hang),
        cmocka_unit_test(crossed_work_is_refused_and_stalls_or_runs),
        cmocka_unit_test(crossed_messages_are_refused_and_stall_or_run),
        cmocka_unit_test(crossed_dependencies_hang_and_stall),
        cmocka_unit_test(memory_limit_is_the_simulated_peak),
        cmocka_unit_test(colocated_branches_are_two_chunks),
        cmocka_unit_test(equal_slots_may_be_permuted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
