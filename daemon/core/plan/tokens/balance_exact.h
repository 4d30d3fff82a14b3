/* One problem of token balance on its way through the layouts, and the search for the best
 * owners. */
#ifndef CS_PLAN_TOKENS_BALANCE_EXACT_H
#define CS_PLAN_TOKENS_BALANCE_EXACT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"

struct cs_balance_item {
    double work;
    int32_t block;
};

struct cs_balance_job {
    const double *work; /* (n) */
    int32_t n, ranks, cap;
    uint64_t seed;
    struct cs_balance_item *item; /* (n) heaviest first */
    double bound;                 /* no assignment has a smaller largest load */
    int32_t *owner;               /* (n) the layout being made */
    int64_t max_nodes, nodes;
    bool is_exhausted; /* the search proved its result */
    struct cs_arena *arena;
};

/* owner holds a legal assignment (LPT); replaced by a better one if max_nodes suffice to find
 * it. */
void cs_balance_improve(struct cs_balance_job *job);

#endif
