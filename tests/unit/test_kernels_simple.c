/* Products, norms, rope, activations, rows by index, patches, AdamW, sums: every operator of the
 * CPU back end against a naive fp64 version written here, every backward against central
 * differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops.h"

#define MAX 8192

static uint32_t seed = 1;

static float rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

static void fill(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = rnd();
}

static void assert_near(double got, double want, double tol, const char *what, int at)
{
    if (!(fabs(got - want) <= tol * (1.0 + fabs(want))))
        fail_msg("%s[%d]: %.9g, want %.9g", what, at, got, want);
}

static const struct cs_ops *ops(void)
{
    return cs_ops_cpu();
}

static struct cs_ctx ctx;

/* ---- products ---- */

static void one_gemm(int ta, int tb, int m, int n, int k, float beta)
{
    static float a[MAX], b[MAX], c[MAX], before[MAX];
    const int lda = (ta ? m : k) + 2, ldb = (tb ? k : n) + 1, ldc = n + 3;
    fill(a, MAX);
    fill(b, MAX);
    fill(c, MAX);
    memcpy(before, c, sizeof c);
    if (beta == 0.0f)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                c[i * ldc + j] = NAN; /* must not be read */
    ops()->gemm(&ctx, ta, tb, m, n, k, 0.7f, a, lda, b, ldb, beta, c, ldc);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < ldc; j++) {
            double want = 0;
            for (int p = 0; p < k; p++)
                want += (double)(ta ? a[p * lda + i] : a[i * lda + p]) *
                        (double)(tb ? b[j * ldb + p] : b[p * ldb + j]);
            want = 0.7 * want + (beta == 0.0f ? 0 : (double)beta * (double)before[i * ldc + j]);
            if (j >= n)
                want = (double)before[i * ldc + j];
            assert_near((double)c[i * ldc + j], want, 2e-6 * (1 + k), "c", i * ldc + j);
        }
}

static void gemm_equals_the_plain_product_for_all_layouts(void **state)
{
    (void)state;
    const int sides[] = {0, 1, 2, 7, 16, 33};
    for (int t = 0; t < 8; t++)
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++)
                for (int k = 0; k < 6; k++)
                    one_gemm(t & 1, t >> 1 & 1, sides[i], sides[j], sides[k], t & 4 ? 0.0f : 0.3f);
}

static void weight_gradient_is_accumulated(void **state)
{
    (void)state;

    enum { R = 13, O = 7, I = 5 };

    float dy[R * (O + 1)], x[R * (I + 2)], dw[O * I], before[O * I];
    fill(dy, R * (O + 1));
    fill(x, R * (I + 2));
    fill(dw, O * I);
    memcpy(before, dw, sizeof dw);
    ops()->gemm_wgrad(&ctx, 0, O, I, dy, O + 1, x, I + 2, dw);
    assert_memory_equal(before, dw, sizeof dw);
    ops()->gemm_wgrad(&ctx, R, O, I, dy, O + 1, x, I + 2, dw);
    for (int o = 0; o < O; o++)
        for (int i = 0; i < I; i++) {
            double want = (double)before[o * I + i];
            for (int r = 0; r < R; r++)
                want += (double)dy[r * (O + 1) + o] * (double)x[r * (I + 2) + i];
            assert_near((double)dw[o * I + i], want, 1e-5, "dw", o * I + i);
        }
}

static void bias_is_added_and_its_gradient_sums_columns(void **state)
{
    (void)state;

    enum { R = 9, N = 21, LD = 24 };

    float y[R * LD], before[R * LD], bias[N], db[N], db_before[N];
    fill(y, R * LD);
    memcpy(before, y, sizeof y);
    fill(bias, N);
    fill(db, N);
    memcpy(db_before, db, sizeof db);
    ops()->bias_add(&ctx, R, N, y, LD, bias);
    ops()->bias_grad(&ctx, R, N, before, LD, db);
    for (int j = 0; j < LD; j++) {
        double sum = j < N ? (double)db_before[j] : 0;
        for (int r = 0; r < R; r++) {
            const float want = before[r * LD + j] + (j < N ? bias[j] : 0.0f);
            assert_true(y[r * LD + j] == want);
            sum += (double)before[r * LD + j];
        }
        if (j < N)
            assert_near((double)db[j], sum, 1e-6, "db", j);
    }
}

static void selfcheck_passes_on_this_machine(void **state)
{
    (void)state;
    struct cs_err err = {0};
    assert_int_equal(cs_ops_cpu_selfcheck(&err), CS_OK);
}

/* ---- norms ---- */

/* f = sum of dy * norm(x), and y when wanted: all in fp64 */
static double norm_value(enum cs_norm kind, int n, double eps, double offset, const double *x,
                         const double *w, const double *b, const float *dy, double *y)
{
    double mean = 0, var = 0, f = 0;
    for (int i = 0; i < n && kind == CS_NORM_LAYER; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++) {
        const double scale = kind == CS_NORM_LAYER ? w[i] : offset + w[i];
        const double v = (x[i] - mean) / sqrt(var + eps) * scale + b[i];
        if (y != NULL)
            y[i] = v;
        f += (double)dy[i] * v;
    }
    return f;
}

static void one_norm(enum cs_norm kind, int n, float offset, bool with_bias, bool with_dx_in)
{
    enum { R = 3, N = 67 };

    float x[R * N], w[N], b[N], dy[R * N], y[R * N], stat[2 * R], dx_in[R * N], dx[R * N];
    float dw[N], db[N], dw0[N], db0[N];
    fill(x, R * n), fill(w, n), fill(b, n), fill(dy, R * n), fill(dx_in, R * n);
    fill(dw, N), fill(db, N);
    memcpy(dw0, dw, sizeof dw), memcpy(db0, db, sizeof db);
    const float eps = 1e-5f;
    ops()->norm(&ctx, kind, R, n, eps, offset, x, w, with_bias ? b : NULL, y, stat);
    ops()->norm_grad(&ctx, kind, R, n, offset, x, w, stat, dy, with_dx_in ? dx_in : NULL, dx, dw,
                     with_bias ? db : NULL);
    double dw_want[N] = {0}, wd[N], bd[N];
    for (int i = 0; i < n; i++)
        wd[i] = (double)w[i], bd[i] = with_bias ? (double)b[i] : 0;
    for (int r = 0; r < R; r++) {
        double xd[N], want[N];
        const float *d = dy + r * n;
        for (int i = 0; i < n; i++)
            xd[i] = (double)x[r * n + i];
        norm_value(kind, n, (double)eps, (double)offset, xd, wd, bd, d, want);
        for (int i = 0; i < n; i++) {
            assert_near((double)y[r * n + i], want[i], 1e-5, "y", i);
            const double h = 1e-5, x0 = xd[i], w0 = wd[i];
            xd[i] = x0 + h;
            double up = norm_value(kind, n, (double)eps, (double)offset, xd, wd, bd, d, NULL);
            xd[i] = x0 - h;
            double down = norm_value(kind, n, (double)eps, (double)offset, xd, wd, bd, d, NULL);
            xd[i] = x0;
            assert_near((double)dx[r * n + i],
                        (up - down) / (2 * h) + (with_dx_in ? (double)dx_in[r * n + i] : 0),
                        n == 1 ? 2e-3 : 3e-5, "dx", i);
            wd[i] = w0 + h;
            up = norm_value(kind, n, (double)eps, (double)offset, xd, wd, bd, d, NULL);
            wd[i] = w0 - h;
            down = norm_value(kind, n, (double)eps, (double)offset, xd, wd, bd, d, NULL);
            wd[i] = w0;
            dw_want[i] += (up - down) / (2 * h);
        }
    }
    for (int i = 0; i < n; i++) {
        assert_near((double)dw[i], (double)dw0[i] + dw_want[i], 3e-5, "dw", i);
        double sum = (double)db0[i];
        for (int r = 0; r < R && with_bias; r++)
            sum += (double)dy[r * n + i];
        assert_near((double)db[i], sum, 1e-6, "db", i);
    }
}

static void norms_and_their_gradients_match_differences(void **state)
{
    (void)state;
    const int sizes[] = {1, 2, 15, 16, 17, 67};
    for (int s = 0; s < 6; s++)
        for (int t = 0; t < 4; t++) {
            one_norm(CS_NORM_LAYER, sizes[s], 0.0f, t & 1, t >> 1);
            one_norm(CS_NORM_RMS, sizes[s], t & 1 ? 1.0f : 0.0f, false, t >> 1);
        }
}

static void norm_gradient_may_be_written_over_dx_in(void **state)
{
    (void)state;

    enum { N = 40 };

    float x[N], w[N], dy[N], y[N], stat[2], a[N], b[N];
    fill(x, N), fill(w, N), fill(dy, N), fill(a, N);
    ops()->norm(&ctx, CS_NORM_RMS, 1, N, 1e-6f, 0.0f, x, w, NULL, y, stat);
    ops()->norm_grad(&ctx, CS_NORM_RMS, 1, N, 0.0f, x, w, stat, dy, a, b, NULL, NULL);
    ops()->norm_grad(&ctx, CS_NORM_RMS, 1, N, 0.0f, x, w, stat, dy, a, a, NULL, NULL);
    assert_memory_equal(a, b, sizeof a);
    assert_true(stat[0] == 0.0f);
    ops()->norm(&ctx, CS_NORM_RMS, 0, N, 1e-6f, 0.0f, x, w, NULL, y, stat); /* no rows: nothing */
}

static void norm_of_a_row_does_not_depend_on_its_address(void **state)
{
    (void)state;

    enum { N = 100 };

    float area[N + 16], w[N], first[N], y[N], stat[2], x[N];
    fill(x, N), fill(w, N);
    for (int shift = 0; shift < 16; shift++) {
        memcpy(area + shift, x, sizeof x);
        ops()->norm(&ctx, CS_NORM_LAYER, 1, N, 1e-5f, 0, area + shift, w, NULL, y, stat);
        if (shift == 0)
            memcpy(first, y, sizeof y);
        assert_memory_equal(first, y, sizeof y);
    }
}

/* ---- rope ---- */

static void rope_turns_the_first_part_of_a_head_and_back(void **state)
{
    (void)state;

    enum { R = 5, H = 2, D = 10, ROT = 6, LD = H * D + 3 };

    float x[R * LD], before[R * LD], c[R * ROT / 2], s[R * ROT / 2];
    fill(x, R * LD);
    memcpy(before, x, sizeof x);
    for (int i = 0; i < R * ROT / 2; i++)
        c[i] = cosf((float)i), s[i] = sinf((float)i);
    ops()->rope(&ctx, R, H, D, ROT, LD, x, c, s, 0);
    for (int r = 0; r < R; r++)
        for (int j = 0; j < LD; j++) {
            const int h = j / D, i = j % D;
            double want = (double)before[r * LD + j];
            if (h < H && i < ROT) {
                const int t = r * ROT / 2 + i % (ROT / 2);
                const int other = r * LD + h * D + (i + ROT / 2) % ROT;
                want = want * (double)c[t] +
                       (i < ROT / 2 ? -1 : 1) * (double)before[other] * (double)s[t];
            }
            assert_near((double)x[r * LD + j], want, 1e-6, "x", j);
        }
    ops()->rope(&ctx, R, H, D, ROT, LD, x, c, s, 1);
    for (int i = 0; i < R * LD; i++)
        assert_near((double)x[i], (double)before[i], 1e-6, "back", i);
}

static void inverse_rope_is_the_adjoint_even_when_cos_and_sin_are_scaled(void **state)
{
    (void)state;

    enum { D = 8 };

    float a[D], b[D], ta[D], tb[D], c[D / 2], s[D / 2];
    fill(a, D), fill(b, D), fill(c, D / 2), fill(s, D / 2);
    memcpy(ta, a, sizeof a), memcpy(tb, b, sizeof b);
    ops()->rope(&ctx, 1, 1, D, D, D, ta, c, s, 0);
    ops()->rope(&ctx, 1, 1, D, D, D, tb, c, s, 1);
    double left = 0, right = 0;
    for (int i = 0; i < D; i++) {
        left += (double)ta[i] * (double)b[i];
        right += (double)a[i] * (double)tb[i];
    }
    assert_near(left, right, 1e-6, "<Ta, b>", 0);
}

/* ---- activations ---- */

static double act_value(enum cs_act kind, double x)
{
    const double pi = 3.14159265358979323846;
    const double table[] = {
        [CS_ACT_NONE] = x,
        [CS_ACT_GELU] = 0.5 * x * (1 + erf(x / sqrt(2))),
        [CS_ACT_GELU_TANH] = 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))),
        [CS_ACT_QUICK_GELU] = x / (1 + exp(-1.702 * x)),
        [CS_ACT_SILU] = x / (1 + exp(-x)),
        [CS_ACT_RELU] = x > 0 ? x : 0,
        [CS_ACT_SIGMOID] = 1 / (1 + exp(-x)),
    };
    return table[kind];
}

static double act_slope(enum cs_act kind, double x)
{
    const double h = 1e-6;
    if (kind == CS_ACT_RELU)
        return x > 0 ? 1 : 0;
    return (act_value(kind, x + h) - act_value(kind, x - h)) / (2 * h);
}

static void activations_and_slopes_match_closed_forms(void **state)
{
    (void)state;

    enum { N = 1601 };

    static float x[N], dy[N], y[N], dx[N];
    for (int i = 0; i < N; i++)
        x[i] = ((float)i - 800.0f) / 80.0f;
    fill(dy, N);
    for (int kind = 0; kind < CS_ACT_KINDS; kind++) {
        ops()->act(&ctx, (enum cs_act)kind, N, x, y);
        ops()->act_grad(&ctx, (enum cs_act)kind, N, x, dy, dx);
        for (int i = 0; i < N; i++) {
            assert_near((double)y[i], act_value((enum cs_act)kind, (double)x[i]), 1e-6, "y", i);
            assert_near((double)dx[i], (double)dy[i] * act_slope((enum cs_act)kind, (double)x[i]),
                        2e-6, "dx", i);
        }
        memcpy(dx, dy, sizeof dx); /* in place over dy */
        ops()->act_grad(&ctx, (enum cs_act)kind, N, x, dx, dx);
        assert_near((double)dx[700], (double)dy[700] * act_slope((enum cs_act)kind, (double)x[700]),
                    2e-6, "dx", 7);
    }
}

static void activations_pass_nan_on(void **state)
{
    (void)state;
    float x[3] = {NAN, 1.0f, NAN}, y[3];
    for (int kind = 0; kind < CS_ACT_KINDS; kind++) {
        ops()->act(&ctx, (enum cs_act)kind, 3, x, y);
        assert_true(isnan(y[0]) && !isnan(y[1]) && isnan(y[2]));
    }
}

static void one_gated(enum cs_act kind, int n)
{
    enum { R = 3, N = 600 };

    static float both[R * 2 * N], dy[R * N], y[R * N], d_both[R * 2 * N];
    const int ld = 2 * n;
    fill(both, R * ld), fill(dy, R * n);
    ops()->gated(&ctx, kind, R, n, both, both + n, ld, y);
    ops()->gated_grad(&ctx, kind, R, n, both, both + n, ld, dy, d_both, d_both + n, ld);
    for (int r = 0; r < R; r++)
        for (int i = 0; i < n; i++) {
            const double g = (double)both[r * ld + i], u = (double)both[r * ld + n + i];
            const double d = (double)dy[r * n + i];
            assert_near((double)y[r * n + i], act_value(kind, g) * u, 1e-6, "y", i);
            assert_near((double)d_both[r * ld + i], d * u * act_slope(kind, g), 2e-6, "dgate", i);
            assert_near((double)d_both[r * ld + n + i], d * act_value(kind, g), 1e-6, "dup", i);
        }
    ops()->gated_grad(&ctx, kind, R, n, both, both + n, ld, dy, both, both + n, ld);
    assert_memory_equal(both, d_both, (size_t)(R * ld) * sizeof(float)); /* in place: same bits */
}

static void gated_activation_and_its_gradient_match_closed_forms(void **state)
{
    (void)state;
    const int sizes[] = {1, 5, 512, 600};
    for (int kind = 0; kind < CS_ACT_KINDS; kind++)
        for (int s = 0; s < 4; s++)
            one_gated((enum cs_act)kind, sizes[s]);
}

static void add_may_alias_its_inputs(void **state)
{
    (void)state;
    float a[33], b[33], want[33];
    fill(a, 33), fill(b, 33);
    for (int i = 0; i < 33; i++)
        want[i] = a[i] + b[i];
    ops()->add(&ctx, 33, a, b, a);
    assert_memory_equal(a, want, sizeof a);
}

/* ---- rows by index ---- */

static void embedding_copies_scaled_rows_and_zeroes_negative_ids(void **state)
{
    (void)state;

    enum { N = 5, V = 4 };

    float table[V * N], y[6 * N], d[6 * N], dtable[V * N] = {0};
    const int32_t ids[6] = {3, -1, 0, 3, 1, -7};
    fill(table, V * N), fill(d, 6 * N);
    for (int i = 0; i < 6 * N; i++)
        y[i] = NAN;
    ops()->embed(&ctx, 6, N, ids, table, 2.5f, y);
    ops()->embed_grad(&ctx, 6, N, ids, d, 2.5f, dtable);
    for (int r = 0; r < 6; r++)
        for (int j = 0; j < N; j++)
            assert_true(y[r * N + j] == (ids[r] < 0 ? 0.0f : table[ids[r] * N + j] * 2.5f));
    for (int j = 0; j < N; j++) {
        assert_true(dtable[3 * N + j] == d[j] * 2.5f + d[3 * N + j] * 2.5f);
        assert_true(dtable[0 * N + j] == d[2 * N + j] * 2.5f);
        assert_true(dtable[2 * N + j] == 0.0f);
    }
}

static void gather_and_scatter_are_adjoint(void **state)
{
    (void)state;

    enum { N = 3, ROWS = 4, T = 6 };

    const int32_t index[ROWS] = {5, -1, 0, 2};
    float x[T * N], y[ROWS * N], back[T * N], added[T * N];
    fill(x, T * N), fill(back, T * N);
    memcpy(added, back, sizeof back);
    ops()->gather_rows(&ctx, ROWS, N, index, x, y);
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < N; j++)
            assert_true(y[r * N + j] == (index[r] < 0 ? 0.0f : x[index[r] * N + j]));
    float before[T * N];
    memcpy(before, back, sizeof back);
    ops()->scatter_rows(&ctx, ROWS, N, index, y, back, 0);
    ops()->scatter_rows(&ctx, ROWS, N, index, y, added, 1);
    for (int t = 0; t < T; t++)
        for (int j = 0; j < N; j++) {
            const bool is_hit = t == 5 || t == 0 || t == 2;
            assert_true(back[t * N + j] == (is_hit ? x[t * N + j] : before[t * N + j]));
            assert_true(added[t * N + j] == before[t * N + j] + (is_hit ? x[t * N + j] : 0.0f));
        }
}

enum { PICTURE_W = 7, PICTURE_H = 5, CHANNELS = 3, PATCH = 2, FRAMES = 2 };

/* the value of a patch at place, in the order of shape */
static double pixel_value(const uint8_t *pixels, const struct cs_patch_place *place, int c, int f,
                          int r, int x, const float *mean, const float *std)
{
    const int64_t at = place->at + f * place->frame + r * place->line + x * CHANNELS + c;
    return ((double)pixels[at] / 255.0 - (double)mean[c]) / (double)std[c];
}

/* Patches of a picture and of two frames, anywhere, in any order. */
static void patches_are_in_the_order_of_their_weights(void **state)
{
    (void)state;

    enum { ROWS = 3, LINE = PICTURE_W * CHANNELS, BYTES = PICTURE_H * LINE };

    uint8_t pixels[2 * BYTES];
    for (int i = 0; i < 2 * BYTES; i++)
        pixels[i] = (uint8_t)(i * 37);
    const struct cs_patch_place place[ROWS] = {
        {2 * LINE + 4 * CHANNELS, LINE, BYTES},
        {0,                       LINE, 0    },
        {LINE + CHANNELS,         LINE, BYTES}
    };
    const float mean[CHANNELS] = {0.1f, 0.2f, 0.3f}, std[CHANNELS] = {0.5f, 0.6f, 0.7f};
    float y[ROWS * CHANNELS * FRAMES * PATCH * PATCH];
    for (int last = 0; last < 2; last++) {
        const struct cs_patch_shape shape = {CHANNELS, FRAMES, PATCH, last};
        int at = 0;
        ops()->patches(&ctx, ROWS, &shape, place, pixels, 1.0f / 255.0f, mean, std, y);
        for (int i = 0; i < ROWS; i++)
            for (int k = 0; k < CHANNELS * FRAMES * PATCH * PATCH; k++, at++) {
                const int plane = PATCH * PATCH, inner = last ? k / CHANNELS : k;
                const int c = last ? k % CHANNELS : k / plane / FRAMES;
                const int f = inner / plane % FRAMES;
                const double want = pixel_value(pixels, &place[i], c, f, inner % plane / PATCH,
                                                inner % PATCH, mean, std);
                assert_near((double)y[at], want, 1e-6, "y", at);
            }
    }
}

/* ---- weighted rows, neighbours ---- */

static double dot(int64_t n, const float *a, const float *b)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* values that are no multiples of each other */
static void fill_odd(int64_t n, float *x, int which)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)sin(0.7 * (double)(i + 1) * which + (double)which);
}

/* y = A x row by row, and <A x, y> = <x, A' y> with the list the other way round. */
static void mixed_rows_are_sums_and_their_gradient_is_the_adjoint(void **state)
{
    static const int32_t start[] = {0, 2, 2, 5}, index[] = {3, 0, 1, 1, 3};
    static const int32_t back_start[] = {0, 1, 3, 3, 5}, back_index[] = {0, 2, 2, 0, 2};
    static const float weight[] = {0.5f, -2, 1, 0.25f, 3}, back_weight[] = {-2, 1, 0.25f, 0.5f, 3};

    enum { ROWS = 3, FROM = 4, N = 5 };

    float x[FROM * N], y[ROWS * N], dy[ROWS * N], grad[FROM * N];
    (void)state;
    fill_odd(FROM * N, x, 1);
    fill_odd(ROWS * N, dy, 2);
    for (int added = 0; added < 2; added++) {
        for (int i = 0; i < ROWS * N; i++)
            y[i] = added ? 1 : NAN;
        ops()->mix_rows(&ctx, ROWS, N, start, index, weight, x, added, y);
        for (int r = 0; r < ROWS; r++)
            for (int j = 0; j < N; j++) {
                double want = added;
                for (int e = start[r]; e < start[r + 1]; e++)
                    want += (double)weight[e] * (double)x[index[e] * N + j];
                assert_near((double)y[r * N + j], want, 1e-6, "y", r * N + j);
            }
    }
    memset(y, 0, sizeof y);
    memset(grad, 0, sizeof grad);
    ops()->mix_rows(&ctx, ROWS, N, start, index, weight, x, 0, y);
    ops()->mix_rows_grad(&ctx, FROM, N, back_start, back_index, back_weight, dy, grad);
    assert_near(dot(ROWS * N, y, dy), dot(FROM * N, x, grad), 1e-5, "adjoint", 0);
    ops()->mix_rows_grad(&ctx, FROM, N, back_start, back_index, back_weight, dy, grad);
    assert_near(2 * dot(ROWS * N, y, dy), dot(FROM * N, x, grad), 1e-5, "added", 0);
}

static void unfolded_rows_are_neighbours_and_folding_is_the_adjoint(void **state)
{
    static const int32_t index[] = {-1, 0, 1, 1, 2, -1};
    static const int32_t start[] = {0, 1, 3, 4}, entry[] = {1, 2, 3, 4};

    enum { ROWS = 2, TAPS = 3, FROM = 3, N = 4 };

    float x[FROM * N], y[ROWS * N * TAPS], dy[ROWS * N * TAPS], dx[FROM * N];
    (void)state;
    fill_odd(FROM * N, x, 3);
    fill_odd(ROWS * N * TAPS, dy, 4);
    ops()->unfold(&ctx, ROWS, TAPS, N, index, x, y);
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < TAPS; k++) {
                const int from = index[r * TAPS + k];
                assert_near((double)y[(r * N + j) * TAPS + k],
                            from < 0 ? 0 : (double)x[from * N + j], 0, "y", (r * N + j) * TAPS + k);
            }
    ops()->fold(&ctx, FROM, TAPS, N, start, entry, dy, dx);
    assert_near(dot(ROWS * N * TAPS, y, dy), dot(FROM * N, x, dx), 1e-5, "adjoint", 0);
    /* without lists the rows of a group are woven, and come apart again */
    float woven[2 * N], apart[2 * N];
    ops()->unfold(&ctx, 1, 2, N, NULL, x, woven);
    ops()->fold(&ctx, 2, 2, N, NULL, NULL, woven, apart);
    for (int i = 0; i < 2 * N; i++) {
        assert_near((double)woven[i], (double)x[i % 2 * N + i / 2], 0, "woven", i);
        assert_near((double)apart[i], (double)x[i], 0, "apart", i);
    }
}

/* ---- optimizer ---- */

/* the textbook in fp64, one element */
static void adamw_by_hand(const struct cs_adamw *h, double g, double *w, double *m, double *v)
{
    g *= (double)h->grad_scale;
    *w -= (double)h->lr * (double)h->weight_decay * *w;
    *m = (double)h->beta1 * *m + (1 - (double)h->beta1) * g;
    *v = (double)h->beta2 * *v + (1 - (double)h->beta2) * g * g;
    const double mh = *m / (1 - pow((double)h->beta1, (double)h->step));
    const double vh = *v / (1 - pow((double)h->beta2, (double)h->step));
    *w -= (double)h->lr * mh / (sqrt(vh) + (double)h->eps);
}

static void adamw_follows_the_textbook_for_ten_steps(void **state)
{
    (void)state;

    enum { N = 1037 };

    static float g[N], w[N], m[N], v[N], copy[N];
    static double wd[N], md[N], vd[N];
    fill(w, N);
    for (int i = 0; i < N; i++)
        wd[i] = (double)w[i];
    struct cs_adamw h = {.lr = 0.01f,
                         .beta1 = 0.9f,
                         .beta2 = 0.95f,
                         .eps = 1e-8f,
                         .weight_decay = 0.1f,
                         .grad_scale = 0.25f};
    for (h.step = 1; h.step <= 10; h.step++) {
        fill(g, N);
        g[3] = 0.0f; /* never any gradient: decay alone */
        ops()->adamw(&ctx, N, &h, g, w, m, v, copy);
        for (int i = 0; i < N; i++) {
            adamw_by_hand(&h, (double)g[i], &wd[i], &md[i], &vd[i]);
            assert_near((double)w[i], wd[i], 3e-6, "w", i);
            assert_near((double)m[i], md[i], 1e-6, "m", i);
            assert_near((double)v[i], vd[i], 1e-6, "v", i);
        }
        assert_memory_equal(copy, w, sizeof w);
    }
    assert_near(wd[3], (double)w[3], 1e-6, "decayed", 3);
}

static void adamw_first_step_moves_by_the_learning_rate(void **state)
{
    (void)state;
    float g[2] = {4.0f, -1e-3f}, w[2] = {1.0f, 1.0f}, m[2] = {0}, v[2] = {0};
    const struct cs_adamw h = {.lr = 0.1f,
                               .beta1 = 0.9f,
                               .beta2 = 0.999f,
                               .eps = 1e-8f,
                               .weight_decay = 0.5f,
                               .grad_scale = 1.0f,
                               .step = 1};
    ops()->adamw(&ctx, 2, &h, g, w, m, v, w);
    assert_near((double)w[0], 1.0 - 0.05 - 0.1, 1e-6, "w", 0); /* decay 0.05, then lr * sign */
    assert_near((double)w[1], 1.0 - 0.05 + 0.1, 2e-6, "w", 1);
    ops()->adamw(&ctx, 0, &h, g, w, m, v, w);
}

static void sum_of_squares_is_fp64_and_ignores_the_address(void **state)
{
    (void)state;
    float area[1000 + 8];
    double first = 0, want = 0;
    for (int shift = 0; shift < 8; shift++) {
        double sum = NAN;
        seed = 99;
        fill(area + shift, 999);
        ops()->sumsq(&ctx, 999, area + shift, &sum);
        if (shift == 0) {
            first = sum;
            for (int i = 0; i < 999; i++)
                want += (double)area[i] * (double)area[i];
        }
        assert_true(sum == first);
    }
    assert_near(first, want, 1e-13, "sum", 0);
    ops()->sumsq(&ctx, 0, area, &first);
    assert_true(first == 0);
}

static void only_the_mask_builder_is_left_out_of_the_table(void **state)
{
    (void)state;
    const struct cs_ops *t = ops();
    assert_int_equal(t->version, CS_OPS_VERSION);
    assert_string_equal(t->name, "cpu");
    assert_int_equal(t->act_bytes, 4);
    assert_null(t->device); /* arrays are host memory */
    const char *at = (const char *)&t->gemm, *end = (const char *)&t->device;
    const char *builder = (const char *)&t->mask_build, *size = (const char *)&t->mask_workspace;
    for (void (*f)(void) = NULL; at < end; at += sizeof f) {
        memcpy(&f, at, sizeof f);
        /* attention of the CPU works from documents: nothing to build */
        assert_true((f == NULL) == (at == builder || at == size));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_equals_the_plain_product_for_all_layouts),
        cmocka_unit_test(weight_gradient_is_accumulated),
        cmocka_unit_test(bias_is_added_and_its_gradient_sums_columns),
        cmocka_unit_test(selfcheck_passes_on_this_machine),
        cmocka_unit_test(norms_and_their_gradients_match_differences),
        cmocka_unit_test(norm_gradient_may_be_written_over_dx_in),
        cmocka_unit_test(norm_of_a_row_does_not_depend_on_its_address),
        cmocka_unit_test(rope_turns_the_first_part_of_a_head_and_back),
        cmocka_unit_test(inverse_rope_is_the_adjoint_even_when_cos_and_sin_are_scaled),
        cmocka_unit_test(activations_and_slopes_match_closed_forms),
        cmocka_unit_test(activations_pass_nan_on),
        cmocka_unit_test(gated_activation_and_its_gradient_match_closed_forms),
        cmocka_unit_test(add_may_alias_its_inputs),
        cmocka_unit_test(embedding_copies_scaled_rows_and_zeroes_negative_ids),
        cmocka_unit_test(gather_and_scatter_are_adjoint),
        cmocka_unit_test(patches_are_in_the_order_of_their_weights),
        cmocka_unit_test(mixed_rows_are_sums_and_their_gradient_is_the_adjoint),
        cmocka_unit_test(unfolded_rows_are_neighbours_and_folding_is_the_adjoint),
        cmocka_unit_test(adamw_follows_the_textbook_for_ten_steps),
        cmocka_unit_test(adamw_first_step_moves_by_the_learning_rate),
        cmocka_unit_test(sum_of_squares_is_fp64_and_ignores_the_address),
        cmocka_unit_test(only_the_mask_builder_is_left_out_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
