/* Attention of the CPU back end where keys are not the queries and rows lie in any order, as
 * context parallelism makes them: compared with the whole sequence in order. Merging of partial
 * results. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/ops.h"

enum { TOKENS = 150, HEADS = 4, KV_HEADS = 2, DIM = 5, QW = HEADS * DIM, KW = KV_HEADS * DIM };

static uint32_t seed = 5;

static uint32_t rnd_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

static void fill(float *x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = (float)(rnd_bits() >> 8) / 8388608.0f - 1.0f;
}

static void assert_near(const float *got, const float *want, int n, const char *what)
{
    for (int i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 2e-5f * (1.0f + fabsf(want[i]))) && got[i] != want[i])
            fail_msg("%s[%d]: %.9g, want %.9g", what, i, (double)got[i], (double)want[i]);
}

struct rows {
    struct cs_mask_plan plan;
    int32_t doc[TOKENS], pos[TOKENS], item[TOKENS], segment[TOKENS + 1];
    uint64_t word[TOKENS];
};

struct side { /* of queries: q, o ...; of keys: k, v ... */
    float q[TOKENS * QW], o[TOKENS * QW], d_o[TOKENS * QW], dq[TOKENS * QW], lse[HEADS * TOKENS];
    float k[TOKENS * KW], v[TOKENS * KW], dk[TOKENS * KW], dv[TOKENS * KW];
};

/* Three documents of text, images and a little padding. */
static void make_rows(struct cs_mask_rule rule, struct rows *r)
{
    memset(r, 0, sizeof *r);
    for (int i = 0; i < TOKENS; i++) {
        const int doc = i < 70 ? 0 : (i < 75 ? 1 : 2), pos = i - (doc == 0   ? 0
                                                                  : doc == 1 ? 70
                                                                             : 75);
        const bool is_image = pos / 9 % 3 == 1;
        r->doc[i] = doc;
        r->pos[i] = pos;
        r->item[i] = is_image ? pos / 9 : -1;
        r->word[i] = is_image ? CS_MASK_MODALITY(pos / 9 % 2)
                              : CS_MASK_TEXT | CS_MASK_MODALITY(0) | CS_MASK_MODALITY(1);
        if (i % 31 == 7)
            r->word[i] = 0;
    }
    r->plan = (struct cs_mask_plan){rule,    TOKENS, r->doc,     r->pos, r->item,
                                    r->word, 0,      r->segment, NULL,   NULL};
    r->plan.n_segments = cs_mask_segments(r->doc, TOKENS, r->segment);
}

/* rows[i] of *from become row i */
static void pick_rows(const struct rows *from, const int *row, int n, struct rows *r)
{
    for (int i = 0; i < n; i++) {
        r->doc[i] = from->doc[row[i]];
        r->pos[i] = from->pos[row[i]];
        r->item[i] = from->item[row[i]];
        r->word[i] = from->word[row[i]];
    }
    r->plan = (struct cs_mask_plan){from->plan.rule, n, r->doc,     r->pos, r->item,
                                    r->word,         0, r->segment, NULL,   NULL};
    r->plan.n_segments = cs_mask_segments(r->doc, n, r->segment);
}

static void pick_floats(const float *from, const int *row, int n, int width, float *to)
{
    for (int i = 0; i < n; i++)
        memcpy(to + i * width, from + row[i] * width, (size_t)width * sizeof *to);
}

static struct cs_attention_shape shape_of(int queries, int keys)
{
    return (struct cs_attention_shape){.tokens = queries,
                                       .heads = HEADS,
                                       .kv_heads = KV_HEADS,
                                       .head_dim = DIM,
                                       .k_tokens = keys,
                                       .q_stride = QW,
                                       .kv_stride = KW,
                                       .o_stride = QW,
                                       .scale = 0.7f,
                                       .softcap = 3.0f};
}

static struct cs_ctx new_ctx(const struct cs_attention_shape *s, const struct cs_mask_plan *plan)
{
    const size_t bytes = cs_ops_cpu()->attention_workspace(s, plan);
    struct cs_ctx ctx = {.workspace = malloc(bytes), .workspace_bytes = bytes};
    assert_non_null(ctx.workspace);
    return ctx;
}

static void forward(const struct cs_mask_plan *plan, int keys, struct side *q, const struct side *k)
{
    const struct cs_attention_shape s = shape_of(plan->n_tokens, keys);
    struct cs_ctx ctx = new_ctx(&s, plan);
    cs_ops_cpu()->attention(&ctx, &s, plan, q->q, k->k, k->v, q->o, q->lse);
    free(ctx.workspace);
}

static void backward(const struct cs_mask_plan *plan, int keys, struct side *q, struct side *k)
{
    const struct cs_attention_shape s = shape_of(plan->n_tokens, keys);
    struct cs_ctx ctx = new_ctx(&s, plan);
    cs_ops_cpu()->attention_grad(&ctx, &s, plan, q->q, k->k, k->v, q->o, q->lse, q->d_o, q->dq,
                                 k->dk, k->dv);
    free(ctx.workspace);
}

static struct side *new_side(void)
{
    struct side *s = malloc(sizeof *s);
    assert_non_null(s);
    fill(s->q, TOKENS * QW);
    fill(s->d_o, TOKENS * QW);
    fill(s->k, TOKENS * KW);
    fill(s->v, TOKENS * KW);
    return s;
}

struct whole { /* the sequence in order */
    struct rows rows;
    struct side *x;
};

static void make_whole(int kind, struct whole *w)
{
    const struct cs_mask_rule rule = {(enum cs_mask_kind)kind, 20, 11};
    w->x = new_side();
    make_rows(rule, &w->rows);
    forward(&w->rows.plan, 0, w->x, w->x);
    backward(&w->rows.plan, 0, w->x, w->x);
}

static void shuffle(int *row, int n)
{
    for (int i = 0; i < n; i++)
        row[i] = i;
    for (int i = n - 1; i > 0; i--) {
        const int j = (int)(rnd_bits() % (uint32_t)(i + 1)), t = row[i];
        row[i] = row[j];
        row[j] = t;
    }
}

static void rows_in_any_order_give_the_same_results(void **state)
{
    (void)state;
    for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
        struct whole w;
        make_whole(kind, &w);
        struct side *x = new_side(), *want = new_side();
        struct rows rows;
        int row[TOKENS];
        shuffle(row, TOKENS);
        pick_rows(&w.rows, row, TOKENS, &rows);
        pick_floats(w.x->q, row, TOKENS, QW, x->q);
        pick_floats(w.x->d_o, row, TOKENS, QW, x->d_o);
        pick_floats(w.x->k, row, TOKENS, KW, x->k);
        pick_floats(w.x->v, row, TOKENS, KW, x->v);
        forward(&rows.plan, 0, x, x);
        backward(&rows.plan, 0, x, x);
        pick_floats(w.x->o, row, TOKENS, QW, want->o);
        pick_floats(w.x->dq, row, TOKENS, QW, want->dq);
        pick_floats(w.x->dk, row, TOKENS, KW, want->dk);
        pick_floats(w.x->dv, row, TOKENS, KW, want->dv);
        assert_near(x->o, want->o, TOKENS * QW, "o");
        assert_near(x->dq, want->dq, TOKENS * QW, "dq");
        assert_near(x->dk, want->dk, TOKENS * KW, "dk");
        assert_near(x->dv, want->dv, TOKENS * KW, "dv");
        free(x), free(want), free(w.x);
    }
}

/* The queries of one rank against the keys of each of three: merged, they are the rows of the whole
 * sequence; gradients with the merged o and lse add up to its gradients. */
static void parts_merge_into_the_whole(void **state)
{
    (void)state;

    enum { PARTS = 3, OWN = 61 };

    for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
        struct whole w;
        make_whole(kind, &w);
        int row[TOKENS], own[OWN];
        static float part_o[PARTS * OWN * QW], part_lse[PARTS * HEADS * OWN];
        struct side *q = new_side(), *k[PARTS];
        struct rows q_rows, k_rows[PARTS];
        shuffle(row, TOKENS);
        for (int i = 0; i < OWN; i++)
            own[i] = (i * 2 + 13) % TOKENS;
        pick_rows(&w.rows, own, OWN, &q_rows);
        pick_floats(w.x->q, own, OWN, QW, q->q);
        pick_floats(w.x->d_o, own, OWN, QW, q->d_o);
        for (int p = 0; p < PARTS; p++) {
            const int begin = p == 0 ? 0 : (p == 1 ? 20 : 95),
                      end = p == 0 ? 20 : (p == 1 ? 95 : 150);
            k[p] = new_side();
            pick_rows(&w.rows, row + begin, end - begin, &k_rows[p]);
            pick_floats(w.x->k, row + begin, end - begin, KW, k[p]->k);
            pick_floats(w.x->v, row + begin, end - begin, KW, k[p]->v);
            q_rows.plan.keys = &k_rows[p].plan;
            forward(&q_rows.plan, end - begin, q, k[p]);
            memcpy(part_o + p * OWN * QW, q->o, sizeof *q->o * OWN * QW);
            memcpy(part_lse + p * HEADS * OWN, q->lse, sizeof *q->lse * HEADS * OWN);
        }
        const struct cs_attention_shape s = shape_of(OWN, 0);
        cs_ops_cpu()->attention_merge(NULL, &s, PARTS, OWN * QW, part_o, part_lse, q->o, q->lse);
        for (int i = 0; i < OWN; i++) {
            assert_near(q->o + i * QW, w.x->o + own[i] * QW, QW, "o");
            for (int h = 0; h < HEADS; h++)
                assert_near(q->lse + h * OWN + i, w.x->lse + h * TOKENS + own[i], 1, "lse");
        }
        static float dq[OWN * QW];
        memset(dq, 0, sizeof dq);
        for (int p = 0; p < PARTS; p++) {
            q_rows.plan.keys = &k_rows[p].plan;
            backward(&q_rows.plan, k_rows[p].plan.n_tokens, q, k[p]);
            for (int i = 0; i < OWN * QW; i++)
                dq[i] += q->dq[i];
        }
        for (int i = 0; i < OWN; i++)
            assert_near(dq + i * QW, w.x->dq + own[i] * QW, QW, "dq");
        for (int p = 0; p < PARTS; p++)
            free(k[p]);
        free(q), free(w.x);
    }
}

/* All queries against the keys of one part: their gradients are those of the whole. */
static void keys_get_the_gradients_of_the_whole(void **state)
{
    (void)state;
    for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
        struct whole w;
        make_whole(kind, &w);
        int row[TOKENS];
        struct rows keys, queries = w.rows;
        struct side *k = new_side();
        shuffle(row, TOKENS);
        pick_rows(&w.rows, row, 40, &keys);
        pick_floats(w.x->k, row, 40, KW, k->k);
        pick_floats(w.x->v, row, 40, KW, k->v);
        queries.plan.keys = &keys.plan;
        queries.plan.n_segments = 0; /* not looked at */
        backward(&queries.plan, 40, w.x, k);
        struct side *want = new_side();
        backward(&w.rows.plan, 0, w.x, w.x);
        pick_floats(w.x->dk, row, 40, KW, want->dk);
        pick_floats(w.x->dv, row, 40, KW, want->dv);
        assert_near(k->dk, want->dk, 40 * KW, "dk");
        assert_near(k->dv, want->dv, 40 * KW, "dv");
        free(k), free(want), free(w.x);
    }
}

static void a_row_that_no_part_sees_merges_to_zero(void **state)
{
    (void)state;
    const struct cs_attention_shape s = {
        .tokens = 3, .heads = 1, .kv_heads = 1, .head_dim = 2, .o_stride = 3};
    /* row 0: only part 1; row 1: none; row 2: both, equal weight. A gap of one between rows. */
    float o[2][9] = {
        {NAN, NAN, 7, NAN, NAN, 7, 1, 2, 7},
        {5,   6,   8, NAN, NAN, 8, 3, 6, 8}
    };
    const float lse[2][3] = {
        {-INFINITY, -INFINITY, 0.5f},
        {2.0f,      -INFINITY, 0.5f}
    };
    float out[3];
    cs_ops_cpu()->attention_merge(NULL, &s, 2, 9, o, lse[0], o, out); /* into the first part */
    const float want[9] = {5, 6, 7, 0, 0, 7, 2, 4, 7};
    assert_near(o[0], want, 9, "o");
    assert_near(out, (const float[]){2.0f, -INFINITY, 0.5f + logf(2.0f)}, 3, "lse");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_any_order_give_the_same_results),
        cmocka_unit_test(parts_merge_into_the_whole),
        cmocka_unit_test(keys_get_the_gradients_of_the_whole),
        cmocka_unit_test(a_row_that_no_part_sees_merges_to_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
