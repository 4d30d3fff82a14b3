/* Simulated schedules against their closed forms and bounds. */
#include "core/sched/sim/lab.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { MAX_P = 16 };

static uint64_t seed = 7;

static int next_random(int below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)below);
}

struct outcome {
    double makespan, busy[MAX_P], bubble[MAX_P];
    int32_t peak[MAX_P];
};

static struct outcome run(const char *schedule, int p, int m, const double *f, const double *b,
                          double hop)
{
    struct cs_lab_module chain = {"llm", NULL, p, f, b, NULL};
    struct cs_lab_options options = {schedule, m, hop};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_lab *lab = NULL;
    struct cs_lab_result r;
    struct cs_err err = {.text = ""};
    struct outcome out;
    if (cs_lab_make(&chain, 1, &options, arena, &lab, &err) != CS_OK ||
        cs_lab_simulate(lab, arena, &r, &err) != CS_OK)
        fail_msg("%s", err.text);
    out.makespan = r.makespan;
    for (int s = 0; s < p; s++) {
        out.busy[s] = r.busy[s];
        out.peak[s] = r.peak[s];
        out.bubble[s] = r.bubble[s];
    }
    cs_arena_free(arena);
    return out;
}

static void fill(double *v, double value)
{
    for (int i = 0; i < MAX_P; i++)
        v[i] = value;
}

static void uniform_chains_take_m_plus_p_minus_1_beats(void **state)
{
    (void)state;
    double f[MAX_P], b[MAX_P];
    for (int p = 2; p <= MAX_P; p++)
        for (int m = 1; m <= 64; m++) {
            double fwd = 1 + (p + m) % 3, bwd = 1 + (2 * p + m) % 4;
            fill(f, fwd);
            fill(b, bwd);
            struct outcome one = run("1f1b", p, m, f, b, 0), all = run("gpipe", p, m, f, b, 0);
            assert_true(one.makespan == (m + p - 1) * (fwd + bwd));
            assert_true(all.makespan == one.makespan);
            for (int s = 0; s < p; s++) {
                assert_int_equal(one.peak[s], m < p - s ? m : p - s);
                assert_int_equal(all.peak[s], m);
                assert_true(fabs(all.bubble[s] - (p - 1.0) / (m + p - 1)) < 1e-12);
                double ideal = m * (fwd + bwd);
                assert_true(fabs((one.makespan - ideal) / ideal - (p - 1.0) / m) < 1e-12);
            }
        }
}

static void latency_costs_2c_times_p_minus_1_m_over_p_plus_p_minus_2(void **state)
{
    (void)state;
    double f[MAX_P], b[MAX_P];
    for (int p = 2; p <= MAX_P; p++)
        for (int k = 1; k <= 6; k++) {
            int m = k * p;
            fill(f, 8 * p);
            fill(b, 16 * p);
            double c = p; /* (p - 1) * m / p stays whole */
            double excess = run("1f1b", p, m, f, b, c).makespan - (m + p - 1) * 24.0 * p;
            assert_true(excess == 2 * c * ((p - 1) * m / p + (p - 2)));
        }
}

static void random_times(int p, double *f, double *b)
{
    for (int s = 0; s < p; s++) {
        f[s] = 1 + next_random(20);
        b[s] = 1 + next_random(40);
    }
}

static void lower_bound_holds_and_last_bottleneck_is_exact(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        int p = 2 + next_random(7), m = 1 + next_random(20);
        double f[MAX_P], b[MAX_P], sum = 0, before = 0, bound, worst = 0;
        random_times(p, f, b);
        if (round % 2) /* proportional, the bottleneck last */
            for (int s = 0; s < p; s++) {
                f[s] = s == p - 1 ? 30 : f[s];
                b[s] = 2 * f[s];
            }
        for (int s = 0; s < p; s++)
            sum += f[s] + b[s];
        bound = sum;
        for (int s = 0; s < p; s++) {
            double tau = f[s] + b[s];
            bound = fmax(bound, before + m * tau);
            worst = fmax(worst, tau);
            before += tau;
        }
        double makespan = run("1f1b", p, m, f, b, 0).makespan;
        assert_true(makespan >= bound);
        if (round % 2)
            assert_true(makespan == sum + (m - 1) * worst);
    }
}

static void proportional_times_stay_under_the_estimate(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        int p = 2 + next_random(7), m = 1 + next_random(20);
        double f[MAX_P], b[MAX_P], sum = 0, worst = 0;
        random_times(p, f, b);
        for (int s = 0; s < p; s++) {
            b[s] = 2 * f[s];
            sum += 3 * f[s];
            worst = fmax(worst, 3 * f[s]);
        }
        assert_true(run("1f1b", p, m, f, b, 0).makespan <= sum + (m - 1) * worst);
    }
}

static void swapping_forward_and_backward_times_keeps_the_makespan(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        int p = 2 + next_random(7), m = 1 + next_random(20);
        double f[MAX_P], b[MAX_P], hop = next_random(5);
        random_times(p, f, b);
        assert_true(run("1f1b", p, m, f, b, hop).makespan == run("1f1b", p, m, b, f, hop).makespan);
        assert_true(run("gpipe", p, m, f, b, hop).makespan ==
                    run("gpipe", p, m, b, f, hop).makespan);
    }
}

static void higher_costs_never_lower_the_makespan(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        int p = 2 + next_random(7), m = 1 + next_random(20);
        double f[MAX_P], b[MAX_P];
        random_times(p, f, b);
        double before = run("1f1b", p, m, f, b, 1).makespan;
        f[next_random(p)] += 1 + next_random(10);
        b[next_random(p)] += 1 + next_random(10);
        double slower = run("1f1b", p, m, f, b, 1).makespan;
        assert_true(slower >= before);
        assert_true(run("1f1b", p, m, f, b, 2).makespan >= slower);
        assert_true(run("1f1b", p, m + 1, f, b, 1).makespan > slower);
    }
}

static void scaling_costs_scales_the_makespan(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        int p = 2 + next_random(7), m = 1 + next_random(20);
        double f[MAX_P], b[MAX_P], scale = 0.5 * (1 + next_random(9));
        random_times(p, f, b);
        double before = run("1f1b", p, m, f, b, 3).makespan;
        for (int s = 0; s < p; s++) {
            f[s] *= scale;
            b[s] *= scale;
        }
        assert_true(run("1f1b", p, m, f, b, 3 * scale).makespan == before * scale);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_chains_take_m_plus_p_minus_1_beats),
        cmocka_unit_test(latency_costs_2c_times_p_minus_1_m_over_p_plus_p_minus_2),
        cmocka_unit_test(lower_bound_holds_and_last_bottleneck_is_exact),
        cmocka_unit_test(proportional_times_stay_under_the_estimate),
        cmocka_unit_test(swapping_forward_and_backward_times_keeps_the_makespan),
        cmocka_unit_test(higher_costs_never_lower_the_makespan),
        cmocka_unit_test(scaling_costs_scales_the_makespan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
