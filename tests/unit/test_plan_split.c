/* The stage partition: goldens of the reference, memory caps, refusals. */
#include "core/plan/make/split.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

static void check(const double *cost, int n, int stages, double want, const int *sizes)
{
    int got[16];
    double bottleneck = NAN;
    struct cs_err err;
    assert_int_equal(cs_split(cost, n, stages, got, &bottleneck, &err), CS_OK);
    assert_true(bottleneck == want);
    for (int s = 0; s < stages; s++)
        assert_int_equal(got[s], sizes[s]);
}

static void one_to_nine_on_three_is_17(void **state)
{
    (void)state;
    check((double[]){1, 2, 3, 4, 5, 6, 7, 8, 9}, 9, 3, 17, (int[]){5, 2, 2});
}

static void heavy_ends_on_three_is_5(void **state)
{
    (void)state;
    check((double[]){5, 1, 1, 1, 1, 5}, 6, 3, 5, (int[]){1, 4, 1});
}

static void seven_equal_layers_cut_earliest(void **state)
{
    (void)state;
    check((double[]){2, 2, 2, 2, 2, 2, 2}, 7, 3, 6, (int[]){2, 2, 3});
}

/* 24 frozen encoder layers F=1, a projector, 16 frozen LLM layers F=2 with Bd=F */
static void fill_mllm(double *cost, bool is_aware)
{
    for (int i = 0; i < 41; i++)
        cost[i] = i < 24 ? (is_aware ? 1 : 3) : i == 24 ? 0 : is_aware ? 4 : 6;
}

static double true_bottleneck(const double *aware, int first, const int *sizes, int n)
{
    double worst = 0;
    for (int s = 0; s < n; s++) {
        double sum = 0;
        for (int i = 0; i < sizes[s]; i++)
            sum += aware[first++];
        worst = sum > worst ? sum : worst;
    }
    return worst;
}

static void frozen_aware_is_24_and_blind_is_32(void **state)
{
    (void)state;
    double aware[41], blind[41];
    int enc[2], llm[3];
    struct cs_err err;
    fill_mllm(aware, true);
    fill_mllm(blind, false);
    check(aware, 25, 1, 24, (int[]){25});
    check(aware + 25, 16, 3, 24, (int[]){5, 5, 6});
    check(blind, 25, 2, 36, (int[]){12, 13});
    check(blind + 25, 16, 2, 48, (int[]){8, 8});
    assert_int_equal(cs_split(blind, 25, 2, enc, NULL, &err), CS_OK);
    assert_int_equal(cs_split(blind + 25, 16, 2, llm, NULL, &err), CS_OK);
    assert_true(true_bottleneck(aware, 0, enc, 2) == 12);
    assert_true(true_bottleneck(aware, 25, llm, 2) == 32);
}

static void shared_stages_are_22_8_5_6_and_14_13_7_7(void **state)
{
    (void)state;
    double aware[41], blind[41];
    fill_mllm(aware, true);
    fill_mllm(blind, false);
    check(aware, 41, 4, 24, (int[]){22, 8, 5, 6});
    check(blind, 41, 4, 42, (int[]){14, 13, 7, 7});
}

static void zero_costs_still_give_every_stage_a_layer(void **state)
{
    (void)state;
    check((double[]){0, 0, 0}, 3, 3, 0, (int[]){1, 1, 1});
}

static void memory_cap_moves_the_cut(void **state)
{
    (void)state;
    double cost[] = {1, 1, 1, 1}, weight[] = {1, 1, 1, 1}, saved[] = {1, 1, 1, 1};
    double alive[] = {2, 1};
    struct cs_split_memory memory = {weight, saved, alive, NULL, 6};
    int sizes[2];
    double bottleneck;
    struct cs_err err;
    /* two layers on stage 0 hold 2 + 2 * 2 = 6 */
    assert_int_equal(cs_split_capped(cost, 4, 2, &memory, sizes, &bottleneck, &err), CS_OK);
    assert_int_equal(sizes[0], 2);
    memory.cap = 5.5;
    alive[1] = 0.5; /* three layers on stage 1 hold 4.5 */
    assert_int_equal(cs_split_capped(cost, 4, 2, &memory, sizes, &bottleneck, &err), CS_OK);
    assert_int_equal(sizes[0], 1);
    assert_true(bottleneck == 3);
    memory.cap = 2;
    assert_int_equal(cs_split_capped(cost, 4, 2, &memory, sizes, &bottleneck, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "4 layers"));
    memory.cap = 0;
    assert_int_equal(cs_split_capped(cost, 4, 2, &memory, sizes, &bottleneck, &err), CS_OK);
    assert_int_equal(sizes[0], 2);
}

static void impossible_requests_are_refused(void **state)
{
    (void)state;
    double cost[] = {1, 2, 3};
    int sizes[8];
    double bottleneck;
    struct cs_err err;
    assert_int_equal(cs_split(cost, 3, 4, sizes, &bottleneck, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "4 stages for 3 layers"));
    assert_int_equal(cs_split(cost, 3, 0, sizes, &bottleneck, &err), CS_PLAN);
    cost[1] = NAN;
    assert_int_equal(cs_split(cost, 3, 2, sizes, &bottleneck, &err), CS_INVALID);
    cost[1] = -1;
    assert_int_equal(cs_split(cost, 3, 2, sizes, &bottleneck, &err), CS_INVALID);
    cost[1] = INFINITY;
    assert_int_equal(cs_split(cost, 3, 2, sizes, &bottleneck, &err), CS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_to_nine_on_three_is_17),
        cmocka_unit_test(heavy_ends_on_three_is_5),
        cmocka_unit_test(seven_equal_layers_cut_earliest),
        cmocka_unit_test(frozen_aware_is_24_and_blind_is_32),
        cmocka_unit_test(shared_stages_are_22_8_5_6_and_14_13_7_7),
        cmocka_unit_test(zero_costs_still_give_every_stage_a_layer),
        cmocka_unit_test(memory_cap_moves_the_cut),
        cmocka_unit_test(impossible_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
