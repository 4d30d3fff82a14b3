/* Context parallelism in a layer: attention of the own rows over keys of all rows of the slot.
 *
 * Forward, keys and values of every rank's rows come to those ranks whose queries see them under the
 * layer's mask. Backward they come once more (they are not kept), and what the own queries give to
 * the gradients of such rows goes to the ranks that have them, where it is added in fp32 in the order
 * of ranks. What goes to a rank lies one row behind the other, and what comes stays where it arrives,
 * behind the own keys (worker/slot/row_keys.h). Ranks that do not see each other's rows do not meet,
 * and a rank without rows need not come. All ranks of a context run the same program, so they meet
 * in the same order.
 *
 * Where the plan says so, heads move instead (context_heads.h).
 *
 * Heads are taken in groups: while attention works on one, keys of the next ones travel, and
 * gradients of those before. Transfers: exchange.h. */
#ifndef CS_WORKER_MODEL_CONTEXT_H
#define CS_WORKER_MODEL_CONTEXT_H

#include "worker/model/halves/heads.h"

/* The layer's rows are split over ranks: attention is by the functions below. Where heads move one rank alone has a slot
 * as if it were not split. */
bool cs_context_splits(const struct cs_run *run, const struct cs_layer_model *l);
/* ... and heads move, also to this rank: without rows it has some all the same */
bool cs_context_moves_heads(const struct cs_run *run, const struct cs_layer_model *l);
/* Rows for which lse is kept: the own ones, of all heads; or where heads move (context_heads.h) as many as there is
 * room for all rows of the rank's heads in. */
int64_t cs_context_lse_rows(const struct cs_run *run, const struct cs_layer_model *l, int64_t rows);
/* As attention and attention_grad of kernels/ops.h, over the keys of all rows of the slot; heads,
 * o, lse, d_o and grads are of the own rows. */
void cs_context_attention(struct cs_run *run, const struct cs_layer_model *l,
                          const struct cs_heads *heads, void *o, float *lse);
void cs_context_attention_grad(struct cs_run *run, const struct cs_layer_model *l,
                               const struct cs_heads *heads, void *o, float *lse, void *d_o,
                               const struct cs_head_grads *grads);

#endif
