/* Mixtures of experts and what moves parts of rows: routing against its definition, gradients of the
 * whole (and of the balancing loss) against central differences, products by expert against one
 * product a row. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops.h"

enum { MAX_ROWS = 60, MAX_EXPERTS = 40, MAX_K = 8, MAX_PAIRS = MAX_ROWS * MAX_K };

static uint32_t seed = 11;

static float rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

static void fill(float *x, int64_t n, float size)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = size * rnd();
}

static void assert_near(double got, double want, double tol, const char *what, int64_t at)
{
    if (!(fabs(got - want) <= tol * (1.0 + fabs(want))))
        fail_msg("%s[%lld]: %.9g, want %.9g", what, (long long)at, got, want);
}

struct routed {
    struct cs_moe_shape shape;
    int64_t rows;
    float logits[MAX_ROWS * MAX_EXPERTS];
    int32_t expert[MAX_PAIRS], place[MAX_PAIRS], token[MAX_PAIRS], first[MAX_EXPERTS + 1];
    int64_t load[CS_MOE_LOADS * MAX_EXPERTS];
    float weight[MAX_PAIRS];
};

static struct cs_moe_routes routes_of(struct routed *r)
{
    return (struct cs_moe_routes){r->expert, r->place, r->token, r->first, r->weight};
}

static void route(struct routed *r)
{
    struct cs_ctx ctx = {.grad = CS_GRAD_F32};
    const struct cs_moe_routes to = routes_of(r);
    memset(r->first, 0x7f, sizeof r->first);
    cs_ops_cpu()->moe_route(&ctx, &r->shape, r->rows, r->logits, &to);
    for (int32_t i = 0; i < CS_MOE_LOADS * r->shape.experts; i++)
        r->load[i] = 1000 + i; /* of other layers */
    cs_ops_cpu()->moe_load(&ctx, &r->shape, r->rows, r->logits, &to, r->load);
}

static struct routed *new_routed(int64_t rows, int32_t experts, int32_t top_k, bool is_normed,
                                 int64_t counted)
{
    struct routed *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->shape = (struct cs_moe_shape){experts, top_k, is_normed, counted};
    r->rows = rows;
    fill(r->logits, rows * experts, 3.0f);
    return r;
}

/* probability of an expert among all, in fp64 */
static double probability(const struct routed *r, int64_t row, int32_t expert)
{
    const float *x = r->logits + row * r->shape.experts;
    double sum = 0;
    for (int32_t e = 0; e < r->shape.experts; e++)
        sum += exp((double)x[e] - (double)x[expert]);
    return 1.0 / sum;
}

static double weight_of(const struct routed *r, int64_t row, int32_t k)
{
    const int32_t *chosen = r->expert + row * r->shape.top_k;
    double sum = 0;
    for (int32_t j = 0; j < r->shape.top_k; j++)
        sum += probability(r, row, chosen[j]);
    return probability(r, row, chosen[k]) / (r->shape.is_normed ? sum : 1.0);
}

static void check_choice(const struct routed *r, int64_t row)
{
    const int32_t k = r->shape.top_k, *chosen = r->expert + row * k;
    const float *x = r->logits + row * r->shape.experts;
    for (int32_t j = 0; j < k; j++) {
        int32_t stronger = 0;
        for (int32_t e = 0; e < r->shape.experts; e++)
            stronger += x[e] > x[chosen[j]] || (e < chosen[j] && x[e] >= x[chosen[j]]);
        assert_int_equal(stronger, j);
    }
}

static void check_places(const struct routed *r)
{
    const int64_t pairs = r->rows * r->shape.top_k;
    int64_t load[MAX_EXPERTS] = {0};
    assert_int_equal(r->first[0], 0);
    assert_int_equal(r->first[r->shape.experts], pairs);
    for (int64_t i = 0; i < pairs; i++) {
        const int32_t e = r->expert[i], place = r->place[i];
        const int64_t row = i / r->shape.top_k;
        assert_in_range(place, r->first[e], r->first[e + 1] - 1);
        assert_int_equal(r->token[place], row);
        if (place > r->first[e])
            assert_true(r->token[place - 1] < row); /* in the order of rows */
        assert_near((double)r->weight[place], weight_of(r, row, (int32_t)(i % r->shape.top_k)),
                    1e-6, "weight", i);
        load[e] += row < r->shape.counted;
    }
    for (int32_t e = 0; e < r->shape.experts; e++) {
        const int64_t *units = r->load + r->shape.experts;
        double sum = 0;
        for (int64_t row = 0; row < r->rows && row < r->shape.counted; row++)
            sum += probability(r, row, e);
        assert_int_equal(r->load[e], 1000 + e + load[e]);
        assert_near((double)(units[e] - 1000 - r->shape.experts - e) / CS_MOE_UNIT, sum, 1e-6,
                    "probabilities", e);
    }
}

static void rows_go_to_their_strongest_experts(void **state)
{
    static const int32_t sizes[][4] = {
        {1,  1,  1, 1 }, /* rows, experts, top_k, counted */
        {7,  4,  2, 7 },
        {60, 40, 8, 31},
        {60, 3,  3, 60},
        {33, 33, 1, 0 },
    };
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++)
        for (int is_normed = 0; is_normed < 2; is_normed++) {
            struct routed *r =
                new_routed(sizes[i][0], sizes[i][1], sizes[i][2], is_normed, sizes[i][3]);
            for (int32_t e = 2; e < r->shape.experts; e++) /* of equal ones the lower is taken */
                r->logits[e] = r->logits[1];
            route(r);
            for (int64_t row = 0; row < r->rows; row++)
                check_choice(r, row);
            check_places(r);
            free(r);
        }
}

/* sum of pull times weight, and of pairs (of all layers) times probability of the counted rows */
static double objective(struct routed *r, const float *pull, double balance)
{
    double sum = 0, shares = 0;
    for (int64_t i = 0; i < r->rows * r->shape.top_k; i++)
        sum += (double)pull[r->place[i]] *
               weight_of(r, i / r->shape.top_k, (int32_t)(i % r->shape.top_k));
    for (int32_t e = 0; e < r->shape.experts; e++) {
        for (int64_t row = 0; row < r->shape.counted; row++)
            shares += probability(r, row, e) * (double)r->load[e];
    }
    return sum + balance * shares;
}

static void gradient_of_logits_is_that_of_weights_and_balance(void **state)
{
    enum { ROWS = 9, EXPERTS = 6 };

    float pull[MAX_PAIRS], d[ROWS * EXPERTS];
    const float balance = 0.0025f;
    (void)state;
    for (int is_normed = 0; is_normed < 2; is_normed++) {
        struct routed *r = new_routed(ROWS, EXPERTS, 3, is_normed, 5);
        struct cs_ctx ctx = {.grad = CS_GRAD_F32};
        route(r);
        fill(pull, ROWS * 3, 1.0f);
        const struct cs_moe_routes to = routes_of(r);
        cs_ops_cpu()->moe_route_grad(&ctx, &r->shape, ROWS, r->logits, &to, pull, balance, r->load,
                                     d);
        for (int64_t i = 0; i < ROWS * EXPERTS; i++) {
            const float at = r->logits[i], h = 1.0f / 256;
            r->logits[i] = at + h;
            const double more = objective(r, pull, (double)balance);
            r->logits[i] = at - h;
            const double less = objective(r, pull, (double)balance);
            r->logits[i] = at;
            assert_near((double)d[i], (more - less) / (2.0 * (double)h), 1e-4, "dlogits", i);
        }
        free(r);
    }
}

struct grouped {
    struct routed *r;
    struct cs_moe_groups groups;
    int64_t in, out, places;
    float *x, *w, *y, *dw;
};

static float *floats(int64_t n)
{
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    assert_non_null(x);
    fill(x, n, 1.0f);
    return x;
}

static struct grouped new_grouped(int64_t rows, int32_t experts, int64_t in, int64_t out)
{
    struct grouped g = {.r = new_routed(rows, experts, 2, true, rows), .in = in, .out = out};
    route(g.r);
    g.places = rows * 2;
    g.groups = (struct cs_moe_groups){g.r->first, experts, g.places};
    g.x = floats(g.places * in);
    g.w = floats(experts * in * out);
    g.y = floats(g.places * out);
    g.dw = floats(experts * in * out);
    return g;
}

static void free_grouped(struct grouped *g)
{
    free(g->r);
    free(g->x);
    free(g->w);
    free(g->y);
    free(g->dw);
}

static int32_t expert_at(const struct grouped *g, int64_t place)
{
    int32_t e = 0;
    while (place >= g->r->first[e + 1])
        e++;
    return e;
}

static void rows_meet_the_matrix_of_their_expert(void **state)
{
    struct grouped g = new_grouped(13, 9, 5, 7);
    struct cs_ctx ctx = {.grad = CS_GRAD_F32};
    (void)state;
    float *dx = floats(g.places * g.in);
    cs_ops_cpu()->moe_linear(&ctx, &g.groups, g.in, g.out, g.x, g.w, g.y);
    cs_ops_cpu()->moe_linear_dgrad(&ctx, &g.groups, g.in, g.out, g.y, g.w, dx);
    for (int64_t p = 0; p < g.places; p++) {
        const float *w = g.w + expert_at(&g, p) * g.in * g.out;
        for (int64_t o = 0; o < g.out; o++) {
            double sum = 0;
            for (int64_t i = 0; i < g.in; i++)
                sum += (double)w[o * g.in + i] * (double)g.x[p * g.in + i];
            assert_near((double)g.y[p * g.out + o], sum, 1e-5, "y", p);
        }
        for (int64_t i = 0; i < g.in; i++) {
            double sum = 0;
            for (int64_t o = 0; o < g.out; o++)
                sum += (double)w[o * g.in + i] * (double)g.y[p * g.out + o];
            assert_near((double)dx[p * g.in + i], sum, 1e-5, "dx", p);
        }
    }
    free(dx);
    free_grouped(&g);
}

/* Experts without rows: their gradient stays, or is 0 where it is the first. */
static void gradients_of_matrices_are_added_or_first(void **state)
{
    (void)state;
    for (int is_new = 0; is_new < 2; is_new++) {
        struct grouped g = new_grouped(3, 12, 5, 4);
        struct cs_ctx ctx = {.grad = CS_GRAD_F32, .is_grad_new = is_new};
        const int64_t n = g.in * g.out;
        float *before = floats(12 * n);
        memcpy(before, g.dw, (size_t)(12 * n) * sizeof *before);
        cs_ops_cpu()->moe_linear_wgrad(&ctx, &g.groups, g.in, g.out, g.y, g.x, g.dw);
        for (int32_t e = 0; e < 12; e++)
            for (int64_t at = 0; at < n; at++) {
                double sum = is_new ? 0.0 : (double)before[e * n + at];
                for (int32_t p = g.r->first[e]; p < g.r->first[e + 1]; p++)
                    sum += (double)g.y[p * g.out + at / g.in] * (double)g.x[p * g.in + at % g.in];
                assert_near((double)g.dw[e * n + at], sum, 1e-5, "dw", at);
            }
        free(before);
        free_grouped(&g);
    }
}

static void rows_are_weighted_and_summed(void **state)
{
    enum { ROWS = 5, N = 3, TERMS = 2 };

    const int32_t index[ROWS * TERMS] = {3, 0, 1, 1, 2, 4, 0, 3, 4, 2};
    float x[ROWS * N], w[ROWS], y[ROWS * N], d[ROWS * N], dw[ROWS], sum[ROWS * N];
    struct cs_ctx ctx = {.grad = CS_GRAD_F32};
    (void)state;
    fill(x, ROWS * N, 1);
    fill(w, ROWS, 1);
    fill(d, ROWS * N, 1);
    cs_ops_cpu()->scale_rows(&ctx, ROWS, N, x, w, y);
    for (int i = 0; i < ROWS * N; i++)
        assert_near((double)y[i], (double)x[i] * (double)w[i / N], 1e-6, "scaled", i);
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        cs_ops_cpu()->sum_rows(&ctx, ROWS, TERMS, N, index, x, is_plain ? NULL : y, sum);
        for (int i = 0; i < ROWS * N; i++) {
            const int32_t *of = index + i / N * TERMS;
            const double want = (is_plain ? 0.0 : (double)y[i]) + (double)x[of[0] * N + i % N] +
                                (double)x[of[1] * N + i % N];
            assert_near((double)sum[i], want, 1e-6, "sum", i);
        }
    }
    memcpy(y, d, sizeof y);
    cs_ops_cpu()->scale_rows_grad(&ctx, ROWS, N, x, w, y, y, dw); /* in place */
    for (int i = 0; i < ROWS; i++) {
        double along = 0;
        for (int j = 0; j < N; j++) {
            along += (double)d[i * N + j] * (double)x[i * N + j];
            assert_near((double)y[i * N + j], (double)d[i * N + j] * (double)w[i], 1e-6, "dx", i);
        }
        assert_near((double)dw[i], along, 1e-6, "dweight", i);
    }
}

static void heads_are_copied_or_added_and_nothing_else(void **state)
{
    enum { ROWS = 3, HEADS = 2, DIM = 4, X = 23, Y = 17 };

    float x[ROWS * X], y[ROWS * Y], sum[ROWS * Y], before[ROWS * Y];
    struct cs_ctx ctx = {.grad = CS_GRAD_F32};
    (void)state;
    fill(x, ROWS * X, 1);
    fill(y, ROWS * Y, 1);
    memcpy(before, y, sizeof y);
    memcpy(sum, y, sizeof y);
    cs_ops_cpu()->copy_heads(&ctx, ROWS, HEADS, DIM, x + 1, X, 9, y + 2, Y, 5);
    cs_ops_cpu()->add_heads(&ctx, ROWS, HEADS, DIM, x + 1, X, 9, sum + 2, Y, 5);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < Y; c++) {
            const int head = (c - 2) / 5, at = (c - 2) % 5;
            const bool is_copied = c >= 2 && head < HEADS && at < DIM;
            const float old = before[r * Y + c];
            const float from = is_copied ? x[r * X + 1 + head * 9 + at] : 0;
            assert_near((double)y[r * Y + c], (double)(is_copied ? from : old), 0, "copied", c);
            assert_near((double)sum[r * Y + c], (double)(old + from), 0, "added", c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_to_their_strongest_experts),
        cmocka_unit_test(gradient_of_logits_is_that_of_weights_and_balance),
        cmocka_unit_test(rows_meet_the_matrix_of_their_expert),
        cmocka_unit_test(gradients_of_matrices_are_added_or_first),
        cmocka_unit_test(rows_are_weighted_and_summed),
        cmocka_unit_test(heads_are_copied_or_added_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
