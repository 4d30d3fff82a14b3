/* Curves through times: exact ones are found, noise never makes a layer free. */
#include "worker/measure/fit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/philox.h"

static double at(const struct cs_quadratic *q, double x)
{
    return (q->a * x + q->b) * x + q->c;
}

static bool is_near(double got, double want)
{
    return fabs(got - want) <= 1e-6 * fabs(want);
}

/* points of a curve with no coefficient below 0 give it back */
static void exact_points_give_the_curve(void **state)
{
    static const struct {
        int n, unknowns;
        double a, b, c;
    } rows[] = {
        {1, 1, 0,    3, 0   },
        {2, 2, 0,    3, 5000},
        {2, 2, 0,    3, 0   },
        {2, 2, 0,    0, 700 },
        {3, 3, 0.01, 3, 5000},
        {3, 3, 0.01, 0, 0   },
        {3, 3, 0,    3, 5000},
        {3, 3, 0.5,  3, 0   },
    };

    static const double x[] = {1024, 2048, 4096};
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double y[3];
        for (int i = 0; i < rows[r].n; i++)
            y[i] = (rows[r].a * x[i] + rows[r].b) * x[i] + rows[r].c;
        const struct cs_quadratic q =
            cs_fit_times(rows[r].n, rows[r].n - 1, rows[r].unknowns, x, NULL, y);
        for (double t = 64; t <= 8192; t *= 2) {
            const double want = (rows[r].a * t + rows[r].b) * t + rows[r].c;
            if (!is_near(at(&q, t), want))
                fail_msg("row %zu at %g: %g, not %g", r, t, at(&q, t), want);
        }
    }
}

/* as many rows in one document and in eight: what differs is attention, whatever the rest is */
static void documents_tell_what_attention_takes(void **state)
{
    static const double x[] = {288, 576, 576}, pairs[] = {288.0 * 288, 576.0 * 576, 576.0 * 72};
    static const double want[][3] = {
        {3.5, 900, 50000},
        {3.5, 0,   700  },
        {0,   12,  0    }
    };
    (void)state;
    for (size_t r = 0; r < sizeof want / sizeof *want; r++) {
        double y[3];
        for (int i = 0; i < 3; i++)
            y[i] = want[r][0] * pairs[i] + want[r][1] * x[i] + want[r][2];
        const struct cs_quadratic q = cs_fit_times(3, 1, 3, x, pairs, y);
        const double t = 300, got = (q.a * t + q.b) * t + q.c,
                     true_ns = (want[r][0] * t + want[r][1]) * t + want[r][2];
        if (!is_near(got, true_ns) || !(fabs(q.a - want[r][0]) < 1e-6))
            fail_msg("row %zu: %g %g %g", r, q.a, q.b, q.c);
    }
}

/* a time that falls as rows grow is noise: no line through 0 and below */
static void falling_times_are_level(void **state)
{
    static const double x[] = {32, 64}, y[] = {200, 100};
    (void)state;
    const struct cs_quadratic q = cs_fit_times(2, 1, 2, x, NULL, y);
    assert_true(q.b >= 0.0 && q.c >= 0.0);
    assert_true(fabs(at(&q, 64) - 100.0) < 2.0); /* the main point */
    assert_true(at(&q, 4096) > 0.0);
}

/* a steep pair of points does not make fewer rows free */
static void steep_times_stay_above_zero(void **state)
{
    static const double x[] = {64, 128}, y[] = {10, 1000};
    (void)state;
    const struct cs_quadratic q = cs_fit_times(2, 1, 2, x, NULL, y);
    assert_true(at(&q, 1) > 0.0);
    assert_true(fabs(at(&q, 128) - 1000.0) < 20.0);
}

static void noise_never_gives_a_time_below_zero(void **state)
{
    uint64_t drawn = 0;
    (void)state;
    for (int k = 0; k < 20000; k++) {
        double x[3], y[3];
        const int n = 1 + k % 3, main = k / 3 % n;
        for (int i = 0; i < n; i++) {
            x[i] = (i + 1) * 100.0;
            y[i] = exp(12.0 * cs_philox_uniform(11, 0, drawn++));
        }
        const struct cs_quadratic q = cs_fit_times(n, main, 1 + k / 9 % 3, x, NULL, y);
        if (!(q.a >= 0.0 && q.b >= 0.0 && q.c >= 0.0 && q.a + q.b + q.c > 0.0))
            fail_msg("draw %d: %g %g %g", k, q.a, q.b, q.c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_points_give_the_curve),
        cmocka_unit_test(documents_tell_what_attention_takes),
        cmocka_unit_test(falling_times_are_level),
        cmocka_unit_test(steep_times_stay_above_zero),
        cmocka_unit_test(noise_never_gives_a_time_below_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
