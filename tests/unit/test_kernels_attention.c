/* Attention of the CPU back end: forward and gradient against a naive fp64 version that asks
 * cs_mask_allows for every pair, that version's own gradient against central differences, strides,
 * grouped heads, rows that see nothing, and packed documents against documents alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops.h"

static uint32_t seed = 1;

static uint32_t rnd_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

static float rnd(void)
{
    return (float)(rnd_bits() >> 8) / 8388608.0f - 1.0f;
}

static void *new_floats(size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i <= n; i++)
        x[i] = rnd();
    return x;
}

static void assert_near(double got, double want, double tol, const char *what, int at)
{
    if (!(fabs(got - want) <= tol * (1.0 + fabs(want))))
        fail_msg("%s[%d]: %.9g, want %.9g", what, at, got, want);
}

/* ---- tokens of a slot ---- */

#define MAX_TOKENS 512

struct slot {
    struct cs_mask_plan plan;
    int32_t doc[MAX_TOKENS], pos[MAX_TOKENS], item[MAX_TOKENS], segment[MAX_TOKENS + 1];
    uint64_t word[MAX_TOKENS];
};

/* Documents of the given lengths; every document mixes text and images of two modalities, unless
 * plain. The content of a document depends on its id only. */
static struct slot *make_slot(struct cs_mask_rule rule, const int32_t *lengths, int n, int first_id,
                              bool plain, bool padded)
{
    struct slot *s = calloc(1, sizeof *s);
    assert_non_null(s);
    int32_t at = 0;
    for (int d = 0; d < n; d++)
        for (int32_t i = 0; i < lengths[d]; i++, at++) {
            const int32_t id = first_id + d, run = (i + 3 * id) / 7;
            const bool is_image = !plain && run % 3 == 1;
            s->doc[at] = id;
            s->pos[at] = i;
            s->item[at] = is_image ? run : -1;
            s->word[at] = is_image ? CS_MASK_MODALITY(run % 2) : CS_MASK_TEXT;
            if (!is_image && !plain)
                s->word[at] |= run % 4 == 0 ? CS_MASK_MODALITY(0) : CS_MASK_MODALITY(1);
            if (padded && (i + id) % 5 == 0)
                s->word[at] = 0;
        }
    s->plan = (struct cs_mask_plan){.rule = rule,
                                    .n_tokens = at,
                                    .doc = s->doc,
                                    .pos = s->pos,
                                    .item = s->item,
                                    .word = s->word,
                                    .segment = s->segment};
    s->plan.n_segments = cs_mask_segments(s->doc, at, s->segment);
    return s;
}

/* ---- the oracle, fp64 ---- */

struct problem {
    struct cs_attention_shape shape;
    const struct cs_mask_plan *plan;
    double *q, *k, *v, *d_o; /* dense: (tokens, heads, head_dim) */
};

struct result {
    double *o, *lse, *dq, *dk, *dv;
};

static double cap(double s, double c)
{
    return c > 0 ? c * tanh(s / c) : s;
}

static bool sees(const struct problem *p, int i, int j)
{
    return cs_mask_allows(p->plan->rule, cs_mask_token_at(p->plan, i),
                          cs_mask_token_at(p->plan, j));
}

static double score(const struct problem *p, int i, int j, int h)
{
    const int d = p->shape.head_dim, g = p->shape.heads / p->shape.kv_heads;
    const double *q = p->q + (i * p->shape.heads + h) * d;
    const double *k = p->k + (j * p->shape.kv_heads + h / g) * d;
    double s = 0;
    for (int e = 0; e < d; e++)
        s += q[e] * k[e];
    return cap(s * (double)p->shape.scale, (double)p->shape.softcap);
}

/* Row i of head h: probabilities into prob (tokens), returns log-sum-exp. */
static double softmax(const struct problem *p, int i, int h, double *prob)
{
    double max = -INFINITY, sum = 0;
    for (int j = 0; j < p->shape.tokens; j++) {
        prob[j] = sees(p, i, j) ? score(p, i, j, h) : -INFINITY;
        max = fmax(max, prob[j]);
    }
    for (int j = 0; j < p->shape.tokens; j++)
        sum += max == -INFINITY ? 0 : exp(prob[j] - max);
    for (int j = 0; j < p->shape.tokens; j++)
        prob[j] = max == -INFINITY ? 0 : exp(prob[j] - max) / sum;
    return max == -INFINITY ? -INFINITY : max + log(sum);
}

static void oracle_row(const struct problem *p, int i, int h, struct result *r)
{
    const int t = p->shape.tokens, d = p->shape.head_dim, nh = p->shape.heads;
    const int nk = p->shape.kv_heads, kv = h / (nh / nk);
    double prob[MAX_TOKENS], dp[MAX_TOKENS], dot = 0;
    r->lse[h * t + i] = softmax(p, i, h, prob);
    const double *q = p->q + (i * nh + h) * d, *d_o = p->d_o + (i * nh + h) * d;
    for (int j = 0; j < t; j++) {
        dp[j] = 0;
        for (int e = 0; e < d; e++) {
            r->o[(i * nh + h) * d + e] += prob[j] * p->v[(j * nk + kv) * d + e];
            dp[j] += d_o[e] * p->v[(j * nk + kv) * d + e];
            r->dv[(j * nk + kv) * d + e] += prob[j] * d_o[e];
        }
        dot += prob[j] * dp[j];
    }
    for (int j = 0; j < t; j++) {
        if (prob[j] == 0)
            continue;
        const double c = (double)p->shape.softcap;
        const double z = c > 0 ? score(p, i, j, h) / c : 0;
        const double ds = prob[j] * (dp[j] - dot) * (1 - z * z) * (double)p->shape.scale;
        for (int e = 0; e < d; e++) {
            r->dq[(i * nh + h) * d + e] += ds * p->k[(j * nk + kv) * d + e];
            r->dk[(j * nk + kv) * d + e] += ds * q[e];
        }
    }
}

static double *zeros(int n)
{
    double *x = calloc((size_t)n + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

static struct result oracle(const struct problem *p)
{
    const int t = p->shape.tokens, d = p->shape.head_dim;
    const int nq = t * p->shape.heads * d, nk = t * p->shape.kv_heads * d;
    struct result r = {zeros(nq), zeros(t * p->shape.heads), zeros(nq), zeros(nk), zeros(nk)};
    for (int i = 0; i < t; i++)
        for (int h = 0; h < p->shape.heads; h++)
            oracle_row(p, i, h, &r);
    return r;
}

static void result_free(struct result *r)
{
    free(r->o), free(r->lse), free(r->dq), free(r->dk), free(r->dv);
}

static void problem_free(struct problem *p)
{
    free(p->q), free(p->k), free(p->v), free(p->d_o);
}

/* ---- the operator, on strided fp32 views ---- */

struct tensors {
    float *qkv, *d_qkv, *o, *d_o, *lse; /* qkv: rows of q, k, v side by side plus a gap of 2 */
    void *workspace;
    struct cs_ctx ctx;
};

static struct tensors run_operator(const struct cs_attention_shape *s,
                                   const struct cs_mask_plan *plan, float *qkv, float *d_o,
                                   size_t workspace_shift)
{
    const size_t t = (size_t)s->tokens, row = (size_t)s->q_stride, orow = (size_t)s->o_stride;
    const int kc = s->heads * s->head_dim, vc = kc + s->kv_heads * s->head_dim;
    struct tensors x = {.qkv = qkv, .d_o = d_o};
    x.d_qkv = new_floats(t * row);
    x.o = new_floats(t * orow);
    x.lse = new_floats(t * (size_t)s->heads);
    for (size_t i = 0; i < t * row; i++)
        x.d_qkv[i] = NAN; /* every gradient is overwritten */
    const size_t bytes = cs_ops_cpu()->attention_workspace(s, plan);
    x.workspace = malloc(bytes + workspace_shift);
    assert_non_null(x.workspace);
    x.ctx.workspace = (char *)x.workspace + workspace_shift;
    x.ctx.workspace_bytes = bytes;
    cs_ops_cpu()->attention(&x.ctx, s, plan, qkv, qkv + kc, qkv + vc, x.o, x.lse);
    cs_ops_cpu()->attention_grad(&x.ctx, s, plan, qkv, qkv + kc, qkv + vc, x.o, x.lse, d_o, x.d_qkv,
                                 x.d_qkv + kc, x.d_qkv + vc);
    free(x.workspace);
    return x;
}

static void tensors_free(struct tensors *x)
{
    free(x->qkv), free(x->d_qkv), free(x->o), free(x->d_o), free(x->lse);
}

static struct cs_attention_shape make_shape(int tokens, int heads, int kv_heads, int d,
                                            float softcap)
{
    struct cs_attention_shape s = {.tokens = tokens,
                                   .heads = heads,
                                   .kv_heads = kv_heads,
                                   .head_dim = d,
                                   .scale = 1.7f / sqrtf((float)d),
                                   .softcap = softcap};
    s.q_stride = s.kv_stride = (heads + 2 * kv_heads) * d + 2;
    s.o_stride = heads * d + 1;
    return s;
}

static double *to_dense(const float *x, int tokens, int stride, int from, int width)
{
    double *out = zeros(tokens * width);
    for (int i = 0; i < tokens; i++)
        for (int j = 0; j < width; j++)
            out[i * width + j] = (double)x[i * stride + from + j];
    return out;
}

static struct problem to_problem(const struct cs_attention_shape *s,
                                 const struct cs_mask_plan *plan, const float *qkv,
                                 const float *d_o)
{
    const int qw = s->heads * s->head_dim, kw = s->kv_heads * s->head_dim;
    return (struct problem){*s,
                            plan,
                            to_dense(qkv, s->tokens, s->q_stride, 0, qw),
                            to_dense(qkv, s->tokens, s->q_stride, qw, kw),
                            to_dense(qkv, s->tokens, s->q_stride, qw + kw, kw),
                            to_dense(d_o, s->tokens, s->o_stride, 0, qw)};
}

static void assert_view(const float *got, int stride, int from, const double *want, int tokens,
                        int width, const char *what)
{
    for (int i = 0; i < tokens; i++)
        for (int j = 0; j < width; j++)
            assert_near((double)got[i * stride + from + j], want[i * width + j], 5e-5, what,
                        i * width + j);
}

static void check_against_oracle(const struct cs_attention_shape *s,
                                 const struct cs_mask_plan *plan)
{
    float *qkv = new_floats((size_t)(s->tokens * s->q_stride));
    float *d_o = new_floats((size_t)(s->tokens * s->o_stride));
    struct tensors x = run_operator(s, plan, qkv, d_o, 0);
    struct problem p = to_problem(s, plan, qkv, d_o);
    struct result r = oracle(&p);
    const int t = s->tokens, qw = s->heads * s->head_dim, kw = s->kv_heads * s->head_dim;
    assert_view(x.o, s->o_stride, 0, r.o, t, qw, "o");
    assert_view(x.d_qkv, s->q_stride, 0, r.dq, t, qw, "dq");
    assert_view(x.d_qkv, s->q_stride, qw, r.dk, t, kw, "dk");
    assert_view(x.d_qkv, s->q_stride, qw + kw, r.dv, t, kw, "dv");
    for (int i = 0; i < t; i++) {
        assert_true(isnan(x.d_qkv[i * s->q_stride + qw + 2 * kw])); /* the gap is not written */
        for (int h = 0; h < s->heads; h++) {
            const double want = r.lse[h * t + i];
            if (isinf(want))
                assert_true((double)x.lse[h * t + i] == want);
            else
                assert_near((double)x.lse[h * t + i], want, 1e-5, "lse", h * t + i);
        }
    }
    result_free(&r);
    problem_free(&p);
    tensors_free(&x);
}

static struct cs_mask_rule rule_of(int kind)
{
    return (struct cs_mask_rule){.kind = (enum cs_mask_kind)kind, .window = 9, .prefix = 11};
}

static void every_rule_matches_brute_force_over_packed_documents(void **state)
{
    (void)state;
    const int32_t lengths[] = {1, 64, 65, 20, 3};
    for (int kind = 0; kind < CS_MASK_KINDS; kind++)
        for (int t = 0; t < 4; t++) {
            struct slot *slot = make_slot(rule_of(kind), lengths, 5, 3, t & 1, t >> 1);
            const struct cs_attention_shape s = make_shape(slot->plan.n_tokens, 2, 1, 8, 0.0f);
            check_against_oracle(&s, &slot->plan);
            free(slot);
        }
}

static void missing_word_and_item_arrays_mean_plain_text(void **state)
{
    (void)state;
    const int32_t lengths[] = {70, 5};
    for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
        struct slot *slot = make_slot(rule_of(kind), lengths, 2, 0, true, false);
        slot->plan.word = NULL;
        slot->plan.item = NULL;
        const struct cs_attention_shape s = make_shape(slot->plan.n_tokens, 1, 1, 4, 0.0f);
        check_against_oracle(&s, &slot->plan);
        free(slot);
    }
}

static void grouped_heads_odd_sizes_and_softcap_match(void **state)
{
    (void)state;
    const int cases[][3] = {
        {1, 1, 1 },
        {4, 2, 16},
        {6, 2, 5 },
        {3, 3, 17},
        {8, 1, 3 }
    };
    const int32_t lengths[] = {33, 40};
    for (int c = 0; c < 5; c++)
        for (int t = 0; t < 4; t++) {
            struct slot *slot = make_slot(rule_of(t & 1 ? CS_MASK_IMAGE_BIDIR : CS_MASK_CAUSAL),
                                          lengths, 2, 1, false, t & 1);
            const struct cs_attention_shape s = make_shape(
                slot->plan.n_tokens, cases[c][0], cases[c][1], cases[c][2], t & 2 ? 1.5f : 0.0f);
            check_against_oracle(&s, &slot->plan);
            free(slot);
        }
}

/* f = sum of d_o * o; the oracle's gradient must be the slope of f */
static double objective(const struct problem *p)
{
    struct result r = oracle(p);
    double f = 0;
    for (int i = 0; i < p->shape.tokens * p->shape.heads * p->shape.head_dim; i++)
        f += r.o[i] * p->d_o[i];
    result_free(&r);
    return f;
}

static void assert_slope(const struct problem *p, double *x, double want, const char *what)
{
    const double h = 1e-5, x0 = *x;
    *x = x0 + h;
    const double up = objective(p);
    *x = x0 - h;
    const double down = objective(p);
    *x = x0;
    assert_near((up - down) / (2 * h), want, 1e-7, what, 0);
}

static void the_oracles_gradient_matches_central_differences(void **state)
{
    (void)state;
    const int32_t lengths[] = {5, 8};
    for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
        struct slot *slot = make_slot(rule_of(kind), lengths, 2, 2, false, kind & 1);
        const struct cs_attention_shape s =
            make_shape(slot->plan.n_tokens, 2, 1, 3, kind & 1 ? 2.0f : 0.0f);
        float *qkv = new_floats((size_t)(s.tokens * s.q_stride));
        float *d_o = new_floats((size_t)(s.tokens * s.o_stride));
        struct problem p = to_problem(&s, &slot->plan, qkv, d_o);
        struct result r = oracle(&p);
        for (int i = 0; i < s.tokens * s.heads * s.head_dim; i++)
            assert_slope(&p, &p.q[i], r.dq[i], "dq");
        for (int i = 0; i < s.tokens * s.kv_heads * s.head_dim; i++) {
            assert_slope(&p, &p.k[i], r.dk[i], "dk");
            assert_slope(&p, &p.v[i], r.dv[i], "dv");
        }
        result_free(&r);
        problem_free(&p);
        free(qkv), free(d_o), free(slot);
    }
}

static void rows_that_see_nothing_give_zero_and_minus_infinity(void **state)
{
    (void)state;
    const int32_t lengths[] = {70};
    struct slot *slot = make_slot(rule_of(CS_MASK_FULL), lengths, 1, 0, true, false);
    for (int i = 0; i < 70; i++)
        slot->word[i] = i < 3 || i > 66 ? 0 : CS_MASK_TEXT;
    const struct cs_attention_shape s = make_shape(70, 2, 2, 4, 0.0f);
    struct tensors x = run_operator(&s, &slot->plan, new_floats((size_t)(70 * s.q_stride)),
                                    new_floats((size_t)(70 * s.o_stride)), 0);
    for (int i = 0; i < 70; i++)
        for (int j = 0; j < 24; j++) {
            const bool is_blind = slot->word[i] == 0;
            assert_true((x.d_qkv[i * s.q_stride + j] == 0.0f) == is_blind);
            if (j < 8)
                assert_true((x.o[i * s.o_stride + j] == 0.0f) == is_blind);
            if (j < 2)
                assert_true((x.lse[j * 70 + i] == -INFINITY) == is_blind);
        }
    tensors_free(&x);
    /* all rows blind: no keys at all */
    memset(slot->word, 0, sizeof slot->word);
    x = run_operator(&s, &slot->plan, new_floats((size_t)(70 * s.q_stride)),
                     new_floats((size_t)(70 * s.o_stride)), 0);
    for (int i = 0; i < 70; i++)
        for (int j = 0; j < 24; j++) {
            assert_true(x.d_qkv[i * s.q_stride + j] == 0.0f);
            assert_true(x.o[i * s.o_stride + j % 8] == 0.0f);
        }
    tensors_free(&x);
    free(slot);
}

static void no_tokens_do_nothing(void **state)
{
    (void)state;
    struct slot *slot = make_slot(rule_of(CS_MASK_CAUSAL), NULL, 0, 0, true, false);
    const struct cs_attention_shape s = make_shape(0, 2, 2, 4, 0.0f);
    struct tensors x = run_operator(&s, &slot->plan, new_floats(0), new_floats(0), 0);
    tensors_free(&x);
    free(slot);
}

static void nan_in_a_score_reaches_the_output(void **state)
{
    (void)state;
    const int32_t lengths[] = {4};
    struct slot *slot = make_slot(rule_of(CS_MASK_CAUSAL), lengths, 1, 0, true, false);
    const struct cs_attention_shape s = make_shape(4, 1, 1, 4, 0.0f);
    float *qkv = new_floats((size_t)(4 * s.q_stride));
    qkv[0] = NAN; /* the first query sees one key only: all of its scores are NaN */
    struct tensors x = run_operator(&s, &slot->plan, qkv, new_floats((size_t)(4 * s.o_stride)), 0);
    assert_true(isnan(x.o[0]) && isnan(x.lse[0]));
    assert_true(isfinite(x.o[s.o_stride]));
    tensors_free(&x);
    free(slot);
}

/* ---- a document's result does not depend on where it lies ---- */

static void assert_same_rows(const float *a, const float *b, int rows, int stride, int width)
{
    for (int i = 0; i < rows; i++)
        assert_memory_equal(a + i * stride, b + i * stride, (size_t)width * sizeof(float));
}

static void packed_equals_alone_bitwise(int kind, int heads, int kv_heads, int d, size_t shift)
{
    const int32_t lengths[] = {7, 130, 64, 31};
    struct slot *all = make_slot(rule_of(kind), lengths, 4, 0, false, false);
    const struct cs_attention_shape s =
        make_shape(all->plan.n_tokens, heads, kv_heads, d, kind & 1 ? 2.0f : 0.0f);
    float *qkv = new_floats((size_t)(s.tokens * s.q_stride));
    float *d_o = new_floats((size_t)(s.tokens * s.o_stride));
    struct tensors packed = run_operator(&s, &all->plan, qkv, d_o, 0);
    int first = 0;
    for (int i = 0; i < 4; first += lengths[i++]) {
        struct slot *one = make_slot(rule_of(kind), &lengths[i], 1, i, false, false);
        struct cs_attention_shape s1 = s;
        s1.tokens = lengths[i];
        float *qkv1 = new_floats((size_t)(s1.tokens * s.q_stride) + 3);
        float *d_o1 = new_floats((size_t)(s1.tokens * s.o_stride) + 3);
        memcpy(qkv1, qkv + first * s.q_stride, (size_t)(s1.tokens * s.q_stride) * sizeof(float));
        memcpy(d_o1, d_o + first * s.o_stride, (size_t)(s1.tokens * s.o_stride) * sizeof(float));
        struct tensors alone = run_operator(&s1, &one->plan, qkv1, d_o1, shift);
        assert_same_rows(packed.o + first * s.o_stride, alone.o, s1.tokens, s.o_stride, heads * d);
        assert_same_rows(packed.d_qkv + first * s.q_stride, alone.d_qkv, s1.tokens, s.q_stride,
                         (heads + 2 * kv_heads) * d);
        for (int h = 0; h < heads; h++)
            assert_memory_equal(packed.lse + h * s.tokens + first, alone.lse + h * s1.tokens,
                                (size_t)s1.tokens * sizeof(float));
        tensors_free(&alone);
        free(one);
    }
    tensors_free(&packed);
    free(all);
}

static void a_document_alone_and_packed_gives_the_same_bits(void **state)
{
    (void)state;
    for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
        packed_equals_alone_bitwise(kind, 4, 2, 16, 4);
        packed_equals_alone_bitwise(kind, 3, 1, 9, 20);
        packed_equals_alone_bitwise(kind, 1, 1, 64, 60);
    }
}

/* The same mask through the general path: a window wider than the document is plain causal. */
static void cheap_and_general_masks_give_the_same_bits(void **state)
{
    (void)state;
    const int32_t lengths[] = {150, 20};
    struct slot *slot = make_slot(rule_of(CS_MASK_CAUSAL), lengths, 2, 0, true, false);
    const struct cs_attention_shape s = make_shape(170, 2, 1, 16, 0.0f);
    float *qkv = new_floats((size_t)(170 * s.q_stride));
    float *d_o = new_floats((size_t)(170 * s.o_stride));
    struct tensors a = run_operator(&s, &slot->plan, qkv, d_o, 0);
    slot->plan.rule = (struct cs_mask_rule){.kind = CS_MASK_WINDOW, .window = 1000};
    struct tensors b = run_operator(&s, &slot->plan, qkv, d_o, 8);
    assert_same_rows(a.o, b.o, 170, s.o_stride, 32);
    assert_same_rows(a.d_qkv, b.d_qkv, 170, s.q_stride, 64);
    b.qkv = NULL, b.d_o = NULL;
    tensors_free(&a);
    tensors_free(&b);
    free(slot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_matches_brute_force_over_packed_documents),
        cmocka_unit_test(missing_word_and_item_arrays_mean_plain_text),
        cmocka_unit_test(grouped_heads_odd_sizes_and_softcap_match),
        cmocka_unit_test(the_oracles_gradient_matches_central_differences),
        cmocka_unit_test(rows_that_see_nothing_give_zero_and_minus_infinity),
        cmocka_unit_test(no_tokens_do_nothing),
        cmocka_unit_test(nan_in_a_score_reaches_the_output),
        cmocka_unit_test(a_document_alone_and_packed_gives_the_same_bits),
        cmocka_unit_test(cheap_and_general_masks_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
