/* What the ranks of a context do of a slot that is filled to its budget, as one document whose items lie
 * evenly between its text: which rows each has under the rule of the job, what of every kind of
 * attention these are, and how many keys go from rank to rank. From it follow the times of layers on
 * such a rank. */
#ifndef CS_PLAN_COST_CONTEXT_WORK_H
#define CS_PLAN_COST_CONTEXT_WORK_H

#include "core/model/budget.h"
#include "core/model/graph.h"
#include "core/plan/cluster.h"
#include "core/plan/cost/basis/profile.h"

struct cs_context_work {
    int32_t ranks;
    bool moves_heads;    /* rows of all ranks go to each, for some heads; else keys */
    bool own_first;      /* of keys: attention over the own ones by itself, while others come */
    int32_t n_rows;      /* of the slot */
    const int64_t *rows; /* (ranks) */
    const double
        *pairs; /* (graph->n_attentions, ranks) of all pairs of that attention, their part */
    const double *
        own; /* (graph->n_attentions, ranks) of these pairs, the part with keys of the rank itself */
    const int64_t *
        moved; /* (graph->n_attentions) rows that come to a rank or leave it, of the rank with most: of keys, or
                 * where heads move of the heads of a rank */
    int64_t most_rows;  /* of a rank */
    int64_t most_moved; /* under any attention */
    double slack;       /* the largest work over the mean: 1 is even */
};

/* How the time of a layer grows with a slot: parts of it that do with the pairs of its attention, and
 * not at all; what is left does with rows. */
struct cs_time_parts {
    double pairs, fixed;
};

/* context: the rule, as plan.context; NULL: the usual one. CS_INVALID: no such rule. ranks 1: all of it
 * on one. moves_heads: they divide. */
enum cs_status cs_context_work_make(const struct cs_graph *graph,
                                    const struct cs_slot_budget *budget, const char *context,
                                    bool moves_heads, int32_t ranks, struct cs_arena *arena,
                                    struct cs_context_work *out, struct cs_err *err) CS_NODISCARD;

/* Of a layer of the LLM in such a slot, as FLOPs have it: forward; backward, of inputs and of weights (whose gradients are
 * read and written whole, however few rows there are). */
struct cs_layer_parts {
    struct cs_time_parts fwd, bwd_input, bwd_weight;
};
struct cs_layer_parts cs_layer_parts(const struct cs_graph *graph, const struct cs_layer *layer,
                                     const struct cs_slot_budget *budget);
/* as they were measured on one rank */
struct cs_layer_parts cs_profile_parts(const struct cs_profile_row *row,
                                       const struct cs_layer *layer, int64_t rows, bool is_bf16);

/* cost of a whole slot on one rank becomes that of the rank of the context that takes longest: ranks
 * meet in every layer. fixed: what of it a shorter slot takes as well. Keys and values come over the device's link, in the backward once more with
 * their gradients going back; or queries, keys and values of heads, whose output goes back, in the backward
 * with output and gradients beside them. tp: ranks that share the heads of each. */
void cs_context_layer_cost(const struct cs_context_work *work, const struct cs_graph *graph,
                           const struct cs_layer *layer, const struct cs_layer_parts *parts,
                           const struct cs_device_class *device, int32_t tp,
                           struct cs_layer_cost *cost, struct cs_layer_cost *fixed);
#endif
