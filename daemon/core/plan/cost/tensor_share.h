/* What of a layer's time on one rank is left on each of the ranks that share its matrices. Their products are smaller,
 * and smaller products are less efficient; what lies between them (norms, residuals, rotations) is not smaller, unless
 * ranks split rows there. So it is as a profile has measured it, where it has ranks that share the layer.
 *
 * Plans and searches ask here before they add what ranks wait for: sums over tensors (core/plan/cost/tensors.h) and
 * exchanges of a context. */
#ifndef CS_PLAN_COST_TENSOR_SHARE_H
#define CS_PLAN_COST_TENSOR_SHARE_H

#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/context_work.h"

struct cs_tensor_ranks {
    int32_t tp;       /* 1: it is not shared */
    bool splits_rows; /* sp */
};

/* Its products are divided: blocks and heads. Ranks that share the others have all of them. */
bool cs_tensor_divides(const struct cs_layer *layer);
/* The cost of a layer on one rank becomes that on each of them: the part that was measured with so many ranks of what
 * was measured with one, at the rows (cs_profile_rows) that they have; where nothing was measured the tp-th part. Rows
 * between products of a block are split where a row of the profile has it, else as if they were not. */
struct cs_layer_cost cs_tensor_share(const struct cs_profile *profile,
                                     const struct cs_device_class *device,
                                     const struct cs_graph *graph, const struct cs_layer *layer,
                                     int64_t rows, struct cs_tensor_ranks ranks,
                                     struct cs_layer_cost whole);
/* That cost is one of ranks that split rows as they were measured: what comes from others is added in it. */
bool cs_tensor_adds(const struct cs_profile *profile, const struct cs_graph *graph,
                    const struct cs_layer *layer, struct cs_tensor_ranks ranks);
/* How that grows: as the profile has it, else as FLOPs have it, and operators of such a cost. */
struct cs_layer_parts cs_tensor_parts(const struct cs_profile *profile,
                                      const struct cs_device_class *device,
                                      const struct cs_graph *graph, const struct cs_layer *layer,
                                      const struct cs_slot_budget *budget,
                                      struct cs_tensor_ranks ranks,
                                      const struct cs_layer_cost *cost);
/* What the profile has for the shortest slot; without one what operators take (basis/operators.h). */
struct cs_layer_cost cs_tensor_fixed(const struct cs_profile *profile,
                                     const struct cs_device_class *device,
                                     const struct cs_graph *graph, const struct cs_layer *layer,
                                     struct cs_tensor_ranks ranks);

/* Whether the ffn of a block before the head looks at rows with a label alone, on ranks that share its matrices. */
bool cs_tensor_picks(const struct cs_graph *graph, const struct cs_layer *layer,
                     const struct cs_layer_work *work, struct cs_tensor_ranks ranks);
/* A block before the head (cs_layer_feeds_head), of which a profile has the cost with all rows, as FLOPs have it not: its
 * ffn over rows with a label alone, and back where it looks at all of them. Other layers' costs stay as they are. */
struct cs_layer_cost cs_cost_of_labels(const struct cs_graph *graph, const struct cs_layer *layer,
                                       const struct cs_layer_work *work,
                                       const struct cs_layer_cost *fixed,
                                       struct cs_layer_cost cost);
struct cs_layer_cost cs_cost_of_all(const struct cs_graph *graph, const struct cs_layer *layer,
                                    const struct cs_layer_work *work,
                                    const struct cs_layer_cost *fixed, struct cs_layer_cost cost);

#endif
