/* One digest of programs, simulations and forecasts: the same bits on every machine and from every
 * compiler. When it changes on purpose, the failing test prints the new one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/hash.h"
#include "core/sched/lower/lower.h"
#include "core/sched/sim/forecast.h"
#include "core/sched/sim/lab.h"
#include "tests/support/random_plan.h"

enum { MAX_RANKS = 64, ROUNDS = 60 };

static void check_digest(struct cs_sha256 *sha, const char *want)
{
    char got[65];
    cs_sha256_end(sha, got);
    cs_sha256_free(sha);
    if (strcmp(got, want) != 0)
        fail_msg("the digest is %s, not %s", got, want);
}

/* little-endian, so that the digest does not depend on the machine */
static void add(struct cs_sha256 *sha, uint64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    cs_sha256_add(sha, bytes, sizeof bytes);
}

static void add_double(struct cs_sha256 *sha, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    add(sha, bits);
}

static void add_forecast(struct cs_sha256 *sha, const struct cs_forecast *f)
{
    add(sha, (uint64_t)f->makespan_ns);
    for (int32_t r = 0; r < f->n_ranks; r++) {
        for (uint32_t i = 0; i < f->rank[r].n_actions; i++) {
            add(sha, (uint64_t)f->rank[r].action[i].start_ns);
            add(sha, (uint64_t)f->rank[r].action[i].end_ns);
        }
        for (uint32_t i = 0; i < f->rank[r].n_points; i++) {
            add(sha, (uint64_t)f->rank[r].memory[i].at_ns);
            for (int held = 0; held < CS_HELD_COUNT; held++)
                add(sha, (uint64_t)f->rank[r].memory[i].bytes[held]);
        }
        add_double(sha, f->rank[r].bubble);
        add(sha, (uint64_t)f->rank[r].exposed_ns);
    }
    for (int32_t s = 0; s < f->n_stages; s++) {
        add_double(sha, f->stage[s].span_bubble);
        add(sha, (uint64_t)f->stage[s].exposed_ns);
    }
    for (int32_t i = 0; i < f->n_critical; i++)
        add(sha, (uint64_t)f->critical[i].rank << 32 | f->critical[i].id);
}

static void simulations_have_the_golden_digest(void **state)
{
    (void)state;
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1", "zb-h2", "zb-h2-late"};
    struct cs_sha256 *sha = cs_sha256_new();
    uint64_t seed = 99;
    int32_t node[2 * MAX_RANKS], nic[2 * MAX_RANKS], slow[2 * MAX_RANKS];
    for (int32_t r = 0; r < 2 * MAX_RANKS; r++) {
        node[r] = r / 3;
        nic[r] = r / 2;
        slow[r] = 900 + 37 * (r % 11);
    }
    const struct cs_sim_links links = {node, nic};
    for (int round = 0; round < ROUNDS; round++) {
        struct cs_test_random_plan m;
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_program *program = NULL;
        struct cs_forecast f;
        struct cs_err err = {.text = ""};
        struct cs_sim_options options = {.hop_ns = 3, .link_bytes_per_s = 10000000000};
        cs_test_random_plan(&m, &seed, (enum cs_test_placing)(round % 3), schedules[round % 5]);
        if (round % 2)
            options.rank_permille = slow;
        if (round % 4 >= 2)
            options.links = &links;
        if (round % 7 == 0)
            options.jitter_permille = 130;
        options.seed = (uint64_t)round;
        options.copies = 1 + round % 2;
        if (cs_program_make(&m.plan, NULL, 2 * CS_TEST_MAX_STAGES, false, arena, &program, &err) !=
                CS_OK ||
            cs_forecast_program(program, &options, 2, arena, &f, &err) != CS_OK)
            fail_msg("%s", err.text);
        cs_sha256_add(sha, program->hash, sizeof program->hash);
        add_forecast(sha, &f);
        cs_arena_free(arena);
    }
    check_digest(sha, "e151b3fd4831ee409ea3b324355ba59f18c279cb8fd66d1fc164c31bdd54d8b5");
}

/* fractional times: sums, products and quotients of doubles */
static void experiments_have_the_golden_digest(void **state)
{
    (void)state;
    static const char *const schedules[] = {"1f1b",  "gpipe",      "interleaved", "zb-h1",
                                            "zb-h2", "zb-h2-late", "three-phase", "anchors"};
    static const double vf[] = {0.3, 0.7}, vb[] = {0.1, 0.9}, f[] = {1.1, 0.9, 1.3, 0.7},
                        b[] = {1.7, 2.3, 1.9, 2.1}, w[] = {0.2, 0.3, 0.1, 0.6},
                        slow[] = {1, 1.1, 1, 1.7, 1, 1, 1.01, 1, 1, 1, 1, 1};
    const struct cs_lab_module modules[] = {
        {"v",   "llm", 2, vf, vb, NULL},
        {"llm", NULL,  4, f,  b,  w   },
    };
    struct cs_sha256 *sha = cs_sha256_new();
    for (size_t k = 0; k < CS_ARRAY_LEN(schedules); k++)
        for (int how = 0; how < 4; how++) {
            struct cs_arena *arena = cs_arena_new(0);
            struct cs_lab *lab = NULL;
            struct cs_lab_result r;
            struct cs_err err = {.text = ""};
            struct cs_lab_options options = {schedules[k], 13, 0.37};
            struct cs_lab_inputs in = {.copies = how == 1 ? 2 : 1,
                                       .rank_factor = how == 1 ? slow : NULL,
                                       .jitter = how == 2 ? 0.21 : 0,
                                       .seed = 12,
                                       .ranks_per_node = how == 3 ? 2 : 0,
                                       .ranks_per_nic = how == 3 ? 2 : 0,
                                       .latency = 0.11};
            if (cs_lab_make(modules, 2, &options, arena, &lab, &err) != CS_OK ||
                cs_lab_simulate_with(lab, &in, arena, &r, &err) != CS_OK)
                fail_msg("%s: %s", schedules[k], err.text);
            add_double(sha, r.makespan);
            for (int32_t s = 0; s < lab->n_stages * r.n_classes; s++) {
                add_double(sha, r.bubble[s]);
                add_double(sha, r.span_idle[s]);
                add_double(sha, r.stage_exposed[s]);
                add(sha, (uint64_t)r.peak[s]);
            }
            for (int32_t i = 0; i < r.n_critical; i++)
                cs_sha256_add(sha, r.critical[i], strlen(r.critical[i]) + 1);
            cs_arena_free(arena);
        }
    check_digest(sha, "aea261990f40913c4a35cf0cdc989096a3ca7e027c87432045514fc4db3b5ed7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulations_have_the_golden_digest),
        cmocka_unit_test(experiments_have_the_golden_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
