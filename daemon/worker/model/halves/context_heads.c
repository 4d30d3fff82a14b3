/* Rows of a rank to rows of its heads, and back. */
#include "worker/model/halves/context_heads.h"

#include "core/plan/context.h"
#include "worker/layer/exchange.h"
#include "worker/slot/split.h"

/* ---- a call ---- */

/* Attention of one layer. Arrays of a part of the heads that move: going out (ranks, own, width), at the other end
 * (n, width) by rank, then (rows, width) in the order of the slot. */
struct call {
    struct cs_run *run;
    const struct cs_heads *heads;
    const struct cs_split_heads *rows;
    const int32_t *sums; /* where copies is above 1 */
    const struct cs_mask_plan *mask;
    int32_t ranks, place, parts; /* of the slot's group, among these */
    int32_t before;              /* ranks of the context that stand before them */
    int32_t first;               /* exchange of the first part */
    struct cs_context_heads own; /* of a part of this rank */
};

static bool is_worth_parts(const struct call *c, const struct cs_context *context, int32_t parts)
{
    const struct cs_attention_shape *s = &c->heads->shape;
    const int64_t columns = (int64_t)(c->own.q + 2 * c->own.k) * s->head_dim;
    const int64_t bytes = c->rows->n * columns * (int64_t)c->run->ops->act_bytes;
    return context->group_bytes == 0 || bytes / parts >= context->group_bytes;
}

/* As many as are asked for of the rank's heads of keys, where they are worth it. All ranks know the same. */
static int32_t parts_of(const struct call *c)
{
    const struct cs_context *context = c->run->context;
    int32_t parts = context != NULL && context->groups > 1 ? context->groups : 1;
    while (c->own.k % parts != 0 || (parts > 1 && !is_worth_parts(c, context, parts)))
        parts--;
    return parts;
}

static struct call begin(struct cs_run *run, const struct cs_layer_model *l,
                         const struct cs_heads *heads)
{
    const struct cs_input_split *split = run->input->split;
    struct call c = {.run = run,
                     .heads = heads,
                     .rows = &split->heads,
                     .sums = split->heads.at.sums[l->attention_id],
                     .mask = cs_mask_of(run, l),
                     .ranks = split->group.n,
                     .place = split->place - split->group.first,
                     .before = split->group.first};
    static const struct cs_tp alone = {.ranks = 1};
    CS_ASSERT(
        cs_context_heads(l->attention, alone, c.ranks, &c.own)); /* they are its own already */
    c.parts = parts_of(&c);
    c.own.q /= c.parts;
    c.own.k /= c.parts;
    return c;
}

static void *take(const struct call *c, int64_t rows, int64_t columns)
{
    return cs_run_take(c->run, rows * columns);
}

/* Arrays of all parts, each with so many acts. */
struct parts {
    char *base;
    int64_t n;
};

static struct parts take_parts(const struct call *c, int64_t n)
{
    return (struct parts){take(c, c->parts, n), n};
}

static char *part_of(const struct call *c, const struct parts *p, int32_t part)
{
    return cs_run_at(c->run, p->base, part * p->n);
}

/* columns of a part: its queries (and what lies like them), its keys; all that goes out */
static int64_t q_of(const struct call *c)
{
    return (int64_t)c->own.q * c->heads->shape.head_dim;
}

static int64_t k_of(const struct call *c)
{
    return (int64_t)c->own.k * c->heads->shape.head_dim;
}

static int64_t qkv_of(const struct call *c)
{
    return q_of(c) + 2 * k_of(c);
}

/* ---- heads of rows to the ranks that have them ---- */

/* Columns of a part of every rank's: array (own, stride), where they lie rank by rank, and, at column `to`, what goes
 * out. */
struct columns {
    void *array;
    int64_t stride, n; /* of a rank */
    int64_t to;
    int32_t rows; /* all that are here, or those of the slot */
};

static void copy_part(const struct call *c, const struct columns *x, int32_t part, char *out,
                      int64_t width, bool is_back)
{
    const struct cs_run *run = c->run;
    const int64_t each = c->rows->own * width;
    void *in_rows = cs_run_at(run, x->array, part * x->n), *at = cs_run_at(run, out, x->to);
    if (is_back)
        run->ops->copy_heads(run->ctx, x->rows, c->ranks, x->n, at, width, each, in_rows, x->stride,
                             c->parts * x->n);
    else
        run->ops->copy_heads(run->ctx, x->rows, c->ranks, x->n, in_rows, x->stride, c->parts * x->n,
                             at, width, each);
}

/* Keys or values, one head of which several ranks have. */
static void copy_keys(const struct call *c, void *keys, int32_t part, char *out, int64_t to)
{
    const struct cs_run *run = c->run;
    const int64_t stride = c->heads->shape.kv_stride, each = c->rows->own * qkv_of(c);
    const int32_t n = run->input->split->n;
    if (c->own.copies == 1) {
        const struct columns x = {keys, stride, k_of(c), to, n};
        copy_part(c, &x, part, out, qkv_of(c), false);
        return;
    }
    for (int32_t r = 0; r < c->ranks; r += c->own.copies)
        run->ops->copy_heads(run->ctx, n, c->own.copies, k_of(c),
                             cs_run_at(run, keys, r / c->own.copies * k_of(c)), stride, 0,
                             cs_run_at(run, out, r * each + to), qkv_of(c), each);
}

static void lay_out_qkv(const struct call *c, int32_t part, char *out)
{
    const struct columns q = {c->heads->q, c->heads->shape.q_stride, q_of(c), 0,
                              c->run->input->split->n};
    copy_part(c, &q, part, out, qkv_of(c), false);
    copy_keys(c, c->heads->k, part, out, q_of(c));
    copy_keys(c, c->heads->v, part, out, q_of(c) + k_of(c));
}

/* of the output and its gradient */
static void lay_out_o(const struct call *c, void *o, void *d_o, int32_t part, char *out)
{
    const int64_t stride = c->heads->shape.o_stride;
    const int32_t n = c->run->input->split->n;
    const struct columns of_o = {o, stride, q_of(c), 0, n},
                         of_d = {d_o, stride, q_of(c), q_of(c), n};
    copy_part(c, &of_o, part, out, 2 * q_of(c), false);
    copy_part(c, &of_d, part, out, 2 * q_of(c), false);
}

/* ---- exchanges ---- */

static struct cs_exchange new_exchange(const struct call *c)
{
    return c->run->context != NULL ? cs_exchange_new(c->run, c->run->context)
                                   : (struct cs_exchange){.context = NULL};
}

/* Rows of width columns: at the owner of rows (ranks, own, width), at that of heads (n, width) by rank; is_back: they
 * go from here to there. */
static void add_rows(const struct call *c, const struct cs_exchange *e, int64_t width,
                     char *at_rows, char *at_heads, bool is_back)
{
    const struct cs_run *run = c->run;
    const int32_t *rows = run->input->split->tokens.rows + c->before, own = rows[c->place];
    if (e->context == NULL)
        return;

    for (int32_t r = 0; r < c->ranks; r++) {
        if (r == c->place) {
            cs_device_copy(run->device, is_back ? at_rows : at_heads, is_back ? at_heads : at_rows,
                           (size_t)(own * width) * run->ops->act_bytes);
        } else {
            cs_exchange_add_acts(e, c->before + r, at_rows, own * width, !is_back);
            cs_exchange_add_acts(e, c->before + r, at_heads, rows[r] * width, is_back);
        }
        at_rows = cs_run_at(run, at_rows, c->rows->own * width);
        at_heads = cs_run_at(run, at_heads, rows[r] * width);
    }
}

static void start(const struct cs_exchange *e)
{
    if (e->context != NULL)
        cs_exchange_start(e);
}

/* one of those that were started part by part, from c->first on */
static void finish(const struct call *c, int32_t part)
{
    const struct cs_exchange e = {c->run, c->run->context, c->first + part};
    if (c->run->context != NULL)
        cs_exchange_finish(&e);
}

static int32_t next_exchange(const struct call *c)
{
    return c->run->context != NULL ? c->run->context->n_exchanges : 0;
}

static void to_order(const struct call *c, int64_t width, const void *come, void *sorted)
{
    const struct cs_run *run = c->run;
    run->ops->gather_rows(run->ctx, c->rows->rows, width, c->rows->at.order, come, sorted);
}

/* What attention made of a part goes back; rows that are added to the own ones are zeros. */
static void send_back(const struct call *c, int64_t width, const void *sorted, char *at_heads,
                      char *at_rows)
{
    const struct cs_run *run = c->run;
    const int32_t n = run->input->split->n, added = c->rows->own - n;
    const struct cs_exchange e = new_exchange(c);
    run->ops->gather_rows(run->ctx, c->rows->n, width, c->rows->at.place, sorted, at_heads);
    add_rows(c, &e, width, at_rows, at_heads, true);
    for (int32_t r = 0; r < c->ranks && added > 0; r++)
        cs_device_zero(run->device,
                       cs_run_at(run, at_rows, (r * (int64_t)c->rows->own + n) * width),
                       (size_t)(added * width) * run->ops->act_bytes);
    start(&e);
}

/* ---- attention of a part ---- */

static struct cs_attention_shape shape_of(const struct call *c, int32_t part, int64_t o_stride)
{
    struct cs_attention_shape s = c->heads->shape;
    const int32_t before = (c->place * c->parts + part) * c->own.q;
    s.tokens = c->rows->rows;
    s.heads = c->own.q;
    s.kv_heads = c->own.k;
    s.q_stride = s.kv_stride = (int32_t)qkv_of(c);
    s.o_stride = (int32_t)o_stride;
    s.sink = s.sink != NULL ? s.sink + before : NULL;
    s.dsink = s.dsink != NULL ? s.dsink + before : NULL;
    return s;
}

static float *lse_of(const struct call *c, float *lse, int32_t part)
{
    return lse != NULL ? lse + (int64_t)part * c->own.q * c->rows->rows : NULL;
}

int64_t cs_context_heads_lse_rows(const struct cs_run *run)
{
    const struct cs_input_split *s = run->input->split;
    return ((int64_t)s->heads.rows + s->group.n - 1) / s->group.n;
}

static void attend(const struct call *c, int32_t part, char *qkv, void *o, float *lse)
{
    const struct cs_attention_shape shape = shape_of(c, part, q_of(c));
    struct cs_run *run = c->run;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    struct cs_ctx ctx = cs_run_attention_ctx(run, &shape, c->mask);
    char *k = cs_run_at(run, qkv, q_of(c));
    run->ops->attention(&ctx, &shape, c->mask, qkv, k, cs_run_at(run, k, k_of(c)), o,
                        lse_of(c, lse, part));
    cs_scratch_rewind(run->scratch, mark);
}

/* o: the output, its gradient behind it */
static void attend_back(const struct call *c, int32_t part, char *qkv, char *o, float *lse,
                        char *dqkv)
{
    const struct cs_attention_shape shape = shape_of(c, part, 2 * q_of(c));
    struct cs_run *run = c->run;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    struct cs_ctx ctx = cs_run_attention_ctx(run, &shape, c->mask);
    char *k = cs_run_at(run, qkv, q_of(c)), *dk = cs_run_at(run, dqkv, q_of(c));
    run->ops->attention_grad(&ctx, &shape, c->mask, qkv, k, cs_run_at(run, k, k_of(c)), o,
                             lse_of(c, lse, part), cs_run_at(run, o, q_of(c)), dqkv, dk,
                             cs_run_at(run, dk, k_of(c)));
    cs_scratch_rewind(run->scratch, mark);
}

/* ---- forward ---- */

void cs_context_heads_attention(struct cs_run *run, const struct cs_layer_model *l,
                                const struct cs_heads *heads, void *o, float *lse)
{
    struct call c = begin(run, l, heads);
    if (c.rows->n == 0)
        return;
    const int64_t width = qkv_of(&c), q = q_of(&c);
    const struct parts out = take_parts(&c, c.ranks * (int64_t)c.rows->own * width),
                       come = take_parts(&c, c.rows->n * width);
    char *sorted = take(&c, c.rows->rows, width), *made = take(&c, c.rows->rows, q);
    c.first = next_exchange(&c);
    for (int32_t p = 0; p < c.parts; p++) {
        const struct cs_exchange e = new_exchange(&c);
        lay_out_qkv(&c, p, part_of(&c, &out, p));
        add_rows(&c, &e, width, part_of(&c, &out, p), part_of(&c, &come, p), false);
        start(&e);
    }
    const int32_t first_back = next_exchange(&c);
    for (int32_t p = 0; p < c.parts; p++) {
        finish(&c, p);
        to_order(&c, width, part_of(&c, &come, p), sorted);
        attend(&c, p, sorted, made, lse);
        send_back(&c, q, made, part_of(&c, &come, p), part_of(&c, &out, p));
    }
    c.first = first_back;
    for (int32_t p = 0; p < c.parts; p++) {
        const struct columns x = {o, heads->shape.o_stride, q, 0, c.rows->own};
        finish(&c, p);
        copy_part(&c, &x, p, part_of(&c, &out, p), q, true);
    }
}

/* ---- gradients ---- */

/* Gradients of keys or values from what came back; of a head that several ranks have their sum. room: (ranks, own) and
 * the sums' (ranks / copies, own) */
static void take_keys(const struct call *c, void *keys, int32_t part, char *back, int64_t from,
                      char *room)
{
    const struct cs_run *run = c->run;
    const int64_t stride = c->heads->shape.kv_stride, n = k_of(c), each = c->rows->own * n;
    const int32_t own = c->rows->own, copies = c->own.copies;
    const struct columns x = {keys, stride, n, from, own};
    if (copies == 1) {
        copy_part(c, &x, part, back, qkv_of(c), true);
        return;
    }
    char *sum = cs_run_at(run, room, c->ranks * each);
    run->ops->copy_heads(run->ctx, own, c->ranks, n, cs_run_at(run, back, from), qkv_of(c),
                         own * qkv_of(c), room, n, each);
    for (int32_t k = 0; k < c->ranks / copies; k++)
        run->ops->sum_rows(run->ctx, own, copies, n, c->sums,
                           cs_run_at(run, room, k * copies * each), NULL,
                           cs_run_at(run, sum, k * each));
    run->ops->copy_heads(run->ctx, own, c->ranks / copies, n, sum, n, each, keys, stride, n);
}

static void take_grads(const struct call *c, const struct cs_head_grads *grads, int32_t part,
                       char *back, char *room)
{
    const struct columns q = {grads->q, c->heads->shape.q_stride, q_of(c), 0, c->rows->own};
    copy_part(c, &q, part, back, qkv_of(c), true);
    take_keys(c, grads->k, part, back, q_of(c), room);
    take_keys(c, grads->v, part, back, q_of(c) + k_of(c), room);
}

void cs_context_heads_attention_grad(struct cs_run *run, const struct cs_layer_model *l,
                                     const struct cs_heads *heads, void *o, float *lse, void *d_o,
                                     const struct cs_head_grads *grads)
{
    struct call c = begin(run, l, heads);
    if (c.rows->n == 0)
        return;
    const int64_t width = qkv_of(&c), wide = 2 * q_of(&c),
                  out_rows = c.ranks * (int64_t)c.rows->own;
    const struct parts out = take_parts(&c, out_rows * width),
                       out_o = take_parts(&c, out_rows * wide),
                       come = take_parts(&c, c.rows->n * width),
                       come_o = take_parts(&c, c.rows->n * wide);
    char *sorted = take(&c, c.rows->rows, width), *sorted_o = take(&c, c.rows->rows, wide),
         *made = take(&c, c.rows->rows, width);
    char *room = c.own.copies > 1 ? take(&c, 2 * out_rows, k_of(&c)) : NULL;
    c.first = next_exchange(&c);
    for (int32_t p = 0; p < c.parts; p++) {
        const struct cs_exchange e = new_exchange(&c);
        lay_out_qkv(&c, p, part_of(&c, &out, p));
        lay_out_o(&c, o, d_o, p, part_of(&c, &out_o, p));
        add_rows(&c, &e, width, part_of(&c, &out, p), part_of(&c, &come, p), false);
        add_rows(&c, &e, wide, part_of(&c, &out_o, p), part_of(&c, &come_o, p), false);
        start(&e);
    }
    const int32_t first_back = next_exchange(&c);
    for (int32_t p = 0; p < c.parts; p++) {
        finish(&c, p);
        to_order(&c, width, part_of(&c, &come, p), sorted);
        to_order(&c, wide, part_of(&c, &come_o, p), sorted_o);
        attend_back(&c, p, sorted, sorted_o, lse, made);
        send_back(&c, width, made, part_of(&c, &come, p), part_of(&c, &out, p));
    }
    c.first = first_back;
    for (int32_t p = 0; p < c.parts; p++) {
        finish(&c, p);
        take_grads(&c, grads, p, part_of(&c, &out, p), room);
    }
}
