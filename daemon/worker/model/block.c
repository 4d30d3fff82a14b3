/* One pre-norm transformer block: x2 = x + o(attention(rope(qkv(norm1 x)))), y = x2 + mlp(norm2
 * x2). q, k and v are one matrix product over neighbouring weights, gate and up another. */
#include "worker/model/layers.h"

struct block_dims {
    int64_t width, q, kv, qkv, ffn, up; /* columns; up: what the first product of the MLP gives */
};

static struct block_dims dims_of(const struct cs_layer_model *l)
{
    const struct cs_arch *a = l->arch;
    const int64_t q = cs_attention_q_width(l->attention), kv = cs_attention_kv_width(l->attention);
    return (struct block_dims){.width = a->width,
                               .q = q,
                               .kv = kv,
                               .qkv = q + 2 * kv,
                               .ffn = a->ffn_width,
                               .up = a->is_gated_mlp ? 2 * (int64_t)a->ffn_width : a->ffn_width};
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
    const struct block_dims d = dims_of(l);
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
    const struct block_dims d = dims_of(l);
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

/* a from up */
static void gate(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                 struct cs_kept *kept)
{
    const struct block_dims d = dims_of(l);
    run->ops->gated(run->ctx, (enum cs_act)l->arch->act, rows, d.ffn, kept->up,
                    cs_run_at(run, kept->up, d.ffn), d.up, kept->a);
}

static void mlp_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, void *y,
                    struct cs_kept *kept)
{
    const struct cs_arch *a = l->arch;
    const struct block_dims d = dims_of(l);
    if (a->is_gated_mlp) {
        cs_run_linear(run, rows, d.width, d.up, kept->h2, cs_weight(l, CS_PARAM_GATE_W), NULL,
                      kept->up);
        gate(run, l, rows, kept);
    } else {
        cs_run_linear_act(run, rows, d.width, d.up, kept->h2, cs_weight(l, CS_PARAM_UP_W),
                          cs_weight(l, CS_PARAM_UP_B), NULL, (enum cs_act)a->act, kept->up,
                          kept->a);
    }
    if (y == NULL)
        return;
    cs_run_linear_act(run, rows, d.ffn, d.width, kept->a, cs_weight(l, CS_PARAM_DOWN_W),
                      cs_weight(l, CS_PARAM_DOWN_B), kept->x2, CS_ACT_NONE, NULL, y);
}

static void block_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *x, void *y,
                      struct cs_kept *kept)
{
    (void)ends;
    if (rows == 0)
        return;
    const struct cs_arch *a = l->arch;
    const struct block_dims d = dims_of(l);
    /* inputs of products are read again by weight gradients only, and are cheap to make again */
    const bool is_trained = cs_run_keeps(run, l, CS_KEEP_H1);
    kept->stat1 = cs_run_keep(run, l, CS_KEEP_STAT1, rows);
    kept->h1 = cs_run_keep(run, l, CS_KEEP_H1, rows);
    kept->qkv = cs_run_keep(run, l, CS_KEEP_QKV, rows);
    kept->o = cs_run_keep(run, l, CS_KEEP_O, rows);
    kept->lse = cs_run_keep(run, l, CS_KEEP_LSE, rows);
    kept->x2 = cs_run_keep(run, l, CS_KEEP_X2, rows);
    kept->stat2 = cs_run_keep(run, l, CS_KEEP_STAT2, rows);
    kept->h2 = cs_run_keep(run, l, CS_KEEP_H2, rows);
    kept->up = cs_run_keep(run, l, CS_KEEP_UP, rows);
    kept->a = cs_run_keep(run, l, CS_KEEP_A, rows);

    cs_run_norm(run, a, rows, x, cs_weight(l, CS_PARAM_NORM1_W), cs_weight(l, CS_PARAM_NORM1_B),
                kept->h1, kept->stat1);
    cs_run_linear(run, rows, d.width, d.qkv, kept->h1, cs_weight(l, CS_PARAM_Q_W),
                  cs_weight(l, CS_PARAM_Q_B), kept->qkv);
    attend(run, l, rows, kept);
    cs_run_linear_act(run, rows, d.q, d.width, kept->o, cs_weight(l, CS_PARAM_O_W),
                      cs_weight(l, CS_PARAM_O_B), x, CS_ACT_NONE, NULL, kept->x2);
    cs_run_norm(run, a, rows, kept->x2, cs_weight(l, CS_PARAM_NORM2_W),
                cs_weight(l, CS_PARAM_NORM2_B), kept->h2, kept->stat2);
    mlp_fwd(run, l, rows, y, kept);
    if (is_trained || run->keep == NULL)
        return;
    kept->h1 = kept->h2 = kept->a = NULL; /* they were scratch */
}

/* What weight gradients read and selective recompute did not keep is made again just before, by the
 * same operators on the same inputs: the same bits. Frozen layers need none of it. */
static void *normed_again(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const void *x, int is_second)
{
    if (!l->layer->needs_weight_grad)
        return NULL;
    float *stat = cs_scratch_floats(run->scratch, rows * 2);
    void *h = cs_run_hold(run, rows * l->arch->width);
    cs_run_norm(run, l->arch, rows, x,
                cs_weight(l, is_second ? CS_PARAM_NORM2_W : CS_PARAM_NORM1_W),
                cs_weight(l, is_second ? CS_PARAM_NORM2_B : CS_PARAM_NORM1_B), h, stat);
    return h;
}

static void *activated_again(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                             const struct cs_kept *kept)
{
    struct cs_kept made = *kept;
    if (!l->layer->needs_weight_grad)
        return NULL;
    made.a = cs_run_hold(run, rows * dims_of(l).ffn);
    if (l->arch->is_gated_mlp)
        gate(run, l, rows, &made);
    else
        run->ops->act(run->ctx, (enum cs_act)l->arch->act, rows * dims_of(l).ffn, kept->up, made.a);
    return made.a;
}

/* dup (rows, up) from dy, and the gradient of the second product's weights */
static void down_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     const void *dy, void *dup, const struct cs_kept *kept)
{
    const struct cs_arch *a = l->arch;
    const struct block_dims d = dims_of(l);
    void *made = kept->a == NULL ? activated_again(run, l, rows, kept) : NULL;
    const void *act = kept->a != NULL ? kept->a : made;
    cs_run_linear_wgrad(run, rows, d.ffn, d.width, dy, act, cs_weight(l, CS_PARAM_DOWN_W),
                        cs_weight(l, CS_PARAM_DOWN_B));
    if (!a->is_gated_mlp) {
        cs_run_linear_dgrad_act(run, rows, d.ffn, d.width, dy, cs_weight(l, CS_PARAM_DOWN_W),
                                (enum cs_act)a->act, kept->up, dup);
        return;
    }
    void *da = made != NULL && run->later == NULL ? made : cs_run_take(run, rows * d.ffn);
    cs_run_linear_dgrad(run, rows, d.ffn, d.width, dy, cs_weight(l, CS_PARAM_DOWN_W), da);
    run->ops->gated_grad(run->ctx, (enum cs_act)a->act, rows, d.ffn, kept->up,
                         cs_run_at(run, kept->up, d.ffn), d.up, da, dup, cs_run_at(run, dup, d.ffn),
                         d.up);
}

/* dh2 (rows, width) from dy */
static void mlp_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                    const void *dy, void *dh2, const struct cs_kept *kept)
{
    const struct cs_arch *a = l->arch;
    const struct block_dims d = dims_of(l);
    const struct cs_shard *up_w =
        a->is_gated_mlp ? cs_weight(l, CS_PARAM_GATE_W) : cs_weight(l, CS_PARAM_UP_W);
    const struct cs_shard *up_b = a->is_gated_mlp ? NULL : cs_weight(l, CS_PARAM_UP_B);
    /* what is kept until the weight half is kept once: the gradient takes the place of its input */
    const bool is_in_place = a->is_gated_mlp && run->later != NULL;
    void *dup = is_in_place ? kept->up : cs_run_hold(run, rows * d.up);
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    down_bwd(run, l, rows, dy, dup, kept);
    cs_scratch_rewind(run->scratch, mark);
    const void *h2 = kept->h2 != NULL ? kept->h2 : normed_again(run, l, rows, kept->x2, 1);
    cs_run_linear_wgrad(run, rows, d.width, d.up, dup, h2, up_w, up_b);
    cs_run_linear_dgrad(run, rows, d.width, d.up, dup, up_w, dh2);
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
    const struct block_dims d = dims_of(l);
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
    const struct block_dims d = dims_of(l);
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

static bool has_grad(const struct cs_shard *t)
{
    return t != NULL && t->grad != NULL;
}

static void block_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *dy, void *dx,
                      const struct cs_kept *kept)
{
    (void)ends;
    if (rows == 0)
        return;
    const struct cs_arch *a = l->arch;
    const struct block_dims d = dims_of(l);
    void *dh = cs_run_take(run, rows * d.width);
    void *dx2 = cs_run_hold(run, rows * d.width);
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    mlp_bwd(run, l, rows, dy, dh, kept);
    cs_scratch_rewind(run->scratch, mark);
    cs_run_norm_grad(run, a, rows, kept->x2, cs_weight(l, CS_PARAM_NORM2_W),
                     cs_weight(l, CS_PARAM_NORM2_B), kept->stat2, dh, dy, dx2);

    void *d_o = cs_run_take(run, rows * d.q);
    void *dqkv = cs_run_hold(run, rows * d.qkv);
    cs_run_linear_wgrad(run, rows, d.q, d.width, dx2, kept->o, cs_weight(l, CS_PARAM_O_W),
                        cs_weight(l, CS_PARAM_O_B));
    cs_run_linear_dgrad(run, rows, d.q, d.width, dx2, cs_weight(l, CS_PARAM_O_W), d_o);
    attend_bwd(run, l, rows, d_o, dqkv, kept);
    const void *h1 = kept->h1 != NULL ? kept->h1 : normed_again(run, l, rows, kept->x, 0);
    cs_run_linear_wgrad(run, rows, d.width, d.qkv, dqkv, h1, cs_weight(l, CS_PARAM_Q_W),
                        cs_weight(l, CS_PARAM_Q_B));
    if (dx == NULL && !has_grad(cs_weight(l, CS_PARAM_NORM1_W)) &&
        !has_grad(cs_weight(l, CS_PARAM_NORM1_B)))
        return;
    cs_run_linear_dgrad(run, rows, d.width, d.qkv, dqkv, cs_weight(l, CS_PARAM_Q_W), dh);
    if (dx == NULL)
        dx = cs_run_take(run, rows * d.width);
    cs_run_norm_grad(run, a, rows, kept->x, cs_weight(l, CS_PARAM_NORM1_W),
                     cs_weight(l, CS_PARAM_NORM1_B), kept->stat1, dh, dx2, dx);
}

const struct cs_layer_ops cs_layer_block = {
    .in = CS_ROW_MODEL, .out = CS_ROW_MODEL, .fwd = block_fwd, .bwd = block_bwd};
