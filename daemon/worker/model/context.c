/* Gathers keys and values of a slot's rows over the ranks of a context, and brings their gradients
 * back. */
#include "worker/model/context.h"

#include <stdlib.h>
#include <string.h>

#include "worker/slot/split.h"

void cs_context_free(struct cs_context *context)
{
    if (context == NULL)
        return;
    free(context->xfer);
    context->xfer = NULL;
    context->room = 0;
}

static const struct cs_input_split *split_of(const struct cs_run *run)
{
    return run->input->split;
}

/* columns of keys and values of a row */
static int64_t both(const struct cs_layer_model *l)
{
    return 2 * cs_head_dims(l).kv;
}

/* ---- transfers of a call ---- */

struct call {
    struct cs_context *context;
    int n;
};

static void add(struct call *c, int place, float *data, int64_t elements, bool is_send)
{
    struct cs_context *x = c->context;
    if (elements == 0)
        return;
    if (c->n == x->room) {
        x->room = x->room > 0 ? 2 * x->room : 64;
        x->xfer = realloc(x->xfer, (size_t)x->room * sizeof *x->xfer);
        CS_ASSERT(x->xfer != NULL);
    }
    x->xfer[c->n++] = (struct cs_xfer){.peer = x->first + place,
                                       .data = data,
                                       .bytes = (size_t)elements * sizeof *data,
                                       .is_send = is_send};
}

/* the runs of a rank's rows in an array of all */
static void add_runs(struct call *c, const struct cs_row_runs *runs, int place, float *all,
                     int64_t width, bool is_send)
{
    for (int32_t i = runs->first[place]; i < runs->first[place + 1]; i++)
        add(c, place, all + runs->run[i].row * width, runs->run[i].n * width, is_send);
}

static void move(const struct call *c)
{
    if (c->n > 0)
        c->context->exchange(c->context->user, c->context->xfer, c->n);
}

/* k-th of the others in turn, so that not everybody begins with the first */
static int other(const struct cs_context *x, int k)
{
    return (x->place + k) % x->n;
}

/* ---- the operators ---- */

static void gather(struct cs_run *run, const struct cs_layer_model *l, float *packed, float *all)
{
    const struct cs_input_split *s = split_of(run);
    const int64_t width = both(l);
    struct call call = {.context = run->context};
    for (int k = 1; k < s->ranks; k++) {
        const int to = other(run->context, k);
        if (s->tokens.rows[to] > 0)
            add(&call, to, packed, s->n * width, true);
        add_runs(&call, &s->tokens, to, all, width, false);
    }
    for (int32_t i = s->tokens.first[s->place], at = 0; i < s->tokens.first[s->place + 1]; i++) {
        const struct cs_row_run *r = &s->tokens.run[i];
        memcpy(all + r->row * width, packed + at * width, (size_t)(r->n * width) * sizeof *all);
        at += r->n;
    }
    move(&call);
}

void cs_context_gather(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                       struct cs_heads *heads)
{
    const int64_t kv = cs_head_dims(l).kv, width = both(l);
    if (l->encoder >= 0 || split_of(run) == NULL)
        return;
    struct cs_attention_shape *shape = &heads->shape;
    float *packed = cs_run_take(run, rows * width);
    float *all = cs_run_take(run, (int64_t)run->input->n_tokens * width);
    run->ops->copy_heads(run->ctx, rows, 1, kv, heads->k, shape->kv_stride, 0, packed, width, 0);
    run->ops->copy_heads(run->ctx, rows, 1, kv, heads->v, shape->kv_stride, 0, packed + kv, width,
                         0);
    if (run->context != NULL)
        gather(run, l, packed, all);
    heads->k = all;
    heads->v = all + kv;
    shape->kv_stride = (int32_t)width;
    shape->k_tokens = run->input->n_tokens;
}

struct cs_head_grads cs_context_grads(struct cs_run *run, const struct cs_layer_model *l,
                                      const struct cs_head_grads *own)
{
    if (l->encoder >= 0 || split_of(run) == NULL)
        return *own;
    float *all = cs_run_take(run, (int64_t)run->input->n_tokens * both(l));
    return (struct cs_head_grads){own->q, all, all + cs_head_dims(l).kv};
}

/* what the own queries give to rows of others goes, what theirs give to the own rows comes */
static void send_back(struct cs_run *run, const struct cs_layer_model *l, float *all, float *theirs)
{
    const struct cs_input_split *s = split_of(run);
    const int64_t width = both(l);
    struct call call = {.context = run->context};
    for (int k = 1; k < s->ranks; k++) {
        const int to = other(run->context, k);
        add_runs(&call, &s->tokens, to, all, width, true);
        if (s->tokens.rows[to] > 0)
            add(&call, to, theirs + (int64_t)to * s->n * width, s->n * width, false);
    }
    move(&call);
}

/* In the order of ranks, whoever adds. Ranks without rows have no queries: they give nothing. */
static void sum(const struct cs_input_split *s, int64_t width, const float *all,
                const float *theirs, int32_t i, float *out)
{
    memset(out, 0, (size_t)width * sizeof *out);
    for (int32_t r = 0; r < s->ranks; r++) {
        const float *x =
            r == s->place ? all + s->row[i] * width : theirs + ((int64_t)r * s->n + i) * width;
        for (int64_t j = 0; s->tokens.rows[r] > 0 && j < width; j++)
            out[j] += x[j];
    }
}

void cs_context_reduce(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                       const struct cs_head_grads *all, const struct cs_head_grads *own,
                       int64_t own_stride)
{
    const struct cs_input_split *s = split_of(run);
    const int64_t kv = cs_head_dims(l).kv, width = both(l);
    if (l->encoder >= 0 || s == NULL)
        return;
    float *theirs = cs_run_take(run, s->ranks * rows * width), *row = cs_run_take(run, width);
    if (run->context == NULL)
        return;
    send_back(run, l, all->k, theirs);
    for (int32_t i = 0; i < s->n; i++) {
        sum(s, width, all->k, theirs, i, row);
        memcpy((float *)own->k + i * own_stride, row, (size_t)kv * sizeof *row);
        memcpy((float *)own->v + i * own_stride, row + kv, (size_t)kv * sizeof *row);
    }
}
