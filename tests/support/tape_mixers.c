/* Calls of recurrent layers, of experts and of parts of rows, each with arguments of its own. */
#include "support/tape_args.h"

static void call_copy_heads(struct tape_args *a)
{
    const int64_t rows = num(a);
    const int32_t heads = num32(a);
    const int64_t dim = num(a), x_row = num(a), x_head = num(a), y_row = num(a), y_head = num(a);
    const void *x = ptr(a);
    a->ops->copy_heads(&a->ctx, rows, heads, dim, x, x_row, x_head, ptr(a), y_row, y_head);
}

static void call_add_heads(struct tape_args *a)
{
    const int64_t rows = num(a);
    const int32_t heads = num32(a);
    const int64_t dim = num(a), x_row = num(a), x_head = num(a), y_row = num(a), y_head = num(a);
    const void *x = ptr(a);
    a->ops->add_heads(&a->ctx, rows, heads, dim, x, x_row, x_head, ptr(a), y_row, y_head);
}

static void call_scale_rows(struct tape_args *a)
{
    const int64_t rows = num(a), n = num(a);
    const void *x = ptr(a), *weight = ptr(a);
    a->ops->scale_rows(&a->ctx, rows, n, x, weight, ptr(a));
}

static void call_scale_rows_grad(struct tape_args *a)
{
    const int64_t rows = num(a), n = num(a);
    const void *x = ptr(a), *weight = ptr(a), *dy = ptr(a);
    void *dx = ptr(a);
    a->ops->scale_rows_grad(&a->ctx, rows, n, x, weight, dy, dx, ptr(a));
}

static void call_sum_rows(struct tape_args *a)
{
    const int64_t rows = num(a);
    const int32_t terms = num32(a);
    const int64_t n = num(a);
    const void *index = ptr(a), *x = ptr(a), *residual = ptr(a);
    a->ops->sum_rows(&a->ctx, rows, terms, n, index, x, residual, ptr(a));
}

static struct cs_mask_plan documents(struct tape_args *a)
{
    struct cs_mask_plan m = {.n_tokens = num32(a)};
    m.doc = ptr(a);
    m.n_segments = num32(a);
    m.segment = ptr(a);
    return m;
}

static struct cs_delta_shape delta_shape(struct tape_args *a)
{
    struct cs_delta_shape s = {.heads = num32(a)};
    s.key_heads = num32(a);
    s.key_dim = num32(a);
    s.value_dim = num32(a);
    s.q_stride = num(a);
    s.v_stride = num(a);
    s.o_stride = num(a);
    s.eps = real(a);
    return s;
}

static struct cs_delta_in delta_in(struct tape_args *a)
{
    struct cs_delta_in in = {.q = ptr(a)};
    in.k = ptr(a);
    in.v = ptr(a);
    in.g = ptr(a);
    in.beta = ptr(a);
    return in;
}

static void call_delta(struct tape_args *a)
{
    const struct cs_mask_plan m = documents(a);
    const struct cs_delta_shape s = delta_shape(a);
    const struct cs_delta_in in = delta_in(a);
    a->ops->delta(&a->ctx, &s, &m, &in, ptr(a));
}

static void call_delta_grad(struct tape_args *a)
{
    const struct cs_mask_plan m = documents(a);
    const struct cs_delta_shape s = delta_shape(a);
    const struct cs_delta_in in = delta_in(a);
    struct cs_delta_out out = {.dq = ptr(a)};
    out.dk = ptr(a);
    out.dv = ptr(a);
    out.dg = ptr(a);
    out.dbeta = ptr(a);
    a->ops->delta_grad(&a->ctx, &s, &m, &in, ptr(a), &out);
}

static void call_delta_gate(struct tape_args *a)
{
    const int64_t rows = num(a), ld = num(a);
    const int32_t heads = num32(a);
    const void *x = ptr(a), *b = ptr(a), *a_log = ptr(a), *bias = ptr(a);
    float *g = ptr(a);
    a->ops->delta_gate(&a->ctx, rows, heads, x, b, ld, a_log, bias, g, ptr(a));
}

static void call_delta_gate_grad(struct tape_args *a)
{
    const int64_t rows = num(a), ld = num(a), ld_d = num(a);
    const int32_t heads = num32(a);
    const void *x = ptr(a), *b = ptr(a), *a_log = ptr(a), *bias = ptr(a), *dg = ptr(a);
    const void *dbeta = ptr(a);
    void *da = ptr(a), *db = ptr(a), *da_log = ptr(a);
    a->ops->delta_gate_grad(&a->ctx, rows, heads, x, b, ld, a_log, bias, dg, dbeta, da, db, ld_d,
                            da_log, ptr(a));
}

static void call_short_conv(struct tape_args *a)
{
    const struct cs_mask_plan m = documents(a);
    const int64_t channels = num(a), ldx = num(a), ldy = num(a);
    const int32_t taps = num32(a);
    const void *x = ptr(a), *w = ptr(a);
    a->ops->short_conv(&a->ctx, &m, channels, taps, x, ldx, w, ptr(a), ldy);
}

static void call_short_conv_grad(struct tape_args *a)
{
    const struct cs_mask_plan m = documents(a);
    const int64_t channels = num(a), ldx = num(a), ldy = num(a);
    const int32_t taps = num32(a);
    const void *x = ptr(a), *w = ptr(a), *dy = ptr(a);
    void *dx = ptr(a);
    a->ops->short_conv_grad(&a->ctx, &m, channels, taps, x, ldx, w, dy, ldy, dx, ptr(a));
}

static struct cs_moe_shape moe_shape(struct tape_args *a)
{
    struct cs_moe_shape s = {.experts = num32(a)};
    s.top_k = num32(a);
    s.is_normed = num(a) >= 5000;
    s.counted = num(a);
    return s;
}

static struct cs_moe_routes routes(struct tape_args *a)
{
    struct cs_moe_routes r = {.expert = ptr(a)};
    r.place = ptr(a);
    r.token = ptr(a);
    r.first = ptr(a);
    r.weight = ptr(a);
    return r;
}

static void call_moe_route(struct tape_args *a)
{
    const struct cs_moe_shape s = moe_shape(a);
    const struct cs_moe_routes r = routes(a);
    const int64_t rows = num(a);
    a->ops->moe_route(&a->ctx, &s, rows, ptr(a), &r);
}

static void call_moe_load(struct tape_args *a)
{
    const struct cs_moe_shape s = moe_shape(a);
    const struct cs_moe_routes r = routes(a);
    const int64_t rows = num(a);
    const void *logits = ptr(a);
    a->ops->moe_load(&a->ctx, &s, rows, logits, &r, ptr(a));
}

static void call_moe_route_grad(struct tape_args *a)
{
    const struct cs_moe_shape s = moe_shape(a);
    const struct cs_moe_routes r = routes(a);
    const int64_t rows = num(a);
    const void *logits = ptr(a), *dweight = ptr(a);
    const float balance = real(a);
    const int64_t *pairs = ptr(a);
    a->ops->moe_route_grad(&a->ctx, &s, rows, logits, &r, dweight, balance, pairs, ptr(a));
}

static struct cs_moe_groups groups(struct tape_args *a)
{
    struct cs_moe_groups g = {.first = ptr(a)};
    g.experts = num32(a);
    g.places = num(a);
    return g;
}

static void call_moe_linear(struct tape_args *a)
{
    const struct cs_moe_groups g = groups(a);
    const int64_t in = num(a), out = num(a);
    const void *x = ptr(a), *w = ptr(a);
    a->ops->moe_linear(&a->ctx, &g, in, out, x, w, ptr(a));
}

static void call_moe_linear_dgrad(struct tape_args *a)
{
    const struct cs_moe_groups g = groups(a);
    const int64_t in = num(a), out = num(a);
    const void *dy = ptr(a), *w = ptr(a);
    a->ops->moe_linear_dgrad(&a->ctx, &g, in, out, dy, w, ptr(a));
}

static void call_moe_linear_wgrad(struct tape_args *a)
{
    const struct cs_moe_groups g = groups(a);
    const int64_t in = num(a), out = num(a);
    const void *dy = ptr(a), *x = ptr(a);
    a->ops->moe_linear_wgrad(&a->ctx, &g, in, out, dy, x, ptr(a));
}

tape_call *const tape_mixers[TAPE_MIXERS] = {
    call_add_heads,        call_copy_heads,     call_scale_rows,      call_scale_rows_grad,
    call_sum_rows,         call_delta,          call_delta_grad,      call_delta_gate,
    call_delta_gate_grad,  call_short_conv,     call_short_conv_grad, call_moe_route,
    call_moe_load,         call_moe_route_grad, call_moe_linear,      call_moe_linear_dgrad,
    call_moe_linear_wgrad,
};
