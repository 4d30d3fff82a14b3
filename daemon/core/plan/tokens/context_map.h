/* The map of a slot's LLM rows to the ranks of a context: a pure function of the slot and a rule, so
 * that every rank that sees the slot knows it. */
#ifndef CS_PLAN_TOKENS_CONTEXT_MAP_H
#define CS_PLAN_TOKENS_CONTEXT_MAP_H

#include "core/plan/tokens/balance.h"

/* What a row costs: of every kind of attention the pairs that its mask allows, and the rest. */
struct cs_context_cost {
    double per_row;
    const double *per_pair; /* (n_masks) */
};

/* owner (n_rows): the rank of every row, 0 .. ranks - 1. Rows are dealt out in blocks
 * (core/plan/context.h), no rank gets more of them than the cap; ranks may get none. masks (n_masks):
 * the same rows under different rules. */
enum cs_status cs_context_map(const struct cs_mask_plan *masks, int32_t n_masks,
                              const struct cs_context_cost *cost, enum cs_balance_how how,
                              int32_t ranks, int32_t *owner, struct cs_err *err) CS_NODISCARD;

#endif
