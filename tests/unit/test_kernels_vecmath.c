/* exp, tanh and erf of the CPU back end against the double libm, and the vectorised copies of a
 * loop against the portable one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cpu/vecmath.h"
#include "kernels/ops.h"

/* Distance in units of the last place of want in fp32. */
static double ulps(float got, double want)
{
    const float w = (float)want;
    if (isinf(w) || isnan(w))
        return got == w || (isnan(w) && isnan(got)) ? 0 : INFINITY;
    const double ulp = (double)(nextafterf(fabsf(w), INFINITY) - fabsf(w));
    return fabs((double)got - want) / ulp;
}

static double worst_ulps(float (*f)(float), double (*g)(double), float from, float to, int steps)
{
    double worst = 0;
    for (int i = 0; i <= steps; i++) {
        const float x = from + (to - from) * ((float)i / (float)steps);
        const double u = ulps(f(x), g((double)x));
        if (!(u <= worst))
            worst = u;
    }
    return worst;
}

#define ASSERT_WITHIN(u, limit)                                                                    \
    do {                                                                                           \
        const double worst_ = (u);                                                                 \
        if (!(worst_ <= (limit)))                                                                  \
            fail_msg("%g ulp, allowed %g", worst_, (double)(limit));                               \
    } while (0)

static void exp_is_within_two_ulp_of_every_normal_result(void **state)
{
    (void)state;
    ASSERT_WITHIN(worst_ulps(cs_exp, exp, -86.98f, 88.7f, 400000), 2.0);
    ASSERT_WITHIN(worst_ulps(cs_exp, exp, -1.0f, 1.0f, 400000), 2.0);
}

static void tanh_is_within_two_ulp(void **state)
{
    (void)state;
    ASSERT_WITHIN(worst_ulps(cs_tanh, tanh, -12.0f, 12.0f, 400000), 2.0);
    ASSERT_WITHIN(worst_ulps(cs_tanh, tanh, -0.01f, 0.01f, 100000), 2.0);
}

static void erf_is_within_two_and_a_half_ulp(void **state)
{
    (void)state;
    ASSERT_WITHIN(worst_ulps(cs_erf, erf, -6.0f, 6.0f, 400000), 2.5);
    ASSERT_WITHIN(worst_ulps(cs_erf, erf, -0.01f, 0.01f, 100000), 2.0);
}

static void special_values_follow_libm(void **state)
{
    (void)state;
    assert_true(cs_exp(0.0f) == 1.0f);
    assert_true(cs_exp(-INFINITY) == 0.0f && cs_exp(-1e30f) == 0.0f);
    assert_true(cs_exp(-87.1f) == 0.0f && cs_exp(-100.0f) == 0.0f); /* no subnormals */
    assert_true(isinf(cs_exp(INFINITY)) && isinf(cs_exp(200.0f)));
    assert_true(isnan(cs_exp(NAN)) && isnan(cs_tanh(NAN)) && isnan(cs_erf(NAN)));
    assert_true(cs_tanh(INFINITY) == 1.0f && cs_tanh(-INFINITY) == -1.0f);
    assert_true(cs_erf(INFINITY) == 1.0f && cs_erf(-INFINITY) == -1.0f);
    assert_true(signbit(cs_tanh(-0.0f)) && signbit(cs_erf(-0.0f)));
    assert_true(cs_sigmoid(0.0f) == 0.5f && cs_sigmoid(-INFINITY) == 0.0f);
}

/* This file is compiled for the portable instruction set; the operator runs the widest copy. */
static void every_vector_width_gives_the_same_bits(void **state)
{
    (void)state;

    enum { N = 20011 };

    static float x[N], y[N];
    for (int i = 0; i < N; i++)
        x[i] = ((float)i - (float)N / 2.0f) * 0.0021f;
    struct cs_ctx ctx = {0};
    cs_ops_cpu()->act(&ctx, CS_ACT_GELU, N, x, y);
    for (int i = 0; i < N; i++) {
        const float want = 0.5f * x[i] * (1.0f + cs_erf(x[i] * 0.707106781f));
        assert_memory_equal(&want, &y[i], sizeof want);
    }
    cs_ops_cpu()->act(&ctx, CS_ACT_SILU, N, x, y);
    for (int i = 0; i < N; i++) {
        const float want = x[i] * cs_sigmoid(x[i]);
        assert_memory_equal(&want, &y[i], sizeof want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_ulp_of_every_normal_result),
        cmocka_unit_test(tanh_is_within_two_ulp),
        cmocka_unit_test(erf_is_within_two_and_a_half_ulp),
        cmocka_unit_test(special_values_follow_libm),
        cmocka_unit_test(every_vector_width_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
