/* Attention sinks of the CPU back end in closed form: a softmax with one score more than there are
 * keys, which has no value. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops.h"

enum { TOKENS = 6, HEADS = 2, DIM = 2, ALL = TOKENS * HEADS * DIM };

/* One document; q, k, v, o (tokens, heads, dim). The second token is padding: it sees nothing. */
struct sink_case {
    struct cs_attention_shape shape;
    struct cs_mask_plan plan;
    int32_t doc[TOKENS], pos[TOKENS], segment[2];
    uint64_t word[TOKENS];
    float q[ALL], k[ALL], v[ALL], o[ALL], d_o[ALL], dq[ALL], dk[ALL], dv[ALL];
    float lse[HEADS * TOKENS], sink[HEADS], dsink[HEADS];
};

static struct sink_case *new_case(float softcap)
{
    struct sink_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (int i = 0; i < TOKENS; i++) {
        c->pos[i] = i;
        c->word[i] = i == 1 ? 0 : CS_MASK_TEXT;
    }
    for (int i = 0; i < ALL; i++) {
        c->q[i] = sinf((float)i);
        c->k[i] = cosf(2.0f * (float)i);
        c->v[i] = sinf(3.0f * (float)i + 1.0f);
        c->d_o[i] = cosf(5.0f * (float)i);
    }
    c->segment[1] = TOKENS;
    c->plan = (struct cs_mask_plan){.rule = {.kind = CS_MASK_CAUSAL},
                                    .n_tokens = TOKENS,
                                    .doc = c->doc,
                                    .pos = c->pos,
                                    .word = c->word,
                                    .n_segments = 1,
                                    .segment = c->segment};
    c->shape = (struct cs_attention_shape){.tokens = TOKENS,
                                           .heads = HEADS,
                                           .kv_heads = HEADS,
                                           .head_dim = DIM,
                                           .q_stride = HEADS * DIM,
                                           .kv_stride = HEADS * DIM,
                                           .o_stride = HEADS * DIM,
                                           .scale = 0.7f,
                                           .softcap = softcap};
    return c;
}

static void run_forward(struct sink_case *c)
{
    const size_t bytes = cs_ops_cpu()->attention_workspace(&c->shape, &c->plan);
    struct cs_ctx ctx = {.workspace = malloc(bytes), .workspace_bytes = bytes};
    assert_non_null(ctx.workspace);
    cs_ops_cpu()->attention(&ctx, &c->shape, &c->plan, c->q, c->k, c->v, c->o, c->lse);
    free(ctx.workspace);
}

static void run_backward(struct sink_case *c)
{
    const size_t bytes = cs_ops_cpu()->attention_workspace(&c->shape, &c->plan);
    struct cs_ctx ctx = {.workspace = malloc(bytes), .workspace_bytes = bytes};
    assert_non_null(ctx.workspace);
    cs_ops_cpu()->attention_grad(&ctx, &c->shape, &c->plan, c->q, c->k, c->v, c->o, c->lse, c->d_o,
                                 c->dq, c->dk, c->dv);
    free(ctx.workspace);
}

static void set_sinks(struct sink_case *c, float first, float second)
{
    c->sink[0] = first;
    c->sink[1] = second;
    c->shape.sink = c->sink;
}

static void assert_close(float got, double want, const char *what)
{
    if (!(fabs((double)got - want) <= 2e-6 * (1.0 + fabs(want))))
        fail_msg("%s: %.9g, want %.9g", what, (double)got, want);
}

/* scale q . k of the first row, which sees itself alone, under the cap */
static double first_score(const struct sink_case *c, int head)
{
    const double cap = (double)c->shape.softcap;
    double dot = 0.0;
    for (int d = 0; d < DIM; d++)
        dot += (double)c->q[head * DIM + d] * (double)c->k[head * DIM + d];
    dot *= (double)c->shape.scale;
    return cap > 0.0 ? cap * tanh(dot / cap) : dot;
}

static void one_key_and_a_sink_share_the_row(void **state)
{
    (void)state;
    for (int capped = 0; capped < 2; capped++) {
        /* the cap is far below the sink, which it leaves alone */
        struct sink_case *c = new_case(capped ? 0.1f : 0.0f);
        set_sinks(c, 0.5f, -1.25f);
        run_forward(c);
        for (int h = 0; h < HEADS; h++) {
            const double s = first_score(c, h), sink = (double)c->sink[h];
            const double p = 1.0 / (1.0 + exp(sink - s));
            assert_close(c->lse[h * TOKENS], s + log(1.0 + exp(sink - s)), "lse");
            for (int d = 0; d < DIM; d++)
                assert_close(c->o[h * DIM + d], p * (double)c->v[h * DIM + d], "o");
        }
        free(c);
    }
}

static void a_row_that_sees_nothing_has_the_sink_as_its_lse(void **state)
{
    (void)state;
    struct sink_case *c = new_case(0.0f);
    set_sinks(c, 3.5f, -40.0f);
    run_forward(c);
    c->shape.dsink = c->dsink;
    run_backward(c);
    for (int h = 0; h < HEADS; h++) {
        assert_true(c->lse[h * TOKENS + 1] == c->sink[h]);
        for (int d = 0; d < DIM; d++) {
            const int at = (HEADS + h) * DIM + d;
            assert_true(c->o[at] == 0.0f);
            assert_true(c->dq[at] == 0.0f && c->dk[at] == 0.0f && c->dv[at] == 0.0f);
        }
    }
    free(c);
}

static void a_sink_gets_what_its_share_takes_from_the_output(void **state)
{
    (void)state;
    struct sink_case *c = new_case(0.0f);
    set_sinks(c, 0.25f, 1.5f);
    run_forward(c);
    c->shape.dsink = c->dsink;
    c->dsink[0] = 10.0f; /* added to */
    run_backward(c);
    for (int h = 0; h < HEADS; h++) {
        double want = h == 0 ? 10.0 : 0.0;
        for (int i = 0; i < TOKENS; i++)
            for (int d = 0; d < DIM; d++) {
                const int at = (i * HEADS + h) * DIM + d;
                want -= exp((double)c->sink[h] - (double)c->lse[h * TOKENS + i]) *
                        (double)c->d_o[at] * (double)c->o[at];
            }
        assert_close(c->dsink[h], want, "dsink");
    }
    free(c);
}

static void the_gradient_of_a_sink_is_a_central_difference(void **state)
{
    (void)state;
    const float step = 0.03125f;
    for (int h = 0; h < HEADS; h++) {
        struct sink_case *c = new_case(h == 0 ? 0.0f : 2.0f);
        double loss[2] = {0.0, 0.0};
        for (int side = 0; side < 2; side++) {
            set_sinks(c, 0.3f, -0.2f);
            c->sink[h] += side == 0 ? step : -step;
            run_forward(c);
            for (int i = 0; i < ALL; i++)
                loss[side] += (double)c->o[i] * (double)c->d_o[i];
        }
        set_sinks(c, 0.3f, -0.2f);
        run_forward(c);
        c->shape.dsink = c->dsink;
        run_backward(c);
        const double want = (loss[0] - loss[1]) / (2.0 * (double)step);
        assert_true(fabs(want) > 1e-2);
        assert_true(fabs((double)c->dsink[h] - want) <= 2e-3 * (1.0 + fabs(want)));
        free(c);
    }
}

static void an_infinitely_low_sink_is_none_to_the_bit(void **state)
{
    (void)state;
    struct sink_case *c = new_case(1.5f), *plain = new_case(1.5f);
    run_forward(plain);
    run_backward(plain);
    set_sinks(c, -INFINITY, -INFINITY);
    run_forward(c);
    c->shape.dsink = c->dsink;
    run_backward(c);
    assert_memory_equal(c->o, plain->o, sizeof c->o);
    assert_memory_equal(c->lse, plain->lse, sizeof c->lse);
    assert_memory_equal(c->dq, plain->dq, sizeof c->dq);
    assert_memory_equal(c->dk, plain->dk, sizeof c->dk);
    assert_memory_equal(c->dv, plain->dv, sizeof c->dv);
    assert_true(c->dsink[0] == 0.0f && c->dsink[1] == 0.0f);
    free(c), free(plain);
}

static void a_sink_far_above_every_score_takes_all(void **state)
{
    (void)state;
    struct sink_case *c = new_case(0.0f);
    set_sinks(c, 1000.0f, 300.0f);
    run_forward(c);
    c->shape.dsink = c->dsink;
    run_backward(c);
    for (int i = 0; i < ALL; i++)
        assert_true(c->o[i] == 0.0f && c->dq[i] == 0.0f && c->dk[i] == 0.0f && c->dv[i] == 0.0f);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < TOKENS; i++)
            assert_true(c->lse[h * TOKENS + i] == c->sink[h]);
    assert_true(c->dsink[0] == 0.0f && c->dsink[1] == 0.0f);
    free(c);
}

static void a_sink_that_is_no_number_reaches_every_output(void **state)
{
    (void)state;
    struct sink_case *c = new_case(0.0f);
    set_sinks(c, NAN, 0.0f);
    run_forward(c);
    assert_true(isnan(c->o[0]) && isnan(c->lse[0]) && isnan(c->lse[1]));
    assert_true(!isnan(c->o[DIM]) && !isnan(c->lse[TOKENS]));
    c->shape.dsink = c->dsink;
    run_backward(c);
    assert_true(isnan(c->dq[0]) && isnan(c->dsink[0]));
    assert_true(!isnan(c->dsink[1]));
    free(c);
}

/* Keys [begin, end) of c against all of its queries. */
static void run_part(const struct sink_case *c, int begin, int end, bool has_sink, float *o,
                     float *lse)
{
    struct cs_mask_plan keys = c->plan, plan = c->plan;
    struct cs_attention_shape shape = c->shape;
    const int at = begin * HEADS * DIM;
    keys.doc += begin;
    keys.pos += begin;
    keys.word += begin;
    keys.n_tokens = shape.k_tokens = end - begin;
    plan.keys = &keys;
    shape.sink = has_sink ? c->sink : NULL;
    const size_t bytes = cs_ops_cpu()->attention_workspace(&shape, &plan);
    struct cs_ctx ctx = {.workspace = malloc(bytes), .workspace_bytes = bytes};
    assert_non_null(ctx.workspace);
    cs_ops_cpu()->attention(&ctx, &shape, &plan, c->q, c->k + at, c->v + at, o, lse);
    free(ctx.workspace);
}

static void parts_of_which_one_has_the_sink_merge_into_the_whole(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        struct sink_case *c = new_case(0.0f);
        float o[2][ALL], lse[2][HEADS * TOKENS], all_o[ALL], all_lse[HEADS * TOKENS];
        struct cs_ctx ctx = {0};
        set_sinks(c, 0.75f, -0.5f);
        run_forward(c);
        run_part(c, 0, 2, with == 0, o[0], lse[0]);
        run_part(c, 2, TOKENS, with == 1, o[1], lse[1]);
        cs_ops_cpu()->attention_merge(&ctx, &c->shape, 2, ALL, o, lse[0], all_o, all_lse);
        for (int i = 0; i < ALL; i++)
            assert_close(all_o[i], (double)c->o[i], "merged o");
        for (int i = 0; i < HEADS * TOKENS; i++)
            assert_close(all_lse[i], (double)c->lse[i], "merged lse");
        free(c);
    }
}

/* ... and the gradient of the sink from any part has all rows in it, also those that see nothing
 * of that part. */
static void any_part_gives_the_whole_gradient_of_the_sink(void **state)
{
    (void)state;
    struct sink_case *c = new_case(0.0f);
    set_sinks(c, 0.75f, -0.5f);
    run_forward(c);
    c->shape.dsink = c->dsink;
    run_backward(c);
    for (int begin = 0; begin < TOKENS; begin += 3) {
        struct cs_mask_plan keys = c->plan, plan = c->plan;
        struct cs_attention_shape shape = c->shape;
        float dsink[HEADS] = {0.0f, 0.0f}, dq[ALL], dk[ALL], dv[ALL];
        const int at = begin * HEADS * DIM;
        keys.doc += begin;
        keys.pos += begin;
        keys.word += begin;
        keys.n_tokens = shape.k_tokens = 3;
        plan.keys = &keys;
        shape.dsink = dsink;
        const size_t bytes = cs_ops_cpu()->attention_workspace(&shape, &plan);
        struct cs_ctx ctx = {.workspace = malloc(bytes), .workspace_bytes = bytes};
        assert_non_null(ctx.workspace);
        cs_ops_cpu()->attention_grad(&ctx, &shape, &plan, c->q, c->k + at, c->v + at, c->o, c->lse,
                                     c->d_o, dq, dk, dv);
        free(ctx.workspace);
        for (int h = 0; h < HEADS; h++)
            assert_close(dsink[h], (double)c->dsink[h], "dsink of a part");
        for (int i = 0; i < 3 * HEADS * DIM; i++) {
            assert_close(dk[i], (double)c->dk[at + i], "dk of a part");
            assert_close(dv[i], (double)c->dv[at + i], "dv of a part");
        }
    }
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_and_a_sink_share_the_row),
        cmocka_unit_test(a_row_that_sees_nothing_has_the_sink_as_its_lse),
        cmocka_unit_test(a_sink_gets_what_its_share_takes_from_the_output),
        cmocka_unit_test(the_gradient_of_a_sink_is_a_central_difference),
        cmocka_unit_test(an_infinitely_low_sink_is_none_to_the_bit),
        cmocka_unit_test(a_sink_far_above_every_score_takes_all),
        cmocka_unit_test(a_sink_that_is_no_number_reaches_every_output),
        cmocka_unit_test(parts_of_which_one_has_the_sink_merge_into_the_whole),
        cmocka_unit_test(any_part_gives_the_whole_gradient_of_the_sink),
    };
    return cmocka_run_group_tests_name("kernels/attention_sink", tests, NULL, NULL);
}
