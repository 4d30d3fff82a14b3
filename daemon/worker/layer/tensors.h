/* Tensor parallelism in a layer: a rank has some heads and some columns of the MLP, so that its second
 * products give a part of every row, and the gradients that its first products give are parts too.
 * Here parts become sums, the same bits on all ranks. On a host each of them adds up its share of the
 * numbers in the order of the ranks (reduce-scatter), then all have all (all-gather); on a device NCCL
 * sums: a large product is made in groups of rows, so that the sum of one runs beside the product of the next. Where ranks split rows
 * between the products (worker/layer/sequence.h) parts go to the rank of their rows and are added there.
 *
 * run->tensors is who they are, and how they meet: as the ranks of a context do
 * (worker/layer/exchange.h); nobody is met in a rehearsal. Ranks that share a stage see the
 * same rows and run the same program, so they meet in the same order. */
#ifndef CS_WORKER_LAYER_TENSORS_H
#define CS_WORKER_LAYER_TENSORS_H

#include "core/plan/cost/tensors.h" /* groups of rows on devices */
#include "worker/layer/exchange.h"
#include "worker/layer/layers.h"

/* The first of n ranks, none of which it meets: what it computes is as if they were there. Nothing to free before it was
 * run with (cs_context_free). */
struct cs_context cs_tensors_alone(const struct cs_device *device, int n);
/* What the first rank alone adds: biases and residuals of second products. */
bool cs_tensors_is_first(const struct cs_run *run);
/* x (n acts) = the sum of all ranks' x; nothing happens where the run's stage is not shared */
void cs_tensors_sum(struct cs_run *run, int64_t n, void *x);
/* the same of fp32 numbers, whatever acts are */
void cs_tensors_sum_floats(struct cs_run *run, int64_t n, float *x);
/* The sum of acts in two steps, between which other things are computed: x is neither read nor written. */
struct cs_exchange cs_tensors_start(struct cs_run *run, int64_t n, void *x);
void cs_tensors_finish(const struct cs_exchange *sum);
/* Parts of `bytes` each, one behind the other in the order of the ranks: the own one lies in its place,
 * those of the others come. */
void cs_tensors_gather(struct cs_run *run, int64_t bytes, void *parts);

/* ---- products at the edges of a half ----
 *
 * What lies outside of the half (x of a first product, residual, y and dy of a second one, dx of a first
 * one) is of the own rows (worker/layer/sequence.h), what lies inside is of all rows. Where rows are
 * split they travel beside the products: each works first on the rows that are here, or last on those
 * that stay. */

/* y (rows, out) = act(x (rows, in) w^T + b), as cs_run_linear_act */
void cs_run_linear_all(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                       const struct cs_shard *w, const struct cs_shard *b, enum cs_act act,
                       void *pre, void *y);
/* y (rows, out) = x (rows, in) w^T + b + residual, of all ranks' columns of x; as cs_run_linear_act */
void cs_run_linear_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                       const struct cs_shard *w, const struct cs_shard *b, const void *residual,
                       void *y);
/* Gradients of a second product: those of w and b as cs_run_linear_wgrad, and dx (rows, in) as
 * cs_run_linear_dgrad_act. dx may lie where x does, where rows are not split. */
void cs_run_linear_grad_all(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *dy, const void *x, const struct cs_shard *w,
                            const struct cs_shard *b, enum cs_act act, const void *pre, void *dx);
/* Gradients of a first product: those of w and b as cs_run_linear_wgrad, and dx (rows, in) = dy (rows,
 * out) w, of all ranks' columns of dy; dx NULL: not needed; x NULL: nothing trains. x and dx are apart. */
void cs_run_linear_grad_sum(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                            const void *dy, const void *x, const struct cs_shard *w,
                            const struct cs_shard *b, void *dx);

#endif
