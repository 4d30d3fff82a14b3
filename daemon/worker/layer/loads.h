/* Loads of the experts of a slot, which its balancing loss is made of: that of transformers
 * (load_balancing_loss_func of Qwen3-MoE and Mixtral, 5.17). With E experts and R the rows of the slot
 * times the blocks that have experts,
 *
 *   loss = E * sum over e of (pairs of e) / R * (sum of the probabilities of e) / R
 *
 * over all rows on whatever ranks and all such blocks of the model: an expert that is idle in one block may
 * be busy in another. Where choices are constants the gradient of a row's probability of e is E / R^2 times
 * the pairs of e in all blocks, and the same in each.
 *
 * Loads (kernels/experts.h) go through the stages with the rows: a forward adds those of its blocks to what
 * came with its rows and hands the sum on; at the last stage the ranks that have parts of the slot add up
 * theirs, and backwards all of them come with the gradients. A rank without rows of a slot counts none, and
 * nothing is sent to it. Other slots, those of other replicas whose rows come to the same experts too, do not
 * count; a step's loss is the mean of its slots by their rows: the same in every layout. */
#ifndef CS_WORKER_LAYER_LOADS_H
#define CS_WORKER_LAYER_LOADS_H

#include "worker/layer/layers.h"

/* The pass of a stage of the model begins: run->load is what its blocks add to, or read in the backward;
 * NULL: nobody asks. is_last: of the branch, its loads are the slot's result (input->at.load). */
void cs_loads_forward(struct cs_run *run, const struct cs_arch *arch,
                      const struct cs_layer_ends *ends, bool is_last);
void cs_loads_backward(struct cs_run *run, const struct cs_arch *arch,
                       const struct cs_layer_ends *ends, bool is_last);
/* Behind the last layer: the loads of the rows on other ranks are added. */
void cs_loads_join(struct cs_run *run, const struct cs_layer_model *last);

/* those of the layer's rows that count: what is behind them is padding */
int64_t cs_loads_rows(const struct cs_run *run, const struct cs_layer_model *l, int64_t rows);
/* What the gradient of every row's probability of an expert is for each pair of it. Sums of losses are
 * divided by the step's labels in the end, so it is multiplied with them; a slot has the share that its rows
 * are of the step's. */
float cs_loads_balance(const struct cs_run *run, const struct cs_layer_model *l);

#endif
