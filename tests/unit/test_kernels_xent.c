/* Fused linear layer and cross-entropy against a naive fp64 version, its gradient against central
 * differences; argmax with ties and NaN; chunks of rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops.h"

static uint32_t seed = 7;

static float rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

static float *new_floats(int64_t n)
{
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = rnd();
    return x;
}

static void assert_near(double got, double want, double tol, const char *what, int64_t at)
{
    if (!(fabs(got - want) <= tol * (1.0 + fabs(want))))
        fail_msg("%s[%d]: %.9g, want %.9g", what, (int)at, got, want);
}

struct xent {
    int64_t rows, in, vocab;
    float softcap;
    float *x, *w, *dx, *dw;
    int32_t *labels;
    uint8_t *correct;
    double loss;
    double *row_loss;
};

static void run(struct xent *c, bool with_dx, bool with_dw, bool with_correct)
{
    struct cs_ctx ctx = {0};
    ctx.workspace_bytes = cs_ops_cpu()->linear_xent_workspace(c->rows, c->in, c->vocab);
    void *memory = malloc(ctx.workspace_bytes + 1);
    assert_non_null(memory);
    ctx.workspace = memory;
    cs_ops_cpu()->linear_xent(&ctx, c->rows, c->in, c->vocab, c->x, c->w, c->labels, c->softcap,
                              &c->loss, with_correct ? c->row_loss : NULL,
                              with_correct ? c->correct : NULL, with_dx ? c->dx : NULL,
                              with_dw ? c->dw : NULL);
    free(memory);
}

static struct xent make_case(int64_t rows, int64_t in, int64_t vocab, float softcap)
{
    struct xent c = {.rows = rows, .in = in, .vocab = vocab, .softcap = softcap};
    c.x = new_floats(rows * in);
    c.w = new_floats(vocab * in);
    c.dx = new_floats(rows * in);
    c.dw = new_floats(vocab * in);
    c.labels = malloc((size_t)(rows + 1) * sizeof *c.labels);
    c.correct = malloc((size_t)(rows + 1));
    c.row_loss = malloc((size_t)(rows + 1) * sizeof *c.row_loss);
    assert_non_null(c.row_loss);
    assert_non_null(c.labels);
    assert_non_null(c.correct);
    for (int64_t r = 0; r < rows; r++)
        c.labels[r] = (int32_t)((r * 7 + 3) % vocab);
    return c;
}

static void case_free(struct xent *c)
{
    free(c->x), free(c->w), free(c->dx), free(c->dw), free(c->labels), free(c->correct);
    free(c->row_loss);
}

/* z (vocab) = capped logits of one row; returns log-sum-exp */
static double row_logits(const struct xent *c, const double *x, const double *w, double *z)
{
    double max = -INFINITY, sum = 0;
    for (int64_t v = 0; v < c->vocab; v++) {
        z[v] = 0;
        for (int64_t i = 0; i < c->in; i++)
            z[v] += x[i] * w[v * c->in + i];
        if (c->softcap > 0)
            z[v] = (double)c->softcap * tanh(z[v] / (double)c->softcap);
        max = fmax(max, z[v]);
    }
    for (int64_t v = 0; v < c->vocab; v++)
        sum += exp(z[v] - max);
    return max + log(sum);
}

static double loss_of(const struct xent *c, const double *x, const double *w, double *z)
{
    double loss = 0;
    for (int64_t r = 0; r < c->rows; r++)
        loss += row_logits(c, x + r * c->in, w, z) - z[c->labels[r]];
    return loss;
}

static double *doubles(const float *x, int64_t n)
{
    double *d = malloc((size_t)(n + 1) * sizeof *d);
    assert_non_null(d);
    for (int64_t i = 0; i < n; i++)
        d[i] = (double)x[i];
    return d;
}

static double slope(const struct xent *c, double *at, const double *x, const double *w, double *z)
{
    const double h = 1e-5, x0 = *at;
    *at = x0 + h;
    const double up = loss_of(c, x, w, z);
    *at = x0 - h;
    const double down = loss_of(c, x, w, z);
    *at = x0;
    return (up - down) / (2 * h);
}

static void loss_and_gradients_match_differences(void **state)
{
    (void)state;
    const int shapes[][3] = {
        {1, 1, 1 },
        {1, 3, 2 },
        {5, 4, 17},
        {7, 9, 33}
    };
    for (int t = 0; t < 8; t++) {
        const int *s = shapes[t / 2];
        struct xent c = make_case(s[0], s[1], s[2], t & 1 ? 1.5f : 0.0f);
        double *x = doubles(c.x, c.rows * c.in), *w = doubles(c.w, c.vocab * c.in);
        double *dw0 = doubles(c.dw, c.vocab * c.in), *z = doubles(c.w, c.vocab);
        c.loss = 10; /* accumulated */
        run(&c, true, true, true);
        assert_near(c.loss, 10 + loss_of(&c, x, w, z), 1e-6, "loss", t);
        for (int64_t i = 0; i < c.rows * c.in; i++)
            assert_near((double)c.dx[i], slope(&c, &x[i], x, w, z), 1e-5, "dx", i);
        for (int64_t i = 0; i < c.vocab * c.in; i++)
            assert_near((double)c.dw[i], dw0[i] + slope(&c, &w[i], x, w, z), 1e-5, "dw", i);
        free(x), free(w), free(dw0), free(z);
        case_free(&c);
    }
}

static void many_chunks_sum_like_one(void **state)
{
    (void)state;
    struct xent c = make_case(700, 6, 21, 0.0f);
    double *x = doubles(c.x, c.rows * c.in), *w = doubles(c.w, c.vocab * c.in);
    double *z = doubles(c.w, c.vocab), *dw = doubles(c.dw, c.vocab * c.in);
    run(&c, true, true, true);
    assert_near(c.loss, loss_of(&c, x, w, z), 1e-6, "loss", 0);
    for (int64_t r = 0; r < c.rows; r++) {
        const double lse = row_logits(&c, x + r * c.in, w, z);
        assert_near(c.row_loss[r], lse - z[c.labels[r]], 1e-6, "loss of row", r);
        int64_t best = 0;
        for (int64_t v = 1; v < c.vocab; v++)
            best = z[v] > z[best] ? v : best;
        assert_int_equal(c.correct[r], best == c.labels[r]);
        for (int64_t i = 0; i < c.in; i++) {
            double want = 0;
            for (int64_t v = 0; v < c.vocab; v++) {
                const double g = exp(z[v] - lse) - (v == c.labels[r]);
                want += g * w[v * c.in + i];
                dw[v * c.in + i] += g * x[r * c.in + i];
            }
            assert_near((double)c.dx[r * c.in + i], want, 1e-5, "dx", r);
        }
    }
    for (int64_t i = 0; i < c.vocab * c.in; i++)
        assert_near((double)c.dw[i], dw[i], 3e-5, "dw", i);
    free(x), free(w), free(z), free(dw);
    case_free(&c);
}

static void frozen_head_and_forward_only_give_the_same_loss(void **state)
{
    (void)state;
    struct xent c = make_case(40, 8, 19, 0.0f);
    run(&c, true, true, true);
    const double loss = c.loss;
    float *dx = new_floats(c.rows * c.in), *dw = new_floats(c.vocab * c.in);
    memcpy(dx, c.dx, (size_t)(c.rows * c.in) * sizeof *dx);
    memcpy(dw, c.dw, (size_t)(c.vocab * c.in) * sizeof *dw);
    for (int t = 0; t < 2; t++) {
        c.loss = 0;
        run(&c, t == 0, false, false);
        assert_true(c.loss == loss);
    }
    assert_memory_equal(dx, c.dx, (size_t)(c.rows * c.in) * sizeof *dx);
    assert_memory_equal(dw, c.dw, (size_t)(c.vocab * c.in) * sizeof *dw); /* untouched */
    free(dx), free(dw);
    case_free(&c);
}

static void no_rows_do_nothing(void **state)
{
    (void)state;
    struct xent c = make_case(0, 3, 5, 0.0f);
    float first = c.dw[0];
    c.loss = 2;
    run(&c, true, true, true);
    assert_true(c.loss == 2 && c.dw[0] == first);
    case_free(&c);
}

/* One input of 1: the weights are the logits. */
static bool is_correct(const float *logits, int vocab, int32_t label)
{
    struct xent c = make_case(1, 1, vocab, 0.0f);
    c.x[0] = 1.0f;
    memcpy(c.w, logits, (size_t)vocab * sizeof *logits);
    c.labels[0] = label;
    run(&c, false, false, true);
    const bool hit = c.correct[0] != 0;
    case_free(&c);
    return hit;
}

static void lowest_index_wins_a_tie_and_nan_is_never_correct(void **state)
{
    (void)state;
    const float tie[5] = {1, 3, 2, 3, 0};
    assert_true(is_correct(tie, 5, 1));
    assert_false(is_correct(tie, 5, 3));
    assert_false(is_correct(tie, 5, 0));
    const float with_nan[4] = {NAN, 1, 2, 0}, all_nan[2] = {NAN, NAN};
    for (int32_t l = 0; l < 4; l++)
        assert_false(is_correct(with_nan, 4, l));
    assert_false(is_correct(all_nan, 2, 0));
    const float flat[40] = {0};
    for (int32_t l = 0; l < 40; l++)
        assert_true(is_correct(flat, 40, l) == (l == 0));
}

static void nan_logits_make_the_loss_nan(void **state)
{
    (void)state;
    struct xent c = make_case(2, 2, 5, 0.0f);
    c.w[4] = NAN;
    run(&c, true, false, true);
    assert_true(isnan(c.loss) && isnan(c.dx[0]));
    case_free(&c);
}

static void huge_logits_do_not_overflow(void **state)
{
    (void)state;
    struct xent c = make_case(1, 1, 3, 0.0f);
    c.x[0] = 1.0f, c.w[0] = 1e30f, c.w[1] = 0.0f, c.w[2] = -1e30f;
    c.labels[0] = 0;
    run(&c, true, true, true);
    assert_true(c.loss == 0 && c.correct[0] == 1 && c.dx[0] == 0);
    case_free(&c);
}

/* ---- words in parts ---- */

enum { MOST_PARTS = 4 };

struct part {
    int64_t first, n;
    float *z;
    int32_t *labels;
};

static float *logits_of(const struct xent *c, const struct part *p)
{
    float *z = malloc((size_t)(c->rows * p->n + 1) * sizeof *z);
    assert_non_null(z);
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t v = 0; v < p->n; v++) {
            float sum = 0;
            for (int64_t i = 0; i < c->in; i++)
                sum += c->x[r * c->in + i] * c->w[(p->first + v) * c->in + i];
            z[r * p->n + v] = sum;
        }
    return z;
}

static struct part part_of(const struct xent *c, int parts, int at)
{
    struct part p = {.first = c->vocab * at / parts};
    p.n = c->vocab * (at + 1) / parts - p.first;
    p.z = logits_of(c, &p);
    p.labels = malloc((size_t)(c->rows + 1) * sizeof *p.labels);
    assert_non_null(p.labels);
    for (int64_t r = 0; r < c->rows; r++) {
        const int64_t own = c->labels[r] - p.first;
        p.labels[r] = own >= 0 && own < p.n ? (int32_t)own : -1;
    }
    return p;
}

/* Loss of c in parts; dz (rows, vocab), NULL: not wanted. */
static void run_parts(struct xent *c, int parts, float *dz)
{
    struct part part[MOST_PARTS];
    float *stat = new_floats((int64_t)parts * c->rows * CS_XENT_STATS),
          *whole = new_floats(2 * c->rows);
    const struct cs_ops *ops = cs_ops_cpu();
    for (int p = 0; p < parts; p++) {
        part[p] = part_of(c, parts, p);
        ops->xent_part(NULL, c->rows, part[p].n, part[p].labels, c->softcap, part[p].z,
                       stat + p * c->rows * CS_XENT_STATS);
    }
    ops->xent_join(NULL, c->rows, parts, stat, &c->loss, c->row_loss, c->correct, whole);
    for (int p = 0; p < parts; p++) {
        ops->xent_part_grad(NULL, c->rows, part[p].n, part[p].labels, c->softcap, whole, part[p].z);
        for (int64_t r = 0; dz != NULL && r < c->rows; r++)
            memcpy(dz + r * c->vocab + part[p].first, part[p].z + r * part[p].n,
                   (size_t)part[p].n * sizeof *dz);
        free(part[p].z), free(part[p].labels);
    }
    free(stat), free(whole);
}

/* the gradient of the rows that the parts' gradients of logits make */
static void check_dx(const struct xent *c, const float *dz, const float *dx)
{
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t i = 0; i < c->in; i++) {
            double sum = 0;
            for (int64_t v = 0; v < c->vocab; v++)
                sum += (double)dz[r * c->vocab + v] * (double)c->w[v * c->in + i];
            assert_near(sum, (double)dx[r * c->in + i], 2e-6, "dx", r * c->in + i);
        }
}

static void parts_of_the_words_make_the_same_loss(void **state)
{
    (void)state;
    for (int t = 0; t < 24; t++) {
        const int parts = 1 + t % MOST_PARTS;
        struct xent c = make_case(1 + 7 * t, 6, 4 + 3 * t, t % 3 == 0 ? 1.5f : 0.0f);
        float *dz = new_floats(c.rows * c.vocab);
        double *row_loss = malloc((size_t)c.rows * sizeof *row_loss);
        uint8_t *correct = malloc((size_t)c.rows);
        assert_non_null(row_loss);
        assert_non_null(correct);
        c.loss = 3;
        run(&c, true, false, true);
        const double loss = c.loss;
        memcpy(row_loss, c.row_loss, (size_t)c.rows * sizeof *row_loss);
        memcpy(correct, c.correct, (size_t)c.rows);
        c.loss = 3;
        run_parts(&c, parts, dz);
        assert_near(c.loss, loss, 1e-6, "loss", t);
        for (int64_t r = 0; r < c.rows; r++)
            assert_near(c.row_loss[r], row_loss[r], 1e-6, "row_loss", r);
        assert_memory_equal(c.correct, correct, (size_t)c.rows);
        check_dx(&c, dz, c.dx);
        free(dz), free(row_loss), free(correct);
        case_free(&c);
    }
}

/* The largest of all is what the others are measured by. */
static void parts_far_apart_do_not_overflow(void **state)
{
    static const float w[] = {-300, -299, 300, 299};
    (void)state;
    for (int32_t label = 2; label < 4; label++) {
        struct xent c = make_case(1, 1, CS_ARRAY_LEN(w), 0.0f);
        float dz[CS_ARRAY_LEN(w)];
        memcpy(c.w, w, sizeof w);
        c.x[0] = 1;
        c.labels[0] = label;
        c.loss = 0;
        run_parts(&c, 2, dz);
        assert_near(c.loss, log1p(exp(-1)) + (label == 3), 1e-6, "loss", label);
        for (size_t v = 0; v < CS_ARRAY_LEN(w); v++)
            assert_true(isfinite(dz[v]));
        case_free(&c);
    }
}

/* logits of one row are w, as they are given here */
static uint8_t is_correct_in_parts(const float *w, int64_t words, int32_t label, int parts)
{
    struct xent c = make_case(1, 1, words, 0.0f);
    memcpy(c.w, w, (size_t)words * sizeof *w);
    c.x[0] = 1;
    c.labels[0] = label;
    run_parts(&c, parts, NULL);
    const uint8_t is_correct = c.correct[0];
    case_free(&c);
    return is_correct;
}

/* the lowest number wins a tie, in whatever part it is; a NaN anywhere beats all */
static void the_first_of_the_largest_wins_over_parts(void **state)
{
    (void)state;
    const float tie[] = {0, 2, 1, 2, 0, 2}, broken[] = {0, 2, 1, 0, 0, NAN};
    for (int parts = 1; parts <= MOST_PARTS; parts++) {
        assert_int_equal(is_correct_in_parts(tie, 6, 1, parts), 1);
        assert_int_equal(is_correct_in_parts(tie, 6, 3, parts), 0);
        assert_int_equal(is_correct_in_parts(tie, 6, 5, parts), 0);
        assert_int_equal(is_correct_in_parts(broken, 6, 1, parts), 0);
        assert_int_equal(is_correct_in_parts(broken, 6, 5, parts), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients_match_differences),
        cmocka_unit_test(many_chunks_sum_like_one),
        cmocka_unit_test(frozen_head_and_forward_only_give_the_same_loss),
        cmocka_unit_test(no_rows_do_nothing),
        cmocka_unit_test(lowest_index_wins_a_tie_and_nan_is_never_correct),
        cmocka_unit_test(nan_logits_make_the_loss_nan),
        cmocka_unit_test(huge_logits_do_not_overflow),
        cmocka_unit_test(parts_of_the_words_make_the_same_loss),
        cmocka_unit_test(parts_far_apart_do_not_overflow),
        cmocka_unit_test(the_first_of_the_largest_wins_over_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
