/* Tapes and graphs: every argument of a call is in its key, a tape plays what was written, and
 * training with graphs gives the bits of training without them. On a device that keeps its memory
 * on the host and captures (support/lazy_device.h); training also on what CORNSTARCH_TEST_DEVICE
 * names. */
#include "worker/graphs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/mask/cells.h"
#include "support/device.h"
#include "support/lazy_device.h"
#include "support/spec.h"
#include "support/step.h"
#include "worker/tape.h"
#include "worker/trainer.h"

static void need(enum cs_status status, const struct cs_err *err)
{
    if (status != CS_OK)
        fail_msg("%s: %s", cs_status_slug(status), err->text);
}

/* ---- calls: argument i is the number 1000 + i, one of them another ---- */

struct args {
    const struct cs_ops *ops;
    struct cs_ctx ctx;
    int other; /* argument that differs, -1: none */
    int n;     /* arguments so far */
};

static int64_t num(struct args *a)
{
    const int i = a->n++;
    return 1000 + i + (i == a->other ? 5000 : 0);
}

static int32_t num32(struct args *a)
{
    return (int32_t)num(a);
}

static void *ptr(struct args *a)
{
    return (void *)(uintptr_t)(num(a) * 16);
}

static float real(struct args *a)
{
    return (float)num(a) + 0.25f;
}

static void call_bias_add(struct args *a)
{
    const int64_t rows = num(a), n = num(a);
    void *y = ptr(a);
    const int64_t ld = num(a);
    a->ops->bias_add(&a->ctx, rows, n, y, ld, ptr(a));
}

static void call_bias_grad(struct args *a)
{
    const int64_t rows = num(a), n = num(a);
    const void *dy = ptr(a);
    const int64_t ld = num(a);
    a->ops->bias_grad(&a->ctx, rows, n, dy, ld, ptr(a));
}

static void call_linear(struct args *a)
{
    const int64_t rows = num(a), in = num(a), out = num(a), ld = num(a);
    const void *x = ptr(a), *w = ptr(a), *b = ptr(a), *r = ptr(a);
    const enum cs_act act = (enum cs_act)num(a);
    void *pre = ptr(a);
    a->ops->linear(&a->ctx, rows, in, out, x, ld, w, b, r, act, pre, ptr(a));
}

static void call_linear_dgrad(struct args *a)
{
    const int64_t rows = num(a), in = num(a), out = num(a);
    const void *dy = ptr(a), *w = ptr(a), *pre = ptr(a);
    const enum cs_act act = (enum cs_act)num(a);
    a->ops->linear_dgrad(&a->ctx, rows, in, out, dy, w, act, pre, ptr(a));
}

static void call_linear_wgrad(struct args *a)
{
    const int64_t rows = num(a), in = num(a), out = num(a);
    const void *dy = ptr(a), *x = ptr(a);
    void *dw = ptr(a);
    a->ops->linear_wgrad(&a->ctx, rows, in, out, dy, x, dw, ptr(a));
}

static void call_norm(struct args *a)
{
    const enum cs_norm kind = (enum cs_norm)num(a);
    const int64_t rows = num(a), n = num(a);
    const float eps = real(a), offset = real(a);
    const void *x = ptr(a), *w = ptr(a), *b = ptr(a);
    void *y = ptr(a);
    a->ops->norm(&a->ctx, kind, rows, n, eps, offset, x, w, b, y, ptr(a));
}

static void call_add_norm(struct args *a)
{
    const enum cs_norm kind = (enum cs_norm)num(a);
    const int64_t rows = num(a), n = num(a);
    const float eps = real(a), offset = real(a);
    const void *x = ptr(a), *b = ptr(a), *w = ptr(a), *bias = ptr(a);
    void *sum = ptr(a), *y = ptr(a);
    a->ops->add_norm(&a->ctx, kind, rows, n, eps, offset, x, b, w, bias, sum, y, ptr(a));
}

static void call_norm_grad(struct args *a)
{
    const enum cs_norm kind = (enum cs_norm)num(a);
    const int64_t rows = num(a), n = num(a);
    const float offset = real(a);
    const void *x = ptr(a), *w = ptr(a), *stat = ptr(a), *dy = ptr(a), *dx_in = ptr(a);
    void *dx = ptr(a), *dw = ptr(a);
    a->ops->norm_grad(&a->ctx, kind, rows, n, offset, x, w, stat, dy, dx_in, dx, dw, ptr(a));
}

static void call_rope(struct args *a)
{
    const int64_t rows = num(a);
    const int32_t heads = num32(a), dim = num32(a), rot = num32(a);
    const int64_t ld = num(a);
    void *x = ptr(a);
    const float *cosine = ptr(a), *sine = ptr(a);
    a->ops->rope(&a->ctx, rows, heads, dim, rot, ld, x, cosine, sine, num32(a));
}

static void call_act(struct args *a)
{
    const enum cs_act kind = (enum cs_act)num(a);
    const int64_t n = num(a);
    const void *x = ptr(a);
    a->ops->act(&a->ctx, kind, n, x, ptr(a));
}

static void call_act_grad(struct args *a)
{
    const enum cs_act kind = (enum cs_act)num(a);
    const int64_t n = num(a);
    const void *x = ptr(a), *dy = ptr(a);
    a->ops->act_grad(&a->ctx, kind, n, x, dy, ptr(a));
}

static void call_gated(struct args *a)
{
    const enum cs_act kind = (enum cs_act)num(a);
    const int64_t rows = num(a), n = num(a), ld = num(a);
    const void *gate = ptr(a), *up = ptr(a);
    a->ops->gated(&a->ctx, kind, rows, n, gate, up, ld, ptr(a));
}

static void call_gated_grad(struct args *a)
{
    const enum cs_act kind = (enum cs_act)num(a);
    const int64_t rows = num(a), n = num(a), ld = num(a), ld_d = num(a);
    const void *gate = ptr(a), *up = ptr(a), *dy = ptr(a);
    void *dgate = ptr(a);
    a->ops->gated_grad(&a->ctx, kind, rows, n, gate, up, ld, dy, dgate, ptr(a), ld_d);
}

static void call_add(struct args *a)
{
    const int64_t n = num(a);
    const void *x = ptr(a), *y = ptr(a);
    a->ops->add(&a->ctx, n, x, y, ptr(a));
}

static void call_embed(struct args *a)
{
    const int64_t rows = num(a), n = num(a);
    const int32_t *ids = ptr(a);
    const void *table = ptr(a);
    const float scale = real(a);
    a->ops->embed(&a->ctx, rows, n, ids, table, scale, ptr(a));
}

static void call_embed_grad(struct args *a)
{
    const int64_t rows = num(a), n = num(a);
    const int32_t *ids = ptr(a);
    const void *dy = ptr(a);
    const float scale = real(a);
    a->ops->embed_grad(&a->ctx, rows, n, ids, dy, scale, ptr(a));
}

static void call_gather_rows(struct args *a)
{
    const int64_t rows = num(a), n = num(a);
    const int32_t *index = ptr(a);
    const void *x = ptr(a);
    a->ops->gather_rows(&a->ctx, rows, n, index, x, ptr(a));
}

static void call_scatter_rows(struct args *a)
{
    const int64_t rows = num(a), n = num(a);
    const int32_t *index = ptr(a);
    const void *x = ptr(a);
    void *y = ptr(a);
    a->ops->scatter_rows(&a->ctx, rows, n, index, x, y, num32(a));
}

static void call_patches(struct args *a)
{
    const int32_t items = num32(a), height = num32(a), width = num32(a), channels = num32(a);
    const int32_t patch = num32(a);
    const uint8_t *pixels = ptr(a);
    const float rescale = real(a), *mean = ptr(a), *std = ptr(a);
    a->ops->patches(&a->ctx, items, height, width, channels, patch, pixels, rescale, mean, std,
                    ptr(a));
}

static struct cs_attention_shape shape(struct args *a)
{
    struct cs_attention_shape s = {.tokens = num32(a)};
    s.heads = num32(a);
    s.kv_heads = num32(a);
    s.head_dim = num32(a);
    s.k_tokens = num32(a);
    s.q_stride = num32(a);
    s.kv_stride = num32(a);
    s.o_stride = num32(a);
    s.scale = real(a);
    s.softcap = real(a);
    s.sink = ptr(a);
    s.dsink = ptr(a);
    s.is_deterministic = num(a) >= 5000;
    return s;
}

static struct cs_mask_list list(struct args *a)
{
    struct cs_mask_list l = {.n = num32(a)};
    l.stride = num32(a);
    l.count = ptr(a);
    l.entry = ptr(a);
    l.cell = ptr(a);
    l.order = ptr(a);
    return l;
}

static struct cs_mask_cells cells(struct args *a)
{
    struct cs_mask_cells c = {.n_q = num32(a)};
    c.n_k = num32(a);
    c.q_row = ptr(a);
    c.k_row = ptr(a);
    c.by_q = list(a);
    c.by_k = list(a);
    c.bits_q = ptr(a);
    c.bits_k = ptr(a);
    c.bitmap_room = num32(a);
    c.n_bitmaps = ptr(a);
    c.pairs = ptr(a);
    return c;
}

static struct cs_mask_plan mask(struct args *a, const struct cs_mask_cells *c)
{
    struct cs_mask_plan m = {.rule = {.kind = (enum cs_mask_kind)num(a)}};
    m.rule.window = num32(a);
    m.rule.prefix = num32(a);
    m.n_tokens = num32(a);
    m.doc = ptr(a);
    m.pos = ptr(a);
    m.item = ptr(a);
    m.word = ptr(a);
    m.n_segments = num32(a);
    m.segment = ptr(a);
    m.cells = num(a) >= 5000 ? NULL : c;
    return m;
}

static void call_attention(struct args *a)
{
    const struct cs_attention_shape s = shape(a);
    const struct cs_mask_cells c = cells(a);
    const struct cs_mask_plan m = mask(a, &c);
    const void *q = ptr(a), *k = ptr(a), *v = ptr(a);
    void *o = ptr(a);
    a->ops->attention(&a->ctx, &s, &m, q, k, v, o, ptr(a));
}

static void call_attention_grad(struct args *a)
{
    const struct cs_attention_shape s = shape(a);
    const struct cs_mask_cells c = cells(a);
    const struct cs_mask_plan m = mask(a, &c);
    const void *q = ptr(a), *k = ptr(a), *v = ptr(a), *o = ptr(a), *lse = ptr(a), *d_o = ptr(a);
    void *dq = ptr(a), *dk = ptr(a);
    a->ops->attention_grad(&a->ctx, &s, &m, q, k, v, o, lse, d_o, dq, dk, ptr(a));
}

static void call_linear_xent(struct args *a)
{
    const int64_t rows = num(a), in = num(a), vocab = num(a);
    const void *x = ptr(a), *w = ptr(a);
    const int32_t *labels = ptr(a);
    const float softcap = real(a);
    double *loss = ptr(a);
    uint8_t *correct = ptr(a);
    void *dx = ptr(a);
    a->ops->linear_xent(&a->ctx, rows, in, vocab, x, w, labels, softcap, loss, correct, dx, ptr(a));
}

static void call_copy(struct args *a)
{
    void *to = ptr(a);
    const void *from = ptr(a);
    need(a->ops->device->copy(a->ctx.handle, NULL, to, from, (size_t)num(a), NULL), NULL);
}

static void call_fill(struct args *a)
{
    void *p = ptr(a);
    need(a->ops->device->fill(a->ctx.handle, NULL, p, 0, (size_t)num(a), NULL), NULL);
}

/* gradients of another type */
static void call_for_bf16(struct args *a)
{
    a->ctx.grad = num(a) >= 5000 ? CS_GRAD_F32 : CS_GRAD_BF16;
    call_bias_grad(a);
}

static void call_in_another_workspace(struct args *a)
{
    a->ctx.workspace = ptr(a);
    a->ctx.workspace_bytes = (size_t)num(a);
    call_add(a);
}

static void (*const calls[])(struct args *) = {
    call_bias_add,       call_bias_grad,
    call_linear,         call_linear_dgrad,
    call_linear_wgrad,   call_norm,
    call_add_norm,       call_norm_grad,
    call_rope,           call_act,
    call_act_grad,       call_gated,
    call_gated_grad,     call_add,
    call_embed,          call_embed_grad,
    call_gather_rows,    call_scatter_rows,
    call_patches,        call_attention,
    call_attention_grad, call_linear_xent,
    call_copy,           call_fill,
    call_for_bf16,       call_in_another_workspace,
};

/* the key of one call; how many arguments it has */
static int key_of(struct cs_tape *tape, size_t call, int other, char key[33])
{
    struct args a = {.ops = &tape->ops, .ctx = cs_tape_ctx(tape), .other = other};
    const struct cs_tape_mark from = cs_tape_mark(tape);
    calls[call](&a);
    assert_int_equal(cs_tape_mark(tape).n_calls, from.n_calls + 1);
    cs_tape_hash(tape, from, cs_tape_mark(tape), key);
    return a.n;
}

static void every_argument_is_in_the_key(void **state)
{
    struct cs_device host;
    struct cs_tape tape;
    char keys[CS_ARRAY_LEN(calls)][33];
    (void)state;
    cs_device_cpu(&host);
    cs_tape_open(&tape, &host);
    for (size_t c = 0; c < CS_ARRAY_LEN(calls); c++) {
        char again[33], other[33];
        const int n = key_of(&tape, c, -1, keys[c]);
        key_of(&tape, c, -1, again);
        assert_string_equal(keys[c], again);
        for (int i = 0; i < n; i++) {
            key_of(&tape, c, i, other);
            if (strcmp(keys[c], other) == 0)
                fail_msg("call %zu: argument %d is not in the key", c, i);
        }
        for (size_t before = 0; before < c; before++)
            assert_string_not_equal(keys[before], keys[c]);
    }
    cs_tape_close(&tape);
}

/* played on another tape it is the same tape */
static void a_tape_plays_what_was_written(void **state)
{
    struct cs_device host;
    struct cs_tape second, first;
    char a[33], b[33];
    const struct cs_tape_mark start = {0, 0};
    (void)state;
    cs_device_cpu(&host);
    cs_tape_open(&second, &host);
    cs_tape_open(&first, &second.recorder);
    for (size_t c = 0; c < CS_ARRAY_LEN(calls); c++)
        key_of(&first, c, -1, a);
    cs_tape_hash(&first, start, cs_tape_mark(&first), a);
    cs_tape_play(&first, start, cs_tape_mark(&first));
    cs_tape_hash(&second, start, cs_tape_mark(&second), b);
    assert_int_equal(first.n_calls, second.n_calls);
    assert_string_equal(a, b);
    cs_tape_clear(&second);
    assert_int_equal(cs_tape_mark(&second).word, 0);
    cs_tape_close(&first);
    cs_tape_close(&second);
}

/* ---- which pieces become graphs ---- */

enum { N = 64 };

struct bench {
    struct cs_device *device;
    struct cs_graphs *graphs;
    struct cs_graph graph;
    float *x, *one; /* x: sums, one: ones */
    uint32_t action;
};

static void open_bench(struct bench *b, enum cs_graphs_mode mode)
{
    struct cs_err err = {0};
    float ones[N];
    void *p;
    *b = (struct bench){.device = cs_lazy_device_new()};
    need(cs_graphs_new(b->device, &b->graph, mode, &b->graphs, &err), &err);
    need(cs_device_alloc(b->device, sizeof ones, &p, &err), &err);
    b->x = p;
    need(cs_device_alloc(b->device, sizeof ones, &p, &err), &err);
    b->one = p;
    for (int i = 0; i < N; i++)
        ones[i] = 1.0f;
    cs_device_copy(b->device, b->one, ones, sizeof ones);
    cs_device_zero(b->device, b->x, sizeof ones);
}

static void close_bench(struct bench *b)
{
    const struct cs_graphs_counts c = cs_graphs_counts(b->graphs);
    cs_graphs_free(b->graphs);
    assert_int_equal(cs_lazy_device_counts(b->device).destroyed, c.captures);
    cs_device_free(b->device, b->x, N * sizeof(float));
    cs_device_free(b->device, b->one, N * sizeof(float));
    cs_lazy_device_free(b->device);
}

/* an action of n_calls calls: adds 1 to the first n numbers, each time */
static void act_on(struct bench *b, int n, int n_calls)
{
    struct cs_ctx ctx = cs_device_ctx(b->device);
    struct cs_run run = {.device = b->device, .ops = b->device->ops, .ctx = &ctx};
    cs_graphs_open(b->graphs, &run);
    for (int i = 0; i < n_calls; i++)
        run.ops->add(run.ctx, n, b->x, b->one, b->x);
    cs_graphs_close(b->graphs, b->action++);
}

static float first(struct bench *b)
{
    struct cs_err err = {0};
    float x[N];
    need(cs_device_read(b->device, x, b->x, sizeof x, &err), &err);
    return x[0];
}

/* answers all questions of a step */
static int tell(struct bench *b, int64_t device_ns)
{
    int n = 0;
    while (cs_graphs_asks(b->graphs, (uint32_t)n) != UINT32_MAX)
        cs_graphs_tell(b->graphs, (uint32_t)n++, device_ns);
    cs_graphs_begin(b->graphs);
    return n;
}

static void always_captures_what_it_has_seen(void **state)
{
    struct bench b;
    (void)state;
    open_bench(&b, CS_GRAPHS_ALWAYS);
    for (int i = 0; i < 6; i++) {
        cs_graphs_begin(b.graphs);
        act_on(&b, N, 3);
        act_on(&b, N - 1, 1); /* another key */
    }
    assert_true(first(&b) == 24.0f);
    const struct cs_graphs_counts c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, 2);
    assert_int_equal(c.replays, 8);
    assert_int_equal(c.replayed_calls, 16);
    assert_int_equal(c.pieces, 12);
    assert_int_equal(c.calls, 24);
    assert_int_equal(c.known, 10);
    assert_int_equal(cs_lazy_device_counts(b.device).launched, 8);
    assert_int_equal(tell(&b, 1), 0); /* nothing to ask */
    close_bench(&b);
}

static void auto_captures_what_launching_holds_up(void **state)
{
    struct bench b;
    (void)state;
    open_bench(&b, CS_GRAPHS_AUTO);
    act_on(&b, N, 6);
    assert_int_equal(tell(&b, 1), 0); /* the first time says nothing: it loads kernels */
    act_on(&b, N, 6);
    assert_int_equal(tell(&b, INT64_MAX / 4), 1); /* the device takes much longer: no */
    act_on(&b, N, 6);
    assert_int_equal(cs_graphs_counts(b.graphs).captures, 0);
    assert_int_equal(tell(&b, 1), 1); /* it is done at once: yes */
    act_on(&b, N, 6);
    act_on(&b, N, 6);
    assert_int_equal(cs_graphs_counts(b.graphs).captures, 0); /* not before the next step */
    assert_int_equal(tell(&b, INT64_MAX / 4), 0); /* what is to be a graph is not asked about */
    for (int i = 0; i < 3; i++)
        act_on(&b, N, 6);
    assert_int_equal(tell(&b, INT64_MAX / 4), 0);
    for (int i = 0; i < 4; i++) {
        act_on(&b, N, 2); /* too few for a graph */
        assert_int_equal(tell(&b, 1), 0);
    }
    assert_true(first(&b) == 8 * 6.0f + 8.0f);
    const struct cs_graphs_counts c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, 1);
    assert_int_equal(c.replays, 3);
    close_bench(&b);
}

static void a_capture_that_fails_harms_nothing(void **state)
{
    struct bench b;
    (void)state;
    open_bench(&b, CS_GRAPHS_ALWAYS);
    act_on(&b, N, 3);
    act_on(&b, N, 3);
    cs_graphs_begin(b.graphs);
    cs_lazy_device_refuse_graphs(b.device);
    for (int i = 0; i < 4; i++) {
        act_on(&b, N, 3); /* captured before */
        act_on(&b, N, 5);
        cs_graphs_begin(b.graphs);
    }
    struct cs_err err = {0};
    need(cs_device_sync(b.device, &err), &err);
    assert_true(first(&b) == 6 * 3.0f + 4 * 5.0f);
    const struct cs_graphs_counts c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, 1);
    assert_int_equal(c.failures, 1); /* not tried again */
    assert_int_equal(c.replays, 4);
    close_bench(&b);
}

static void graphs_and_keys_are_bounded(void **state)
{
    struct bench b;
    float sum = 0;
    (void)state;
    open_bench(&b, CS_GRAPHS_ALWAYS);
    for (int round = 0; round < 6; round++) /* more than there is room for, in turn */
        for (int i = 1; i <= CS_GRAPHS_MAX + 40; i++) {
            act_on(&b, N, i);
            sum += (float)i;
            if (i % CS_GRAPHS_MAX_NEW == 0)
                cs_graphs_begin(b.graphs);
        }
    struct cs_graphs_counts c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, CS_GRAPHS_MAX); /* those that came first stay */
    assert_int_equal(c.dropped, 0);
    assert_true(c.replays >= 3 * CS_GRAPHS_MAX);
    for (int i = 0; i <= CS_GRAPHS_STALE; i++)
        cs_graphs_begin(b.graphs);
    for (int i = 0; i < 3; i++) { /* nobody used them: they go, as many as are needed */
        for (int k = 31; k <= 40; k++) {
            act_on(&b, N, CS_GRAPHS_MAX + k);
            sum += (float)(CS_GRAPHS_MAX + k);
        }
        cs_graphs_begin(b.graphs);
    }
    c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, CS_GRAPHS_MAX + 10);
    assert_int_equal(c.dropped, 10);
    assert_int_equal(cs_lazy_device_counts(b.device).destroyed, c.dropped);
    assert_true(first(&b) == sum);
    for (int i = 1; i <= CS_GRAPHS_MAX_KEYS;
         i++) { /* keys that are seen once push all others out */
        struct cs_ctx ctx = cs_device_ctx(b.device);
        struct cs_run run = {.device = b.device, .ops = b.device->ops, .ctx = &ctx};
        cs_graphs_open(b.graphs, &run);
        run.ops->add(run.ctx, 1, b.x, b.one, b.x);
        for (int k = 0; k < 10; k++)
            run.ops->add(run.ctx, (i >> k & 1) + 1, b.x, b.one, b.x);
        cs_graphs_close(b.graphs, 0);
        sum += 11;
    }
    c = cs_graphs_counts(b.graphs);
    assert_int_equal(c.captures, c.dropped);
    assert_true(first(&b) == sum);
    act_on(&b, N, 1); /* forgotten: seen for the first time */
    assert_int_equal(cs_graphs_counts(b.graphs).known, c.known);
    close_bench(&b);
}

static void names_of_modes_are_checked(void **state)
{
    enum cs_graphs_mode mode;
    struct cs_graphs *graphs;
    struct cs_device host;
    (void)state;
    assert_true(cs_graphs_mode_named(NULL, &mode) && mode == CS_GRAPHS_AUTO);
    assert_true(cs_graphs_mode_named("off", &mode) && mode == CS_GRAPHS_OFF);
    assert_true(cs_graphs_mode_named("always", &mode) && mode == CS_GRAPHS_ALWAYS);
    assert_true(cs_graphs_mode_named("auto", &mode) && mode == CS_GRAPHS_AUTO);
    assert_false(cs_graphs_mode_named("on", &mode));
    cs_device_cpu(&host); /* the host has none */
    need(cs_graphs_new(&host, NULL, CS_GRAPHS_ALWAYS, &graphs, NULL), NULL);
    assert_null(graphs);
    cs_graphs_begin(graphs);
    cs_graphs_close(graphs, 0);
    assert_int_equal(cs_graphs_asks(graphs, 0), UINT32_MAX);
    assert_int_equal(cs_graphs_counts(graphs).pieces, 0);
    cs_graphs_free(graphs);
}

/* ---- training ---- */

enum { STEPS = 14, KINDS_OF_STEPS = 2, SLOTS = 3, MAX_PARAMS = 256 };

struct outcome {
    double loss[STEPS], norm[STEPS], eval_loss;
    int64_t exact;
    char hash[MAX_PARAMS][33];
    int n_params;
    struct cs_graphs_counts graphs;
};

static void train(struct cs_trainer *t, const struct cs_plan *plan, struct outcome *o)
{
    struct cs_err err = {0};
    struct cs_test_step step[KINDS_OF_STEPS];
    struct cs_step_result result;
    need(cs_params_load(t->params, 9, &err), &err);
    for (int k = 0; k < KINDS_OF_STEPS; k++) {
        cs_test_step_new(&step[k], &plan->budget, SLOTS, 0);
        cs_test_step_random(&step[k], (uint64_t)k + 5, 199, k == 1 ? 0 : 60);
    }
    for (int s = 0; s < STEPS; s++) {
        struct cs_test_step *now = &step[s % KINDS_OF_STEPS];
        now->manifest.step = s;
        need(cs_trainer_step(t, &now->manifest, now->slot, NULL, &result, &err), &err);
        o->loss[s] = result.loss_sum;
        o->norm[s] = result.grad_norm;
        assert_true(isfinite(o->loss[s]) && o->loss[s] > 0 && isfinite(o->norm[s]));
    }
    step[0].manifest.kind = CS_STEP_EVAL;
    need(cs_trainer_step(t, &step[0].manifest, step[0].slot, NULL, &result, &err), &err);
    o->eval_loss = result.loss_sum;
    o->exact = result.n_exact;
    for (int32_t i = 0; i < t->params->n; i++)
        if (t->params->tensor[i].is_counted)
            need(cs_params_hash(t->params, &t->params->tensor[i],
                                o->hash[t->params->tensor[i].param->id], &err),
                 &err);
    o->graphs = cs_exec_graphs(t->exec);
    for (int k = 0; k < KINDS_OF_STEPS; k++)
        cs_test_step_free(&step[k]);
}

static bool has_gpu(void)
{
    return cs_test_device()->mem != NULL;
}

/* mode NULL: on the host */
static void run_job(const struct cs_test_spec *options, const char *mode, bool refuses,
                    struct outcome *o)
{
    struct cs_err err = {0};
    struct cs_cluster cluster;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    struct cs_trainer *t;
    struct cs_device host, *device = mode == NULL ? &host
                                     : has_gpu()  ? cs_test_device()
                                                  : cs_lazy_device_new();
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root = cs_test_spec_json(options);
    memset(o, 0, sizeof *o);
    cs_device_cpu(&host);
    need(cs_spec_read(root, arena, &spec, &err), &err);
    need(cs_graph_build(spec, false, arena, &graph, &err), &err);
    need(cs_cluster_read(spec->cluster, 0, &cluster, &err), &err);
    need(cs_plan_make(spec, graph, &cluster, arena, &plan, &err), &err);
    for (int s = 0; s < plan->n_stages; s++)
        plan->stages[s].rank = 0;
    plan->n_ranks = 1;
    o->n_params = graph->n_params;
    assert_true(o->n_params <= MAX_PARAMS);
    const struct cs_trainer_config config = {
        .spec = spec, .graph = graph, .plan = plan, .device = device};
    if (mode != NULL) {
        setenv("CORNSTARCH_GRAPHS", mode, 1);
        if (refuses)
            cs_lazy_device_refuse_graphs(device);
    }
    need(cs_trainer_new(&config, &t, &err), &err);
    train(t, plan, o);
    cs_trainer_free(t);
    if (mode != NULL && !has_gpu())
        cs_lazy_device_free(device);
    json_decref(root);
    cs_arena_free(arena);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
    assert_memory_equal(a->loss, b->loss, sizeof a->loss);
    assert_memory_equal(a->norm, b->norm, sizeof a->norm);
    assert_memory_equal(&a->eval_loss, &b->eval_loss, sizeof a->eval_loss);
    assert_int_equal(a->exact, b->exact);
    for (int i = 0; i < a->n_params; i++) {
        assert_int_equal(strlen(a->hash[i]), 32);
        assert_string_equal(a->hash[i], b->hash[i]);
    }
}

static const struct cs_test_spec whole = {.seed = 3};
static const struct cs_test_spec tied = {
    .seed = 3, .is_tied = true, .is_qwen2 = true, .recompute = "selective"};
static const struct cs_test_spec redone = {.seed = 4, .recompute = "full", .llm_pp = 2};
static const struct cs_test_spec split = {
    .seed = 5, .schedule = "zb-h1", .vision_pp = 2, .llm_pp = 3};
static const struct cs_test_spec projector = {
    .seed = 6, .rules = "train:vision.projector", .n_encoders = 2};
static const struct cs_test_spec frozen = {
    .seed = 7, .rules = "train:* freeze:vision.encoder*", .llm_pp = 2};
static const struct cs_test_spec *const jobs[] = {&whole, &tied,      &redone,
                                                  &split, &projector, &frozen};

static void graphs_change_no_bit(void **state)
{
    static struct outcome off, always, on;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(jobs); i++) {
        run_job(jobs[i], "off", false, &off);
        run_job(jobs[i], "always", false, &always);
        run_job(jobs[i], "auto", false, &on);
        assert_int_equal(off.graphs.pieces, 0);
        assert_same(&off, &always);
        assert_same(&off, &on);
        /* of every kind of step the first is written down, the second captured after it */
        assert_true(always.graphs.failures == 0);
        assert_true(always.graphs.replayed_calls > always.graphs.calls / 2);
        assert_true(on.graphs.calls == always.graphs.calls);
    }
}

static void training_goes_on_where_nothing_can_be_captured(void **state)
{
    static struct outcome off, refused;
    (void)state;
    if (has_gpu())
        skip(); /* it captures */
    run_job(&whole, "off", false, &off);
    run_job(&whole, "always", true, &refused);
    assert_same(&off, &refused);
    assert_int_equal(refused.graphs.replays, 0);
    assert_true(refused.graphs.failures > 0);
}

/* Rows are rounded up on a device: sums of other lengths, in the same order. bf16 sees the same
 * losses, roughly. */
static void a_device_agrees_with_the_host(void **state)
{
    static struct outcome host, device;
    const double allowed = cs_device_is_f32(cs_test_device()) ? 1e-3 : 0.1;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(jobs); i++) {
        run_job(jobs[i], NULL, false, &host);
        run_job(jobs[i], "always", false, &device);
        for (int s = 0; s < STEPS; s++) {
            assert_true(fabs(host.loss[s] - device.loss[s]) <= allowed * host.loss[s]);
            if (cs_device_is_f32(cs_test_device()))
                assert_true(fabs(host.norm[s] - device.norm[s]) <= 1e-2 * host.norm[s]);
        }
        assert_true(fabs(host.eval_loss - device.eval_loss) <= 10 * allowed * host.eval_loss);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_argument_is_in_the_key),
        cmocka_unit_test(a_tape_plays_what_was_written),
        cmocka_unit_test(always_captures_what_it_has_seen),
        cmocka_unit_test(auto_captures_what_launching_holds_up),
        cmocka_unit_test(a_capture_that_fails_harms_nothing),
        cmocka_unit_test(graphs_and_keys_are_bounded),
        cmocka_unit_test(names_of_modes_are_checked),
        cmocka_unit_test(graphs_change_no_bit),
        cmocka_unit_test(training_goes_on_where_nothing_can_be_captured),
        cmocka_unit_test(a_device_agrees_with_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
