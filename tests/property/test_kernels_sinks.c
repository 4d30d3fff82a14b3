/* Attention sinks on random shapes and masks (fixed seed) against a naive fp64 softmax in which the
 * sink is one more key, with its score given and its value 0: forward and all gradients. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/ops.h"
#include "support/random_mask.h"

enum { ROUNDS = 80, MOST = 160 };

static uint64_t seed;

static int between(int lo, int hi)
{
    return cs_test_random_between(&seed, lo, hi);
}

static void *room(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    assert_non_null(p);
    return p;
}

static float *new_floats(int n)
{
    float *x = room((size_t)n, sizeof *x);
    for (int i = 0; i < n; i++)
        x[i] = (float)cs_test_random_bits(&seed) / 1073741824.0f - 1.0f;
    return x;
}

struct trial {
    struct cs_attention_shape s;
    struct cs_test_mask mask;
    float *q, *k, *v, *o, *d_o, *dq, *dk, *dv, *lse, *sink, *dsink;
};

static struct trial *new_trial(void)
{
    static const struct cs_test_mask_options slots = {
        .most_docs = 4, .longest = MOST / 4, .blind_of = 15};
    struct trial *t = room(1, sizeof *t);
    cs_test_random_mask(&seed, &slots, &t->mask);
    const int kv = between(1, 2), group = between(1, 3), d = between(1, 20),
              n = t->mask.plan.n_tokens;
    t->s = (struct cs_attention_shape){.tokens = n,
                                       .heads = kv * group,
                                       .kv_heads = kv,
                                       .head_dim = d,
                                       .q_stride = kv * group * d,
                                       .kv_stride = kv * d,
                                       .o_stride = kv * group * d,
                                       .scale = 1.5f / sqrtf((float)d),
                                       .softcap = between(0, 1) == 0 ? 0.8f : 0.0f};
    t->q = new_floats(n * t->s.q_stride), t->dq = new_floats(n * t->s.q_stride);
    t->k = new_floats(n * t->s.kv_stride), t->dk = new_floats(n * t->s.kv_stride);
    t->v = new_floats(n * t->s.kv_stride), t->dv = new_floats(n * t->s.kv_stride);
    t->o = new_floats(n * t->s.o_stride), t->d_o = new_floats(n * t->s.o_stride);
    t->lse = new_floats(n * t->s.heads);
    t->sink = new_floats(t->s.heads), t->dsink = room((size_t)t->s.heads, sizeof(float));
    for (int h = 0; h < t->s.heads; h++) /* from next to nothing to nearly all of a row */
        t->sink[h] *= between(0, 3) == 0 ? 12.0f : 3.0f;
    t->s.sink = t->sink;
    t->s.dsink = t->dsink;
    return t;
}

static void trial_free(struct trial *t)
{
    free(t->q), free(t->k), free(t->v), free(t->o), free(t->d_o), free(t->dq), free(t->dk);
    free(t->dv), free(t->lse), free(t->sink), free(t->dsink), free(t);
}

static void run(struct trial *t)
{
    const size_t bytes = cs_ops_cpu()->attention_workspace(&t->s, &t->mask.plan);
    struct cs_ctx ctx = {.workspace = room(bytes, 1), .workspace_bytes = bytes};
    cs_ops_cpu()->attention(&ctx, &t->s, &t->mask.plan, t->q, t->k, t->v, t->o, t->lse);
    cs_ops_cpu()->attention_grad(&ctx, &t->s, &t->mask.plan, t->q, t->k, t->v, t->o, t->lse, t->d_o,
                                 t->dq, t->dk, t->dv);
    free(ctx.workspace);
}

/* ---- the naive softmax ---- */

struct naive {
    double *o, *lse, *dq, *dk, *dv, *dsink;
};

static double dot(const float *a, const float *b, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* p (n + 1) of row i and head h, the sink last; slope: of the cap. Returns the log of the sum. */
static double shares(const struct trial *t, int i, int h, double *p, double *slope)
{
    const int n = t->s.tokens, d = t->s.head_dim, kv = h / (t->s.heads / t->s.kv_heads);
    const double cap = (double)t->s.softcap;
    double sum = 0.0;
    for (int j = 0; j < n; j++) {
        const double s = (double)t->s.scale * dot(t->q + i * t->s.q_stride + h * d,
                                                  t->k + j * t->s.kv_stride + kv * d, d);
        const double bent = cap > 0.0 ? tanh(s / cap) : 0.0;
        const bool sees = cs_mask_allows(t->mask.plan.rule, cs_mask_token_at(&t->mask.plan, i),
                                         cs_mask_token_at(&t->mask.plan, j));
        slope[j] = 1.0 - bent * bent;
        p[j] = sees ? exp(cap > 0.0 ? cap * bent : s) : 0.0;
        sum += p[j];
    }
    p[n] = exp((double)t->sink[h]);
    slope[n] = 1.0;
    sum += p[n];
    for (int j = 0; j <= n; j++)
        p[j] /= sum;
    return log(sum);
}

static void naive_row(const struct trial *t, int i, int h, struct naive *r)
{
    const int n = t->s.tokens, d = t->s.head_dim, kv = h / (t->s.heads / t->s.kv_heads);
    const float *q = t->q + i * t->s.q_stride + h * d, *d_o = t->d_o + i * t->s.o_stride + h * d;
    double p[MOST + 1], slope[MOST + 1], dp[MOST + 1], mean = 0.0;
    r->lse[h * n + i] = shares(t, i, h, p, slope);
    for (int j = 0; j <= n; j++) {
        dp[j] = j < n ? dot(d_o, t->v + j * t->s.kv_stride + kv * d, d) : 0.0;
        mean += p[j] * dp[j];
    }
    for (int j = 0; j < n; j++) {
        const int at = j * t->s.kv_stride + kv * d;
        const double ds = p[j] * (dp[j] - mean) * slope[j] * (double)t->s.scale;
        for (int e = 0; e < d; e++) {
            r->o[i * t->s.o_stride + h * d + e] += p[j] * (double)t->v[at + e];
            r->dv[at + e] += p[j] * (double)d_o[e];
            r->dq[i * t->s.q_stride + h * d + e] += ds * (double)t->k[at + e];
            r->dk[at + e] += ds * (double)q[e];
        }
    }
    r->dsink[h] += p[n] * (dp[n] - mean);
}

static void assert_equal(const float *got, const double *want, int n, const char *what)
{
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 4e-5 * (1.0 + fabs(want[i]))))
            fail_msg("%s[%d]: %.9g, want %.9g", what, i, (double)got[i], want[i]);
}

static void a_sink_is_a_key_with_a_given_score_and_no_value(void **state)
{
    (void)state;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        seed = round * 7919;
        struct trial *t = new_trial();
        const int n = t->s.tokens, nq = n * t->s.q_stride, nk = n * t->s.kv_stride;
        const size_t size = sizeof(double);
        struct naive r = {room((size_t)nq, size), room((size_t)(n * t->s.heads), size),
                          room((size_t)nq, size), room((size_t)nk, size),
                          room((size_t)nk, size), room((size_t)t->s.heads, size)};
        run(t);
        for (int h = 0; h < t->s.heads; h++)
            for (int i = 0; i < n; i++)
                naive_row(t, i, h, &r);
        assert_equal(t->o, r.o, nq, "o");
        assert_equal(t->lse, r.lse, n * t->s.heads, "lse");
        assert_equal(t->dq, r.dq, nq, "dq");
        assert_equal(t->dk, r.dk, nk, "dk");
        assert_equal(t->dv, r.dv, nk, "dv");
        assert_equal(t->dsink, r.dsink, t->s.heads, "dsink");
        free(r.o), free(r.lse), free(r.dq), free(r.dk), free(r.dv), free(r.dsink);
        trial_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sink_is_a_key_with_a_given_score_and_no_value),
    };
    return cmocka_run_group_tests_name("kernels/sinks", tests, NULL, NULL);
}
