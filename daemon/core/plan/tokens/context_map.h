/* The map of a slot's LLM rows to the ranks of a context: a pure function of the slot and a rule, so
 * that every rank that sees the slot knows it. */
#ifndef CS_PLAN_TOKENS_CONTEXT_MAP_H
#define CS_PLAN_TOKENS_CONTEXT_MAP_H

#include "core/plan/tokens/balance.h"

/* A slot is dealt out while a step waits for it: the exact rule looks at so many assignments, 16 / ranks of
 * them on more than 16 ranks. */
enum { CS_CONTEXT_NODES = 1 << 14 };

/* What a row costs: of every kind of attention the pairs that its mask allows, and the rest. */
struct cs_context_cost {
    double per_row;
    const double *per_pair; /* (n_masks) */
    bool
        moves_heads; /* every rank has some heads with all pairs: as much of them, whatever its rows */
};

/* What a rank has of a slot. */
struct cs_context_load {
    int64_t rows;
    int64_t pairs; /* of query and key, under every mask once; where heads move its share of all */
    double work;   /* in the unit of the costs */
};

/* owner (n_rows): the rank of every row, 0 .. ranks - 1. Rows are dealt out in blocks
 * (core/plan/context.h), no rank gets more of them than the cap; ranks may get none. masks (n_masks):
 * the same rows under different rules. load (ranks). */
enum cs_status cs_context_map(const struct cs_mask_plan *masks, int32_t n_masks,
                              const struct cs_context_cost *cost, enum cs_balance_how how,
                              int32_t ranks, int32_t *owner, struct cs_context_load *load,
                              struct cs_err *err) CS_NODISCARD;

/* The two halves of it: what every block of a slot costs, and which rank has it. */
struct cs_context_blocks {
    int32_t n_rows, block, n; /* rows of a block, the last one may have fewer; blocks */
    double *work;             /* (n) in the unit of the costs */
    int64_t *pairs;           /* (n) */
    double even; /* work of every rank beside that of its blocks: of attention where heads move */
};

/* masks[0].n_tokens > 0; results in the arena */
void cs_context_weigh(const struct cs_mask_plan *masks, int32_t n_masks,
                      const struct cs_context_cost *cost, int32_t ranks, struct cs_arena *arena,
                      struct cs_context_blocks *out);
/* owner: (blocks->n) in the arena. */
enum cs_status cs_context_deal(const struct cs_context_blocks *blocks, enum cs_balance_how how,
                               int32_t ranks, struct cs_arena *arena, int32_t **owner,
                               struct cs_err *err) CS_NODISCARD;

/* Who needs which keys under a mask: need (ranks, blocks of n_rows) is 1 where some row of the rank
 * sees some row of the block. owner: of a map as above. Where that is not known in closed form, ranks
 * with rows need all. */
void cs_context_needs(const struct cs_mask_plan *mask, const int32_t *owner, int32_t ranks,
                      uint8_t *need);

#endif
