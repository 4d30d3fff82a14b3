/* LoRA in a linear layer: what is added to its product, and its gradients. w: the first matrix of the
 * product; nothing happens where it has no adapters. Nothing is kept: the small product of the
 * forward is made again for the gradients. */
#ifndef CS_WORKER_LAYER_ADAPTER_H
#define CS_WORKER_LAYER_ADAPTER_H

#include "worker/layer/layers.h"

/* y (rows, out) += scale (x a^T) b^T in the columns of each adapter; x (rows, in) */
void cs_adapters_add(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                     const struct cs_shard *w, void *y);
/* dx (rows, in) += what the adapters pass on of dy (rows, out) */
void cs_adapters_dgrad(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *dy,
                       const struct cs_shard *w, void *dx);
/* gradients of both factors of every adapter */
void cs_adapters_wgrad(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *dy,
                       const void *x, const struct cs_shard *w);

#endif
