/* The two halves of a transformer block: its mixer, where rows meet (attention), and its ffn, which
 * looks at every row by itself. block.c has what is around them: norms, residuals, what is kept of
 * those. Each kind of half is a file that defines its row; which one a block has says its layer.
 *
 * h (rows, width) is the normed input. Where ranks split rows between products (worker/layer/sequence.h),
 * h, residual, y, dy and dh are of the own rows. A half takes the arrays that it keeps for its backward itself
 * (core/model/keeps.h lists them for its kind). Backward: dh (rows, width) is overwritten; NULL: not
 * needed, only gradients of weights are. */
#ifndef CS_WORKER_MODEL_HALVES_H
#define CS_WORKER_MODEL_HALVES_H

#include "worker/layer/layers.h"

struct cs_half_ops {
    /* y = half(h) + residual (NULL: 0). y NULL: only what the backward reads is wanted. What is
     * made lies apart from residual and y. */
    void (*fwd)(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, const void *h,
                const void *residual, void *y, struct cs_kept *kept);
    void (*bwd)(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, const void *dy,
                void *dh, const struct cs_kept *kept);
};

/* attend.c: o(attention(rope(qk_norm(qkv(h)))));  delta.c: the gated delta rule;
 * mlp.c: down(act(up(h))), gated or not;  experts.c: a mixture of such */
extern const struct cs_half_ops cs_mixer_attention, cs_mixer_delta, cs_ffn_dense, cs_ffn_experts;

enum cs_half { CS_HALF_MIXER, CS_HALF_FFN };

/* half_input.c: the half's normed input (own rows) for gradients of its weights: kept, or made again by the same
 * operators on the same input, hence the same bits, in memory that those gradients may be held in
 * (where rows are split: in scratch, for all rows of it are held).
 * NULL: no weight of the block trains. */
const void *cs_half_input(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          enum cs_half half, const struct cs_kept *kept);

#endif
