/* What a sample costs the ranks, before anything of it runs: forward and backward of every branch,
 * in the plan's nanoseconds.
 *
 * The plan's times are those of a slot filled to its budgets. An encoder sees every item for
 * itself, so a sample's share is its items. In the LLM a packed sample sees itself only: its share
 * of the FLOPs is a t + b pairs + c labels with the coefficients of the graph (t rows; pairs by the
 * rule of each kind of attention, core/mask/amounts.h: t (t + 1) / 2 of a causal one); what trains weighs with its
 * backward. Costs of samples add up to those of their slot.
 *
 * The sum over the stages of a branch does not depend on where it is cut, so neither does what
 * follows from these costs. */
#ifndef CS_SPREAD_WEIGH_H
#define CS_SPREAD_WEIGH_H

#include "core/mask/amounts.h"
#include "core/model/graph.h"
#include "core/plan/plan.h"

struct cs_weigh {
    int32_t n_encoders;
    double item_ns[CS_MAX_ENCODERS];     /* of one item */
    double token_ns, label_ns;           /* LLM: per row, per label */
    double full_ns[CS_MAX_ENCODERS + 1]; /* of a slot filled to its budgets; the LLM last */

    struct cs_weigh_pairs {
        double ns; /* per pair of rows that see each other, in all LLM blocks of one kind */
        struct cs_mask_rule rule;
    } pairs[CS_ATTENTIONS];

    int32_t n_pairs;
    int32_t item_rows[CS_MAX_ENCODERS];
};

void cs_weigh_make(const struct cs_graph *graph, const struct cs_plan *plan, struct cs_weigh *out);
/* encoder -1: the LLM */
double cs_weigh_full(const struct cs_weigh *weigh, int encoder);
double cs_weigh_encoder(const struct cs_weigh *weigh, int encoder, int32_t items);
/* a sample of text */
double cs_weigh_llm(const struct cs_weigh *weigh, int32_t tokens, int32_t labels);
/* tokens with the rows of items (by encoder) */
double cs_weigh_sample(const struct cs_weigh *weigh, int32_t tokens, int32_t labels,
                       const int32_t *items);

#endif
