/* Recurrent layers: the gated delta rule in chunks against its recurrence in fp64 and against the
 * recurrence's own backward, row by row; documents in one slot against each alone; gates and the
 * short convolution against central differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops.h"

enum { KD = 24, VD = 20, KEY_HEADS = 2, HEADS = 4, MAX_ROWS = 300 };

static uint32_t seed = 7;

static float rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return (float)(seed >> 8) / 8388608.0f - 1.0f;
}

static float *random_floats(size_t n, float low, float high)
{
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = low + (high - low) * (rnd() + 1.0f) / 2.0f;
    return x;
}

static float *nan_floats(size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    return x;
}

static void assert_near(double got, double want, double tol, const char *what, size_t at)
{
    if (!(fabs(got - want) <= tol * (1.0 + fabs(want))))
        fail_msg("%s[%zu]: %.9g, want %.9g", what, at, got, want);
}

struct slot { /* operands of one call; q, k and v lie in one buffer of rows */
    int32_t rows, n_segments;
    const int32_t *segment;
    float strongest; /* decay of a row, as a logarithm */
    float *qkv, *g, *beta, *d_o, *o, *dqkv, *dg, *dbeta;
};

enum { WIDTH = 2 * KEY_HEADS * KD + HEADS * VD + 3, OUT = HEADS * VD + 1 };

static struct cs_delta_shape shape(void)
{
    return (struct cs_delta_shape){.heads = HEADS,
                                   .key_heads = KEY_HEADS,
                                   .key_dim = KD,
                                   .value_dim = VD,
                                   .q_stride = WIDTH,
                                   .v_stride = WIDTH,
                                   .o_stride = OUT,
                                   .eps = 1e-6f};
}

static struct slot new_slot(int32_t rows, int32_t n_segments, const int32_t *segment,
                            float strongest)
{
    const size_t n = (size_t)rows;
    return (struct slot){.rows = rows,
                         .n_segments = n_segments,
                         .segment = segment,
                         .qkv = random_floats(n * WIDTH, -2, 2),
                         .g = random_floats(n * HEADS, strongest, 0),
                         .beta = random_floats(n * HEADS, 0, 1),
                         .d_o = random_floats(n * OUT, -1, 1),
                         .o = nan_floats(n * OUT),
                         .dqkv = nan_floats(n * WIDTH),
                         .dg = nan_floats(n * HEADS),
                         .dbeta = nan_floats(n * HEADS)};
}

static void free_slot(struct slot *s)
{
    float *all[] = {s->qkv, s->g, s->beta, s->d_o, s->o, s->dqkv, s->dg, s->dbeta};
    for (size_t i = 0; i < CS_ARRAY_LEN(all); i++)
        free(all[i]);
}

static void run_slot(struct slot *s)
{
    const struct cs_delta_shape sh = shape();
    const struct cs_mask_plan mask = {
        .n_tokens = s->rows, .n_segments = s->n_segments, .segment = s->segment};
    const size_t k = KEY_HEADS * KD;
    struct cs_ctx ctx = {.workspace_bytes = cs_ops_cpu()->delta_workspace(&sh, &mask)};
    ctx.workspace = aligned_alloc(64, (ctx.workspace_bytes + 63) / 64 * 64);
    assert_non_null(ctx.workspace);
    memset(ctx.workspace, 0xff, ctx.workspace_bytes);
    const struct cs_delta_in in = {s->qkv, s->qkv + k, s->qkv + 2 * k, s->g, s->beta};
    const struct cs_delta_out out = {s->dqkv, s->dqkv + k, s->dqkv + 2 * k, s->dg, s->dbeta};
    cs_ops_cpu()->delta(&ctx, &sh, &mask, &in, s->o);
    memset(ctx.workspace, 0xff, ctx.workspace_bytes);
    cs_ops_cpu()->delta_grad(&ctx, &sh, &mask, &in, s->d_o, &out);
    free(ctx.workspace);
}

/* ---- the recurrence in fp64 ---- */

struct row {
    double q[KD], k[KD], v[VD], g, beta; /* q and k normalised, q scaled */
    double state[KD][VD];                /* before the row */
    double u[VD], o[VD];
    double dq[KD], dk[KD], dv[VD], dg, dbeta; /* of the normalised ones */
};

static struct row table[MAX_ROWS];

static void read_key(const float *x, double factor, double *y)
{
    double sum = 1e-6;
    for (int j = 0; j < KD; j++)
        sum += (double)x[j] * (double)x[j];
    for (int j = 0; j < KD; j++)
        y[j] = factor * (double)x[j] / sqrt(sum);
}

static void read_row(const struct slot *s, int32_t row, int head, struct row *r)
{
    const float *x = s->qkv + (size_t)row * WIDTH;
    const int key = head / (HEADS / KEY_HEADS);
    read_key(x + key * KD, 1.0 / sqrt((double)KD), r->q);
    read_key(x + (KEY_HEADS + key) * KD, 1.0, r->k);
    for (int j = 0; j < VD; j++)
        r->v[j] = (double)x[2 * KEY_HEADS * KD + head * VD + j];
    r->g = (double)s->g[(size_t)row * HEADS + (size_t)head];
    r->beta = (double)s->beta[(size_t)row * HEADS + (size_t)head];
}

static void step(struct row *r, double state[KD][VD])
{
    memcpy(r->state, state, sizeof r->state);
    for (int i = 0; i < KD; i++)
        for (int j = 0; j < VD; j++)
            state[i][j] *= exp(r->g);
    for (int j = 0; j < VD; j++) {
        double seen = 0;
        for (int i = 0; i < KD; i++)
            seen += r->k[i] * state[i][j];
        r->u[j] = r->beta * (r->v[j] - seen);
    }
    for (int j = 0; j < VD; j++) {
        r->o[j] = 0;
        for (int i = 0; i < KD; i++) {
            state[i][j] += r->k[i] * r->u[j];
            r->o[j] += r->q[i] * state[i][j];
        }
    }
}

/* d (KD, VD): gradient of the state after the row, becomes the one before it */
static void step_back(struct row *r, const float *d_o, double d[KD][VD])
{
    const double decay = exp(r->g);
    double of_u[VD], of_decay = 0;
    memset(r->dq, 0, sizeof r->dq);
    memset(r->dk, 0, sizeof r->dk);
    r->dbeta = 0;
    for (int j = 0; j < VD; j++) {
        of_u[j] = 0;
        for (int i = 0; i < KD; i++) {
            r->dq[i] += (double)d_o[j] * (decay * r->state[i][j] + r->k[i] * r->u[j]);
            d[i][j] += r->q[i] * (double)d_o[j];
            of_u[j] += r->k[i] * d[i][j];
            r->dk[i] += r->u[j] * d[i][j];
        }
        double seen = 0;
        for (int i = 0; i < KD; i++)
            seen += r->k[i] * decay * r->state[i][j];
        r->dv[j] = r->beta * of_u[j];
        r->dbeta += of_u[j] * (r->v[j] - seen);
        for (int i = 0; i < KD; i++) {
            r->dk[i] -= r->beta * of_u[j] * decay * r->state[i][j];
            d[i][j] -= r->beta * of_u[j] * r->k[i];
            of_decay += d[i][j] * r->state[i][j];
            d[i][j] *= decay;
        }
    }
    r->dg = of_decay * decay;
}

/* dx of y = factor x / |x| */
static void key_back(const float *x, double factor, const double *dy, double *dx)
{
    double sum = 1e-6, along = 0;
    for (int j = 0; j < KD; j++) {
        sum += (double)x[j] * (double)x[j];
        along += dy[j] * (double)x[j];
    }
    for (int j = 0; j < KD; j++)
        dx[j] += factor / sqrt(sum) * (dy[j] - along * (double)x[j] / sum);
}

static void compare_row(const struct slot *s, int32_t row, int head, const struct row *r)
{
    const size_t at = (size_t)row * HEADS + (size_t)head;
    for (size_t j = 0; j < VD; j++) {
        const size_t col = (size_t)head * VD + j;
        assert_near((double)s->o[(size_t)row * OUT + col], r->o[j], 2e-5, "o", col);
        assert_near((double)s->dqkv[(size_t)row * WIDTH + 2 * KEY_HEADS * KD + col], r->dv[j], 5e-5,
                    "dv", col);
    }
    assert_near((double)s->dg[at], r->dg, 2e-4, "dg", at);
    assert_near((double)s->dbeta[at], r->dbeta, 1e-4, "dbeta", at);
}

static void check_document(const struct slot *s, int32_t begin, int32_t end, double *dkeys)
{
    for (int head = 0; head < HEADS; head++) {
        double state[KD][VD] = {{0}}, d[KD][VD] = {{0}};
        for (int32_t i = begin; i < end; i++) {
            read_row(s, i, head, &table[i]);
            step(&table[i], state);
        }
        for (int32_t i = end - 1; i >= begin; i--) {
            step_back(&table[i], s->d_o + (size_t)i * OUT + head * VD, d);
            compare_row(s, i, head, &table[i]);
            const int key = head / (HEADS / KEY_HEADS);
            const float *x = s->qkv + (size_t)i * WIDTH;
            double *dx = dkeys + (size_t)i * 2 * KEY_HEADS * KD;
            key_back(x + key * KD, 1.0 / sqrt((double)KD), table[i].dq, dx + key * KD);
            key_back(x + (KEY_HEADS + key) * KD, 1.0, table[i].dk, dx + (KEY_HEADS + key) * KD);
        }
    }
}

static void check_slot(struct slot *s)
{
    double *dkeys = calloc((size_t)s->rows * 2 * KEY_HEADS * KD + 1, sizeof *dkeys);
    assert_non_null(dkeys);
    run_slot(s);
    for (int32_t i = 0; i < s->n_segments; i++)
        check_document(s, s->segment[i], s->segment[i + 1], dkeys);
    for (size_t i = 0; i < (size_t)s->rows; i++) {
        for (size_t j = 0; j < 2 * KEY_HEADS * KD; j++)
            assert_near((double)s->dqkv[i * WIDTH + j], dkeys[i * 2 * KEY_HEADS * KD + j], 1e-4,
                        "dq, dk", i * 1000 + j);
        for (size_t j = WIDTH - 3; j < WIDTH; j++) /* between rows */
            assert_true(isnan(s->dqkv[i * WIDTH + j]));
        assert_true(isnan(s->o[i * OUT + OUT - 1]));
    }
    free(dkeys);
    free_slot(s);
}

static void chunks_equal_the_recurrence_both_ways(void **state)
{
    (void)state;
    static const int32_t lengths[] = {1, 2, 63, 64, 65, 157, MAX_ROWS};
    static const float decays[] = {-0.2f, -3.0f, -40.0f}; /* from slow to at once */
    for (size_t i = 0; i < CS_ARRAY_LEN(lengths); i++)
        for (size_t j = 0; j < CS_ARRAY_LEN(decays); j++) {
            const int32_t segment[] = {0, lengths[i]};
            struct slot s = new_slot(lengths[i], 1, segment, decays[j]);
            check_slot(&s);
        }
}

static void documents_of_a_slot_know_nothing_of_each_other(void **state)
{
    (void)state;
    static const int32_t segment[] = {0, 70, 71, 135, 200};
    struct slot s = new_slot(200, 4, segment, -1.0f);
    check_slot(&s);
    struct slot none = new_slot(0, 0, segment, -1.0f);
    run_slot(&none);
    free_slot(&none);
}

/* ---- parts of a document on several ranks ---- */

enum { MAP = HEADS * KD * KD, STATE = HEADS * KD * VD, PARTS = 4 };

struct part {
    int32_t begin, end;
    float map[MAP], leaves[STATE], asked[STATE], enters[STATE], d_leaves[STATE];
};

/* operands of rows from `row` on */
static struct cs_delta_in in_at(const struct slot *s, int32_t row)
{
    const float *x = s->qkv + (size_t)row * WIDTH;
    const size_t k = KEY_HEADS * KD, at = (size_t)row * HEADS;
    return (struct cs_delta_in){x, x + k, x + 2 * k, s->g + at, s->beta + at};
}

static struct cs_mask_plan one_document(int32_t segment[2], int32_t rows)
{
    segment[0] = 0;
    segment[1] = rows;
    return (struct cs_mask_plan){.n_tokens = rows, .n_segments = 1, .segment = segment};
}

/* what comes before every part, and behind it, from the parts by themselves */
static void compose(struct cs_ctx *ctx, const struct slot *s, struct part *part)
{
    const struct cs_delta_shape sh = shape();
    const struct cs_ops *ops = cs_ops_cpu();
    for (int p = 0; p < PARTS; p++) {
        int32_t segment[2];
        const struct cs_mask_plan mask = one_document(segment, part[p].end - part[p].begin);
        const struct cs_delta_in in = in_at(s, part[p].begin);
        const struct cs_delta_pass out = {part[p].map, part[p].leaves, part[p].asked};
        ops->delta_pass(ctx, &sh, &mask, &in, s->d_o + (size_t)part[p].begin * OUT, &out);
    }
    memset(part[0].enters, 0, sizeof part[0].enters);
    memset(part[PARTS - 1].d_leaves, 0, sizeof part[0].d_leaves);
    for (int p = 1; p < PARTS; p++) {
        memcpy(part[p].enters, part[p - 1].enters, sizeof part[p].enters);
        ops->delta_join(ctx, &sh, part[p - 1].map, false, part[p - 1].leaves, part[p].enters);
    }
    for (int p = PARTS - 2; p >= 0; p--) {
        memcpy(part[p].d_leaves, part[p + 1].d_leaves, sizeof part[p].d_leaves);
        ops->delta_join(ctx, &sh, part[p + 1].map, true, part[p + 1].asked, part[p].d_leaves);
    }
}

static void run_part(struct cs_ctx *ctx, struct slot *s, const struct part *p)
{
    const struct cs_delta_shape sh = shape();
    const size_t k = KEY_HEADS * KD, row = (size_t)p->begin;
    int32_t segment[2];
    const struct cs_mask_plan mask = one_document(segment, p->end - p->begin);
    const struct cs_delta_in in = in_at(s, p->begin);
    float *d = s->dqkv + row * WIDTH;
    const struct cs_delta_out out = {d, d + k, d + 2 * k, s->dg + row * HEADS,
                                     s->dbeta + row * HEADS};
    cs_ops_cpu()->delta_part(ctx, &sh, &mask, &in, p->enters, s->o + row * OUT);
    cs_ops_cpu()->delta_part_grad(ctx, &sh, &mask, &in, p->enters, p->d_leaves, s->d_o + row * OUT,
                                  &out);
}

static void parts_of_a_document_equal_the_whole(void **state)
{
    static const float decays[] = {-0.02f, -0.3f, -5.0f};
    static const int32_t cuts[] = {0, 3, 90, 154, 207};
    static struct part part[PARTS];
    const int32_t segment[] = {0, 207};
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(decays); i++) {
        const struct cs_delta_shape sh = shape();
        const struct cs_mask_plan mask = {.n_tokens = 207, .n_segments = 1, .segment = segment};
        struct slot s = new_slot(207, 1, segment, decays[i]);
        struct cs_ctx ctx = {.workspace_bytes = cs_ops_cpu()->delta_workspace(&sh, &mask)};
        ctx.workspace = aligned_alloc(64, (ctx.workspace_bytes + 63) / 64 * 64);
        assert_non_null(ctx.workspace);
        double *dkeys = calloc(207 * 2 * KEY_HEADS * KD + 1, sizeof *dkeys);
        assert_non_null(dkeys);
        for (int p = 0; p < PARTS; p++) {
            part[p].begin = cuts[p];
            part[p].end = cuts[p + 1];
        }
        compose(&ctx, &s, part);
        for (int p = 0; p < PARTS; p++)
            run_part(&ctx, &s, &part[p]);
        check_document(&s, 0, 207, dkeys);
        for (size_t row = 0; row < 207; row++)
            for (size_t j = 0; j < 2 * KEY_HEADS * KD; j++)
                assert_near((double)s.dqkv[row * WIDTH + j], dkeys[row * 2 * KEY_HEADS * KD + j],
                            1e-4, "dq, dk", row * 1000 + j);
        free(dkeys);
        free(ctx.workspace);
        free_slot(&s);
    }
}

/* ---- what stands around it ---- */

static double sum_of(const float *y, const float *dy, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)y[i] * (double)dy[i];
    return sum;
}

enum { G_ROWS = 5, G_HEADS = 3, G_LD = 8 };

struct gates {
    float x[G_ROWS * G_LD], a_log[G_HEADS], dt[G_HEADS]; /* x: a and b side by side */
    float dg[G_ROWS * G_HEADS], dbeta[G_ROWS * G_HEADS];
};

static double gates_loss(const struct gates *s)
{
    float g[G_ROWS * G_HEADS], beta[G_ROWS * G_HEADS];
    struct cs_ctx ctx = {0};
    cs_ops_cpu()->delta_gate(&ctx, G_ROWS, G_HEADS, s->x, s->x + G_HEADS, G_LD, s->a_log, s->dt, g,
                             beta);
    for (size_t i = 0; i < G_ROWS * G_HEADS; i++) {
        assert_true(g[i] < 0 && beta[i] > 0 && beta[i] < 1);
        const size_t row = i / G_HEADS, h = i % G_HEADS;
        const double a = (double)s->x[row * G_LD + h] + (double)s->dt[h];
        assert_near((double)g[i], -exp((double)s->a_log[h]) * log1p(exp(a)), 1e-6, "g", i);
    }
    return sum_of(g, s->dg, G_ROWS * G_HEADS) + sum_of(beta, s->dbeta, G_ROWS * G_HEADS);
}

static void gates_gradients_are_those_of_central_differences(void **state)
{
    (void)state;
    struct gates s;
    float *in = (float *)&s;
    for (size_t i = 0; i < sizeof s / sizeof *in; i++)
        in[i] = rnd();
    float dx[G_ROWS * G_LD] = {0}, da_log[G_HEADS] = {1, 1, 1}, ddt[G_HEADS] = {2, 2, 2};
    struct cs_ctx ctx = {0};
    cs_ops_cpu()->delta_gate_grad(&ctx, G_ROWS, G_HEADS, s.x, s.x + G_HEADS, G_LD, s.a_log, s.dt,
                                  s.dg, s.dbeta, dx, dx + G_HEADS, G_LD, da_log, ddt);
    for (size_t i = 0; i < G_ROWS * G_LD + 2 * G_HEADS; i++) {
        const float old = in[i], h = 1e-2f;
        in[i] = old + h;
        double slope = gates_loss(&s);
        in[i] = old - h;
        slope = (slope - gates_loss(&s)) / (2 * (double)h);
        in[i] = old;
        const size_t at = i - G_ROWS * G_LD;
        const double got = i < G_ROWS * G_LD ? (double)dx[i]
                           : at < G_HEADS    ? (double)da_log[at] - 1
                                             : (double)ddt[at - G_HEADS] - 2;
        assert_near(got, slope, 1e-3, "gates", i);
    }
}

enum { C_ROWS = 11, CHANNELS = 3, TAPS = 4, C_LD = 5 };

static const int32_t c_segment[] = {0, 6, 7, C_ROWS};
static const struct cs_mask_plan c_mask = {
    .n_tokens = C_ROWS, .n_segments = 3, .segment = c_segment};

static double conv_loss(const float *x, const float *w, const float *dy)
{
    float y[C_ROWS * CHANNELS];
    struct cs_ctx ctx = {0};
    cs_ops_cpu()->short_conv(&ctx, &c_mask, CHANNELS, TAPS, x, C_LD, w, y, CHANNELS);
    return sum_of(y, dy, C_ROWS * CHANNELS);
}

static void convolution_stops_at_documents_and_its_gradients_are_right(void **state)
{
    (void)state;
    float x[C_ROWS * C_LD], w[CHANNELS * TAPS], dy[C_ROWS * CHANNELS], y[C_ROWS * CHANNELS];
    float dx[C_ROWS * C_LD] = {0}, dw[CHANNELS * TAPS] = {0};
    struct cs_ctx ctx = {.is_grad_new = 1};
    for (size_t i = 0; i < C_ROWS * C_LD; i++)
        x[i] = rnd();
    for (size_t i = 0; i < CHANNELS * TAPS; i++)
        w[i] = rnd(), dw[i] = 9;
    for (size_t i = 0; i < C_ROWS * CHANNELS; i++)
        dy[i] = rnd();
    cs_ops_cpu()->short_conv(&ctx, &c_mask, CHANNELS, TAPS, x, C_LD, w, y, CHANNELS);
    for (int doc = 0; doc < 3; doc++)
        for (int i = c_segment[doc]; i < c_segment[doc + 1]; i++)
            for (int c = 0; c < CHANNELS; c++) {
                double sum = 0;
                for (int t = 0; t < TAPS && i - t >= c_segment[doc]; t++)
                    sum += (double)w[c * TAPS + TAPS - 1 - t] * (double)x[(i - t) * C_LD + c];
                assert_near((double)y[i * CHANNELS + c], sum / (1 + exp(-sum)), 1e-6, "y",
                            (size_t)i);
            }
    cs_ops_cpu()->short_conv_grad(&ctx, &c_mask, CHANNELS, TAPS, x, C_LD, w, dy, CHANNELS, dx, dw);
    for (size_t i = 0; i < C_ROWS * C_LD + CHANNELS * TAPS; i++) {
        float *at = i < C_ROWS * C_LD ? &x[i] : &w[i - C_ROWS * C_LD];
        const float old = *at, h = 1e-2f;
        *at = old + h;
        double slope = conv_loss(x, w, dy);
        *at = old - h;
        slope = (slope - conv_loss(x, w, dy)) / (2 * (double)h);
        *at = old;
        assert_near(i < C_ROWS * C_LD ? (double)dx[i] : (double)dw[i - C_ROWS * C_LD], slope, 1e-3,
                    "convolution", i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_equal_the_recurrence_both_ways),
        cmocka_unit_test(documents_of_a_slot_know_nothing_of_each_other),
        cmocka_unit_test(parts_of_a_document_equal_the_whole),
        cmocka_unit_test(gates_gradients_are_those_of_central_differences),
        cmocka_unit_test(convolution_stops_at_documents_and_its_gradients_are_right),
    };
    return cmocka_run_group_tests_name("kernels/recurrent", tests, NULL, NULL);
}
