/* The products at the edges of a half (worker/layer/tensors.h) where ranks split the rows outside of it:
 * one product for the rows of each rank, so that theirs travel beside the others. */
#ifndef CS_WORKER_LAYER_SEQUENCE_PRODUCTS_H
#define CS_WORKER_LAYER_SEQUENCE_PRODUCTS_H

#include "worker/layer/layers.h"

void cs_sequence_linear_all(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *x, const struct cs_shard *w, const struct cs_shard *b,
                            enum cs_act act, void *pre, void *y);
void cs_sequence_linear_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *x, const struct cs_shard *w, const struct cs_shard *b,
                            const void *residual, void *y);
void cs_sequence_linear_grad_all(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                                 const void *dy, const void *x, const struct cs_shard *w,
                                 const struct cs_shard *b, enum cs_act act, const void *pre,
                                 void *dx);
void cs_sequence_linear_grad_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                                 const void *dy, const void *x, const struct cs_shard *w,
                                 const struct cs_shard *b, void *dx);

#endif
