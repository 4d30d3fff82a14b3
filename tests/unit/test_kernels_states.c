/* Gradients, weights and moments in bf16: rounding, AdamW without masters, and what operators add
 * to bf16 gradients. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/buf.h"
#include "kernels/ops.h"
#include "kernels/round.h"

static const struct cs_ops *ops(void)
{
    return cs_ops_cpu();
}

static uint32_t seed = 1;

static float draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

static void fill(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = draw();
}

static void fill_bf16(uint16_t *x, int64_t n, float scale)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = cs_round_nearest(draw() * scale);
}

/* ---- rounding ---- */

static void random_bits_are_philox2x32_7(void **state)
{
    (void)state;
    assert_true(cs_round_random(0, 0) == UINT64_C(0xcd26be2a257a3673));
    assert_true(cs_round_random(UINT64_C(0xffffffff), UINT64_MAX) == UINT64_C(0x3dc9d239ab302c4d));
    assert_true(cs_round_random(1, 0) != cs_round_random(UINT64_C(1) << 32, 0));
    assert_true(cs_round_random(0, 1) != cs_round_random(0, UINT64_C(1) << 32));
}

static void neighbours_share_one_value(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        const uint64_t both = cs_round_random(5, i + (UINT64_C(1) << 40));
        const uint64_t first = 2 * i + (UINT64_C(1) << 41);
        assert_true(cs_round_element(5, first) == (uint32_t)both);
        assert_true(cs_round_element(5, first + 1) == (uint32_t)(both >> 32));
    }
}

static void nearest_is_to_even(void **state)
{
    (void)state;

    static const struct {
        float x;
        uint16_t want;
    } row[] = {
        {1.0f,          0x3f80},
        {1.00390625f,   0x3f80},
        {1.01171875f,   0x3f82},
        {1.00390637f,   0x3f81},
        {-1.00390637f,  0xbf81},
        {0.0f,          0x0000},
        {3.4028235e38f, 0x7f80},
        {INFINITY,      0x7f80},
        {NAN,           0x7fff},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(row); i++)
        assert_int_equal(cs_round_nearest(row[i].x), row[i].want);
}

static void what_is_representable_is_not_rounded(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const float x = cs_round_widen((uint16_t)bits);
        for (uint32_t random = 0; random < 0x10000; random += 0x3333)
            if (isnan(x))
                assert_int_equal(cs_round_stochastic(x, random), CS_ROUND_NAN);
            else
                assert_int_equal(cs_round_stochastic(x, random), bits);
    }
}

/* Over all 65536 random values the mean is the number itself. */
static void mean_of_stochastic_rounding_is_the_number(void **state)
{
    (void)state;
    static const float x[] = {1.001f, -1.001f, 3.14159274f, 1e-30f, 65535.7f, -0.3333333f};
    for (size_t i = 0; i < CS_ARRAY_LEN(x); i++) {
        double sum = 0.0;
        for (uint32_t random = 0; random < 0x10000; random++)
            sum += (double)cs_round_widen(cs_round_stochastic(x[i], random));
        const double mean = sum / 65536.0;
        assert_true(fabs(mean - (double)x[i]) <= 1e-7 * fabs((double)x[i]));
    }
}

/* The bits that elements, steps and tensors get behave as independent draws: the mean of a tensor
 * is that of its values within five standard deviations, for each of the three places of bits. */
static void rounding_of_a_tensor_is_unbiased(void **state)
{
    (void)state;

    enum { N = 1 << 18 };

    static const int place[] = {CS_ROUND_WEIGHT, CS_ROUND_AVG, CS_ROUND_AVG_SQ};

    const float x = 1.0f + 0.3f / 128.0f; /* 0.3 between 1 and the next bf16 */
    for (uint64_t key = 1; key < 4; key++)
        for (int k = 0; k < 3; k++) {
            int64_t up = 0;
            for (uint64_t i = 0; i < N; i++)
                up += cs_round_stochastic(x, cs_round_element(key, i) >> place[k]) > 0x3f80;
            const double share = (double)up / N, sigma = sqrt(0.3 * 0.7 / N);
            assert_true(fabs(share - 0.3) <= 5.0 * sigma);
        }
}

/* Although the three values of an element share bits, whether one is rounded up says nothing about
 * the others: shares of pairs are products within five standard deviations. So for neighbours. */
static void values_of_an_element_round_independently(void **state)
{
    (void)state;

    enum { N = 1 << 20 };

    static const struct {
        int a, b;      /* places */
        uint64_t step; /* to the element of b */
    } pair[] = {
        {CS_ROUND_WEIGHT, CS_ROUND_AVG,    0},
        {CS_ROUND_WEIGHT, CS_ROUND_AVG_SQ, 0},
        {CS_ROUND_AVG,    CS_ROUND_AVG_SQ, 0},
        {CS_ROUND_WEIGHT, CS_ROUND_WEIGHT, 1},
        {CS_ROUND_AVG,    CS_ROUND_WEIGHT, 1},
        {CS_ROUND_AVG_SQ, CS_ROUND_AVG_SQ, 1},
    };

    const float x = 1.0f + 0.3f / 128.0f, y = 1.0f + 0.45f / 128.0f;
    for (size_t k = 0; k < CS_ARRAY_LEN(pair); k++) {
        int64_t both = 0;
        for (uint64_t i = 0; i < N; i++)
            both +=
                cs_round_stochastic(x, cs_round_element(3, i) >> pair[k].a) > 0x3f80 &&
                cs_round_stochastic(y, cs_round_element(3, i + pair[k].step) >> pair[k].b) > 0x3f80;
        const double want = 0.3 * 0.45, sigma = sqrt(want * (1.0 - want) / N);
        assert_true(fabs((double)both / N - want) <= 5.0 * sigma);
    }
}

/* ---- AdamW ---- */

static struct cs_ctx ctx = {.grad = CS_GRAD_BF16};

static void update_does_not_depend_on_how_a_tensor_is_cut(void **state)
{
    (void)state;

    enum { N = 1000 };

    static const int64_t cut[] = {0, 1, 1, 16, 500, 999, N};
    uint16_t grad[N], w[2][N], m[2][N], v[2][N];
    struct cs_adamw_bf16_tensor part[CS_ARRAY_LEN(cut) - 1];
    const struct cs_adamw hyper = {1e-3f, 0.9f, 0.999f, 1e-8f, 123.0f, 0.5f, 3};
    fill_bf16(grad, N, 1.0f);
    fill_bf16(w[0], N, 1.0f);
    fill_bf16(m[0], N, 0.1f);
    for (int i = 0; i < N; i++)
        v[0][i] = cs_round_nearest(fabsf(draw()));
    memcpy(w[1], w[0], sizeof w[0]);
    memcpy(m[1], m[0], sizeof m[0]);
    memcpy(v[1], v[0], sizeof v[0]);
    const struct cs_adamw_bf16_tensor whole = {N, 0.1f, 77, 0, grad, w[0], m[0], v[0]};
    ops()->adamw_bf16_many(&ctx, 1, &whole, &hyper);
    for (size_t i = 0; i + 1 < CS_ARRAY_LEN(cut); i++)
        part[i] = (struct cs_adamw_bf16_tensor){
            cut[i + 1] - cut[i], 0.1f,          77,           cut[i], grad + cut[i],
            w[1] + cut[i],       m[1] + cut[i], v[1] + cut[i]};
    ops()->adamw_bf16_many(&ctx, CS_ARRAY_LEN(part), part, &hyper);
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    assert_memory_equal(m[0], m[1], sizeof m[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
}

/* Steps of 1e-4 at 1.0, a fortieth of what nearest rounding would need to move: the mean of many
 * weights goes where one with a master goes, and so do the moments. */
static void small_updates_are_not_lost(void **state)
{
    (void)state;

    enum { N = 4096, STEPS = 150 };

    static uint16_t grad[N], w[N], m[N], v[N];
    float one_grad = 0.25f, master = 1.0f, exp_avg = 0.0f, exp_avg_sq = 0.0f;
    for (int i = 0; i < N; i++) {
        grad[i] = cs_round_nearest(one_grad);
        w[i] = cs_round_nearest(1.0f);
        m[i] = v[i] = 0;
    }
    for (int step = 1; step <= STEPS; step++) {
        const struct cs_adamw h = {1e-4f, 0.9f, 0.999f, 1e-8f, 0.0f, 1.0f, step};
        const struct cs_adamw_bf16_tensor t = {N, 0.0f, (uint64_t)step * 12345, 0, grad, w, m, v};
        ops()->adamw_bf16_many(&ctx, 1, &t, &h);
        ops()->adamw(&ctx, 1, &h, &one_grad, &master, &exp_avg, &exp_avg_sq, NULL);
    }
    double mean[3] = {0};
    for (int i = 0; i < N; i++) {
        mean[0] += (double)cs_round_widen(w[i]) / N;
        mean[1] += (double)cs_round_widen(m[i]) / N;
        mean[2] += (double)cs_round_widen(v[i]) / N;
    }
    assert_true(fabs((double)master - 0.985) <= 1e-4);
    assert_true(fabs(mean[0] - (double)master) <= 5e-4);
    assert_true(fabs(mean[1] - (double)exp_avg) <= 1e-3 * (double)exp_avg);
    assert_true(fabs(mean[2] - (double)exp_avg_sq) <= 5e-3 * (double)exp_avg_sq);
}

/* Nearest rounding would leave the second moment where it is: it loses a thousandth a step. */
static void second_moment_decays(void **state)
{
    (void)state;

    enum { N = 2048, STEPS = 1000 };

    static uint16_t grad[N], w[N], m[N], v[N];
    double mean = 0.0;
    for (int i = 0; i < N; i++)
        v[i] = cs_round_nearest(1.0f);
    for (int step = 1; step <= STEPS; step++) {
        const struct cs_adamw h = {0.0f, 0.9f, 0.999f, 1e-8f, 0.0f, 1.0f, step};
        const struct cs_adamw_bf16_tensor t = {N, 0.0f, (uint64_t)step, 0, grad, w, m, v};
        ops()->adamw_bf16_many(&ctx, 1, &t, &h);
    }
    for (int i = 0; i < N; i++)
        mean += (double)cs_round_widen(v[i]) / N;
    assert_true(fabs(mean - pow(0.999, STEPS)) <= 0.01);
}

static void gradient_that_is_not_finite_shows(void **state)
{
    (void)state;
    const uint16_t grad[2] = {0x7fc0, 0x7f80};
    uint16_t w[2] = {0}, m[2] = {0}, v[2] = {0};
    double sum[2];
    const struct cs_sumsq_tensor x[2] = {
        {1, grad    },
        {1, grad + 1}
    };
    const struct cs_adamw h = {1e-3f, 0.9f, 0.999f, 1e-8f, 0.0f, 1.0f, 1};
    const struct cs_adamw_bf16_tensor t = {2, 0.0f, 5, 0, grad, w, m, v};
    ops()->sumsq_many(&ctx, 2, x, sum);
    assert_true(isnan(sum[0]));
    assert_true(isinf(sum[1]));
    ops()->adamw_bf16_many(&ctx, 1, &t, &h);
    assert_int_equal(w[0], CS_ROUND_NAN);
    assert_int_equal(m[1], 0x7f80);
}

/* ---- gradients ---- */

enum { ROWS = 37, IN = 530, OUT = 19, VOCAB = 40 };

/* what an operator adds to fp32 gradients that are 0, added to bf16 ones: equal but for the order
 * of sums, which may give the number next to it */
static void same_gradient(const uint16_t *got, const uint16_t *before, const float *sum, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double want = (double)cs_round_widen(before[i]) + (double)sum[i];
        const double d = fabs((double)cs_round_widen(got[i]) - want);
        if (!(d <= fabs(want) / 256.0 + 2e-5))
            fail_msg("element %lld: %.9g, not %.9g", (long long)i, (double)cs_round_widen(got[i]),
                     want);
    }
}

struct pair {
    uint16_t grad[VOCAB * IN], before[VOCAB * IN];
    float sum[VOCAB * IN];
};

static void prepare(struct pair *p)
{
    fill_bf16(p->before, VOCAB * IN, 1.0f);
    memcpy(p->grad, p->before, sizeof p->grad);
    memset(p->sum, 0, sizeof p->sum);
}

static void operators_add_in_fp32_and_round_once(void **state)
{
    (void)state;
    static float x[ROWS * IN], dy[ROWS * IN], w[IN], dx[ROWS * IN], stat[ROWS * 2];
    static struct pair a, b;
    static int32_t ids[ROWS];
    struct cs_ctx wide = {.grad = CS_GRAD_F32};
    fill(x, ROWS * IN);
    fill(dy, ROWS * IN);
    fill(w, IN);
    for (int i = 0; i < ROWS; i++) {
        stat[2 * i] = draw() * 0.1f;
        stat[2 * i + 1] = 1.5f;
        ids[i] = i % 5 == 0 ? -1 : i % 7;
    }
    prepare(&a);
    prepare(&b);
    ops()->linear_wgrad(&ctx, ROWS, IN, OUT, dy, x, a.grad, b.grad);
    ops()->linear_wgrad(&wide, ROWS, IN, OUT, dy, x, a.sum, b.sum);
    same_gradient(a.grad, a.before, a.sum, VOCAB * IN);
    same_gradient(b.grad, b.before, b.sum, VOCAB * IN);
    prepare(&a);
    prepare(&b);
    ops()->norm_grad(&ctx, CS_NORM_LAYER, ROWS, IN, 0, x, w, stat, dy, NULL, dx, a.grad, b.grad);
    ops()->norm_grad(&wide, CS_NORM_LAYER, ROWS, IN, 0, x, w, stat, dy, NULL, dx, a.sum, b.sum);
    same_gradient(a.grad, a.before, a.sum, VOCAB * IN);
    same_gradient(b.grad, b.before, b.sum, VOCAB * IN);
    prepare(&a);
    ops()->embed_grad(&ctx, ROWS, IN, ids, dy, 0.7f, a.grad);
    ops()->embed_grad(&wide, ROWS, IN, ids, dy, 0.7f, a.sum);
    same_gradient(a.grad, a.before, a.sum, VOCAB * IN);
}

static void loss_adds_to_bf16_gradients(void **state)
{
    (void)state;
    static float x[ROWS * IN], w[VOCAB * IN], dx[ROWS * IN];
    static struct pair a;
    int32_t labels[ROWS];
    double loss[2] = {0};
    const size_t bytes = ops()->linear_xent_workspace(ROWS, IN, VOCAB);
    struct cs_ctx own = {
        .grad = CS_GRAD_BF16, .workspace = malloc(bytes), .workspace_bytes = bytes};
    assert_non_null(own.workspace);
    fill(x, ROWS * IN);
    fill(w, VOCAB * IN);
    prepare(&a);
    for (int i = 0; i < ROWS; i++)
        labels[i] = i % VOCAB;
    ops()->linear_xent(&own, ROWS, IN, VOCAB, x, w, labels, 0.0f, &loss[0], NULL, NULL, dx, a.grad);
    own.grad = CS_GRAD_F32;
    ops()->linear_xent(&own, ROWS, IN, VOCAB, x, w, labels, 0.0f, &loss[1], NULL, NULL, dx, a.sum);
    assert_true(loss[0] == loss[1]);
    same_gradient(a.grad, a.before, a.sum, VOCAB * IN);
    free(own.workspace);
}

static void squares_of_bf16_are_those_of_its_values(void **state)
{
    (void)state;
    uint16_t x[1000];
    double want = 0.0, sum = -1.0;
    fill_bf16(x, 1000, 3.0f);
    for (int i = 0; i < 1000; i++)
        want += (double)cs_round_widen(x[i]) * (double)cs_round_widen(x[i]);
    ops()->sumsq(&ctx, 1000, x, &sum);
    assert_true(fabs(sum - want) <= 1e-12 * want);
    ops()->sumsq(&ctx, 0, x, &sum);
    assert_true(sum == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_bits_are_philox2x32_7),
        cmocka_unit_test(nearest_is_to_even),
        cmocka_unit_test(what_is_representable_is_not_rounded),
        cmocka_unit_test(mean_of_stochastic_rounding_is_the_number),
        cmocka_unit_test(rounding_of_a_tensor_is_unbiased),
        cmocka_unit_test(neighbours_share_one_value),
        cmocka_unit_test(values_of_an_element_round_independently),
        cmocka_unit_test(update_does_not_depend_on_how_a_tensor_is_cut),
        cmocka_unit_test(small_updates_are_not_lost),
        cmocka_unit_test(second_moment_decays),
        cmocka_unit_test(gradient_that_is_not_finite_shows),
        cmocka_unit_test(operators_add_in_fp32_and_round_once),
        cmocka_unit_test(loss_adds_to_bf16_gradients),
        cmocka_unit_test(squares_of_bf16_are_those_of_its_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
