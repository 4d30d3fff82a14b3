/* Operators that record an event before and behind each call, and the sums of what lies between. */
#include "bench/timed_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CALLS = 1 << 13, MAX_KEYS = 256 };

/* An operator with a shape. bytes, flops: of one call; at most one of them is known. */
struct key {
    char name[72];
    double bytes, flops, ms;
    int64_t calls;
};

struct call {
    void *begin, *end; /* events, made once */
    int key;
};

/* One for the whole program: an operator's arguments do not lead to it. */
static struct timed {
    struct cs_device *device;
    const struct cs_ops *real;
    const struct cs_device_ops *mem;
    struct cs_ops ops;
    struct cs_device_ops timed_mem;
    struct call call[MAX_CALLS];
    struct key key[MAX_KEYS];
    int n_calls, n_events, n_keys, n_steps;
} timed;

static void refuse(const char *what)
{
    fprintf(stderr, "operators cannot be timed: %s\n", what);
    exit(1);
}

static void must(enum cs_status status, const struct cs_err *err)
{
    if (status != CS_OK)
        refuse(err->text);
}

static void *event(void)
{
    struct cs_err err = {0};
    void *e;
    must(timed.mem->event_create(timed.device->handle, &e, &err), &err);
    return e;
}

static void record(void *e, void *stream)
{
    struct cs_err err = {0};
    must(timed.mem->event_record(timed.device->handle, e, stream, &err), &err);
}

static int key_of(const char *name, double bytes, double flops)
{
    int i = 0;
    while (i < timed.n_keys && strcmp(timed.key[i].name, name) != 0)
        i++;
    if (i == MAX_KEYS)
        refuse("too many different calls");
    if (i == timed.n_keys) {
        timed.key[timed.n_keys++] = (struct key){.bytes = bytes, .flops = flops};
        snprintf(timed.key[i].name, sizeof timed.key[i].name, "%s", name);
    }
    return i;
}

static void *begin(void *stream, double bytes, double flops, const char *name)
{
    if (timed.n_calls == MAX_CALLS)
        refuse("too many calls in a step");
    struct call *c = &timed.call[timed.n_calls++];
    if (timed.n_calls > timed.n_events) {
        c->begin = event();
        c->end = event();
        timed.n_events++;
    }
    c->key = key_of(name, bytes, flops);
    record(c->begin, stream);
    return c->end;
}

#define ACT  ((double)timed.real->act_bytes)
#define GRAD (ctx->grad == CS_GRAD_BF16 ? 2.0 : 4.0)
/* run CALL between events; its name and shape are printed from what follows */
#define TIMED(bytes, flops, call, ...)                                                             \
    do {                                                                                           \
        char name[72];                                                                             \
        snprintf(name, sizeof name, __VA_ARGS__);                                                  \
        void *end = begin(ctx->stream, bytes, flops, name);                                        \
        timed.real->call;                                                                          \
        record(end, ctx->stream);                                                                  \
    } while (0)
#define LL(x) ((long long)(x))

/* ---- products ---- */

static void linear(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *x,
                   int64_t ldx, const void *w, const void *bias, const void *residual,
                   enum cs_act act, void *pre, void *y)
{
    TIMED(0, 2.0 * (double)rows * (double)in * (double)out,
          linear(ctx, rows, in, out, x, ldx, w, bias, residual, act, pre, y),
          "linear %lldx%lldx%lld%s%s%s%s", LL(rows), LL(in), LL(out), bias != NULL ? " bias" : "",
          residual != NULL ? " residual" : "", act != CS_ACT_NONE ? " act" : "",
          pre != NULL ? " pre" : "");
}

static void linear_dgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *w, enum cs_act act, const void *pre, void *dx)
{
    TIMED(0, 2.0 * (double)rows * (double)in * (double)out,
          linear_dgrad(ctx, rows, in, out, dy, w, act, pre, dx), "linear_dgrad %lldx%lldx%lld%s",
          LL(rows), LL(in), LL(out), act != CS_ACT_NONE ? " act" : "");
}

static void linear_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *x, void *dw, void *db)
{
    TIMED(0, 2.0 * (double)rows * (double)in * (double)out,
          linear_wgrad(ctx, rows, in, out, dy, x, dw, db), "linear_wgrad %lldx%lldx%lld%s",
          LL(rows), LL(in), LL(out), db != NULL ? " bias" : "");
}

static void linear_xent(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t vocab, const void *x,
                        const void *w, const int32_t *labels, float softcap, double *loss,
                        double *row_loss, uint8_t *correct, void *dx, void *dw)
{
    const double products = 1.0 + (dx != NULL) + (dw != NULL);
    TIMED(0, 2.0 * products * (double)rows * (double)in * (double)vocab,
          linear_xent(ctx, rows, in, vocab, x, w, labels, softcap, loss, row_loss, correct, dx, dw),
          "linear_xent %lldx%lldx%lld%s%s", LL(rows), LL(in), LL(vocab), dx != NULL ? " dx" : "",
          dw != NULL ? " dw" : "");
}

/* ---- attention: which pairs are allowed lies on the device, so it has no rate ---- */

static void attention(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                      const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                      void *o, float *lse)
{
    TIMED(0, 0, attention(ctx, shape, mask, q, k, v, o, lse), "attention %dx%d:%dx%d",
          shape->tokens, shape->heads, shape->kv_heads, shape->head_dim);
}

static void attention_grad(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                           const struct cs_mask_plan *mask, const void *q, const void *k,
                           const void *v, const void *o, const float *lse, const void *d_o,
                           void *dq, void *dk, void *dv)
{
    TIMED(0, 0, attention_grad(ctx, shape, mask, q, k, v, o, lse, d_o, dq, dk, dv),
          "attention_grad %dx%d:%dx%d", shape->tokens, shape->heads, shape->kv_heads,
          shape->head_dim);
}

static void mask_build(struct cs_ctx *ctx, const struct cs_mask_plan *mask,
                       struct cs_mask_cells *cells)
{
    TIMED(0, 0, mask_build(ctx, mask, cells), "mask_build %d", mask->n_tokens);
}

/* ---- bound by memory ---- */

static void bias_add(struct cs_ctx *ctx, int64_t rows, int64_t n, void *y, int64_t ldy,
                     const void *bias)
{
    TIMED(2 * ACT * (double)rows * (double)n, 0, bias_add(ctx, rows, n, y, ldy, bias),
          "bias_add %lldx%lld", LL(rows), LL(n));
}

static void bias_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *dy, int64_t ld_dy,
                      void *db)
{
    TIMED(ACT * (double)rows * (double)n, 0, bias_grad(ctx, rows, n, dy, ld_dy, db),
          "bias_grad %lldx%lld", LL(rows), LL(n));
}

static void norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                 float offset, const void *x, const void *w, const void *b, void *y, float *stat)
{
    TIMED(2 * ACT * (double)rows * (double)n, 0,
          norm(ctx, kind, rows, n, eps, offset, x, w, b, y, stat), "norm %lldx%lld", LL(rows),
          LL(n));
}

static void add_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                     float offset, const void *a, const void *b, const void *w, const void *bias,
                     void *sum, void *y, float *stat)
{
    TIMED(4 * ACT * (double)rows * (double)n, 0,
          add_norm(ctx, kind, rows, n, eps, offset, a, b, w, bias, sum, y, stat),
          "add_norm %lldx%lld", LL(rows), LL(n));
}

static void norm_grad(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float offset,
                      const void *x, const void *w, const float *stat, const void *dy,
                      const void *dx_in, void *dx, void *dw, void *db)
{
    TIMED((dx_in != NULL ? 4 : 3) * ACT * (double)rows * (double)n, 0,
          norm_grad(ctx, kind, rows, n, offset, x, w, stat, dy, dx_in, dx, dw, db),
          "norm_grad %lldx%lld%s%s%s", LL(rows), LL(n), dx_in != NULL ? " residual" : "",
          dw != NULL ? " dw" : "", db != NULL ? " db" : "");
}

static void rope(struct cs_ctx *ctx, int64_t rows, int32_t heads, int32_t head_dim, int32_t rot_dim,
                 int64_t ldx, void *x, const float *cos, const float *sin, int inverse)
{
    TIMED(2 * ACT * (double)rows * heads * rot_dim + 4.0 * (double)rows * rot_dim, 0,
          rope(ctx, rows, heads, head_dim, rot_dim, ldx, x, cos, sin, inverse), "rope %lldx%dx%d%s",
          LL(rows), heads, rot_dim, inverse ? " inverse" : "");
}

static void norm_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n, float eps,
                       float offset, const void *x, int64_t ld_x, const void *w,
                       const struct cs_norm_all *all, void *y, int64_t ld_y, float *stat)
{
    TIMED(2 * ACT * (double)rows * heads * (double)n, 0,
          norm_heads(ctx, rows, heads, n, eps, offset, x, ld_x, w, all, y, ld_y, stat),
          "norm_heads %lldx%dx%lld", LL(rows), heads, LL(n));
}

static void norm_heads_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                            float offset, const void *x, int64_t ld_x, const void *w,
                            const float *stat, const struct cs_norm_all *all, const void *dy,
                            int64_t ld_dy, void *dx, int64_t ld_dx, int adds, void *dw)
{
    TIMED((adds ? 4 : 3) * ACT * (double)rows * heads * (double)n, 0,
          norm_heads_grad(ctx, rows, heads, n, offset, x, ld_x, w, stat, all, dy, ld_dy, dx, ld_dx,
                          adds, dw),
          "norm_heads_grad %lldx%dx%lld%s%s", LL(rows), heads, LL(n), adds ? " adds" : "",
          dw != NULL ? " dw" : "");
}

static void delta(struct cs_ctx *ctx, const struct cs_delta_shape *s,
                  const struct cs_mask_plan *mask, const struct cs_delta_in *in, void *o)
{
    TIMED(0, 0, delta(ctx, s, mask, in, o), "delta %dx%d:%dx%d", mask->n_tokens, s->heads,
          s->key_heads, s->key_dim);
}

static void delta_grad(struct cs_ctx *ctx, const struct cs_delta_shape *s,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const void *d_o, const struct cs_delta_out *out)
{
    TIMED(0, 0, delta_grad(ctx, s, mask, in, d_o, out), "delta_grad %dx%d:%dx%d", mask->n_tokens,
          s->heads, s->key_heads, s->key_dim);
}

static void delta_gate_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                            const void *b, int64_t ld, const void *a_log, const void *dt_bias,
                            const float *dg, const float *dbeta, void *da, void *db, int64_t ld_d,
                            void *da_log, void *ddt_bias)
{
    TIMED(0, 0,
          delta_gate_grad(ctx, rows, heads, a, b, ld, a_log, dt_bias, dg, dbeta, da, db, ld_d,
                          da_log, ddt_bias),
          "delta_gate_grad %lldx%d", LL(rows), heads);
}

static void short_conv(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                       int32_t taps, const void *x, int64_t ldx, const void *w, void *y,
                       int64_t ldy)
{
    TIMED(2 * ACT * mask->n_tokens * (double)channels, 0,
          short_conv(ctx, mask, channels, taps, x, ldx, w, y, ldy), "short_conv %dx%lldx%d",
          mask->n_tokens, LL(channels), taps);
}

static void short_conv_grad(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                            int32_t taps, const void *x, int64_t ldx, const void *w, const void *dy,
                            int64_t ldy, void *dx, void *dw)
{
    TIMED(3 * ACT * mask->n_tokens * (double)channels, 0,
          short_conv_grad(ctx, mask, channels, taps, x, ldx, w, dy, ldy, dx, dw),
          "short_conv_grad %dx%lldx%d%s", mask->n_tokens, LL(channels), taps,
          dw != NULL ? " dw" : "");
}

static void act(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, void *y)
{
    TIMED(2 * ACT * (double)n, 0, act(ctx, kind, n, x, y), "act %lld", LL(n));
}

static void act_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, const void *dy,
                     void *dx)
{
    TIMED(3 * ACT * (double)n, 0, act_grad(ctx, kind, n, x, dy, dx), "act_grad %lld", LL(n));
}

static void gated(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n, const void *gate,
                  const void *up, int64_t ld, void *y)
{
    TIMED(3 * ACT * (double)rows * (double)n, 0, gated(ctx, kind, rows, n, gate, up, ld, y),
          "gated %lldx%lld", LL(rows), LL(n));
}

static void gated_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n,
                       const void *gate, const void *up, int64_t ld, const void *dy, void *dgate,
                       void *dup, int64_t ld_d)
{
    TIMED(5 * ACT * (double)rows * (double)n, 0,
          gated_grad(ctx, kind, rows, n, gate, up, ld, dy, dgate, dup, ld_d),
          "gated_grad %lldx%lld", LL(rows), LL(n));
}

static void add(struct cs_ctx *ctx, int64_t n, const void *a, const void *b, void *y)
{
    TIMED(3 * ACT * (double)n, 0, add(ctx, n, a, b, y), "add %lld", LL(n));
}

static void embed(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                  const void *table, float scale, void *y)
{
    TIMED(2 * ACT * (double)rows * (double)n, 0, embed(ctx, rows, n, ids, table, scale, y),
          "embed %lldx%lld", LL(rows), LL(n));
}

static void embed_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                       const void *dy, float scale, void *dtable)
{
    TIMED((ACT + 2 * GRAD) * (double)rows * (double)n, 0,
          embed_grad(ctx, rows, n, ids, dy, scale, dtable), "embed_grad %lldx%lld", LL(rows),
          LL(n));
}

static void gather_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                        const void *x, void *y)
{
    TIMED(2 * ACT * (double)rows * (double)n, 0, gather_rows(ctx, rows, n, index, x, y),
          "gather_rows %lldx%lld", LL(rows), LL(n));
}

static void scatter_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                         const void *x, void *y, int is_added)
{
    TIMED((is_added ? 3 : 2) * ACT * (double)rows * (double)n, 0,
          scatter_rows(ctx, rows, n, index, x, y, is_added), "scatter_rows %lldx%lld%s", LL(rows),
          LL(n), is_added ? " added" : "");
}

static void mix_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                     const int32_t *index, const float *weight, const void *x, int is_added,
                     void *y)
{
    TIMED((is_added ? 3 : 2) * ACT * (double)rows * (double)n, 0,
          mix_rows(ctx, rows, n, start, index, weight, x, is_added, y), "mix_rows %lldx%lld",
          LL(rows), LL(n));
}

static void mix_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                          const int32_t *index, const float *weight, const void *dy, void *dx)
{
    TIMED((8 + ACT) * (double)rows * (double)n, 0,
          mix_rows_grad(ctx, rows, n, start, index, weight, dy, dx), "mix_rows_grad %lldx%lld",
          LL(rows), LL(n));
}

static void unfold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *index,
                   const void *x, void *y)
{
    TIMED(2 * ACT * (double)rows * (double)n * taps, 0, unfold(ctx, rows, taps, n, index, x, y),
          "unfold %lldx%lldx%d", LL(rows), LL(n), taps);
}

static void fold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *start,
                 const int32_t *entry, const void *dy, void *dx)
{
    TIMED(2 * ACT * (double)rows * (double)n, 0, fold(ctx, rows, taps, n, start, entry, dy, dx),
          "fold %lldx%lldx%d", LL(rows), LL(n), taps);
}

static void patches(struct cs_ctx *ctx, int64_t rows, const struct cs_patch_shape *shape,
                    const struct cs_patch_place *place, const uint8_t *pixels, float rescale,
                    const float *mean, const float *std, void *y)
{
    const double values =
        (double)rows * shape->channels * shape->frames * shape->patch * shape->patch;
    TIMED((1 + ACT) * values, 0, patches(ctx, rows, shape, place, pixels, rescale, mean, std, y),
          "patches %lld of %d", LL(rows), shape->patch);
}

/* ---- the optimizer, memory ---- */

static void sumsq_many(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_sumsq_tensor *tensor,
                       double *sum)
{
    double n = 0.0;
    for (int32_t i = 0; i < n_tensors; i++)
        n += (double)tensor[i].n;
    TIMED(GRAD * n, 0, sumsq_many(ctx, n_tensors, tensor, sum), "sumsq_many %d tensors", n_tensors);
}

static void adamw_many(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_adamw_tensor *tensor,
                       const struct cs_adamw *hyper)
{
    double bytes = 0.0;
    for (int32_t i = 0; i < n_tensors; i++)
        bytes += (double)tensor[i].n * (tensor[i].w != (void *)tensor[i].master ? 28 + ACT : 28);
    TIMED(bytes, 0, adamw_many(ctx, n_tensors, tensor, hyper), "adamw_many %d tensors", n_tensors);
}

static void adamw_bf16_many(struct cs_ctx *ctx, int32_t n_tensors,
                            const struct cs_adamw_bf16_tensor *tensor, const struct cs_adamw *hyper)
{
    double n = 0.0;
    for (int32_t i = 0; i < n_tensors; i++)
        n += (double)tensor[i].n;
    TIMED(14 * n, 0, adamw_bf16_many(ctx, n_tensors, tensor, hyper), "adamw_bf16_many %d tensors",
          n_tensors);
}

static enum cs_status copy(void *handle, void *stream, void *to, const void *from, size_t bytes,
                           struct cs_err *err)
{
    void *end = begin(stream, 0, 0, "copy");
    const enum cs_status status = timed.mem->copy(handle, stream, to, from, bytes, err);
    record(end, stream);
    return status;
}

static enum cs_status fill(void *handle, void *stream, void *p, int byte, size_t bytes,
                           struct cs_err *err)
{
    char name[72];
    snprintf(name, sizeof name, "fill %.1f MiB", (double)bytes / 1048576.0);
    void *end = begin(stream, (double)bytes, 0, name);
    const enum cs_status status = timed.mem->fill(handle, stream, p, byte, bytes, err);
    record(end, stream);
    return status;
}

/* ---- the table ---- */

void cs_timed_open(struct cs_device *device)
{
    if (device->mem == NULL)
        refuse("the device has no events");
    timed.device = device;
    timed.real = device->ops;
    timed.mem = device->mem;
    timed.ops = *device->ops;
    timed.timed_mem = *device->mem;
    struct cs_ops *o = &timed.ops;
    o->linear = linear;
    o->linear_dgrad = linear_dgrad;
    o->linear_wgrad = linear_wgrad;
    o->linear_xent = linear_xent;
    o->attention = attention;
    o->attention_grad = attention_grad;
    o->mask_build = o->mask_build != NULL ? mask_build : NULL;
    o->bias_add = bias_add;
    o->bias_grad = bias_grad;
    o->norm = norm;
    o->add_norm = add_norm;
    o->norm_grad = norm_grad;
    o->rope = rope;
    o->norm_heads = norm_heads;
    o->norm_heads_grad = norm_heads_grad;
    o->delta = delta;
    o->delta_grad = delta_grad;
    o->delta_gate_grad = delta_gate_grad;
    o->short_conv = short_conv;
    o->short_conv_grad = short_conv_grad;
    o->act = act;
    o->act_grad = act_grad;
    o->gated = gated;
    o->gated_grad = gated_grad;
    o->add = add;
    o->embed = embed;
    o->embed_grad = embed_grad;
    o->gather_rows = gather_rows;
    o->scatter_rows = scatter_rows;
    o->mix_rows = mix_rows;
    o->mix_rows_grad = mix_rows_grad;
    o->unfold = unfold;
    o->fold = fold;
    o->patches = patches;
    o->sumsq_many = sumsq_many;
    o->adamw_many = adamw_many;
    o->adamw_bf16_many = adamw_bf16_many;
    o->device = &timed.timed_mem;
    timed.timed_mem.copy = copy;
    timed.timed_mem.fill = fill;
    device->ops = &timed.ops;
    device->mem = &timed.timed_mem;
}

void cs_timed_step(void)
{
    struct cs_err err = {0};
    for (int i = 0; i < timed.n_calls; i++) {
        const struct call *c = &timed.call[i];
        double ms;
        must(timed.mem->event_elapsed(timed.device->handle, c->begin, c->end, &ms, &err), &err);
        timed.key[c->key].ms += ms;
        timed.key[c->key].calls++;
    }
    timed.n_calls = 0;
    timed.n_steps++;
}

static int dearest_first(const void *a, const void *b)
{
    const double x = ((const struct key *)a)->ms, y = ((const struct key *)b)->ms;
    return (x < y) - (x > y);
}

void cs_timed_print(void)
{
    const int steps = timed.n_steps > 0 ? timed.n_steps : 1;
    double all = 0.0;
    qsort(timed.key, (size_t)timed.n_keys, sizeof *timed.key, dearest_first);
    for (int i = 0; i < timed.n_keys; i++)
        all += timed.key[i].ms;
    printf("operators of a step, mean of %d, %.3f ms together:\n%9s %9s %6s %9s\n", steps,
           all / steps, "calls", "ms", "%", "rate");
    for (int i = 0; i < timed.n_keys; i++) {
        const struct key *k = &timed.key[i];
        const double each = (k->flops > 0.0 ? k->flops / 1e9 : k->bytes / 1e6) / k->ms;
        if (k->calls == 0)
            continue;
        printf("%9lld %9.3f %6.2f ", LL(k->calls / steps), k->ms / steps, 100.0 * k->ms / all);
        if (k->flops > 0.0 || k->bytes > 0.0)
            printf("%9.1f %s", each * (double)k->calls, k->flops > 0.0 ? "TFLOP/s" : "GB/s   ");
        else
            printf("%9s %7s", "", "");
        printf(" %s\n", k->name);
    }
    fflush(stdout);
}

void cs_timed_close(void)
{
    for (int i = 0; i < timed.n_events; i++) {
        timed.mem->event_destroy(timed.device->handle, timed.call[i].begin);
        timed.mem->event_destroy(timed.device->handle, timed.call[i].end);
    }
    timed.device->ops = timed.real;
    timed.device->mem = timed.mem;
    memset(&timed, 0, sizeof timed);
}
