/* What layers wait for on ranks that share their matrices: sums and rows on their way, beside the products that they wait
 * for or not (worker/layer/tensors.h, worker/layer/sequence_products.h). */
#ifndef CS_PLAN_COST_TENSORS_H
#define CS_PLAN_COST_TENSORS_H

#include "core/model/budget.h"
#include "core/model/spec.h"
#include "core/plan/cluster.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/tensor_share.h"

/* On devices products are made in groups of rows, so that the sum of one is beside the product of the next: so many at
 * most, each with as many bytes to sum at least. */
enum { CS_TENSORS_GROUPS = 8, CS_TENSORS_GROUP_BYTES = 8 << 20 };

/* Ranks that share a branch; 1: none do. */
struct cs_tensor_ranks cs_tensor_ranks_of(const struct cs_spec *spec, const char *branch);

/* A layer with a slot, as each of the ranks that share it has it. */
struct cs_tensor_layer {
    const struct cs_graph *graph;
    const struct cs_layer *layer;
    const struct cs_device_class *device;
    struct cs_tensor_ranks ranks;
    struct cs_layer_work work; /* rows 0: what is waited for whatever they are */
    struct cs_layer_cost
        fixed; /* of what it computes: what has nothing to do with rows, and hides nothing */
    bool
        adds; /* where rows are split: what it computes has it that parts which came are added (cs_tensor_adds) */
};

/* Adds to what a rank computes of a layer (core/plan/cost/tensor_share.h) what it waits for, and what exchanges beside
 * products take from these.
 *
 * Rows whole: the second product of each half of a block is followed by a sum of all rows (all-reduce), as is the data
 * gradient of its first one; large ones go in groups of rows, each beside the product of the next. Split: in front of each first product, and of the
 * data gradient of each second one, rows come from one rank after the other (shifts) while products of those that are
 * here run; behind second products, and data gradients of first ones, parts go while the others are made. Where weights
 * train the input comes once more. What comes first and goes last has nothing beside it. CPU ranks hide nothing.
 *
 * Products have their FLOPs' share of what rows take in the layer. The backward is taken to be one action: where schedules
 * split it less is hidden. Embeddings of the own words are summed; the head's gradient is, in its forward, where it makes
 * one, behind what each rank says of its words. Rows that are split are put together where a block's neighbour is none. */
void cs_tensor_add_sums(const struct cs_tensor_layer *of, struct cs_layer_cost *cost);

#endif
