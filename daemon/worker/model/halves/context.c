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
    const struct cs_mask_plan *near,
        *far; /* over all keys, NULL; or over the own ones, over those that come */
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
    struct call c = {.run = run, .heads = heads, .need = need, .near = cs_mask_of(run, l)};
    if (run->input->tables->context.own_first)
        c.far = &need->at.far;
    c.groups = cs_context_groups_of(run, &heads->shape, is_back);
    c.keys = take_rows(&c, need->at.n);
    c.go = take_rows(&c, need->at.n_go);
    if (need->at.order != NULL)
        c.sorted = take_rows(&c, need->at.n);
    return c;
}

/* There are two sets of keys: while memory is counted, always. */
static bool has_far(const struct call *c)
{
    return c->far != NULL && (c->run->is_rehearsal || c->need->at.n > c->need->at.own);
}

/* heads of queries of one of keys */
static int32_t ratio_of(const struct call *c)
{
    return c->heads->shape.heads / c->heads->shape.kv_heads;
}

/* Some heads of keys of a group, and their queries. */
struct heads {
    int32_t group, from, to;
};

static struct heads all_of(const struct call *c, int32_t group)
{
    return (struct heads){group, c->groups.begin[group], c->groups.begin[group + 1]};
}

/* where heads begin: columns of queries (and of what lies like them), of keys; rows of lse */
static void *q_of(const struct call *c, void *q, int32_t from)
{
    return cs_run_at(c->run, q, (int64_t)from * ratio_of(c) * c->heads->shape.head_dim);
}

static void *k_of(const struct call *c, void *k, int32_t from)
{
    return cs_run_at(c->run, k, (int64_t)from * c->heads->shape.head_dim);
}

static float *lse_of(const struct call *c, float *lse, int32_t from)
{
    return lse != NULL ? lse + (int64_t)from * ratio_of(c) * c->heads->shape.tokens : NULL;
}

/* Of n keys that lie with the group's values; only one set of keys has the sinks. */
static struct cs_attention_shape shape_of(const struct call *c, struct heads h, int32_t n,
                                          bool has_sinks)
{
    struct cs_attention_shape s = c->heads->shape;
    const int32_t before = h.from * ratio_of(c);
    s.heads = (h.to - h.from) * ratio_of(c);
    s.kv_heads = h.to - h.from;
    s.kv_stride = (int32_t)(2 * kv_of(c, h.group));
    s.k_tokens = n;
    s.sink = s.sink != NULL && has_sinks ? s.sink + before : NULL;
    s.dsink = s.dsink != NULL && has_sinks ? s.dsink + before : NULL;
    return s;
}

/* over the keys that are awaited: all, or those that come */
static struct cs_attention_shape shape_of_group(const struct call *c, int32_t group)
{
    const int32_t first = c->run->is_rehearsal ? 0 : c->need->at.first;
    return shape_of(c, all_of(c, group), c->need->at.n - first, c->far == NULL);
}

static const struct cs_mask_plan *mask_of_group(const struct call *c)
{
    return c->far != NULL ? c->far : c->near;
}

/* ---- keys and values ---- */

/* The own keys and values of a group to where attention reads them, and those that go. */
static void lay_out(const struct call *c, int32_t group)
{
    const struct cs_row_keys *k = &c->need->at;
    const int64_t kv = kv_of(c, group), width = 2 * kv, stride = c->heads->shape.kv_stride;
    const struct cs_run *run = c->run;
    const int32_t from = c->groups.begin[group];
    char *own = row_at(c, c->keys, group, k->n, 0);
    run->ops->copy_heads(run->ctx, k->own, 1, kv, k_of(c, c->heads->k, from), stride, 0, own, width,
                         0);
    run->ops->copy_heads(run->ctx, k->own, 1, kv, k_of(c, c->heads->v, from), stride, 0,
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
    char *keys = row_at(c, c->keys, group, k->n, k->first);
    finish_exchange(c, group);
    if (c->sorted == NULL)
        return keys;
    c->run->ops->gather_rows(c->run->ctx, k->n - k->first, 2 * kv_of(c, group), k->order, keys,
                             c->sorted);
    return c->sorted;
}

bool cs_context_splits(const struct cs_run *run, const struct cs_layer_model *l)
{
    const struct cs_input_split *split = run->input->split;
    if (l->encoder >= 0 || split == NULL)
        return false;
    return split->group.n > 1 || !run->input->tables->context.moves_heads;
}

bool cs_context_moves_heads(const struct cs_run *run, const struct cs_layer_model *l)
{
    return cs_context_splits(run, l) && run->input->tables->context.moves_heads &&
           cs_split_has_part(run->input->split);
}

int64_t cs_context_lse_rows(const struct cs_run *run, const struct cs_layer_model *l, int64_t rows)
{
    return cs_context_moves_heads(run, l) ? cs_context_heads_lse_rows(run) : rows;
}

/* over the awaited keys, group by group */
static void attend_groups(const struct call *c, void *o, float *lse)
{
    const struct cs_run *run = c->run;
    for (int32_t g = 0; g < c->groups.n; g++) {
        const struct cs_attention_shape shape = shape_of_group(c, g);
        const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
        struct cs_ctx ctx = cs_run_attention_ctx(c->run, &shape, mask_of_group(c));
        const int32_t from = c->groups.begin[g];
        void *k = await_keys(c, g);
        run->ops->attention(&ctx, &shape, mask_of_group(c), q_of(c, c->heads->q, from), k,
                            cs_run_at(run, k, kv_of(c, g)), q_of(c, o, from), lse_of(c, lse, from));
        cs_scratch_rewind(run->scratch, mark);
    }
}

/* Over the own keys where they lie, all heads at once: it waits for nobody. */
static void attend_own(const struct call *c, void *o, float *lse)
{
    const struct cs_run *run = c->run;
    struct cs_attention_shape shape = c->heads->shape;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    shape.k_tokens = c->need->at.own;
    struct cs_ctx ctx = cs_run_attention_ctx(c->run, &shape, c->near);
    run->ops->attention(&ctx, &shape, c->near, c->heads->q, c->heads->k, c->heads->v, o, lse);
    cs_scratch_rewind(run->scratch, mark);
}

/* acts from a to b, which may be in front of it */
static int64_t apart(const struct cs_run *run, const void *a, const void *b)
{
    return ((intptr_t)b - (intptr_t)a) / (intptr_t)run->ops->act_bytes;
}

/* Partial results over the own keys, then over those that come, merged in this order. */
static void attend_in_parts(const struct call *c, void *o, float *lse)
{
    const struct cs_run *run = c->run;
    const struct cs_attention_shape *s = &c->heads->shape;
    const size_t n_lse = (size_t)s->heads * (size_t)s->tokens;
    float *part_lse = cs_scratch_take(run->scratch, 2 * n_lse * sizeof *part_lse);
    void *part_o = cs_run_take(c->run, (int64_t)s->tokens * s->o_stride);
    attend_own(c, o, part_lse);
    attend_groups(c, part_o, part_lse + n_lse);
    run->ops->attention_merge(run->ctx, s, 2, apart(run, o, part_o), o, part_lse, o,
                              lse != NULL ? lse : part_lse);
}

/* Nothing comes, but something may go. */
static void attend_alone(const struct call *c, void *o, float *lse)
{
    attend_own(c, o, lse);
    for (int32_t g = 0; g < c->groups.n; g++)
        finish_exchange(c, g);
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
    if (c.far == NULL)
        attend_groups(&c, o, lse);
    else if (has_far(&c))
        attend_in_parts(&c, o, lse);
    else
        attend_alone(&c, o, lse);
}

/* ---- gradients ---- */

/* Rows of gradients of a group as keys lie: what attention made of sorted keys goes back there. */
static void *grads_of(const struct call *c, int32_t group, void *sorted)
{
    const struct cs_row_keys *k = &c->need->at;
    return sorted != NULL ? sorted : row_at(c, c->back, group, k->n + k->n_go, k->first);
}

static void send_back(const struct call *c, int32_t group, const void *sorted)
{
    const struct cs_row_keys *k = &c->need->at;
    const int64_t rows = k->n + k->n_go;
    char *grads = row_at(c, c->back, group, rows, k->first);
    if (sorted != NULL)
        c->run->ops->gather_rows(c->run->ctx, k->n - k->first, 2 * kv_of(c, group), k->place,
                                 sorted, grads);
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
    const int32_t from = c->groups.begin[group];
    finish_exchange(c, group);
    run->ops->mix_rows(run->ctx, k->own, width, k->back.start, k->back.index, k->back.weight,
                       row_at(c, c->back, group, k->n + k->n_go, 0), 0, sums);
    run->ops->copy_heads(run->ctx, k->own, 1, kv, sums, width, 0, k_of(c, grads->k, from), stride,
                         0);
    run->ops->copy_heads(run->ctx, k->own, 1, kv, cs_run_at(run, sums, kv), width, 0,
                         k_of(c, grads->v, from), stride, 0);
}

/* What attention made, and its gradient. */
struct made {
    void *o, *d_o;
    float *lse;
};

/* Gradients of groups over the awaited keys: of queries to dq, those of keys go back at once. */
static void grads_of_groups(const struct call *c, const struct made *of, void *dq, void *sorted)
{
    const struct cs_run *run = c->run;
    for (int32_t g = 0; g < c->groups.n; g++) {
        const struct cs_attention_shape shape = shape_of_group(c, g);
        const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
        struct cs_ctx ctx = cs_run_attention_ctx(c->run, &shape, mask_of_group(c));
        const int32_t from = c->groups.begin[g];
        void *k = await_keys(c, g), *dk = grads_of(c, g, sorted);
        run->ops->attention_grad(&ctx, &shape, mask_of_group(c), q_of(c, c->heads->q, from), k,
                                 cs_run_at(run, k, kv_of(c, g)), q_of(c, of->o, from),
                                 lse_of(c, of->lse, from), q_of(c, of->d_o, from),
                                 q_of(c, dq, from), dk, cs_run_at(run, dk, kv_of(c, g)));
        cs_scratch_rewind(run->scratch, mark);
        send_back(c, g, sorted);
    }
}

/* Gradients of some heads of a group over the own keys: of queries to dq, of keys to their rows. */
static void own_grads_of(const struct call *c, const struct made *of, void *dq, struct heads h)
{
    const struct cs_run *run = c->run;
    const struct cs_row_keys *keys = &c->need->at;
    const int64_t rows = keys->n + keys->n_go, kv = kv_of(c, h.group);
    const int32_t before = h.from - c->groups.begin[h.group];
    const struct cs_attention_shape shape = shape_of(c, h, keys->own, true);
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    struct cs_ctx ctx = cs_run_attention_ctx(c->run, &shape, c->near);
    void *k = k_of(c, row_at(c, c->keys, h.group, keys->n, 0), before),
         *dk = k_of(c, row_at(c, c->back, h.group, rows, 0), before);
    run->ops->attention_grad(&ctx, &shape, c->near, q_of(c, c->heads->q, h.from), k,
                             cs_run_at(run, k, kv), q_of(c, of->o, h.from),
                             lse_of(c, of->lse, h.from), q_of(c, of->d_o, h.from),
                             q_of(c, dq, h.from), dk, cs_run_at(run, dk, kv));
    cs_scratch_rewind(run->scratch, mark);
}

/* those of heads [from, to), whichever groups they are of */
static void own_grads(const struct call *c, const struct made *of, void *dq, int32_t from,
                      int32_t to)
{
    for (int32_t g = 0; g < c->groups.n; g++) {
        struct heads h = all_of(c, g);
        h.from = h.from > from ? h.from : from;
        h.to = h.to < to ? h.to : to;
        if (h.from < h.to)
            own_grads_of(c, of, dq, h);
    }
}

/* Half of the own heads while keys come, the others while gradients go back. */
static void grads_in_parts(const struct call *c, const struct made *of, void *dq, void *sorted)
{
    const struct cs_attention_shape *s = &c->heads->shape;
    const int32_t half = (s->kv_heads + 1) / 2;
    void *part = cs_run_take(c->run, (int64_t)s->tokens * s->q_stride);
    own_grads(c, of, dq, 0, half);
    grads_of_groups(c, of, part, sorted);
    own_grads(c, of, dq, half, s->kv_heads);
    c->run->ops->add_heads(c->run->ctx, s->tokens, 1, (int64_t)s->heads * s->head_dim, part,
                           s->q_stride, 0, dq, s->q_stride, 0);
}

/* Nothing came and nothing goes back, but something may come back. */
static void grads_alone(const struct call *c, const struct made *of, void *dq)
{
    own_grads(c, of, dq, 0, c->heads->shape.kv_heads);
    for (int32_t g = 0; g < c->groups.n; g++) {
        finish_exchange(c, g);
        send_back(c, g, NULL);
    }
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
    const struct made of = {o, d_o, lse};
    void *sorted = c.sorted != NULL ? take_rows(&c, c.need->at.n) : NULL;
    void *sums = take_rows(&c, c.need->at.own);
    c.back = take_rows(&c, c.need->at.n + c.need->at.n_go);
    gather(&c);
    const int32_t first_back = run->context != NULL ? run->context->n_exchanges : 0;
    if (c.far == NULL)
        grads_of_groups(&c, &of, grads->q, sorted);
    else if (has_far(&c))
        grads_in_parts(&c, &of, grads->q, sorted);
    else
        grads_alone(&c, &of, grads->q);
    c.first = first_back;
    for (int32_t g = 0; g < c.groups.n; g++)
        sum_up(&c, g, grads, sums);
}
