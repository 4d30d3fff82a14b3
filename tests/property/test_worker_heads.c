/* Heads that move between the ranks of a context (worker/model/halves/context_heads.h), for random slots, any permutation of
 * rows over ranks, ranks without rows and heads of keys that several have: outputs and gradients are those of one rank;
 * and where every row sees itself alone, what comes back is the adjoint of what went. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/context.h"
#include "kernels/ops.h"
#include "support/random_mask.h"
#include "worker/layer/exchange.h"
#include "worker/model/halves/context.h"
#include "worker/slot/row_heads.h"
#include "worker/slot/row_runs.h"

enum { ROUNDS = 60, MOST_RANKS = 6, DIM = 4, MOST_HEADS = 12, ROWS = CS_TEST_MASK_TOKENS };

enum { WIDE = MOST_HEADS * DIM, EXCHANGES = 32, ARRAYS = 8 };

/* ---- a slot, and what attention of one rank makes of it ---- */

enum array { Q, K, V, O, D_O, DQ, DK, DV };

struct lab {
    int ranks, heads, kv_heads, parts;
    const struct cs_mask_plan *mask;
    int32_t owner[ROWS];
    float (*all)[ROWS * WIDE]; /* (ARRAYS) of one rank, as queries or keys have columns */
    float (*many)[ROWS * WIDE];
    pthread_barrier_t barrier;
    const struct cs_context_exchange
        *posted[MOST_RANKS]; /* of the exchange that all ranks are at */
};

static int columns(const struct lab *lab, int array)
{
    const bool is_of_keys = array == K || array == V || array == DK || array == DV;
    return (is_of_keys ? lab->kv_heads : lab->heads) * DIM;
}

static struct cs_attention_shape shape_of(const struct lab *lab, int rows)
{
    return (struct cs_attention_shape){.tokens = rows,
                                       .heads = lab->heads,
                                       .kv_heads = lab->kv_heads,
                                       .head_dim = DIM,
                                       .q_stride = columns(lab, Q),
                                       .kv_stride = columns(lab, K),
                                       .o_stride = columns(lab, Q),
                                       .scale = 0.7f};
}

static void *room(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    CS_ASSERT(p != NULL);
    return p;
}

static void attend_alone(struct lab *lab)
{
    const struct cs_attention_shape shape = shape_of(lab, lab->mask->n_tokens);
    const struct cs_ops *ops = cs_ops_cpu();
    const size_t bytes = ops->attention_workspace(&shape, lab->mask);
    struct cs_ctx ctx = {.workspace = room(bytes, 1), .workspace_bytes = bytes};
    float *lse = room((size_t)(shape.tokens * lab->heads), sizeof *lse);
    float(*a)[ROWS * WIDE] = lab->all;
    ops->attention(&ctx, &shape, lab->mask, a[Q], a[K], a[V], a[O], lse);
    ops->attention_grad(&ctx, &shape, lab->mask, a[Q], a[K], a[V], a[O], lse, a[D_O], a[DQ], a[DK],
                        a[DV]);
    free(lse);
    free(ctx.workspace);
}

/* ---- ranks are threads; who meets the others copies what is sent to it ---- */

struct rank {
    struct lab *lab;
    int place;
    float *own[ARRAYS];
};

static const struct cs_device_move *sent_to(const struct cs_context_exchange *x, int place, int n)
{
    for (int i = 0; i < x->n; i++)
        if (x->move[i].is_send && x->move[i].peer == place && n-- == 0)
            return &x->move[i];
    CS_ASSERT(!"somebody waits for what nobody sends");
    return NULL;
}

static void start(void *user, int32_t which, const struct cs_context_exchange *x)
{
    const struct rank *r = user;
    struct lab *lab = r->lab;
    int taken[MOST_RANKS] = {0};
    (void)which;
    lab->posted[r->place] = x;
    pthread_barrier_wait(&lab->barrier);
    for (int i = 0; i < x->n; i++) {
        const struct cs_device_move *m = &x->move[i];
        if (m->is_send)
            continue;
        const struct cs_device_move *from =
            sent_to(lab->posted[m->peer], r->place, taken[m->peer]++);
        CS_ASSERT(from->bytes == m->bytes);
        memcpy(m->data, from->data, m->bytes);
    }
    pthread_barrier_wait(&lab->barrier);
}

static void finish(void *user, int32_t which)
{
    (void)user;
    (void)which;
}

/* rows of the rank: from the slot's, or to them */
static void copy_rows(const struct rank *r, const struct cs_input_split *s, int array, bool is_back)
{
    const int n = columns(r->lab, array);
    for (int32_t i = 0; i < s->n; i++) {
        float *own = r->own[array] + (size_t)(i * n),
              *all = (is_back ? r->lab->many : r->lab->all)[array] + (size_t)(s->row[i] * n);
        memcpy(is_back ? all : own, is_back ? own : all, (size_t)n * sizeof *own);
    }
}

static void split(const struct rank *r, struct cs_input *in, struct cs_input_split *s)
{
    const int32_t n = in->n_tokens;
    int32_t *row = cs_scratch_take(&in->memory, (size_t)n * sizeof *row);
    *s = (struct cs_input_split){.ranks = r->lab->ranks, .place = r->place, .owner = r->lab->owner};
    s->tokens = cs_row_runs_make(in, s->owner, NULL, n);
    for (int32_t i = 0; i < n; i++)
        if (s->owner[i] == s->place)
            row[s->n++] = i;
    s->row = row;
    in->split = s;
    in->llm_rows = s->n;
    cs_row_heads_make(in);
}

static void attend(const struct rank *r, struct cs_input *in, const struct cs_layer_model *l,
                   struct cs_context *context)
{
    struct cs_device device;
    struct cs_scratch scratch = {.device = NULL};
    cs_device_cpu(&device);
    struct cs_ctx ctx = cs_device_ctx(&device);
    struct cs_run run = {.device = &device,
                         .ops = device.ops,
                         .ctx = &ctx,
                         .scratch = &scratch,
                         .input = in,
                         .context = context};
    float *const *a = r->own;
    const struct cs_heads heads = {
        shape_of(r->lab, in->split->n), a[Q], a[K], a[V], NULL, NULL, NULL};
    const struct cs_head_grads grads = {a[DQ], a[DK], a[DV]};
    const int64_t rows = cs_context_lse_rows(&run, l, in->split->n);
    float *lse = room((size_t)(rows * r->lab->heads), sizeof *lse);
    cs_context_attention(&run, l, &heads, a[O], lse);
    cs_context_attention_grad(&run, l, &heads, a[O], lse, a[D_O], &grads);
    free(lse);
    cs_scratch_free(&scratch);
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct lab *lab = r->lab;
    struct cs_attention attention = {
        .n_heads = lab->heads, .n_kv_heads = lab->kv_heads, .head_dim = DIM};
    const struct cs_graph graph = {.n_attentions = 1};
    const struct cs_layer_model l = {.attention = &attention, .encoder = -1};
    static const struct cs_tp alone = {.ranks = 1};
    struct cs_context_heads own;
    CS_ASSERT(cs_context_heads(&attention, alone, lab->ranks, &own));
    struct cs_input_tables *tables = room(1, sizeof *tables);
    struct cs_input *in = room(1, sizeof *in);
    struct cs_input_split *s = room(1, sizeof *s);
    tables->graph = &graph;
    tables->n_masks = 1;
    tables->mask[0].encoder = -1;
    tables->context = (struct cs_input_context){
        .ranks = lab->ranks, .place = r->place, .moves_heads = true, .copies = {own.copies}};
    in->tables = tables;
    in->n_tokens = lab->mask->n_tokens;
    in->mask[0] = in->at.mask[0] = *lab->mask;
    split(r, in, s);
    struct cs_context context = {.n = lab->ranks,
                                 .place = r->place,
                                 .groups = lab->parts,
                                 .start = start,
                                 .finish = finish,
                                 .user = r};
    for (int a = 0; a < ARRAYS; a++) {
        r->own[a] = room((size_t)(s->n * columns(lab, a)), sizeof(float));
        copy_rows(r, s, a, false);
    }
    attend(r, in, &l, &context);
    for (int a = 0; a < ARRAYS; a++) {
        copy_rows(r, s, a, true);
        free(r->own[a]);
    }
    cs_context_free(&context);
    cs_scratch_free(&in->memory);
    free(s), free(in), free(tables);
    return NULL;
}

static void attend_together(struct lab *lab)
{
    struct rank rank[MOST_RANKS];
    pthread_t thread[MOST_RANKS];
    assert_int_equal(pthread_barrier_init(&lab->barrier, NULL, (unsigned)lab->ranks), 0);
    for (int r = 0; r < lab->ranks; r++) {
        rank[r] = (struct rank){.lab = lab, .place = r};
        assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &rank[r]), 0);
    }
    for (int r = 0; r < lab->ranks; r++)
        assert_int_equal(pthread_join(thread[r], NULL), 0);
    pthread_barrier_destroy(&lab->barrier);
}

/* ---- properties ---- */

static const struct {
    int ranks, heads, kv_heads;
} shapes[] = {
    {1, 4,  2 },
    {2, 4,  2 },
    {2, 4,  4 },
    {4, 4,  2 },
    {3, 12, 6 },
    {4, 12, 12},
    {6, 12, 3 },
    {3, 3,  1 },
    {6, 6,  1 },
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static void open_lab(struct lab *lab, uint64_t *seed, const struct cs_mask_plan *mask, int round)
{
    *lab = (struct lab){.ranks = shapes[round % SHAPES].ranks,
                        .heads = shapes[round % SHAPES].heads,
                        .kv_heads = shapes[round % SHAPES].kv_heads,
                        .parts = 1 + round % 3,
                        .mask = mask,
                        .all = room(ARRAYS, sizeof *lab->all),
                        .many = room(ARRAYS, sizeof *lab->many)};
    /* some ranks have no rows */
    const int with_rows = cs_test_random_between(seed, 1, lab->ranks);
    for (int32_t i = 0; i < mask->n_tokens; i++)
        lab->owner[i] = cs_test_random_between(seed, 0, with_rows - 1);
    for (int a = 0; a < ARRAYS; a++)
        for (int i = 0; i < ROWS * WIDE && (a == Q || a == K || a == V || a == D_O); i++)
            lab->all[a][i] = (float)cs_test_random_bits(seed) / 1073741824.0f - 1.0f;
}

static void close_lab(struct lab *lab)
{
    free(lab->all);
    free(lab->many);
}

static void heads_over_ranks_equal_one_rank(void **state)
{
    static const struct cs_test_mask_options slots = {
        .most_docs = 6, .longest = ROWS / 3, .has_short = true, .blind_of = 20};
    static const int made[] = {O, DQ, DK, DV};
    static struct cs_test_mask m;
    uint64_t seed = 7;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct lab lab;
        cs_test_random_mask(&seed, &slots, &m);
        open_lab(&lab, &seed, &m.plan, round);
        attend_alone(&lab);
        attend_together(&lab);
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < m.plan.n_tokens * columns(&lab, made[k]); i++) {
                const double got = (double)lab.many[made[k]][i], want = (double)lab.all[made[k]][i];
                if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want))))
                    fail_msg("round %d, %d ranks, array %d, element %d: %g, not %g", round,
                             lab.ranks, made[k], i, got, want);
            }
        close_lab(&lab);
    }
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Where a row sees itself alone attention gives its values back, to every head of queries of them: heads go there and
 * back as they are, and <T v, d_o> = <v, T' d_o>. */
static void what_comes_back_is_the_adjoint(void **state)
{
    static int32_t doc[ROWS], pos[ROWS], segment[ROWS + 1];
    uint64_t seed = 8;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int32_t n = cs_test_random_between(&seed, 1, ROWS);
        struct lab lab;
        for (int32_t i = 0; i < n; i++)
            doc[i] = i, pos[i] = 0;
        const struct cs_mask_plan mask = {.rule = {.kind = CS_MASK_CAUSAL},
                                          .n_tokens = n,
                                          .doc = doc,
                                          .pos = pos,
                                          .n_segments = cs_mask_segments(doc, n, segment),
                                          .segment = segment};
        open_lab(&lab, &seed, &mask, round);
        attend_together(&lab);
        const int q = columns(&lab, Q), kv = columns(&lab, V), group = q / kv;
        for (int i = 0; i < n; i++)
            for (int c = 0; c < q; c++) {
                const int of = c / DIM / group * DIM + c % DIM;
                if (lab.many[O][i * q + c] != lab.all[V][i * kv + of])
                    fail_msg("round %d: row %d, column %d is %g, not %g", round, i, c,
                             (double)lab.many[O][i * q + c], (double)lab.all[V][i * kv + of]);
            }
        const double there = dot(lab.many[O], lab.all[D_O], n * q),
                     back = dot(lab.all[V], lab.many[DV], n * kv);
        if (!(fabs(there - back) <= 1e-5 * (1 + fabs(there))))
            fail_msg("round %d: <T v, d_o> = %g, <v, T' d_o> = %g", round, there, back);
        close_lab(&lab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_over_ranks_equal_one_rank),
        cmocka_unit_test(what_comes_back_is_the_adjoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
