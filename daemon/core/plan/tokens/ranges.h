/* Cuts of a sequence into contiguous ranges: the static layouts at single tokens. */
#ifndef CS_PLAN_TOKENS_RANGES_H
#define CS_PLAN_TOKENS_RANGES_H

#include <stdint.h>

/* [begin, end) of a sequence */
struct cs_token_range {
    int32_t begin, end;
};

/* Near-equal cut into n_parts, the remainder to the first parts: part i of n_tokens. */
struct cs_token_range cs_balance_part(int32_t n_tokens, int32_t n_parts, int32_t i);
/* the two chunks of a rank; the second one may be empty */
void cs_balance_zigzag_ranges(int32_t n_tokens, int32_t ranks, int32_t rank,
                              struct cs_token_range out[2]);

#endif
