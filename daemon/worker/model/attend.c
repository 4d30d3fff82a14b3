/* Attention as the mixer of a block: o(attention(rope(qk_norm(qkv(h))))). q, k and v are one matrix
 * product over neighbouring weights. */
#include "worker/model/halves.h"

struct dims {
    int64_t width, q, kv, qkv; /* columns */
};

static struct dims dims_of(const struct cs_layer_model *l)
{
    const int64_t q = cs_attention_q_width(l->attention), kv = cs_attention_kv_width(l->attention);
    return (struct dims){l->arch->width, q, kv, q + 2 * kv};
}

/* what the slot has for the block's kind of attention */
static const struct cs_slot_kind *kind_of(const struct cs_run *run, const struct cs_layer_model *l)
{
    return &run->input->tables->kind[l->attention_id];
}

static const struct cs_mask_plan *mask_of(const struct cs_run *run, const struct cs_layer_model *l)
{
    return &run->input->at.mask[kind_of(run, l)->mask];
}

static struct cs_attention_shape shape_of(const struct cs_layer_model *l, int64_t rows)
{
    const struct cs_attention *a = l->attention;
    const struct dims d = dims_of(l);
    return (struct cs_attention_shape){
        .tokens = (int32_t)rows,
        .heads = a->n_heads,
        .kv_heads = a->n_kv_heads,
        .head_dim = a->head_dim,
        .q_stride = (int32_t)d.qkv,
        .kv_stride = (int32_t)d.qkv,
        .o_stride = (int32_t)d.q,
        .scale = a->scale,
        .softcap = a->softcap,
    };
}

/* x (rows, heads, head_dim), rows stride columns apart, turns in place */
static void rotate(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, int32_t heads,
                   int64_t stride, void *x, int inverse)
{
    const struct cs_attention *a = l->attention;
    const int32_t r = kind_of(run, l)->rope;
    if (r < 0)
        return;
    run->ops->rope(run->ctx, rows, heads, a->head_dim, a->rope.dims, stride, x,
                   run->input->at.cos[r], run->input->at.sin[r], inverse);
}

/* What attention reads: queries (rows, heads, head_dim), keys and values (rows, kv_heads,
 * head_dim), in rows of qkv columns each. */
struct heads {
    void *q, *k, *v;
    float *stat; /* of the norms of heads, (rows, heads + 2 kv_heads, 2); NULL: there are none */
};

/* A norm over every head of a buffer like qkv; what comes out of heads that it is not for is not
 * read. One more pass over memory, and q, k and v stay one product both ways. */
static void *norm_heads(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                        const void *qkv, const struct cs_shard *w, float *stat)
{
    const int64_t n = rows * dims_of(l).qkv, dim = l->attention->head_dim;
    void *y = cs_run_take(run, n);
    run->ops->norm(run->ctx, CS_NORM_RMS, n / dim, dim, l->arch->norm_eps, l->arch->norm_offset,
                   qkv, w->w, NULL, y, stat);
    return y;
}

/* kept->qkv as attention reads it. Without norms of heads it was rotated in place; with them it is
 * as the product made it, and this is done again for the backward. */
static struct heads heads_of(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                             const struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    struct heads h = {.q = kept->qkv, .k = kept->qkv};
    h.v = cs_run_at(run, kept->qkv, d.q + d.kv);
    if (l->arch->has_qk_norm) {
        h.stat = cs_scratch_floats(run->scratch, rows * d.qkv / l->attention->head_dim * 2);
        h.q = norm_heads(run, l, rows, kept->qkv, cs_weight(l, CS_PARAM_Q_NORM_W), h.stat);
        h.k = norm_heads(run, l, rows, kept->qkv, cs_weight(l, CS_PARAM_K_NORM_W), h.stat);
        rotate(run, l, rows, l->attention->n_heads, d.qkv, h.q, 0);
        rotate(run, l, rows, l->attention->n_kv_heads, d.qkv, cs_run_at(run, h.k, d.q), 0);
    }
    h.k = cs_run_at(run, h.k, d.q);
    return h;
}

/* o and lse from qkv as the product made it */
static void attend(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                   struct cs_kept *kept)
{
    const struct cs_attention *a = l->attention;
    const struct cs_attention_shape shape = shape_of(l, rows);
    const struct cs_mask_plan *mask = mask_of(run, l);
    if (!l->arch->has_qk_norm) /* k follows q: all their heads turn in one call */
        rotate(run, l, rows, a->n_heads + a->n_kv_heads, dims_of(l).qkv, kept->qkv, 0);
    const struct heads h = heads_of(run, l, rows, kept);
    struct cs_ctx ctx = cs_run_attention_ctx(run, &shape, mask);
    run->ops->attention(&ctx, &shape, mask, h.q, h.k, h.v, kept->o, kept->lse);
}

static void attention_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const void *h, const void *residual, void *y, struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    kept->qkv = cs_run_keep(run, l, CS_KEEP_QKV, rows);
    kept->o = cs_run_keep(run, l, CS_KEEP_O, rows);
    kept->lse = cs_run_keep(run, l, CS_KEEP_LSE, rows);
    cs_run_linear(run, rows, d.width, d.qkv, h, cs_weight(l, CS_PARAM_Q_W),
                  cs_weight(l, CS_PARAM_Q_B), kept->qkv);
    attend(run, l, rows, kept);
    if (y != NULL)
        cs_run_linear_act(run, rows, d.q, d.width, kept->o, cs_weight(l, CS_PARAM_O_W),
                          cs_weight(l, CS_PARAM_O_B), residual, CS_ACT_NONE, NULL, y);
}

static void *zeroed(struct cs_run *run, int64_t n)
{
    void *x = cs_run_take(run, n);
    cs_device_zero(run->device, x, (size_t)n * run->ops->act_bytes);
    return x;
}

/* dx (rows, qkv) = dx_in + gradient of dy through a norm of heads; dy is 0 at all heads that the norm
 * is not for, so neither they nor the weight's gradient get anything from them */
static void norm_heads_grad(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                            const void *qkv, const struct cs_shard *w, const float *stat,
                            const void *dy, const void *dx_in, void *dx)
{
    const int64_t n = rows * dims_of(l).qkv, dim = l->attention->head_dim;
    struct cs_ctx ctx = cs_run_grad_ctx(run, w, NULL);
    run->ops->norm_grad(&ctx, CS_NORM_RMS, n / dim, dim, l->arch->norm_offset, qkv, w->w, stat, dy,
                        dx_in, dx, w->grad, NULL);
}

/* The same where heads are normed: dq, dk and dv are made in buffers of their own, each 0 elsewhere,
 * and go through the two norms one after the other. */
static void attend_normed_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                              const void *d_o, void *dqkv, const struct cs_kept *kept)
{
    const struct cs_attention_shape shape = shape_of(l, rows);
    const struct dims d = dims_of(l);
    const struct cs_mask_plan *mask = mask_of(run, l);
    const struct heads h = heads_of(run, l, rows, kept);
    void *dq = zeroed(run, rows * d.qkv), *dk = zeroed(run, rows * d.qkv);
    void *const dk_heads = cs_run_at(run, dk, d.q);
    struct cs_ctx ctx = cs_run_attention_ctx(run, &shape, mask);
    cs_device_zero(run->device, dqkv, (size_t)(rows * d.qkv) * run->ops->act_bytes);
    run->ops->attention_grad(&ctx, &shape, mask, h.q, h.k, h.v, kept->o, kept->lse, d_o, dq,
                             dk_heads, cs_run_at(run, dqkv, d.q + d.kv));
    rotate(run, l, rows, l->attention->n_heads, d.qkv, dq, 1);
    rotate(run, l, rows, l->attention->n_kv_heads, d.qkv, dk_heads, 1);
    norm_heads_grad(run, l, rows, kept->qkv, cs_weight(l, CS_PARAM_Q_NORM_W), h.stat, dq, dqkv,
                    h.q); /* q is not read again */
    norm_heads_grad(run, l, rows, kept->qkv, cs_weight(l, CS_PARAM_K_NORM_W), h.stat, dk, h.q,
                    dqkv);
}

/* dqkv (rows, qkv), of what the product made, from the gradient of the attention's output */
static void attend_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                       const void *d_o, void *dqkv, const struct cs_kept *kept)
{
    const struct cs_attention_shape shape = shape_of(l, rows);
    const struct dims d = dims_of(l);
    const struct cs_mask_plan *mask = mask_of(run, l);
    if (l->arch->has_qk_norm) {
        attend_normed_bwd(run, l, rows, d_o, dqkv, kept);
        return;
    }
    const struct heads h = heads_of(run, l, rows, kept);
    struct cs_ctx ctx = cs_run_attention_ctx(run, &shape, mask);
    run->ops->attention_grad(&ctx, &shape, mask, h.q, h.k, h.v, kept->o, kept->lse, d_o, dqkv,
                             cs_run_at(run, dqkv, d.q), cs_run_at(run, dqkv, d.q + d.kv));
    rotate(run, l, rows, l->attention->n_heads + l->attention->n_kv_heads, d.qkv, dqkv, 1);
}

static void attention_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const void *dy, void *dh, const struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    void *d_o = cs_run_take(run, rows * d.q);
    void *dqkv = cs_run_hold(run, rows * d.qkv);
    cs_run_linear_wgrad(run, rows, d.q, d.width, dy, kept->o, cs_weight(l, CS_PARAM_O_W),
                        cs_weight(l, CS_PARAM_O_B));
    cs_run_linear_dgrad(run, rows, d.q, d.width, dy, cs_weight(l, CS_PARAM_O_W), d_o);
    attend_bwd(run, l, rows, d_o, dqkv, kept);
    const void *h = cs_half_input(run, l, rows, CS_HALF_MIXER, kept);
    cs_run_linear_wgrad(run, rows, d.width, d.qkv, dqkv, h, cs_weight(l, CS_PARAM_Q_W),
                        cs_weight(l, CS_PARAM_Q_B));
    if (dh != NULL)
        cs_run_linear_dgrad(run, rows, d.width, d.qkv, dqkv, cs_weight(l, CS_PARAM_Q_W), dh);
}

const struct cs_half_ops cs_mixer_attention = {.fwd = attention_fwd, .bwd = attention_bwd};
