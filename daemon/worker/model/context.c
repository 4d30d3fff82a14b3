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

static const struct cs_row_needs *needs_of(const struct cs_run *run, const struct cs_layer_model *l)
{
    return &split_of(run)->need[cs_mask_index(run, l)];
}

/* x (rows of here, columns kv), `stride` apart, at their places among all rows */
static void spread(struct cs_run *run, int64_t kv, const void *x, int32_t stride, float *all,
                   int64_t width)
{
    const struct cs_input_split *s = split_of(run);
    int32_t at = 0;
    for (int32_t i = s->tokens.first[s->place]; i < s->tokens.first[s->place + 1]; i++) {
        const struct cs_row_run *r = &s->tokens.run[i];
        run->ops->copy_heads(run->ctx, r->n, 1, kv, (const float *)x + (int64_t)at * stride, stride,
                             0, all + r->row * width, width, 0);
        at += r->n;
    }
}

static void gather(struct cs_run *run, const struct cs_layer_model *l, float *all)
{
    const struct cs_row_needs *need = needs_of(run, l);
    const int64_t width = both(l);
    struct call call = {.context = run->context};
    for (int k = 1; k < split_of(run)->ranks; k++) {
        const int with = other(run->context, k);
        add_runs(&call, &need->go, with, all, width, true);
        add_runs(&call, &need->come, with, all, width, false);
    }
    move(&call);
}

void cs_context_gather(struct cs_run *run, const struct cs_layer_model *l, struct cs_heads *heads)
{
    const int64_t kv = cs_head_dims(l).kv, width = both(l);
    if (l->encoder >= 0 || split_of(run) == NULL)
        return;
    struct cs_attention_shape *shape = &heads->shape;
    float *all = cs_run_take(run, (int64_t)run->input->n_tokens * width);
    if (run->context != NULL) {
        if (!needs_of(run, l)->are_all) /* what nobody sees must be a number */
            memset(all, 0, (size_t)(run->input->n_tokens * width) * sizeof *all);
        spread(run, kv, heads->k, shape->kv_stride, all, width);
        spread(run, kv, heads->v, shape->kv_stride, all + kv, width);
        gather(run, l, all);
    }
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

/* What the own queries give to rows of others goes, what theirs give to the own rows comes: rank r's
 * behind that of those before it. */
static void send_back(struct cs_run *run, const struct cs_layer_model *l, float *all, float *theirs)
{
    const struct cs_input_split *s = split_of(run);
    const struct cs_row_needs *need = needs_of(run, l);
    const int64_t width = both(l);
    struct call call = {.context = run->context};
    for (int r = 0; r < s->ranks; r++) {
        add_runs(&call, &need->come, r, all, width, true);
        add(&call, r, theirs, need->go.rows[r] * width, false);
        theirs += need->go.rows[r] * width;
    }
    move(&call);
}

/* Adds rows from[0 .. n), both kinds of columns of each, to the rows of here from `at` on. */
static void add_to_rows(const struct cs_head_grads *own, int64_t own_stride, int64_t kv, int32_t at,
                        const float *from, int32_t n)
{
    for (int32_t i = 0; i < n; i++, from += 2 * kv) {
        float *k = (float *)own->k + (at + i) * own_stride;
        float *v = (float *)own->v + (at + i) * own_stride;
        for (int64_t j = 0; j < kv; j++) {
            k[j] += from[j];
            v[j] += from[kv + j];
        }
    }
}

/* where a row of here is among the own ones */
static int32_t place_of(const struct cs_input_split *s, int32_t row)
{
    int32_t low = 0, high = s->n;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (s->row[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* In the order of ranks, whoever adds. packed: the rows of the runs one behind the other, else they
 * lie among all. */
static void add_all(const struct cs_input_split *s, const struct cs_row_runs *runs, int32_t rank,
                    const float *from, bool is_packed, const struct cs_head_grads *own,
                    int64_t own_stride, int64_t kv)
{
    for (int32_t i = runs->first[rank]; i < runs->first[rank + 1]; i++) {
        const struct cs_row_run *r = &runs->run[i];
        add_to_rows(own, own_stride, kv, place_of(s, r->row),
                    is_packed ? from : from + r->row * 2 * kv, r->n);
        from += is_packed ? r->n * 2 * kv : 0;
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
    float *theirs = cs_run_take(run, (s->ranks - 1) * rows * width);
    if (run->context == NULL)
        return;
    const struct cs_row_needs *need = needs_of(run, l);
    send_back(run, l, all->k, theirs);
    for (int32_t i = 0; i < s->n; i++) {
        memset((float *)own->k + i * own_stride, 0, (size_t)kv * sizeof(float));
        memset((float *)own->v + i * own_stride, 0, (size_t)kv * sizeof(float));
    }
    for (int32_t r = 0; r < s->ranks; r++) {
        if (r == s->place)
            add_all(s, &s->tokens, r, all->k, false, own, own_stride, kv);
        else
            add_all(s, &need->go, r, theirs, true, own, own_stride, kv);
        theirs += need->go.rows[r] * width;
    }
}
