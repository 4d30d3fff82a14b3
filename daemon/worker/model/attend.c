/* Attention as the mixer of a block: o(attention(rope(norm(qkv(h))))). q, k and v are one matrix
 * product over neighbouring weights. */
#include "worker/model/heads.h"

static void attention_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const void *h, const void *residual, void *y, struct cs_kept *kept)
{
    const struct cs_head_dims d = cs_head_dims(l);
    kept->qkv = cs_run_keep(run, l, CS_KEEP_QKV, rows);
    kept->o = cs_run_keep(run, l, CS_KEEP_O, rows);
    kept->lse = cs_run_keep(run, l, CS_KEEP_LSE, rows);
    cs_run_linear(run, rows, l->arch->width, d.made, h, cs_weight(l, CS_PARAM_Q_W),
                  cs_weight(l, CS_PARAM_Q_B), kept->qkv);
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
                        cs_weight(l, CS_PARAM_Q_B));
    if (dh != NULL)
        cs_run_linear_dgrad(run, rows, l->arch->width, d.made, dqkv, cs_weight(l, CS_PARAM_Q_W),
                            dh);
}

const struct cs_half_ops cs_mixer_attention = {.fwd = attention_fwd, .bwd = attention_bwd};
