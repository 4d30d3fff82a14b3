/* Chains over the rows of an encoder (core/arch/chain.h), for layers that are one or have one. */
#ifndef CS_WORKER_MODEL_CHAIN_H
#define CS_WORKER_MODEL_CHAIN_H

#include "worker/layer/layers.h"

/* y (rows that leave the layer, its last width) from x (rows that enter the layer, in_width). kept: step and step_stat are
 * set; what they show outlives the forward in training. */
void cs_chain_fwd(struct cs_run *run, const struct cs_layer_model *l, const struct cs_chain *chain,
                  const void *x, void *y, struct cs_kept *kept);
/* dx like x, NULL: not needed; and the gradients of what trains */
void cs_chain_bwd(struct cs_run *run, const struct cs_layer_model *l, const struct cs_chain *chain,
                  const void *dy, void *dx, const struct cs_kept *kept);

#endif
