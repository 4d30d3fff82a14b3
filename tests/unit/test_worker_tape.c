/* Tapes: every argument of a call is in its key, and a tape plays what was written. */
#include "worker/device/tape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/mask/cells.h"
#include "support/tape_args.h"

static void need(enum cs_status status)
{
    assert_int_equal(status, CS_OK);
}

/* ---- calls; those of mixers: support/tape_mixers.c ---- */

static void call_bias_add(struct tape_args *a)
{
    const int64_t rows = num(a), n = num(a);
    void *y = ptr(a);
    const int64_t ld = num(a);
    a->ops->bias_add(&a->ctx, rows, n, y, ld, ptr(a));
}

static void call_bias_grad(struct tape_args *a)
{
    const int64_t rows = num(a), n = num(a);
    const void *dy = ptr(a);
    const int64_t ld = num(a);
    a->ops->bias_grad(&a->ctx, rows, n, dy, ld, ptr(a));
}

static void call_linear(struct tape_args *a)
{
    const int64_t rows = num(a), in = num(a), out = num(a), ld = num(a);
    const void *x = ptr(a), *w = ptr(a), *b = ptr(a), *r = ptr(a);
    const enum cs_act act = (enum cs_act)num(a);
    void *pre = ptr(a);
    a->ops->linear(&a->ctx, rows, in, out, x, ld, w, b, r, act, pre, ptr(a));
}

static void call_linear_dgrad(struct tape_args *a)
{
    const int64_t rows = num(a), in = num(a), out = num(a);
    const void *dy = ptr(a), *w = ptr(a), *pre = ptr(a);
    const enum cs_act act = (enum cs_act)num(a);
    a->ops->linear_dgrad(&a->ctx, rows, in, out, dy, w, act, pre, ptr(a));
}

static void call_linear_wgrad(struct tape_args *a)
{
    const int64_t rows = num(a), in = num(a), out = num(a);
    const void *dy = ptr(a), *x = ptr(a);
    void *dw = ptr(a);
    a->ops->linear_wgrad(&a->ctx, rows, in, out, dy, x, dw, ptr(a));
}

static void call_norm(struct tape_args *a)
{
    const enum cs_norm kind = (enum cs_norm)num(a);
    const int64_t rows = num(a), n = num(a);
    const float eps = real(a), offset = real(a);
    const void *x = ptr(a), *w = ptr(a), *b = ptr(a);
    void *y = ptr(a);
    a->ops->norm(&a->ctx, kind, rows, n, eps, offset, x, w, b, y, ptr(a));
}

static void call_add_norm(struct tape_args *a)
{
    const enum cs_norm kind = (enum cs_norm)num(a);
    const int64_t rows = num(a), n = num(a);
    const float eps = real(a), offset = real(a);
    const void *x = ptr(a), *b = ptr(a), *w = ptr(a), *bias = ptr(a);
    void *sum = ptr(a), *y = ptr(a);
    a->ops->add_norm(&a->ctx, kind, rows, n, eps, offset, x, b, w, bias, sum, y, ptr(a));
}

static void call_norm_grad(struct tape_args *a)
{
    const enum cs_norm kind = (enum cs_norm)num(a);
    const int64_t rows = num(a), n = num(a);
    const float offset = real(a);
    const void *x = ptr(a), *w = ptr(a), *stat = ptr(a), *dy = ptr(a), *dx_in = ptr(a);
    void *dx = ptr(a), *dw = ptr(a);
    a->ops->norm_grad(&a->ctx, kind, rows, n, offset, x, w, stat, dy, dx_in, dx, dw, ptr(a));
}

/* heads of rows at a distance */
struct heads_args {
    int64_t rows, n;
    int32_t heads;
    float offset;
    const void *x, *w;
    int64_t ld_x;
};

static struct heads_args heads_of(struct tape_args *a)
{
    struct heads_args h = {.rows = num(a)};
    h.heads = num32(a);
    h.n = num(a);
    h.offset = real(a);
    h.x = ptr(a);
    h.ld_x = num(a);
    h.w = ptr(a);
    return h;
}

static void call_norm_heads(struct tape_args *a)
{
    const struct heads_args h = heads_of(a);
    const float eps = real(a);
    struct cs_norm_all all = {.n = num(a)};
    all.sum = ptr(a);
    void *y = ptr(a);
    const int64_t ld_y = num(a);
    a->ops->norm_heads(&a->ctx, h.rows, h.heads, h.n, eps, h.offset, h.x, h.ld_x, h.w, &all, y,
                       ld_y, ptr(a));
}

static void call_norm_heads_grad(struct tape_args *a)
{
    const struct heads_args h = heads_of(a);
    const float *stat = ptr(a);
    struct cs_norm_all all = {.n = num(a)};
    all.sum = ptr(a);
    const void *dy = ptr(a);
    const int64_t ld_dy = num(a);
    void *dx = ptr(a);
    const int64_t ld_dx = num(a);
    const int adds = (int)num(a);
    a->ops->norm_heads_grad(&a->ctx, h.rows, h.heads, h.n, h.offset, h.x, h.ld_x, h.w, stat, &all,
                            dy, ld_dy, dx, ld_dx, adds, ptr(a));
}

static void call_norm_heads_sums(struct tape_args *a)
{
    const struct heads_args h = heads_of(a);
    const float *stat = ptr(a);
    const void *dy = ptr(a);
    const int64_t ld_dy = num(a);
    a->ops->norm_heads_sums(&a->ctx, h.rows, h.heads, h.n, h.offset, h.x, h.ld_x, h.w, stat, dy,
                            ld_dy, ptr(a));
}

static void call_rope(struct tape_args *a)
{
    const int64_t rows = num(a);
    const int32_t heads = num32(a), dim = num32(a), rot = num32(a);
    const int64_t ld = num(a);
    void *x = ptr(a);
    const float *cosine = ptr(a), *sine = ptr(a);
    a->ops->rope(&a->ctx, rows, heads, dim, rot, ld, x, cosine, sine, num32(a));
}

static void call_act(struct tape_args *a)
{
    const enum cs_act kind = (enum cs_act)num(a);
    const int64_t n = num(a);
    const void *x = ptr(a);
    a->ops->act(&a->ctx, kind, n, x, ptr(a));
}

static void call_act_grad(struct tape_args *a)
{
    const enum cs_act kind = (enum cs_act)num(a);
    const int64_t n = num(a);
    const void *x = ptr(a), *dy = ptr(a);
    a->ops->act_grad(&a->ctx, kind, n, x, dy, ptr(a));
}

static void call_gated(struct tape_args *a)
{
    const enum cs_act kind = (enum cs_act)num(a);
    const int64_t rows = num(a), n = num(a), ld = num(a);
    const void *gate = ptr(a), *up = ptr(a);
    a->ops->gated(&a->ctx, kind, rows, n, gate, up, ld, ptr(a));
}

static void call_gated_grad(struct tape_args *a)
{
    const enum cs_act kind = (enum cs_act)num(a);
    const int64_t rows = num(a), n = num(a), ld = num(a), ld_d = num(a);
    const void *gate = ptr(a), *up = ptr(a), *dy = ptr(a);
    void *dgate = ptr(a);
    a->ops->gated_grad(&a->ctx, kind, rows, n, gate, up, ld, dy, dgate, ptr(a), ld_d);
}

static void call_add(struct tape_args *a)
{
    const int64_t n = num(a);
    const void *x = ptr(a), *y = ptr(a);
    a->ops->add(&a->ctx, n, x, y, ptr(a));
}

static void call_embed(struct tape_args *a)
{
    const int64_t rows = num(a), n = num(a);
    const int32_t *ids = ptr(a);
    const void *table = ptr(a);
    const float scale = real(a);
    a->ops->embed(&a->ctx, rows, n, ids, table, scale, ptr(a));
}

static void call_embed_grad(struct tape_args *a)
{
    const int64_t rows = num(a), n = num(a);
    const int32_t *ids = ptr(a);
    const void *dy = ptr(a);
    const float scale = real(a);
    a->ops->embed_grad(&a->ctx, rows, n, ids, dy, scale, ptr(a));
}

static void call_gather_rows(struct tape_args *a)
{
    const int64_t rows = num(a), n = num(a);
    const int32_t *index = ptr(a);
    const void *x = ptr(a);
    a->ops->gather_rows(&a->ctx, rows, n, index, x, ptr(a));
}

static void call_scatter_rows(struct tape_args *a)
{
    const int64_t rows = num(a), n = num(a);
    const int32_t *index = ptr(a);
    const void *x = ptr(a);
    void *y = ptr(a);
    a->ops->scatter_rows(&a->ctx, rows, n, index, x, y, num32(a));
}

static void call_mix_rows(struct tape_args *a)
{
    const int64_t rows = num(a), n = num(a);
    const int32_t *start = ptr(a), *index = ptr(a);
    const float *weight = ptr(a);
    const void *x = ptr(a);
    const int32_t is_added = num32(a);
    a->ops->mix_rows(&a->ctx, rows, n, start, index, weight, x, is_added, ptr(a));
}

static void call_mix_rows_grad(struct tape_args *a)
{
    const int64_t rows = num(a), n = num(a);
    const int32_t *start = ptr(a), *index = ptr(a);
    const float *weight = ptr(a);
    const void *dy = ptr(a);
    a->ops->mix_rows_grad(&a->ctx, rows, n, start, index, weight, dy, ptr(a));
}

static void call_unfold(struct tape_args *a)
{
    const int64_t rows = num(a);
    const int32_t taps = num32(a);
    const int64_t n = num(a);
    const int32_t *index = ptr(a);
    const void *x = ptr(a);
    a->ops->unfold(&a->ctx, rows, taps, n, index, x, ptr(a));
}

static void call_fold(struct tape_args *a)
{
    const int64_t rows = num(a);
    const int32_t taps = num32(a);
    const int64_t n = num(a);
    const int32_t *start = ptr(a), *entry = ptr(a);
    const void *dy = ptr(a);
    a->ops->fold(&a->ctx, rows, taps, n, start, entry, dy, ptr(a));
}

static void call_patches(struct tape_args *a)
{
    const int64_t rows = num(a);
    struct cs_patch_shape shape = {.channels = num32(a)};
    shape.frames = num32(a);
    shape.patch = num32(a);
    shape.is_channels_last = num32(a);
    const struct cs_patch_place *place = ptr(a);
    const uint8_t *pixels = ptr(a);
    const float rescale = real(a), *mean = ptr(a), *std = ptr(a);
    a->ops->patches(&a->ctx, rows, &shape, place, pixels, rescale, mean, std, ptr(a));
}

static struct cs_attention_shape shape(struct tape_args *a)
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

static struct cs_mask_list list(struct tape_args *a)
{
    struct cs_mask_list l = {.n = num32(a)};
    l.stride = num32(a);
    l.count = ptr(a);
    l.entry = ptr(a);
    l.cell = ptr(a);
    l.order = ptr(a);
    return l;
}

static struct cs_mask_cells cells(struct tape_args *a)
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

static struct cs_mask_plan keys(struct tape_args *a)
{
    struct cs_mask_plan k = {.n_tokens = num32(a)};
    k.doc = ptr(a);
    k.pos = ptr(a);
    k.item = ptr(a);
    k.word = ptr(a);
    k.n_segments = num32(a);
    k.segment = ptr(a);
    return k;
}

static struct cs_mask_plan mask(struct tape_args *a, const struct cs_mask_cells *c,
                                const struct cs_mask_plan *k)
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
    m.keys = num(a) >= 5000 ? NULL : k;
    return m;
}

static void call_attention(struct tape_args *a)
{
    const struct cs_attention_shape s = shape(a);
    const struct cs_mask_cells c = cells(a);
    const struct cs_mask_plan own = keys(a), m = mask(a, &c, &own);
    const void *q = ptr(a), *k = ptr(a), *v = ptr(a);
    void *o = ptr(a);
    a->ops->attention(&a->ctx, &s, &m, q, k, v, o, ptr(a));
}

static void call_attention_grad(struct tape_args *a)
{
    const struct cs_attention_shape s = shape(a);
    const struct cs_mask_cells c = cells(a);
    const struct cs_mask_plan own = keys(a), m = mask(a, &c, &own);
    const void *q = ptr(a), *k = ptr(a), *v = ptr(a), *o = ptr(a), *lse = ptr(a), *d_o = ptr(a);
    void *dq = ptr(a), *dk = ptr(a);
    a->ops->attention_grad(&a->ctx, &s, &m, q, k, v, o, lse, d_o, dq, dk, ptr(a));
}

static void call_attention_merge(struct tape_args *a)
{
    const struct cs_attention_shape s = shape(a);
    const int32_t parts = num32(a);
    const int64_t stride = num(a);
    const void *part_o = ptr(a);
    const float *part_lse = ptr(a);
    void *o = ptr(a);
    a->ops->attention_merge(&a->ctx, &s, parts, stride, part_o, part_lse, o, ptr(a));
}

static void call_linear_xent(struct tape_args *a)
{
    const int64_t rows = num(a), in = num(a), vocab = num(a);
    const void *x = ptr(a), *w = ptr(a);
    const int32_t *labels = ptr(a);
    const float softcap = real(a);
    double *loss = ptr(a);
    double *row_loss = ptr(a);
    uint8_t *correct = ptr(a);
    void *dx = ptr(a);
    a->ops->linear_xent(&a->ctx, rows, in, vocab, x, w, labels, softcap, loss, row_loss, correct,
                        dx, ptr(a));
}

static void call_xent_part(struct tape_args *a)
{
    const int64_t rows = num(a), words = num(a);
    const int32_t *labels = ptr(a);
    const float softcap = real(a);
    void *z = ptr(a);
    a->ops->xent_part(&a->ctx, rows, words, labels, softcap, z, ptr(a));
}

static void call_xent_join(struct tape_args *a)
{
    const int64_t rows = num(a);
    const int32_t parts = num32(a);
    const float *stat = ptr(a);
    double *loss = ptr(a), *row_loss = ptr(a);
    uint8_t *correct = ptr(a);
    a->ops->xent_join(&a->ctx, rows, parts, stat, loss, row_loss, correct, ptr(a));
}

static void call_xent_part_grad(struct tape_args *a)
{
    const int64_t rows = num(a), words = num(a);
    const int32_t *labels = ptr(a);
    const float softcap = real(a);
    const float *whole = ptr(a);
    a->ops->xent_part_grad(&a->ctx, rows, words, labels, softcap, whole, ptr(a));
}

static void call_copy(struct tape_args *a)
{
    void *to = ptr(a);
    const void *from = ptr(a);
    need(a->ops->device->copy(a->ctx.handle, NULL, to, from, (size_t)num(a), NULL));
}

static void call_fill(struct tape_args *a)
{
    void *p = ptr(a);
    need(a->ops->device->fill(a->ctx.handle, NULL, p, 0, (size_t)num(a), NULL));
}

/* gradients of another type */
static void call_for_bf16(struct tape_args *a)
{
    a->ctx.grad = num(a) >= 5000 ? CS_GRAD_F32 : CS_GRAD_BF16;
    call_bias_grad(a);
}

static void call_for_new_gradients(struct tape_args *a)
{
    a->ctx.is_grad_new = num(a) >= 5000;
    call_bias_grad(a);
}

static void call_in_another_workspace(struct tape_args *a)
{
    a->ctx.workspace = ptr(a);
    a->ctx.workspace_bytes = (size_t)num(a);
    call_add(a);
}

static tape_call *const calls[] = {
    call_bias_add,
    call_bias_grad,
    call_linear,
    call_linear_dgrad,
    call_linear_wgrad,
    call_norm,
    call_add_norm,
    call_norm_grad,
    call_norm_heads,
    call_norm_heads_grad,
    call_norm_heads_sums,
    call_rope,
    call_act,
    call_act_grad,
    call_gated,
    call_gated_grad,
    call_add,
    call_embed,
    call_embed_grad,
    call_gather_rows,
    call_scatter_rows,
    call_mix_rows,
    call_mix_rows_grad,
    call_unfold,
    call_fold,
    call_patches,
    call_attention,
    call_attention_grad,
    call_attention_merge,
    call_linear_xent,
    call_xent_part,
    call_xent_join,
    call_xent_part_grad,
    call_copy,
    call_fill,
    call_for_bf16,
    call_in_another_workspace,
    call_for_new_gradients,
};

enum { CALLS = CS_ARRAY_LEN(calls) + TAPE_MIXERS };

/* the key of one call; how many arguments it has */
static int key_of(struct cs_tape *tape, size_t call, int other, char key[33])
{
    struct tape_args a = {.ops = &tape->ops, .ctx = cs_tape_ctx(tape), .other = other};
    const struct cs_tape_mark from = cs_tape_mark(tape);
    (call < CS_ARRAY_LEN(calls) ? calls[call] : tape_mixers[call - CS_ARRAY_LEN(calls)])(&a);
    assert_int_equal(cs_tape_mark(tape).n_calls, from.n_calls + 1);
    cs_tape_hash(tape, from, cs_tape_mark(tape), key);
    return a.n;
}

static void every_argument_is_in_the_key(void **state)
{
    struct cs_device host;
    struct cs_tape tape;
    char keys[CALLS][33];
    (void)state;
    cs_device_cpu(&host);
    cs_tape_open(&tape, &host);
    for (size_t c = 0; c < CALLS; c++) {
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
    for (size_t c = 0; c < CALLS; c++)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_argument_is_in_the_key),
        cmocka_unit_test(a_tape_plays_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
