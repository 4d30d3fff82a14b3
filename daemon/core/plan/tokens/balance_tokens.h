/* From a mask over work and owners of blocks to positions of tokens. */
#ifndef CS_PLAN_TOKENS_BALANCE_TOKENS_H
#define CS_PLAN_TOKENS_BALANCE_TOKENS_H

#include "core/plan/tokens/balance.h"

/* A sequence is left whole, on rank 0, when there is one rank or less than a block for every
 * rank. */
bool cs_balance_splits(int32_t n_tokens, int32_t ranks, int32_t block);

/* Positions of every rank, ascending: rank r owns position[first[r] .. first[r + 1]). */
struct cs_token_split {
    int32_t n_tokens, ranks;
    const int32_t *first;    /* (ranks + 1) */
    const int32_t *position; /* (n_tokens) every position once */
};

/* owner (ceil(n_tokens / block)); the last block may be ragged. Arrays in the arena. */
void cs_balance_expand(const int32_t *owner, int32_t n_tokens, int32_t block, int32_t ranks,
                       struct cs_arena *arena, struct cs_token_split *out);

/* The whole way from a mask: work of every block, owners, positions. options->cap counts blocks. A
 * sequence that is not split (above) belongs to rank 0. result may be NULL. */
enum cs_status cs_balance_tokens(const struct cs_mask_plan *mask,
                                 const struct cs_balance_cost *cost,
                                 const struct cs_balance_options *options, struct cs_arena *arena,
                                 struct cs_token_split *out, struct cs_balance_result *result,
                                 struct cs_err *err) CS_NODISCARD;

#endif
