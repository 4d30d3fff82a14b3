/* Attention as the mixer of a block: o(attention(rope(norm(qkv(h))))). q, k and v are one matrix
 * product over neighbouring weights. */
#include "worker/model/heads.h"

/* The biases of q, k and v are one vector, but where k has none: then those of q and v by themselves. */
static bool has_two_biases(const struct cs_layer_model *l)
{
    return cs_weight(l, CS_PARAM_V_B) != NULL && cs_weight(l, CS_PARAM_K_B) == NULL &&
           !l->attention->is_k_eq_v;
}

static const struct cs_shard *bias_of_all(const struct cs_layer_model *l)
{
    return has_two_biases(l) ? NULL : cs_weight(l, CS_PARAM_Q_B);
}

static void add_two_biases(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                           void *qkv)
{
    const struct cs_head_dims d = cs_head_dims(l);
    if (!has_two_biases(l))
        return;
    run->ops->bias_add(run->ctx, rows, d.q, qkv, d.made, cs_weight(l, CS_PARAM_Q_B)->w);
    run->ops->bias_add(run->ctx, rows, d.kv, cs_run_at(run, qkv, d.q + d.kv), d.made,
                       cs_weight(l, CS_PARAM_V_B)->w);
}

static void two_biases_grad(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                            void *dqkv)
{
    const struct cs_head_dims d = cs_head_dims(l);
    const struct cs_shard *q = cs_weight(l, CS_PARAM_Q_B), *v = cs_weight(l, CS_PARAM_V_B);
    if (!has_two_biases(l) || q->grad == NULL)
        return;
    struct cs_ctx ctx = cs_run_grad_ctx(run, q, v); /* of a group: new together */
    run->ops->bias_grad(&ctx, rows, d.q, dqkv, d.made, q->grad);
    run->ops->bias_grad(&ctx, rows, d.kv, cs_run_at(run, dqkv, d.q + d.kv), d.made, v->grad);
}

static void attention_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const void *h, const void *residual, void *y, struct cs_kept *kept)
{
    const struct cs_head_dims d = cs_head_dims(l);
    kept->qkv = cs_run_keep(run, l, CS_KEEP_QKV, rows);
    kept->o = cs_run_keep(run, l, CS_KEEP_O, rows);
    kept->lse = cs_run_keep(run, l, CS_KEEP_LSE, rows);
    cs_run_linear(run, rows, l->arch->width, d.made, h, cs_weight(l, CS_PARAM_Q_W), bias_of_all(l),
                  kept->qkv);
    add_two_biases(run, l, rows, kept->qkv);
    cs_heads_turn(run, l, rows, kept->qkv);
    const struct cs_heads heads = cs_heads_of(run, l, rows, kept->qkv);
    const struct cs_mask_plan *mask = cs_mask_of(run, l);
    struct cs_ctx ctx = cs_run_attention_ctx(run, &heads.shape, mask);
    run->ops->attention(&ctx, &heads.shape, mask, heads.q, heads.k, heads.v, kept->o, kept->lse);
    if (y != NULL)
        cs_run_linear_act(run, rows, d.q, l->arch->width, kept->o, cs_weight(l, CS_PARAM_O_W),
                          cs_weight(l, CS_PARAM_O_B), residual, CS_ACT_NONE, NULL, y);
}

static void attention_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const void *dy, void *dh, const struct cs_kept *kept)
{
    const struct cs_head_dims d = cs_head_dims(l);
    void *d_o = cs_run_take(run, rows * d.q);
    void *dqkv = cs_run_hold(run, rows * d.made);
    cs_run_linear_wgrad(run, rows, d.q, l->arch->width, dy, kept->o, cs_weight(l, CS_PARAM_O_W),
                        cs_weight(l, CS_PARAM_O_B));
    cs_run_linear_dgrad(run, rows, d.q, l->arch->width, dy, cs_weight(l, CS_PARAM_O_W), d_o);
    const struct cs_heads heads = cs_heads_of(run, l, rows, kept->qkv);
    const struct cs_head_grads grads = cs_head_grads(run, l, rows, dqkv);
    const struct cs_mask_plan *mask = cs_mask_of(run, l);
    struct cs_ctx ctx = cs_run_attention_ctx(run, &heads.shape, mask);
    run->ops->attention_grad(&ctx, &heads.shape, mask, heads.q, heads.k, heads.v, kept->o,
                             kept->lse, d_o, grads.q, grads.k, grads.v);
    cs_heads_bwd(run, l, rows, kept->qkv, &heads, &grads, dqkv);
    const void *h = cs_half_input(run, l, rows, CS_HALF_MIXER, kept);
    cs_run_linear_wgrad(run, rows, l->arch->width, d.made, dqkv, h, cs_weight(l, CS_PARAM_Q_W),
                        bias_of_all(l));
    two_biases_grad(run, l, rows, dqkv);
    if (dh != NULL)
        cs_run_linear_dgrad(run, rows, l->arch->width, d.made, dqkv, cs_weight(l, CS_PARAM_Q_W),
                            dh);
}

const struct cs_half_ops cs_mixer_attention = {.fwd = attention_fwd, .bwd = attention_bwd};
