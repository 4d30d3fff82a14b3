/* Fused operators and lists of the CPU back end give, to the bit, what the plain operators give in
 * their order: training must not depend on which of them a caller picks. */
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

#define MAX 4096

static uint32_t seed = 1;

static void fill(float *x, int n)
{
    for (int i = 0; i < n; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

static void poison(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = NAN;
}

static const struct cs_ops *ops(void)
{
    return cs_ops_cpu();
}

static struct cs_ctx ctx;

static const int shapes[][3] = {
    {0,  3,  4 },
    {1,  1,  1 },
    {5,  7,  9 },
    {16, 32, 24},
    {3,  0,  6 },
};

struct layer {
    int rows, in, out, ldx;
    enum cs_act act;
    bool has_bias, has_residual, has_pre;
};

static void one_layer(const struct layer *l)
{
    static float x[MAX], w[MAX], bias[MAX], residual[MAX], pre[MAX], y[MAX], want_pre[MAX],
        want[MAX];
    const int n = l->rows * l->out;
    fill(x, MAX);
    fill(w, MAX);
    fill(bias, MAX);
    fill(residual, MAX);
    poison(pre, MAX);
    poison(y, MAX);
    poison(want_pre, MAX);
    poison(want, MAX);
    ops()->gemm(&ctx, 0, 1, l->rows, l->out, l->in, 1.0f, x, l->ldx, w, l->in, 0.0f, want_pre,
                l->out);
    if (l->has_bias)
        ops()->bias_add(&ctx, l->rows, l->out, want_pre, l->out, bias);
    if (l->act != CS_ACT_NONE)
        ops()->act(&ctx, l->act, n, want_pre, want);
    else
        memcpy(want, want_pre, (size_t)n * sizeof *want);
    if (l->has_residual)
        ops()->add(&ctx, n, residual, want, want);
    ops()->linear(&ctx, l->rows, l->in, l->out, x, l->ldx, w, l->has_bias ? bias : NULL,
                  l->has_residual ? residual : NULL, l->act, l->has_pre ? pre : NULL, y);
    assert_memory_equal(y, want, sizeof y);
    if (l->has_pre)
        assert_memory_equal(pre, want_pre, sizeof pre);
}

static void a_linear_layer_is_product_bias_activation_and_sum(void **state)
{
    (void)state;
    for (size_t s = 0; s < CS_ARRAY_LEN(shapes); s++)
        for (int act = 0; act < CS_ACT_KINDS; act++)
            for (int has = 0; has < 8; has++) {
                const struct layer l = {.rows = shapes[s][0],
                                        .in = shapes[s][1],
                                        .out = shapes[s][2],
                                        .ldx = shapes[s][1] + (has & 1 ? 3 : 1),
                                        .act = (enum cs_act)act,
                                        .has_bias = (has & 1) != 0,
                                        .has_residual = (has & 2) != 0,
                                        .has_pre = (has & 4) != 0 && act != CS_ACT_NONE};
                one_layer(&l);
            }
}

static void its_gradients_are_product_slope_and_column_sums(void **state)
{
    (void)state;
    static float dy[MAX], x[MAX], w[MAX], pre[MAX], dx[MAX], want[MAX], dw[2][MAX], db[2][MAX];
    for (size_t s = 0; s < CS_ARRAY_LEN(shapes); s++)
        for (int act = 0; act < CS_ACT_KINDS; act++) {
            const int rows = shapes[s][0], in = shapes[s][1], out = shapes[s][2];
            fill(dy, MAX);
            fill(x, MAX);
            fill(w, MAX);
            fill(pre, MAX);
            poison(dx, MAX);
            poison(want, MAX);
            ops()->gemm(&ctx, 0, 0, rows, in, out, 1.0f, dy, out, w, in, 0.0f, want, in);
            if (act != CS_ACT_NONE)
                ops()->act_grad(&ctx, (enum cs_act)act, (int64_t)rows * in, pre, want, want);
            ops()->linear_dgrad(&ctx, rows, in, out, dy, w, (enum cs_act)act,
                                act != CS_ACT_NONE ? pre : NULL, dx);
            assert_memory_equal(dx, want, sizeof dx);
            fill(dw[0], MAX);
            fill(db[0], MAX);
            memcpy(dw[1], dw[0], sizeof dw[0]);
            memcpy(db[1], db[0], sizeof db[0]);
            ops()->gemm_wgrad(&ctx, rows, out, in, dy, out, x, in, dw[0]);
            ops()->bias_grad(&ctx, rows, out, dy, out, db[0]);
            ops()->linear_wgrad(&ctx, rows, in, out, dy, x, dw[1], NULL);
            ops()->linear_wgrad(&ctx, rows, in, out, dy, x, NULL, db[1]);
            assert_memory_equal(dw[0], dw[1], sizeof dw[0]);
            assert_memory_equal(db[0], db[1], sizeof db[0]);
        }
}

static void sum_and_norm_are_the_sum_then_the_norm(void **state)
{
    (void)state;

    enum { ROWS = 7, N = 37 };

    static float a[ROWS * N], b[ROWS * N], w[N], bias[N], sum[2][ROWS * N], y[2][ROWS * N];
    float stat[2][2 * ROWS];
    for (int kind = 0; kind < CS_NORM_KINDS; kind++)
        for (int is_in_place = 0; is_in_place < 2; is_in_place++) {
            fill(a, ROWS * N);
            fill(b, ROWS * N);
            fill(w, N);
            fill(bias, N);
            const float *own_bias = kind == CS_NORM_LAYER ? bias : NULL;
            ops()->add(&ctx, ROWS * N, a, b, sum[0]);
            ops()->norm(&ctx, (enum cs_norm)kind, ROWS, N, 1e-5f, 1.0f, sum[0], w, own_bias, y[0],
                        stat[0]);
            memcpy(sum[1], b, sizeof b);
            ops()->add_norm(&ctx, (enum cs_norm)kind, ROWS, N, 1e-5f, 1.0f, a,
                            is_in_place ? sum[1] : b, w, own_bias, sum[1], y[1], stat[1]);
            assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
            assert_memory_equal(y[0], y[1], sizeof y[0]);
            assert_memory_equal(stat[0], stat[1], sizeof stat[0]);
            ops()->add_norm(&ctx, (enum cs_norm)kind, 0, N, 1e-5f, 1.0f, NULL, NULL, w, own_bias,
                            NULL, NULL, NULL);
        }
}

/* Heads between other columns, at unequal distances, against the norm of rows that are heads. */
static void norms_of_heads_are_norms_of_rows(void **state)
{
    enum { ROWS = 5, HEADS = 3, LD_X = 97, LD_Y = 83, LD_DX = 90 };

    static const int sizes[] = {1, 8, 20, 24};
    static float x[MAX], w[MAX], y[MAX], stat[MAX], dy[MAX], dx[MAX], dw[MAX];
    static float rows[MAX], want[MAX], want_stat[MAX], dy_rows[MAX], want_dx[MAX], want_dw[MAX];
    (void)state;
    for (size_t k = 0; k < 2 * CS_ARRAY_LEN(sizes); k++) {
        const int n = sizes[k / 2], all = ROWS * HEADS;
        const bool has_weight = k % 2 == 0;
        const float offset = k % 4 == 0 ? 1.0f : 0.0f;
        fill(x, MAX);
        fill(dy, MAX);
        fill(dx, MAX);
        for (int i = 0; i < n; i++)
            w[i] = has_weight ? 0.1f * (float)i : 1.0f;
        for (int i = 0; i < all; i++) {
            memcpy(rows + i * n, x + i / HEADS * LD_X + i % HEADS * n, (size_t)n * sizeof *x);
            memcpy(dy_rows + i * n, dy + i / HEADS * LD_Y + i % HEADS * n, (size_t)n * sizeof *x);
        }
        ops()->norm(&ctx, CS_NORM_RMS, all, n, 1e-5f, has_weight ? offset : 0, rows, w, NULL, want,
                    want_stat);
        poison(y, MAX);
        ops()->norm_heads(&ctx, ROWS, HEADS, n, 1e-5f, offset, x, LD_X, has_weight ? w : NULL, NULL,
                          y, LD_Y, stat);
        memset(want_dw, 0, sizeof want_dw);
        memset(dw, 0, sizeof dw);
        ops()->norm_grad(&ctx, CS_NORM_RMS, all, n, has_weight ? offset : 0, rows, w, want_stat,
                         dy_rows, NULL, want_dx, want_dw, NULL);
        memcpy(rows, dx, sizeof rows); /* as it was */
        ops()->norm_heads_grad(&ctx, ROWS, HEADS, n, offset, x, LD_X, has_weight ? w : NULL, stat,
                               NULL, dy, LD_Y, dx, LD_DX, k / 2 % 2 == 1, has_weight ? dw : NULL);
        for (int i = 0; i < all * n; i++) {
            const int head = i / n, at = head / HEADS * LD_DX + head % HEADS * n + i % n;
            const float before = k / 2 % 2 == 1 ? rows[at] : 0.0f;
            assert_true(y[head / HEADS * LD_Y + head % HEADS * n + i % n] == want[i]);
            assert_true(fabsf(dx[at] - (before + want_dx[i])) <=
                        1e-6f * (1.0f + fabsf(want_dx[i])));
        }
        assert_true(isnan(y[HEADS * n])); /* nothing beside the heads is written */
        for (int i = 0; i < n; i++)
            assert_true(!has_weight || dw[i] == want_dw[i]);
    }
}

/* Ranks that have some columns of a norm each, as wide as they come, do together what one does. */
static void norms_of_columns_are_norms_of_all(void **state)
{
    enum { ROWS = 4, N = 53, PARTS = 3, LD = 60 };

    static const int at[PARTS + 1] = {0, 8, 33, N};
    static float x[MAX], w[MAX], dy[MAX], y[MAX], dx[MAX], dw[MAX], stat[MAX];
    static float want_y[MAX], want_dx[MAX], want_dw[MAX], want_stat[MAX], part[MAX], sum[MAX];
    (void)state;
    for (int k = 0; k < 2; k++) {
        const float offset = (float)k;
        fill(x, MAX);
        fill(w, MAX);
        fill(dy, MAX);
        memset(want_dw, 0, sizeof want_dw);
        memset(dw, 0, sizeof dw);
        memset(sum, 0, sizeof sum);
        ops()->norm_heads(&ctx, ROWS, 1, N, 1e-5f, offset, x, LD, w, NULL, want_y, LD, want_stat);
        ops()->norm_heads_grad(&ctx, ROWS, 1, N, offset, x, LD, w, want_stat, NULL, dy, LD, want_dx,
                               LD, 0, want_dw);
        const struct cs_norm_all all = {N, sum};
        for (int p = 0; p < PARTS; p++) {
            ops()->norm_heads_sums(&ctx, ROWS, 1, at[p + 1] - at[p], offset, x + at[p], LD, NULL,
                                   NULL, NULL, 0, part);
            for (int r = 0; r < ROWS; r++)
                sum[r] += part[r];
        }
        for (int p = 0; p < PARTS; p++)
            ops()->norm_heads(&ctx, ROWS, 1, at[p + 1] - at[p], 1e-5f, offset, x + at[p], LD,
                              w + at[p], &all, y + at[p], LD, stat);
        memset(sum, 0, sizeof sum);
        for (int p = 0; p < PARTS; p++) {
            ops()->norm_heads_sums(&ctx, ROWS, 1, at[p + 1] - at[p], offset, x + at[p], LD,
                                   w + at[p], stat, dy + at[p], LD, part);
            for (int r = 0; r < ROWS; r++)
                sum[r] += part[r];
        }
        for (int p = 0; p < PARTS; p++)
            ops()->norm_heads_grad(&ctx, ROWS, 1, at[p + 1] - at[p], offset, x + at[p], LD,
                                   w + at[p], stat, &all, dy + at[p], LD, dx + at[p], LD, 0,
                                   dw + at[p]);
        for (int i = 0; i < ROWS * N; i++) {
            const int j = i / N * LD + i % N;
            assert_true(fabsf(y[j] - want_y[j]) <= 2e-6f * (1.0f + fabsf(want_y[j])));
            assert_true(fabsf(dx[j] - want_dx[j]) <= 2e-6f * (1.0f + fabsf(want_dx[j])));
            assert_true(fabsf(dw[i % N] - want_dw[i % N]) <=
                        2e-6f * (1.0f + fabsf(want_dw[i % N])));
        }
    }
}

static void columns_are_scaled_by_a_vector_or_a_number(void **state)
{
    enum { ROWS = 7, N = 19 };

    static float x[MAX], w[MAX], residual[MAX], y[MAX], dw[MAX];
    (void)state;
    fill(x, MAX);
    fill(w, MAX);
    fill(residual, MAX);
    for (int k = 0; k < 4; k++) {
        const int step = k % 2;
        const float *add = k / 2 == 1 ? residual : NULL;
        poison(y, MAX);
        ops()->scale_columns(&ctx, ROWS, N, x, w, step, add, y);
        for (int i = 0; i < ROWS * N; i++)
            assert_true(y[i] == x[i] * w[step * (i % N)] + (add != NULL ? add[i] : 0.0f));
        assert_true(isnan(y[ROWS * N]));
    }
    for (int i = 0; i < N; i++)
        dw[i] = 1.0f;
    ops()->scale_columns_wgrad(&ctx, ROWS, N, x, residual, dw);
    for (int i = 0; i < N; i++) {
        float want = 1.0f;
        for (int r = 0; r < ROWS; r++)
            want += residual[r * N + i] * x[r * N + i];
        assert_true(fabsf(dw[i] - want) <= 1e-6f * (1.0f + fabsf(want)));
    }
}

static void lists_of_tensors_are_single_calls(void **state)
{
    (void)state;
    static const int64_t n[] = {5, 0, 700, 16, 1};
    static float grad[MAX], master[2][MAX], m[2][MAX], v[2][MAX], w[2][MAX];
    struct cs_adamw hyper = {1e-3f, 0.9f, 0.95f, 1e-8f, 123.0f, 0.5f, 4};
    struct cs_adamw_tensor list[CS_ARRAY_LEN(n)];
    struct cs_sumsq_tensor squares[CS_ARRAY_LEN(n)];
    double sum[CS_ARRAY_LEN(n)], one;
    fill(grad, MAX);
    for (int i = 0; i < 2; i++) {
        seed = 99;
        fill(master[i], MAX);
        fill(m[i], MAX);
        fill(v[i], MAX);
        for (int j = 0; j < MAX; j++)
            v[i][j] = fabsf(v[i][j]);
        poison(w[i], MAX);
    }
    int64_t at = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(n); i++) {
        const float decay = i % 2 == 0 ? 0.1f : 0.0f;
        list[i] = (struct cs_adamw_tensor){n[i],
                                           decay,
                                           grad + at,
                                           master[0] + at,
                                           m[0] + at,
                                           v[0] + at,
                                           i == 2   ? NULL
                                           : i == 3 ? master[0] + at
                                                    : w[0] + at};
        squares[i] = (struct cs_sumsq_tensor){n[i], grad + at};
        hyper.weight_decay = decay;
        ops()->adamw(&ctx, n[i], &hyper, grad + at, master[1] + at, m[1] + at, v[1] + at,
                     i == 2   ? NULL
                     : i == 3 ? master[1] + at
                              : w[1] + at);
        at += n[i];
    }
    hyper.weight_decay = 123.0f; /* not the list's */
    ops()->adamw_many(&ctx, CS_ARRAY_LEN(n), list, &hyper);
    assert_memory_equal(master[0], master[1], sizeof master[0]);
    assert_memory_equal(m[0], m[1], sizeof m[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
    assert_memory_equal(w[0], w[1], sizeof w[0]);
    ops()->sumsq_many(&ctx, CS_ARRAY_LEN(n), squares, sum);
    for (size_t i = 0; i < CS_ARRAY_LEN(n); i++) {
        ops()->sumsq(&ctx, n[i], squares[i].x, &one);
        assert_memory_equal(&sum[i], &one, sizeof one);
    }
}

static void casts_copy_and_scaled_sums_round_each_product(void **state)
{
    (void)state;

    enum { N = 1003 };

    static float x[N], y[N], out[N], sum[N];
    fill(x, N);
    poison(out, N);
    ops()->cast_to_act(&ctx, N, x, out);
    assert_memory_equal(out, x, sizeof x);
    poison(out, N);
    ops()->cast_to_f32(&ctx, N, x, out);
    assert_memory_equal(out, x, sizeof x);
    poison(out, N);
    ops()->scale_add(&ctx, N, 0.3f, x, 0.0f, out);
    fill(y, N);
    memcpy(sum, y, sizeof y);
    ops()->scale_add(&ctx, N, 0.3f, x, -1.1f, y);
    for (int i = 0; i < N; i++) {
        const float first = 0.3f * x[i], second = -1.1f * sum[i];
        assert_true(out[i] == first);
        assert_true(y[i] == first + second);
    }
    /* the sum of two gradients, as add gives it */
    memcpy(y, sum, sizeof y);
    ops()->add(&ctx, N, x, y, out);
    ops()->scale_add(&ctx, N, 1.0f, x, 1.0f, y);
    assert_memory_equal(y, out, sizeof y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_linear_layer_is_product_bias_activation_and_sum),
        cmocka_unit_test(its_gradients_are_product_slope_and_column_sums),
        cmocka_unit_test(sum_and_norm_are_the_sum_then_the_norm),
        cmocka_unit_test(norms_of_heads_are_norms_of_rows),
        cmocka_unit_test(norms_of_columns_are_norms_of_all),
        cmocka_unit_test(columns_are_scaled_by_a_vector_or_a_number),
        cmocka_unit_test(lists_of_tensors_are_single_calls),
        cmocka_unit_test(casts_copy_and_scaled_sums_round_each_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
