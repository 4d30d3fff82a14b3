/* Properties of the CPU operators on random shapes (fixed seed), none of which needs an oracle:
 * order and address of the data do not matter to the bit, linear identities hold, hidden tokens are
 * hidden. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops.h"
#include "support/random_mask.h"

#define ROUNDS 60

static uint64_t seed;

static int between(int lo, int hi)
{
    return cs_test_random_between(&seed, lo, hi);
}

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)cs_test_random_bits(&seed) / 1073741824.0f - 1.0f;
}

static void *new_bytes(size_t n)
{
    void *p = calloc(n + 1, 1);
    assert_non_null(p);
    return p;
}

static const struct cs_ops *ops(void)
{
    return cs_ops_cpu();
}

/* ---- attention ---- */

struct attention {
    struct cs_attention_shape s;
    struct cs_test_mask mask;
    float *q, *k, *v, *o, *d_o, *dq, *dk, *dv, *lse;
    void *workspace;
    struct cs_ctx ctx;
};

static float *new_rows(const struct attention *a, int stride)
{
    const size_t n = (size_t)(a->s.tokens * stride);
    float *x = new_bytes(n * sizeof *x);
    fill(x, n);
    return x;
}

static struct attention *new_attention(void)
{
    static const struct cs_test_mask_options slots = {
        .most_docs = 6, .longest = 130, .has_short = true, .blind_of = 20};
    struct attention *a = new_bytes(sizeof *a);
    cs_test_random_mask(&seed, &slots, &a->mask);
    const int kv = between(1, 3), group = between(1, 3), d = between(1, 24);
    a->s = (struct cs_attention_shape){.tokens = a->mask.plan.n_tokens,
                                       .heads = kv * group,
                                       .kv_heads = kv,
                                       .head_dim = d,
                                       .q_stride = kv * group * d,
                                       .kv_stride = kv * d,
                                       .o_stride = kv * group * d,
                                       .scale = 1.0f / sqrtf((float)d),
                                       .softcap = between(0, 2) == 0 ? 3.0f : 0.0f};
    a->q = new_rows(a, a->s.q_stride), a->dq = new_rows(a, a->s.q_stride);
    a->k = new_rows(a, a->s.kv_stride), a->dk = new_rows(a, a->s.kv_stride);
    a->v = new_rows(a, a->s.kv_stride), a->dv = new_rows(a, a->s.kv_stride);
    a->o = new_rows(a, a->s.o_stride), a->d_o = new_rows(a, a->s.o_stride);
    a->lse = new_rows(a, a->s.heads);
    a->ctx.workspace_bytes = ops()->attention_workspace(&a->s, &a->mask.plan);
    a->workspace = a->ctx.workspace = new_bytes(a->ctx.workspace_bytes);
    return a;
}

static void forward(struct attention *a)
{
    ops()->attention(&a->ctx, &a->s, &a->mask.plan, a->q, a->k, a->v, a->o, a->lse);
}

static void both_ways(struct attention *a)
{
    forward(a);
    ops()->attention_grad(&a->ctx, &a->s, &a->mask.plan, a->q, a->k, a->v, a->o, a->lse, a->d_o,
                          a->dq, a->dk, a->dv);
}

static void attention_free(struct attention *a)
{
    free(a->q), free(a->k), free(a->v), free(a->o), free(a->d_o);
    free(a->dq), free(a->dk), free(a->dv), free(a->lse), free(a->workspace), free(a);
}

static bool allows(const struct attention *a, int i, int j)
{
    return cs_mask_allows(a->mask.plan.rule, cs_mask_token_at(&a->mask.plan, i),
                          cs_mask_token_at(&a->mask.plan, j));
}

static bool is_blind(const struct attention *a, int i)
{
    for (int j = 0; j < a->s.tokens; j++)
        if (allows(a, i, j))
            return false;
    return true;
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void probabilities_of_every_row_sum_to_one(void **state)
{
    (void)state;
    for (seed = 1; seed < ROUNDS; seed += 1) {
        const uint64_t round = seed;
        struct attention *a = new_attention();
        const int width = a->s.heads * a->s.head_dim;
        for (int i = 0; i < a->s.tokens * a->s.kv_stride; i++)
            a->v[i] = 1.0f;
        forward(a);
        for (int i = 0; i < a->s.tokens; i++) {
            const double want = is_blind(a, i) ? 0.0 : 1.0;
            for (int j = 0; j < width; j++)
                assert_true(fabs((double)a->o[i * width + j] - want) <= 1e-5);
        }
        attention_free(a);
        seed = round;
    }
}

static void gradients_satisfy_the_linear_identities(void **state)
{
    (void)state;
    for (seed = 1; seed < ROUNDS; seed += 1) {
        const uint64_t round = seed;
        struct attention *a = new_attention();
        both_ways(a);
        const int nq = a->s.tokens * a->s.q_stride, nk = a->s.tokens * a->s.kv_stride;
        const double through_v = dot(a->dv, a->v, nk), through_o = dot(a->d_o, a->o, nq);
        const double through_q = dot(a->dq, a->q, nq), through_k = dot(a->dk, a->k, nk);
        assert_true(fabs(through_v - through_o) <= 1e-4 * (1 + fabs(through_o)));
        assert_true(fabs(through_q - through_k) <= 1e-4 * (1 + fabs(through_k)));
        attention_free(a);
        seed = round;
    }
}

/* Change one key and value: rows that may not see it keep their bits. */
static void hidden_tokens_do_not_change_a_bit(void **state)
{
    (void)state;
    for (seed = 1; seed < ROUNDS; seed += 1) {
        const uint64_t round = seed;
        struct attention *a = new_attention();
        const size_t row = (size_t)a->s.o_stride;
        forward(a);
        float *before = new_bytes((size_t)a->s.tokens * row * sizeof(float));
        memcpy(before, a->o, (size_t)a->s.tokens * row * sizeof(float));
        const int j = between(0, a->s.tokens - 1);
        fill(a->k + j * a->s.kv_stride, (size_t)a->s.kv_stride);
        fill(a->v + j * a->s.kv_stride, (size_t)a->s.kv_stride);
        forward(a);
        for (int i = 0; i < a->s.tokens; i++) {
            const bool is_same =
                memcmp(before + (size_t)i * row, a->o + (size_t)i * row, row * sizeof(float)) == 0;
            assert_true(is_same == !allows(a, i, j));
        }
        free(before);
        attention_free(a);
        seed = round;
    }
}

/* ---- the other operators ---- */

static void products_do_not_depend_on_addresses(void **state)
{
    (void)state;
    static float a[6000], b[6000], c[6000], first[6000];
    struct cs_ctx ctx = {0};
    for (seed = 1; seed < 200; seed++) {
        const uint64_t round = seed;
        const int m = between(1, 70), n = between(1, 70), k = between(1, 70);
        const int ta = between(0, 1), tb = between(0, 1);
        for (int shift = 0; shift < 3; shift++) {
            seed = round * 1000;
            fill(a + 5 * shift, (size_t)(m * k));
            fill(b + 3 * shift, (size_t)(n * k));
            ops()->gemm(&ctx, ta, tb, m, n, k, 1.0f, a + 5 * shift, ta ? m : k, b + 3 * shift,
                        tb ? k : n, 0.0f, c + shift, n);
            if (shift == 0)
                memcpy(first, c, sizeof first);
            assert_memory_equal(first, c + shift, (size_t)(m * n) * sizeof *c);
        }
        seed = round;
    }
}

static void adamw_in_pieces_equals_adamw_at_once(void **state)
{
    (void)state;

    enum { N = 3000 };

    static float g[N], w[2][N], m[2][N], v[2][N];
    struct cs_ctx ctx = {0};
    for (seed = 1; seed < ROUNDS; seed++) {
        const uint64_t round = seed;
        const struct cs_adamw h = {.lr = 0.01f,
                                   .beta1 = 0.9f,
                                   .beta2 = 0.99f,
                                   .eps = 1e-6f,
                                   .weight_decay = 0.1f,
                                   .grad_scale = 0.5f,
                                   .step = between(1, 1000)};
        fill(g, N), fill(w[0], N), fill(m[0], N), fill(v[0], N);
        for (int i = 0; i < N; i++)
            v[0][i] *= v[0][i];
        memcpy(w[1], w[0], sizeof w[0]), memcpy(m[1], m[0], sizeof m[0]);
        memcpy(v[1], v[0], sizeof v[0]);
        ops()->adamw(&ctx, N, &h, g, w[0], m[0], v[0], NULL);
        for (int at = 0, n; at < N; at += n) {
            n = between(1, 700);
            n = n < N - at ? n : N - at;
            ops()->adamw(&ctx, n, &h, g + at, w[1] + at, m[1] + at, v[1] + at, NULL);
        }
        assert_memory_equal(w[0], w[1], sizeof w[0]);
        assert_memory_equal(m[0], m[1], sizeof m[0]);
        assert_memory_equal(v[0], v[1], sizeof v[0]);
        seed = round;
    }
}

static void rms_norm_gradient_is_orthogonal_to_its_input(void **state)
{
    (void)state;
    static float x[600], w[600], dy[600], y[600], dx[600], stat[2];
    struct cs_ctx ctx = {0};
    for (seed = 1; seed < ROUNDS; seed++) {
        const uint64_t round = seed;
        const int n = between(2, 600);
        fill(x, (size_t)n), fill(w, (size_t)n), fill(dy, (size_t)n);
        ops()->norm(&ctx, CS_NORM_RMS, 1, n, 0.0f, 1.0f, x, w, NULL, y, stat);
        ops()->norm_grad(&ctx, CS_NORM_RMS, 1, n, 1.0f, x, w, stat, dy, NULL, dx, NULL, NULL);
        assert_true(fabs(dot(dx, x, n)) <= 1e-5 * n); /* the norm ignores the length of x */
        seed = round;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probabilities_of_every_row_sum_to_one),
        cmocka_unit_test(gradients_satisfy_the_linear_identities),
        cmocka_unit_test(hidden_tokens_do_not_change_a_bit),
        cmocka_unit_test(products_do_not_depend_on_addresses),
        cmocka_unit_test(adamw_in_pieces_equals_adamw_at_once),
        cmocka_unit_test(rms_norm_gradient_is_orthogonal_to_its_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
