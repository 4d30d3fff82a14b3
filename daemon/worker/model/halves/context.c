/* Gathers keys and values of a slot's rows over the ranks of a context, group of heads by group, and
 * brings their gradients back. */
#include "worker/model/halves/context.h"

#include "worker/layer/exchange.h"
#include "worker/model/halves/context_groups.h"
#include "worker/model/halves/context_heads.h"
#include "worker/slot/row_keys.h"

/* ---- a call ---- */

/* Attention of one layer: rows of keys are the own ones, then those that come; rows of gradients
 * besides, behind them, what comes back. kv: columns of keys of a group, as many as of its values. */
struct call {
    struct cs_run *run;
    const struct cs_heads *heads;
    const struct cs_row_needs *need;
    const struct cs_mask_plan *mask;
    struct cs_context_groups groups;
    char *keys, *go,
        *back;     /* groups, each (rows, 2 kv): keys and values, those that go, gradients */
    void *sorted;  /* (n, 2 kv) keys of a group in the order of the slot; NULL: as they came */
    int32_t first; /* exchange of the first group */
};

static int64_t kv_of(const struct call *c, int32_t group)
{
    return (int64_t)(c->groups.begin[group + 1] - c->groups.begin[group]) *
           c->heads->shape.head_dim;
}

/* for any group, or all of them */
static void *take_rows(const struct call *c, int64_t rows)
{
    return cs_run_take(c->run, rows * 2 * c->heads->shape.kv_heads * c->heads->shape.head_dim);
}

/* row `row` of a group, of `rows` that each group has */
static char *row_at(const struct call *c, char *base, int32_t group, int64_t rows, int64_t row)
{
    const int64_t before = (int64_t)c->groups.begin[group] * c->heads->shape.head_dim;
    return cs_run_at(c->run, base, rows * 2 * before + row * 2 * kv_of(c, group));
}

static struct call begin(struct cs_run *run, const struct cs_layer_model *l,
                         const struct cs_heads *heads, bool is_back)
{
    const struct cs_row_needs *need = &run->input->split->need[cs_mask_index(run, l)];
    struct call c = {.run = run, .heads = heads, .need = need, .mask = cs_mask_of(run, l)};
    c.groups = cs_context_groups_of(run, &heads->shape, is_back);
    c.keys = take_rows(&c, need->at.n);
    c.go = take_rows(&c, need->at.n_go);
    if (need->at.order != NULL)
        c.sorted = take_rows(&c, need->at.n);
    return c;
}

/* heads of queries in front of a group */
static int32_t heads_before(const struct call *c, int32_t group)
{
    return c->groups.begin[group] * (c->heads->shape.heads / c->heads->shape.kv_heads);
}

/* where a group begins: columns of queries (and of what lies like them), of keys; rows of lse */
static void *q_of(const struct call *c, void *q, int32_t group)
{
    return cs_run_at(c->run, q, (int64_t)heads_before(c, group) * c->heads->shape.head_dim);
}

static void *k_of(const struct call *c, void *k, int32_t group)
{
    return cs_run_at(c->run, k, (int64_t)c->groups.begin[group] * c->heads->shape.head_dim);
}

static float *lse_of(const struct call *c, float *lse, int32_t group)
{
    return lse != NULL ? lse + (int64_t)heads_before(c, group) * c->heads->shape.tokens : NULL;
}

static struct cs_attention_shape shape_of(const struct call *c, int32_t group)
{
    struct cs_attention_shape s = c->heads->shape;
    const int32_t before = heads_before(c, group);
    s.heads = heads_before(c, group + 1) - before;
    s.kv_heads = c->groups.begin[group + 1] - c->groups.begin[group];
    s.kv_stride = (int32_t)(2 * kv_of(c, group));
    s.k_tokens = c->need->at.n;
    s.sink = s.sink != NULL ? s.sink + before : NULL;
    s.dsink = s.dsink != NULL ? s.dsink + before : NULL;
    return s;
}

/* ---- keys and values ---- */

/* The own keys and values of a group to where attention reads them, and those that go. */
static void lay_out(const struct call *c, int32_t group)
{
    const struct cs_row_keys *k = &c->need->at;
    const int64_t kv = kv_of(c, group), width = 2 * kv, stride = c->heads->shape.kv_stride;
    const struct cs_run *run = c->run;
    char *own = row_at(c, c->keys, group, k->n, 0);
    run->ops->copy_heads(run->ctx, k->own, 1, kv, k_of(c, c->heads->k, group), stride, 0, own,
                         width, 0);
    run->ops->copy_heads(run->ctx, k->own, 1, kv, k_of(c, c->heads->v, group), stride, 0,
                         cs_run_at(run, own, kv), width, 0);
    if (k->go_first == NULL)
        run->ops->gather_rows(run->ctx, k->n_go, width, k->go, own,
                              row_at(c, c->go, group, k->n_go, 0));
}

/* What goes to, and comes from, every other rank: its part behind those of the ranks before it; first:
 * those that go begin at rows of their own. */
static void start_exchange(const struct call *c, int32_t group, char *go, const int32_t *first,
                           const struct cs_row_runs *goes, char *come,
                           const struct cs_row_runs *comes)
{
    const struct cs_exchange e = cs_exchange_new(c->run, c->run->context);
    const int64_t row = 2 * kv_of(c, group) * (int64_t)c->run->ops->act_bytes;
    for (int r = 0; r < c->run->context->n; r++) {
        const int64_t sent = goes->rows[r] * row, received = comes->rows[r] * row;
        cs_exchange_add(&e, r, first != NULL ? go + first[r] * row : go, sent, true);
        cs_exchange_add(&e, r, come, received, false);
        go += first != NULL ? 0 : sent;
        come += received;
    }
    cs_exchange_start(&e);
}

/* one of those that were started group by group, from c->first on */
static void finish_exchange(const struct call *c, int32_t group)
{
    const struct cs_exchange e = {c->run, c->run->context, c->first + group};
    if (c->run->context != NULL)
        cs_exchange_finish(&e);
}

static void gather(struct call *c)
{
    const struct cs_row_keys *k = &c->need->at;
    c->first = c->run->context != NULL ? c->run->context->n_exchanges : 0;
    for (int32_t g = 0; g < c->groups.n; g++) {
        lay_out(c, g);
        if (c->run->context != NULL)
            start_exchange(c, g,
                           k->go_first != NULL ? row_at(c, c->keys, g, k->n, 0)
                                               : row_at(c, c->go, g, k->n_go, 0),
                           k->go_first, &c->need->go, row_at(c, c->keys, g, k->n, k->own),
                           &c->need->come);
    }
}

/* keys of a group once they are here, values behind them */
static void *await_keys(const struct call *c, int32_t group)
{
    const struct cs_row_keys *k = &c->need->at;
    char *keys = row_at(c, c->keys, group, k->n, 0);
    finish_exchange(c, group);
    if (c->sorted == NULL)
        return keys;
    c->run->ops->gather_rows(c->run->ctx, k->n, 2 * kv_of(c, group), k->order, keys, c->sorted);
    return c->sorted;
}

bool cs_context_splits(const struct cs_run *run, const struct cs_layer_model *l)
{
    return l->encoder < 0 && run->input->split != NULL;
}

bool cs_context_moves_heads(const struct cs_run *run, const struct cs_layer_model *l)
{
    return cs_context_splits(run, l) && run->input->tables->context.moves_heads;
}

int64_t cs_context_lse_rows(const struct cs_run *run, const struct cs_layer_model *l, int64_t rows)
{
    return cs_context_moves_heads(run, l) ? cs_context_heads_lse_rows(run) : rows;
}

void cs_context_attention(struct cs_run *run, const struct cs_layer_model *l,
                          const struct cs_heads *heads, void *o, float *lse)
{
    if (cs_context_moves_heads(run, l)) {
        cs_context_heads_attention(run, l, heads, o, lse);
        return;
    }
    struct call c = begin(run, l, heads, false);
    gather(&c);
    for (int32_t g = 0; g < c.groups.n; g++) {
        const struct cs_attention_shape shape = shape_of(&c, g);
        const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
        struct cs_ctx ctx = cs_run_attention_ctx(run, &shape, c.mask);
        void *k = await_keys(&c, g);
        run->ops->attention(&ctx, &shape, c.mask, q_of(&c, heads->q, g), k,
                            cs_run_at(run, k, kv_of(&c, g)), q_of(&c, o, g), lse_of(&c, lse, g));
        cs_scratch_rewind(run->scratch, mark);
    }
}

/* ---- gradients ---- */

/* Rows of gradients of a group as keys lie: what attention made of sorted keys goes back there. */
static void *grads_of(const struct call *c, int32_t group, void *sorted)
{
    const struct cs_row_keys *k = &c->need->at;
    return sorted != NULL ? sorted : row_at(c, c->back, group, k->n + k->n_go, 0);
}

static void send_back(const struct call *c, int32_t group, const void *sorted)
{
    const struct cs_row_keys *k = &c->need->at;
    const int64_t rows = k->n + k->n_go;
    char *grads = row_at(c, c->back, group, rows, 0);
    if (sorted != NULL)
        c->run->ops->gather_rows(c->run->ctx, k->n, 2 * kv_of(c, group), k->place, sorted, grads);
    if (c->run->context != NULL)
        start_exchange(c, group, row_at(c, c->back, group, rows, k->own), NULL, &c->need->come,
                       row_at(c, c->back, group, rows, k->n), &c->need->go);
}

/* In the order of ranks: the own part of every row, and what others have given to it. */
static void sum_up(const struct call *c, int32_t group, const struct cs_head_grads *grads,
                   void *sums)
{
    const struct cs_row_keys *k = &c->need->at;
    const int64_t kv = kv_of(c, group), width = 2 * kv, stride = c->heads->shape.kv_stride;
    const struct cs_run *run = c->run;
    finish_exchange(c, group);
    run->ops->mix_rows(run->ctx, k->own, width, k->back.start, k->back.index, k->back.weight,
                       row_at(c, c->back, group, k->n + k->n_go, 0), 0, sums);
    run->ops->copy_heads(run->ctx, k->own, 1, kv, sums, width, 0, k_of(c, grads->k, group), stride,
                         0);
    run->ops->copy_heads(run->ctx, k->own, 1, kv, cs_run_at(run, sums, kv), width, 0,
                         k_of(c, grads->v, group), stride, 0);
}

void cs_context_attention_grad(struct cs_run *run, const struct cs_layer_model *l,
                               const struct cs_heads *heads, void *o, float *lse, void *d_o,
                               const struct cs_head_grads *grads)
{
    if (cs_context_moves_heads(run, l)) {
        cs_context_heads_attention_grad(run, l, heads, o, lse, d_o, grads);
        return;
    }
    struct call c = begin(run, l, heads, true);
    void *sorted = c.sorted != NULL ? take_rows(&c, c.need->at.n) : NULL;
    void *sums = take_rows(&c, c.need->at.own);
    c.back = take_rows(&c, c.need->at.n + c.need->at.n_go);
    gather(&c);
    const int32_t first_back = run->context != NULL ? run->context->n_exchanges : 0;
    for (int32_t g = 0; g < c.groups.n; g++) {
        const struct cs_attention_shape shape = shape_of(&c, g);
        const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
        struct cs_ctx ctx = cs_run_attention_ctx(run, &shape, c.mask);
        void *k = await_keys(&c, g), *dk = grads_of(&c, g, sorted);
        run->ops->attention_grad(&ctx, &shape, c.mask, q_of(&c, heads->q, g), k,
                                 cs_run_at(run, k, kv_of(&c, g)), q_of(&c, o, g),
                                 lse_of(&c, lse, g), q_of(&c, d_o, g), q_of(&c, grads->q, g), dk,
                                 cs_run_at(run, dk, kv_of(&c, g)));
        cs_scratch_rewind(run->scratch, mark);
        send_back(&c, g, sorted);
    }
    c.first = first_back;
    for (int32_t g = 0; g < c.groups.n; g++)
        sum_up(&c, g, grads, sums);
}
