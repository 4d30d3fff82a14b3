/* What a sample costs the ranks, before anything of it runs: forward and backward of every branch,
 * in the plan's nanoseconds.
 *
 * The plan's times are those of a slot filled to its budgets. An encoder sees every item for
 * itself: its share is in proportion to the FLOPs of its patches, of the pairs among them and of its
 * rows; 1 item of the largest size is 1. In the LLM a packed sample sees itself only: its share
 * of the FLOPs is a t + b pairs + c labels with the coefficients of the graph (t rows; pairs by the
 * rule of each kind of attention, core/mask/amounts.h: t (t + 1) / 2 of a causal one); what trains weighs with its
 * backward. Costs of samples add up to those of their slot.
 *
 * The sum over the stages of a branch does not depend on where it is cut, so neither does what
 * follows from these costs. */
#ifndef CS_SPREAD_WEIGH_H
#define CS_SPREAD_WEIGH_H

#include "core/data/slot.h"
#include "core/mask/amounts.h"
#include "core/model/graph.h"
#include "core/plan/plan.h"

struct cs_weigh {
    int32_t n_encoders;
    double item_ns[CS_MAX_ENCODERS];     /* of an item of the largest size */
    double token_ns, label_ns;           /* LLM: per row, per label */
    double full_ns[CS_MAX_ENCODERS + 1]; /* of a slot filled to its budgets; the LLM last */

    struct cs_weigh_pairs {
        double ns; /* per pair of rows that see each other, in all LLM blocks of one kind */
        struct cs_mask_rule rule;
    } pairs[CS_ATTENTIONS];

    int32_t n_pairs;

    /* FLOPs of an item over those of the largest: per patch, per row that leaves, per pair of
     * patches that see each other. */
    struct cs_weigh_item {
        double patch, row, pair[CS_ATTENTIONS];
        const struct cs_attention *attention; /* of the graph */
        int32_t n_attentions;
        struct cs_item_shape largest;
    } item[CS_MAX_ENCODERS];
};

void cs_weigh_make(const struct cs_graph *graph, const struct cs_plan *plan, struct cs_weigh *out);
/* encoder -1: the LLM */
double cs_weigh_full(const struct cs_weigh *weigh, int encoder);
/* n items of the encoder; shape NULL: all of the largest size */
double cs_weigh_encoder(const struct cs_weigh *weigh, int encoder,
                        const struct cs_item_shape *shape, int32_t n);
/* a sample of text */
double cs_weigh_llm(const struct cs_weigh *weigh, int32_t tokens, int32_t labels);
/* tokens with the rows of its items: n of every encoder; shape, or one of an encoder, as above */
double cs_weigh_sample(const struct cs_weigh *weigh, int32_t tokens, int32_t labels,
                       const struct cs_item_shape *const *shape, const int32_t *n);

#endif
