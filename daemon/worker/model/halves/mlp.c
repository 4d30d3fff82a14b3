/* The MLP as the ffn of a block: down(act(up h)), or down(act(gate h) up h) where it is gated: gate
 * and up are one matrix product over neighbouring weights. */
#include "worker/layer/sequence.h"
#include "worker/layer/tensors.h"
#include "worker/model/halves/halves.h"

struct dims {
    int64_t width, ffn, up; /* columns; up: what the first product gives */
};

static struct dims dims_of(const struct cs_layer_model *l)
{
    const struct cs_arch *a = l->arch;
    const int64_t ffn = a->ffn_width;
    return (struct dims){a->width, ffn, a->is_gated_mlp ? 2 * ffn : ffn};
}

/* a from up */
static void gate(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                 struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    run->ops->gated(run->ctx, (enum cs_act)l->arch->act, rows, d.ffn, kept->up,
                    cs_run_at(run, kept->up, d.ffn), d.up, kept->a);
}

static void dense_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const void *h, const void *residual, void *y, struct cs_kept *kept)
{
    const struct cs_arch *a = l->arch;
    const struct dims d = dims_of(l);
    kept->up = cs_run_keep(run, l, CS_KEEP_UP, rows);
    kept->a = cs_run_keep(run, l, CS_KEEP_A, rows);
    if (a->is_gated_mlp) {
        cs_run_linear_all(run, rows, d.width, d.up, h, cs_weight(l, CS_PARAM_GATE_W),
                          cs_weight(l, CS_PARAM_GATE_B), CS_ACT_NONE, NULL, kept->up);
        gate(run, l, rows, kept);
    } else {
        cs_run_linear_all(run, rows, d.width, d.up, h, cs_weight(l, CS_PARAM_UP_W),
                          cs_weight(l, CS_PARAM_UP_B), (enum cs_act)a->act, kept->up, kept->a);
    }
    if (y != NULL)
        cs_run_linear_sum(run, rows, d.ffn, d.width, kept->a, cs_weight(l, CS_PARAM_DOWN_W),
                          cs_weight(l, CS_PARAM_DOWN_B), residual, y);
    if (run->keep != NULL && !cs_run_keeps(run, l, CS_KEEP_A))
        kept->a = NULL; /* it was scratch */
}

/* What weight gradients read and selective recompute did not keep, by the same operator on the same
 * input. */
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
    const struct dims d = dims_of(l);
    const struct cs_shard *w = cs_weight(l, CS_PARAM_DOWN_W), *b = cs_weight(l, CS_PARAM_DOWN_B);
    void *made = kept->a == NULL ? activated_again(run, l, rows, kept) : NULL;
    const void *act = kept->a != NULL ? kept->a : made;
    if (!a->is_gated_mlp) {
        cs_run_linear_grad_all(run, rows, d.ffn, d.width, dy, act, w, b, (enum cs_act)a->act,
                               kept->up, dup);
        return;
    }
    const bool is_free = made != NULL && run->later == NULL && !cs_sequence_is_split(run);
    void *da = is_free ? made : cs_run_take(run, rows * d.ffn);
    cs_run_linear_grad_all(run, rows, d.ffn, d.width, dy, act, w, b, CS_ACT_NONE, NULL, da);
    run->ops->gated_grad(run->ctx, (enum cs_act)a->act, rows, d.ffn, kept->up,
                         cs_run_at(run, kept->up, d.ffn), d.up, da, dup, cs_run_at(run, dup, d.ffn),
                         d.up);
}

static void dense_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const void *dy, void *dh, const struct cs_kept *kept)
{
    const struct cs_arch *a = l->arch;
    const struct dims d = dims_of(l);
    const struct cs_shard *up_w =
        a->is_gated_mlp ? cs_weight(l, CS_PARAM_GATE_W) : cs_weight(l, CS_PARAM_UP_W);
    const struct cs_shard *up_b = cs_weight(l, a->is_gated_mlp ? CS_PARAM_GATE_B : CS_PARAM_UP_B);
    /* what is kept until the weight half is kept once: the gradient takes the place of its input */
    const bool is_in_place = a->is_gated_mlp && run->later != NULL;
    void *dup = is_in_place ? kept->up : cs_run_hold(run, rows * d.up);
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    down_bwd(run, l, rows, dy, dup, kept);
    cs_scratch_rewind(run->scratch, mark);
    const void *h = cs_half_input(run, l, rows, CS_HALF_FFN, kept);
    cs_run_linear_grad_sum(run, rows, d.width, d.up, dup, h, up_w, up_b, dh);
}

const struct cs_half_ops cs_ffn_dense = {.fwd = dense_fwd, .bwd = dense_bwd};
