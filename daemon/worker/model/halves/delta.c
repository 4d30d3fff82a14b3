/* The gated delta rule as the mixer of a block: out(norm(rule(conv(qkv h))) silu(z h)). What a row
 * needs of its own (queries, keys, values, gate, strengths, decays) is one product over neighbouring
 * weights. Between that product and the rule's output nothing is kept: the convolution and the gates
 * are made again for the backward, as the states are by the rule itself. */
#include "worker/layer/tensors.h"
#include "worker/model/halves/delta_part.h"
#include "worker/model/halves/halves.h"

struct dims {
    int64_t width, key, value, conv, product; /* columns */
    int64_t heads;
    int64_t z, b, a; /* first columns in the product, behind q, k and v */
};

static struct dims dims_of(const struct cs_layer_model *l)
{
    const struct cs_recurrent *r = &l->arch->recurrent;
    const int64_t conv = cs_recurrent_conv_width(r), value = cs_recurrent_value_width(r);
    return (struct dims){.width = l->arch->width,
                         .key = cs_recurrent_key_width(r),
                         .value = value,
                         .conv = conv,
                         .product = cs_recurrent_product_width(r),
                         .heads = r->n_heads,
                         .z = conv,
                         .b = conv + value,
                         .a = conv + value + r->n_heads};
}

static struct cs_delta_shape shape_of(const struct cs_layer_model *l)
{
    const struct cs_recurrent *r = &l->arch->recurrent;
    const struct dims d = dims_of(l);
    return (struct cs_delta_shape){.heads = r->n_heads,
                                   .key_heads = r->n_key_heads,
                                   .key_dim = r->key_dim,
                                   .value_dim = r->value_dim,
                                   .q_stride = d.conv,
                                   .v_stride = d.conv,
                                   .o_stride = d.value,
                                   .eps = 1e-6f};
}

/* What the rule reads, from kept->qkv (rows, product). */
struct rows_in {
    struct cs_delta_rows conv; /* what the convolution read */
    void *qkv;                 /* (rows, conv) after it */
    float *g, *beta;
};

static struct rows_in inputs_of(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                                const struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    struct rows_in in = {.conv = cs_delta_widen(run, rows, d.conv, kept->qkv, d.product),
                         .g = cs_scratch_floats(run->scratch, rows * d.heads),
                         .beta = cs_scratch_floats(run->scratch, rows * d.heads)};
    void *made = cs_run_take(run, (rows + in.conv.halo) * d.conv);
    run->ops->short_conv(run->ctx, in.conv.mask, d.conv, l->arch->recurrent.taps, in.conv.x,
                         in.conv.ld, cs_weight(l, CS_PARAM_CONV_W)->w, made, d.conv);
    in.qkv = cs_run_at(run, made, in.conv.halo * d.conv);
    run->ops->delta_gate(run->ctx, rows, (int32_t)d.heads, cs_run_at(run, kept->qkv, d.a),
                         cs_run_at(run, kept->qkv, d.b), d.product, cs_weight(l, CS_PARAM_A_LOG)->w,
                         cs_weight(l, CS_PARAM_DT_BIAS)->w, in.g, in.beta);
    return in;
}

static struct cs_delta_in operands(const struct cs_run *run, const struct dims *d,
                                   const struct rows_in *in)
{
    return (struct cs_delta_in){.q = in->qkv,
                                .k = cs_run_at(run, in->qkv, d->key),
                                .v = cs_run_at(run, in->qkv, 2 * d->key),
                                .g = in->g,
                                .beta = in->beta};
}

/* o (rows, value) of the rule; rows of a part of a document begin with the state of those before */
static void rule(struct cs_run *run, const struct cs_delta_shape *shape,
                 const struct cs_delta_in *in, void *o)
{
    const struct cs_mask_plan *mask = cs_delta_mask(run);
    struct cs_delta_ends ends;
    cs_delta_ends(run, shape, in, NULL, &ends);
    struct cs_ctx ctx = cs_run_delta_ctx(run, shape, mask);
    if (ends.state != NULL)
        run->ops->delta_part(&ctx, shape, mask, in, ends.state, o);
    else
        run->ops->delta(&ctx, shape, mask, in, o);
}

static void rule_grad(struct cs_run *run, const struct cs_delta_shape *shape,
                      const struct cs_delta_in *in, const void *d_o, const struct cs_delta_out *out)
{
    const struct cs_mask_plan *mask = cs_delta_mask(run);
    struct cs_delta_ends ends;
    cs_delta_ends(run, shape, in, d_o, &ends);
    struct cs_ctx ctx = cs_run_delta_ctx(run, shape, mask);
    if (ends.state != NULL || ends.d_state != NULL)
        run->ops->delta_part_grad(&ctx, shape, mask, in, ends.state, ends.d_state, d_o, out);
    else
        run->ops->delta_grad(&ctx, shape, mask, in, d_o, out);
}

/* What lies between the rule's output and the last product: its norm by heads, and the gate. */
struct gated {
    void *z, *normed; /* (rows, value) */
    float *stat;      /* (rows * heads, 2) */
};

static struct gated gate_of(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                            const struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    const struct gated g = {.z = cs_run_take(run, rows * d.value),
                            .normed = cs_run_take(run, rows * d.value),
                            .stat = cs_scratch_floats(run->scratch, rows * d.heads * 2)};
    run->ops->copy_heads(run->ctx, rows, 1, d.value, cs_run_at(run, kept->qkv, d.z), d.product, 0,
                         g.z, d.value, 0);
    run->ops->norm(run->ctx, CS_NORM_RMS, rows * d.heads, l->arch->recurrent.value_dim,
                   l->arch->norm_eps, 0.0f, kept->o, cs_weight(l, CS_PARAM_MIX_NORM_W)->w, NULL,
                   g.normed, g.stat);
    return g;
}

static void apply_gate(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                       const struct gated *g, void *mixed)
{
    const int64_t n = dims_of(l).value;
    run->ops->gated(run->ctx, CS_ACT_SILU, rows, n, g->z, g->normed, n, mixed);
}

static void delta_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const void *h, const void *residual, void *y, struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    const struct cs_delta_shape shape = shape_of(l);
    kept->qkv = cs_run_keep(run, l, CS_KEEP_QKV, rows);
    kept->o = cs_run_keep(run, l, CS_KEEP_O, rows);
    kept->mixed = cs_run_keep(run, l, CS_KEEP_MIXED, rows);
    cs_run_linear_all(run, rows, d.width, d.product, h, cs_weight(l, CS_PARAM_MIX_QKV_W), NULL,
                      CS_ACT_NONE, NULL, kept->qkv);
    const struct rows_in in = inputs_of(run, l, rows, kept);
    const struct cs_delta_in operand = operands(run, &d, &in);
    rule(run, &shape, &operand, kept->o);
    const struct gated g = gate_of(run, l, rows, kept);
    apply_gate(run, l, rows, &g, kept->mixed);
    if (y != NULL)
        cs_run_linear_sum(run, rows, d.value, d.width, kept->mixed,
                          cs_weight(l, CS_PARAM_MIX_OUT_W), NULL, residual, y);
    if (run->keep != NULL && !cs_run_keeps(run, l, CS_KEEP_MIXED))
        kept->mixed = NULL; /* it was scratch */
}

/* d_o (rows, value) and dz (rows, value) from dy, and the gradients of the last product's weights and
 * of the norm's */
static void output_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                       const void *dy, void *d_o, void *dz, const struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    const struct cs_shard *out_w = cs_weight(l, CS_PARAM_MIX_OUT_W),
                          *norm_w = cs_weight(l, CS_PARAM_MIX_NORM_W);
    const void *mixed = kept->mixed;
    void *made =
        mixed == NULL && l->layer->needs_weight_grad ? cs_run_hold(run, rows * d.value) : NULL;
    const struct gated g = gate_of(run, l, rows, kept);
    if (made != NULL) {
        apply_gate(run, l, rows, &g, made);
        mixed = made;
    }
    void *dm = cs_run_take(run, rows * d.value), *dn = cs_run_take(run, rows * d.value);
    cs_run_linear_grad_all(run, rows, d.value, d.width, dy, mixed, out_w, NULL, CS_ACT_NONE, NULL,
                           dm);
    run->ops->gated_grad(run->ctx, CS_ACT_SILU, rows, d.value, g.z, g.normed, d.value, dm, dz, dn,
                         d.value);
    struct cs_ctx ctx = cs_run_grad_ctx(run, norm_w, NULL);
    run->ops->norm_grad(&ctx, CS_NORM_RMS, rows * d.heads, l->arch->recurrent.value_dim, 0.0f,
                        kept->o, norm_w->w, g.stat, dn, NULL, d_o, norm_w->grad, NULL);
}

/* dproduct (rows, product) but for z's part, from d_o, and the gradients of the convolution's and the
 * gates' weights */
static void rule_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     const void *d_o, void *dproduct, const struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    const struct cs_delta_shape shape = shape_of(l);
    const struct cs_shard *conv_w = cs_weight(l, CS_PARAM_CONV_W),
                          *a_log = cs_weight(l, CS_PARAM_A_LOG),
                          *dt_bias = cs_weight(l, CS_PARAM_DT_BIAS);
    const struct rows_in in = inputs_of(run, l, rows, kept);
    const struct cs_delta_in operand = operands(run, &d, &in);
    void *d_made = cs_run_take(run, (rows + in.conv.halo) * d.conv);
    void *dqkv = cs_run_at(run, d_made, in.conv.halo * d.conv);
    const struct cs_delta_out out = {.dq = dqkv,
                                     .dk = cs_run_at(run, dqkv, d.key),
                                     .dv = cs_run_at(run, dqkv, 2 * d.key),
                                     .dg = cs_scratch_floats(run->scratch, rows * d.heads),
                                     .dbeta = cs_scratch_floats(run->scratch, rows * d.heads)};
    rule_grad(run, &shape, &operand, d_o, &out);
    struct cs_ctx of_gates = cs_run_grad_ctx(run, a_log, dt_bias);
    run->ops->delta_gate_grad(&of_gates, rows, (int32_t)d.heads, cs_run_at(run, kept->qkv, d.a),
                              cs_run_at(run, kept->qkv, d.b), d.product, a_log->w, dt_bias->w,
                              out.dg, out.dbeta, cs_run_at(run, dproduct, d.a),
                              cs_run_at(run, dproduct, d.b), d.product, a_log->grad, dt_bias->grad);
    struct cs_ctx of_conv = cs_run_grad_ctx(run, conv_w, NULL);
    void *d_wide = cs_delta_wide_grads(run, &in.conv, rows, d.conv, dproduct);
    if (in.conv.halo > 0 &&
        run->context != NULL) /* rows of another rank, which has their gradient */
        cs_device_zero(run->device, d_made, (size_t)(in.conv.halo * d.conv) * run->ops->act_bytes);
    run->ops->short_conv_grad(&of_conv, in.conv.mask, d.conv, l->arch->recurrent.taps, in.conv.x,
                              in.conv.ld, conv_w->w, d_made, d.conv, d_wide, conv_w->grad);
    cs_delta_narrow(run, &in.conv, rows, d.conv, d_wide, dproduct, d.product);
}

static void delta_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const void *dy, void *dh, const struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    const struct cs_shard *w = cs_weight(l, CS_PARAM_MIX_QKV_W);
    void *dproduct = cs_run_hold(run, rows * d.product);
    void *d_o = cs_run_take(run, rows * d.value), *dz = cs_run_take(run, rows * d.value);
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    output_bwd(run, l, rows, dy, d_o, dz, kept);
    cs_scratch_rewind(run->scratch, mark);
    run->ops->copy_heads(run->ctx, rows, 1, d.value, dz, d.value, 0, cs_run_at(run, dproduct, d.z),
                         d.product, 0);
    rule_bwd(run, l, rows, d_o, dproduct, kept);
    const void *h = cs_half_input(run, l, rows, CS_HALF_MIXER, kept);
    cs_run_linear_grad_sum(run, rows, d.width, d.product, dproduct, h, w, NULL, dh);
}

const struct cs_half_ops cs_mixer_delta = {.fwd = delta_fwd, .bwd = delta_bwd};
