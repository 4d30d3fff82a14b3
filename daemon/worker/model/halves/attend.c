/* Attention as the mixer of a block: o(attention(rope(norm(qkv(h))))). q, k and v are one matrix
 * product over neighbouring weights. Where attention has a gate, q_proj gives one behind every head;
 * attention's output is multiplied with its sigmoid before the last product. */
#include "worker/layer/tensors.h"
#include "worker/model/halves/context.h"

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

/* ---- the gate: heads of the product are (query, gate) pairs, then come keys and values ---- */

static int64_t product_width(const struct cs_layer_model *l)
{
    const struct cs_head_dims d = cs_head_dims(l);
    return d.made + (l->arch->has_output_gate ? d.q : 0);
}

/* A part of the product: 0 queries, 1 their gates; from it to heads, whose rows are stride apart, or
 * back. */
static void copy_part(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, int part,
                      void *product, void *heads, int64_t stride, bool is_back)
{
    const int64_t dim = l->attention->head_dim, width = product_width(l);
    const int32_t n = l->attention->n_heads;
    void *const at = cs_run_at(run, product, part * dim);
    if (is_back)
        run->ops->copy_heads(run->ctx, rows, n, dim, heads, stride, dim, at, width, 2 * dim);
    else
        run->ops->copy_heads(run->ctx, rows, n, dim, at, width, 2 * dim, heads, stride, dim);
}

/* keys and values of all heads */
static void copy_rest(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      void *product, void *qkv, bool is_back)
{
    const struct cs_head_dims d = cs_head_dims(l);
    const int64_t width = product_width(l), n = d.made - d.q;
    void *const at = cs_run_at(run, product, 2 * d.q), *const rest = cs_run_at(run, qkv, d.q);
    if (is_back)
        run->ops->copy_heads(run->ctx, rows, 1, n, rest, d.made, 0, at, width, 0);
    else
        run->ops->copy_heads(run->ctx, rows, 1, n, at, width, 0, rest, d.made, 0);
}

/* kept->qkv, and kept->gate where there is one, from h */
static void project(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, const void *h,
                    struct cs_kept *kept)
{
    const struct cs_head_dims d = cs_head_dims(l);
    const int64_t width = product_width(l);
    const bool is_gated = l->arch->has_output_gate;
    void *product = is_gated ? cs_run_take(run, rows * width) : kept->qkv;
    cs_run_linear_all(run, rows, l->arch->width, width, h, cs_weight(l, CS_PARAM_Q_W),
                      bias_of_all(l), CS_ACT_NONE, NULL, product);
    add_two_biases(run, l, rows, product);
    if (!is_gated)
        return;
    copy_part(run, l, rows, 0, product, kept->qkv, d.made, false);
    copy_part(run, l, rows, 1, product, kept->gate, d.q, false);
    copy_rest(run, l, rows, product, kept->qkv, false);
}

/* what the last product reads, from kept->o */
static void apply_gate(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                       const struct cs_kept *kept, void *mixed)
{
    const int64_t q = cs_head_dims(l).q;
    run->ops->gated(run->ctx, CS_ACT_SIGMOID, rows, q, kept->gate, kept->o, q, mixed);
}

static void attend(struct cs_run *run, const struct cs_layer_model *l, const struct cs_heads *h,
                   const struct cs_kept *kept)
{
    if (cs_context_splits(run, l)) {
        cs_context_attention(run, l, h, kept->o, kept->lse);
        return;
    }
    const struct cs_mask_plan *mask = cs_mask_of(run, l);
    struct cs_ctx ctx = cs_run_attention_ctx(run, &h->shape, mask);
    run->ops->attention(&ctx, &h->shape, mask, h->q, h->k, h->v, kept->o, kept->lse);
}

static void attend_bwd(struct cs_run *run, const struct cs_layer_model *l, const struct cs_heads *h,
                       const struct cs_kept *kept, void *d_o, const struct cs_head_grads *d)
{
    if (cs_context_splits(run, l)) {
        cs_context_attention_grad(run, l, h, kept->o, kept->lse, d_o, d);
        return;
    }
    const struct cs_mask_plan *mask = cs_mask_of(run, l);
    struct cs_ctx ctx = cs_run_attention_ctx(run, &h->shape, mask);
    run->ops->attention_grad(&ctx, &h->shape, mask, h->q, h->k, h->v, kept->o, kept->lse, d_o, d->q,
                             d->k, d->v);
}

/* No row is here, but rows of others may come to heads that are. */
static struct cs_heads no_rows(struct cs_run *run, const struct cs_layer_model *l)
{
    void *none = cs_run_take(run, cs_head_dims(l).all);
    return cs_heads_at(run, l, 0, none, none);
}

static void attend_for_others(struct cs_run *run, const struct cs_layer_model *l,
                              struct cs_kept *kept)
{
    kept->lse = cs_run_keep(run, l, CS_KEEP_LSE, cs_context_lse_rows(run, l, 0));
    kept->o = cs_run_take(run, 1);
    const struct cs_heads heads = no_rows(run, l);
    cs_context_attention(run, l, &heads, kept->o, kept->lse);
}

static void attend_for_others_bwd(struct cs_run *run, const struct cs_layer_model *l,
                                  const struct cs_kept *kept)
{
    const struct cs_heads heads = no_rows(run, l);
    void *none = cs_run_take(run, 1);
    const struct cs_head_grads grads = {heads.q, heads.k, heads.v};
    cs_context_attention_grad(run, l, &heads, none, kept->lse, none, &grads);
}

static void attention_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const void *h, const void *residual, void *y, struct cs_kept *kept)
{
    const bool is_gated = l->arch->has_output_gate;
    if (rows == 0) {
        attend_for_others(run, l, kept);
        return;
    }
    kept->qkv = cs_run_keep(run, l, CS_KEEP_QKV, rows);
    kept->o = cs_run_keep(run, l, CS_KEEP_O, rows);
    kept->lse = cs_run_keep(run, l, CS_KEEP_LSE, cs_context_lse_rows(run, l, rows));
    if (is_gated) {
        kept->gate = cs_run_keep(run, l, CS_KEEP_GATE, rows);
        kept->mixed = cs_run_keep(run, l, CS_KEEP_MIXED, rows);
    }
    project(run, l, rows, h, kept);
    cs_heads_turn(run, l, rows, kept->qkv);
    const struct cs_heads heads = cs_heads_of(run, l, rows, kept->qkv);
    attend(run, l, &heads, kept);
    if (is_gated)
        apply_gate(run, l, rows, kept, kept->mixed);
    if (y != NULL)
        cs_run_linear_sum(run, rows, cs_head_dims(l).q, l->arch->width,
                          is_gated ? kept->mixed : kept->o, cs_weight(l, CS_PARAM_O_W),
                          cs_weight(l, CS_PARAM_O_B), residual, y);
    if (run->keep != NULL && !cs_run_keeps(run, l, CS_KEEP_MIXED))
        kept->mixed = NULL; /* it was scratch */
}

/* d_o (rows, q) from dy, the gate's gradient into dproduct, and the gradient of the last product's
 * weights */
static void output_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                       const void *dy, void *d_o, void *dproduct, const struct cs_kept *kept)
{
    const int64_t q = cs_head_dims(l).q, width = l->arch->width;
    const bool is_gated = l->arch->has_output_gate;
    const void *mixed = is_gated ? kept->mixed : kept->o;
    if (mixed == NULL && l->layer->needs_weight_grad) {
        void *made = cs_run_hold(run, rows * q);
        apply_gate(run, l, rows, kept, made);
        mixed = made;
    }
    void *dmixed = is_gated ? cs_run_take(run, rows * q) : d_o;
    cs_run_linear_grad_all(run, rows, q, width, dy, mixed, cs_weight(l, CS_PARAM_O_W),
                           cs_weight(l, CS_PARAM_O_B), CS_ACT_NONE, NULL, dmixed);
    if (!is_gated)
        return;
    void *dgate = cs_run_take(run, rows * q);
    run->ops->gated_grad(run->ctx, CS_ACT_SIGMOID, rows, q, kept->gate, kept->o, q, dmixed, dgate,
                         d_o, q);
    copy_part(run, l, rows, 1, dproduct, dgate, q, true);
}

static void attention_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const void *dy, void *dh, const struct cs_kept *kept)
{
    if (rows == 0) {
        attend_for_others_bwd(run, l, kept);
        return;
    }
    const struct cs_head_dims d = cs_head_dims(l);
    const int64_t product = product_width(l), width = l->arch->width;
    const bool is_gated = l->arch->has_output_gate;
    void *d_o = cs_run_take(run, rows * d.q);
    void *dproduct = cs_run_hold(run, rows * product);
    void *dqkv = is_gated ? cs_run_take(run, rows * d.made) : dproduct;
    output_bwd(run, l, rows, dy, d_o, dproduct, kept);
    const struct cs_heads heads = cs_heads_of(run, l, rows, kept->qkv);
    const struct cs_head_grads grads = cs_head_grads(run, l, rows, dqkv);
    attend_bwd(run, l, &heads, kept, d_o, &grads);
    cs_heads_bwd(run, l, rows, kept->qkv, &heads, &grads, dqkv);
    if (is_gated) {
        copy_part(run, l, rows, 0, dproduct, dqkv, d.made, true);
        copy_rest(run, l, rows, dproduct, dqkv, true);
    }
    const void *h = cs_half_input(run, l, rows, CS_HALF_MIXER, kept);
    cs_run_linear_grad_sum(run, rows, width, product, dproduct, h, cs_weight(l, CS_PARAM_Q_W),
                           bias_of_all(l), dh);
    two_biases_grad(run, l, rows, dproduct);
}

const struct cs_half_ops cs_mixer_attention = {.fwd = attention_fwd, .bwd = attention_bwd};
