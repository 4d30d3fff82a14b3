/* Ranks as threads that meet where an exchange is awaited. */
#include "support/context_ranks.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/context.h"
#include "kernels/ops.h"
#include "support/random_mask.h"
#include "worker/layer/exchange.h"
#include "worker/model/halves/context.h"
#include "worker/slot/row_heads.h"
#include "worker/slot/row_keys.h"
#include "worker/slot/row_runs.h"
#include "worker/slot/tokens.h"

enum { DIM = CS_TEST_CONTEXT_DIM, RANKS = CS_TEST_CONTEXT_RANKS, EXCHANGES = 64 };

static void *room(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    CS_ASSERT(p != NULL);
    return p;
}

int cs_test_context_columns(const struct cs_test_context *c, enum cs_test_array array)
{
    const bool is_of_keys =
        array == CS_TEST_K || array == CS_TEST_V || array == CS_TEST_DK || array == CS_TEST_DV;
    return (is_of_keys ? c->kv_heads : c->heads) * DIM;
}

void cs_test_context_open(struct cs_test_context *c, uint64_t *seed)
{
    const int n = c->mask->n_tokens;
    for (enum cs_test_array a = 0; a < CS_TEST_ARRAYS; a++) {
        const int size = n * cs_test_context_columns(c, a);
        c->one[a] = room((size_t)size, sizeof(float));
        c->many[a] = room((size_t)size, sizeof(float));
        for (int i = 0; i < size; i++)
            c->one[a][i] =
                a < CS_TEST_O ? (float)cs_test_random_bits(seed) / 1073741824.0f - 1.0f : NAN;
    }
    for (int h = 0; h < c->heads; h++)
        c->sink[h] = (float)cs_test_random_bits(seed) / 1073741824.0f - 1.0f;
}

void cs_test_context_close(struct cs_test_context *c)
{
    for (int a = 0; a < CS_TEST_ARRAYS; a++) {
        free(c->one[a]);
        free(c->many[a]);
    }
}

static struct cs_attention_shape shape_of(const struct cs_test_context *c, int rows, float *dsink)
{
    return (struct cs_attention_shape){.tokens = rows,
                                       .heads = c->heads,
                                       .kv_heads = c->kv_heads,
                                       .head_dim = DIM,
                                       .q_stride = cs_test_context_columns(c, CS_TEST_Q),
                                       .kv_stride = cs_test_context_columns(c, CS_TEST_K),
                                       .o_stride = cs_test_context_columns(c, CS_TEST_O),
                                       .scale = 0.7f,
                                       .softcap = c->softcap,
                                       .sink = c->has_sinks ? c->sink : NULL,
                                       .dsink = c->has_sinks ? dsink : NULL};
}

void cs_test_context_one(struct cs_test_context *c)
{
    memset(c->dsink, 0, sizeof c->dsink);
    const struct cs_attention_shape shape = shape_of(c, c->mask->n_tokens, c->dsink);
    const struct cs_ops *ops = cs_ops_cpu();
    const size_t bytes = ops->attention_workspace(&shape, c->mask);
    struct cs_ctx ctx = {.workspace = room(bytes, 1), .workspace_bytes = bytes};
    float *lse = room((size_t)(shape.tokens * c->heads), sizeof *lse), **a = c->one;
    ops->attention(&ctx, &shape, c->mask, a[CS_TEST_Q], a[CS_TEST_K], a[CS_TEST_V], a[CS_TEST_O],
                   lse);
    ops->attention_grad(&ctx, &shape, c->mask, a[CS_TEST_Q], a[CS_TEST_K], a[CS_TEST_V],
                        a[CS_TEST_O], lse, a[CS_TEST_D_O], a[CS_TEST_DQ], a[CS_TEST_DK],
                        a[CS_TEST_DV]);
    free(lse);
    free(ctx.workspace);
}

/* ---- exchanges ---- */

struct hall {
    struct cs_test_context *c;
    pthread_barrier_t barrier;
    struct cs_context_exchange posted[EXCHANGES][RANKS];
};

struct rank {
    struct hall *hall;
    int place;
    int64_t came;
    float *own[CS_TEST_ARRAYS], dsink[CS_TEST_CONTEXT_HEADS];
};

static void start(void *user, int32_t which, const struct cs_context_exchange *x)
{
    const struct rank *r = user;
    CS_ASSERT(which < EXCHANGES);
    r->hall->posted[which][r->place] = *x;
    for (int i = 0; i < x->n; i++)
        if (!x->move[i].is_send)
            memset(x->move[i].data, 0xff, x->move[i].bytes);
}

static const struct cs_device_move *sent_to(const struct cs_context_exchange *x, int place, int n)
{
    for (int i = 0; i < x->n; i++)
        if (x->move[i].is_send && x->move[i].peer == place && n-- == 0)
            return &x->move[i];
    CS_ASSERT(!"somebody waits for what nobody sends");
    return NULL;
}

static void finish(void *user, int32_t which)
{
    struct rank *r = user;
    struct hall *hall = r->hall;
    const struct cs_context_exchange *x = &hall->posted[which][r->place];
    int taken[RANKS] = {0};
    pthread_barrier_wait(&hall->barrier);
    for (int i = 0; i < x->n; i++) {
        const struct cs_device_move *m = &x->move[i];
        if (m->is_send)
            continue;
        const struct cs_device_move *from =
            sent_to(&hall->posted[which][m->peer], r->place, taken[m->peer]++);
        CS_ASSERT(from->bytes == m->bytes);
        memcpy(m->data, from->data, m->bytes);
        r->came += (int64_t)(m->bytes / sizeof(float));
    }
    pthread_barrier_wait(&hall->barrier);
}

/* ---- the slot of a rank ---- */

/* rows of the rank: from the slot's, or to them */
static void copy_rows(const struct rank *r, const struct cs_input_split *s,
                      enum cs_test_array array, bool is_back)
{
    struct cs_test_context *c = r->hall->c;
    const int n = cs_test_context_columns(c, array);
    for (int32_t i = 0; i < s->n; i++) {
        float *own = r->own[array] + (size_t)(i * n),
              *all = (is_back ? c->many : c->one)[array] + (size_t)(s->row[i] * n);
        memcpy(is_back ? all : own, is_back ? own : all, (size_t)n * sizeof *own);
    }
}

static void *pick(struct cs_input *in, const void *from, size_t size)
{
    const struct cs_input_split *s = in->split;
    if (from == NULL)
        return NULL;
    char *out = cs_scratch_take(&in->memory, (size_t)s->n * size);
    for (int32_t i = 0; i < s->n; i++)
        memcpy(out + (size_t)i * size, (const char *)from + (size_t)s->row[i] * size, size);
    return out;
}

/* as cs_input_split and cs_input_make_room do */
static void split_keys(struct cs_input *in)
{
    static const int32_t no_segment = 0;
    struct cs_input_split *s = in->split;
    const struct cs_mask_plan all = in->mask[0];
    s->all = all;
    cs_row_needs_make(in, s->owner);
    const struct cs_mask_plan own = {.n_tokens = s->n,
                                     .doc = pick(in, all.doc, sizeof *all.doc),
                                     .pos = pick(in, all.pos, sizeof *all.pos),
                                     .item = pick(in, all.item, sizeof *all.item),
                                     .word = pick(in, all.word, sizeof *all.word),
                                     .segment = &no_segment};
    cs_input_set_masks(in, &own);
    cs_row_keys_make(in);
    in->at.mask[0] = in->mask[0];
}

static struct cs_context_group group_of(const struct cs_test_context *c)
{
    return (struct cs_context_group){c->first, c->n > 0 ? c->n : c->ranks};
}

static void split(const struct rank *r, struct cs_input *in, struct cs_input_split *s)
{
    const struct cs_test_context *c = r->hall->c;
    const int32_t n = in->n_tokens;
    int32_t *row = cs_scratch_take(&in->memory, (size_t)n * sizeof *row);
    *s = (struct cs_input_split){
        .ranks = c->ranks, .place = r->place, .group = group_of(c), .owner = c->owner};
    s->tokens = cs_row_runs_make(in, s->owner, NULL, n);
    for (int32_t i = 0; i < n; i++)
        if (s->owner[i] == s->place)
            row[s->n++] = i;
    s->row = row;
    in->split = s;
    in->llm_rows = s->n;
    if (c->way == CS_TEST_HEADS)
        cs_row_heads_make(in);
    else
        split_keys(in);
}

/* as halves of layers do */
static void attend_both_ways(struct rank *r, struct cs_run *run, const struct cs_layer_model *l,
                             const struct cs_heads *heads, const struct cs_head_grads *grads,
                             float *lse)
{
    float *const *a = r->own;
    const struct cs_mask_plan *mask = &run->input->mask[0];
    if (cs_context_splits(run, l)) {
        cs_context_attention(run, l, heads, a[CS_TEST_O], lse);
        cs_context_attention_grad(run, l, heads, a[CS_TEST_O], lse, a[CS_TEST_D_O], grads);
        return;
    }
    struct cs_ctx ctx = cs_run_attention_ctx(run, &heads->shape, mask);
    run->ops->attention(&ctx, &heads->shape, mask, heads->q, heads->k, heads->v, a[CS_TEST_O], lse);
    run->ops->attention_grad(&ctx, &heads->shape, mask, heads->q, heads->k, heads->v, a[CS_TEST_O],
                             lse, a[CS_TEST_D_O], grads->q, grads->k, grads->v);
}

static void attend(struct rank *r, struct cs_input *in, const struct cs_layer_model *l,
                   struct cs_context *context)
{
    const struct cs_test_context *c = r->hall->c;
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
    const struct cs_heads heads = {shape_of(c, in->split->n, r->dsink),
                                   a[CS_TEST_Q],
                                   a[CS_TEST_K],
                                   a[CS_TEST_V],
                                   NULL,
                                   NULL,
                                   NULL};
    const struct cs_head_grads grads = {a[CS_TEST_DQ], a[CS_TEST_DK], a[CS_TEST_DV]};
    const int64_t rows = cs_context_lse_rows(&run, l, in->split->n);
    float *lse = room((size_t)(rows * c->heads), sizeof *lse);
    attend_both_ways(r, &run, l, &heads, &grads, lse);
    free(lse);
    cs_scratch_free(&scratch);
}

/* What asks whether keys are sorted looks at nothing but this. */
static struct cs_device *of_streams(void)
{
    static const struct cs_device_ops none;
    static struct cs_device device = {.mem = &none};
    return &device;
}

static struct cs_input_tables *tables_of(const struct rank *r, const struct cs_graph *graph,
                                         const struct cs_attention *attention)
{
    static const struct cs_tp alone = {.ranks = 1};
    const struct cs_test_context *c = r->hall->c;
    struct cs_context_heads own;
    struct cs_input_tables *tables = room(1, sizeof *tables);
    if (c->way == CS_TEST_HEADS)
        CS_ASSERT(cs_context_heads(attention, alone, group_of(c).n, &own));
    tables->device = c->stays_unsorted ? of_streams() : NULL;
    tables->graph = graph;
    tables->n_masks = 1;
    tables->mask[0].encoder = -1;
    tables->mask[0].rule = c->mask->rule;
    tables->context = (struct cs_input_context){.ranks = c->ranks,
                                                .place = r->place,
                                                .moves_heads = c->way == CS_TEST_HEADS,
                                                .own_first = c->way == CS_TEST_OWN_FIRST,
                                                .keys = {c->kv_heads}};
    return tables;
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    const struct cs_test_context *c = r->hall->c;
    const struct cs_attention attention = {
        .n_heads = c->heads, .n_kv_heads = c->kv_heads, .head_dim = DIM};
    const struct cs_graph graph = {.n_attentions = 1};
    const struct cs_layer_model l = {.attention = &attention, .encoder = -1};
    struct cs_input_tables *tables = tables_of(r, &graph, &attention);
    struct cs_input *in = room(1, sizeof *in);
    struct cs_input_split *s = room(1, sizeof *s);
    in->tables = tables;
    in->n_tokens = c->mask->n_tokens;
    in->mask[0] = in->at.mask[0] = *c->mask;
    split(r, in, s);
    struct cs_context context = {.n = c->ranks,
                                 .place = r->place,
                                 .groups = c->groups,
                                 .start = start,
                                 .finish = finish,
                                 .user = r};
    for (enum cs_test_array a = 0; a < CS_TEST_ARRAYS; a++) {
        r->own[a] = room((size_t)(s->n * cs_test_context_columns(c, a)), sizeof(float));
        copy_rows(r, s, a, false);
    }
    if (c->way != CS_TEST_HEADS || cs_split_has_part(s))
        attend(r, in, &l, &context);
    for (enum cs_test_array a = 0; a < CS_TEST_ARRAYS; a++) {
        copy_rows(r, s, a, true);
        free(r->own[a]);
    }
    cs_context_free(&context);
    cs_scratch_free(&in->memory);
    free(s), free(in), free(tables);
    return NULL;
}

void cs_test_context_many(struct cs_test_context *c)
{
    struct hall *hall = room(1, sizeof *hall);
    struct rank rank[RANKS];
    pthread_t thread[RANKS];
    hall->c = c;
    assert_int_equal(pthread_barrier_init(&hall->barrier, NULL, (unsigned)group_of(c).n), 0);
    for (int r = 0; r < c->ranks; r++) {
        rank[r] = (struct rank){.hall = hall, .place = r};
        assert_int_equal(pthread_create(&thread[r], NULL, run_rank, &rank[r]), 0);
    }
    memset(c->many_dsink, 0, sizeof c->many_dsink);
    c->came = 0;
    for (int r = 0; r < c->ranks; r++) {
        assert_int_equal(pthread_join(thread[r], NULL), 0);
        c->came += rank[r].came;
        for (int h = 0; h < c->heads; h++)
            c->many_dsink[h] += rank[r].dsink[h];
    }
    pthread_barrier_destroy(&hall->barrier);
    free(hall);
}

static void check_near(float got, float want, double size, const char *what, const char *of,
                       int element)
{
    if (!(fabs((double)got - (double)want) <= 1e-5 * (size + fabs((double)want))))
        fail_msg("%s: %s, element %d: %g, not %g", what, of, element, (double)got, (double)want);
}

void cs_test_context_check(const struct cs_test_context *c, const char *what)
{
    static const char *const names[CS_TEST_ARRAYS] = {"queries",          "keys",
                                                      "values",           "gradient of the output",
                                                      "output",           "gradient of queries",
                                                      "gradient of keys", "gradient of values"};
    for (enum cs_test_array a = CS_TEST_O; a < CS_TEST_ARRAYS; a++)
        for (int i = 0; i < c->mask->n_tokens * cs_test_context_columns(c, a); i++)
            check_near(c->many[a][i], c->one[a][i], 1, what, names[a], i);
    for (int h = 0; c->has_sinks && h < c->heads; h++)
        check_near(c->many_dsink[h], c->dsink[h], 10, what, "gradient of sinks", h);
}
